"""A logical switch that is a VLAN of the underlay (`uplink_vlan`): with Overlane on the other host, and
with a machine there that has never heard of it."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

import traffic
from capture import Capture, tshark_count
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from net import wait_until
from overlane import VLAN, difference, remote_counters, verdicts
from peers import access
from topology import PLAIN, UPLINK, UPLINK_VLAN, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane

PRINTER = guest_mac(70), *guest_addresses(70)


def tag(frame, vlan=UPLINK_VLAN, priority=0, tpid=0x8100):
    """The frame as the underlay has it."""
    return frame[:12] + tpid.to_bytes(2, "big") + (priority << 13 | vlan).to_bytes(2, "big") + frame[12:]


@pytest.fixture
def stage(lab):
    """One Overlane host with two guests; the other end of its cable is no Overlane."""
    return Scene(lab, VLAN, 4, PLAIN, guests=(2, 1), peers=[2]).apply()


@pytest.fixture
def silent(lab):
    """The same with guests that answer nothing: what is on the wire is the test's own."""
    options = {"addresses": False, "ipv6": False}
    return Scene(lab, VLAN, 4, PLAIN, guests=(2, 1), peers=[2], guest_options=options).apply()


def test_tcp_and_udp_arrive_byte_for_byte_with_offloads_on(lab, family, wire):
    scene = Scene(lab, VLAN, family, wire).apply()
    near, far = scene.guests
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b, size=1400)
        traffic.tcp_equal(near.ns, a, far.ns, b)
        traffic.udp_equal(near.ns, a, far.ns, b)
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_port", "vlan_out"] > 0 and ("from_port", "encap") not in counts


def test_the_underlay_carries_tagged_frames_and_no_tunnel(lab, wire):
    scene = Scene(lab, VLAN, 4, wire).apply()
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path) as capture:
        traffic.ping(near.ns, far.v4)
        traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=traffic.MEBIBYTE)
    assert tshark_count(path, "vxlan || geneve") == 0
    assert tshark_count(path, "(tcp || icmp) && !(vlan.id == 100 && vlan.priority == 0)") == 0
    assert tshark_count(path, "tcp && eth.src == %s && eth.dst == %s" % (near.mac, far.mac)) > 0
    assert tshark_count(path, "icmp && vlan.id == 100") == 6
    if wire != "whole":
        assert max(len(frame) for frame in capture.raw()) == 1518


def test_frames_that_are_not_ip_and_short_ones_pass_unchanged(lab):
    scene = Scene(lab, VLAN, 4).apply()
    near, far = scene.guests
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for size in (46, 300, 1500):
            frame = plain_frame(near.mac, far.mac, traffic.payload(size, size))
            out.send(frame)
            assert into.receive() == frame


def test_the_hosts_own_traffic_on_the_uplink_is_left_alone(lab, family):
    scene = Scene(lab, VLAN, family).apply()
    one, two = scene.hosts
    traffic.ping(one.ns, two.address)
    traffic.tcp_equal(one.ns, one.address, two.ns, two.address, size=traffic.MEBIBYTE)
    assert verdicts(one.name)["from_underlay", "to_host"] > 0


@pytest.mark.needs(*access.TOOLS)
def test_a_machine_on_the_physical_vlan_is_reached_and_reaches_the_guests(lab, stage):
    """It stands in no fabric file: found by its own ARP and ND, on the switch as on any other."""
    near, neighbour, _ = stage.guests
    physical = access.AccessSwitch(lab, stage.hosts[1], UPLINK, 1500)
    mac, v4, v6 = PRINTER
    physical.access("printer", UPLINK_VLAN, mac, (v4, v6))
    for guest in (near, neighbour):
        for mine, theirs in zip(guest.addresses, (v4, v6)):
            traffic.ping(guest.ns, theirs, size=1400)
            traffic.ping(physical.ns, mine, size=1400)
            traffic.tcp_equal(guest.ns, mine, physical.ns, theirs, size=traffic.MEBIBYTE)
            traffic.tcp_equal(physical.ns, theirs, guest.ns, mine, size=traffic.MEBIBYTE, port=5301)
            traffic.udp_equal(guest.ns, mine, physical.ns, theirs)


def test_tagged_frames_of_a_plain_peer_and_what_it_sees(silent):
    """Byte for byte, both ways: unicast, broadcast, with a priority, not IP at all."""
    near, neighbour, _ = silent.guests
    host, peer = silent.hosts
    outside, v4, _ = PRINTER
    udp = bytes(Ether(src=outside, dst=near.mac) / IP(src=v4, dst=near.v4) / UDP(sport=1, dport=2)
                / Raw(b"from outside" * 8))
    with PacketSocket(peer.ns, UPLINK, ETH_P_ALL) as wire, \
            PacketSocket(near.ns, "eth0", ETH_P_ALL) as into, \
            PacketSocket(neighbour.ns, "eth0", ETH_P_ALL) as other, PacketSocket(near.ns, "eth0") as out:
        before = verdicts(host.name)
        for frame, priority in ((udp, 0), (udp, 5), (plain_frame(outside, near.mac), 7)):
            wire.send(tag(frame, priority=priority))
            assert into.receive() == frame
        assert other.receive(0.2) is None
        shout = plain_frame(outside, BROADCAST)
        wire.send(tag(shout))
        assert into.receive() == shout and other.receive() == shout
        rose = difference(before, verdicts(host.name))
        assert rose == {("from_underlay", "to_port"): 3, ("from_underlay", "flood"): 1}
        wire.receive_all()
        for frame in (plain_frame(near.mac, outside), plain_frame(near.mac, BROADCAST)):
            out.send(frame)
            assert wire.receive() == tag(frame)


