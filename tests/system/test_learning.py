"""A learning port: a guest with machines of its own behind a bridge (nested containers or VMs).

    nested 1 ─┐
    nested 2 ─┴ br0 (guest) ── eth0 ── port ┤ host
"""

import contextlib
import math
import time

import pytest
from scapy.layers.l2 import ARP, Ether

import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from net import PATIENCE, veth, wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, show, verdicts
from topology import Guest, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane

FIRST_NESTED = 40
#: Seconds until a learned address is forgotten: longer than what a test does before, on a busy machine too.
AGE = math.ceil(3 * PATIENCE)


@pytest.fixture(params=[VXLAN, GENEVE, VLAN])
def encapsulation(request):
    return request.param


def scene_with_bridges(lab, encapsulation, learning=True, wire="whole", nested=((1, 2), ()), **switch):
    """Guests 1 and 2, on two hosts, are bridges at learning ports; guest 3, on the second host, is an
    ordinary one. `nested` names the machines behind each bridge."""
    options = {"unknown_unicast": "flood", **switch}
    scene = Scene(lab, encapsulation, 4, wire, guests=(1, 2), switch=options)
    inside = {}
    for guest, numbers in zip(scene.guests, nested):
        ports = scene.fabric.data["ports"]
        ports[f"port{guest.number}"].update(addresses=[], learning=learning)
        guest.ns.ip("address flush dev eth0", "link add br0 type bridge mcast_snooping 0",
                    f"link set br0 addrgenmode none address {guest.mac} mtu {scene.mtu} up",
                    "link set eth0 master br0")
        for number in numbers:
            inside[number] = add_nested(lab, scene, guest, number)
    scene.apply()
    return scene, inside


def add_nested(lab, scene, guest, number):
    """A machine behind a guest's bridge; the fabric knows nothing of it."""
    ns = lab.namespace(f"n{number}")
    v4, v6 = guest_addresses(FIRST_NESTED + number)
    machine = Guest(ns, guest.host, f"n{number}", FIRST_NESTED + number,
                    guest_mac(FIRST_NESTED + number), v4, v6)
    plug(scene, guest, machine)
    return machine


def plug(scene, guest, machine):
    """The cable between a machine and a guest's bridge."""
    veth(guest.ns, machine.device, machine.ns, "eth0")
    guest.ns.ip(f"link set {machine.device} addrgenmode none mtu {scene.mtu} master br0 up")
    machine.ns.ip(f"link set eth0 address {machine.mac} mtu {scene.mtu} up",
                  f"address add {machine.v4}/24 dev eth0", f"address add {machine.v6}/64 dev eth0 nodad")
    wait_until(lambda: guest.ns.link(machine.device)["linkinfo"]["info_slave_data"]["state"]
               == "forwarding", what="the bridge to take the new port")


def test_nested_machines_talk_to_a_guest_on_another_host(lab, encapsulation, wire):
    scene, inside = scene_with_bridges(lab, encapsulation, wire=wire)
    far = scene.guests[2]
    for machine in inside.values():
        for a, b in zip(machine.addresses, far.addresses):
            traffic.ping(machine.ns, b)
            traffic.tcp_equal(machine.ns, a, far.ns, b, size=traffic.MEBIBYTE)
            traffic.tcp_equal(far.ns, b, machine.ns, a, size=traffic.MEBIBYTE, port=5301)
            traffic.udp_equal(far.ns, b, machine.ns, a)


def test_a_guest_finds_nested_machines_nobody_has_heard_of(lab, encapsulation):
    """The question is flooded, the answer teaches; after it nothing is flooded any more."""
    scene, inside = scene_with_bridges(lab, encapsulation)
    far = scene.guests[2]
    for machine in inside.values():
        traffic.ping(far.ns, machine.v4, count=1)
        traffic.ping(far.ns, machine.v6, count=1)
    names = [host.name for host in scene.hosts]
    before = [verdicts(name) for name in names]
    for machine in inside.values():
        with PacketSocket(far.ns, "eth0") as out:
            for _ in range(5):
                out.send(plain_frame(far.mac, machine.mac))
    rose = [difference(old, verdicts(name)) for old, name in zip(before, names)]
    flooded = sum(each.get((hook, "flood"), 0) for each in rose for hook in ("from_port", "from_underlay"))
    assert flooded == 0, rose
    assert rose[0]["from_underlay", "to_port"] == 10


