"""The laboratory's networks, chosen on the command line: each proves its path on a capture."""

import json

import pytest

from laboratory import Result, group, is_as_before, leftovers, run_study, write_study
from modules import kernel_has
from overlane import overlane
from peers import ovs

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

#: Network → words of the proof of its path.
PROOFS = {
    "direct": "",
    "bridge": "",
    "kernel-vlan": "VLAN 100, in no tunnel",
    "kernel-vxlan": "VXLAN",
    "kernel-geneve": "Geneve",
    "ovs-vlan": "VLAN 100, in no tunnel",
    "ovs-vxlan": "VXLAN",
    "ovs-geneve": "Geneve",
    "ovs-kernel-vlan": "VLAN 100, in no tunnel",
    "ovs-kernel-vxlan": "VXLAN",
    "ovs-kernel-geneve": "Geneve",
    "overlane-vlan": "VLAN 100, in no tunnel",
    "overlane-vxlan": "VXLAN",
    "overlane-geneve": "Geneve",
}
#: Network → what not every kernel has (modules.py). All the others are here wherever these tests run.
DEVICES = {"kernel-geneve": "geneve", "kernel-vlan": "vlan", "ovs-kernel-vlan": "openvswitch",
           "ovs-kernel-vxlan": "openvswitch", "ovs-kernel-geneve": "openvswitch"}


@pytest.mark.needs(*ovs.TOOLS)
def test_every_network_proves_its_path_and_carries_traffic_or_says_why_not(tmp_path):
    study = write_study(tmp_path, PROOFS, [group("tcp_stream", 131072), group("tcp_rr", 64)])
    data = run_study(study, tmp_path / "result").data
    found = {}
    for cell in data["cells"]:
        found.setdefault(cell["network"], []).append(cell)
    assert set(found) == set(PROOFS)
    for backend, cells in found.items():
        for cell in cells:
            told = (cell["name"], cell["status"], cell["reason"], cell["proof"])
            if backend in DEVICES and not kernel_has(DEVICES[backend]):
                assert cell["status"] == "unavailable" and len(cell["reason"]) > 10, told
                continue
            assert cell["status"] == "ok" and cell["path_proof"], told
            assert PROOFS[backend] in cell["proof"], told
            quantity = "goodput_gbps" if cell["test"] == "tcp_stream" else "transactions_per_second"
            assert cell["figures"][quantity]["mean"] > 0, told


def test_the_answer_for_programs_is_the_result_and_nothing_else(tmp_path):
    study = write_study(tmp_path, ["bridge", "overlane-vlan"], [group("udp_rr", 64)])
    before = leftovers()
    done = overlane("lab", "run", study, "--out", tmp_path / "result", "--json", timeout=120)
    assert json.loads(done.stdout) == Result(tmp_path / "result").data
    assert all(line.startswith("lab: ") for line in done.stderr.splitlines()), done.stderr
    is_as_before(before)


def test_a_backend_that_nobody_knows_is_refused_with_those_there_are():
    done = overlane("lab", "run", "jumbo-vxlan", "--networks", "bridge,vlan", expect=2)
    assert "no network `vlan`" in done.stderr and "overlane-vlan" in done.stderr
