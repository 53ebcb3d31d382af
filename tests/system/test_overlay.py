"""Overlane on every host: what a logical switch promises its ports."""

import socket

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import ARP, Ether

import traffic
from capture import Capture, tshark_count
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame, short_frames_arrive
from net import wait_until
from overlane import PORTS, difference, hook_sum, port_counters, remote_counters, verdicts
from topology import SEGMENTED, UPLINK, WHOLE, Scene, add_guest

pytestmark = pytest.mark.needs_overlane

INNER_ARP_OR_ND = "arp || icmpv6.type == 135 || icmpv6.type == 136"


def tunnelled(filter):
    """A display filter for packets inside the tunnel only, not the underlay's own."""
    return f"(vxlan || geneve) && ({filter})"


def test_arp_and_nd_for_known_addresses_never_cross_the_underlay(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.ping(near.ns, far.v4)
        traffic.ping(near.ns, far.v6)
        traffic.ping(far.ns, near.v4)
    assert tshark_count(capture.path, tunnelled("icmp || icmpv6.type == 128")) > 0
    assert tshark_count(capture.path, tunnelled(INNER_ARP_OR_ND)) == 0
    assert verdicts(scene.hosts[0].name)["from_port", "answer"] >= 2
    learnt = {entry["dst"]: entry["lladdr"] for entry in near.ns.json("neigh show dev eth0")}
    assert learnt[far.v4] == far.mac and learnt[far.v6] == far.mac


def test_tcp_and_udp_arrive_byte_for_byte_with_offloads_on(lab, encapsulation, family, wire):
    scene = Scene(lab, encapsulation, family, wire).apply()
    near, far = scene.guests
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b)
        traffic.udp_equal(near.ns, a, far.ns, b)


def test_super_packets_cross_the_cable_whole(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, WHOLE).apply()
    near, far = scene.guests
    with Capture(far.ns, "eth0", lab.directory / "g.pcap", "tcp", direction="in") as capture:
        traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    packets = port_counters(scene.hosts[1].name, "port2")["to_port"]
    assert packets["segments"] > 3 * packets["packets"], packets
    assert max(len(frame) for frame in capture.raw()) > 20_000
    sent = verdicts(scene.hosts[0].name)
    assert ("from_port", "segment") not in sent, "nothing had to be segmented"


def test_segmented_wire_carries_no_frame_above_the_mtu(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, SEGMENTED).apply()
    near, far = scene.guests
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=traffic.MEBIBYTE)
    assert max(len(frame) for frame in capture.raw()) == 1514


