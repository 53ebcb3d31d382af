"""Which tests run (`--tests`), and which may be skipped (skips.txt).

  each     every test function once, with one of its parameter sets, without what is marked `thorough`
  all      everything, on a machine where nothing else runs (the default)
"""

import re
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

SKIPS = Path(__file__).with_name("skips.txt")
#: Of a run whose tests all passed, but some were skipped that skips.txt does not name.
UNEXPECTED_SKIPS = 1


def pytest_addoption(parser):
    parser.addoption("--tests", choices=("each", "all"), default="all",
                     help="`each`: every test function once, with one of its parameter sets")
    parser.addoption("--strict-skips", action="store_true",
                     help="a skip whose reason is not in skips.txt fails the run")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook, too
def pytest_collection_modifyitems(config, items):
    in_laboratory = [item for item in items if "only_one_lab" in item.fixturenames]
    for item in in_laboratory:
        item.add_marker(pytest.mark.xdist_group("laboratory"))
    # One worker runs these, and takes longer than the others take for the rest: it begins with them.
    items[:] = in_laboratory + [item for item in items if item not in in_laboratory]
    if config.getoption("--tests") == "each":
        chosen = set(each_once([item.nodeid for item in items if not item.get_closest_marker("thorough")]))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


def each_once(names):
    """Of every function one name, in the order given. Which one depends on nothing but the function's name, and
    is another parameter set for another function: together they meet all of them."""
    sets = defaultdict(list)
    for name in names:
        sets[name.partition("[")[0]].append(name)
    return [sorted(each)[zlib.crc32(function.encode()) % len(each)] for function, each in sets.items()]


def allowed_skips():
    """The reasons of skips.txt, as regular expressions that match a whole reason."""
    lines = SKIPS.read_text(encoding="utf-8").splitlines()
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


def reason_of(report):
    """Why a test was skipped: pytest gives file, line and `Skipped: reason`."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    unexpected = unexpected_skips(terminalreporter.stats.get("skipped", []))
    if config.getoption("--strict-skips") and unexpected:
        terminalreporter.section("skips that skips.txt does not name", red=True)
        for name, reason in unexpected:
            terminalreporter.write_line(f"{name}: {reason}")


def unexpected_skips(reports):
    allowed = allowed_skips()
    return [(report.nodeid, reason_of(report)) for report in reports
            if not any(each.fullmatch(reason_of(report)) for each in allowed)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if exitstatus or hasattr(config, "workerinput") or not config.getoption("--strict-skips"):
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if unexpected_skips(reporter.stats.get("skipped", [])):
        session.exitstatus = UNEXPECTED_SKIPS
