"""The outer Ethernet header follows the kernel's routes and neighbours."""

import pytest
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

import traffic
from capture import Capture
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from net import veth, wait_until
from overlane import GENEVE, PORTS, show, verdicts
from topology import UPLINK, Scene, address_lines, set_wire

pytestmark = pytest.mark.needs_overlane

NEW_MAC = "02:00:5e:00:77:77"


def announce(host, mac):
    """What a machine says when its address moved: gratuitous ARP, unsolicited advertisement."""
    if host.family == 4:
        frame = Ether(src=mac, dst=BROADCAST) / ARP(op=2, hwsrc=mac, psrc=host.address,
                                                    hwdst=BROADCAST, pdst=host.address)
    else:
        frame = (Ether(src=mac, dst="33:33:00:00:00:01") / IPv6(src=host.address, dst="ff02::1")
                 / ICMPv6ND_NA(tgt=host.address, R=0, S=0, O=1)
                 / ICMPv6NDOptDstLLAddr(lladdr=mac))
    with PacketSocket(host.ns, UPLINK) as sock:
        sock.send(bytes(frame))


def outer_macs(lab, scene, name):
    """Outer destination addresses of what host 1 sends while guest 1 pings guest 2."""
    near, far = scene.guests
    tunnel = f"udp dst port {PORTS[scene.encapsulation]}"
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / f"{name}.pcap", tunnel,
                 direction="out") as capture:
        traffic.pings(near.ns, far.v4, count=5, timeout=0.5)
    return {frame[:6].hex(":") for frame in capture.raw()}


def test_a_new_address_of_the_peer_is_followed_while_traffic_flows(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    peer = scene.hosts[1]
    traffic.ping(near.ns, far.v4)
    assert outer_macs(lab, scene, "before") == {peer.ns.mac(UPLINK)}
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4, rate_pps=500) as stream:
        wait_until(lambda: stream.sent > 50, what="traffic")
        peer.ns.ip(f"link set {UPLINK} address {NEW_MAC}")
        announce(peer, NEW_MAC)
        wait_until(lambda: outer_macs(lab, scene, "after") == {NEW_MAC}, what="the new address")
        stream.finish()
        assert stream.lost() == []
    traffic.ping(near.ns, far.v4)


def test_a_new_address_that_nobody_announced_is_found(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family)
    one, peer = scene.hosts
    for key, value in (("base_reachable_time_ms", 500), ("delay_first_probe_time", 1),
                       ("retrans_time_ms", 100), ("interval_probe_time_ms", 500)):
        one.ns.sysctl(f"net.ipv{family}.neigh.{UPLINK}.{key}", value)
    scene.apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    peer.ns.ip(f"link set {UPLINK} address {NEW_MAC}")
    wait_until(lambda: outer_macs(lab, scene, "after") == {NEW_MAC}, timeout=20,
               what="the new address")
    traffic.ping(near.ns, far.v4)


def insert_router(lab, scene):
    """host 1 ── router ── host 2: each VTEP in a subnet of its own. Returns the router."""
    one, two = scene.hosts
    router = lab.namespace("r")
    one.ns.ip(f"link delete {UPLINK}")
    if scene.family == 4:
        one.address, two.address = "198.18.0.1", "198.18.1.2"
        gateways = ("198.18.0.254", "198.18.1.254")
        router.sysctl("net.ipv4.ip_forward", 1)
    else:
        one.address, two.address = "2001:2:0:1::1", "2001:2:0:2::2"
        gateways = ("2001:2:0:1::fe", "2001:2:0:2::fe")
        router.sysctl("net.ipv6.conf.all.forwarding", 1)
    for host, gateway in zip(scene.hosts, gateways):
        end = f"to{host.number}"
        veth(router, end, host.ns, UPLINK)
        router.ip(f"link set {end} address 02:00:5e:00:01:{host.number:02x} up",
                  *address_lines(end, gateway, 254))
        host.ns.ip(f"link set {UPLINK} up", *address_lines(UPLINK, host.address, host.number),
                   f"route add default via {gateway} dev {UPLINK}")
        set_wire(host.ns, UPLINK, scene.underlay.wire)
        scene.fabric.host(host.name, host.address)
    return router


def test_vteps_behind_a_router_reach_each_other(lab, encapsulation, family, wire):
    scene = Scene(lab, encapsulation, family, wire)
    insert_router(lab, scene)
    scene.apply()
    near, far = scene.guests
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b)
    assert outer_macs(lab, scene, "u") == {"02:00:5e:00:01:01"}
    remotes = show("remotes", scene.hosts[0].name)["remotes"]
    assert [each["next_hop"] for each in remotes] != [scene.hosts[1].address], remotes


def test_another_gateway_is_taken_as_soon_as_the_route_says_so(lab, family):
    scene = Scene(lab, GENEVE, family)
    router = insert_router(lab, scene)
    scene.apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    second = "198.18.0.253" if family == 4 else "2001:2:0:1::fd"
    router.ip("link add second type bridge mcast_snooping 0", "link set to1 master second",
              f"link set second address {NEW_MAC} up",
              "address flush dev to1", *address_lines("second", second, 253))
    scene.hosts[0].ns.ip(f"route replace default via {second} dev {UPLINK}")
    wait_until(lambda: outer_macs(lab, scene, "after") == {NEW_MAC}, what="the second gateway")
    traffic.ping(near.ns, far.v4)


def test_frames_wait_in_the_kernel_while_the_neighbour_is_resolved(lab, encapsulation, family):
    """The peer is deaf at first. An IP frame and one that is not IP both arrive once it answers."""
    scene = Scene(lab, encapsulation, family)
    one, two = scene.hosts
    # The kernel gives up, and forgets what waits, after three questions: here it keeps asking.
    one.ns.sysctl(f"net.ipv{family}.neigh.{UPLINK}.mcast_solicit", 100)
    two.ns.ip(f"link set {UPLINK} arp off")
    if family == 6:
        two.ns.ip(f"link set {UPLINK} multicast off allmulticast off")
    scene.apply()
    near, far = scene.guests
    frame = plain_frame(near.mac, far.mac)
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        out.send(frame)
        assert into.receive(0.2) is None
        two.ns.ip(f"link set {UPLINK} arp on")
        wait_until(lambda: into.receive(0.5) == frame, what="the frame that had to wait")
    counts = verdicts(one.name)
    assert not [key for key in counts if key[1] in ("no_neighbour", "no_route")], counts
