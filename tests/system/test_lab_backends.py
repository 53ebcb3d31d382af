"""The laboratory's VLAN networks, chosen on the command line: each proves its path on a capture."""

import json
import signal
import subprocess
import time

import pytest

from net import wait_until
from overlane import binary, overlane
from peers import ovs

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("iperf3", *ovs.TOOLS), pytest.mark.slow,
              pytest.mark.usefixtures("only_one_lab")]

BACKENDS = ("ovs-vlan", "overlane-vlan")


def test_vlan_networks_prove_their_tag_and_carry_traffic(tmp_path):
    """Ended by Ctrl-C when each has a sample that counts: what was measured is kept."""
    result, log = tmp_path / "result", tmp_path / "log"
    command = [str(binary()), "lab", "run", "jumbo-vxlan", "--quick", "--backends",
               ",".join(BACKENDS), "--out", str(result)]
    with open(log, "w", encoding="utf-8") as output:
        study = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        def second_round():
            assert study.poll() is None, log.read_text()
            return "round 2" in log.read_text()
        wait_until(second_round, timeout=120, interval=0.5, what="two rounds")
        study.send_signal(signal.SIGINT)
        study.wait(timeout=60)
    finally:
        if study.poll() is None:
            study.kill()
            study.wait()
        time.sleep(0.1)
        overlane("lab", "cleanup")
    cells = json.loads((result / "result.json").read_text())["cells"]
    measured = [cell for cell in cells if cell["status"] == "ok"]
    assert {cell["backend"] for cell in measured} == set(BACKENDS)
    for cell in measured:
        assert cell["path_proof"], cell["proof"]
        assert "802.1Q tag, VLAN 100, in no tunnel; none in another form" in cell["proof"]
        assert cell["goodput_gbps"]["mean"] > 0.01


def test_a_backend_that_nobody_knows_is_refused_with_those_there_are():
    done = overlane("lab", "run", "jumbo-vxlan", "--backends", "bridge,vlan", expect=2)
    assert "no backend `vlan`" in done.stderr and "overlane-vlan" in done.stderr
