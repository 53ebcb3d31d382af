"""The tools that boot other kernels (tests/kernels): what they decide without booting one."""

import subprocess
import sys

import pytest

from net import run
from overlane import ROOT

KERNELS = ROOT / "tests" / "kernels"
sys.path.insert(0, str(KERNELS))

import debian  # noqa: E402
import machine  # noqa: E402

TWO_PACKAGES = debian.Kernel("7.3", "suite", ("linux-binary-7.3.4+deb13-amd64",
                                              "linux-modules-7.3.4+deb13-amd64"))


def test_the_newest_kernel_of_the_series_takes_the_place_of_one_that_is_gone():
    names = {f"linux-{part}-{version}+deb13{flavour}-amd64"
             for part in ("binary", "modules", "image")
             for version in ("7.2.12", "7.3.9", "7.3.10", "7.4.1", "7.30.1")
             for flavour in ("", "-cloud", "-rt")}
    found = debian.successor(names, TWO_PACKAGES)
    assert found.packages == ("linux-binary-7.3.10+deb13-amd64", "linux-modules-7.3.10+deb13-amd64")
    with pytest.raises(debian.Unavailable, match="no kernel 7.3"):
        debian.successor({"linux-binary-7.4.1+deb13-amd64"}, TWO_PACKAGES)


def test_debians_mirror_is_told_from_other_repositories():
    lines = ("https://apt.example/docker/ bookworm stable\n"
             "https://apt.example/browser/ stable main\n"
             "http://mirror.example/debian-security/ bookworm-security main\n"
             "http://mirror.example/debian/ bookworm main\n")
    assert debian.mirror_among(lines, "bookworm") == "http://mirror.example/debian/"
    proxied = "http://proxy.example/repository/apt/ bookworm main\n"
    assert debian.mirror_among(proxied, "bookworm") == "http://proxy.example/repository/apt/"
    with pytest.raises(debian.Unavailable, match="no source for Debian bookworm"):
        debian.mirror_among(lines.split("\n")[0], "bookworm")


@pytest.mark.needs(*machine.TOOLS)
def test_the_probe_tells_what_runs_a_program_from_what_does_not():
    assert machine.runs_with(machine.EMULATION)
    assert not machine.runs_with(["-accel", "nosuch"])


def test_a_kernel_that_complains_has_failed():
    quiet = "root file system: mounted\n[ 9.1] clocksource: Switched to clocksource tsc\n"
    machine._no_complaint(quiet)
    for line in ("WARNING: CPU: 0 PID: 7 at net/core/skbuff.c:1", "BUG: unable to handle page fault",
                 "Kernel panic - not syncing: Fatal exception"):
        with pytest.raises(machine.MachineFailed, match="complained"):
            machine._no_complaint(f"{quiet}[ 9.2] {line}\n{quiet}")


def test_every_test_of_the_smoke_test_exists():
    lines = (KERNELS / "smoke.txt").read_text().splitlines()
    tests = [f"tests/system/{line}" for line in lines if line and not line.startswith("#")]
    found = run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
                 *tests], cwd=ROOT).stdout
    assert tests and [line for line in found.splitlines() if "::" in line] == tests


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_qemu_the_smoke_test_is_skipped_by_name_and_never_in_ci(tmp_path, ci):
    environment = {"PATH": str(tmp_path), "CI": ci}
    done = subprocess.run(["/usr/bin/python3", KERNELS / "run.py", "smoke"], env=environment,
                          capture_output=True, text=True, timeout=60, check=False)
    if ci:
        assert done.returncode == 1 and "qemu-system-x86" in done.stderr
        assert "help: apt-get install" in done.stderr
    else:
        assert done.returncode == 77 and "SKIPPED: kernel smoke: not installed" in done.stdout
