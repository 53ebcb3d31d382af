"""Where packets stay when more is sent than a network carries: every one has its place, by the name of a counter."""

import re

import pytest

from laboratory import group, run_study, write_study

pytestmark = [pytest.mark.needs_overlane, pytest.mark.usefixtures("only_one_lab")]

#: `host1 uplink tx_dropped`, `host2 softnet dropped`, `guest2 UdpRcvbufErrors`, `host1 overlane unknown_vni`
NAMED = re.compile(r"^(guest|host|underlay|cpu)\S* .+\S$")


@pytest.mark.alone
@pytest.mark.parametrize("backends", [("bridge", "overlane-vxlan"), ("kernel-vxlan", "overlane-geneve")],
                         ids=" ".join)
def test_in_every_overloaded_cell_sent_is_received_and_named_losses(tmp_path, backends):
    study = write_study(tmp_path, backends, [
        # As fast as the sender can, which is faster than what follows: the smallest and the largest frame.
        group("udp_stream", 64, instances=[4]),
        group("udp_stream", 1450, instances=[2]),
        group("frame_stream", 82, instances=[2]),
    ])
    result = run_study(study, tmp_path / "result")
    data = result.data
    assert [cell["name"] for cell in data["cells"] if cell["status"] != "ok"] == []
    losses = 0
    for sample in result.samples:
        found, cell = sample["accounting"], sample["cell"]
        told = (cell["network"], cell["test"], found)
        assert found["sent"] > 1000 and found["received"] > 0, told
        assert found["sent"] == found["received"] + sum(found["lost"].values()) + found["unexplained"], told
        assert all(count > 0 and NAMED.match(name) for name, count in found["lost"].items()), told
        assert found["duplicates"] == 0, told
        # The kernel's own devices may drop without a counter; ours never does.
        if cell["network"].startswith("overlane") or cell["network"] == "bridge":
            assert found["unexplained"] == 0, told
        else:
            assert abs(found["unexplained"]) <= found["sent"] // 100, told
        losses += sum(found["lost"].values())
    assert losses > 0, "nothing was overloaded: the test says nothing"
    for cell in data["cells"]:
        # The cell's own sums are those of its samples.
        mine = [sample["accounting"] for sample in result.counted()
                if (sample["cell"]["network"], sample["cell"]["test"], sample["cell"]["bytes"])
                == (cell["network"], cell["test"], cell["bytes"])]
        for key in ("sent", "received", "unexplained"):
            assert cell["accounting"][key] == sum(each[key] for each in mine), (cell["name"], key)
