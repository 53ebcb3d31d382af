"""Commands of ours that run until they are ended: `overlane capture` and `overlane show drops --follow`."""

import json
import signal
import subprocess
from pathlib import Path

from net import PATIENCE, run, stop, wait_until
from overlane import PINS, STATE, binary


class Live:
    """The command while the `with` block runs; standard output goes to a file meanwhile.

    It is ended as a user does it (SIGINT) and must then have ended well. `started` is in the first thing that
    it says to standard error.
    """

    def __init__(self, directory, *words, name="live", started="capturing "):
        self.path = Path(directory) / f"{name}.out"
        self._errors = Path(directory) / f"{name}.err"
        self._command = [str(word) for word in (binary(), *words)]
        self._sign = started
        self.process = None

    def __enter__(self):
        with open(self.path, "wb") as out, open(self._errors, "wb") as err:
            self.process = subprocess.Popen(self._command, stdout=out, stderr=err)
        try:
            wait_until(lambda: self._started(), what=f"{self._command} to start")
        except BaseException:
            stop(self.process)
            raise
        return self

    def _started(self):
        assert self.process.poll() is None, f"{self._command} ended: {self.errors()}"
        return self._sign in self.errors()

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(10 * PATIENCE)
        finally:
            stop(self.process)
        if kind is None:
            assert code == 0, f"{self._command} → {code}: {self.errors()}"

    def kill(self):
        """Without a chance to tidy up."""
        self.process.kill()
        self.process.wait(10 * PATIENCE)

    def errors(self):
        return self._errors.read_text()

    def text(self):
        return self.path.read_text()

    def lines(self):
        return self.text().splitlines()

    def json(self):
        return [json.loads(line) for line in self.lines()]

    def until(self, condition, timeout=10.0):
        """Wait for output that `condition(text)` accepts."""
        return wait_until(lambda: condition(self.text()), timeout,
                          what=f"output of {self._command}; so far:\n{self.text()}")


def capture_mode(host):
    """What the data path is asked to show: 0 is nothing."""
    (path,) = (PINS / host).glob("maps-*/capture")
    entry = json.loads(run(["bpftool", "-j", "map", "dump", "pinned", path]).stdout)[0]
    if "formatted" in entry:
        return entry["formatted"]["value"]["mode"]
    return int.from_bytes(bytes(int(byte, 0) for byte in entry["value"][:4]), "little")


def capture_lock(host):
    return STATE / f"{host}.capture"
