"""A study that is killed in the middle: `lab cleanup` leaves nothing of it on the machine."""

import errno
import json
import os

import pytest

from laboratory import (Study, alive, descendants, group, is_as_before, leftovers, settle, wait_for_the_dead,
                        write_study)
from net import run, wait_until
from overlane import overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]


#: Of a link that another test is just attaching: it has an id before it is settled (kernel/bpf/syscall.c,
#: bpf_link_by_id()), and bpftool gives up at it.
UNSETTLED = "can't get link by id"


def ids(kind):
    def show():
        done = run(["bpftool", "-j", kind, "show"], check=False)
        return None if UNSETTLED in done.stdout and os.strerror(errno.EAGAIN) in done.stdout else done

    done = wait_until(show, what=f"every {kind} to be settled")
    assert done.returncode == 0, done.stdout + done.stderr
    return {each["id"] for each in json.loads(done.stdout or "[]")}


def objects():
    return {kind: ids(kind) for kind in ("prog", "link", "map")}


def quick(tmp_path):
    return Study("jumbo-vxlan", tmp_path / "result", "--quick")


MOMENTS = {
    "as the first namespace appears": lambda study: study.namespaces(),
    "while traffic flows": lambda study: study.has_samples(1)(),
    "while a host runs Overlane": lambda study: study.hosts(),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_cleanup_after_kill_nine_leaves_nothing_behind(tmp_path, moment):
    before, objects_before = leftovers(), objects()
    with quick(tmp_path) as study:
        study.until(lambda: moment(study), "the moment")
        settle()
        started = descendants(study.pid)
        study.kill()
        created = {kind: found - objects_before[kind] for kind, found in objects().items()}
        done = overlane("lab", "cleanup")
    is_as_before(before, done.stdout)
    wait_for_the_dead(started, "what the study had started")
    # Ids say nothing of their owner: other tests' objects are among them and go with their tests.
    wait_until(lambda: not any(created[kind] & found for kind, found in objects().items()),
               timeout=240, interval=1, what="BPF programs, links and maps of the study to be gone")
    assert "nothing was left behind" in overlane("lab", "cleanup").stdout


def test_cleanup_leaves_a_running_study_alone(tmp_path):
    before = leftovers()
    with quick(tmp_path) as study:
        study.until(study.hosts, "a host")
        made = set(study.hosts())
        done = overlane("lab", "cleanup", expect=None)
        assert study.process.poll() is None
        assert str(study.pid) in done.stdout + done.stderr
        assert made <= set(study.hosts())
        second = overlane("lab", "run", "jumbo-vxlan", "--quick", "--out", tmp_path / "two", expect=1)
        assert str(study.pid) in second.stderr
        assert not (tmp_path / "two").exists()
    is_as_before(before)


def test_an_interrupted_study_cleans_up_itself(tmp_path):
    """Ctrl-C: the study ends by itself and keeps what it measured."""
    before = leftovers()
    # A small one: a quick study builds its 24 networks first.
    path = write_study(tmp_path, ["bridge", "overlane-vxlan"], [group("tcp_stream", 131072)], samples=50)
    with Study(path, tmp_path / "result") as study:
        study.until(study.has_samples(1), "traffic")
        started = descendants(study.pid)
        assert any("traffic" in command for command in alive(started).values())
        study.interrupt()
        assert study.end(60) == 1
        is_as_before(before)
        wait_for_the_dead(started, "what the study had started")
        done = overlane("lab", "cleanup")
    assert "nothing was left behind" in done.stdout
