"""No packet of a tenant reaches a device that took another one's index, from the first packet on and before any `apply`.

    guest 1 ── p1 ┤ host 1 ├ uplink ══ uplink ┤ host 2 ├ p3 ── guest 3
    guest 2 ── p2 ┤        │
   stranger ── s0 ┤        │        the device s0 gets the index of one that went
"""

import contextlib
import json
import threading

import pytest

import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame, udp_frame
from logical import LEG, OUTSIDE4, Estate
from net import veth, wait_until
from netkit import L2, create
from overlane import GENEVE, NO_TYPES, VLAN, VXLAN, apply, difference, remote_counters, show, verdicts
from topology import UPLINK, Guest, Scene, add_guest, guest_addresses, guest_mac
from vms import add_vm

pytestmark = pytest.mark.needs_overlane

MULTICAST = "01:00:5e:00:00:05"
STRANGER = "s0"

#: The programs read the kernel's structures, or ask it for each packet.
both_ways = pytest.mark.parametrize("prefix", [pytest.param((), id="types"), pytest.param(
    NO_TYPES, id="no types", marks=pytest.mark.needs("unshare"))])


def index(ns, device):
    return ns.link(device)["ifindex"]


class Stranger:
    """A device that is nobody's, and what leaves by it: `place` is where its near end is in the end."""

    def __init__(self, lab, place, number, name=STRANGER):
        self.lab, self.place, self.number, self.name = lab, place, number, name
        self.far = lab.namespace("s", ipv6=False)

    def _raise(self):
        self.place.sysctl(f"net.ipv6.conf.{self.name}.disable_ipv6", 1)
        self.place.ip(f"link set {self.name} up")
        self.far.ip("link set eth0 up")
        assert index(self.place, self.name) == self.number

    def take(self, lose):
        """The device goes, and a new one is given its index."""
        lose()
        self._add(self.place)
        self._raise()

    def come(self, lose):
        """Made in another namespace; there it has the index, and keeps it where it is free."""
        elsewhere = self.lab.namespace("e", ipv6=False)
        self._add(elsewhere)
        lose()
        elsewhere.ip(f"link set {self.name} netns {self.place.name}")
        self._raise()

    def _add(self, ns):
        ns.ip(f"link add {self.name} index {self.number} type veth peer name eth0 netns {self.far.name}")

    def hears(self, send, *macs):
        """What leaves by it while `send` runs, of frames that have one of these MACs anywhere."""
        with PacketSocket(self.far, "eth0", ETH_P_ALL) as socket:
            send()
            heard = socket.receive_all(0.2)
        wanted = [bytes.fromhex(mac.replace(":", "")) for mac in macs]
        return [frame for frame in heard if any(mac in frame for mac in wanted)]


def frames_to(guest, sender):
    """Unicast, multicast and broadcast, of IP and not."""
    for target in (guest.mac, MULTICAST, BROADCAST):
        yield plain_frame(sender.mac, target)
        yield udp_frame(sender.mac, target, sender.v4, guest.v4)


def send(guest, senders, times=3):
    for sender in senders:
        with PacketSocket(sender.ns, "eth0") as socket:
            for frame in list(frames_to(guest, sender)) * times:
                socket.send(frame)


def gone(host):
    """Packets that were stopped for a device that is gone, at any hook."""
    return sum(count for (_, verdict), count in verdicts(host.name).items() if verdict == "device_gone")


def nobody_else_hears(stranger, host, lost, senders):
    """The tenant's frames reach nobody, and are counted."""
    before = gone(host)
    assert stranger.hears(lambda: send(lost, senders), *(guest.mac for guest in senders)) == []
    assert gone(host) > before


def veth_port(_lab, scene):
    return scene.guests[1]


def tap_port(lab, scene):
    return add_vm(lab, scene, scene.hosts[0], 9)


def netkit_port(lab, scene):
    return _made_port(lab, scene, lambda host, ns: _netkit(host, ns))


def macvlan_port(lab, scene):
    """The port's device is a macvlan that has all of the device below."""
    def make(host, ns):
        veth(host, "below", ns, "eth0")
        host.sysctl("net.ipv6.conf.below.disable_ipv6", 1)
        host.ip("link set below up", "link add p9 link below type macvlan mode passthru")
    return _made_port(lab, scene, make)


def _netkit(host, ns):
    with host.entered(), open(f"/run/netns/{ns.name}") as far:
        create("p9", "eth0", L2, far)


