"""Fixtures of the system tests: what a test may ask for, and what must be there to run at all."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import net  # noqa: E402
from modules import kernel_has  # noqa: E402
from overlane import GENEVE, STATE, VXLAN, binary, overlane  # noqa: E402
from topology import WIRES  # noqa: E402

pytest_plugins = ["selection"]

TOOLS = ("ip", "ethtool", "tcpdump", "bpftool")


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_overlane: runs the built program")
    config.addinivalue_line("markers", "needs(tool, …): programs that must be installed")
    config.addinivalue_line("markers", "thorough: not in the short run (--tests each)")
    config.addinivalue_line("markers", "alone: has the machine to itself: it overloads it, compares rates, or changes what all hosts share")
    config.addinivalue_line("markers", "needs_kernel(thing, …): what the kernel must have, of modules.py")


def _missing():
    """Why nothing here can run, or None."""
    if os.geteuid() != 0:
        return "system tests need root (network namespaces, BPF)"
    for tool in TOOLS:
        if shutil.which(tool) is None:
            return f"system tests need `{tool}`"
    return None


def _mount_bpffs():
    if not os.path.ismount("/sys/fs/bpf"):
        subprocess.run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"], check=True)


@pytest.fixture(scope="session", autouse=True)
def machine():
    """A machine that can run the tests; afterwards nothing of this process is left on it."""
    reason = _missing()
    if reason:
        pytest.skip(reason)
    _mount_bpffs()
    net.sweep_stale()
    yield
    net.sweep_stale(alive=lambda pid: pid != os.getpid())


@pytest.fixture(autouse=True)
def capabilities(request):
    """Skips by name what this machine cannot run."""
    for marker in request.node.iter_markers("needs"):
        for tool in marker.args:
            if shutil.which(tool) is None:
                pytest.skip(f"needs `{tool}`, which is not installed")
    for marker in request.node.iter_markers("needs_kernel"):
        for thing in marker.args:
            if not kernel_has(thing):
                pytest.skip(f"this kernel has no {thing}")
    if request.node.get_closest_marker("needs_overlane") and not binary().exists():
        pytest.skip(f"needs the built program ({binary()}; `cargo build --release`)")


@contextlib.contextmanager
def locked(name, kind=fcntl.LOCK_EX):
    """Holds a lock that all test runs of this machine share."""
    with open(f"/tmp/overlane-tests-{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, kind)
        yield lock


@pytest.fixture(autouse=True)
def share_of_the_machine(request):
    """Who is marked `alone` runs alone, whichever run it belongs to.

    What overloads a CPU fills its packet queue (net.core.netdev_max_backlog), and the kernel has one for all
    namespaces: frames of a test beside it would be lost. What compares rates would compare how long each waits.
    Who waits to be alone holds the gate, so that nobody else begins.
    """
    alone = request.node.get_closest_marker("alone")
    with locked("gate") as gate, locked("machine", fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
        fcntl.flock(gate, fcntl.LOCK_UN)
        request.node.softnet_dropped = softnet_dropped()
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure says what became of the packets, and whether the machine lost some meanwhile."""
    report = (yield).get_result()
    before = getattr(item, "softnet_dropped", None)
    if not report.failed or before is None:
        return
    if dropped := softnet_dropped() - before:
        report.sections.append(("packets dropped meanwhile", f"{dropped} at full packet queues of the CPUs"))
    for host in sorted(path.stem for path in STATE.glob(f"{net.RUN_ID}x*.json")):
        shown = overlane("show", "counters", "--host", host, expect=None)
        report.sections.append((f"what became of packets on {host}", shown.stdout or shown.stderr))


def softnet_dropped():
    """Packets that found the queue of a CPU full, on the whole machine."""
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())


@pytest.fixture
def lab(machine, tmp_path):
    """What this test makes; taken down whatever happens."""
    made = net.Lab(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def only_one_lab(machine):
    """The laboratory runs once per machine. Files that ask for this share a worker, and wait for other test runs."""
    with locked("lab"):
        active = json.loads(overlane("lab", "cleanup", "--json").stdout).get("active")
        if active:
            pytest.skip(f"somebody else's study is running on this machine (process {active})")
        yield


@pytest.fixture(params=WIRES)
def wire(request):
    """Whether super-packets cross the underlay whole or are cut at the uplink."""
    return request.param


@pytest.fixture(params=[VXLAN, GENEVE])
def encapsulation(request):
    return request.param


@pytest.fixture(params=[4, 6], ids=["v4", "v6"])
def family(request):
    """Address family of the underlay."""
    return request.param
