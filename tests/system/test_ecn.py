"""RFC 6040 and DSCP between real ends: what a mark on the underlay becomes in the guest, and what of a
guest's header shows on the underlay."""

import itertools
import struct
import time

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import traffic
from capture import Capture
from frames import ETH_P_ALL, Ends, PacketSocket, plain_frame
from net import PATIENCE
from overlane import VXLAN, difference, verdicts
from peers import kernel
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

NOT_ECT, ECT1, ECT0, CE = range(4)
#: RFC 6040 figure 4: (inner, outer) → what leaves; None is dropped.
FIGURE_4 = {
    (NOT_ECT, NOT_ECT): NOT_ECT, (NOT_ECT, ECT0): NOT_ECT, (NOT_ECT, ECT1): NOT_ECT, (NOT_ECT, CE): None,
    (ECT0, NOT_ECT): ECT0, (ECT0, ECT0): ECT0, (ECT0, ECT1): ECT1, (ECT0, CE): CE,
    (ECT1, NOT_ECT): ECT1, (ECT1, ECT0): ECT1, (ECT1, ECT1): ECT1, (ECT1, CE): CE,
    (CE, NOT_ECT): CE, (CE, ECT0): CE, (CE, ECT1): CE, (CE, CE): CE,
}
DSCP = 46


def guest_packet(a, b, v6, tos, marker):
    """A UDP packet of guest `a` for guest `b` with this traffic class."""
    ip = IPv6(src=a.v6, dst=b.v6, tc=tos) if v6 else IP(src=a.v4, dst=b.v4, tos=tos)
    return bytes(Ether(src=a.mac, dst=b.mac) / ip / UDP(sport=4000, dport=4001) / Raw(marker))


def traffic_class(frame, at=14):
    """Of the IP header at `at`, whatever its version; and its header is sound."""
    if frame[at] >> 4 == 6:
        return (frame[at] & 15) << 4 | frame[at + 1] >> 4
    words = struct.unpack("!10H", frame[at:at + 20])
    total = sum(words)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF, "IPv4 header checksum"
    return frame[at + 1]


def from_far(lab, encapsulation, family):
    """(scene, tunnel as the far host has it): a host whose peer is only a socket."""
    silent = {"addresses": False, "ipv6": False}
    scene = Scene(lab, encapsulation, family, peers=[2], guest_options=silent).apply()
    one, two = scene.hosts
    near, far = scene.guests
    return scene, Ends(encapsulation, family, two.ns.mac(UPLINK), one.ns.mac(UPLINK), two.address,
                       one.address, scene.vni, far.number, near.number)


@pytest.mark.parametrize("inner6", [False, True], ids=["inner-v4", "inner-v6"])
def test_every_mark_of_the_underlay_arrives_as_figure_4_says(lab, encapsulation, family, inner6):
    scene, ends = from_far(lab, encapsulation, family)
    near, far = scene.guests
    host = scene.hosts[0].name
    with PacketSocket(scene.hosts[1].ns, UPLINK) as out, PacketSocket(near.ns, "eth0", ETH_P_ALL) as into:
        for (inner, outer), expected in FIGURE_4.items():
            # The outer DSCP says something else: the inner one stays.
            packet = guest_packet(far, near, inner6, DSCP << 2 | inner, b"ecn %d %d" % (inner, outer))
            mark = {"tos" if family == 4 else "tc": 10 << 2 | outer}
            before = verdicts(host)
            out.send(ends.carry(packet, ip=mark))
            got = into.receive(0.2 if expected is None else 2.0)
            rose = difference(before, verdicts(host))
            if expected is None:
                assert got is None and rose == {("from_underlay", "ecn_ce"): 1}
                continue
            assert rose == {("from_underlay", "to_port"): 1}
            assert traffic_class(got) == DSCP << 2 | expected, f"inner {inner}, outer {outer}"
            assert got[-7:] == packet[-7:]


