"""What a device loses after the data path has counted a packet as sent, or before it sees one.

    guest eth0 ── p1 ┤ host │ uplink ═══ uplink │ host ├ p2 ── eth0 guest
                 ^ an MTU that somebody lowers after `apply`   ^
"""

import pytest

import traffic
from overlane import VXLAN, apply, difference, overlane, show, verdicts
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

LOWER = 1400
COUNTERS = ("tx_dropped", "tx_errors", "rx_dropped", "rx_errors")


@pytest.fixture
def scene(lab):
    return Scene(lab, VXLAN, 4).apply()


def lost(host):
    """{device: {counter: packets}}, what is not zero."""
    rows = show("drops", host.name)["devices"]
    rows = {row["device"]: {name: row[name] for name in COUNTERS if row[name]} for row in rows}
    return {device: row for device, row in rows.items() if row}


def text(host, what):
    return overlane("show", what, "--host", host.name).stdout


def send_large(scene, count=3):
    """Full-size packets of the first guest; how many are answered."""
    near, far = scene.guests
    return traffic.pings(near.ns, far.v4, count, size=scene.mtu - 28, timeout=0.3)


def hint(device, before):
    return f"MTU of {device} is {LOWER}, was {before} at apply"


def test_what_the_cable_does_not_take_is_lost_at_the_uplink(scene):
    """The other end takes less: the packets were counted as `encap`."""
    one, two = scene.hosts
    assert send_large(scene) == 3 and lost(one) == {}
    assert "lost by devices" not in text(one, "drops")
    two.ns.ip(f"link set {UPLINK} mtu {LOWER}")
    before = verdicts(one.name)
    assert not send_large(scene)
    assert difference(before, verdicts(one.name))["from_port", "encap"] == 3
    assert show("drops", one.name)["drops"] == [], "no drop reason has them"
    assert lost(one)[UPLINK]["tx_dropped"] >= 3
    said = text(one, "drops")
    assert "lost by devices, since apply" in said and UPLINK in said
    # Another apply begins nothing anew.
    apply(scene.lab.directory / "fabric.yaml", one.name, one.netns)
    assert lost(one)[UPLINK]["tx_dropped"] >= 3


def test_what_was_lost_before_apply_is_not_told(lab):
    scene = Scene(lab, VXLAN, 4)
    one, two = scene.hosts
    two.ns.ip(f"link set {UPLINK} mtu {LOWER}")
    assert traffic.pings(one.ns, two.address, size=1472, timeout=0.3) == 0
    assert one.ns.json(f"-s link show {UPLINK}")[0]["stats64"]["tx"]["dropped"] > 0
    two.ns.ip(f"link set {UPLINK} mtu 1500")
    scene.apply()
    assert lost(one) == {}


def test_a_lower_mtu_of_a_port_is_named_with_what_it_loses(scene):
    host, near = scene.hosts[0], scene.guests[0]
    host.ns.ip(f"link set {near.device} mtu {LOWER}")
    assert not send_large(scene)
    assert lost(host)[near.device]["rx_dropped"] >= 3
    for what in ("drops", "ports"):
        assert hint(near.device, 1500) in text(host, what)
    assert show("ports", host.name)["lower_mtu"] == [{"device": near.device, "mtu": LOWER, "mtu_at_apply": 1500}]


def test_a_lower_mtu_of_the_uplink_is_named_until_it_is_applied(scene):
    one, two = scene.hosts
    for host in (one, two):
        host.ns.ip(f"link set {UPLINK} mtu {LOWER}")
    assert not send_large(scene)
    assert hint(UPLINK, 1500) in text(one, "drops")
    for host in (one, two):
        apply(scene.lab.directory / "fabric.yaml", host.name, host.netns)
    assert "was 1500 at apply" not in text(one, "drops")
    before = verdicts(one.name)
    assert not send_large(scene)
    rose = difference(before, verdicts(one.name))
    assert rose["from_port", "pkt_too_big"] >= 1, "the sender is told now"
