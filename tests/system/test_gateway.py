"""The gateway: where the logical network meets a physical one, with the kernel's own stacks on the far side.

`far` is two hops outside: behind the leg's network and a router of the kernel's. Nobody out there knows a way to the
IPv4 networks inside, so what comes back was translated.
"""

import contextlib
import errno
import json
import socket
import struct
from functools import partial

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Ether

import probes
import super_packets
import tap_vm
import traffic
from capture import Capture, tshark_count
from frames import PacketSocket
from logical import (FAR4, FAR6, INSIDE4, INSIDE6, LEG, LEG4, LEG6, OUTSIDE4, OUTSIDE6, ROUTER_MAC, SPARE4, SPARE6,
                     Estate, connections)
from net import run, veth, wait_until
from overlane import GENEVE, PINS, VXLAN, difference, overlane, show, verdicts
from probes import PORT_UNREACHABLE, Listener, Talk, ask
from topology import PLAIN, UPLINK

pytestmark = pytest.mark.needs_overlane

SOURCE = {"source": INSIDE4, "outside": LEG4}
PLACES = pytest.mark.parametrize("place", [1, 3], ids=["at-another-host", "at-the-gateway"])
ENCAPSULATIONS = [(VXLAN, 4), (VXLAN, 6), (GENEVE, 4), (GENEVE, 6)]
NAMES = ["vxlan-v4", "vxlan-v6", "geneve-v4", "geneve-v6"]


def scene(lab, nat=(SOURCE,), place=1, encapsulation=GENEVE, family=4, **options):
    """A guest on host `place`, the gateway on the third."""
    estate = Estate(lab, encapsulation, family, hosts=3, **options)
    guest = estate.guest("front", place)
    estate.gateway(3, nat)
    return estate, guest


@pytest.mark.parametrize("encapsulation, family", ENCAPSULATIONS, ids=NAMES)
def test_guests_reach_the_world_and_are_seen_as_the_outside_address(lab, encapsulation, family, wire):
    estate, guest = scene(lab, encapsulation=encapsulation, family=family, wire=wire)
    estate.guest("data", 3)
    estate.apply()
    for each in estate.guests:
        traffic.ping(each.ns, FAR4)
        traffic.ping(each.ns, OUTSIDE4)
        with Talk(each.ns, estate.outside.far, FAR4) as talk:
            assert talk.client[0] == LEG4
            talk.exchange()
        with traffic.udp_socket(estate.outside.far, FAR4, 5206) as far, \
                traffic.udp_socket(each.ns, each.v4) as near:
            for size in (0, 1, 100, 1300):
                near.sendto(traffic.payload(size), (FAR4, 5206))
                data, sender = far.recvfrom(2048)
                assert data == traffic.payload(size) and sender[0] == LEG4
                far.sendto(data[::-1], sender)
                assert near.recv(2048) == data[::-1]


@PLACES
def test_ipv6_is_routed_as_it_is_both_ways(lab, place):
    estate, guest = scene(lab, place=place)
    estate.apply()
    far = estate.outside.far
    traffic.ping(guest.ns, FAR6)
    traffic.ping(far, guest.v6)
    traffic.tcp_equal(guest.ns, guest.v6, far, FAR6)
    traffic.tcp_equal(far, FAR6, guest.ns, guest.v6, port=5301)
    traffic.udp_equal(far, FAR6, guest.ns, guest.v6)
    assert probes.ttl_seen(guest.ns, FAR6, far, source=guest.v6) == 62
    assert probes.ttl_seen(far, guest.v6, guest.ns, source=FAR6) == 62


def test_nothing_outside_ever_sees_an_inside_address(lab):
    estate, guest = scene(lab, wire=PLAIN)
    estate.apply()
    with Capture(estate.outside.ns, "eth0", lab.directory / "o.pcap") as capture:
        traffic.ping(guest.ns, FAR4)
        traffic.tcp_equal(guest.ns, guest.v4, estate.outside.far, FAR4, size=traffic.MEBIBYTE)
        assert probes.connect_error(guest.ns, FAR4, 81) == errno.ECONNREFUSED
        assert ask(guest.ns, FAR4).what == PORT_UNREACHABLE[4]
        probes.route_of(guest.ns, FAR4)
    spoken = [frame for frame in capture.frames() if frame.haslayer(IP)]
    assert len(spoken) > 20
    assert not [frame for frame in spoken if {frame[IP].src, frame[IP].dst} - {LEG4, OUTSIDE4, FAR4}]
    # A receiver that trusts no offload agrees: every checksum is right, the quoted ones included.
    assert tshark_count(capture.path, "ip.checksum.status == 0 || icmp.checksum.status == 0") == 0


