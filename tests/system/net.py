"""Network namespaces and links for the system tests.

Everything here acts inside namespaces that the test made itself; the machine's own network is
only read. `Lab` owns what one test creates and takes it all down again, whatever happened.
"""

import contextlib
import ctypes
import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path

CLONE_NEWNET = 0x40000000
NETNS_DIR = Path("/run/netns")
#: As SO_RCVBUF, past net.core.rmem_max: who is slow to read loses nothing. Python has no name for it.
SO_RCVBUFFORCE = 33
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count(1)

#: How many times longer than on a common machine something may take before it has failed. An emulated one is slow.
PATIENCE = float(os.environ.get("OVERLANE_TEST_PATIENCE", "1"))

#: First part of every name of this process: the pid lets a later run sweep what a killed one left.
RUN_ID = f"ovt{os.getpid()}"


class CommandFailed(AssertionError):
    """A command that a test needed did not work."""


def run(command, *, check=True, timeout=60, text=True, **options):
    """Run a command and return it with its output; a failure shows both."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=text, timeout=timeout * PATIENCE, **options)
    if check and done.returncode != 0:
        raise CommandFailed(
            f"{' '.join(command)} → {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def unique(label=""):
    """A name nobody else uses: run, counter, label."""
    return f"{RUN_ID}x{next(_numbers)}{label}"


def wait_until(condition, timeout=10.0, interval=0.02, what="condition"):
    """Poll until `condition()` is true and return its value; fail by name otherwise."""
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(interval)


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Namespace:
    """A network namespace as `ip netns` knows it."""

    def __init__(self, name):
        self.name = name

    @classmethod
    def create(cls, name, ipv6=True):
        """A quiet namespace: nothing in it speaks unasked.

        No solicitations, no duplicate address detection, no addresses of its own making; multicast
        listener reports go out once when an address is set and are then repeated in a day or so.
        """
        run(["ip", "netns", "add", name])
        ns = cls(name)
        for where in ("all", "default"):
            base = f"net.ipv6.conf.{where}"
            ns.sysctl(f"{base}.disable_ipv6", 0 if ipv6 else 1)
            for key, value in (("accept_dad", 0), ("dad_transmits", 0), ("router_solicitations", 0),
                               ("accept_ra", 0), ("autoconf", 0),
                               ("mldv1_unsolicited_report_interval", 1_000_000_000),
                               ("mldv2_unsolicited_report_interval", 1_000_000_000)):
                ns.sysctl(f"{base}.{key}", value)
        ns.sysctl("net.ipv6.conf.default.addr_gen_mode", 1)
        ns.ip("link set lo up")
        return ns

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is inside; mounts stay as they are. Sockets opened here stay here."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(NETNS_DIR / self.name, os.O_RDONLY)
        try:
            _setns(there)
            yield self
        finally:
            _setns(here)
            os.close(here)
            os.close(there)

    def run(self, command, **options):
        if isinstance(command, str):
            command = command.split()
        with self.entered():
            return run(command, **options)

    def popen(self, command, **options):
        with self.entered():
            return subprocess.Popen([str(word) for word in command], **options)

    def ip(self, *lines):
        """One or more `ip` commands in one batch."""
        return self._batch("ip", lines)

    def json(self, command):
        """What `ip -json COMMAND` prints, parsed."""
        return self._json("ip", command)

    def tc(self, *lines):
        """One or more `tc` commands in one batch."""
        return self._batch("tc", lines)

    def tc_json(self, command):
        """What `tc -s -json COMMAND` prints, parsed."""
        return self._json("tc", f"-s {command}")

    def _batch(self, tool, lines):
        batch = "\n".join(lines) + "\n"
        try:
            return run([tool, "-n", self.name, "-batch", "-"], input=batch).stdout
        except CommandFailed as error:
            raise CommandFailed(f"in {self.name}:\n{batch}{error}") from None

    def _json(self, tool, command):
        out = run([tool, "-n", self.name, "-json", *command.split()]).stdout
        return json.loads(out or "[]")

    def sysctl(self, key, value):
        with self.entered():
            path = Path("/proc/sys") / key.replace(".", "/")
            path.write_text(f"{value}\n")

    def ethtool(self, device, on=(), off=()):
        """Switch features of a device."""
        words = [word for name in on for word in (name, "on")]
        words += [word for name in off for word in (name, "off")]
        self.run(["ethtool", "-K", device, *words])

    def link(self, device):
        return self.json(f"-s -d link show dev {device}")[0]

    def mac(self, device):
        return self.link(device)["address"]

    def links(self):
        return {link["ifname"] for link in self.json("link show")}


def unmarker_namespace(host):
    """The namespace that `apply` makes beside a host's own."""
    return f"overlane.{host}.unmarker"


def delete_namespace(name):
    """Where there is one."""
    if (NETNS_DIR / name).exists():
        run(["ip", "netns", "delete", name], check=False)


class Lab:
    """What one test made: undone in reverse order by `close`, each step on its own."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self._undo = []
        self._processes = []

    def defer(self, action, *args, **options):
        self._undo.append(lambda: action(*args, **options))

    def namespace(self, label, ipv6=True):
        name = unique(label)
        self.defer(delete_namespace, unmarker_namespace(name))
        self.defer(delete_namespace, name)
        return Namespace.create(name, ipv6=ipv6)

    def spawn(self, ns, command, **options):
        """A process in a namespace, ended with the test."""
        process = ns.popen(command, **options)
        self.defer(stop, process)
        return process

    def close(self):
        errors = []
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:  # the rest must still be undone
                errors.append(error)
        if errors:
            raise errors[0]


def stop(process, timeout=5):
    """End one process of ours: politely, then not."""
    timeout *= PATIENCE
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def veth(ns_a, a, ns_b, b):
    """A cable between two namespaces; both ends down, names as given."""
    ns_a.ip(f"link add {a} type veth peer name {b} netns {ns_b.name}")


def sweep_stale(alive=lambda pid: Path(f"/proc/{pid}").exists()):
    """Remove namespaces, pins and state of runs whose process is gone (a killed pytest)."""
    def dead(name):
        name = name.removeprefix("overlane.")
        if not name.startswith("ovt"):
            return False
        pid = name[3:].split("x")[0]
        return pid.isdigit() and not alive(int(pid))

    state = Path("/run/overlane")
    pins = Path("/sys/fs/bpf/overlane")
    for directory in (pins, state, NETNS_DIR):
        if not directory.is_dir():
            continue
        for entry in sorted(directory.iterdir()):
            if not dead(entry.name):
                continue
            if directory == NETNS_DIR:
                run(["ip", "netns", "delete", entry.name], check=False)
            elif entry.is_dir():
                run(["rm", "-r", entry], check=False)
            else:
                entry.unlink(missing_ok=True)
