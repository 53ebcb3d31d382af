"""Machines that move in the laboratory: a real virtual machine on TAPs, its flows go on, and what fails is a cell with its
reason. What the network does with the port is in test_port_moves.py."""

import os
import signal
import sys

import pytest

from laboratory import (Study, alive, descendants, group, is_as_before, leftovers, run_study, wait_for_the_dead,
                        write_study)
from net import run
from overlane import ROOT, overlane

sys.path.insert(0, str(ROOT / "tests" / "kernels"))
import debian  # noqa: E402

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab"),
              pytest.mark.needs("qemu-system-x86_64", "xz")]

QEMU = "qemu-system"
#: Between two messages of a flow.
PACE_MS = 5


@pytest.fixture(autouse=True)
def guest_kernel(monkeypatch):
    """The oldest kernel that Overlane promises, unpacked once for all tests that boot one."""
    monkeypatch.setenv("OVERLANE_GUEST_KERNEL", str(debian.fetch(debian.pinned()[0]).folder))


@pytest.fixture
def before():
    """What was there before the study; afterwards it is there again."""
    found = leftovers()
    yield found
    overlane("lab", "cleanup")
    is_as_before(found)


def machines(tmp_path, *networks, samples=1, **axes):
    axes = {"guest_memory_mib": [128], "dirty_percent": [8]} | axes
    return write_study(tmp_path, networks, [group("migration", 64, **axes)], samples=samples)


def test_a_machine_moves_there_and_back_and_its_connections_go_on(tmp_path):
    """Through a stateful firewall. The laboratory itself fails a sample with a wrong byte, a datagram that comes twice, or
    a frame at the machine that is another's; here it is seen that it looked."""
    study = machines(tmp_path, "overlane-vxlan", feature=["firewall-10"])
    result = run_study(study, tmp_path / "result")
    (cell,) = result.cells
    assert (cell["status"], cell["path_proof"]) == ("ok", True), cell["reason"]
    assert "of the migration between 198.18.64.1 and 198.18.64.2" in cell["proof"]
    there, back = sorted(result.samples, key=lambda sample: sample["round"])
    assert (there["migration"]["back"], back["migration"]["back"]) == (False, True)
    for sample in (there, back):
        (machine,) = sample["migration"]["machines"]
        tcp, udp = machine["tcp"], machine["udp"]
        # Every message came back, the one under way at the end too: they go one after the other.
        assert tcp["sent"] == tcp["returned"] > 20, machine
        # What was lost has its time in the gap.
        lost = udp["sent"] - udp["returned"]
        assert 0 <= lost <= udp["longest_gap_ms"] / PACE_MS + 1, machine
        assert machine["downtime_ms"] > machine["switch_ms"] > 0, machine
        assert udp["longest_gap_ms"] >= machine["switch_ms"], machine
        (link,) = sample["migration"]["link_bytes"]
        assert link >= machine["transferred_bytes"] > 10 << 20, sample["migration"]
    figures = cell["figures"]
    assert figures["migration_seconds"]["mean"] == pytest.approx(back["migration"]["seconds"])


def shape(study, device, rate):
    """A cable of the study carries so little, both ways."""
    for host in study.namespaces("host"):
        run(["ip", "netns", "exec", host, "tc", "qdisc", "replace", "dev", device, "root",
             "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"])


def processes_of(study, program):
    return {pid for (pid, _), command in descendants(study.pid).items() if program in command}


def begun(study):
    """Two machines run under QEMU: one that moves, and one that it moves to."""
    return lambda: len(processes_of(study, QEMU)) > 1


@pytest.mark.thorough
def test_a_machine_that_writes_faster_than_the_cable_carries_fails_its_cell(tmp_path, before):
    with Study(machines(tmp_path, "bridge", dirty_mib_per_second=[200]), tmp_path / "result") as study:
        study.until(begun(study), "a machine and the other host")
        shape(study, "link0", "80mbit")
        assert study.end(200) == 1, study.text()
        (cell,) = study.result.cells
        assert cell["status"] == "failed" and "40 s" in cell["reason"], cell["reason"]


@pytest.mark.thorough
def test_a_destination_that_dies_costs_a_warning_and_the_machine_moves_again(tmp_path, before):
    with Study(machines(tmp_path, "overlane-vxlan"), tmp_path / "result") as study:
        study.until(lambda: processes_of(study, QEMU), "a machine")
        first = processes_of(study, QEMU)
        study.until(begun(study), "the other host's")
        for pid in processes_of(study, QEMU) - first:
            os.kill(pid, signal.SIGKILL)
        assert study.end(150) == 0, study.text()
        (cell,) = study.result.cells
        assert cell["status"] == "ok", cell["reason"]
        (warning,) = [it["text"] for it in study.result.data["warnings"] if it["kind"] == "sampled-again"]
        assert "machine" in warning and "signal: 9" in warning, warning


@pytest.mark.thorough
@pytest.mark.parametrize("end", [Study.interrupt, Study.kill], ids=["interrupt", "kill"])
def test_a_study_that_ends_while_a_machine_moves_leaves_no_machine(tmp_path, before, end):
    with Study(machines(tmp_path, "overlane-vxlan", samples=20), tmp_path / "result") as study:
        study.until(begun(study), "a machine and the other host")
        started = descendants(study.pid)
        assert alive(started)
        end(study)
        if end is Study.interrupt:
            assert study.end() == 1, study.text()
        wait_for_the_dead(started, "QEMU")
