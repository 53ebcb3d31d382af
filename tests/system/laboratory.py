"""Studies of the tests' own: as small as they can be, run as a user runs them, and what they leave on the machine.

Only one study runs at a time (the fixture `only_one_lab`), and none outlives its test.
"""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import yaml

from net import NETNS_DIR, PATIENCE, run, wait_until
from overlane import PINS, ROOT, STATE, binary, overlane

SCHEMA = json.loads((ROOT / "docs" / "result.schema.json").read_text())
#: Other workers' things come and go meanwhile; they bear this in their names.
TESTS = "ovt"
#: Of the smallest sample that says something.
SECONDS = 0.4


def write_study(directory, backends, groups, samples=1, seconds=SECONDS, name="tiny", **more):
    """A study file whose quick matrix is its whole one."""
    matrix = {"samples": samples, "seconds": seconds, "warm_up_seconds": 0.2, "networks": list(backends),
              # Other tests run beside.
              "busy_machine": True, "groups": groups, **more}
    path = Path(directory) / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, "title": f"The study {name}", "question": "Does it run?",
                                    "matrix": matrix, "quick": matrix}))
    return path


def group(test, size, **axes):
    return {"tests": [test], "bytes": [size], **axes}


class Result:
    """A result folder."""

    def __init__(self, directory):
        self.directory = Path(directory)

    @property
    def data(self):
        """`result.json`, which is as its schema says."""
        data = json.loads((self.directory / "result.json").read_text())
        jsonschema.validate(data, SCHEMA)
        return data

    @property
    def cells(self):
        return self.data["cells"]

    @property
    def samples(self):
        """Every whole line of `samples.ndjson`."""
        text = (self.directory / "samples.ndjson").read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def counted(self, backend=None):
        return [sample for sample in self.samples if sample["discarded"] is None
                and backend in (None, sample["cell"]["network"])]


def run_study(path, directory, *words, expect=0, timeout=150):
    """A study from its beginning to its end; the machine is as it was before."""
    before = leftovers()
    done = overlane("lab", "run", path, "--out", directory, "--no-tty", *words, expect=expect, timeout=timeout)
    is_as_before(before, done.stderr)
    return Result(directory)


class Study:
    """A study that runs while the `with` block does; killed and cleaned up after at its end, whatever happened."""

    def __init__(self, path, directory, *words):
        self.result = Result(directory)
        self.log = Path(directory).parent / f"{Path(directory).name}.log"
        self._start([str(binary()), "lab", "run", str(path), "--out", str(directory), "--no-tty",
                     *(str(word) for word in words)])

    def _start(self, command):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        overlane("lab", "cleanup")

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        return self.log.read_text()

    def until(self, moment, what, timeout=90):
        """Wait until something holds of the running study; if it ends before, its own words are shown."""
        def happened():
            assert self.process.poll() is None, self.text()
            return moment()

        return wait_until(happened, timeout=timeout, interval=0.05, what=what)

    def has_samples(self, count):
        """So many samples that count have been written."""
        return lambda: (self.result.directory / "samples.ndjson").exists() and \
            len(self.result.counted()) >= count

    def end(self, timeout=90):
        """Wait for its end; the exit code."""
        try:
            return self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s:\n{self.text()}") from None

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def kill(self):
        """As `kill -9` does: the program only, none of its children."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def namespaces(self, label=""):
        """Its namespaces with this in their names."""
        return sorted(name for name in names(NETNS_DIR)
                      if name.startswith(f"lab{self.pid}-") and label in name)

    def inside(self, label, program):
        """Its processes of this program in the namespaces with the label."""
        found = {}
        for namespace in self.namespaces(label):
            for pid in run(["ip", "netns", "pids", namespace], check=False).stdout.split():
                if program in (command := command_line(int(pid))):
                    found[int(pid)] = command
        return found

    def has_begun(self):
        """It keeps its journal."""
        return any(name.endswith(f"Z-{self.pid}") for name in names(STATE / "lab"))

    def hosts(self, label=""):
        """Its Overlane hosts."""
        return sorted(name for name in names(PINS) if name.startswith(f"lab{self.pid}-") and label in name)


def command_line(pid):
    """Words of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def start_time(pid):
    """Together with the pid it names a process for good; None when it is gone, or only waits for its reaper."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def descendants(pid):
    """{(process, start): command line} of everything that a process has started."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, unseen = {}, [pid]
    while unseen:
        for child in children.get(unseen.pop(), []):
            unseen.append(child)
            found[child, start_time(child)] = command_line(child)
    return found


def alive(processes):
    """Those of `descendants` that still run."""
    return {pid: command for (pid, start), command in processes.items()
            if start is not None and start_time(pid) == start}


def names(directory):
    entries = os.listdir(directory) if os.path.isdir(directory) else []
    return {name for name in entries if not name.removeprefix("overlane.").startswith(TESTS)}


def left(directory):
    """Names that are there, without those of a living study or cargo test: they end with its process."""
    def ends(name):
        owner = re.match(r"(?:overlane\.)?(?:lab|ove)(\d+)-|\d+T\d+Z-(\d+)$", name)
        return not (owner and os.path.exists(f"/proc/{owner[1] or owner[2]}"))

    return {name for name in names(directory) if ends(name)}


def leftovers():
    """What a study may leave once it has ended, without what other tests own by name."""
    return {
        "namespaces": left(NETNS_DIR),
        "links": set(os.listdir("/sys/class/net")),
        "pins": left(PINS),
        "state": left(STATE) - {"lab"},
        "runs": left(STATE / "lab") - {"lock"},
    }


def is_as_before(before, said=""):
    """Nothing is there that was not, and no device of the machine's own is gone."""
    after = leftovers()
    new = {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]}
    assert not new, f"left behind: {new}\n{said}"
    assert after["links"] == before["links"], said


def wait_for_the_dead(processes, what):
    """A process that was killed is gone when its reaper has come."""
    wait_until(lambda: not alive(processes), timeout=10, what=f"{what} to be gone: {alive(processes)}")


def settle():
    """A moment for what a signal sets off."""
    time.sleep(0.3)
