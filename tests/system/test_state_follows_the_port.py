"""A connection belongs to a port as the file declares it: it goes with the port, and what passed without it is not held
against its ends."""

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from frames import ETH_P_ALL, PacketSocket
from logical import Estate, connections, port
from net import wait_until
from overlane import GENEVE, difference, verdicts

pytestmark = pytest.mark.needs_overlane

A_PORT, B_PORT = 80, 4000


class Scene:
    """Guests without a stack on one host: every segment is the test's own."""

    def __init__(self, lab):
        self.lab = lab
        self.estate = Estate(lab, GENEVE, 4, hosts=1, switches=("front",))
        self.a, self.b = (self.estate.guest("front", 1, silent=True) for _ in range(2))
        self.estate.firewall("front", to_port="drop")
        self.estate.rule("web", [self.a], "to_port", services=[f"tcp/{A_PORT}"])
        self.host = self.estate.hosts[0]
        self.sockets = {}
        self.listen(self.a, self.b)
        self.estate.apply()

    def listen(self, *guests):
        for guest in guests:
            self.sockets[guest.number] = PacketSocket(guest.ns, "eth0", ETH_P_ALL)
            self.lab.defer(self.sockets[guest.number].__exit__)

    def segment(self, sender, receiver, flags, seq, ack=0, data=b"", to=None):
        """Whether it arrives at `receiver`, whose address it has; the reason is kept if not."""
        ports = (A_PORT, B_PORT) if sender is self.a else (B_PORT, A_PORT)
        frame = bytes(Ether(src=sender.mac, dst=receiver.mac) / IP(src=sender.v4, dst=to or receiver.v4)
                      / TCP(sport=ports[0], dport=ports[1], flags=flags, seq=seq, ack=ack, window=65535) / Raw(data))
        before, seen = verdicts(self.host.name), []

        def is_over():
            seen.append(self.sockets[receiver.number].receive(0.05))
            self.rose = difference(before, verdicts(self.host.name))
            return frame in seen or any(verdict not in ("to_port", "answer") for _, verdict in self.rose)

        self.sockets[sender.number].send(frame)
        wait_until(is_over, what="the segment to arrive or to be dropped")
        return frame in seen

    def open(self):
        assert self.segment(self.b, self.a, "S", 1000)
        assert self.segment(self.a, self.b, "SA", 5000, 1001)
        assert self.segment(self.b, self.a, "A", 1001, 5001)


@pytest.fixture
def scene(lab):
    return Scene(lab)


def test_another_guest_under_the_name_and_address_inherits_nothing(scene):
    scene.open()
    declared = scene.estate.fabric.data["ports"].pop(port(scene.b))
    scene.estate.apply()
    new = scene.estate.guest("front", 1, silent=True)
    scene.listen(new)
    del scene.estate.fabric.data["ports"][port(new)]
    scene.estate.fabric.data["ports"][port(scene.b)] = {**declared, "device": new.device, "mac": new.mac}
    scene.estate.apply()
    assert not connections(scene.host, port(scene.b))
    assert not scene.segment(scene.a, new, "PA", 5001, 1001, data=b"secret", to=scene.b.v4)


def test_another_guest_at_once_inherits_nothing_either(scene):
    scene.open()
    new = scene.estate.guest("front", 1, silent=True)
    scene.listen(new)
    declared = scene.estate.fabric.data["ports"]
    del declared[port(new)]
    declared[port(scene.b)] |= {"device": new.device, "mac": new.mac}
    scene.estate.apply()
    assert not scene.segment(scene.a, new, "PA", 5001, 1001, data=b"secret", to=scene.b.v4)
    assert not connections(scene.host, port(scene.b))


def test_a_connection_that_went_on_without_rules_goes_on_with_them(scene):
    """1 MB each way passes while the switch has no firewall, which nobody follows."""
    scene.open()
    data = scene.estate.fabric.data
    policy, rules = data["switches"]["front"].pop("firewall"), data.pop("rules")
    scene.estate.apply()
    at_b, at_a = 1001 + 1_000_000, 5001 + 1_000_000
    assert scene.segment(scene.b, scene.a, "PA", at_b, at_a, data=b"unseen")
    data["switches"]["front"]["firewall"], data["rules"] = policy, rules
    scene.estate.apply()
    for _ in range(3):
        assert scene.segment(scene.b, scene.a, "PA", at_b, at_a, data=b"x" * 100)
        at_b += 100
        assert scene.segment(scene.a, scene.b, "PA", at_a, at_b, data=b"y" * 100)
        at_a += 100
    # And from then on its numbers are known again.
    assert not scene.segment(scene.a, scene.b, "PA", at_a + 500_000, at_b, data=b"z")
    assert [reason for _, reason in scene.rose] == ["out_of_window"]
