"""Another build, whose maps have another layout, takes over: connections, translations and what was learned go on, there
and back. Beside test_lossless.py, which counts single packets."""

import contextlib
import subprocess
import threading
import time

import pytest

import second_build
import traffic
from logical import FAR4, INSIDE4, LEG4, ROUTER, SPARE4, Estate, connections, port
from net import PATIENCE, wait_until
from overlane import binary, show, verdicts
from probes import Talk
from streams import Streams
from topology import apply_host

pytestmark = [pytest.mark.needs_overlane, pytest.mark.thorough]

WEB, MANY = 8080, 200
BLOCK = 3000


@pytest.fixture
def second():
    program = second_build.program()
    if program is None:
        pytest.skip("needs a second build of the program: tests/system/second_build.py")
    return program


class Scene:
    """Two guests at one host, a third on another switch at the other one, which is the gateway, too."""

    def __init__(self, lab):
        self.estate = estate = Estate(lab)
        self.web, self.other = (estate.guest("front", 1) for _ in range(2))
        self.third = estate.guest("data", 2)
        estate.gateway(2, [{"one_to_one": self.other.v4, "outside": SPARE4},
                           {"forward": f"{self.web.v4}:80", "protocol": "tcp", "outside": f"{LEG4}:{WEB}"},
                           {"source": INSIDE4, "outside": LEG4}])
        for switch in ("front", "data"):
            estate.firewall(switch, to_port="drop", from_port="drop")
        estate.rule("in", estate.guests, "to_port", services=["tcp/80"])
        estate.rule("out", [self.web, self.other], "from_port", services=["tcp/5207", "tcp/80", "udp/5300"])
        estate.rule("back", [self.third], "from_port", services=["tcp/80"])
        estate.rule("udp", [self.third], "to_port", services=["udp/5300"])
        estate.apply()
        self.path = estate.write()

    def kinds(self):
        """Client, server, its address and port, and where the client connects to if not there."""
        far, web, other, third = self.estate.outside.far, self.web, self.other, self.third
        return [(web.ns, far, FAR4, 5207), (other.ns, far, FAR4, 5207), (far, web.ns, web.v4, 80, (LEG4, WEB)),
                (far, other.ns, other.v4, 80, (SPARE4, 80)), (web.ns, third.ns, third.v4, 80),
                (third.ns, other.ns, other.v4, 80)]

    def talk(self, number):
        return Talk(*self.kinds()[number % 6])

    def apply(self, program):
        for host in self.estate.hosts:
            apply_host(self.estate.lab, self.path, host, program=program)

    def reasons(self, program):
        return {reason for host in self.estate.hosts for _, reason in verdicts(host.name, program=program)}


def broken(talks, seed):
    """The connections that do not finish their bytes, of which the server says its own first."""
    failed = {}
    out, back = traffic.payload(BLOCK, seed), traffic.payload(BLOCK, seed + 1)
    for number, talk in enumerate(talks):
        for speaker, hearer, data in ((talk.far, talk.near, out), (talk.near, talk.far, back)):
            try:
                speaker.sendall(data)
                assert read(hearer) == data, "other bytes than those that were sent"
            except (OSError, AssertionError) as error:
                failed[number] = str(error)
                break
    return failed


def read(sock):
    got = b""
    while len(got) < BLOCK and (more := sock.recv(BLOCK - len(got))):
        got += more
    return got


def test_silent_connections_survive_there_and_back(lab, second):
    """The first packet that the other build sees of each is the server's."""
    scene = Scene(lab)
    with contextlib.ExitStack() as open_ones:
        talks = [open_ones.enter_context(scene.talk(number)) for number in range(MANY)]
        assert broken(talks, 1) == {}
        for seed, program in enumerate((second, None, second, None)):
            scene.apply(program)
            assert broken(talks, 10 * seed) == {}
        assert len(connections(scene.estate.hosts[1], ROUTER)) >= MANY * 4 // 6
        assert not scene.reasons(None) & {"out_of_window", "connection_invalid", "connections_full"}


def test_busy_connections_survive_there_and_back(lab, second):
    scene = Scene(lab)
    with contextlib.ExitStack() as open_ones:
        talks = [open_ones.enter_context(scene.talk(number)) for number in range(MANY)]
        with Streams(talks) as streams:
            for program in (second, None, second, None):
                before = streams.heard()
                scene.apply(program)
                wait_until(lambda: all(now > then for now, then in zip(streams.heard(), before)) or streams.broken,
                           timeout=20, what="every connection to go on")
    assert (streams.broken, streams.lost()) == ({}, {})


def test_connections_that_begin_meanwhile_survive(lab, second):
    scene = Scene(lab)
    with contextlib.ExitStack() as open_ones:
        talks, errors, over = [], [], threading.Event()

        def begin():
            while not over.is_set():
                try:
                    talks.append(open_ones.enter_context(scene.talk(len(talks))))
                except OSError as error:
                    errors.append(str(error))
                    return

        for program in (second, None):
            over.clear()
            thread = threading.Thread(target=begin, daemon=True)
            thread.start()
            scene.apply(program)
            over.set()
            thread.join(60 * PATIENCE)
            assert not errors
            assert broken(talks, 1) == {}, f"of {len(talks)}"
        assert len(talks) > 20


def test_datagrams_and_learned_addresses_survive(lab, second):
    """The one that was asked goes on answering, and nobody has to be found again."""
    scene = Scene(lab)
    host = scene.estate.hosts[1]
    with traffic.udp_socket(scene.web.ns, scene.web.v4) as asks, \
            traffic.udp_socket(scene.third.ns, scene.third.v4, 5300) as answers:
        asks.sendto(b"question", (scene.third.v4, 5300))
        _, client = answers.recvfrom(100)
        answers.sendto(b"first", client)
        assert asks.recv(100) == b"first"
        found = behind_leg(host)
        assert found
        for program in (second, None):
            scene.apply(program)
            answers.sendto(b"more", client)
            assert asks.recv(100) == b"more"
            assert behind_leg(host, program) == found
        assert [row for row in connections(host, port(scene.third)) if row["protocol"] == 17]


def behind_leg(host, program=None):
    rows = show("neighbours", host.name, program=program)["neighbours"]
    return {row["address"] for row in rows if row["leg_of"] and row["mac"]}


def test_an_upgrade_that_is_killed_loses_no_connection(lab, second):
    """At whatever moment, and whichever build comes next."""
    scene = Scene(lab)
    with contextlib.ExitStack() as open_ones:
        talks = [open_ones.enter_context(scene.talk(number)) for number in range(60)]
        began = time.monotonic()
        scene.apply(second)
        duration = (time.monotonic() - began) / len(scene.estate.hosts)
        killed = 0
        for number in range(12):
            program, then = (None, second) if number % 2 else (second, None)
            scene.apply(then)
            for host in scene.estate.hosts:
                killed += kill_apply(program or binary(), scene.path, host, duration * (number + 1) / 12)
            assert broken(talks, number) == {}, f"after apply was killed, round {number}"
            scene.apply(program if number % 4 < 2 else then)
            assert broken(talks, number) == {}, f"after the next apply, round {number}"
        assert killed > 6


def kill_apply(program, path, host, after):
    """Whether it was still at work after so many seconds."""
    command = [program, "apply", path, "--host", host.name, "--netns", host.netns]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as at_work:
        try:
            at_work.wait(after)
            return False
        except subprocess.TimeoutExpired:
            at_work.kill()
            return True