def test_super_packets_pass_the_gateway_whole(lab):
    """Both ways, translated or not."""
    estate, guest = scene(lab, place=3)
    estate.apply()
    for index, target in enumerate((FAR4, FAR6)):
        with Capture(estate.outside.ns, "eth0", lab.directory / f"{index}.pcap", "tcp") as capture:
            with Talk(guest.ns, estate.outside.far, target) as talk:
                talk.exchange()
        frames = capture.frames()
        layer = (IP, IPv6)[index]
        assert max(len(frame) for frame in frames if frame[layer].src == target) > 10_000
        assert max(len(frame) for frame in frames if frame[layer].dst == target) > 10_000


@pytest.mark.parametrize("encapsulation, family", ENCAPSULATIONS, ids=NAMES)
def test_super_packets_reach_a_leg_that_takes_no_tunnels_mark_whole(lab, encapsulation, family):
    """A TAP, as the device of a virtual machine's network is: to a neighbour on the leg, and by a next hop."""
    estate = Estate(lab, encapsulation, family, hosts=3)
    guest = estate.guest("front", 1)
    estate.gateway(3, (SOURCE,), make_leg=partial(tap_vm.start, lab))
    estate.apply()
    outside = estate.outside
    host = estate.hosts[2].name
    traffic.tcp_in_super_packets(guest.ns)
    for index, (ns, target) in enumerate(
            [(outside.far, FAR4), (outside.far, FAR6), (outside.ns, OUTSIDE4), (outside.ns, OUTSIDE6)]):
        source = guest.v4 if ":" not in target else guest.v6
        with Capture(outside.ns, "eth0", lab.directory / f"{index}.pcap", "tcp", direction="in") as capture:
            traffic.tcp_equal(guest.ns, source, ns, target, port=5301 + index)
        assert max(len(frame) for frame in capture.raw()) > 10_000
    assert verdicts(host)["from_unmarker", "leg_out"] > 0


@pytest.mark.parametrize("encapsulation, family", ENCAPSULATIONS, ids=NAMES)
@pytest.mark.parametrize("leg", ["veth", "tap"])
def test_udp_super_packets_travel_whole_through_the_gateway(lab, encapsulation, family, leg):
    """A server inside that speaks QUIC: translated or not, they leave by the leg as the guest sent them."""
    estate = Estate(lab, encapsulation, family, hosts=3)
    guest = estate.guest("front", 1)
    estate.gateway(3, (SOURCE,), make_leg=partial(tap_vm.start, lab) if leg == "tap" else veth)
    estate.apply()
    near, gateway = (estate.hosts[number] for number in (0, 2))
    super_packets.wait_for_greetings(near, gateway)
    for address, target in ((guest.v4, FAR4), (guest.v6, FAR6)):
        traffic.ping(guest.ns, target)
        before = [verdicts(host.name) for host in (near, gateway)]
        with Capture(estate.outside.ns, "eth0", lab.directory / "leg.pcap", "udp", direction="in") as capture:
            super_packets.equal(guest.ns, address, estate.outside.far, target)
        sent, arrived = (difference(was, verdicts(host.name)) for host, was in zip((near, gateway), before))
        assert sent["from_port", "encap"] == 16 and ("from_port", "segment") not in sent
        assert arrived["from_underlay", "leg_out"] == 16
        assert max(len(frame) for frame in capture.raw()) > 10_000


@PLACES
def test_traceroute_through_the_gateway_shows_every_router(lab, place):
    estate, guest = scene(lab, place=place)
    estate.apply()
    inner4, inner6 = estate.segments["front"].router
    assert probes.route_of(guest.ns, FAR4) == [inner4, OUTSIDE4, FAR4]
    assert probes.route_of(guest.ns, FAR6) == [inner6, OUTSIDE6, FAR6]
    # From outside, through a translation and without one.
    assert probes.route_of(estate.outside.far, guest.v6) == ["2001:2:0:f9::1", LEG6, guest.v6]