def _made_port(lab, scene, make):
    host = scene.hosts[0]
    guest = Guest(lab.namespace("g9"), host, "p9", 9, guest_mac(9), *guest_addresses(9))
    make(host.ns, guest.ns)
    host.ns.sysctl("net.ipv6.conf.p9.disable_ipv6", 1)
    host.ns.ip("link set p9 up")
    guest.ns.ip(f"link set eth0 address {guest.mac} mtu {scene.mtu} up", f"address add {guest.v4}/24 dev eth0")
    scene.fabric.port("port9", "blue", host.name, "p9", guest.mac, guest.addresses)
    return guest


def deleted(_lab, guest):
    guest.host.ns.ip(f"link delete {guest.device}")


def moved(lab, guest):
    guest.host.ns.ip(f"link set {guest.device} netns {lab.namespace('m').name}")


def namespace_deleted(_lab, guest):
    """A veth pair goes with the namespace of one end."""
    guest.ns.run(f"ip netns delete {guest.ns.name}")
    wait_until(lambda: guest.device not in guest.host.ns.links(), what="the device to go")


KINDS = [veth_port, tap_port, pytest.param(netkit_port, marks=pytest.mark.needs_kernel("netkit")),
         pytest.param(macvlan_port, marks=pytest.mark.needs_kernel("macvlan"))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lose", [deleted, moved])
@pytest.mark.parametrize("replace", [Stranger.take, Stranger.come])
def test_a_port(lab, kind, lose, replace):
    scene = Scene(lab, GENEVE, guests=(2, 1), switch={"unknown_unicast": "flood"})
    lost = kind(lab, scene)
    scene.apply()
    others = [guest for guest in (scene.guests[0], scene.guests[2])]
    traffic.ping(others[1].ns, lost.v4)
    host = scene.hosts[0]
    stranger = Stranger(lab, host.ns, index(host.ns, lost.device))
    replace(stranger, lambda: lose(lab, lost))
    nobody_else_hears(stranger, host, lost, others)
    # And the switch goes on for all others.
    traffic.ping(others[0].ns, others[1].v4)


@both_ways
def test_a_port_whose_namespace_is_deleted(lab, prefix):
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply(prefix=prefix)
    host, lost = scene.hosts[0], scene.guests[1]
    stranger = Stranger(lab, host.ns, index(host.ns, lost.device))
    stranger.take(lambda: namespace_deleted(lab, lost))
    nobody_else_hears(stranger, host, lost, [scene.guests[0], scene.guests[2]])


@both_ways
def test_a_port_under_load(lab, prefix):
    """Frames for it come all the time while it goes and another device gets its index, at once."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply(prefix=prefix)
    host, near, lost = scene.hosts[0], scene.guests[0], scene.guests[1]
    host.ns.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
    replace = (f"link delete {lost.device}",
               f"link add {STRANGER} index {index(host.ns, lost.device)} type veth peer name s1",
               "link set s1 up", f"link set {STRANGER} up")
    before = gone(host)
    with frames_all_the_time(near, plain_frame(near.mac, lost.mac)):
        host.ns.ip(*replace)
        wait_until(lambda: gone(host) > before + 1000, what="frames that are stopped")
    assert host.ns.link(STRANGER)["stats64"]["tx"]["packets"] == 0


@contextlib.contextmanager
def frames_all_the_time(sender, frame):
    stop = threading.Event()
    with PacketSocket(sender.ns, "eth0") as socket:
        def run():
            while not stop.is_set():
                socket.send(frame)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def test_a_port_that_another_ones_name_and_index_take_works_after_apply(lab):
    """The guest was restarted, and its new device even has the old index: it is another device all the same."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply()
    host, lost = scene.hosts[0], scene.guests[1]
    stranger = Stranger(lab, host.ns, index(host.ns, lost.device), lost.device)
    stranger.take(lambda: deleted(lab, lost))
    nobody_else_hears(stranger, host, lost, [scene.guests[0], scene.guests[2]])
    (row,) = [row for row in show("ports", host.name)["ports"] if row["device"] == lost.device]
    assert row["state"] == "detached"
    stranger.far.ip(f"link set eth0 address {lost.mac}", f"address add {lost.v4}/24 dev eth0")
    scene.apply(host)
    traffic.ping(scene.guests[0].ns, lost.v4)
    traffic.ping(scene.guests[2].ns, lost.v4)


def test_a_port_that_was_away_works_after_apply(lab):
    """It comes back with the same index, and our program is still on it."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply()
    host, lost = scene.hosts[0], scene.guests[1]
    away = lab.namespace("m")
    before = index(host.ns, lost.device)
    host.ns.ip(f"link set {lost.device} netns {away.name}")
    away.ip(f"link set {lost.device} netns {host.ns.name}")
    host.ns.ip(f"link set {lost.device} up")
    assert index(host.ns, lost.device) == before
    assert traffic.pings(scene.guests[0].ns, lost.v4, count=2, timeout=0.3) == 0
    assert traffic.pings(lost.ns, scene.guests[0].v4, count=2, timeout=0.3) == 0
    (row,) = [row for row in show("ports", host.name)["ports"] if row["device"] == lost.device]
    assert row["state"] == "detached"
    scene.apply(host)
    # The guest asks for the neighbour's MAC once a second, and has just asked in vain.
    lost.ns.ip("neigh flush dev eth0")
    traffic.ping(scene.guests[0].ns, lost.v4)
    traffic.ping(lost.ns, scene.guests[2].v4)


def test_a_renamed_port_goes_on(lab):
    """A device is neither its name nor its index."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply()
    host, guest = scene.hosts[0], scene.guests[1]
    host.ns.ip(f"link set {guest.device} down", f"link set {guest.device} name other", "link set other up")
    stranger = Stranger(lab, host.ns, 4000, guest.device)
    stranger.take(lambda: None)
    others = [scene.guests[0], scene.guests[2]]
    assert stranger.hears(lambda: send(guest, others), *(each.mac for each in others)) == []
    for other in others:
        traffic.ping(other.ns, guest.v4)


@pytest.mark.parametrize("replace", [Stranger.take, Stranger.come])
def test_a_trunk(lab, replace):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    host = scene.hosts[0]
    trunk = add_guest(lab, host, 8, device="t0", addresses=False)
    for number, tag in ((8, 10), (9, 20)):
        scene.fabric.port(f"tag{tag}", "blue", host.name, "t0", f"02:00:00:00:08:{tag:02x}",
                          (f"198.18.100.{number}",), vlan=tag)
    scene.apply()
    trunk.mac = "02:00:00:00:08:0a"
    stranger = Stranger(lab, host.ns, index(host.ns, "t0"))
    replace(stranger, lambda: deleted(lab, trunk))
    nobody_else_hears(stranger, host, trunk, scene.guests)


@pytest.mark.parametrize("encapsulation", [GENEVE, VXLAN, VLAN])
@pytest.mark.parametrize("replace", [Stranger.take, Stranger.come])
def test_an_uplink(lab, encapsulation, replace):
    """Neither tunnel packets nor tagged frames leave by a stranger: unicast, and what is flooded."""
    scene = Scene(lab, encapsulation, guests=(2, 1), switch={"unknown_unicast": "flood"}).apply()
    host, near, far = scene.hosts[0], scene.guests[0], scene.guests[2]
    stranger = Stranger(lab, host.ns, index(host.ns, UPLINK))

    def lose():
        host.ns.ip(f"link delete {UPLINK}")
    replace(stranger, lose)
    host.ns.ip(f"address add {host.address}/24 dev {STRANGER}")
    host.ns.ip(f"neigh add {scene.hosts[1].address} lladdr 02:00:00:00:00:99 dev {STRANGER}")
    before = None if encapsulation == VLAN else remote_counters(host.name, scene.hosts[1].name)
    nobody_else_hears(stranger, host, far, [near])
    if before:
        after = remote_counters(host.name, scene.hosts[1].name)
        assert after["dropped"]["packets"] > before["dropped"]["packets"]
        assert after["to_remote"] == before["to_remote"]
    traffic.ping(near.ns, scene.guests[1].v4)


@pytest.mark.parametrize("replace", [Stranger.take, Stranger.come])
def test_a_leg(lab, replace):
    estate = Estate(lab, GENEVE)
    guest = estate.guest("front")
    outside = estate.gateway(1)
    outside.ns.ip("route add 198.18.0.0/15 via 198.19.0.2 dev eth0")
    estate.apply()
    host = estate.hosts[0]
    traffic.ping(guest.ns, OUTSIDE4)
    mac = outside.ns.mac("eth0")
    stranger = Stranger(lab, host.ns, index(host.ns, LEG))
    replace(stranger, lambda: host.ns.ip(f"link delete {LEG}"))
    before = gone(host)

    def ping():
        assert traffic.pings(guest.ns, OUTSIDE4, count=3, timeout=0.2) == 0
    assert stranger.hears(ping, mac, guest.mac) == []
    assert gone(host) > before


def test_the_segmenter(lab):
    """Copies of flooded frames for other hosts go through it."""
    scene = Scene(lab, VXLAN, guests=(2, 1)).apply()
    host, near, far = scene.hosts[0], scene.guests[0], scene.guests[2]
    stranger = Stranger(lab, host.ns, index(host.ns, "ovl-seg0"))
    stranger.take(lambda: host.ns.ip("link delete ovl-seg0"))
    nobody_else_hears(stranger, host, far, [near])
    scene.apply(host)
    traffic.ping(near.ns, far.v4)


def test_a_segmenter_with_an_index_that_another_namespace_may_have(lab):
    """As builds before made it: `apply` replaces it, and nobody's connection ends."""
    scene = Scene(lab, VXLAN, guests=(2, 1)).apply()
    host, near, far = scene.hosts[0], scene.guests[0], scene.guests[2]
    host.ns.ip("link delete ovl-seg0", "link add ovl-seg0 index 4000 type veth peer name ovl-seg1")
    client, server = traffic.connection(near.ns, near.v4, far.ns, far.v4)
    with client, server:
        scene.apply(host)
        assert index(host.ns, "ovl-seg0") >= 1 << 30
        client.send(b"x" * 4096)
        assert server.recv(4096)
    again = apply(lab.directory / "fabric.yaml", host.name, host.netns, "--json")
    assert json.loads(again.stdout)["changes"] == []


def test_the_unmarker(lab):
    """Super-packets for a TAP go through it."""
    scene = Scene(lab, VXLAN, guests=(2, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    host, far = scene.hosts[0], scene.guests[2]
    traffic.tcp_in_super_packets(far.ns)
    near, server = traffic.connection(far.ns, far.v4, vm.ns, vm.v4)
    stranger = Stranger(lab, host.ns, index(host.ns, "ovl-unm0"))
    stranger.take(lambda: host.ns.ip("link delete ovl-unm0"))
    before = gone(host)

    def stream():
        near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(20):
                near.send(b"x" * 65536)
    with near, server:
        assert stranger.hears(stream, far.mac, vm.mac) == []
    assert gone(host) > before


def occupy(lab, ns, numbers):
    """Devices with these indices in a namespace; their other ends are elsewhere."""
    elsewhere = lab.namespace("q", ipv6=False)
    ns.ip(*[f"link add o{number} index {number} type veth peer name o{number} netns {elsewhere.name}"
            for number in numbers])


@pytest.mark.parametrize("keeps_index", [True, False])
@both_ways
def test_a_port_that_moved_takes_nothing_along(lab, keeps_index, prefix):
    """The program runs where the uplink's index, and its own, are other devices'."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply(prefix=prefix)
    host, guest, neighbour = scene.hosts[0], scene.guests[0], scene.guests[1]
    own, uplink, other = (index(host.ns, device) for device in (guest.device, UPLINK, neighbour.device))
    away = lab.namespace("m", ipv6=False)
    stranger = Stranger(lab, away, uplink)
    stranger.take(lambda: None)
    away.ip(f"address add {host.address}/24 dev {STRANGER}",
            f"neigh add {scene.hosts[1].address} lladdr 02:00:00:00:00:99 dev {STRANGER}")
    if not keeps_index:
        # It gets the index of another port of the host, the next that is free here.
        occupy(lab, away, [number for number in range(2, other) if number not in (uplink, own)] + [own])
    host.ns.ip(f"link set {guest.device} netns {away.name}")
    away.ip(f"link set {guest.device} up")
    assert index(away, guest.device) == (own if keeps_index else other)
    before = gone(host)

    def send_all():
        for target in (scene.guests[2], neighbour):
            send(target, [guest])
        # As the port whose index it may have.
        with PacketSocket(guest.ns, "eth0") as socket:
            for frame in frames_to(scene.guests[2], neighbour):
                socket.send(frame)
    assert stranger.hears(send_all, guest.mac, neighbour.mac) == []
    assert gone(host) > before


@both_ways
def test_an_uplink_that_moved_takes_nothing_along(lab, prefix):
    """A tunnel packet that comes by it is no business of the host any more, nor of the device with a port's index."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply(prefix=prefix)
    host, guest, far = scene.hosts[0], scene.guests[0], scene.guests[2]
    traffic.ping(far.ns, guest.v4)
    away = lab.namespace("m", ipv6=False)
    stranger = Stranger(lab, away, index(host.ns, guest.device))
    stranger.take(lambda: None)
    host.ns.ip(f"link set {UPLINK} netns {away.name}")
    away.ip(f"link set {UPLINK} up", f"address add {host.address}/24 dev {UPLINK}")
    before = verdicts(host.name)
    assert stranger.hears(lambda: send(guest, [far]), far.mac) == []
    counted = difference(before, verdicts(host.name))
    assert ("from_underlay", "to_port") not in counted and counted["from_underlay", "to_host"] > 0
