"""A stranger on the underlay greets in the name of a remote: it is not believed, and causes no more than it sent."""

import struct

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

import super_packets
from capture import Capture
from frames import geneve_header, vxlan_header
from overlane import GENEVE, difference, verdicts
from test_malformed import Stage
from topology import UPLINK

pytestmark = pytest.mark.needs_overlane

ASK, ANSWER, PROBE, CONFIRM = 1, 2, 3, 5
ETHERNET = bytes.fromhex("0180c200000f 020000000001 88b5")
ABLE = 3


class Stranger:
    """It speaks in the name of a host that is not there, and sees what that would get."""

    def __init__(self, lab, encapsulation, family):
        self.stage = Stage(lab, encapsulation, family)
        self._path = lab.directory / "answers.pcap"
        self._header = geneve_header(0, flags=0) if encapsulation == GENEVE else vxlan_header(0)

    def packet(self, kind, rest, length=0):
        """A greeting; length: of the IP packet, at least."""
        payload = self._header + ETHERNET + b"OVL\x01" + bytes([kind]) + rest
        missing = length + 14 - len(self.stage.ends.packet(payload))
        return self.stage.ends.packet(payload + bytes(max(missing, 0)))

    def answers(self, packets):
        """The IP packets that come back."""
        host = self.stage.host
        before = self.stage.verdicts()
        with Capture(self.stage.far.ns, UPLINK, self._path, f"src host {host.address} and udp", "in") as capture, \
                self.stage.from_underlay() as out:
            for packet in packets:
                out.send(packet)
            assert self.stage.settled(before, "from_underlay", len(packets)) \
                == {("from_underlay", "greeting"): len(packets)}
        return [bytes(frame.payload) for frame in capture.frames()]


def test_what_a_stranger_says_of_a_remote_is_not_believed(lab, encapsulation, family):
    stranger = Stranger(lab, encapsulation, family)
    one, two = stranger.stage.host, stranger.stage.far
    guesses = [bytes(16), b"\xff" * 16, bytes(range(16))]
    said = [bytes([ABLE, 0, 0]) + cookies for cookies in (b"", *guesses)]
    packets = [stranger.packet(kind, each) for kind in (ANSWER, CONFIRM, 6) for each in said]
    assert stranger.answers(packets) == []
    assert not super_packets.takes_whole(one, two)
    # A question is answered, to the remote, and changes nothing either.
    question = stranger.packet(ASK, said[1])
    (answer,) = stranger.answers([question])
    assert len(answer) == len(question) - 14
    assert not super_packets.takes_whole(one, two)
    # Who gets the answer can show the cookie in it.
    cookie = answer[-8:]
    assert cookie != bytes(8)
    assert stranger.answers([stranger.packet(CONFIRM, bytes([ABLE, 0, 0]) + bytes(8) + cookie)]) == []
    assert super_packets.takes_whole(one, two)
    assert stranger.answers([stranger.packet(CONFIRM, bytes([0, 0, 0]) + cookie + bytes(8))]) == []
    assert super_packets.takes_whole(one, two), "in the other place it shows nothing"


def test_questions_without_end_are_answered_now_and_then(lab, encapsulation, family):
    stranger = Stranger(lab, encapsulation, family)
    question = stranger.packet(ASK, bytes([ABLE, 0, 0]) + bytes(16))
    before = verdicts(stranger.stage.host.name)
    answers = stranger.answers([question] * 3000)
    assert 10 <= len(answers) < 3000
    assert {len(answer) for answer in answers} == {len(question) - 14}
    assert set(difference(before, verdicts(stranger.stage.host.name))) == {("from_underlay", "greeting")}


def probe(wanted, cookie=b""):
    return struct.pack("!BHI", 0, wanted, 0x01020304) + bytes(24) + cookie


def test_a_probe_in_anothers_name_gets_no_more_bytes_than_it_has(lab, encapsulation, family):
    stranger = Stranger(lab, encapsulation, family)
    least = 86 if family == 4 else 106
    forged = [stranger.packet(PROBE, probe(wanted, cookie), length) for wanted in (0, least + 1, 1000, 1500, 65535)
              for cookie in (b"", bytes(8), b"\xff" * 8) for length in (0, 200, 1000)]
    answers = stranger.answers(forged)
    assert len(answers) == len(forged)
    for question, answer in zip(forged, answers, strict=True):
        assert len(answer) <= len(question) - 14
    # Who gets an answer that has room for it can show the cookie.
    shortest = stranger.packet(PROBE, probe(least + 8, bytes(8)))
    (answer,) = stranger.answers([shortest])
    assert len(answer) == len(shortest) - 14 == least + 8
    (answer,) = stranger.answers([stranger.packet(PROBE, probe(1400, answer[-8:]))])
    ip = (IP if family == 4 else IPv6)(answer)
    assert len(answer) == len(ip) == 1400