@PLACES
def test_icmp_errors_find_the_guest_they_are_about(lab, place):
    estate, guest = scene(lab, place=place)
    estate.apply()
    for far, refused_by in ((FAR4, FAR4), (FAR6, FAR6)):
        family = probes.family_of(far)
        assert ask(guest.ns, far) == probes.Refusal(PORT_UNREACHABLE[family], refused_by)
        assert probes.datagram_error(guest.ns, far, 9) == errno.ECONNREFUSED
    assert ask(guest.ns, "198.19.9.77", timeout=4) == probes.Refusal((3, 1), OUTSIDE4)
    assert ask(guest.ns, "198.19.10.1").by == OUTSIDE4, "the outer router knows no way"


def test_two_guests_with_the_same_port_get_a_port_each(lab):
    estate, one = scene(lab)
    other = estate.guest("data", 2)
    estate.apply()
    seen = []
    with traffic.udp_socket(estate.outside.far, FAR4, 5206) as far, \
            traffic.udp_socket(one.ns, one.v4, 4444) as a, traffic.udp_socket(other.ns, other.v4, 4444) as b:
        for near in (a, b, a):
            near.sendto(b"who am I", (FAR4, 5206))
            seen.append(far.recvfrom(64)[1])
            far.sendto(str(seen[-1]).encode(), seen[-1])
            assert near.recv(64) == str(seen[-1]).encode()
    assert seen[0] == seen[2] == (LEG4, 4444), "the first keeps its own"
    assert seen[1][0] == LEG4 and seen[1][1] != 4444
    rows = connections(estate.hosts[2], "core")
    assert {(row["local"]["address"], row["translation"]["outside"]["port"]) for row in rows} \
        == {(one.v4, 4444), (other.v4, seen[1][1])}
    assert connections(estate.hosts[0], "core") == [], "translated at the gateway only"


def test_echo_of_two_guests_with_the_same_identifier(lab):
    estate, one = scene(lab)
    other = estate.guest("data", 3)
    estate.apply()
    request = ICMP(type=8, id=77, seq=1) / b"which of us?"
    sockets = []
    for guest in (one, other):
        with guest.ns.entered():
            sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        sock.settimeout(2)
        sockets.append(sock)
    with sockets[0], sockets[1]:
        for sock in sockets:
            sock.sendto(bytes(request), (FAR4, 0))
        for sock in sockets:
            reply = IP(sock.recv(2048))
            assert (reply[ICMP].type, reply[ICMP].id, reply.src) == (0, 77, FAR4)
            sock.settimeout(0.2)
            with pytest.raises(socket.timeout):
                sock.recv(2048)


@PLACES
def test_a_forwarded_port_leads_inside(lab, place):
    estate, guest = scene(lab, place=place)
    estate.router["gateway"]["nat"] = [
        {"forward": f"{guest.v4}:80", "protocol": "tcp", "outside": f"{LEG4}:8080"},
        {"forward": f"{guest.v4}:53", "protocol": "udp", "outside": f"{SPARE4}:53"}, SOURCE]
    estate.apply()
    far = estate.outside.far
    with Talk(far, guest.ns, guest.v4, 80, target=(LEG4, 8080), source=FAR4) as talk:
        assert talk.client[0] == FAR4, "the guest sees who asks"
        talk.exchange()
    with traffic.udp_socket(guest.ns, guest.v4, 53) as server, traffic.udp_socket(far, FAR4) as client:
        client.sendto(b"query", (SPARE4, 53))
        data, sender = server.recvfrom(64)
        assert data == b"query" and sender[0] == FAR4
        server.sendto(b"answer", sender)
        assert client.recvfrom(64) == (b"answer", (SPARE4, 53))
    # Nobody listens: the reset, and the ICMP error, come from the outside address.
    assert probes.connect_error(far, LEG4, 8080) == errno.ECONNREFUSED
    refusal = ask(far, SPARE4, 53)
    assert (refusal.what, refusal.by) == (PORT_UNREACHABLE[4], SPARE4)


