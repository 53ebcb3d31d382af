"""Malformed packets end in exactly the verdict that names them, and no packet is ever uncounted."""

import os
import random
import time

import pytest

import malformed
from frames import Ends, PacketSocket
from net import PATIENCE, wait_until
from overlane import GENEVE, VXLAN, difference, hook_sum, verdicts
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

UNDERLAY, PORT = "from_underlay", "from_port"
FUZZED = 10_000


class Stage:
    """One Overlane host; the other end of its cable, and its guests, only speak when told to."""

    def __init__(self, lab, encapsulation, family, **tunnel):
        self.scene = Scene(lab, encapsulation, family, peers=[2], tunnel=tunnel,
                           guest_options={"ipv6": False, "addresses": False})
        for guest in self.scene.guests:
            guest.ns.ip("link set eth0 arp off")
        self.host, self.far = self.scene.hosts
        self.far.ns.ip(f"address flush dev {UPLINK}", f"link set {UPLINK} arp off")
        self.far.ns.sysctl(f"net.ipv6.conf.{UPLINK}.disable_ipv6", 1)
        self.scene.apply()
        far_mac = self.far.ns.mac(UPLINK)
        self.host.ns.ip(f"neigh replace {self.far.address} lladdr {far_mac} dev {UPLINK}"
                        " nud permanent")
        local, remote = self.scene.guests
        self.arriving = malformed.Inner(remote, local)
        self.leaving = malformed.Inner(local, remote)
        self.ends = Ends(encapsulation, family, far_mac, self.host.ns.mac(UPLINK),
                         self.far.address, self.host.address, self.scene.vni,
                         remote.number, local.number)
        self.from_underlay = lambda: PacketSocket(self.far.ns, UPLINK)
        self.from_port = lambda: PacketSocket(local.ns, "eth0")

    def verdicts(self):
        return verdicts(self.host.name)

    def settled(self, before, hook, sent):
        """What one hook's counters rose by: once `sent` packets are in, or after three seconds."""
        deadline = time.monotonic() + 3 * PATIENCE
        while True:
            rose = difference(before, self.verdicts())
            if hook_sum(rose, hook) >= sent or time.monotonic() > deadline:
                return {key: count for key, count in rose.items() if key[0] == hook}
            time.sleep(0.02)


def check_table(stage, sock, hook, cases):
    """Send every case once; compare verdict by verdict. Cases of one verdict go in one batch."""
    batches = {}
    for name, frame, verdict in cases:
        batches.setdefault(verdict, []).append((name, frame))
    wrong = []
    for verdict, batch in batches.items():
        before = stage.verdicts()
        for _, frame in batch:
            sock.send(frame)
        rose = stage.settled(before, hook, len(batch))
        if rose != {(hook, verdict): len(batch)}:
            wrong += one_by_one(stage, sock, hook, verdict, batch)
    assert not wrong, "\n".join(wrong)


def one_by_one(stage, sock, hook, verdict, batch):
    """Which packets of a batch ended elsewhere."""
    for name, frame in batch:
        before = stage.verdicts()
        sock.send(frame)
        rose = stage.settled(before, hook, 1)
        if rose != {(hook, verdict): 1}:
            yield f"{name}: expected {verdict}, got {rose}; {frame[:120].hex()}"


