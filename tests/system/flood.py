"""Many frames that differ in a few bytes, as fast as a packet socket takes them: a ring of frames in memory that
the kernel shares (PACKET_TX_RING), of which whole columns are written at once."""

import mmap
import socket
import struct
import time

from net import PATIENCE

_SOL_PACKET, _PACKET_TX_RING, _PACKET_VERSION, _PACKET_QDISC_BYPASS = 263, 13, 10, 20
_TPACKET_V2, _SEND_REQUEST = 1, 1
#: struct tpacket2_hdr, and where the frame begins behind it (TPACKET2_HDRLEN less struct sockaddr_ll).
_LENGTH_AT, _DATA_AT = 4, 32
_SLOT = 256
#: Frames in the ring: few enough to stay in a cache, and a multiple of 256.
SLOTS = 8192


class Flood:
    """Sends `template` again and again from a device of a namespace. `places` is where the four bytes are that
    number the frames, the highest first. `balances`: for each of them the places of its complement, so that
    checksums over both stay right."""

    def __init__(self, ns, device, template, places, balances=((), (), (), ())):
        self._places = [_DATA_AT + place for place in places]
        self._balances = [[_DATA_AT + place for place in each] for each in balances]
        with ns.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        block = 1 << 16
        self._socket.setsockopt(_SOL_PACKET, _PACKET_TX_RING,
                                struct.pack("=IIII", block, SLOTS * _SLOT // block, _SLOT, SLOTS))
        with ns.entered():
            self._socket.bind((device, 0))
        self._ring = mmap.mmap(self._socket.fileno(), SLOTS * _SLOT)
        slot = bytearray(_SLOT)
        struct.pack_into("=I", slot, _LENGTH_AT, len(template))
        slot[_DATA_AT:_DATA_AT + len(template)] = template
        for number in range(SLOTS):
            for place, balances, byte in zip(self._places, self._balances, struct.pack("!I", number)):
                slot[place] = byte
                for balance in balances:
                    slot[balance] = 0xFF - byte
            self._ring[number * _SLOT:(number + 1) * _SLOT] = bytes(slot)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ring.close()
        self._socket.close()

    def send(self, count, first=0, patience=60.0):
        """Frames with the numbers from `first` on, at least `count` of them: whole rings."""
        deadline = time.monotonic() + patience * PATIENCE
        rounds = -(-count // SLOTS)
        for high in range(first // SLOTS, first // SLOTS + rounds):
            self._number(high * SLOTS)
            self._column(0, _SEND_REQUEST)
            self._socket.send(b"")
            assert time.monotonic() < deadline, f"{(high + 1) * SLOTS} of {count} frames in {patience} s"
        return rounds * SLOTS

    def _column(self, at, value):
        """The same byte in all frames of the ring."""
        self._ring[at::_SLOT] = bytes([value]) * SLOTS

    def _number(self, first):
        """Numbers from `first` on, a multiple of the ring's size: the lowest byte stays, the next has the slot's
        own bits too."""
        for place, balances, byte in zip(self._places[:2], self._balances[:2], struct.pack("!I", first)):
            self._column(place, byte)
            for balance in balances:
                self._column(balance, 0xFF - byte)
        base = first >> 8 & 0xFF
        bytes_of = [base + part for part in range(SLOTS >> 8)]
        self._ring[self._places[2]::_SLOT] = b"".join(bytes([byte]) * 256 for byte in bytes_of)
        for balance in self._balances[2]:
            self._ring[balance::_SLOT] = b"".join(bytes([0xFF - byte]) * 256 for byte in bytes_of)
