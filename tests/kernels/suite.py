"""What `make kernels` runs on a kernel: do the programs load, all golden cases, the system tests.

One shell script does it, in a virtual machine or on this machine itself, and what it prints is read here.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field

from debian import HERE, ROOT

sys.path.insert(0, str(ROOT / "tests"))

from built import executables  # noqa: E402

#: How many times longer than on a common machine anything may take.
PATIENCE = 5
#: Tests wait more than they compute: with four of them an emulated machine with two processors is idle for a third.
WORKERS = 6
#: What the script prints around each part.
BEGINS, ENDED = "== part ", "== exit code "
#: The tests of a crate, and examples, that the script runs.
CONFORMANCE = ROOT / "tests" / "conformance"
BUILT = ("cases", "wire", "program_sizes")
#: Programs by the order in which a packet meets them.
PROGRAMS = ("from_port", "from_underlay", "from_gro_device", "from_leg", "data_path", "from_unmarker",
            "back_to_peer")


@dataclass
class Part:
    """What a part of the script said, and whether it passed."""

    lines: list = field(default_factory=list)
    code: int | None = None

    def number(self, pattern):
        """The number in a regular expression, in the first line that has it."""
        matches = (re.search(pattern, line) for line in self.lines)
        return next((int(match[1]) for match in matches if match), None)


@dataclass
class Found:
    """What was found on one kernel."""

    release: str
    parts: dict
    #: Of the virtual machine.
    complaint: str = ""
    #: Debian's kernels have all that the tests ask for.
    may_lack: bool = True

    @property
    def failed(self):
        """Parts that did not pass, or that ran nothing."""
        ran = {"lacks": self.may_lack or not self.lacks, "programs": set(self.programs) == set(PROGRAMS),
               "cases": self.test_run, "wire": self.wire, "system": self.system.get("passed")}
        return [name for name in SCRIPT if self.parts[name].code != 0 or not ran[name]]

    @property
    def passed(self):
        return not (self.failed or self.complaint)

    def __str__(self):
        lines = [f"Linux {self.release}",
                 f"programs       {len(self.programs)} of {len(PROGRAMS)} load, "
                 f"at most {max(self.programs.values(), default=0)} verified instructions",
                 f"golden cases   {self.test_run} in a test run, {self.wire} on a wire",
                 f"system tests   {', '.join(f'{count} {word}' for word, count in self.system.items())}",
                 f"lacks          {', '.join(self.lacks) or 'nothing of what is asked for'}"]
        if self.failed:
            lines.append(f"failed         {', '.join(self.failed)}")
        if self.complaint:
            lines.append(f"complaint      {self.complaint}")
        return "\n          ".join(lines)

    @property
    def programs(self):
        """Program → verified instructions, of those that load."""
        matches = (re.fullmatch(r"program (\S+) (\d+)", line) for line in self.parts["programs"].lines)
        return {match[1]: int(match[2]) for match in matches if match}

    @property
    def test_run(self):
        """Golden cases that ran in a test run."""
        return self.parts["cases"].number(r"^\d+ cases: .* test-run (\d+),")

    @property
    def wire(self):
        """Golden cases that ran on a wire."""
        return self.parts["wire"].number(r"^wire: (\d+) cases")

    @property
    def system(self):
        """Words of pytest's last line → how many tests."""
        counts = {}
        for line in self.parts["system"].lines:
            if re.search(r" in [\d.]+s", line):
                counts = {word: int(count) for count, word in
                          re.findall(r"(\d+) (passed|failed|skipped|errors?)", line)}
        return counts

    @property
    def lacks(self):
        """What the kernel does not have."""
        return [line.removeprefix("lacks ") for line in self.parts["lacks"].lines
                if line.startswith("lacks ")]


#: One compares the page with what this run will write into it. The other boots a machine in the machine.
LEFT_OUT = ("test_rows_of_the_page_are_of_the_kernels_that_are_booted", "test_the_probe_tells_what_boots_a_kernel")

#: Part → what it runs, with a {place} for each program that was built.
SCRIPT = {
    "lacks": "/usr/bin/python3 tests/system/modules.py",
    "programs": "{program_sizes}",
    "cases": "env -C {conformance} {cases} --nocapture every_case_on_the_ebpf_programs",
    "wire": "env -C {conformance} {wire} --nocapture",
    "system": "/usr/bin/python3 -m pytest tests/system -q -rs --durations=10 --tb=short -p no:cacheprovider --strict-skips "
              f"-n {WORKERS} --dist loadgroup --tests {{tests}} "
              + " ".join(f"--deselect tests/system/test_kernels.py::{test}" for test in LEFT_OUT),
}


def script(built, program, tests):
    """The shell script. `built`: files by the names of BUILT."""
    places = {name: shlex.quote(str(path)) for name, path in built.items()}
    places |= {"conformance": shlex.quote(str(CONFORMANCE)), "tests": tests}
    lines = ["trap 'exit 130' INT TERM", f"cd {shlex.quote(str(ROOT))} || exit", "modprobe tun 2>/dev/null",
             "unset OVERLANE_CASE",
             f"export OVERLANE={shlex.quote(str(program))} OVERLANE_TEST_PATIENCE={PATIENCE}", "worst=0"]
    for name, command in SCRIPT.items():
        lines += [f"echo '{BEGINS}{name}'", command.format(**places),
                  "code=$?", f"echo \"{ENDED}$code\"", "[ $code -eq 0 ] || worst=1"]
    return "\n".join([*lines, "exit $worst"])


def read(release, text, complaint="", may_lack=True):
    """What the script printed, by its parts. One that never ended has no exit code."""
    parts = {name: Part() for name in SCRIPT}
    part = Part()
    for line in text.splitlines():
        if line.startswith(BEGINS):
            part = parts.setdefault(line.removeprefix(BEGINS), Part())
        elif line.startswith(ENDED):
            part.code = int(line.removeprefix(ENDED))
        else:
            part.lines.append(line)
    return Found(release, parts, complaint, may_lack)


def smoke_tests():
    """The tests of smoke.txt."""
    lines = (HERE / "smoke.txt").read_text().splitlines()
    return [f"tests/system/{line}" for line in lines if line and not line.startswith("#")]


def build():
    """Builds what the script runs. Returns the files by name, and the program that is tested.

    It is the release build: under emulation the system tests take a sixth less time with it.
    """
    built = {message["target"]["name"]: message["executable"] for message in executables()
             if message["manifest_path"] == str(CONFORMANCE / "Cargo.toml")}
    program = os.environ.get("OVERLANE")
    if not program:
        subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "overlane"], cwd=ROOT, check=True)
        program = ROOT / "target" / "release" / "overlane"
    # The system tests read the captures of the golden cases.
    environment = os.environ | {"OVERLANE_WRITE": "captures", "OVERLANE_CASE": ""}
    subprocess.run([built["cases"], "captures"], cwd=CONFORMANCE, env=environment, check=True)
    return {name: built[name] for name in BUILT}, program
