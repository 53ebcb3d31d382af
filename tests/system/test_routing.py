"""A distributed router between logical switches: real stacks on both sides find nothing about it that differs
from a router made of iron, but that it is everywhere."""

import errno
import socket

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

import probes
import traffic
from capture import Capture, tshark_count
from frames import ETH_P_ALL, PacketSocket
from logical import ROUTER_MAC, Estate, port
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, overlane, port_counters, show, verdicts
from probes import NO_NEIGHBOUR, NO_ROUTE, PORT_UNREACHABLE, Talk, ask
from topology import UPLINK

pytestmark = pytest.mark.needs_overlane

INNER = pytest.mark.parametrize("inner", [0, 1], ids=["inner-v4", "inner-v6"])


@pytest.fixture
def estate(lab):
    """A guest of `front` on the first host; of `data` one beside it and one on the second host."""
    estate = Estate(lab, GENEVE, 4)
    for switch, host in (("front", 1), ("data", 1), ("data", 2)):
        estate.guest(switch, host)
    return estate


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (VXLAN, 6), (GENEVE, 4), (GENEVE, 6), (VLAN, 4)],
                         ids=["vxlan-v4", "vxlan-v6", "geneve-v4", "geneve-v6", "vlan"])
def test_guests_of_two_switches_speak_byte_for_byte(lab, encapsulation, family, wire):
    estate = Estate(lab, encapsulation, family, wire)
    near, beside, far = (estate.guest(*place) for place in (("front", 1), ("data", 1), ("data", 2)))
    estate.apply()
    for other in (beside, far):
        for a, b in zip(near.addresses, other.addresses):
            traffic.ping(near.ns, b)
            traffic.ping(other.ns, a)
            traffic.tcp_equal(near.ns, a, other.ns, b, size=2 * traffic.MEBIBYTE)
            traffic.udp_equal(near.ns, a, other.ns, b)
    # TTL is one less, whether the packet stayed on its host or crossed the underlay.
    for a, b, there in ((near, beside, beside.ns), (near, far, far.ns), (far, near, near.ns)):
        assert probes.ttl_seen(a.ns, b.v4, there) == 63
        assert probes.ttl_seen(a.ns, b.v6, there, port=5214) == 63


def test_switches_are_joined_by_nothing_but_their_router(lab):
    estate = Estate(lab)
    near, stranger = estate.guest("front", 1), None
    estate.switch("apart", routed=False)
    stranger = estate.guest("apart", 1)
    estate.apply()
    assert ask(near.ns, stranger.v4).what == NO_ROUTE[4]
    assert ask(near.ns, stranger.v6).what == NO_ROUTE[6]


@INNER
def test_super_packets_cross_the_router_whole(lab, estate, inner):
    estate.apply()
    near, beside, far = estate.guests
    for other in (beside, far):
        with Capture(other.ns, "eth0", lab.directory / f"{other.number}.pcap", "tcp", direction="in") as capture:
            traffic.tcp_equal(near.ns, near.addresses[inner], other.ns, other.addresses[inner])
        assert max(len(frame) for frame in capture.raw()) > 20_000
        count = port_counters(other.host.name, port(other))["to_port"]
        assert count["segments"] > 3 * count["packets"], count
    assert ("from_port", "segment") not in verdicts(estate.hosts[0].name), "nothing had to be segmented"


def test_udp_super_packets_cross_the_router(lab, estate, wire):
    """To a neighbour whole, into a tunnel by the segmenter; as datagrams they arrive the same."""
    estate.apply()
    near, beside, far = estate.guests
    for other in (beside, far):
        for a, b in zip(near.addresses, other.addresses):
            with traffic.udp_socket(other.ns, b, 5300) as into, traffic.udp_socket(near.ns, a) as out:
                out.setsockopt(socket.IPPROTO_UDP, 103, 500)  # UDP_SEGMENT
                data = traffic.payload(20 * 500, other.number)
                out.sendto(data, (b, 5300))
                assert b"".join(into.recv(2048) for _ in range(20)) == data


