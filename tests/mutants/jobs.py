"""What both parts need: a folder that goes away, processes that end with us, and a closing line."""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORE = ROOT / "target" / "mutants"
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Broken(Exception):
    """The run cannot go on."""

    def __init__(self, what, help, code=1):
        super().__init__(what)
        self.help, self.code = help, code
        self.word = "SKIPPED: mutants" if code == 77 else "error"


class Room:
    """A folder for copies, and the processes that use it. Both are gone at the end, however it comes: a kill that
    leaves no time to tidy up takes the processes too, and the next run takes the folder."""

    def __enter__(self):
        STORE.mkdir(parents=True, exist_ok=True)
        for old in STORE.iterdir():
            if not is_running(old.name.split("-")[0]):
                shutil.rmtree(old, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=STORE))
        self.closing = threading.Event()
        self.running = set()
        return self

    def __exit__(self, *_):
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self):
        """Ends what runs; nothing new begins."""
        self.closing.set()
        for process in list(self.running):
            end(process)

    def run(self, command, seconds, **more):
        """(code, output) of a command; code None: it took longer."""
        if self.closing.is_set():
            raise KeyboardInterrupt
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", start_new_session=True,
                                   preexec_fn=end_with_parent, **more)
        self.running.add(process)
        try:
            out, _ = process.communicate(timeout=seconds)
            return process.returncode, out
        except subprocess.TimeoutExpired:
            end(process)
            return None, process.communicate()[0]
        finally:
            end(process)
            self.running.discard(process)


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end(process):
    """Ends it, and what it started: cargo-mutants ends its own, whose groups are others, when it is asked to."""
    for how, seconds in (signal.SIGINT, 10), (signal.SIGKILL, None):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, how)
            process.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def is_running(pid):
    return pid.isdecimal() and Path("/proc", pid).exists()


def known(part):
    """The entries of known.toml: survivors and why they survive."""
    with open(HERE / "known.toml", "rb") as file:
        return tomllib.load(file).get(part, [])


@dataclass
class Tally:
    """How it went; as text the closing line."""

    name: str
    began: float = field(default_factory=time.monotonic)
    killed: int = 0
    equivalent: int = 0
    explained: int = 0
    new: int = 0
    refused: int = 0
    same: int = 0

    def survived(self, bug, entry):
        """A survivor, and what known.toml says of it, if anything."""
        if not entry:
            self.new += 1
            print(f"SURVIVED: {bug}", flush=True)
            return
        word = "equivalent" if entry.get("equivalent") else "explained"
        setattr(self, word, getattr(self, word) + 1)
        print(f"{word}: {bug}\n    {entry['why']}", flush=True)

    @property
    def percent(self):
        """Of the bugs that are any: the mutation score."""
        bugs = self.killed + self.explained + self.new
        return 100 * self.killed / bugs if bugs else 0

    def __str__(self):
        survived = self.equivalent + self.explained + self.new
        planted = self.killed + survived + self.refused + self.same
        return (f"mutants, {self.name}: {planted} planted, {self.killed} killed, "
                f"{survived} survived ({self.explained} explained, {self.new} new, {self.equivalent} equivalent: no bugs), "
                f"{self.refused} refused, {self.same} made no other program: "
                f"{self.percent:.1f} % of the bugs killed in {time.monotonic() - self.began:.0f} s")
