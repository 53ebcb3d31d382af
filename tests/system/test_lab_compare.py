"""`lab compare` on what a small study measured, and on copies of it that were made worse by hand."""

import json
import shutil

import pytest

from laboratory import group, run_study, write_study
from overlane import overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

WORSE = "overlane-vxlan"


def copy(result, target, change):
    """A copy of a result folder with its samples changed."""
    shutil.copytree(result.directory, target)
    samples = result.samples
    for sample in samples:
        change(sample)
    (target / "samples.ndjson").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return target


def compared(*words, expect):
    """(the table for people, the answer for programs)"""
    shown = overlane("lab", "compare", *words, expect=expect)
    assert shown.stdout.strip().splitlines()[-1]
    answer = overlane("lab", "compare", *words, "--json", expect=expect)
    return shown.stdout + shown.stderr, json.loads(answer.stdout)


def test_what_became_worse_is_a_regression_and_what_did_not_is_none(tmp_path):
    # Of two comparisons one differs: 6 pairs could not say so of a family.
    study = write_study(tmp_path, ["bridge", "overlane-vxlan"], [group("tcp_stream", 131072)], samples=8, seconds=0.3)
    result = run_study(study, tmp_path / "a")

    def much_lower(sample):
        # So much that no noise of a busy machine hides it.
        if sample["cell"]["network"] == WORSE:
            sample["goodput_gbps"] *= 0.02

    def slightly_lower(sample):
        if sample["cell"]["network"] == WORSE:
            sample["goodput_gbps"] *= 0.999

    same = copy(result, tmp_path / "same", lambda sample: None)
    text, answer = compared(result.directory, same, expect=0)
    assert "no regression" in text and not answer["failed"]
    assert {row["verdict"] for row in answer["rows"]} == {"not_comparable"}
    assert len(answer["rows"]) == 4, "the figure and its cost of each network"

    worse = copy(result, tmp_path / "worse", much_lower)
    text, answer = compared(result.directory, worse, expect=1)
    assert "regression" in text and answer["failed"] and answer["regressions"] == 1
    (row,) = [row for row in answer["rows"] if row["regression"]]
    assert (row["cell_b"]["network"], row["metric"]) == (WORSE, "goodput_gbps")
    # Two runs were not sampled in turn: a ratio, and an interval that lies beyond the threshold, but no verdict.
    assert row["median_ratio"] < 0.2 and row["ci95"][1] < 0.2
    assert (row["verdict"], row["reason"]) == ("not_comparable", "not sampled in turn")
    # What is allowed is no regression, and the other way round it is none.
    assert not compared(result.directory, worse, "--threshold", 99.9, expect=0)[1]["failed"]
    _, answer = compared(worse, result.directory, expect=0)
    assert max(row["median_ratio"] for row in answer["rows"]) > 5
    assert not compared(result.directory, copy(result, tmp_path / "hardly", slightly_lower), "--threshold", 5,
                        expect=0)[1]["failed"]

    two_networks(worse, result.directory)
    less_than_before(result, tmp_path)
    wrong_usage(result.directory, tmp_path)


def two_networks(worse, directory):
    """Within one result, by pairs."""
    text, answer = compared(worse, "--networks", f"bridge,{WORSE}", expect=1)
    assert f"{WORSE} of" in text
    (row,) = [row for row in answer["rows"] if row["metric"] == "goodput_gbps"]
    assert row["method"] == "paired" and row["pairs"] == 8
    done = overlane("lab", "compare", directory, "--networks", "bridge,ovs-vxlan", expect=None)
    assert done.returncode in (1, 2) and "no ovs-vxlan" in done.stderr
    done = overlane("lab", "compare", directory, "--networks", f"bridge,{WORSE}+routing", expect=None)
    assert done.returncode in (1, 2) and f"no {WORSE}+routing (it has bridge, {WORSE})" in done.stderr


def less_than_before(result, tmp_path):
    """A cell that only the first has is a regression, whatever the figures."""
    target = tmp_path / "fewer"
    shutil.copytree(result.directory, target)
    record = json.loads((target / "run.json").read_text())
    record["cells"] = [cell for cell in record["cells"] if cell["network"] != WORSE]
    (target / "run.json").write_text(json.dumps(record))
    text, answer = compared(result.directory, target, expect=1)
    assert answer["missing"] and WORSE in answer["missing"][0]["name"] and "missing" in text


def wrong_usage(directory, tmp_path):
    for words in ((directory,), (directory, tmp_path, "--networks", "bridge,bridge"),
                  (directory, "--networks", "bridge"), (directory, tmp_path, "--threshold", "much")):
        overlane("lab", "compare", *words, expect=2)
    done = overlane("lab", "compare", directory, tmp_path, expect=None)
    assert done.returncode in (1, 2) and "holds no result" in done.stderr