def test_without_flooding_the_nested_machine_has_to_speak_first(lab, encapsulation):
    scene, inside = scene_with_bridges(lab, encapsulation, unknown_unicast="drop")
    machine, far = inside[1], scene.guests[2]
    frame = plain_frame(far.mac, machine.mac)
    with PacketSocket(far.ns, "eth0") as out, PacketSocket(machine.ns, "eth0", ETH_P_ALL) as into:
        out.send(frame)
        assert into.receive(0.3) is None or encapsulation == VLAN
        traffic.ping(machine.ns, far.v4, count=1)
        into.receive_all()
        out.send(frame)
        assert into.receive() == frame


def test_a_machine_moves_from_one_learning_port_to_another(lab, encapsulation):
    scene, inside = scene_with_bridges(lab, encapsulation)
    one, two, far = scene.guests
    machine, stays = inside[1], inside[2]
    traffic.ping(far.ns, machine.v4)
    traffic.ping(far.ns, stays.v4)
    for target in (two, one, two):
        machine.ns.ip("link delete eth0")
        plug(scene, target, machine)
        # As a migrated machine does: it says where it is now, before anybody asks.
        with PacketSocket(machine.ns, "eth0") as out:
            out.send(plain_frame(machine.mac, BROADCAST))
        traffic.ping(far.ns, machine.v4)
        traffic.ping(far.ns, stays.v4)
        traffic.ping(stays.ns, machine.v4)
        traffic.tcp_equal(machine.ns, machine.v4, far.ns, far.v4, size=traffic.MEBIBYTE)


#: Of VRRP, for the router 7.
SHARED_MAC, SHARED = "00:00:5e:00:01:07", "198.18.100.99"


def take_over(guest, device):
    """The guest has the shared address now, and says so, as VRRP's master does."""
    guest.ns.ip(f"link set {device} up", f"address replace {SHARED}/32 dev {device}")
    mac = guest.ns.mac(device)
    claim = Ether(src=mac, dst=BROADCAST) / ARP(op=1, hwsrc=mac, psrc=SHARED, pdst=SHARED)
    with PacketSocket(guest.ns, device) as out:
        out.send(bytes(claim))


@pytest.mark.parametrize("shared", ["address", pytest.param("mac", marks=pytest.mark.needs_kernel("macvlan"))])
def test_guests_share_what_no_port_declares(lab, encapsulation, shared):
    """As `overlane check` advises where two ports declare the same: an address that moves, and its MAC with it."""
    scene = Scene(lab, encapsulation, 4, guests=(1, 2))
    one, two, far = scene.guests
    device = "eth0" if shared == "address" else "shared"
    for guest in (one, two):
        # Only the device that has an address answers for it, as keepalived arranges.
        guest.ns.sysctl("net.ipv4.conf.all.arp_ignore", 1)
        scene.fabric.data["ports"][f"port{guest.number}"]["security"] = "mac"
        if shared == "mac":
            scene.fabric.data["ports"][f"port{guest.number}"]["learning"] = True
            guest.ns.ip(f"link add link eth0 name {device} address {SHARED_MAC} type macvlan mode bridge")
    scene.apply()
    last = None
    for holder in (one, two, one):
        if last:
            last.ns.ip(f"address del {SHARED}/32 dev {device}")
        take_over(holder, device)
        traffic.ping(far.ns, SHARED)
        (entry,) = far.ns.json(f"neigh show {SHARED} dev eth0")
        assert entry["lladdr"] == holder.ns.mac(device)
        traffic.tcp_equal(far.ns, far.v4, holder.ns, SHARED, size=traffic.MEBIBYTE)
        traffic.ping(far.ns, holder.v4)
        last = holder


