"""The kernel's Geneve device in external mode as the other host: tc writes OVN's option and reads it.

Nothing of OVN is here: the option is data of a `tunnel_key` action, and of a `flower` filter's match.
"""

import pytest

import traffic
from capture import Capture, outer_checksums
from overlane import GENEVE, verdicts
from peers import kernel
from topology import UPLINK, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("tc"), pytest.mark.needs_kernel("geneve", "tunnel_key")]


def scene_with_kernel(lab, family, wire="whole", checksum=False, peer_key=None, **options):
    scene = Scene(lab, GENEVE, family, wire, peers=[2], **options)
    one, two = scene.hosts
    near, far = scene.guests
    kernel.join_geneve_external(two, one.address, scene.vni, far, peer_key or near.number, mtu=scene.mtu,
                                checksum=checksum)
    return scene.apply()


def arrived(scene, pref):
    return kernel.filter_packets(scene.hosts[1], kernel.GENEVE_DEVICE, pref)


def sent(scene, pref):
    return kernel.filter_packets(scene.hosts[1], scene.guests[1].device, pref)


def test_the_option_is_matched_and_set_exactly(lab, family, wire):
    scene = scene_with_kernel(lab, family, wire)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)
    traffic.fragments_equal(*scene.guests)
    assert arrived(scene, kernel.UNICAST) > 100 and sent(scene, kernel.UNICAST) > 100
    assert arrived(scene, kernel.REST) == 0, "something came with another option"
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_underlay", "to_port"] > 100
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


def test_a_kernel_that_sends_outer_checksums_is_understood(lab, family, wire):
    scene = scene_with_kernel(lab, family, wire, checksum=True)
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, "udp"):
        traffic.udp_equal(near.ns, near.v4, far.ns, far.v4)
    traffic.speak(near, far)
    ours, theirs = (outer_checksums(path, host.ns.mac(UPLINK)) for host in scene.hosts)
    assert ours == {"0x0000"} and theirs and "0x0000" not in theirs


def test_guests_find_each_other_by_broadcast(lab, family):
    scene = scene_with_kernel(lab, family, declared=False)
    traffic.find_each_other(*scene.guests)
    assert arrived(scene, kernel.TO_ALL) >= 1 and sent(scene, kernel.TO_ALL) >= 1
    assert arrived(scene, kernel.REST) == 0, "something came with another option"
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_port", "flood"] >= 1 and counts["from_underlay", "flood"] >= 1


def test_an_option_with_a_key_of_nobody_is_dropped_by_name(lab):
    """tc writes what it is told, and Overlane reads it: a key of no port; and tc reads what Overlane writes."""
    scene = scene_with_kernel(lab, 4, peer_key=99)
    near, far = scene.guests
    far.ns.ip(f"neighbour replace {near.v4} lladdr {near.mac} dev eth0")
    assert traffic.pings(far.ns, near.v4, timeout=0.5) == 0
    assert verdicts(scene.hosts[0].name)["from_underlay", "unknown_port_key"] == 1
    assert traffic.pings(near.ns, far.v4, timeout=0.5) == 0
    assert arrived(scene, kernel.REST) >= 1 and arrived(scene, kernel.UNICAST) == 0