@PLACES
def test_a_client_reaches_one_guest_by_two_ways_from_one_port(lab, place):
    """By two outside addresses, and over IPv6 by one and directly: as a phone, or IKE, with its fixed port does."""
    estate, guest = scene(lab, place=place)
    estate.router["gateway"]["nat"] = [
        {"forward": f"{guest.v4}:5060", "protocol": "udp", "outside": f"{LEG4}:5060"},
        {"forward": f"{guest.v4}:5060", "protocol": "udp", "outside": f"{SPARE4}:5060"},
        {"forward": f"{guest.v4}:80", "protocol": "tcp", "outside": f"{LEG4}:8080"},
        {"forward": f"{guest.v4}:80", "protocol": "tcp", "outside": f"{SPARE4}:80"},
        {"one_to_one": guest.v6, "outside": SPARE6}, SOURCE]
    estate.apply()
    far = estate.outside.far
    for mine, client, ways in ((guest.v4, FAR4, ((LEG4, 5060), (SPARE4, 5060))),
                               (guest.v6, FAR6, ((guest.v6, 5060), (SPARE6, 5060)))):
        with traffic.udp_socket(guest.ns, mine, 5060) as server, traffic.udp_socket(far, client, 5060) as sock:
            seen = {}
            for way in (*ways, *ways):
                sock.sendto(repr(way).encode(), way)
                data, sender = server.recvfrom(64)
                assert data == repr(way).encode() and seen.setdefault(way, sender[:2]) == sender[:2]
            for way in reversed(ways):
                server.sendto(b"answer", seen[way])
                data, sender = sock.recvfrom(64)
                assert (data, sender[:2]) == (b"answer", way)
        assert seen[ways[0]] == (client, 5060) and seen[ways[1]][0] == client and seen[ways[1]][1] != 5060
        # Nobody listens any more: the error finds the socket by the port that the client has.
        with traffic.udp_socket(far, client, 5060) as sock:
            sock.connect(ways[1])
            sock.send(b"still there?")
            with pytest.raises(ConnectionRefusedError):
                sock.recv(64)
    for mine, client, ways in ((guest.v4, FAR4, ((LEG4, 8080), (SPARE4, 80))),
                               (guest.v6, FAR6, ((SPARE6, 80), (guest.v6, 80)))):
        with Talk(far, guest.ns, mine, 80, target=ways[0], source=client, source_port=4000) as one, \
                Talk(far, guest.ns, mine, 80, target=ways[1], source=client, source_port=4000) as other:
            assert one.client == (client, 4000) and other.client[0] == client and other.client[1] != 4000
            assert one.goes_on() and other.goes_on() and one.goes_on()
            rows = [row for row in connections(estate.hosts[2], "core")
                    if row["protocol"] == 6 and row["peer"]["address"] == client]
            assert {(row["peer"]["port"], row["translation"]["peer"]["port"]) for row in rows} \
                == {(4000, 4000), (other.client[1], 4000)}
            one.exchange()
            other.exchange()


def test_echo_to_one_guest_by_two_ways_with_one_identifier(lab):
    estate, guest = scene(lab)
    estate.router["gateway"]["nat"] = [{"one_to_one": guest.v6, "outside": SPARE6}]
    estate.apply()
    with estate.outside.far.entered():
        sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    with sock:
        sock.settimeout(2)
        for sequence, way in enumerate((guest.v6, SPARE6, guest.v6, SPARE6)):
            sock.sendto(bytes(ICMPv6EchoRequest(id=77, seq=sequence)), (way, 0))
        answers = set()
        while len(answers) < 4:
            data, sender = sock.recvfrom(2048)
            if data[0] == 129:
                answers.add((sender[0], *struct.unpack("!HH", data[4:8])))
    assert answers == {(guest.v6, 77, 0), (SPARE6, 77, 1), (guest.v6, 77, 2), (SPARE6, 77, 3)}