def test_a_guest_asks_the_physical_network_for_addresses_nobody_here_knows(silent):
    near = silent.guests[0]
    with PacketSocket(silent.hosts[1].ns, UPLINK, ETH_P_ALL) as wire, PacketSocket(near.ns, "eth0") as out:
        request = bytes(Ether(src=near.mac, dst=BROADCAST)
                        / ARP(op=1, hwsrc=near.mac, psrc=near.v4, pdst="198.18.100.70"))
        out.send(request)
        assert wire.receive() == tag(request)


def test_what_is_not_of_the_vlan_never_enters_the_switch(silent):
    near, neighbour, _ = silent.guests
    host, peer = silent.hosts
    frame = plain_frame(PRINTER[0], near.mac)
    cases = {
        "another VLAN": (tag(frame, 101), "to_host"),
        "a priority tag": (tag(frame, 0), "to_host"),
        "a service tag": (tag(frame, tpid=0x88A8), "to_host"),
        "no tag": (frame, "to_host"),
        "a second tag": (tag(tag(frame, 7)), "vlan_tag"),
        "nobody's address": (tag(plain_frame(PRINTER[0], "02:00:00:00:99:99")), "unknown_unicast"),
        "the address of a guest of another host": (tag(plain_frame(PRINTER[0], silent.guests[2].mac)),
                                                   "unknown_unicast"),
        "a group source": (tag(plain_frame("03:00:00:00:00:01", near.mac)), "source_mac"),
    }
    with PacketSocket(peer.ns, UPLINK) as wire, PacketSocket(near.ns, "eth0", ETH_P_ALL) as into, \
            PacketSocket(neighbour.ns, "eth0", ETH_P_ALL) as other:
        for name, (bad, verdict) in cases.items():
            before = verdicts(host.name)
            wire.send(bad)
            expected = {("from_underlay", verdict): 1}
            wait_until(lambda: difference(before, verdicts(host.name)), what=name)
            assert difference(before, verdicts(host.name)) == expected, name
        assert into.receive_all() == [] and other.receive_all() == []


def test_a_guests_tag_is_refused_and_never_reaches_the_underlay(silent):
    """Not the switch's own VLAN either: a tag that a guest chose is no way onto the wire. One of VLAN 0 is none."""
    near = silent.guests[0]
    host, peer = silent.hosts
    with PacketSocket(peer.ns, UPLINK, ETH_P_ALL) as wire, PacketSocket(near.ns, "eth0") as out:
        before = verdicts(host.name)
        frame = plain_frame(near.mac, BROADCAST)
        for vlan in (UPLINK_VLAN, 101):
            out.send(tag(frame, vlan))
        assert wire.receive_all() == []
        assert difference(before, verdicts(host.name)) == {("from_port", "vlan_tag"): 2}
        out.send(tag(frame, 0, priority=5))
        assert wire.receive_all() == [tag(frame, priority=5)]


def test_a_frame_beyond_the_uplinks_mtu_is_counted_and_not_sent(lab):
    scene = Scene(lab, VLAN, 4, mtu=1400, guest_options={"mtu": 1500}).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4, size=1400 - 28)
    before = verdicts(scene.hosts[0].name)
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap", direction="out") as capture:
        assert traffic.pings(near.ns, far.v4, size=1400 - 27, timeout=0.2) == 0
    assert not [frame for frame in capture.raw() if len(frame) > 1000]
    assert difference(before, verdicts(scene.hosts[0].name))["from_port", "pkt_too_big"] == 1


def test_both_kinds_of_switch_live_on_one_uplink_and_do_not_mix(lab):
    """`blue` in a tunnel, `base` on the VLAN; the same addresses in both."""
    scene = Scene(lab, "geneve", 4, guests=(2, 2))
    scene.fabric.switch("base", uplink_vlan=UPLINK_VLAN)
    plain = [scene.guests[1], scene.guests[3]]
    for guest in plain:
        scene.fabric.data["ports"][f"port{guest.number}"]["switch"] = "base"
    scene.apply()
    near, far = scene.guests[0], scene.guests[2]
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.ping(near.ns, far.v4)
        traffic.ping(plain[0].ns, plain[1].v4)
        traffic.tcp_equal(plain[0].ns, plain[0].v6, plain[1].ns, plain[1].v6, size=traffic.MEBIBYTE)
        assert traffic.pings(near.ns, plain[1].v4, timeout=0.3) == 0
        assert traffic.pings(plain[0].ns, far.v4, timeout=0.3) == 0
    assert tshark_count(capture.path, "geneve && icmp") == 6
    assert tshark_count(capture.path, "vlan && icmp") == 6
    assert remote_counters(scene.hosts[0].name, scene.hosts[1].name)["to_remote"]["packets"] >= 3


def test_ipv6_crosses_a_vlan_as_it_is(silent):
    near = silent.guests[0]
    frame = bytes(Ether(src=near.mac, dst=PRINTER[0])
                  / IPv6(src=near.v6, dst=PRINTER[2], tc=0xBB, hlim=3, fl=0x12345)
                  / UDP(sport=1, dport=2) / Raw(b"as it is"))
    with PacketSocket(silent.hosts[1].ns, UPLINK, ETH_P_ALL) as wire, PacketSocket(near.ns, "eth0") as out:
        out.send(frame)
        assert wire.receive() == tag(frame)
