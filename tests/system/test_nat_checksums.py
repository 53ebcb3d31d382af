"""Protocols without ports whose checksum covers the addresses: it changes with what the gateway translates."""

import contextlib
import errno
import socket
import struct

import pytest
from scapy.layers.inet import IP, in4_pseudoheader
from scapy.utils import checksum

import traffic
from logical import FAR4, FAR6, INSIDE6, LEG4, LEG6
from test_gateway import PLACES, SOURCE, scene

pytestmark = pytest.mark.needs_overlane

UDP_LITE, DCCP = 136, 33
UDP_LITE_SEND_COVERAGE = 10  # include/uapi/linux/udp.h has UDPLITE_SEND_CSCOV


def udp_lite_socket(ns, address, port):
    with ns.entered():
        try:
            sock = socket.socket(traffic.socket_family(address), socket.SOCK_DGRAM, UDP_LITE)
        except OSError as error:
            assert error.errno == errno.EPROTONOSUPPORT, error
            pytest.skip("this kernel has no udplite")
    sock.settimeout(2)
    sock.bind((address, port))
    return sock


def udp_lite_checksum_errors(ns):
    """Datagrams that the kernel refused for their checksum, of both families."""
    rows = [line.split() for line in ns.run(["cat", "/proc/net/snmp", "/proc/net/snmp6"]).stdout.splitlines()]
    names, values = (row for row in rows if row[0] == "UdpLite:")
    counts = {"UdpLite" + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)}
    counts |= {row[0]: int(row[1]) for row in rows if row[0].startswith("UdpLite6")}
    return counts["UdpLiteInCsumErrors"] + counts["UdpLite6InCsumErrors"]


@PLACES
def test_udp_lite_arrives_with_a_right_checksum(lab, place):
    """Whatever it covers of the payload, and an answer too; so does an ICMP error about it."""
    estate, guest = scene(lab, nat=(SOURCE, {"source": INSIDE6, "outside": LEG6}), place=place)
    estate.apply()
    far = estate.outside.far
    for index, (target, outside) in enumerate(((FAR4, LEG4), (FAR6, LEG6))):
        with udp_lite_socket(far, target, 5208) as there, \
                udp_lite_socket(guest.ns, guest.addresses[index], 4000) as near:
            for coverage in (0, 8, 20):
                for sock in (near, there):
                    sock.setsockopt(UDP_LITE, UDP_LITE_SEND_COVERAGE, coverage)
                for size in (0, 1, 100, 1200):
                    near.sendto(traffic.payload(size), (target, 5208))
                    data, sender = there.recvfrom(2048)
                    assert data == traffic.payload(size) and sender[:2] == (outside, 4000)
                    there.sendto(data[::-1], sender)
                    assert near.recv(2048) == data[::-1]
        with udp_lite_socket(guest.ns, guest.addresses[index], 4001) as near:
            near.connect((target, 9))
            near.send(b"nobody is there")
            with pytest.raises(ConnectionRefusedError):
                near.recv(64)
    assert [udp_lite_checksum_errors(ns) for ns in (guest.ns, far)] == [0, 0]


def test_dccp_arrives_with_a_right_checksum(lab):
    """Few kernels have it, so the packets are made here. The far kernel may say that it has no such protocol."""
    estate, guest = scene(lab, place=3)
    estate.apply()
    far = estate.outside.far
    with contextlib.ExitStack() as stack:
        ends = []
        for ns in (guest.ns, far):
            with ns.entered():
                ends.append(stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, DCCP)))
            ends[-1].settimeout(2)
        near, there = ends
        for source, target, sender, receiver, seen in ((guest.v4, FAR4, near, there, (LEG4, FAR4)),
                                                       (FAR4, LEG4, there, near, (FAR4, guest.v4))):
            for covered in (0, 1, 2):
                sender.sendto(dccp_request(source, target, covered), (target, 0))
                packet = IP(receiver.recv(2048))
                assert (packet.src, packet.dst) == seen
                assert bytes(packet.payload) == dccp_request(*seen, covered)


def dccp_request(source, target, covered):
    """RFC 4340 sections 5.1, 6.1 and 9.1. covered: CsCov."""
    packet = struct.pack("!HHBBHBBHI4s", 4000, 5000, 5, covered, 0, 1, 0, 0, 1, b"test") + b"hello, dccp"
    length = 20 + 4 * (covered - 1) if covered else len(packet)
    total = checksum(in4_pseudoheader(DCCP, IP(src=source, dst=target), len(packet)) + packet[:length])
    return packet[:6] + struct.pack("!H", total) + packet[8:]
