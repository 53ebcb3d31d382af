"""An agent that keeps a host, and calls on its socket."""

import json
import os
import socket
import subprocess
from pathlib import Path

from net import run, stop, wait_until
from overlane import STATE, binary, overlane

KEPT = Path("/var/lib/overlane")


class Keeping:
    """`overlane agent` for one host of a scene, until the test ends. `fabric` None: it keeps what is applied."""

    def __init__(self, lab, host, fabric=None, words=(), program=None, prefix=()):
        self.lab, self.host, self.fabric, self.words, self.prefix = lab, host, fabric, words, prefix
        self.program = program or binary()
        self.log = Path(lab.directory) / f"agent-{host.name}.log"
        self.process = None
        lab.defer(self._take_away)

    def start(self, wait=True, **environment):
        command = [*self.prefix, self.program, "agent", "--host", self.host.name, "--netns", self.host.netns,
                   "--config", self._config(), *self.words]
        if self.fabric:
            command += ["--fabric", self.fabric]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log,
                                            env={**os.environ, **environment})
        if wait:
            wait_until(self.is_ready, what=f"the agent of {self.host.name} to be ready")
        return self

    def _config(self):
        """Nobody else's settings count here."""
        path = Path(self.lab.directory) / "agent.yaml"
        if not path.exists():
            path.write_text("watch_mtu: false\n")
        return path

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        return (STATE / f"{self.host.name}.socket").exists() and self.view() is not None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        stop(self.process)
        return self.process.returncode

    def call(self, **words):
        """What it answers to one line."""
        return self.call_raw(json.dumps({"version": 1, **words}))

    def call_raw(self, line):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(str(STATE / f"{self.host.name}.socket"))
            sock.sendall(line.encode() + b"\n")
            return json.loads(sock.makefile().readline())

    def view(self):
        """How it keeps its host."""
        try:
            return self.call(call="status")["status"]
        except (ConnectionError, FileNotFoundError):
            return None

    def mended(self):
        """All that it did lately, a line each."""
        return [line for mended in self.view()["mended"] for line in mended["lines"]]

    def status(self):
        done = overlane("status", "--host", self.host.name, "--json", expect=None)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def is_whole(self):
        return self.status()[0] == 0

    def cpu_s(self):
        """Seconds of a CPU that it took."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _take_away(self):
        if self.process:
            stop(self.process)
        overlane("remove", "--host", self.host.name, "--netns", self.host.netns, expect=None)
        (KEPT / f"{self.host.name}.json").unlink(missing_ok=True)


def make_again(guest, mtu=1500):
    """The veth of a guest is deleted, and made anew from the guest's namespace, as container runtimes do."""
    run(["ip", "-n", guest.host.netns, "link", "delete", guest.device])
    make(guest, mtu)


def make(guest, mtu=1500):
    guest.ns.ip(f"link add eth0 type veth peer name {guest.device}",
                f"link set {guest.device} netns {guest.host.netns}")
    bring_up(guest, mtu)


def bring_up(guest, mtu=1500):
    """Both ends of a guest's cable, which are there."""
    guest.host.ns.ip(f"link set {guest.device} mtu {mtu} up")
    guest.ns.ip(f"link set eth0 address {guest.mac} mtu 1400 up", f"address add {guest.v4}/24 dev eth0",
                f"address add {guest.v6}/64 dev eth0 nodad")