@PLACES
def test_one_to_one_is_the_address_in_both_directions(lab, place):
    estate, guest = scene(lab, place=place)
    estate.router["gateway"]["nat"] = [
        {"one_to_one": guest.v4, "outside": SPARE4}, {"one_to_one": guest.v6, "outside": SPARE6}, SOURCE]
    estate.apply()
    far = estate.outside.far
    for target, outside, mine in ((FAR4, SPARE4, guest.v4), (FAR6, SPARE6, guest.v6)):
        traffic.ping(guest.ns, target)
        traffic.ping(far, outside)
        with Talk(guest.ns, far, target) as talk:
            assert talk.client[0] == outside
            talk.exchange()
        with Talk(far, guest.ns, mine, 5206, target=(outside, 5206)) as talk:
            assert talk.client[0] == target
            talk.exchange()
        family = probes.family_of(target)
        assert ask(far, outside) == probes.Refusal(PORT_UNREACHABLE[family], outside)
        assert probes.route_of(far, outside)[-1] == outside
        # A datagram in fragments has no ports in most of them; the address is enough.
        with traffic.udp_socket(far, target, 5207) as into, traffic.udp_socket(guest.ns, mine) as out:
            data = traffic.payload(4000, 1)
            out.sendto(data, (target, 5207))
            received, sender = into.recvfrom(65535)
            assert received == data and sender[0] == outside


def echo_long(near, far, target):
    """A datagram of 4000 bytes and its answer, and whom the far side saw. Who sends first learns the path MTU."""
    data = traffic.payload(4000)
    for _ in range(5):
        with contextlib.suppress(TimeoutError):
            near.sendto(data, target)
            received, sender = far.recvfrom(65535)
            assert received == data
            far.sendto(data[::-1], sender)
            assert near.recv(65535) == data[::-1]
            return sender
    raise AssertionError(f"no datagram of 4000 bytes to {target} is answered")


@PLACES
def test_long_datagrams_go_both_ways_in_fragments(lab, place):
    """Through `source` and `forward`, over both families: two guests with one port and one outside address."""
    estate, guest = scene(lab, nat=(SOURCE, {"source": INSIDE6, "outside": LEG6}), place=place)
    other, far = estate.guest("data", 3), estate.outside.far
    estate.router["gateway"]["nat"][:0] = [
        {"forward": f"{guest.v4}:53", "protocol": "udp", "outside": f"{LEG4}:5353"},
        {"forward": f"[{guest.v6}]:53", "protocol": "udp", "outside": f"[{LEG6}]:5353"}]
    estate.apply()
    for index, (target, outside) in enumerate(((FAR4, LEG4), (FAR6, LEG6))):
        with traffic.udp_socket(far, target, 5206, timeout=0.3) as remote, \
                traffic.udp_socket(guest.ns, guest.addresses[index], 7000, timeout=0.3) as one, \
                traffic.udp_socket(other.ns, other.addresses[index], 7000, timeout=0.3) as two:
            seen = [echo_long(near, remote, (target, 5206))[:2] for near in (one, two)]
            assert {address for address, _ in seen} == {outside}
            assert seen[0][1] == 7000 != seen[1][1]
        with traffic.udp_socket(far, target, timeout=0.3) as asks, \
                traffic.udp_socket(guest.ns, guest.addresses[index], 53, timeout=0.3) as answers:
            assert echo_long(asks, answers, (outside, 5353))[0] == target
        for each in (guest, other):
            each.ns.run(["ping", "-c2", "-W2", "-s", "4000", target])


def test_the_leg_answers_for_itself_and_serves_nothing(lab):
    estate, guest = scene(lab, nat=(SOURCE, {"forward": "198.18.101.1:80", "protocol": "tcp",
                                             "outside": f"{SPARE4}:80"}))
    estate.apply()
    far, near = estate.outside.far, estate.outside.ns
    for address in (LEG4, LEG6, SPARE4):
        # Two hosts behind translators may connect to each other there, so nobody is refused at once (RFC 5382 REQ-4).
        refusal = errno.ECONNREFUSED if address == LEG6 else errno.ETIMEDOUT
        for place in (near, far):
            traffic.ping(place, address, size=1400)
            assert probes.connect_error(place, address, 22) == refusal
            assert ask(place, address).what == PORT_UNREACHABLE[probes.family_of(address)]
    leg_mac = estate.hosts[2].ns.mac(LEG)
    for address in (LEG4, LEG6, SPARE4):
        (entry,) = near.json(f"neigh show {address} dev eth0")
        assert entry["lladdr"] == leg_mac
        near.ip(f"neigh replace {address} lladdr {leg_mac} dev eth0 nud probe")
        wait_until(lambda: near.json(f"neigh show {address} dev eth0")[0]["state"] == ["REACHABLE"],
                   what=f"{address} to be confirmed")
    # From inside, on every host, the leg's addresses are the router's too.
    traffic.ping(guest.ns, LEG4)
    traffic.ping(guest.ns, LEG6)


