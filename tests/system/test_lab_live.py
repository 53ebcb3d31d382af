"""The live view of a study, in a pseudo terminal: it shows the cell, `q` stops it, and the terminal is as it was."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from laboratory import Result, group, is_as_before, leftovers, write_study
from net import PATIENCE
from overlane import binary, overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])|\x1b[()][A-Z0-9]|\x1b[=>78]")
ROWS, COLUMNS = 30, 120


class Screen:
    """What a terminal shows: a view is drawn in differences, a piece of a word here and there."""

    def __init__(self):
        self.rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self.row = self.column = 0

    def draw(self, text):
        """Takes what a program wrote; returns what is not a whole escape sequence yet."""
        while text:
            if text[0] != "\x1b":
                self._put(text[0])
                text = text[1:]
                continue
            found = ESCAPE.match(text)
            if not found:
                return text if len(text) < 16 else self.draw(text[1:])
            self._obey(found[1], found[2])
            text = text[found.end():]
        return ""

    def _put(self, letter):
        if letter == "\n":
            self.row = min(self.row + 1, ROWS - 1)
        elif letter == "\r":
            self.column = 0
        elif self.column < COLUMNS:
            self.rows[self.row][self.column] = letter
            self.column += 1

    def _obey(self, numbers, what):
        if what == "H":
            row, _, column = numbers.partition(";")
            self.row = min(int(row or 1), ROWS) - 1
            self.column = min(int(column or 1), COLUMNS) - 1
        elif what == "J" or numbers == "?1049":
            self.rows = [[" "] * COLUMNS for _ in range(ROWS)]

    @property
    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(theirs)
        self._theirs = theirs
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        env={**os.environ, "TERM": "xterm-256color"})
        self.text, self.screen, self._rest = "", Screen(), ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for descriptor in (self.ours, self._theirs):
            os.close(descriptor)

    def read(self, timeout=0.1):
        """Take what has come; the screen's drawing among it."""
        if select.select([self.ours], [], [], timeout)[0]:
            text = self._decoder.decode(os.read(self.ours, 65536))
            self.text += text
            self._rest = self.screen.draw(self._rest + text)

    def until(self, condition, what, timeout=60):
        deadline = time.monotonic() + timeout * PATIENCE
        while not condition():
            assert time.monotonic() < deadline, \
                f"not within {timeout} s: {what}\n{self.screen.text}\n{self.plain()[-1000:]}"
            self.read()

    def plain(self):
        return ESCAPE.sub("", self.text)

    def shows(self, *words):
        return lambda: all(word in self.screen.text for word in words)

    def settings_now(self):
        return termios.tcgetattr(self._theirs)

    def type(self, keys):
        os.write(self.ours, keys.encode())


def test_the_view_shows_the_cell_and_q_stops_it_cleanly(tmp_path):
    study = write_study(tmp_path, ["bridge", "overlane-vxlan"], [group("tcp_rr", 64)], samples=8, seconds=0.5)
    directory, before = tmp_path / "result", leftovers()
    command = [str(binary()), "lab", "run", str(study), "--out", str(directory)]
    with Terminal(command) as terminal:
        terminal.until(terminal.shows("The study tiny", "q or ^C stops"), "the screen")
        assert ENTER in terminal.text and LEAVE not in terminal.text
        assert terminal.settings_now()[3] != terminal.settings[3], "keys come one by one"
        terminal.until(terminal.shows("tcp_rr-64B-1i", "sending host", "receiving host", "transactions"), "a sample")
        terminal.until(lambda: directory.exists() and len(Result(directory).counted()) >= 4, "two rounds")
        terminal.type("q")
        terminal.until(lambda: terminal.process.poll() is not None, "the end")
        for _ in range(5):
            terminal.read(0.05)
        assert terminal.process.returncode == 1
        assert terminal.settings_now() == terminal.settings, "the terminal is as it was"
        # After the screen come the tables and what to do next, on the terminal as it was.
        assert terminal.text.rindex(LEAVE) > terminal.text.rindex(ENTER)
        after = ESCAPE.sub("", terminal.text[terminal.text.rindex(LEAVE):])
        assert f"lab resume {directory}" in after.replace("\r\n", "") and "tcp_rr-64B-1i" in after
    is_as_before(before)
    assert Result(directory).data["interrupted"]
    done = overlane("lab", "resume", directory, "--no-tty", timeout=120)
    assert "are there already" in done.stderr
    assert [cell["samples"] for cell in Result(directory).cells] == [8, 8]


def test_plain_lines_on_a_terminal_too_when_asked_for(tmp_path):
    study = write_study(tmp_path, ["bridge"], [group("tcp_rr", 64)])
    command = [str(binary()), "lab", "run", str(study), "--out", str(tmp_path / "result"), "--no-tty"]
    with Terminal(command) as terminal:
        terminal.until(lambda: terminal.process.poll() is not None, "the end")
        for _ in range(5):
            terminal.read(0.05)
        assert terminal.process.returncode == 0, terminal.plain()
        assert ENTER not in terminal.text
        lines = terminal.plain().replace("\r", "").splitlines()
        assert any(line.startswith("lab: 2 samples, about ") for line in lines), lines
        assert any("round 1 of 1 done" in line for line in lines), lines
