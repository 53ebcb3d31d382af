"""A study that is killed in the middle: `lab cleanup` leaves nothing of it on the machine."""

import json
import os
import signal
import subprocess
import time

import pytest

from net import run, wait_until
from overlane import PINS, STATE, binary, overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("iperf3"), pytest.mark.slow,
              pytest.mark.usefixtures("only_one_lab")]

#: Other workers' things come and go meanwhile; they bear this in their names.
TESTS = "ovt"


def ids(kind):
    listed = json.loads(run(["bpftool", "-j", kind, "show"]).stdout or "[]")
    return {each["id"] for each in listed}


def names(directory):
    entries = os.listdir(directory) if os.path.isdir(directory) else []
    return {name for name in entries if not name.startswith(TESTS)}


def processes():
    """Command lines of what a study may start. A zombie is dead: it only waits for its reaper."""
    found = {}
    for line in run(["ps", "-eo", "pid,stat,args", "--no-headers"]).stdout.splitlines():
        pid, state, command = line.split(None, 2)
        ours = any(word in command for word in ("iperf3", "ovs-vswitchd", "ovsdb-server",
                                                "overlane lab run"))
        if ours and not state.startswith("Z") and TESTS not in command:
            found[int(pid)] = command
    return found


def machine():
    """What a study may leave, without what other tests own by name."""
    return {
        "namespaces": names("/run/netns"),
        "links": set(os.listdir("/sys/class/net")),
        "pins": names(PINS),
        "state": names(STATE) - {"lab"},
        "runs": names(STATE / "lab") - {"lock"},
    }


def objects():
    return {kind: ids(kind) for kind in ("prog", "link", "map")}


def start_study(directory):
    command = [str(binary()), "lab", "run", "jumbo-vxlan", "--quick", "--out", str(directory)]
    with open(directory.parent / "study.log", "w", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait_for(moment, study, directory, what):
    """Until something holds of the running study; if it ends before, its own words are shown."""
    def happened():
        assert study.poll() is None, (directory.parent / "study.log").read_text()
        return moment()

    wait_until(happened, timeout=90, what=what)


def kill(process):
    """As `kill -9` does: the program only, none of its children."""
    process.send_signal(signal.SIGKILL)
    process.wait()


MOMENTS = {
    "as the first namespace appears": lambda before: machine()["namespaces"] - before["namespaces"],
    "while traffic flows": lambda before: any("iperf3" in each for each in processes().values()),
    "while a host runs Overlane": lambda before: machine()["pins"] - before["pins"],
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_cleanup_after_kill_nine_leaves_nothing_behind(tmp_path, moment):
    before, objects_before, processes_before = machine(), objects(), processes()
    result = tmp_path / "result"
    study = start_study(result)
    try:
        wait_for(lambda: moment(before), study, result, "the moment")
        time.sleep(0.3)
    finally:
        kill(study)
    created = {kind: found - objects_before[kind] for kind, found in objects().items()}
    done = overlane("lab", "cleanup")
    assert machine() == before, done.stdout
    assert set(processes()) <= set(processes_before), done.stdout
    # Ids say nothing of their owner: other tests' objects are among them and go with their tests.
    wait_until(lambda: not any(created[kind] & found for kind, found in objects().items()),
               timeout=240, interval=1, what="BPF programs, links and maps of the study to be gone")
    assert "nothing was left behind" in overlane("lab", "cleanup").stdout


def test_cleanup_leaves_a_running_study_alone(tmp_path):
    before = machine()
    result = tmp_path / "result"
    study = start_study(result)
    try:
        wait_for(lambda: machine()["pins"] - before["pins"], study, result, "a host")
        made = machine()["pins"] - before["pins"]
        done = overlane("lab", "cleanup", expect=None)
        assert study.poll() is None
        assert str(study.pid) in done.stdout + done.stderr
        assert made <= machine()["pins"]
        second = overlane("lab", "run", "jumbo-vxlan", "--quick", "--out", tmp_path / "two",
                          expect=1)
        assert str(study.pid) in second.stderr
    finally:
        kill(study)
        overlane("lab", "cleanup")
    assert machine() == before


def test_an_interrupted_study_cleans_up_itself(tmp_path):
    """Ctrl-C: the study ends by itself and keeps what it measured."""
    before, processes_before = machine(), processes()
    result = tmp_path / "result"
    study = start_study(result)
    try:
        wait_for(lambda: any("iperf3" in each for each in processes().values()), study, result,
                 "traffic")
        study.send_signal(signal.SIGINT)
        assert study.wait(timeout=60) == 1
    finally:
        if study.poll() is None:
            kill(study)
        done = overlane("lab", "cleanup")
    assert "nothing was left behind" in done.stdout
    assert machine() == before
    assert set(processes()) <= set(processes_before)
