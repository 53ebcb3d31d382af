"""What all share, a guest cannot take from all: the ports of an outside address, towards one server.

    greedy, 10 guests … ┤ host 1 │ ══ │ host 2 ├ … 10 guests       a `source` rule: all have one outside address
                                     leg ── outside ── far          the server
"""

import contextlib
import socket
import struct
import threading

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

import traffic
from frames import BROADCAST, PacketSocket
from logical import FAR4, INSIDE4, LEG4, ROUTER_MAC, Estate
from overlane import GENEVE, show, verdicts

pytestmark = pytest.mark.needs_overlane

PORT = 7000
PORTS = range(1024, 65536)
GUESTS = 20


@contextlib.contextmanager
def echo(ns, answers):
    """A UDP server that answers, or only listens."""
    with ns.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    server.bind((FAR4, PORT))
    server.settimeout(0.2)
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                data, sender = server.recvfrom(2048)
                if answers or data.startswith(b"guest"):
                    server.sendto(data, sender)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        server.close()


def flows(kind, guest):
    """One packet from each port, or with each ICMP identifier, with right checksums: the field is patched."""
    ip = Ether(src=guest.mac, dst=ROUTER_MAC) / IP(src=guest.v4, dst=FAR4)
    if kind.startswith("udp"):
        frame, at, checksum = bytes(ip / UDP(sport=0, dport=PORT, chksum=0) / Raw(b"greedy")), 34, None
    elif kind == "tcp":
        frame, at, checksum = bytes(ip / TCP(sport=0, dport=PORT, flags="S", seq=1)), 34, 50
    else:
        frame, at, checksum = bytes(ip / ICMP(id=0, seq=1) / Raw(b"greedy")), 38, 36
    base = struct.unpack_from("!H", frame, checksum)[0] if checksum else 0
    for number in PORTS:
        one = bytearray(frame)
        struct.pack_into("!H", one, at, number)
        if checksum:
            # RFC 1624, with the field zero before.
            total = (~base & 0xffff) + number
            total = (total & 0xffff) + (total >> 16)
            struct.pack_into("!H", one, checksum, ~total & 0xffff)
        yield bytes(one)


def asks(guest, number):
    """Whether the server answers a datagram from a port of the guest's own choice."""
    with guest.ns.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((guest.v4, number))
        client.settimeout(2)
        client.sendto(b"guest", (FAR4, PORT))
        try:
            return client.recv(100) == b"guest"
        except TimeoutError:
            return False


def connects(guest):
    with guest.ns.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    client.settimeout(5)
    client.connect((FAR4, PORT))
    return client


def estate_of(lab):
    estate = Estate(lab, GENEVE, switches=("front",))
    greedy = estate.guest("front", silent=True)
    others = [estate.guest("front", host=1 + number % 2) for number in range(GUESTS)]
    estate.gateway(1, [{"source": INSIDE4, "outside": LEG4}])
    return estate.apply(), greedy, others


@pytest.mark.parametrize("kind", ["udp", "udp_answered", "tcp", "ping"])
def test_one_guest_does_not_take_all_ports(lab, kind):
    estate, greedy, others = estate_of(lab)
    host, far = estate.hosts[0], estate.outside.far
    with far.entered():
        listener = socket.create_server((FAR4, PORT), backlog=4 * GUESTS)
    with listener, echo(far, kind == "udp_answered"), contextlib.ExitStack() as open_ones:
        for other in others:
            traffic.ping(other.ns, FAR4)
        before = [open_ones.enter_context(connects(other)) for other in others]
        served = [open_ones.enter_context(listener.accept()[0]) for _ in others]
        with PacketSocket(greedy.ns, "eth0") as sender:
            for frame in flows(kind, greedy):
                sender.send(frame)
        # Everybody gets there at once, with a port that the greedy one has used too, ...
        assert all(asks(other, 20000 + number) for number, other in enumerate(others))
        assert [traffic.pings(other.ns, FAR4, count=1, timeout=2) for other in others] == [1] * GUESTS
        again = [open_ones.enter_context(connects(other)) for other in others]
        assert len(again) == GUESTS
        # ... and keeps what he had.
        for near in before:
            near.sendall(b"still here")
        for end in served:
            end.settimeout(5)
            assert end.recv(100) == b"still here"
    counts = verdicts(host.name)
    assert counts["from_port", "leg_out"] > 1000


def test_who_only_asks_takes_no_place_of_who_is_asked(lab):
    """One machine on a leg's cable asks for the router in the name of more machines than a leg has neighbours."""
    estate = Estate(lab, GENEVE, switches=("front",))
    guest = estate.guest("front")
    outside = estate.gateway(1)
    estate.router["gateway"]["addresses"].append("198.19.64.2/18")
    outside.ns.ip("address add 198.19.64.77/18 dev eth0", f"route add {INSIDE4} via {LEG4} dev eth0")
    estate.apply()
    host = estate.hosts[0]
    frame = bytes(Ether(src=outside.ns.mac("eth0"), dst=BROADCAST)
                  / ARP(op=1, hwsrc=outside.ns.mac("eth0"), psrc="198.19.65.0", pdst="198.19.64.2"))
    asked = 4300
    with PacketSocket(outside.ns, "eth0") as sender:
        for number in range(asked):
            sender.send(frame[:28] + struct.pack("!I", (198 << 24 | 19 << 16 | 65 << 8) + number) + frame[32:])
    found = show("neighbours", host.name)
    assert len(found["neighbours"]) >= 4096
    # The first packet becomes the question, and the next one finds the neighbour.
    assert traffic.pings(guest.ns, "198.19.64.77", count=5, timeout=1) >= 3
    assert ("from_leg", "neighbour_limit") not in verdicts(host.name)
