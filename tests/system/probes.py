"""What a socket learns of the way of its packets: hop by hop, by ICMP error, by a connection that stays or ends."""

import errno
import socket
import struct
from dataclasses import dataclass

import traffic
from net import PATIENCE, wait_until

# linux/in.h, linux/in6.h, linux/errqueue.h: not in the socket module.
IP_RECVERR, IPV6_RECVERR = 11, 25
IP_RECVTTL, IP_MTU, IPV6_MTU = 12, 14, 24
MSG_ERRQUEUE = 0x2000
_EXTENDED_ERROR = struct.Struct("=IBBBBII")

#: (type, code) of the errors that tests name.
NO_ROUTE = {4: (3, 0), 6: (1, 0)}
NO_NEIGHBOUR = {4: (3, 1), 6: (1, 3)}
PORT_UNREACHABLE = {4: (3, 3), 6: (1, 4)}
PROHIBITED = {4: (3, 13), 6: (1, 1)}
TIME_EXCEEDED = {4: (11, 0), 6: (3, 0)}


def family_of(address):
    return 6 if ":" in str(address) else 4


def _level(address):
    return socket.IPPROTO_IPV6 if ":" in str(address) else socket.IPPROTO_IP


@dataclass(frozen=True)
class Refusal:
    """An ICMP error: its type and code, and who sent it."""

    what: tuple
    by: str


def ask(ns, target, port=33434, ttl=None, source=None, timeout=1.0):
    """Sends a datagram; the ICMP error that comes of it, or None."""
    v6 = ":" in str(target)
    with traffic.udp_socket(ns, source or ("::" if v6 else "0.0.0.0"), timeout=timeout) as sock:
        sock.setsockopt(_level(target), IPV6_RECVERR if v6 else IP_RECVERR, 1)
        if ttl:
            sock.setsockopt(_level(target), socket.IPV6_UNICAST_HOPS if v6 else socket.IP_TTL, ttl)
        sock.connect((str(target), port))
        sock.send(b"who is on the way?" * 3)
        try:
            sock.recv(2048)
            return None
        except socket.timeout:
            return None
        except OSError:
            return _error(sock, v6)


def _error(sock, v6):
    _, control, _, _ = sock.recvmsg(2048, 512, MSG_ERRQUEUE)
    for _, _, data in control:
        if len(data) < _EXTENDED_ERROR.size:
            continue
        _, origin, kind, code, _, _, _ = _EXTENDED_ERROR.unpack_from(data)
        assert origin in (2, 3), f"not an ICMP error: origin {origin}"
        offender = data[_EXTENDED_ERROR.size:]
        at, length, family = (8, 16, socket.AF_INET6) if v6 else (4, 4, socket.AF_INET)
        return Refusal((kind, code), socket.inet_ntop(family, offender[at:at + length]))
    raise AssertionError(f"an error without its cause: {control}")


def route_of(ns, target, most=6, source=None):
    """The routers on the way, as traceroute finds them, then who refused the datagram in the end."""
    way = []
    for ttl in range(1, most + 1):
        refusal = ask(ns, target, 33434 + ttl, ttl, source)
        assert refusal, f"nobody said anything about a datagram to {target} with TTL {ttl}; so far {way}"
        way.append(refusal.by)
        if refusal.what == PORT_UNREACHABLE[family_of(target)]:
            return way
        assert refusal.what == TIME_EXCEEDED[family_of(target)], refusal
    raise AssertionError(f"{target} is more than {most} hops away: {way}")


def ttl_seen(ns, target, target_ns, port=5204, source=None):
    """TTL of a datagram when it arrives; it was sent with 64."""
    v6 = ":" in str(target)
    level = _level(target)
    with traffic.udp_socket(target_ns, target, port) as far, \
            traffic.udp_socket(ns, source or ("::" if v6 else "0.0.0.0")) as near:
        far.setsockopt(level, socket.IPV6_RECVHOPLIMIT if v6 else IP_RECVTTL, 1)
        near.setsockopt(level, socket.IPV6_UNICAST_HOPS if v6 else socket.IP_TTL, 64)
        near.sendto(b"how far?", (str(target), port))
        _, control, _, _ = far.recvmsg(64, 64)
        return struct.unpack("=i", control[0][2])[0]