def test_strangers_find_no_way_in_by_the_source_address(lab):
    """Only what belongs to a translation is let in; the same port, asked by another, is the router's own."""
    estate, guest = scene(lab)
    estate.apply()
    with traffic.udp_socket(estate.outside.far, FAR4, 5206) as far, \
            traffic.udp_socket(estate.outside.ns, OUTSIDE4) as stranger, \
            traffic.udp_socket(guest.ns, guest.v4, timeout=0.3) as near:
        near.sendto(b"hello", (FAR4, 5206))
        _, outside = far.recvfrom(64)
        before = verdicts(estate.hosts[2].name)
        stranger.sendto(b"let me in", outside)
        with pytest.raises(socket.timeout):
            near.recv(64)
        far.sendto(b"welcome", outside)
        assert near.recv(64) == b"welcome"
    rose = difference(before, verdicts(estate.hosts[2].name))
    assert rose["from_leg", "router_address"] == 1


def test_the_hosts_own_traffic_on_the_leg_is_left_alone(lab):
    """The gateway host has an address of its own in the same network."""
    estate, guest = scene(lab)
    host, near = estate.hosts[2], estate.outside.ns
    host.ns.ip(f"address add 198.19.0.3/24 dev {LEG}", f"address add 2001:2:0:f0::3/64 dev {LEG} nodad")
    estate.apply()
    for own, theirs in (("198.19.0.3", OUTSIDE4), ("2001:2:0:f0::3", OUTSIDE6)):
        traffic.ping(host.ns, theirs)
        traffic.ping(near, own)
        traffic.tcp_equal(near, theirs, host.ns, own, size=traffic.MEBIBYTE)
    traffic.ping(guest.ns, FAR4)
    assert verdicts(host.name)["from_leg", "to_host"] > 0


def test_the_gateways_host_is_not_reached_by_its_own_leg(lab):
    """Nobody out there answers for its address; what no network inside has is for its own routes."""
    estate, guest = scene(lab)
    host, near = estate.hosts[2], estate.outside.ns
    host.ns.ip(f"address add 198.19.0.3/24 dev {LEG}")
    estate.apply()

    def is_silent():
        assert traffic.pings(guest.ns, "198.19.0.3", timeout=0.3) == 0
        return verdicts(host.name)["from_underlay", "no_neighbour"]

    wait_until(is_silent, what="no_neighbour")
    unused = "198.18.250.1"
    near.ip(f"route add {unused} via {LEG4}")
    host.ns.sysctl("net.ipv4.ip_forward", 1)
    host.ns.ip(f"route add unreachable {unused}")
    assert ask(near, unused).by == "198.19.0.3"


def test_all_that_show_a_leg_say_that_its_device_is_missing(lab):
    estate, _ = scene(lab)
    estate.apply()
    host = estate.hosts[2]
    line = f"leg {LEG}: missing; create it, and apply again"
    for what in ("routes", "drops", "ports"):
        assert LEG + ":" not in overlane("show", what, "--host", host.name).stdout
    host.ns.ip(f"link delete {LEG}")
    for what in ("routes", "drops", "ports"):
        assert line in overlane("show", what, "--host", host.name).stdout.splitlines()
    assert [router["leg_state"] for router in show("routes", host.name)["routers"]] == ["missing"]
    assert {"device": LEG, "used_as": "leg", "state": "missing"} in show("drops", host.name)["others"]


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)], ids=["vxlan-v4", "geneve-v6"])
def test_path_mtu_across_the_gateway_both_ways(lab, encapsulation, family):
    """Outside and the guests believe in 1500 bytes, the tunnel between has less: both are told, through the
    translation, about the packet as they sent it."""
    estate, guest = scene(lab, encapsulation=encapsulation, family=family, large_guests=True)
    estate.router["gateway"]["nat"] = [
        {"forward": f"{guest.v4}:80", "protocol": "tcp", "outside": f"{LEG4}:8080"},
        {"one_to_one": estate.guest("data", 2).v4, "outside": SPARE4}, SOURCE]
    estate.apply()
    far = estate.outside.far
    fits = {(VXLAN, 4): 1450, (GENEVE, 6): 1422}[encapsulation, family]
    with Talk(far, guest.ns, guest.v4, 80, target=(LEG4, 8080)) as talk:
        talk.exchange()
    with Talk(guest.ns, far, FAR4) as talk:
        talk.exchange()
    with Talk(far, guest.ns, guest.v6, 5206) as talk:
        talk.exchange()
    with Talk(guest.ns, far, FAR6) as talk:
        talk.exchange()
    assert verdicts(estate.hosts[2].name)["from_leg", "pkt_too_big"] >= 1
    assert probes.path_mtu(far, SPARE4, 1500) == fits
    assert probes.path_mtu(far, guest.v6, 1500) == fits
    assert probes.path_mtu(guest.ns, FAR4, 1500) == fits
    assert probes.path_mtu(guest.ns, FAR6, 1500) == fits


