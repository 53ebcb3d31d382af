"""Frames built byte by byte: tunnel packets, whole or broken on purpose, and a socket to send."""

import errno
import socket
import struct
import time
from dataclasses import dataclass

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from net import PATIENCE, SO_RCVBUFFORCE
from overlane import GENEVE, PORTS

BROADCAST = "ff:ff:ff:ff:ff:ff"
ETH_P_ALL, ETH_P_TEB = 0x0003, 0x6558
#: RFC 5342 §B.3.2: for experiments; no kernel has a handler for it.
ETH_P_EXPERIMENT = 0x88B5
OVN_CLASS, OVN_TYPE = 0x0102, 0x80
FLOOD_KEY = 0x8000

SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR = 263, 8, 15
TP_STATUS_VLAN_VALID = 1 << 4


def vxlan_header(vni, flags=0x08, reserved=0, reserved2=0):
    return struct.pack("!II", flags << 24 | reserved, vni << 8 | reserved2)


def geneve_option(data, cls=OVN_CLASS, kind=OVN_TYPE, length=None):
    """One option; `length` (in words) may lie about the data."""
    words = len(data) // 4 if length is None else length
    return struct.pack("!HBB", cls, kind, words) + data


def ovn_option(source_key, dest_key):
    return geneve_option(struct.pack("!HH", source_key, dest_key))


def geneve_header(vni, options=b"", version=0, flags=0x40, protocol=ETH_P_TEB, opt_len=None,
                  reserved=0):
    words = len(options) // 4 if opt_len is None else opt_len
    return struct.pack("!BBHI", version << 6 | words, flags, protocol,
                       vni << 8 | reserved) + options


@dataclass
class Ends:
    """A tunnel as the underlay sees it: builds packets from `source` to `target`."""

    encapsulation: str
    family: int
    source_mac: str
    target_mac: str
    source: str
    target: str
    vni: int
    source_key: int
    dest_key: int

    def tunnel_header(self, vni=None, options=None, **fields):
        vni = self.vni if vni is None else vni
        if self.encapsulation != GENEVE:
            return vxlan_header(vni, **fields)
        if options is None:
            options = ovn_option(self.source_key, self.dest_key)
        return geneve_header(vni, options, **fields)

    def packet(self, payload, ip=None, udp=None, fragment=None):
        """Ethernet, IP and UDP around `payload`; `ip` and `udp` win over the right fields."""
        udp = {"sport": 50000, "dport": PORTS[self.encapsulation], "chksum": 0, **(udp or {})}
        frame = Ether(src=self.source_mac, dst=self.target_mac)
        if self.family == 4:
            frame /= IP(**{"src": self.source, "dst": self.target, "flags": "DF", **(ip or {})})
        else:
            frame /= IPv6(**{"src": self.source, "dst": self.target, **(ip or {})})
            if fragment:
                frame /= IPv6ExtHdrFragment(**fragment)
        return bytes(frame / UDP(**udp) / Raw(payload))

    def carry(self, inner, header=None, **outer):
        """A tunnel packet with `inner` in it."""
        header = self.tunnel_header() if header is None else header
        return self.packet(header + bytes(inner), **outer)

    @property
    def outer_len(self):
        """Ethernet, IP and UDP header."""
        return 42 if self.family == 4 else 62


def udp_frame(source_mac, target_mac, source, target, size=64):
    layer = IPv6 if ":" in source else IP
    return bytes(Ether(src=source_mac, dst=target_mac) / layer(src=source, dst=target)
                 / UDP(sport=4000, dport=4001) / Raw(b"o" * size))


def tcp_frame(source_mac, target_mac, source, target):
    layer = IPv6 if ":" in source else IP
    return bytes(Ether(src=source_mac, dst=target_mac) / layer(src=source, dst=target)
                 / TCP(sport=4000, dport=4001, flags="S"))


def plain_frame(source_mac, target_mac, payload=b"not IP at all, and that is fine" * 2):
    """A frame of a type nobody handles."""
    return bytes(Ether(src=source_mac, dst=target_mac, type=ETH_P_EXPERIMENT) / Raw(payload))


def short_frames(source_mac, target_mac, source, target):
    """Of a type nobody handles, from the shortest that a socket sends; an IP packet that is only its header, and more."""
    layer = IPv6(src=source, dst=target, nh=59) if ":" in source else IP(src=source, dst=target, proto=253)
    bare = bytes(Ether(src=source_mac, dst=target_mac) / layer)
    odd = [plain_frame(source_mac, target_mac, bytes(range(1, size + 1))) for size in range(1, 47)]
    return [*odd, bare, bare + b"\0" * 5]


def tagged_frame(source_mac, target_mac, source, target, tags=((0x8100, 42),)):
    frame = Ether(src=source_mac, dst=target_mac, type=tags[0][0])
    for position, (_, vlan) in enumerate(tags):
        inner = tags[position + 1][0] if position + 1 < len(tags) else 0x0800
        frame /= Dot1Q(vlan=vlan, type=inner)
    return bytes(frame / IP(src=source, dst=target) / UDP(sport=1, dport=2) / Raw(b"tagged" * 8))


def patch(frame, at, data):
    """`frame` with `data` written over the bytes at `at`."""
    frame = bytes(frame)
    return frame[:at] + data + frame[at + len(data):]


def restore_tag(frame, control):
    """A frame with the tag that the kernel keeps beside the bytes (struct tpacket_auxdata)."""
    for level, kind, data in control:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data)
            if status & TP_STATUS_VLAN_VALID:
                return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


class PacketSocket:
    """AF_PACKET on one device: sends raw frames, receives what the device's tap sees."""

    def __init__(self, ns, device, protocol=0, vnet_hdr=False):
        with ns.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        if vnet_hdr:
            self._socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        with ns.entered():
            self._socket.bind((device, protocol))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, frame, patience=2.0):
        """Sends one frame. A veth whose far CPU has a full backlog drops it and says ENOBUFS: then again,
        so that what a test sent is what it counts."""
        until = time.monotonic() + patience * PATIENCE
        while True:
            try:
                return self._socket.send(frame)
            except OSError as error:
                if error.errno != errno.ENOBUFS or time.monotonic() > until:
                    raise
            time.sleep(0.002)

    def receive(self, timeout=1.0):
        """The next frame this device received (not sent), its tag in the bytes; or None."""
        self._socket.settimeout(timeout)
        while True:
            try:
                frame, control, _, address = self._socket.recvmsg(1 << 17, 256)
            except (socket.timeout, BlockingIOError):
                return None
            if address[2] != socket.PACKET_OUTGOING:
                return restore_tag(frame, control)

    def receive_all(self, timeout=0.3):
        """Everything until nothing has come for `timeout` seconds."""
        frames = []
        while (frame := self.receive(timeout)) is not None:
            frames.append(frame)
        return frames


def short_frames_arrive(near, far, source, target):
    """Each short frame from one guest to another, and nothing but zeros behind it."""
    sent = short_frames(near.mac, far.mac, source, target)
    with PacketSocket(far.ns, "eth0", ETH_P_ALL) as receiver, PacketSocket(near.ns, "eth0") as sender:
        for frame in sent:
            sender.send(frame)
        got = [frame for frame in receiver.receive_all() if frame[6:12] == sent[0][6:12]]
    assert all(len(frame) <= 60 for frame in got), "at most Ethernet's own minimum"
    arrived = {frame.rstrip(b"\0") for frame in got}
    missing = [frame.hex() for frame in sent if frame.rstrip(b"\0") not in arrived]
    assert not missing, missing
