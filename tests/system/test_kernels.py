"""The tools that boot other kernels (tests/kernels): what they decide without booting one."""

import re
import sys

import pytest

from net import PATIENCE, run
from overlane import ROOT

KERNELS = ROOT / "tests" / "kernels"
sys.path.insert(0, str(KERNELS))

import debian  # noqa: E402
import machine  # noqa: E402
import suite  # noqa: E402
import table  # noqa: E402

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
def test_the_probe_tells_what_boots_a_kernel():
    kernel = debian.fetch(debian.pinned()[0])
    assert machine.boots_with(machine.EMULATION, kernel, 60 * PATIENCE)
    assert not machine.boots_with(["-accel", "nosuch"], kernel, 60)
    assert not machine.boots_with([*machine.EMULATION, "-S"], kernel, 1)  # It waits for a debugger.


def test_the_probe_does_not_wait_for_a_kvm_that_gave_up(tmp_path, monkeypatch):
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\necho '{machine.KVM_GAVE_UP}. Suberror: 1' >&2\nexec sleep 3600\n")
    program.chmod(0o755)
    monkeypatch.setattr(machine, "TIED", [str(program)])
    assert not machine.boots_with(machine.KVM, debian.pinned()[0], 3600)


def test_a_kernel_that_complains_has_failed():
    quiet = "root file system: mounted\n[ 9.1] clocksource: Switched to clocksource tsc\n"
    machine._no_complaint(quiet)
    for line in ("WARNING: CPU: 0 PID: 7 at net/core/skbuff.c:1", "BUG: unable to handle page fault",
                 "Kernel panic - not syncing: Fatal exception"):
        with pytest.raises(machine.MachineFailed, match="complained"):
            machine._no_complaint(f"{quiet}[ 9.2] {line}\n{quiet}")


WARNED = """[ 9.2] ------------[ cut here ]------------
[ 9.2] WARNING: CPU: 0 PID: 167 at include/net/ip_tunnels.h:684 geneve_udp_encap_recv+0x84c/0x8c0 [geneve]
[ 9.2] Call Trace:
[ 9.2] ---[ end trace 0000000000000000 ]---
"""


def test_a_known_complaint_is_passed_over_and_no_other_one():
    known = ["at include/net/ip_tunnels.h:684 geneve_udp_encap_recv"]
    machine._no_complaint(WARNED, known)
    other = WARNED.replace("ip_tunnels.h:684", "ip_tunnels.h:700")
    for console in (WARNED + other, other + WARNED, WARNED + "[ 9.3] Call Trace:\n", WARNED[:-40] + "BUG: bad\n" + other):
        with pytest.raises(machine.MachineFailed, match="complained"):
            machine._no_complaint(console, known)
    with pytest.raises(machine.MachineFailed, match="ip_tunnels.h:684"):
        machine._no_complaint(WARNED)


def test_every_test_of_the_smoke_test_exists():
    tests = suite.smoke_tests()
    found = run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
                 *tests], cwd=ROOT).stdout
    assert tests and [line for line in found.splitlines() if "::" in line] == tests


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_qemu_the_smoke_test_is_skipped_by_name_and_never_in_ci(tmp_path, ci):
    environment = {"PATH": str(tmp_path), "CI": ci}
    done = run(["/usr/bin/python3", KERNELS / "run.py", "smoke"], env=environment, check=False)
    if ci:
        assert done.returncode == 1 and "qemu-system-x86" in done.stderr
        assert "help: apt-get install" in done.stderr
    else:
        assert done.returncode == 77 and "SKIPPED: kernel smoke: not installed" in done.stdout


GREEN = """\
== part lacks
lacks netkit
== exit code 0
== part programs
program from_port 19
program from_underlay 19
program from_gro_device 11208
program from_leg 19
program data_path 89716
program from_unmarker 1200
program back_to_peer 5
== exit code 0
== part cases
859 cases: reference 859, test-run 804, wire 707 (tests/wire.rs)
== exit code 0
== part wire
wire: 707 cases
== exit code 0
== part system
........s...
============ 283 passed, 12 skipped in 3012.04s (0:50:12) ============
== exit code 0
"""


