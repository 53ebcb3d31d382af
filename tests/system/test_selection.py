"""Which system tests run, and which skips are red: the rules of selection.py."""

import re
import sys

from net import run
from overlane import ROOT
from selection import allowed_skips, each_once

RUNS = '''
import pytest

@pytest.mark.parametrize("letter", "abcdef")
def test_letters(letter):
    pass

@pytest.mark.thorough
def test_for_hours():
    raise AssertionError("not in the short run")

def test_skipped():
    pytest.skip("REASON")
'''
ALLOWED = "speeds mean nothing beside other tests; OVERLANE_SPEED=1 compares them"


def pytest_run(folder, reason, *words):
    """Runs pytest on three functions, with the rules of selection.py and nothing else of this folder."""
    (folder / "test_it.py").write_text(RUNS.replace("REASON", reason))
    command = [sys.executable, "-m", "pytest", "-p", "selection", "-p", "no:cacheprovider", "--rootdir", folder,
               "-c", "/dev/null", *words, folder]
    return run(command, check=False, cwd=ROOT / "tests" / "system")


def test_a_function_with_parameters_runs_once_and_always_with_the_same():
    names = [f"test_a.py::test_{word}[{letter}]" for word in ("one", "two", "three", "four") for letter in "abc"]
    chosen = each_once([*names, "test_a.py::test_plain"])
    assert [name.partition("[")[0] for name in chosen] == [
        *(f"test_a.py::test_{word}" for word in ("one", "two", "three", "four")), "test_a.py::test_plain"]
    assert set(chosen) == set(each_once(["test_a.py::test_plain", *reversed(names)]))
    assert len({name.partition("[")[2] for name in chosen[:4]}) > 1, "other functions, other parameters"


def test_the_short_run_has_each_function_once_and_nothing_thorough(tmp_path):
    done = pytest_run(tmp_path, ALLOWED, "--tests", "each")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 skipped, 6 deselected" in done.stdout


def test_the_whole_run_has_everything(tmp_path):
    done = pytest_run(tmp_path, ALLOWED)
    assert done.returncode == 1
    assert "1 failed, 6 passed, 1 skipped" in done.stdout


def test_tests_of_the_laboratory_share_a_worker(tmp_path):
    """xdist writes the group behind a test's name, and sends a group to one worker."""
    names = [f"test_study_{letter}" for letter in "abcdef"]
    text = "import pytest\n\n@pytest.fixture\ndef only_one_lab():\n    pass\n"
    text += "".join(f"\ndef {name}(only_one_lab):\n    pass\n" for name in names)
    (tmp_path / "test_studies.py").write_text(text)
    done = pytest_run(tmp_path, ALLOWED, "--tests", "each", "-v", "-n", "3", "--dist", "loadgroup")
    ran = re.findall(r"^\[(gw\d)\].* PASSED \S*test_studies.py::(\w+)@laboratory", done.stdout, re.MULTILINE)
    assert sorted(name for _, name in ran) == names, done.stdout
    assert len({worker for worker, _ in ran}) == 1, done.stdout


def test_a_skip_that_nobody_expected_is_red_and_named(tmp_path):
    for workers, reason, code in (("0", "no tool here", 1), ("1", "no tool here", 1), ("1", ALLOWED, 0)):
        done = pytest_run(tmp_path, reason, "--tests", "each", "--strict-skips", "-n", workers)
        assert done.returncode == code, done.stdout
        assert ("test_skipped: no tool here" in done.stdout) == bool(code)
    lenient = pytest_run(tmp_path, "no tool here", "--tests", "each", "-n", "0")
    assert lenient.returncode == 0, lenient.stdout


def test_every_allowed_reason_is_one_that_a_test_gives():
    sources = "\n".join(file.read_text() for file in (ROOT / "tests" / "system").glob("*.py"))
    for pattern in allowed_skips():
        words = re.split("[;(]", pattern.pattern)[0]
        assert words in sources, f"skips.txt allows what no test says: {pattern.pattern}"