@INNER
def test_the_frame_that_arrives_is_the_routers(lab, estate, inner):
    estate.apply()
    near, beside, far = estate.guests
    for other in (beside, far):
        with PacketSocket(other.ns, "eth0", ETH_P_ALL) as into:
            probes.ttl_seen(near.ns, other.addresses[inner], other.ns, source=near.addresses[inner])
            frame = next(each for each in into.receive_all() if b"how far?" in each)
        assert Ether(frame).src == ROUTER_MAC and Ether(frame).dst == other.mac


def test_a_packet_between_switches_takes_no_detour(lab):
    """The host where it enters routes it: in the tunnel it is in the switch of its destination."""
    estate = Estate(lab, VXLAN, 4, hosts=3)
    near, far = estate.guest("front", 1), estate.guest("data", 3)
    estate.apply()
    traffic.ping(near.ns, far.v4)
    with Capture(estate.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.ping(near.ns, far.v4)
    there = "vxlan.vni == 5002 && icmp.type == 8 && eth.src == " + ROUTER_MAC
    back = "vxlan.vni == 5001 && icmp.type == 0 && eth.src == " + ROUTER_MAC
    assert tshark_count(capture.path, there) == 3 and tshark_count(capture.path, back) == 3
    assert set(verdicts(estate.hosts[1].name)) <= {("from_underlay", "to_host"), ("from_underlay", "greeting")}


def test_traceroute_shows_the_router(lab, estate):
    estate.apply()
    near, beside, far = estate.guests
    for other in (beside, far):
        for mine, router, target in zip(near.addresses, estate.segments["front"].router, other.addresses):
            assert probes.route_of(near.ns, target, source=mine) == [router, target]
    counts = verdicts(estate.hosts[0].name)
    assert counts["from_port", "ttl_exceeded"] == 4


def test_the_router_answers_echo_on_every_host_and_of_all_sizes(lab, estate):
    estate.apply()
    near, _, far = estate.guests
    for guest, own, other in ((near, "front", "data"), (far, "data", "front")):
        for address in (*estate.segments[own].router, *estate.segments[other].router):
            for size in (0, 1, 56, 1300):
                traffic.ping(guest.ns, address, count=1, size=size)
    crossed = ("from_underlay", "answer")
    assert all(crossed not in verdicts(host.name) for host in estate.hosts), "each host answers its own guests"


def test_the_router_serves_nothing_and_says_so(lab, estate):
    estate.apply()
    near = estate.guests[0]
    for address in estate.segments["front"].router:
        family = probes.family_of(address)
        assert probes.connect_error(near.ns, address, 22) == errno.ECONNREFUSED
        assert probes.datagram_error(near.ns, address, 53) == errno.ECONNREFUSED
        refusal = ask(near.ns, address)
        assert (refusal.what, refusal.by) == (PORT_UNREACHABLE[family], address)
    assert verdicts(estate.hosts[0].name)["from_port", "router_address"] == 6


def test_an_error_of_the_router_comes_from_who_was_asked(lab, estate):
    """Also where the address is that of another interface."""
    estate.apply()
    near = estate.guests[0]
    for address in estate.segments["data"].router:
        refusal = ask(near.ns, address)
        assert (refusal.what, refusal.by) == (PORT_UNREACHABLE[probes.family_of(address)], address)


def test_no_route_and_no_neighbour_are_told(lab, estate):
    """At once where the router asks nobody; where it does, test_found_neighbours.py."""
    estate.fabric.data["switches"]["data"]["neighbours"] = "declared"
    estate.apply()
    near = estate.guests[0]
    data = estate.segments["data"]
    for router, nowhere, nobody in zip(estate.segments["front"].router, ("198.19.77.7", "2001:2:0:77::7"),
                                       data.host(99)):
        family = probes.family_of(router)
        assert ask(near.ns, nowhere) == probes.Refusal(NO_ROUTE[family], router)
        assert ask(near.ns, nobody) == probes.Refusal(NO_NEIGHBOUR[family], router)
        # An answer that comes while connect() still holds the socket is only taken at the second try.
        assert probes.connect_error(near.ns, nowhere, 80, timeout=5) in (errno.ENETUNREACH, errno.EHOSTUNREACH)
        assert probes.connect_error(near.ns, nobody, 80, timeout=5) == errno.EHOSTUNREACH
    counts = verdicts(estate.hosts[0].name)
    assert counts["from_port", "no_route"] >= 4 and counts["from_port", "no_neighbour"] >= 4


def test_a_closed_port_behind_the_router_is_told_by_its_owner(lab, estate):
    estate.apply()
    near, beside, far = estate.guests
    for other in (beside, far):
        for address in other.addresses:
            assert probes.connect_error(near.ns, address, 81) == errno.ECONNREFUSED
            refusal = ask(near.ns, address)
            assert (refusal.what, refusal.by) == (PORT_UNREACHABLE[probes.family_of(address)], address)


def test_answers_are_limited_and_the_router_goes_on(lab, estate):
    """100 in a tenth of a second: of a burst of 1000 some are answered, all are counted."""
    estate.apply()
    near, beside, _ = estate.guests
    frame = bytes(Ether(src=near.mac, dst=ROUTER_MAC) / IP(src=near.v4, dst="198.19.77.7")
                  / UDP(sport=4000, dport=4001) / Raw(b"nowhere"))
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as sock:
        for _ in range(1000):
            sock.send(frame)
        answers = [each for each in sock.receive_all() if Ether(each).haslayer("ICMP")]
    assert 1 <= len(answers) < 1000
    assert verdicts(estate.hosts[0].name)["from_port", "no_route"] == 1000
    traffic.ping(near.ns, beside.v4)


def is_unicast_question(frame):
    packet = Ether(frame)
    return packet.dst == ROUTER_MAC and (packet.haslayer(ARP) or packet.haslayer(ICMPv6ND_NS))


def test_the_routers_neighbour_entry_is_learned_and_confirmed_by_unicast(lab, estate):
    """The kernel probes an old entry by unicast (RFC 4861 section 7.3.3): nobody but the router could answer."""
    estate.apply()
    near = estate.guests[0]
    for family in (4, 6):
        for key, value in (("base_reachable_time_ms", 300), ("delay_first_probe_time", 0), ("mcast_solicit", 1)):
            near.ns.sysctl(f"net.ipv{family}.neigh.eth0.{key}", value)
    for address in estate.segments["front"].router:
        def entry():
            return near.ns.json(f"neigh show {address} dev eth0")[0]

        traffic.ping(near.ns, address)
        assert entry()["lladdr"] == ROUTER_MAC
        # What the guest sends, as its host receives it.
        with PacketSocket(near.host.ns, near.device, ETH_P_ALL) as sent:
            def probed():
                traffic.ping(near.ns, address, count=1)
                return [frame for frame in sent.receive_all(0.05) if is_unicast_question(frame)]

            wait_until(probed, what=f"the kernel to doubt {address}")
        wait_until(lambda: traffic.pings(near.ns, address) and entry()["state"] == ["REACHABLE"],
                   what=f"{address} to be confirmed")


def test_questions_about_the_router_stay_on_their_host(lab, estate):
    estate.apply()
    near, _, far = estate.guests
    with Capture(estate.hosts[0].ns, UPLINK, lab.directory / "u.pcap", "udp port 6081") as capture:
        for guest, switch in ((near, "front"), (far, "data")):
            for address in estate.segments[switch].router:
                traffic.ping(guest.ns, address)
    assert capture.raw() == []


@INNER
def test_path_mtu_of_the_tunnel_is_told_and_tcp_gets_through(lab, encapsulation, family, inner):
    """The guests believe in 1500 bytes. The tunnel has less, and the router says how much."""
    estate = Estate(lab, encapsulation, family, large_guests=True)
    near, beside, far = (estate.guest(*place) for place in (("front", 1), ("data", 1), ("data", 2)))
    estate.apply()
    fits = {(VXLAN, 4): 1450, (GENEVE, 4): 1442, (VXLAN, 6): 1430, (GENEVE, 6): 1422}[encapsulation, family]
    a, b = near.addresses[inner], far.addresses[inner]
    traffic.tcp_equal(near.ns, a, far.ns, b, size=2 * traffic.MEBIBYTE)
    assert verdicts(estate.hosts[0].name)["from_port", "pkt_too_big"] >= 1
    for guest, other in ((near, far), (far, near)):
        assert probes.path_mtu(guest.ns, other.addresses[inner], 1500) == fits
    overhead = 28 if inner == 0 else 48
    traffic.ping(near.ns, b, count=1, size=fits - overhead)
    # On the same host there is no tunnel: everything passes.
    traffic.ping(near.ns, beside.addresses[inner], count=1, size=1500 - overhead)


def test_static_routes_lead_by_a_guest_that_routes(lab):
    """A guest is the next hop to the network behind it: the packet comes back to where it came from if need be."""
    estate = Estate(lab)
    near = estate.guest("front", 1)
    middle = estate.guest("data", 2, security="mac", allow=["router_advertisement"])
    middle.ns.sysctl("net.ipv4.ip_forward", 1)
    middle.ns.sysctl("net.ipv6.conf.all.forwarding", 1)
    middle.ns.ip("address add 198.19.33.1/24 dev lo", "address add 2001:2:0:33::1/64 dev lo nodad")
    estate.routes(("198.19.33.0/24", middle.v4), ("2001:2:0:33::/64", middle.v6))
    estate.apply()
    for mine, behind in ((near.v4, "198.19.33.1"), (near.v6, "2001:2:0:33::1")):
        traffic.ping(near.ns, behind)
        traffic.tcp_equal(near.ns, mine, middle.ns, behind, size=traffic.MEBIBYTE)
        assert probes.ttl_seen(near.ns, behind, middle.ns, source=mine) == 63


def test_equal_cost_routes_share_flows_and_keep_each_on_its_way(lab):
    estate = Estate(lab)
    near = estate.guest("front", 1)
    ways = [estate.guest("data", host, security="mac") for host in (1, 2)]
    for way in ways:
        way.ns.ip("address add 198.19.34.1/32 dev lo")
    estate.routes(("198.19.34.0/24", [way.v4 for way in ways]))
    estate.apply()
    sockets = [traffic.udp_socket(way.ns, "198.19.34.1", 5500, timeout=0.3) for way in ways]
    with sockets[0], sockets[1]:
        for _ in range(64):
            with traffic.udp_socket(near.ns, near.v4) as out:
                for _ in range(3):
                    out.sendto(b"one way", ("198.19.34.1", 5500))
        seen = []
        for sock in sockets:
            flows = []
            try:
                while True:
                    flows.append(sock.recvfrom(64)[1][1])
            except socket.timeout:
                seen.append(flows)
    assert sum(map(len, seen)) == 3 * 64
    assert all(seen) and not set(seen[0]) & set(seen[1]), "both ways are used, no flow takes both"
    assert all(flows.count(each) % 3 == 0 for flows in seen for each in flows)


def test_a_guests_tag_does_not_cross_the_router(lab):
    estate = Estate(lab, switches=())
    estate.switch("front", vlan="transparent")
    estate.switch("data", vlan="transparent")
    near, far = estate.guest("front", 1, silent=True), estate.guest("data", 2, silent=True)
    estate.apply()
    packet = IP(src=near.v4, dst=far.v4) / UDP(sport=1, dport=2) / Raw(b"tagged" * 8)
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        before = verdicts(estate.hosts[0].name)
        out.send(bytes(Ether(src=near.mac, dst=ROUTER_MAC) / Dot1Q(vlan=7) / packet))
        assert difference(before, verdicts(estate.hosts[0].name)) == {("from_port", "vlan_tag"): 1}
        out.send(bytes(Ether(src=near.mac, dst=ROUTER_MAC) / Dot1Q(vlan=0, prio=5) / packet))
        got = Ether(into.receive())
    assert got.type == 0x0800 and got[IP].ttl == 63 and got[Raw].load == b"tagged" * 8


def test_a_trunk_is_routed_by_its_tag_and_gets_its_tag_back(lab):
    estate = Estate(lab)
    far = estate.guest("data", 2, silent=True)
    trunk = estate.guest("front", 1, silent=True, vlan=7)
    estate.apply()
    ask_far = IP(src=trunk.v4, dst=far.v4) / UDP(sport=1, dport=2) / Raw(b"there")
    answer = IP(src=far.v4, dst=trunk.v4) / UDP(sport=2, dport=1) / Raw(b"back")
    with PacketSocket(trunk.ns, "eth0", ETH_P_ALL) as one, PacketSocket(far.ns, "eth0", ETH_P_ALL) as other:
        one.send(bytes(Ether(src=trunk.mac, dst=ROUTER_MAC) / Dot1Q(vlan=7) / ask_far))
        assert Ether(other.receive())[Raw].load == b"there"
        other.send(bytes(Ether(src=far.mac, dst=ROUTER_MAC) / answer))
        got = Ether(one.receive())
        assert (got[Dot1Q].vlan, got[IP].ttl, got[Raw].load) == (7, 63, b"back")
        one.send(bytes(Ether(src=trunk.mac, dst=ROUTER_MAC) / Dot1Q(vlan=7)
                       / IP(src=trunk.v4, dst="198.19.77.7") / UDP(sport=1, dport=2) / Raw(b"lost")))
        refusal = Ether(one.receive())
        assert (refusal[Dot1Q].vlan, refusal["ICMP"].type, refusal["ICMP"].code) == (7, 3, 0)


def test_a_route_that_changes_is_followed_at_once_and_connections_live_on(lab, estate):
    near, beside, far = estate.guests
    estate.fabric.data["ports"][port(beside)]["security"] = "mac"
    estate.apply()
    host = estate.hosts[0]
    with Talk(near.ns, far.ns, far.v4) as talk:
        assert talk.goes_on()
        before = verdicts(host.name)
        estate.routes(("198.19.35.0/24", beside.v4))
        estate.apply(host)
        assert ask(near.ns, "198.19.36.1").what == NO_ROUTE[4]
        beside.ns.ip("address add 198.19.35.1/32 dev lo")
        traffic.ping(near.ns, "198.19.35.1")
        assert talk.goes_on()
        assert difference(before, verdicts(host.name))["from_port", "no_route"] == 1


def test_show_routes_says_what_the_kernel_has(lab, estate):
    estate.routes(("198.19.33.0/24", [estate.guests[1].v4, estate.guests[2].v4]))
    estate.apply()
    (router,) = show("routes", estate.hosts[0].name)["routers"]
    assert (router["router"], router["mac"]) == ("core", ROUTER_MAC)
    ways = {row["to"]: row for row in router["routes"]}
    front, data = estate.segments["front"], estate.segments["data"]
    assert ways[front.net4]["way"] == "connected" and ways[front.net4]["switch"] == "front"
    assert ways[data.router[0] + "/32"]["way"] == "own"
    hops = ways["198.19.33.0/24"]["next_hops"]
    assert sorted(hop["address"] for hop in hops) == sorted([estate.guests[1].v4, estate.guests[2].v4])
    text = overlane("show", "routes", "--host", estate.hosts[0].name).stdout
    assert front.net4 in text and ROUTER_MAC in text