def test_counters_of_ports_and_remotes_agree_on_both_hosts(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    one, two = (host.name for host in scene.hosts)
    with PacketSocket(near.ns, "eth0") as sock:
        for _ in range(100):
            sock.send(plain_frame(near.mac, far.mac))
    sent = remote_counters(one, two)["to_remote"]
    received = remote_counters(two, one)["from_remote"]
    assert sent == received and sent["packets"] == sent["segments"] == 100
    assert port_counters(one, "port1")["from_port"]["packets"] == 100
    assert port_counters(two, "port2")["to_port"]["packets"] == 100
    counts = verdicts(one)
    assert hook_sum(counts, "from_port") == counts["from_port", "encap"] == 100
    assert verdicts(two)["from_underlay", "to_port"] == 100


def test_short_frames_arrive_with_zeros_behind(lab, encapsulation, family):
    """Over a virtual wire, where the kernel's mark of a tunnel stays on them."""
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    for source, target in zip(near.addresses, far.addresses):
        short_frames_arrive(near, far, source, target)


def test_guests_find_each_other_where_the_fabric_knows_no_addresses(lab, encapsulation, family):
    """Their ARP and neighbour discovery cross the tunnel: the questions flooded, the answers unicast."""
    scene = Scene(lab, encapsulation, family, guests=(2, 1), declared=False).apply()
    near, neighbour, far = scene.guests
    for other in (far, neighbour):
        traffic.ping(near.ns, other.v4)
        traffic.ping(near.ns, other.v6)
    assert ("from_port", "answer") not in verdicts(scene.hosts[0].name)


@pytest.mark.parametrize("target", [BROADCAST, "01:00:5e:00:00:42", "33:33:00:00:00:42"])
def test_group_frames_reach_every_other_port_once_and_the_sender_never(lab, encapsulation, target):
    scene = Scene(lab, encapsulation, 4, guests=(2, 1, 1)).apply()
    for host in scene.hosts:  # a cold neighbour is a dropped copy: not what this test is about
        for other in scene.hosts:
            if other is not host:
                traffic.ping(host.ns, other.address, count=1)
    sender, *others = scene.guests
    sockets = [PacketSocket(guest.ns, "eth0", ETH_P_ALL) for guest in scene.guests]
    frame = plain_frame(sender.mac, target)
    with PacketSocket(sender.ns, "eth0") as out:
        out.send(frame)
    got = [[each for each in sock.receive_all() if each[12:14] == frame[12:14]] for sock in sockets]
    for sock in sockets:
        sock.__exit__()
    assert got[0] == [], "the sender got its own frame back"
    for guest, frames in zip(others, got[1:]):
        assert frames == [frame], f"{guest.device}: {len(frames)} copies"
    assert verdicts(scene.hosts[0].name)["from_port", "flood"] == 1


def test_frames_that_are_not_ip_pass_both_ways_unchanged(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    for a, b in ((near, far), (far, near)):
        with PacketSocket(a.ns, "eth0") as out, PacketSocket(b.ns, "eth0", ETH_P_ALL) as into:
            for size in (46, 300, 1400):
                frame = plain_frame(a.mac, b.mac, traffic.payload(size, size))
                out.send(frame)
                assert into.receive() == frame


def test_two_switches_on_the_same_hosts_are_isolated(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    scene.fabric.switch("red", 5002)
    strangers = []
    for host, number in zip(scene.hosts, (11, 12)):
        stranger = add_guest(lab, host, number, scene.mtu)
        scene.fabric.port(f"port{number}", "red", host.name, stranger.device, stranger.mac,
                          stranger.addresses, key=number - 10)
        strangers.append(stranger)
    scene.apply()
    near, far = scene.guests
    traffic.ping(strangers[0].ns, strangers[1].v4)
    traffic.ping(near.ns, far.v4)
    assert traffic.pings(near.ns, strangers[1].v4, timeout=0.3) == 0
    with PacketSocket(near.ns, "eth0") as out, \
            PacketSocket(strangers[0].ns, "eth0", ETH_P_ALL) as one, \
            PacketSocket(strangers[1].ns, "eth0", ETH_P_ALL) as two:
        for target in (BROADCAST, strangers[0].mac, strangers[1].mac):
            out.send(plain_frame(near.mac, target))
        assert one.receive(0.2) is None and two.receive(0.2) is None
    assert verdicts(scene.hosts[0].name)["from_port", "unknown_unicast"] >= 2


def test_guests_of_one_host_talk_without_the_underlay(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4, guests=(2, 1)).apply()
    one, two, _ = scene.guests
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap", "udp") as capture:
        traffic.ping(one.ns, two.v4)
        traffic.tcp_equal(one.ns, one.v4, two.ns, two.v4)
        traffic.tcp_equal(one.ns, one.v6, two.ns, two.v6)
    assert tshark_count(capture.path, tunnelled("tcp || icmp")) == 0
    assert verdicts(scene.hosts[0].name)["from_port", "to_port"] > 0


def test_many_flows_use_many_source_ports_within_the_range(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, tunnel={"source_ports": "50000-50999"}).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    path = lab.directory / "u.pcap"
    tunnel = f"udp dst port {PORTS[encapsulation]}"
    with Capture(scene.hosts[0].ns, UPLINK, path, tunnel, direction="out") as capture, \
            traffic.udp_socket(near.ns, near.v4) as sock:
        for port in range(20000, 20200):
            sock.sendto(b"flow", (far.v4, port))
    ports = [frame[UDP].sport for frame in capture.frames()]
    assert len(ports) == 200 and all(50000 <= port <= 50999 for port in ports)
    assert len(set(ports)) > 120, "200 flows in 1000 ports: fewer collisions than that"


def test_one_flow_keeps_one_source_port(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v6)
    path = lab.directory / "u.pcap"
    tunnel = f"udp dst port {PORTS[encapsulation]}"
    with Capture(scene.hosts[0].ns, UPLINK, path, tunnel, direction="out") as capture, \
            traffic.udp_socket(near.ns, near.v6) as sock:
        for _ in range(50):
            sock.sendto(b"flow", (far.v6, 20000))
    ports = {frame[UDP].sport for frame in capture.frames()}
    assert len(ports) == 1 and 49152 <= ports.pop() <= 65535


def arp_request(mac, sender, target):
    return bytes(Ether(src=mac, dst=BROADCAST) /
                 ARP(op=1, hwsrc=mac, psrc=sender, hwdst="00:00:00:00:00:00", pdst=target))


def test_arp_probes_for_an_address_of_the_asking_port_are_not_answered(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    before = verdicts(scene.hosts[0].name)
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as sock:
        sock.send(arp_request(near.mac, "0.0.0.0", near.v4))  # RFC 5227 probe
        sock.send(arp_request(near.mac, near.v4, near.v4))    # RFC 5227 announcement
        assert sock.receive(0.3) is None
        assert ("from_port", "answer") not in difference(before, verdicts(scene.hosts[0].name))
        sock.send(arp_request(near.mac, "0.0.0.0", far.v4))   # a real duplicate is reported
        reply = Ether(sock.receive())
    assert reply[ARP].op == 2 and reply[ARP].hwsrc == far.mac and reply[ARP].psrc == far.v4


def test_duplicate_address_detection_finds_others_and_not_itself(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    for key, value in (("accept_dad", 1), ("dad_transmits", 1)):
        near.ns.sysctl(f"net.ipv6.conf.eth0.{key}", value)
    near.ns.ip(f"address del {near.v6}/64 dev eth0", f"address add {near.v6}/64 dev eth0",
               f"address add {far.v6}/64 dev eth0")
    def states():
        info = near.ns.json("-6 address show dev eth0 scope global")[0]["addr_info"]
        return {entry["local"]: entry for entry in info}
    wait_until(lambda: not any(entry.get("tentative") and not entry.get("dadfailed")
                                   for entry in states().values()), what="end of DAD")
    assert not states()[near.v6].get("dadfailed"), "our own address was answered for"
    assert states()[far.v6].get("dadfailed"), "the other guest's address was not defended"


def test_unknown_destinations_flood_only_on_a_switch_that_says_so(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4, switch={"unknown_unicast": "flood"}).apply()
    near, far = scene.guests
    frame = plain_frame(near.mac, "02:00:00:00:99:99")
    traffic.ping(scene.hosts[0].ns, scene.hosts[1].address, count=1)
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        far.ns.ip("link set eth0 promisc on")
        out.send(frame)
        assert into.receive() == frame
    assert verdicts(scene.hosts[0].name)["from_port", "flood"] == 1


def test_udp_super_packets_arrive_as_datagrams(lab, encapsulation, family, wire):
    """UDP_SEGMENT in the guest: one skb, many datagrams."""
    scene = Scene(lab, encapsulation, family, wire).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    data = traffic.payload(30_000, 5)
    with traffic.udp_socket(far.ns, far.v4, 5300) as into, \
            traffic.udp_socket(near.ns, near.v4) as out:
        out.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
        out.sendto(data, (far.v4, 5300))
        got = [into.recv(65535) for _ in range(30)]
    assert all(len(each) == 1000 for each in got) and b"".join(got) == data


def test_no_packet_of_a_busy_guest_ends_uncounted(lab, encapsulation, family, wire):
    """What the guest's device sent is what the port's hook counted, segment for segment."""
    scene = Scene(lab, encapsulation, family, wire).apply()
    near, far = scene.guests
    before = sent_packets(near)
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    traffic.udp_equal(near.ns, near.v6, far.ns, far.v6)
    counts = verdicts(scene.hosts[0].name)
    assert hook_sum(counts, "from_port") == sent_packets(near) - before
    assert not [key for key in counts if key[1] in ("encap_failed", "gso_unsupported")]


def sent_packets(guest):
    return guest.ns.link("eth0")["stats64"]["tx"]["packets"]
