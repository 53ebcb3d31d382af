"""Any part of a study is killed at any moment: a clear error or a failed cell with its reason, what was
measured is kept and can be completed, and the machine is clean."""

import os
import signal

import pytest

from laboratory import (Result, Study, alive, descendants, group, is_as_before, leftovers, settle,
                        wait_for_the_dead, write_study)
from overlane import overlane
from peers import ovs

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

SAMPLES = 4


@pytest.fixture
def before():
    """What was there before the study; afterwards it is there again, and `lab cleanup` finds nothing."""
    found = leftovers()
    yield found
    assert "nothing was left behind" in overlane("lab", "cleanup").stdout
    is_as_before(found)


def streams(tmp_path, *backends, samples=SAMPLES, seconds=0.5):
    return write_study(tmp_path, backends, [group("tcp_stream", 131072)], samples=samples, seconds=seconds)


def cells(result):
    return {cell["network"]: cell for cell in result.cells}


def complete(result, *backends, samples=SAMPLES):
    """Everything was measured, each round by all, and the report can be read."""
    data = result.data
    assert not data["interrupted"]
    for backend, cell in cells(result).items():
        assert cell["status"] == "ok" and cell["samples"] == samples, (backend, cell["status"], cell["reason"])
    for backend in backends:
        rounds = [sample["round"] for sample in result.counted(backend) if sample["round"] > 0]
        assert sorted(rounds) == list(range(1, samples + 1)), backend
    assert (result.directory / "report.html").stat().st_size > 10_000


def kill_all(processes):
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_an_agent_that_is_killed_once_costs_a_warning(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "overlane-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(3), "samples of both")
        agents = study.inside("overlane-vxlan", "traffic")
        assert len(agents) == 2
        os.kill(min(agents), signal.SIGKILL)
        assert study.end() == 0, study.text()
        complete(study.result, "bridge", "overlane-vxlan")
        (warning,) = [it["text"] for it in study.result.data["warnings"] if it["kind"] == "sampled-again"]
        assert "overlane-vxlan" in warning and "agent in guest" in warning and "signal: 9" in warning


@pytest.mark.thorough
def test_an_agent_that_is_killed_again_and_again_fails_its_cell_alone(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "overlane-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(3), "samples of both")

        def failed():
            kill_all(study.inside("overlane-vxlan", "traffic"))
            return "overlane-vxlan" in study.text() and "failed" in study.text()

        study.until(failed, "the cell to fail")
        assert study.end() == 0, study.text()
        found = cells(study.result)
        assert found["bridge"]["status"] == "ok" and found["bridge"]["samples"] == SAMPLES
        assert found["overlane-vxlan"]["status"] == "failed"
        assert "agent in guest" in found["overlane-vxlan"]["reason"], found["overlane-vxlan"]["reason"]


@pytest.mark.thorough
def test_a_switch_that_is_taken_away_behind_its_back_fails_its_cell_alone(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "overlane-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(3), "samples of both")
        host = study.hosts("overlane-vxlan")[0]
        overlane("remove", "--host", host)
        assert study.end(150) == 0, study.text()
        found = cells(study.result)
        assert found["bridge"]["status"] == "ok" and found["bridge"]["samples"] == SAMPLES
        assert found["overlane-vxlan"]["status"] == "failed", found["overlane-vxlan"]
        assert len(found["overlane-vxlan"]["reason"]) > 20


@pytest.mark.thorough
@pytest.mark.needs(*ovs.TOOLS)
def test_an_ovs_that_dies_fails_its_cell_alone(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "ovs-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(3), "samples of both")
        switches = study.inside("ovs-vxlan", "ovs-vswitchd")
        assert switches
        kill_all(switches)
        assert study.end(150) == 0, study.text()
        found = cells(study.result)
        assert found["bridge"]["status"] == "ok" and found["bridge"]["samples"] == SAMPLES
        assert found["ovs-vxlan"]["status"] == "failed", found["ovs-vxlan"]
        assert len(found["ovs-vxlan"]["reason"]) > 20


def figures(samples):
    return {(sample["cell"]["network"], sample["round"], sample["started_unix_ms"]): sample["goodput_gbps"]
            for sample in samples}


def kept_and_completed(study, kept):
    """After its end: the report of what there is, then the rest, into the same folder."""
    directory = study.result.directory
    overlane("lab", "report", directory)
    assert study.result.data["interrupted"]
    assert (directory / "report.md").stat().st_size > 1000
    overlane("lab", "resume", directory, "--no-tty", timeout=150)
    complete(study.result, "bridge", "overlane-vxlan")
    # What had been measured is still there, also what does not count any more.
    found = figures(study.result.samples)
    for sample, goodput in figures(kept).items():
        assert found[sample] == pytest.approx(goodput, rel=1e-9), sample
    again = overlane("lab", "resume", directory, expect=1)
    assert "complete" in again.stderr


def test_a_study_that_is_killed_is_completed_from_its_folder(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "overlane-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(5), "two rounds")
        started = descendants(study.pid)
        assert alive(started)
        study.kill()
        kept = study.result.samples
        assert len(kept) >= 5
        overlane("lab", "cleanup")
        wait_for_the_dead(started, "what the study had started")
        is_as_before(before)
        kept_and_completed(study, kept)


@pytest.mark.thorough
def test_a_study_that_is_interrupted_is_completed_from_its_folder(tmp_path, before):
    with Study(streams(tmp_path, "bridge", "overlane-vxlan"), tmp_path / "result") as study:
        study.until(study.has_samples(5), "two rounds")
        started = descendants(study.pid)
        study.interrupt()
        assert study.end(60) == 1
        assert f"lab resume {study.result.directory}" in study.text()
        wait_for_the_dead(started, "what the study had started")
        is_as_before(before, "it cleans up itself")
        assert study.result.data["interrupted"]
        kept_and_completed(study, study.result.samples)


@pytest.mark.thorough
def test_a_last_line_that_was_cut_off_is_measured_again(tmp_path, before):
    """As a machine that lost its power leaves it."""
    with Study(streams(tmp_path, "bridge", samples=3), tmp_path / "result") as study:
        study.until(study.has_samples(2), "two samples")
        study.kill()
    path = study.result.directory / "samples.ndjson"
    path.write_bytes(path.read_bytes()[:-20])
    overlane("lab", "report", study.result.directory)
    overlane("lab", "resume", study.result.directory, "--no-tty", timeout=120)
    complete(Result(study.result.directory), "bridge", samples=3)


def test_a_study_that_is_told_to_end_before_it_measured_leaves_no_folder(tmp_path, before):
    with Study(streams(tmp_path, "bridge"), tmp_path / "result") as study:
        study.until(study.has_begun, "the run")
        study.interrupt()
        assert study.end(60) == 1
        settle()
        assert "interrupted" in study.text()
        assert not (tmp_path / "result").exists()


def test_a_folder_with_a_result_is_not_written_over(tmp_path, before):
    study = streams(tmp_path, "bridge", samples=1)
    overlane("lab", "run", study, "--out", tmp_path / "result", "--no-tty", timeout=120)
    content = (tmp_path / "result" / "result.json").read_bytes()
    done = overlane("lab", "run", study, "--out", tmp_path / "result", "--no-tty", expect=1)
    assert "holds a result already" in done.stderr and "lab resume" in done.stderr
    assert (tmp_path / "result" / "result.json").read_bytes() == content
    nothing = overlane("lab", "resume", tmp_path, expect=1)
    assert "no result" in nothing.stderr