def test_a_router_inside_tells_the_world_of_a_narrow_link(lab):
    """A guest routes for a machine behind it. What it says about translated packets arrives, and shows no address from
    inside, nor that of the machine (RFC 5508 REQ-5)."""
    estate = Estate(lab, hosts=3)
    guest = estate.guest("front", 1, security="mac")
    estate.routes(("198.18.130.0/24", guest.v4))
    estate.gateway(3, [{"one_to_one": "198.18.130.1", "outside": SPARE4}, SOURCE])
    behind = lab.namespace("b")
    veth(guest.ns, "eth1", behind, "eth0")
    guest.ns.sysctl("net.ipv4.ip_forward", 1)
    guest.ns.ip("link set eth1 mtu 1280 up", "address add 198.18.130.254/24 dev eth1")
    behind.ip("link set eth0 mtu 1280 up", "address add 198.18.130.1/24 dev eth0",
              "route add default via 198.18.130.254")
    estate.apply()
    far = estate.outside.far
    far.sysctl("net.ipv4.conf.all.rp_filter", 1)
    assert probes.route_of(far, SPARE4) == ["198.19.9.1", LEG4, LEG4, SPARE4]
    assert probes.path_mtu(far, SPARE4, estate.mtu) == 1280


def test_a_narrow_leg_is_told_inside(lab):
    """The leg's own MTU is the smaller one."""
    estate, guest = scene(lab, place=3, large_guests=True)
    estate.hosts[2].ns.ip(f"link set {LEG} mtu 1300")
    estate.apply()
    for target in (FAR4, FAR6):
        assert probes.path_mtu(guest.ns, target, 1500) == 1300
        with Talk(guest.ns, estate.outside.far, target) as talk:
            talk.exchange()
    assert verdicts(estate.hosts[2].name)["from_port", "pkt_too_big"] >= 2


def test_translations_end_with_their_connections_and_outlive_a_reload(lab):
    estate, guest = scene(lab)
    estate.apply()
    gateway = estate.hosts[2]
    with Talk(guest.ns, estate.outside.far, FAR4) as talk:
        assert talk.goes_on()
        (row,) = connections(gateway, "core")
        assert (row["state"], row["protocol"], row["translation"]["outside"]["address"]) == ("established", 6, LEG4)
        assert row["local"]["address"] == guest.v4 and row["peer"] == {"address": FAR4, "port": 5205}
        estate.router["gateway"]["nat"].insert(0, {"one_to_one": "198.18.102.77", "outside": SPARE4})
        estate.apply()
        assert talk.goes_on()
        talk.near.shutdown(1)
        talk.far.shutdown(1)
        wait_until(lambda: connections(gateway, "core")[0]["state"] == "closing", what="the end to be seen")


def test_a_firewall_before_the_gateway_sees_inside_addresses(lab):
    """What comes by a forwarded port is judged at the guest, after the translation."""
    estate, guest = scene(lab)
    estate.router["gateway"]["nat"] = [
        {"forward": f"{guest.v4}:80", "protocol": "tcp", "outside": f"{LEG4}:8080"},
        {"forward": f"{guest.v4}:81", "protocol": "tcp", "outside": f"{LEG4}:8081"}, SOURCE]
    estate.firewall("front", to_port="drop")
    estate.rule("web", [guest], "to_port", peers=[f"{FAR4}/32"], services=["tcp/80"])
    estate.rule("no", [guest], "to_port", "reject", priority=1, services=["tcp"])
    estate.apply()
    with Listener(guest.ns, guest.v4, 80), Listener(guest.ns, guest.v4, 81):
        assert probes.connect_error(estate.outside.far, LEG4, 8080) == 0
        assert probes.connect_error(estate.outside.ns, LEG4, 8080) == errno.ECONNREFUSED
        assert probes.connect_error(estate.outside.far, LEG4, 8081) == errno.ECONNREFUSED
    traffic.ping(guest.ns, FAR4)


