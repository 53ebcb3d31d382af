"""No packet is lost while the fabric, or the program itself, is replaced under traffic."""

import copy

import pytest

import state
import traffic
import second_build
from net import wait_until
from overlane import GENEVE, VXLAN, apply, hook_sum, verdicts
from topology import Scene, add_guest

pytestmark = pytest.mark.needs_overlane

ROUNDS = 50


def two_fabrics(lab, scene):
    """Files that really differ: ports, switches, source ports, flooding."""
    spare = add_guest(lab, scene.hosts[0], 20, scene.mtu)
    first = scene.fabric.write(lab.directory / "first.yaml")
    second = copy.deepcopy(scene.fabric)
    second.switch("red", 6001, unknown_unicast="flood")
    second.port("spare", "red", scene.hosts[0].name, spare.device, spare.mac, spare.addresses)
    second.port("elsewhere", "blue", scene.hosts[1].name, "not-here", "02:00:00:00:77:01")
    second.data["switches"]["blue"]["unknown_unicast"] = "flood"
    second.data["tunnel"]["source_ports"] = "50000-60000"
    second.host("h99", scene.hosts[0].address.replace("0.1", "0.99").replace("::1", "::99"))
    return first, second.write(lab.directory / "second.yaml")


def backlog_drops(scene):
    """Packets that the kernel dropped before any program saw them, on all devices of the scene.

    A processor has one backlog for every veth of the machine (net.core.netdev_max_backlog). Another test that floods
    fills it, and each veth counts in `rx_dropped` what it lost there (enqueue_to_backlog, net/core/dev.c).
    """
    namespaces = [machine.ns for machine in (*scene.hosts, *scene.guests)]
    return sum(link["stats64"]["rx"]["dropped"] for ns in namespaces for link in ns.json("-s -d link show"))


def assert_nothing_is_lost(scene, out, back, drops_before):
    lost, drops = out.lost() + back.lost(), backlog_drops(scene) - drops_before
    assert len(lost) <= drops, (f"of {out.sent} and {back.sent} datagrams {out.lost()} and {back.lost()} are lost; "
                                f"the kernel's backlog dropped {drops} packets")


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)])
def test_fifty_changes_of_the_fabric_lose_no_packet(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    files = two_fabrics(lab, scene)
    traffic.ping(near.ns, far.v4)
    drops = backlog_drops(scene)
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4) as out, \
            traffic.PacedUdp(far.ns, far.v4, near.ns, near.v4, port=5204) as back:
        for number in range(ROUNDS):
            done = apply(files[(number + 1) % 2], host.name, host.netns)
            assert "nothing differs" not in done.stdout
        out.finish()
        back.finish()
        assert min(out.sent, back.sent) > 10 * ROUNDS
        assert_nothing_is_lost(scene, out, back, drops)
    unknown = [key for key in verdicts(host.name) if key[1] in ("no_port", "not_configured",
                                                               "unknown_switch", "unknown_unicast")]
    assert not unknown


@pytest.mark.thorough
def test_another_build_with_a_larger_map_value_takes_over_without_loss(lab):
    second = second_build.program()
    if second is None:
        pytest.skip("needs a second build of the program: tests/system/second_build.py")
    scene = Scene(lab, GENEVE, 4).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    path = lab.directory / "fabric.yaml"
    old_sets = state.map_sets(host.name)
    traffic.ping(near.ns, far.v4)
    drops = backlog_drops(scene)
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4) as out, \
            traffic.PacedUdp(far.ns, far.v4, near.ns, near.v4, port=5204) as back:
        wait_until(lambda: out.sent > 200, what="traffic")
        for previous, program in ((None, second), (second, None), (None, second)):
            before = hook_sum(verdicts(host.name, program=previous), "from_port")
            done = apply(path, host.name, host.netns, program=program)
            assert "nothing differs" not in done.stdout
            after = hook_sum(verdicts(host.name, program=program), "from_port")
            assert after >= before, "counters went back"
            wait_until(lambda sent=out.sent: out.sent > sent + 200, what="traffic")
        out.finish()
        back.finish()
        assert_nothing_is_lost(scene, out, back, drops)
    (new_set,) = state.map_sets(host.name)
    assert [new_set] != old_sets, "the maps must be another set"
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)