def test_what_the_suite_says_is_read():
    found = suite.read("6.12.95+deb12-amd64", GREEN)
    assert found.passed and found.failed == [] and found.lacks == ["netkit"]
    assert suite.read("6.12.95+deb12-amd64", GREEN, may_lack=False).failed == ["lacks"]
    assert (found.test_run, found.wire) == (804, 707)
    assert found.system == {"passed": 283, "skipped": 12}
    assert table.row(found) == (
        "6.12.95+deb12-amd64", "19", "19", "11 208", "19", "89 716", "1 200", "5", "804", "707",
        "283 passed, 12 skipped", "netkit")


@pytest.mark.parametrize("old, new, part", [
    ("program from_port 19\n", "program from_port refused: invalid argument\n", "programs"),
    ("wire: 707 cases\n== exit code 0", "case x: failed\n== exit code 101", "wire"),
    ("283 passed, 12 skipped in 3012.04s (0:50:12) ============\n== exit code 0\n", "", "system"),
    ("== exit code 0\n== part wire", "== part wire", "cases"),
    ("859 cases: reference 859, test-run 804, wire 707 (tests/wire.rs)", "running 0 tests", "cases"),
    ("wire: 707 cases", "SKIPPED cases_on_a_wire: no TAP devices (/dev/net/tun)", "wire"),
    ("283 passed, ", "", "system"),
])
def test_a_part_that_fails_or_does_not_end_is_red(old, new, part):
    assert old in GREEN
    found = suite.read("6.12.95+deb12-amd64", GREEN.replace(old, new))
    assert not found.passed and found.failed == [part]


def test_a_kernel_that_complains_is_red_though_all_passed():
    assert not suite.read("6.12.95+deb12-amd64", GREEN, complaint="its kernel complained").passed


def test_the_script_says_how_each_part_ended(tmp_path):
    """With programs in place of the real ones: one of them fails, and the others still run."""
    built = {name: "true" for name in suite.BUILT} | {"wire": "false"}
    commands = suite.script(built, tmp_path / "overlane", "each").replace(" -m pytest ", " -c pass ")
    done = run(["bash", "-c", commands], check=False)
    found = suite.read("6.12", done.stdout)
    assert done.returncode == 1
    assert {name: part.code for name, part in found.parts.items()} == {
        "lacks": 0, "programs": 0, "cases": 0, "wire": 1, "system": 0}


def test_a_row_takes_the_place_of_the_one_of_its_series(tmp_path, monkeypatch):
    page = tmp_path / "kernels.md"
    page.write_text(f"Before.\n{table.BEGIN}\n{table.END}\nAfter.\n")
    monkeypatch.setattr(table, "PAGE", page)
    for releases in (["7.3.4"], ["6.12.95", "6.2.1"], ["7.3.5"]):
        table.write([suite.read(release, GREEN) for release in releases])
    text = page.read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n")
    assert re.findall(r"^\| ([\d.]+) ", text, re.MULTILINE) == ["6.2.1", "6.12.95", "7.3.5"]
    assert len(re.findall(rf" {re.escape(table.commit())} \|$", text, re.MULTILINE)) == 3


def test_rows_of_the_page_are_of_the_kernels_that_are_booted():
    """Whoever names another kernel in kernels.toml runs `make kernels` on it."""
    rows = {table.series(row): row for row in re.findall(r"^\| (\d\S+) ", table.PAGE.read_text(), re.MULTILINE)}
    for kernel in debian.pinned():
        release = re.search(r"\d+\.\d+\.\d+\+\w+-amd64", kernel.packages[0])[0]
        assert rows.get(table.series(release), release) == release


@pytest.mark.parametrize("old, new", [
    (table.BEGIN, ""), (table.END, ""), (table.BEGIN, f"{table.END}\n{table.BEGIN}"),
    ("| 7.3.4 |", "<<<<<<< HEAD\n| 7.3.4 |")])
def test_a_page_that_is_half_written_is_refused_before_anything_runs(tmp_path, monkeypatch, old, new):
    page = tmp_path / "kernels.md"
    page.write_text(f"{table.BEGIN}\n{table.END}\n")
    monkeypatch.setattr(table, "PAGE", page)
    table.write([suite.read("7.3.4", GREEN)])
    table.check()
    page.write_text(page.read_text().replace(old, new))
    with pytest.raises(debian.Unavailable, match="kernels.md"):
        table.check()