def test_every_malformed_outer_packet_has_its_verdict(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    with stage.from_underlay() as sock:
        check_table(stage, sock, UNDERLAY, malformed.outer_packets(stage.ends, stage.arriving))


def test_every_malformed_inner_packet_has_its_verdict(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    with stage.from_underlay() as sock:
        check_table(stage, sock, UNDERLAY, malformed.encapsulated(stage.ends, stage.arriving))


def test_every_malformed_frame_of_a_guest_has_its_verdict(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    with stage.from_port() as sock:
        check_table(stage, sock, PORT, malformed.port_frames(stage.leaving))


@pytest.mark.parametrize("hook", [PORT, UNDERLAY])
def test_a_frame_that_ends_in_its_tag_reaches_no_hook(lab, hook):
    stage = Stage(lab, VXLAN, 4)
    tagged = stage.arriving.udp()[:12] + b"\x81\x00\x00\x0a\x88\xb5\0\0"
    with stage.from_port() if hook == PORT else stage.from_underlay() as sock:
        before = stage.verdicts()
        for size in (14, 15, 17, 18, 19):
            sock.send(tagged[:size])
        sock.send(tagged)
        assert hook_sum(stage.settled(before, hook, 1), hook) == 1
        time.sleep(0.1)
        assert hook_sum(difference(before, stage.verdicts()), hook) == 1, "of six frames the whole one"


@pytest.mark.parametrize("strict, verdict", [(False, "to_port"), (True, "reserved_bits")])
def test_reserved_bits_are_ignored_unless_the_tunnel_is_strict(lab, encapsulation, strict, verdict):
    stage = Stage(lab, encapsulation, 4, strict=strict)
    cases = [(name, packet, verdict)
             for name, packet in malformed.reserved_bits(stage.ends, stage.arriving)]
    with stage.from_underlay() as sock:
        check_table(stage, sock, UNDERLAY, cases)


def test_a_dropped_packet_reaches_no_guest_and_a_good_one_does(lab, encapsulation):
    stage = Stage(lab, encapsulation, 4)
    local = stage.scene.guests[0]
    with stage.from_underlay() as sock, PacketSocket(local.ns, "eth0", 0x0003) as guest:
        for name, packet, verdict in malformed.outer_packets(stage.ends, stage.arriving):
            if verdict not in ("to_port", "flood", "to_host"):
                sock.send(packet)
        assert guest.receive_all() == []
        sock.send(stage.ends.carry(stage.arriving.udp()))
        assert guest.receive() == stage.arriving.udp()


def seed():
    return int(os.environ.get("OVERLANE_TEST_SEED", random.randrange(1 << 32)))


def mutate(rng, frame):
    """A frame with some bytes changed, cut off, repeated or added; never too short to be sent."""
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    action = rng.random()
    if action < 0.2:
        del data[rng.randrange(14, len(data) + 1):]
    elif action < 0.3:
        data += rng.randbytes(rng.randrange(1, 200))
    elif action < 0.35:
        data[14:] = rng.randbytes(rng.randrange(0, 300))
    if bytes(data[12:14]) in (b"\x81\x00", b"\x88\xa8") and len(data) < 20:
        data += bytes(20 - len(data))  # half a tag: skb_vlan_untag() drops it before any hook
    return bytes(data[:1514])


def send_fuzzed(sock, seeds, rng):
    for number in range(FUZZED):
        sock.send(mutate(rng, rng.choice(seeds)))
        if number % 100 == 99:
            time.sleep(0.002)  # receive queues of the virtual cable are short


def check_fuzzed(stage, hook, make_socket, seeds, number):
    before = stage.verdicts()
    with make_socket() as sock:
        send_fuzzed(sock, seeds, random.Random(number))
    rose = stage.settled(before, hook, FUZZED)
    print(f"seed {number}: {rose}")
    assert hook_sum(rose, hook) == FUZZED, f"OVERLANE_TEST_SEED={number}: {rose}"
    return rose


def test_ten_thousand_fuzzed_tunnel_packets_are_all_counted(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    seeds = malformed.all_seeds(stage.ends, stage.arriving)
    rose = check_fuzzed(stage, UNDERLAY, stage.from_underlay, seeds, seed())
    assert len(rose) > 10, f"the fuzzer reached only {sorted(rose)}"


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)])
def test_ten_thousand_fuzzed_frames_of_a_guest_are_all_counted(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    seeds = [frame for _, frame, _ in malformed.port_frames(stage.leaving)]
    seeds += [stage.leaving.tcp(), stage.leaving.tcp(v6=True)]
    check_fuzzed(stage, PORT, stage.from_port, seeds, seed())


def test_the_host_still_forwards_after_all_that(lab, encapsulation, family):
    stage = Stage(lab, encapsulation, family)
    local = stage.scene.guests[0]
    rng = random.Random(1)
    seeds = malformed.all_seeds(stage.ends, stage.arriving)
    with stage.from_underlay() as sock, PacketSocket(local.ns, "eth0", 0x0003) as guest:
        for _ in range(500):
            sock.send(mutate(rng, rng.choice(seeds)))
        good = stage.arriving.udp()
        wait_until(lambda: guest.receive(0.05) is None, what="quiet after the noise")
        sock.send(stage.ends.carry(good))
        assert guest.receive() == good