def connect_error(ns, target, port, timeout=0.7):
    """What connect() says: 0, an errno, or ETIMEDOUT for nothing within `timeout` (the kernel asks once)."""
    with ns.entered():
        sock = socket.socket(traffic.socket_family(target), socket.SOCK_STREAM)
    with sock:
        sock.settimeout(timeout)
        try:
            sock.connect((str(target), port))
            return 0
        except socket.timeout:
            return errno.ETIMEDOUT
        except OSError as error:
            return error.errno


def datagram_error(ns, target, port, timeout=0.7):
    """What a connected UDP socket says after a datagram: 0 for an answer, an errno, or ETIMEDOUT."""
    with traffic.udp_socket(ns, "::" if ":" in str(target) else "0.0.0.0", timeout=timeout) as sock:
        sock.connect((str(target), port))
        sock.send(b"is anybody there?" * 3)
        try:
            sock.recv(64)
            return 0
        except socket.timeout:
            return errno.ETIMEDOUT
        except OSError as error:
            return error.errno


def path_mtu(ns, target, mtu, port=9):
    """What the kernel knows of the way to `target` once a datagram of `mtu` bytes was too large for it."""
    v6 = ":" in str(target)
    with traffic.udp_socket(ns, "::" if v6 else "0.0.0.0") as sock:
        # PMTUDISC_DO: the kernel's own path MTU discovery.
        sock.setsockopt(_level(target), traffic.IPV6_MTU_DISCOVER if v6 else traffic.IP_MTU_DISCOVER, 2)
        sock.connect((str(target), port))
        data = bytes(mtu - (48 if v6 else 28))

        def known():
            try:
                sock.send(data)
            except OSError as error:
                assert error.errno in (errno.EMSGSIZE, errno.ECONNREFUSED), error
            found = sock.getsockopt(_level(target), IPV6_MTU if v6 else IP_MTU)
            return found if found < mtu else None

        return wait_until(known, timeout=5, interval=0.1, what=f"a path MTU below {mtu} towards {target}")


class Listener:
    """A TCP server that echoes nothing by itself: tests accept and speak."""

    def __init__(self, ns, address, port):
        with ns.entered():
            self.socket = socket.socket(traffic.socket_family(address), socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((str(address), port))
        self.socket.listen(64)
        self.socket.settimeout(3 * PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Talk:
    """One TCP connection that a test keeps. `target` is where the client connects to, if not where the server
    listens. Several may have one `source_port`."""

    def __init__(self, client_ns, server_ns, server, port=5205, target=None, source=None, source_port=0):
        target = target or (server, port)
        self.namespaces = {"client": client_ns, "server": server_ns}
        with Listener(server_ns, server, port) as listener:
            with client_ns.entered():
                self.near = socket.socket(traffic.socket_family(target[0]), socket.SOCK_STREAM)
            if source:
                self.near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                self.near.bind((source, source_port))
            self.near.settimeout(5 * PATIENCE)
            try:
                self.near.connect((str(target[0]), target[1]))
                self.far, peer = listener.socket.accept()
            except BaseException:
                self.near.close()
                raise
        self.far.settimeout(5 * PATIENCE)
        #: The client as the server sees it.
        self.client = peer[:2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.near.close()
        self.far.close()

    def goes_on(self, size=1000):
        """Both sides still hear each other."""
        for number, (one, other) in enumerate(((self.near, self.far), (self.far, self.near))):
            data = traffic.payload(size, number)
            one.sendall(data)
            got = b""
            while len(got) < size:
                got += other.recv(size)
            assert got == data
        return True

    def is_dead(self, timeout=0.7):
        """Nothing that either side says arrives."""
        for one, other in ((self.near, self.far), (self.far, self.near)):
            one.sendall(b"still there?")
            other.settimeout(timeout)
            try:
                if other.recv(100):
                    return False
            except socket.timeout:
                continue
        return True

    def exchange(self, size=2 * traffic.MEBIBYTE, timeout=20.0):
        """`size` bytes each way at once, byte for byte; then the connection is over."""
        timeout *= PATIENCE
        errors = []
        for sock in (self.near, self.far):
            sock.settimeout(timeout)
        traffic.exchange(self.near, self.far, size, timeout, errors)
        assert not errors, "\n".join([*errors, *self.states()])

    def states(self):
        """What the kernels know of the connection: what waits, timers, what came again."""
        for end, ns in self.namespaces.items():
            yield f"{end}:\n{ns.run(['ss', '-tnmoi', 'state', 'all']).stdout}"
