"""Packets at the underlay's size limit: what fits passes, what does not is counted and not sent."""

import socket

import pytest

import traffic
from capture import Capture
from frames import PacketSocket, plain_frame
from overlane import GENEVE, VXLAN, difference, verdicts
from topology import UPLINK, Scene, guest_mtu

pytestmark = pytest.mark.needs_overlane

UDP_SEGMENT = 103


def scene_with_large_guests(lab, encapsulation, family, wire="whole"):
    """Guests that believe in 1500 bytes, which the tunnel cannot carry."""
    return Scene(lab, encapsulation, family, wire, guest_options={"mtu": 1500}).apply()


@pytest.mark.parametrize("encapsulation, family, fits", [
    (VXLAN, 4, 1450), (GENEVE, 4, 1442), (VXLAN, 6, 1430), (GENEVE, 6, 1422)])
def test_the_largest_packet_passes_and_one_byte_more_is_counted(lab, encapsulation, family, fits):
    scene = scene_with_large_guests(lab, encapsulation, family)
    assert guest_mtu(encapsulation, family) == fits
    near, far = scene.guests
    for address, overhead in ((far.v4, 28), (far.v6, 48)):
        traffic.ping(near.ns, address, size=fits - overhead)
        before = verdicts(scene.hosts[0].name)
        path = lab.directory / f"{overhead}.pcap"
        with Capture(scene.hosts[0].ns, UPLINK, path, "udp") as capture:
            assert traffic.pings(near.ns, address, size=fits - overhead + 1, timeout=0.2) == 0
        assert not [each for each in capture.raw() if len(each) > 1000]
        rose = difference(before, verdicts(scene.hosts[0].name))
        assert rose["from_port", "pkt_too_big"] == 1, rose


def test_a_frame_that_is_not_ip_has_the_same_limit(lab, encapsulation, family):
    scene = scene_with_large_guests(lab, encapsulation, family)
    near, far = scene.guests
    fits = guest_mtu(encapsulation, family)
    before = verdicts(scene.hosts[0].name)
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", 0x0003) as into:
        out.send(plain_frame(near.mac, far.mac, b"x" * (fits + 1)))
        largest = plain_frame(near.mac, far.mac, b"y" * fits)
        out.send(largest)
        assert into.receive() == largest
    rose = difference(before, verdicts(scene.hosts[0].name))
    assert rose["from_port", "pkt_too_big"] == rose["from_port", "encap"] == 1


def test_super_packets_are_measured_by_their_segments(lab, encapsulation, family, wire):
    scene = scene_with_large_guests(lab, encapsulation, family, wire)
    near, far = scene.guests
    for a, b, overhead in ((near.v4, far.v4, 28), (near.v6, far.v6, 48)):
        traffic.ping(near.ns, b)
        fits = guest_mtu(encapsulation, family) - overhead
        with traffic.udp_socket(far.ns, b, 5300, timeout=0.3) as into, \
                traffic.udp_socket(near.ns, a) as out:
            for size, arrives in ((fits, True), (fits + 1, False)):
                before = verdicts(scene.hosts[0].name, "segments")
                out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
                out.sendto(traffic.payload(20 * size, size), (b, 5300))
                got = receive_for(into)
                assert got == (20 if arrives else 0), f"{size} bytes a segment over {b}"
                rose = difference(before, verdicts(scene.hosts[0].name, "segments"))
                assert rose.get(("from_port", "pkt_too_big"), 0) == (0 if arrives else 20), rose


def receive_for(sock):
    """How many datagrams come before the socket times out."""
    count = 0
    while True:
        try:
            sock.recv(65535)
        except socket.timeout:
            return count
        count += 1


def test_an_oversized_super_packet_leaves_nothing_on_the_wire(lab, encapsulation, wire):
    scene = scene_with_large_guests(lab, encapsulation, 4, wire)
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            traffic.udp_socket(near.ns, near.v4) as out:
        out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1472)
        out.sendto(b"oversized!" * 1472, (far.v4, 9))
    assert not [each for each in capture.raw() if b"oversized!" in each]
    assert scene.hosts[0].ns.link(UPLINK)["stats64"]["tx"]["dropped"] == 0


def test_jumbo_underlay_carries_jumbo_guests(lab, encapsulation, family, wire):
    scene = Scene(lab, encapsulation, family, wire, mtu=9000,
                  guest_options={"mtu": guest_mtu(encapsulation, family, 9000)}).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4, size=guest_mtu(encapsulation, family, 9000) - 28)
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    traffic.tcp_equal(near.ns, near.v6, far.ns, far.v6)