def test_congestion_marked_on_a_frame_that_is_not_ip_is_of_no_consequence(lab, encapsulation, family):
    scene, ends = from_far(lab, encapsulation, family)
    near, far = scene.guests
    frame = plain_frame(far.mac, near.mac)
    with PacketSocket(scene.hosts[1].ns, UPLINK) as out, PacketSocket(near.ns, "eth0", ETH_P_ALL) as into:
        out.send(ends.carry(frame, ip={"tos" if family == 4 else "tc": CE}))
        assert into.receive() == frame


@pytest.mark.parametrize("dscp, expected", [(None, 0), (26, 26), ("copy", DSCP)])
def test_what_the_underlay_sees_of_a_guests_header(lab, encapsulation, family, dscp, expected):
    tunnel = {} if dscp is None else {"dscp": dscp}
    scene = Scene(lab, encapsulation, family, tunnel=tunnel).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    path = lab.directory / "u.pcap"
    sent = {}
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for v6, ecn in itertools.product((False, True), range(4)):
            marker = b"class %d %d" % (v6, ecn)
            sent[marker] = ecn
            out.send(guest_packet(near, far, v6, DSCP << 2 | ecn, marker))
        out.send(plain_frame(near.mac, far.mac, b"no class at all" * 4))
        got = [frame for frame in into.receive_all() if frame[-9:] in sent]
    assert {frame[-9:]: traffic_class(frame) for frame in got} \
        == {marker: DSCP << 2 | ecn for marker, ecn in sent.items()}, "the guest's own header stays"
    seen = {frame[-9:]: traffic_class(frame) for frame in capture.raw() if frame[-9:] in sent}
    assert seen == {marker: expected << 2 | ecn for marker, ecn in sent.items()}
    (plain,) = [frame for frame in capture.raw() if frame.endswith(b"no class at all" * 4)]
    assert traffic_class(plain) == (0 if dscp == "copy" else expected) << 2


def test_tcp_with_ecn_negotiated_crosses_whole(lab, encapsulation, family, wire):
    """ECT(0) on every segment, super-packets among them, in both headers."""
    scene = Scene(lab, encapsulation, family, wire, tunnel={"dscp": "copy"}).apply()
    near, far = scene.guests
    for guest in (near, far):
        guest.ns.sysctl("net.ipv4.tcp_ecn", 1)
    traffic.ping(near.ns, far.v4)
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, "udp", direction="out") as capture:
        for a, b in zip(near.addresses, far.addresses):
            traffic.tcp_equal(near.ns, a, far.ns, b)
    marks = [traffic_class(frame) & 3 for frame in capture.raw()]
    assert marks.count(ECT0) > 10 and set(marks) <= {NOT_ECT, ECT0}


@pytest.mark.parametrize("ecn", [NOT_ECT, ECT0, ECT1, CE])
@pytest.mark.parametrize("inner6", [False, True], ids=["inner-v4", "inner-v6"])
def test_marks_pass_to_and_from_the_kernels_own_vxlan(lab, family, ecn, inner6):
    """The kernel writes ECT(0) outside for CE inside (RFC 3168, not RFC 6040): CE arrives all the same."""
    scene = Scene(lab, VXLAN, family, peers=[2])
    one, two = scene.hosts
    kernel.join(two, one.address, scene.vni, two.guests, mtu=scene.mtu)
    scene.apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    for a, b in ((near, far), (far, near)):
        packet = guest_packet(a, b, inner6, DSCP << 2 | ecn, b"to port %d" % b.number)
        with PacketSocket(a.ns, "eth0") as out, PacketSocket(b.ns, "eth0", ETH_P_ALL) as into:
            out.send(packet)
            deadline = time.monotonic() + 2 * PATIENCE
            got = None
            # The guests' own words (a port unreachable that quotes it among them) are not meant.
            while got is None or got[:12] != packet[:12] or got[-9:] != packet[-9:]:
                assert time.monotonic() < deadline, "the packet did not arrive"
                got = into.receive(0.5)
        assert got == packet, "nothing of it changed, checksums included"
