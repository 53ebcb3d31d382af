"""What a study can vary besides the backend, in studies as small as they can be: every cell is measured, and
result.json says of each what it was."""

import pytest

from laboratory import group, run_study, write_study
from overlane import overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

RATE = 4000
#: Bytes of a frame of 256 bytes, which are 252 without its check sequence; a tag travels beside its frame over a veth.
ON_THE_WIRE = {"bridge": 252, "overlane-vlan": 252, "overlane-geneve": 252 + 14 + 20 + 8 + 8 + 8}


def all_measured(result, count):
    """Every cell was measured on a path that was proved; the figures by (backend, test)."""
    data = result.data
    assert not data["interrupted"]
    assert len(data["cells"]) == count
    for cell in data["cells"]:
        assert cell["status"] == "ok", (cell["name"], cell["reason"])
        assert cell["path_proof"], (cell["name"], cell["proof"])
        assert cell["samples"] >= 1, cell["name"]
    return data


def mean(cell, quantity):
    return cell["figures"][quantity]["mean"]


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["kernel-vxlan", "overlane-geneve"])
def test_every_test_over_three_hosts_two_pairs_and_ipv6_inside_and_outside(tmp_path, backend):
    """Options of the command line, in place of what the study says."""
    study = write_study(tmp_path, [backend], [
        group("tcp_stream", 16384), group("tcp_bidirec", 16384), group("tcp_rr", 64, instances=[4]),
        group("tcp_crr", 64), group("udp_rr", 64), group("udp_stream", 200, rate_pps=[RATE]),
        group("udp_gso_stream", 1400, instances=[2], rate_pps=[RATE]),
    ], seconds=0.3)
    options = ("--hosts", 3, "--pairs", 2, "--inner", "ipv6", "--underlay", "ipv6")
    result = run_study(study, tmp_path / "result", *options)
    data = all_measured(result, 7)
    for cell in data["cells"]:
        said = {key: cell[key] for key in ("hosts", "pairs", "inner", "underlay", "vnis", "mtu")}
        assert said == {"hosts": 3, "pairs": 2, "inner": "ipv6", "underlay": "ipv6", "vnis": 1, "mtu": 1500}
        measured = {key for key, value in cell["figures"].items() if value is not None}
        if cell["test"].startswith("tcp_") and not cell["test"].endswith("rr"):
            assert mean(cell, "goodput_gbps") > 0.01 and "transactions_per_second" not in measured
        elif cell["test"].endswith("rr"):
            assert mean(cell, "transactions_per_second") > 50 and "goodput_gbps" not in measured
            assert mean(cell, "latency_p50_us") <= mean(cell, "latency_p99_us")
        else:
            # Each of the two pairs is offered the rate.
            assert 0 < mean(cell, "rate_pps") <= 2 * RATE * 1.3
            assert cell["accounting"]["unexplained"] == 0 == cell["accounting"]["corrupt"], cell["accounting"]
            if cell["test"] == "udp_gso_stream":
                assert cell["accounting"]["sent"] % 40 == 0, "super-packets leave whole"
                assert mean(cell, "goodput_gbps") == pytest.approx(mean(cell, "rate_pps") * 1400 * 8e-9, rel=1e-6)
    # Two tunnels end at hosts of their own: the underlay has a bridge, and all hops are in the record.
    places = {hop["place"] for hop in data["env"]["hops"]}
    assert {"host1", "host2", "host3", "guest1", "guest4"} <= places
    tests = {(reference["test"], reference["inner"]) for reference in data["references"]}
    assert ("udp_rr", "ipv6") in tests, "the tester alone was measured in the same family"


def settings(hop):
    """What a device of the laboratory has to have alike on all networks."""
    keys = ("place", "device", "mtu", "rps_cpus", "features", "qdisc", "queues", "gso_max_size")
    return {key: hop[key] for key in keys}


def test_networks_are_set_alike_and_each_at_its_best_besides(tmp_path):
    backends = ["kernel-vxlan", "overlane-vxlan"]
    study = write_study(tmp_path, backends, [group("tcp_rr", 64)], samples=6, seconds=0.2)
    data = all_measured(run_study(study, tmp_path / "result", "--tuning", "alike,best"), 4)
    assert {(cell["network"], cell["tuning"]) for cell in data["cells"]} == {
        (backend, tuning) for backend in backends for tuning in ("alike", "best")}
    for cell in data["cells"]:
        assert cell["asymmetries"] == [] and "no outer UDP checksum" in cell["proof"], cell["name"]
    hops = {}
    for hop in data["env"]["hops"]:
        backend, setting = hop["topology"].split(", ", 1)
        hops.setdefault((backend, "best" in setting), []).append(hop)
    for best in (False, True):
        kernel, own = ([settings(hop) for hop in hops[backend, best] if not hop["own"]] for backend in backends)
        assert kernel == own and len(kernel) == 6
        tunnels = [hop for hop in hops["kernel-vxlan", best] if hop["device"] == "vxlan0"]
        assert [(hop["outer_checksum"], hop["learning"], hop["rps_cpus"]) for hop in tunnels] == [(False, not best, [])] * 2
        bridges = {hop["bridge_netfilter"] for hop in hops["kernel-vxlan", best] if hop["device"] == "br0"}
        assert bridges <= {False, None}
    held = {(each["cell_a"]["network"], each["method"]) for each in data["comparisons"] if each["axis"] == "tuning"}
    assert held == {(backend, "paired") for backend in backends}