def test_packets_take_the_tunnel_to_the_gateway_in_their_own_switch(lab):
    estate, guest = scene(lab, encapsulation=VXLAN)
    estate.apply()
    traffic.ping(guest.ns, FAR4)
    with Capture(estate.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.ping(guest.ns, FAR4)
    assert tshark_count(capture.path, "vxlan.vni == 5001 && icmp") == 6
    assert tshark_count(capture.path, f"vxlan && icmp.type == 8 && eth.src == {guest.mac}") == 3
    counts = verdicts(estate.hosts[2].name)
    assert counts["from_underlay", "leg_out"] >= 6 and counts["from_leg", "encap"] >= 6


def test_what_cannot_be_translated_does_not_leave(lab):
    """Segments and messages that no stack sends: none of them leaves by the leg as it is."""
    estate, guest = scene(lab, place=3)
    estate.fabric.data["ports"]["port1"]["security"] = "mac"
    estate.apply()
    odd = [IP(src=guest.v4, dst=FAR4, proto=6) / b"short", IP(src=guest.v4, dst=FAR4) / TCP(flags="", dport=80),
           IP(src=guest.v4, dst=FAR4) / TCP(flags="SA", dport=80),
           IP(src=guest.v4, dst=FAR4) / ICMP(type=5) / bytes(28), IP(src=guest.v4, dst=FAR4) / ICMP(type=0, id=9)]
    traffic.ping(guest.ns, FAR4)
    host = estate.hosts[2].name
    before = verdicts(host)
    with Capture(estate.outside.ns, "eth0", lab.directory / "o.pcap", "ip") as capture, \
            PacketSocket(guest.ns, "eth0") as out:
        for packet in odd:
            out.send(bytes(Ether(src=guest.mac, dst=ROUTER_MAC) / packet))
    assert capture.raw() == []
    rose = {key: count for key, count in difference(before, verdicts(host)).items() if key[0] == "from_port"}
    assert rose == {("from_port", "connection_invalid"): 4, ("from_port", "nat_unsupported"): 1}


def translations(host):
    """Outside ends that the kernel knows translations by."""
    folder, = PINS.glob(f"{host.name}/maps-*")
    return json.loads(run(["bpftool", "-j", "map", "dump", "pinned", str(folder / "translations")]).stdout)


def test_a_translation_that_is_forgotten_is_made_anew(lab):
    estate, guest = scene(lab)
    other = estate.guest("data", 3)
    estate.apply()
    gateway, far = estate.hosts[2], estate.outside.far
    with traffic.udp_socket(far, FAR4, 5206) as there, traffic.udp_socket(guest.ns, guest.v4, 4000) as near, \
            traffic.udp_socket(other.ns, other.v4) as third:
        for sock in (near, third):
            sock.sendto(b"ask", (FAR4, 5206))
        senders = {}
        for _ in range(2):
            _, sender = there.recvfrom(64)
            senders[sender[1]] = sender
        assert len(connections(gateway, "core")) == len(translations(gateway)) == 2
        done = overlane("connections", "forget", "--host", gateway.name, "--port", "core", "--local", guest.v4)
        assert done.stdout == f"host {gateway.name}: 1 connection forgotten\n"
        # With its outside end, and the other's is left.
        assert len(connections(gateway, "core")) == len(translations(gateway)) == 1
        before = verdicts(gateway.name)
        there.sendto(b"late", senders[4000])
        wait_until(lambda: difference(before, verdicts(gateway.name)).get(("from_leg", "router_address")),
                   what="the late answer to find no translation")
        del senders[4000]
        there.sendto(b"answer", *senders.values())
        assert third.recv(64) == b"answer"
        near.sendto(b"again", (FAR4, 5206))
        data, sender = there.recvfrom(64)
        assert (data, sender[0]) == (b"again", LEG4)
        there.sendto(b"answer", sender)
        assert near.recv(64) == b"answer"
        assert len(connections(gateway, "core")) == len(translations(gateway)) == 2
