"""`overlane top`: rates that agree with the traffic, and a screen that gives the terminal back."""

import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import fcntl
import pytest

import traffic
from frames import PacketSocket
from net import PATIENCE, wait_until
from overlane import GENEVE, binary, overlane
from test_capture_command import ready, spoofed_frame
from topology import Scene

pytestmark = pytest.mark.needs_overlane

RATE = 500
SIZE = 200
#: IP, UDP and the inner Ethernet header.
HEADERS = 14 + 20 + 8


@pytest.fixture
def scene(lab):
    return ready(Scene(lab, GENEVE).apply())


def top(host, *words, **options):
    return overlane("top", "--host", host, *words, **options)


def test_rates_agree_with_the_traffic(lab, scene):
    near, far = scene.guests
    host = scene.hosts[0].name
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4, rate_pps=RATE, size=SIZE) as paced:
        time.sleep(0.3)
        sent, started = paced.sent, time.monotonic()
        rates = json.loads(top(host, "--once", "--json", "--interval", "2").stdout)
        # What was really sent meanwhile: a busy machine sends less than it was asked to.
        actual = (paced.sent - sent) / (time.monotonic() - started)
    assert 1.9 < rates["interval_s"] < 4
    (port,) = rates["ports"]
    assert port["port"] == "port1" and port["switch"] == "blue"
    assert port["from_port"]["packets_pps"] == pytest.approx(actual, rel=0.2)
    assert port["from_port"]["segments_pps"] == pytest.approx(port["from_port"]["packets_pps"])
    bits = port["from_port"]["packets_pps"] * (SIZE + HEADERS) * 8
    assert port["from_port"]["rate_bps"] == pytest.approx(bits, rel=0.02)
    assert port["dropped"]["packets_pps"] == 0
    (remote,) = rates["remotes"]
    assert remote["to_remote"]["packets_pps"] == pytest.approx(actual, rel=0.2)
    assert rates["drops"] == []
    assert len(rates["cpus"]) == os.cpu_count()
    for cpu in rates["cpus"]:
        shares = [cpu[f"{part}_percent"] for part in ("softirq", "system", "user", "steal", "idle")]
        assert sum(shares) == pytest.approx(100, abs=1), cpu


def test_drop_reasons_have_a_rate(lab, scene):
    near, far = scene.guests
    host = scene.hosts[0].name
    ended = threading.Event()

    def flood():
        with PacketSocket(near.ns, "eth0") as out:
            while not ended.is_set():
                out.send(spoofed_frame(near, far))
                time.sleep(0.01)
    sender = threading.Thread(target=flood, daemon=True)
    sender.start()
    try:
        rates = json.loads(top(host, "--once", "--json").stdout)
        table = top(host, "--once").stdout
    finally:
        ended.set()
        sender.join(5)
    (drop,) = rates["drops"]
    assert (drop["hook"], drop["reason"]) == ("from_port", "spoofed_ip")
    assert 10 < drop["packets_pps"] <= 101
    assert rates["ports"][0]["dropped"]["packets_pps"] == pytest.approx(drop["packets_pps"], rel=0.2)
    assert f"host {host}: per second" in table
    for expected in ("spoofed_ip", "port1", scene.hosts[1].name, "CPUs of this machine"):
        assert expected in table, table


def test_json_lines_until_a_signal(lab, scene):
    process = subprocess.Popen([binary(), "top", "--host", scene.hosts[0].name, "--json",
                                "--interval", "0.2"], stdout=subprocess.PIPE, text=True)
    try:
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10 * PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert {line["host"] for line in lines} == {scene.hosts[0].name}


def test_without_a_terminal_it_says_what_to_do(lab, scene):
    done = top(scene.hosts[0].name, expect=2)
    assert "needs a terminal" in done.stderr and "--once" in done.stderr


class Terminal:
    """The command on a terminal of 120 × 40; what it wrote is in `seen`."""

    def __init__(self, *words):
        self._master, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._modes = termios.tcgetattr(end)
        self._end = end
        self.process = subprocess.Popen([binary(), *words], stdin=end, stdout=end, stderr=end,
                                        start_new_session=True, env={**os.environ, "TERM": "xterm"})
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._end)
        os.close(self._master)

    def until(self, text, timeout=15):
        wait_until(lambda: self._read() or text in self.seen, timeout,
                   what=f"{text} on the screen: {self.seen[-300:]}")

    def _read(self):
        while select.select([self._master], [], [], 0.05)[0]:
            self.seen += os.read(self._master, 65536)

    def type(self, keys):
        os.write(self._master, keys)

    def ended(self):
        """Exit code, and whether the terminal is as it was."""
        deadline = time.monotonic() + 10 * PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read()
        self._read()
        return self.process.poll(), termios.tcgetattr(self._end) == self._modes


@pytest.mark.parametrize("how", ["q", "SIGTERM", "removed"])
def test_the_screen_gives_the_terminal_back(lab, scene, how):
    host = scene.hosts[0]
    with Terminal("top", "--host", host.name, "--interval", "0.3") as terminal:
        terminal.until(b"port1")
        terminal.until(b"softirq")
        terminal.type(b"s")
        # Only cells that changed are written: the blank between the words was there.
        terminal.until(b"bits")
        if how == "q":
            terminal.type(b"q")
        elif how == "SIGTERM":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            overlane("remove", "--host", host.name, "--netns", host.netns)
        code, restored = terminal.ended()
    assert code == (1 if how == "removed" else 0)
    assert restored
    assert b"\x1b[?1049l" in terminal.seen, "the other screen was left"
    if how == "removed":
        # The maps go before the state file does: in between they are nobody's.
        assert b"is not applied" in terminal.seen or b"by another version" in terminal.seen
