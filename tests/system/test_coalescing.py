"""Receive coalescing: the kernel joins tunnel packets that arrive one by one, before Overlane sees them."""

import pytest

import traffic
from modules import kernel_has
from overlane import GENEVE, VXLAN, port_counters
from topology import SEGMENTED, UPLINK, Scene, apply_host

pytestmark = pytest.mark.needs_overlane
WITH_GENEVE = pytest.mark.needs_kernel("geneve")
GRO = "ovl-gro"


def segmented(lab, encapsulation, family=4):
    """Segments one by one on the cable; the far host's uplink may join them."""
    scene = Scene(lab, encapsulation, family, SEGMENTED)
    scene.hosts[1].ns.ethtool(UPLINK, on=("gro",))
    return scene


def joined(scene):
    """Segments in each packet that the far guest gets, on average: 1 without joining. How many else, the load decides."""
    near, far = scene.guests
    before = port_counters(scene.hosts[1].name, "port2")["to_port"]
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=16 * traffic.MEBIBYTE, timeout=60)
    after = port_counters(scene.hosts[1].name, "port2")["to_port"]
    return (after["segments"] - before["segments"]) / (after["packets"] - before["packets"])


def apply_beside(scene, *lines):
    """Apply on both hosts; on the far one devices are there already. Returns what it says."""
    far = scene.hosts[1]
    far.ns.ip(*lines)
    scene.apply(scene.hosts[0])
    return apply_host(scene.lab, scene.lab.directory / "fabric.yaml", far).stderr


@pytest.mark.parametrize("encapsulation", [VXLAN, pytest.param(GENEVE, marks=WITH_GENEVE)])
def test_segments_are_joined(lab, encapsulation, family):
    scene = segmented(lab, encapsulation, family).apply()
    assert GRO in scene.hosts[1].ns.links()
    assert joined(scene) > 2


@WITH_GENEVE
def test_another_geneve_device_does_it_for_us(lab):
    scene = segmented(lab, GENEVE)
    said = apply_beside(scene, "link add g0 type geneve id 7 remote 198.18.0.9", "link set g0 up")
    assert "device g0: it has UDP port 6081 too: " in said and "while it is up, the kernel" in said
    assert GRO not in scene.hosts[1].ns.links()
    assert joined(scene) > 2


@WITH_GENEVE
def test_a_device_that_is_down_does_not(lab):
    scene = segmented(lab, GENEVE)
    said = apply_beside(scene, "link add g0 type geneve id 7 remote 198.18.0.9")
    assert "received tunnel packets are not coalesced, " in said
    assert joined(scene) < 2


@WITH_GENEVE
def test_a_device_that_was_moved_away_costs_coalescing_only(lab):
    """Its port stays behind, and the kernel answers EPERM."""
    scene = segmented(lab, GENEVE)
    away = lab.namespace("away")
    said = apply_beside(scene, "link add g0 type geneve id 7 remote 198.18.0.9",
                        f"link set g0 netns {away.name}")
    assert "UDP port 6081 are not coalesced: " in said and "not permitted" in said, said
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)


@pytest.mark.skipif(kernel_has("geneve"), reason="this kernel has geneve")
def test_without_geneve_the_coalescer_joins(lab):
    scene = segmented(lab, GENEVE)
    said = apply_beside(scene, "link set lo up")
    assert "coalesced" not in said, said
    assert joined(scene) > 2


@pytest.mark.skipif(kernel_has("geneve"), reason="this kernel has geneve")
def test_without_geneve_and_gro_segments_go_on(lab):
    scene = Scene(lab, GENEVE, 4, SEGMENTED)
    said = apply_beside(scene, "link set lo up")
    assert "are not coalesced: this kernel has no geneve devices" in said, said
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
