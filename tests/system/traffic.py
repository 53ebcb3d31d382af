"""Traffic between namespaces, with proof that what arrives is what was sent.

Sockets are opened inside the namespaces and used from threads of the test's own process: a socket
belongs to the namespace it was made in, whoever reads it.
"""

import hashlib
import random
import socket
import struct
import threading
import time

from net import PATIENCE, SO_RCVBUFFORCE

MEBIBYTE = 1 << 20

# linux/in.h, linux/in6.h: not in the socket module.
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 10, 23, 3

_BLOCK = random.Random(20240607).randbytes(MEBIBYTE)


def socket_family(address):
    return socket.AF_INET6 if ":" in str(address) else socket.AF_INET


def payload(size, seed=0):
    """Pseudo-random bytes; another seed shifts them, so that the two directions differ."""
    start = (seed * 7919) % MEBIBYTE
    repeated = _BLOCK * (size // MEBIBYTE + 2)
    return repeated[start:start + size]


def _echo_request(address, identifier, sequence, size):
    """ICMP or ICMPv6 echo request; the kernel fills the checksum of the latter."""
    data = payload(size, sequence)
    if ":" in str(address):
        return struct.pack("!BBHHH", 128, 0, 0, identifier, sequence) + data
    blank = struct.pack("!BBHHH", 8, 0, 0, identifier, sequence) + data
    words = struct.unpack(f"!{(len(blank) + 1) // 2}H", blank + b"\0" * (len(blank) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return blank[:2] + struct.pack("!H", ~total & 0xffff) + blank[4:]


def pings(ns, address, count=1, size=56, timeout=2.0):
    """How many of `count` echo requests come back unchanged; DF is set, nothing is fragmented."""
    v6 = ":" in str(address)
    protocol = socket.getprotobyname("ipv6-icmp" if v6 else "icmp")
    identifier = random.getrandbits(16)
    answered = 0
    with ns.entered():
        sock = socket.socket(socket_family(address), socket.SOCK_RAW, protocol)
    with sock:
        if v6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
        for sequence in range(1, count + 1):
            request = _echo_request(address, identifier, sequence, size)
            try:
                sock.sendto(request, (str(address), 0))
            except OSError:
                continue  # no neighbour yet, or larger than the guest's own MTU
            answered += _echo_reply(sock, request, v6, timeout)
    return answered


def _echo_reply(sock, request, v6, timeout):
    deadline = time.monotonic() + timeout * PATIENCE
    while (left := deadline - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            packet = sock.recv(65535)
        except OSError:
            continue
        message = packet if v6 else packet[(packet[0] & 15) * 4:]
        if message[0] == (129 if v6 else 0) and message[4:] == request[4:]:
            return True
    return False


def ping(ns, address, count=3, size=56, timeout=2.0):
    """All echo requests answered, or an assertion that says how many were."""
    answered = pings(ns, address, count, size, timeout)
    assert answered == count, f"ping {address} from {ns.name}: {answered} of {count} answered"


def _send_all(sock, data, errors):
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError as error:
        errors.append(f"send: {error}")


def _receive_all(sock, digest, received, errors):
    try:
        while block := sock.recv(1 << 18):
            digest.update(block)
            received[0] += len(block)
    except OSError as error:
        errors.append(f"receive: {error}")


def tcp_in_super_packets(ns):
    """On a slow machine TCP paces, and sends few segments at once."""
    ns.sysctl("net.ipv4.tcp_min_tso_segs", 40)


def tcp_equal(client_ns, client, server_ns, server, size=8 * MEBIBYTE, timeout=20.0, port=5201):
    """`size` bytes each way at once over one connection; both must arrive byte for byte.

    Returns the seconds it took.
    """
    timeout *= PATIENCE
    errors = []
    started = time.monotonic()
    near, far = connection(client_ns, client, server_ns, server, port, timeout)
    with near, far:
        exchange(near, far, size, timeout, errors)
    assert not errors, f"TCP {client} ↔ {server}: {errors}"
    return time.monotonic() - started


def connection(client_ns, client, server_ns, server, port=5201, timeout=20.0):
    """The two ends of a TCP connection."""
    family = socket_family(server)
    with server_ns.entered():
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(server), port))
        listener.listen(1)
        listener.settimeout(timeout)
    with client_ns.entered():
        near = socket.socket(family, socket.SOCK_STREAM)
        near.bind((str(client), 0))
        near.settimeout(timeout)
    with listener:
        near.connect((str(server), port))
        far, _ = listener.accept()
    far.settimeout(timeout)
    return near, far


def exchange(near, far, size, timeout, errors):
    """`size` bytes each way at once over a connection that there is; what went wrong is added to `errors`."""
    out, back = payload(size, 1), payload(size, 2)
    digests = [hashlib.sha256(), hashlib.sha256()]
    received = [[0], [0]]
    threads = [
        threading.Thread(target=_send_all, args=(near, out, errors)),
        threading.Thread(target=_send_all, args=(far, back, errors)),
        threading.Thread(target=_receive_all, args=(far, digests[0], received[0], errors)),
        threading.Thread(target=_receive_all, args=(near, digests[1], received[1], errors)),
    ]
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        errors.append(f"not finished in {timeout} s: {received[0][0]} bytes out, "
                      f"{received[1][0]} back, of {size}")
        return
    for name, digest, sent in (("out", digests[0], out), ("back", digests[1], back)):
        if digest.digest() != hashlib.sha256(sent).digest():
            errors.append(f"payload {name} differs")


def udp_socket(ns, address, port=0, timeout=2.0):
    with ns.entered():
        sock = socket.socket(socket_family(address), socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        sock.bind((str(address), port))
        sock.settimeout(timeout * PATIENCE)
    return sock


def udp_equal(client_ns, client, server_ns, server, sizes=(1, 64, 512, 1300), port=5202):
    """Datagrams of several sizes, echoed byte for byte."""
    with udp_socket(server_ns, server, port) as far, udp_socket(client_ns, client) as near:
        for number, size in enumerate(sizes):
            data = payload(size, number)
            near.sendto(data, (str(server), port))
            got, sender = far.recvfrom(65535)
            assert got == data, f"datagram of {size} bytes to {server} differs"
            far.sendto(got[::-1], sender)
            assert near.recv(65535) == data[::-1], f"datagram of {size} bytes back differs"


def speak(near, far, size=MEBIBYTE):
    """Two machines both ways, over both families: pings, `size` bytes of TCP each way at once, UDP."""
    for a, b in zip(near.addresses, far.addresses):
        ping(near.ns, b)
        ping(far.ns, a)
        tcp_equal(near.ns, a, far.ns, b, size=size)
        tcp_equal(far.ns, b, near.ns, a, size=size, port=5301)
        udp_equal(near.ns, a, far.ns, b)


def fragments_equal(near, far):
    """Datagrams larger than any MTU on the way, which the sender's kernel cuts, both ways over both families."""
    for a, b in zip(near.addresses, far.addresses):
        udp_equal(near.ns, a, far.ns, b, sizes=(2000, 20_000))


def find_each_other(near, far):
    """Two machines that know of each other nothing but the IP addresses: each of them asks once, by ARP or ND."""
    ping(near.ns, far.v4)
    ping(far.ns, near.v6)


class PacedUdp:
    """Numbered datagrams at a steady rate until stopped; `lost()` names what did not arrive."""

    def __init__(self, client_ns, client, server_ns, server, rate_pps=2000, size=200, port=5203):
        self._near = udp_socket(client_ns, client)
        self._far = udp_socket(server_ns, server, port, timeout=0.2)
        self._to = (str(server), port)
        self._interval = 1.0 / rate_pps
        self._padding = b"\0" * (size - 8)
        self._stop = threading.Event()
        self._seen = set()
        self.sent = 0
        self._threads = [threading.Thread(target=self._send, daemon=True),
                         threading.Thread(target=self._receive, daemon=True)]

    def __enter__(self):
        for thread in reversed(self._threads):
            thread.start()
        return self

    def __exit__(self, *_):
        self.finish()
        self._near.close()
        self._far.close()

    def finish(self):
        """Stop sending, wait for what is under way."""
        if not self._stop.is_set():
            self._stop.set()
            for thread in self._threads:
                thread.join(10)

    def _send(self):
        next_at = time.monotonic()
        while not self._stop.is_set():
            self._near.sendto(struct.pack("!Q", self.sent) + self._padding, self._to)
            self.sent += 1
            next_at += self._interval
            pause = next_at - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            elif pause < -0.05:
                next_at = time.monotonic()  # the machine was busy: no burst to make up for it

    def _receive(self):
        quiet = 0
        while quiet < 3:
            try:
                data = self._far.recv(65535)
                self._seen.add(struct.unpack_from("!Q", data)[0])
                quiet = 0
            except socket.timeout:
                if self._stop.is_set():
                    quiet += 1

    def lost(self):
        return sorted(set(range(self.sent)) - self._seen)