@pytest.mark.thorough
@pytest.mark.alone
def test_no_network_cuts_a_message_that_crosses_the_wire_whole(tmp_path):
    """A tunnel's device with GRO put them out of order, and TCP cut them: 3.8 packets for each transaction in place of 2."""
    study = write_study(tmp_path, ["kernel-vxlan", "overlane-vxlan"], [group("tcp_rr", 16384, instances=[64])], samples=2)
    for cell in all_measured(run_study(study, tmp_path / "result"), 2)["cells"]:
        assert 1.9 < mean(cell, "underlay_packets_per_transaction") < 2.6, cell["name"]
        assert mean(cell, "underlay_bytes_per_transaction") > 16384, cell["name"]


def test_one_host_is_a_network_too_and_a_network_is_measured_against_itself(tmp_path):
    study = write_study(tmp_path, ["bridge", "overlane-vxlan"], [group("tcp_rr", 64)], samples=6, seconds=0.2)
    result = run_study(study, tmp_path / "result", "--hosts", 1, "--against-itself")
    data = all_measured(result, 4)
    assert {(cell["network"], cell["copy"]) for cell in data["cells"]} == {
        (backend, copy) for backend in ("bridge", "overlane-vxlan") for copy in (0, 1)}
    assert {cell["hosts"] for cell in data["cells"]} == {1}
    itself = [each for each in data["comparisons"]
              if each["axis"] == "itself" and each["metric"] == "transactions_per_second"]
    assert {each["cell_a"]["network"] for each in itself} == {"bridge", "overlane-vxlan"}
    for each in itself:
        assert (each["cell_a"]["copy"], each["cell_b"]["copy"]) == (1, 0)
        assert each["method"] == "paired" and each["pairs"] == 6
        # Which verdict it gets, noise decides.
        assert each["verdict"] != "not_comparable" and 0 < each["p"] <= 1


@pytest.mark.alone
def test_frames_rotate_over_the_networks_of_a_trunk(tmp_path):
    study = write_study(tmp_path, ["bridge", "overlane-vlan", "overlane-geneve"], [
        group("frame_stream", 256, vnis=[1, 64], rate_pps=[RATE], networks=["overlane-geneve"]),
        group("frame_stream", 256, vnis=[64], rate_pps=[RATE], networks=["overlane-vlan"]),
        group("frame_stream", 256, far_end=["tester"], rate_pps=[RATE], networks=["bridge"]),
    ])
    data = all_measured(run_study(study, tmp_path / "result"), 4)
    for cell in data["cells"]:
        found = cell["accounting"]
        assert found["sent"] > 100 and found["duplicates"] == 0, (cell["name"], found)
        assert found["sent"] == found["received"] + sum(found["lost"].values()) + found["unexplained"]
        assert found["unexplained"] == 0, (cell["name"], found)
        # A frame, with its tag or tunnel. A question of ARP may be among them.
        assert mean(cell, "underlay_packet_bytes") == pytest.approx(ON_THE_WIRE[cell["network"]], rel=0.005), cell["name"]
    assert {(cell["network"], cell["vnis"], cell["far_end"]) for cell in data["cells"]} == {
        ("overlane-geneve", 1, "host"), ("overlane-geneve", 64, "host"), ("overlane-vlan", 64, "host"),
        ("bridge", 1, "tester")}


@pytest.mark.thorough
@pytest.mark.alone
def test_a_search_brackets_the_rate_that_it_finds(tmp_path):
    study = write_study(tmp_path, ["bridge"], [group("udp_stream", 1450, search="brief")])
    data = all_measured(run_study(study, tmp_path / "result", timeout=240), 1)
    (cell,) = data["cells"]
    (search,) = cell["searches"]
    assert search["trials"] > 2
    for goal in search["goals"]:
        lower, upper = goal["relevant_lower_bound_pps"], goal["relevant_upper_bound_pps"]
        assert lower is None or upper is None or lower < upper, goal
        assert goal["regular"] or goal["why_irregular"], goal
    first = search["goals"][0]
    if first["conditional_throughput_pps"] is not None:
        assert mean(cell, "rate_pps") == pytest.approx(first["conditional_throughput_pps"], rel=0.01)


@pytest.mark.parametrize("options, names", [
    (("--pairs", 0), ("--pairs", "1..=16")),
    (("--inner", "ipv5"), ("--inner", "ipv4 or ipv6")),
    (("--seconds", 0.01), ("seconds", "0.01")),
])
def test_what_no_study_can_be_changed_to_is_wrong_usage(tmp_path, options, names):
    done = overlane("lab", "run", "jumbo-vxlan", "--out", tmp_path / "result", *options, expect=2)
    assert all(name in done.stderr for name in names), done.stderr
    assert not (tmp_path / "result").exists()
