"""Port security: what a guest may not say reaches nobody, and each kind has its counter."""

import contextlib
import time

import pytest

import spoofed
import traffic
from frames import ETH_P_ALL, PacketSocket, plain_frame
from net import PATIENCE
from overlane import GENEVE, VLAN, VXLAN, difference, port_counters, verdicts
from spoofed import DHCP_SERVER, MAC, OFF, ROUTER
from topology import Scene

pytestmark = pytest.mark.needs_overlane

STRICT = "strict"
#: What a port may be set to, and how the fabric file says it.
SETTINGS = {
    STRICT: {},
    MAC: {"security": "mac"},
    OFF: {"security": "off"},
    DHCP_SERVER: {"allow": ["dhcp_server"]},
    ROUTER: {"allow": ["router_advertisement"]},
}


class Stage:
    """Guest 1 sends; guest 2 on the same host and guest 3 on another one listen."""

    def __init__(self, lab, encapsulation, **port):
        self.scene = Scene(lab, encapsulation, 4, guests=(2, 1))
        self.me, self.neighbour, self.far = self.scene.guests
        self.scene.fabric.data["ports"]["port1"].update(port)
        self.scene.apply()
        self.host = self.scene.hosts[0].name
        for one, other in (self.scene.hosts, reversed(self.scene.hosts)):
            traffic.ping(one.ns, other.address, count=1)

    def send(self, out, frame):
        """Send one frame; the verdict that it ended in."""
        before = verdicts(self.host)
        out.send(frame)
        deadline = time.monotonic() + 3 * PATIENCE
        while True:
            rose = {key: count for key, count in difference(before, verdicts(self.host)).items()
                    if key[0] == "from_port"}
            if rose or time.monotonic() > deadline:
                (((_, verdict), count),) = rose.items()
                assert count == 1, rose
                return verdict
            time.sleep(0.01)

    @contextlib.contextmanager
    def listening(self):
        """What the other guests get."""
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(PacketSocket(guest.ns, "eth0", ETH_P_ALL))
                       for guest in (self.neighbour, self.far)]
            yield lambda: [sock.receive_all() for sock in sockets]


@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_forged_packet_has_its_reason_and_arrives_nowhere(lab, encapsulation, setting):
    stage = Stage(lab, encapsulation, **SETTINGS[setting])
    wrong, passed, dropped = [], [], []
    with PacketSocket(stage.me.ns, "eth0") as out, stage.listening() as received:
        for spoof in spoofed.spoofs(stage.me, stage.far):
            passes = setting in spoof.passes
            verdict = stage.send(out, spoof.frame)
            if verdict != ("flood" if passes else spoof.reason):
                wrong.append(f"{spoof.name}: {verdict}, not {spoof.reason} ({spoof.frame.hex()})")
            (passed if passes else dropped).append(spoof)
        got = received()
    assert not wrong, "\n".join(wrong)
    for frames in got:
        assert [spoof.name for spoof in dropped if spoof.frame in frames] == []
        assert [spoof.name for spoof in passed if spoof.frame not in frames] == []
    assert port_counters(stage.host, "port1")["dropped"]["packets"] == len(dropped)
    assert bool(passed) == (setting != STRICT) and bool(dropped) == (setting != OFF)


@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
def test_what_an_honest_guest_sends_arrives_everywhere(lab, encapsulation):
    stage = Stage(lab, encapsulation)
    frames = {name: bytes(frame) for name, frame in spoofed.honest(stage.me)}
    with PacketSocket(stage.me.ns, "eth0") as out, stage.listening() as received:
        ends = {name: stage.send(out, frame) for name, frame in frames.items()}
        got = received()
    assert ends == dict.fromkeys(frames, "flood")
    for each in got:
        assert [name for name, frame in frames.items() if frame not in each] == []


def test_a_port_without_addresses_is_held_to_its_mac_alone(lab):
    """Where the fabric does not know a guest's addresses, it cannot say that one is forged."""
    stage = Stage(lab, GENEVE, addresses=[])
    with PacketSocket(stage.me.ns, "eth0") as out, stage.listening() as received:
        sent = list(spoofed.spoofs(stage.me, stage.far))
        ends = [stage.send(out, spoof.frame) for spoof in sent]
        got = received()
    expected = ["flood" if MAC in spoof.passes else spoof.reason for spoof in sent]
    assert ends == expected
    for frames in got:
        assert [spoof.name for spoof in sent if spoof.frame in frames] \
            == [spoof.name for spoof in sent if MAC in spoof.passes]


def test_a_unicast_forgery_does_not_reach_the_one_it_is_for(lab, encapsulation):
    """The reply to a question that was never asked: sent to the victim and nobody else."""
    stage = Stage(lab, encapsulation)
    victim, neighbour = stage.far, stage.neighbour
    frames = [bytes(spoof.frame) for spoof in spoofed.spoofs(stage.me, neighbour)]
    octets = bytes.fromhex(victim.mac.replace(":", ""))
    before = verdicts(stage.host)
    with PacketSocket(stage.me.ns, "eth0") as out, stage.listening() as received:
        for frame in frames:
            out.send(octets + frame[6:])
        got = received()
        out.send(plain_frame(stage.me.mac, victim.mac))
        after = received()
    assert got == [[], []]
    assert after == [[], [plain_frame(stage.me.mac, victim.mac)]], "the path itself works"
    rose = difference(before, verdicts(stage.host))
    dropped = {verdict: count for (hook, verdict), count in rose.items()
               if hook == "from_port" and verdict != "encap"}
    assert sum(dropped.values()) == len(frames), dropped
    assert set(dropped) == {spoof.reason for spoof in spoofed.spoofs(stage.me, neighbour)}


def test_guests_with_real_stacks_notice_nothing_of_it(lab, encapsulation, family, wire):
    """ARP, ND, DAD, listener reports, ping, TCP, UDP: strict is the default, and nothing is dropped."""
    scene = Scene(lab, encapsulation, family, wire, guests=(2, 1)).apply()
    for guest in scene.guests:
        for key, value in (("accept_dad", 1), ("dad_transmits", 1)):
            guest.ns.sysctl(f"net.ipv6.conf.eth0.{key}", value)
        guest.ns.ip("link set eth0 down", "link set eth0 addrgenmode eui64 up",
                    f"address replace {guest.v6}/64 dev eth0 nodad")
    near, neighbour, far = scene.guests
    for other in (neighbour, far):
        for a, b in zip(near.addresses, other.addresses):
            traffic.ping(near.ns, b)
            traffic.tcp_equal(near.ns, a, other.ns, b, size=traffic.MEBIBYTE)
            traffic.udp_equal(other.ns, b, near.ns, a)
    reasons = {"spoofed_mac", "spoofed_ip", "spoofed_arp", "spoofed_nd", "hidden_header", "dhcp_server",
               "router_advertisement"}
    for host in scene.hosts:
        assert not [key for key in verdicts(host.name) if key[1] in reasons], verdicts(host.name)
