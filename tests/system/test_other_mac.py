"""An address of a switch gets another MAC: a guest is replaced, or a router. Whoever remembers the old MAC for an hour is
told of the new one, on each host, whatever the order in which hosts apply."""

import pytest

import traffic
from frames import ETH_P_ALL, PacketSocket
from logical import ROUTER, Estate
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, announcers, apply
from peers import kernel
from spoofed import link_local
from test_announcements import HOUR_MS, announcements
from topology import Scene, wait_for_announcements

pytestmark = pytest.mark.needs_overlane

OTHER_MAC = "02:00:00:00:0a:01"
#: Seconds in which those are told who are: three announcements, a second apart, on a machine that does other things too.
#: Without them it takes 28.
SOON = 10


def forgets_nothing(guest):
    """What it knows of a neighbour it believes for an hour. It takes announcements as every Linux does."""
    for family in ("ipv4", "ipv6"):
        guest.ns.sysctl(f"net.{family}.neigh.eth0.base_reachable_time_ms", HOUR_MS)
        guest.ns.sysctl(f"net.{family}.neigh.eth0.gc_stale_time", HOUR_MS // 1000)


def knows(guest, address):
    found = [row.get("lladdr") for row in guest.ns.json("neigh show dev eth0") if row["dst"] == address]
    return found[0] if found else None


def meet(guests, address):
    for guest in guests:
        forgets_nothing(guest)
        traffic.ping(guest.ns, address)


def replace(scene, guest, mac=OTHER_MAC):
    """Another machine under the same addresses."""
    guest.ns.ip(f"link set eth0 address {mac}", f"address replace {link_local(mac)}/64 dev eth0 nodad")
    guest.mac = mac
    scene.fabric.data["ports"][f"port{guest.number}"]["mac"] = mac


def assert_reached(guests, addresses, mac):
    for guest in guests:
        for address in addresses:
            wait_until(lambda guest=guest, address=address: knows(guest, address) == mac, SOON,
                       what=f"{guest.ns.name} to hear of {address}")
            traffic.ping(guest.ns, address)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["its-host-first", "its-host-last"])
@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
def test_a_guest_is_replaced_under_its_addresses(lab, encapsulation, order):
    scene = Scene(lab, encapsulation, guests=(2, 1)).apply()
    near, guest, far = scene.guests
    for address in guest.addresses:
        meet((near, far), address)
    old = guest.mac
    assert knows(near, guest.v4) == knows(far, guest.v4) == old
    # It sends all the time, and that teaches nobody its MAC.
    with (traffic.PacedUdp(guest.ns, guest.v4, near.ns, near.v4, rate_pps=200),
          traffic.PacedUdp(guest.ns, guest.v6, far.ns, far.v6, rate_pps=200)):
        replace(scene, guest)
        scene.apply(*(scene.hosts[at] for at in order))
        assert_reached((near, far), guest.addresses, OTHER_MAC)


def test_each_station_is_told_three_times_and_the_owner_never(lab):
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply()
    near, guest, far = scene.guests
    sockets = [PacketSocket(it.ns, "eth0", ETH_P_ALL) for it in (near, guest, far)]
    replace(scene, guest)
    for host in scene.hosts:
        path = scene.fabric.write(lab.directory / "fabric.yaml")
        done = apply(path, host.name, host.netns)
        assert f"announces {guest.v4}, {guest.v6} in switch blue" in done.stdout
    for host in scene.hosts:
        wait_for_announcements(host)
    expected = {("arp", guest.v4, OTHER_MAC, None): 3, ("host", guest.v6, OTHER_MAC, None): 3}
    heard = [announcements(sock.receive_all()) for sock in sockets]
    assert heard == [expected, {}, expected]
    # Nothing has changed: nothing is said.
    for host in scene.hosts:
        done = apply(path, host.name, host.netns)
        assert "announces" not in done.stdout and announcers(host.name) == []
    assert [announcements(sock.receive_all()) for sock in sockets] == [{}, {}, {}]
    for sock in sockets:
        sock.__exit__()