@contextlib.contextmanager
def strangers(scene, guest=0):
    """Frames out of a guest's bridge with any source address, straight onto its port."""
    with PacketSocket(scene.guests[guest].ns, "eth0") as out:
        yield lambda number, target=BROADCAST: out.send(plain_frame(stranger(number), target))


def stranger(number):
    return f"02:00:00:77:00:{number:02x}"


def rise(scene, action):
    """What host 1's port hook counted meanwhile."""
    before = verdicts(scene.hosts[0].name)
    action()
    rose = difference(before, verdicts(scene.hosts[0].name))
    return {verdict: count for (hook, verdict), count in rose.items() if hook == "from_port"}


def test_the_limit_holds_and_those_already_learned_go_on(lab, encapsulation):
    scene, _ = scene_with_bridges(lab, encapsulation, learning={"limit": 3, "age": 300}, nested=((), ()))
    with strangers(scene) as send:
        for number in range(3):
            assert rise(scene, lambda number=number: send(number)) == {"flood": 1}
        for number in range(3, 8):
            assert rise(scene, lambda number=number: send(number)) == {"mac_limit": 1}
        limits = show("drops", scene.hosts[0].name)["limits"]
        assert limits == [{"reason": "mac_limit", "whose": "port port1", "used": 3, "most": 3, "of": "MACs"}]
        for number in range(3):
            assert rise(scene, lambda number=number: send(number)) == {"flood": 1}
        # The port's own address needs no learning.
        own = plain_frame(scene.guests[0].mac, BROADCAST)
        with PacketSocket(scene.guests[0].ns, "eth0") as out:
            assert rise(scene, lambda: out.send(own)) == {"flood": 1}


def test_the_forgotten_make_room(lab, encapsulation):
    scene, _ = scene_with_bridges(lab, encapsulation, learning={"limit": 2, "age": AGE}, nested=((), ()))
    with strangers(scene) as send:
        for number in range(2):
            assert rise(scene, lambda number=number: send(number)) == {"flood": 1}
        assert rise(scene, lambda: send(2)) == {"mac_limit": 1}
        time.sleep(AGE)
        wait_until(lambda: rise(scene, lambda: send(2)) == {"flood": 1}, what="room for a new one")


@pytest.mark.parametrize("learned_at", [0, 1], ids=["by the remote", "at the port"])
def test_a_learned_address_is_forgotten_after_its_age(lab, encapsulation, learned_at):
    """Then it is unknown again: flooded, as before it was learned."""
    scene, _ = scene_with_bridges(lab, encapsulation, learning={"limit": 2, "age": AGE}, nested=((), ()))
    far = scene.guests[2]
    with strangers(scene, learned_at) as send, PacketSocket(far.ns, "eth0") as out:
        send(0)
        host = scene.hosts[1].name

        def ask():
            before = verdicts(host)
            out.send(plain_frame(far.mac, stranger(0)))
            return difference(before, verdicts(host))

        assert ("from_port", "flood") not in ask()
        time.sleep(AGE)
        wait_until(lambda: ask().get(("from_port", "flood")) == 1, what="the address to be forgotten")


def test_no_port_can_take_an_address_that_the_fabric_gave_away(lab, encapsulation):
    scene, _ = scene_with_bridges(lab, encapsulation, nested=((), ()))
    one, two, far = scene.guests
    with PacketSocket(one.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for owner in (two, far):
            assert rise(scene, lambda owner=owner: out.send(plain_frame(owner.mac, BROADCAST))) \
                == {"spoofed_mac": 1}
        frame = plain_frame(one.mac, far.mac)
        out.send(frame)
        assert into.receive() == frame, "the address is still where the fabric says"
