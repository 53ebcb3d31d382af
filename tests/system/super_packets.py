"""UDP super-packets: what a program sends with UDP_SEGMENT in one call, and receives with or without UDP_GRO."""

import socket
import struct

import traffic
from net import PATIENCE, wait_until
from overlane import show

# linux/udp.h: not in the socket module.
UDP_SEGMENT, UDP_GRO = 103, 104

#: (size of a datagram, bytes in the call).
SHAPES = {
    "40 of 1200": (1200, 48_000),
    "the last one shorter": (1200, 47_777),
    "many small": (300, 19_000),
    "near 64 kB": (1300, 65_000),
}
#: A packet that the guest's own stack does not cut, and that with another header is longer than 65 535 bytes.
TOO_LONG = {"too long for a tunnel": (1300, 65_460)}


def send(sock, data, size, to):
    """One call. Whoever is behind a small send buffer waits."""
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    assert sock.sendto(data, to) == len(data)


def cut(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def receiver(ns, address, port=5206, joined=False, timeout=2.0):
    """A socket; `joined`: it takes datagrams that the kernel has joined."""
    sock = traffic.udp_socket(ns, address, port, timeout)
    if joined:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    return sock


def receive(sock, count):
    """The next `count` datagrams, fewer if no more come; and the longest that came joined."""
    datagrams, longest = [], 0
    while len(datagrams) < count:
        try:
            data, control, _, _ = sock.recvmsg(1 << 17, 256)
        except (socket.timeout, BlockingIOError):
            break
        sizes = [struct.unpack_from("=H", value)[0] for level, kind, value in control
                 if (level, kind) == (socket.IPPROTO_UDP, UDP_GRO)]
        datagrams += cut(data, sizes[0]) if sizes else [data]
        longest = max(longest, len(data))
    return datagrams, longest


def equal(near_ns, near, far_ns, far, shapes=None, joined=False, rounds=4, port=5206):
    """Every datagram of each shape, byte for byte and in order. Returns the longest that came joined."""
    longest = 0
    with receiver(far_ns, far, port, joined) as into, traffic.udp_socket(near_ns, near) as out:
        for name, (size, length) in (shapes or SHAPES).items():
            for number in range(rounds):
                data = traffic.payload(length, 10 * number + len(name))
                send(out, data, size, (str(far), port))
                expected = cut(data, size)
                got, seen = receive(into, len(expected))
                assert len(got) == len(expected), f"{name}: {len(got)} of {len(expected)} datagrams to {far}"
                assert got == expected, f"{name}: datagrams to {far} differ"
                longest = max(longest, seen)
        into.settimeout(0.1 * PATIENCE)
        assert receive(into, 1)[0] == [], "more came than was sent"
    return longest


def takes_whole(host, remote):
    rows = show("remotes", host.name)["remotes"]
    return next(row["takes_whole_udp"] for row in rows if row["remote"] == remote.name)


def wait_for_greetings(*hosts):
    """Every host knows of every other one that it takes UDP super-packets whole."""
    for host in hosts:
        for remote in hosts:
            if host is not remote:
                wait_until(lambda here=host, there=remote: takes_whole(here, there), what="an answer to a greeting")