def test_an_address_changes_hands(lab):
    scene = Scene(lab, GENEVE, guests=(3,) + (1,)).apply()
    near, before, after, far = scene.guests
    meet((near, far), before.v4)
    before.ns.ip(f"address del {before.v4}/24 dev eth0")
    after.ns.ip(f"address add {before.v4}/24 dev eth0")
    ports = scene.fabric.data["ports"]
    ports[f"port{before.number}"]["addresses"] = [before.v6]
    ports[f"port{after.number}"]["addresses"] = [*after.addresses, before.v4]
    scene.apply()
    assert_reached((near, far), [before.v4], after.mac)


def test_a_guest_goes_and_another_comes_later_under_its_addresses(lab):
    """As orchestrators replace machines: the one port leaves the file, later another one comes."""
    scene = Scene(lab, GENEVE, guests=(2, 1)).apply()
    near, guest, far = scene.guests
    for address in guest.addresses:
        meet((near, far), address)
    port = scene.fabric.data["ports"].pop(f"port{guest.number}")
    scene.apply()
    scene.fabric.data["ports"][f"port{guest.number}"] = port
    replace(scene, guest)
    scene.apply()
    assert_reached((near, far), guest.addresses, OTHER_MAC)


def test_stations_of_a_peer_that_is_no_host_of_ours(lab):
    scene = Scene(lab, VXLAN, guests=(1, 1), peers=[2])
    guest, far = scene.guests
    kernel.join(far.host, scene.hosts[0].address, scene.vni, far.host.guests, mtu=scene.mtu)
    scene.apply()
    for address in guest.addresses:
        meet([far], address)
    with PacketSocket(far.ns, "eth0", ETH_P_ALL) as sock:
        replace(scene, guest)
        scene.apply()
        assert_reached([far], guest.addresses, OTHER_MAC)
        wait_for_announcements(scene.hosts[0])
        heard = announcements(sock.receive_all())
    assert heard == {("arp", guest.v4, OTHER_MAC, None): 3, ("host", guest.v6, OTHER_MAC, None): 3}


def test_a_peer_without_options_gets_a_geneve_header_without_any(lab, family):
    scene = Scene(lab, GENEVE, family, guests=(1, 1), peers=[2])
    guest, peer = scene.guests[0], scene.hosts[1]
    scene.fabric.data["hosts"][peer.name]["options"] = "none"
    scene.apply()
    outer = 14 + (20 if family == 4 else 40) + 8
    header = bytes.fromhex("00006558") + scene.vni.to_bytes(3, "big") + b"\0"
    with PacketSocket(peer.ns, peer.uplink, ETH_P_ALL) as sock:
        replace(scene, guest)
        scene.apply()
        wait_for_announcements(scene.hosts[0])
        frames = [frame[outer:] for frame in sock.receive_all()]
    inner = [frame[8:] for frame in frames if frame.startswith(header)]
    assert announcements(inner) == {("arp", guest.v4, OTHER_MAC, None): 3, ("host", guest.v6, OTHER_MAC, None): 3}


@pytest.mark.parametrize("encapsulation", [GENEVE, VLAN])
def test_a_router_has_another_mac(lab, encapsulation):
    estate = Estate(lab, encapsulation)
    near, far = estate.guest("front", 1), estate.guest("front", 2)
    other = estate.guest("data", 2)
    estate.apply()
    router = estate.segments["front"].router
    for guest in (near, far):
        forgets_nothing(guest)
        for address in other.addresses:
            traffic.ping(guest.ns, address)
    estate.router["mac"] = OTHER_MAC
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as sock:
        estate.apply()
        assert_reached((near, far), router, OTHER_MAC)
        for guest in (near, far):
            for address in other.addresses:
                traffic.ping(guest.ns, address)
        wait_for_announcements(estate.hosts[0])
        heard = announcements(sock.receive_all())
    assert heard["router", router[1], OTHER_MAC, None] == 3
    assert heard["arp", router[0], OTHER_MAC, None] >= 3
    assert ROUTER in estate.fabric.data["routers"]
