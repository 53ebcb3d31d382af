"""The kernel's VXLAN device as the other host."""

import pytest

import traffic
from capture import Capture, outer_checksums, tshark_count
from frames import short_frames_arrive
from overlane import VXLAN, verdicts
from peers import kernel
from topology import PLAIN, UPLINK, WIRES, Scene

pytestmark = pytest.mark.needs_overlane

#: What becomes of a good packet of the underlay; `to_host` is the hosts' own.
DELIVERED = ("to_port", "flood", "to_host")
CHECKSUMS = pytest.mark.parametrize("checksum", [False, True], ids=["no-checksum", "checksum"])


def scene_with_kernel(lab, family, wire, checksum=False, **options):
    scene = Scene(lab, VXLAN, family, wire, peers=[2], **options)
    one, two = scene.hosts
    kernel.join(two, one.address, scene.vni, two.guests, mtu=scene.mtu, checksum=checksum)
    return scene.apply()


def test_tcp_both_ways_with_offloads_on(lab, family, wire):
    scene = scene_with_kernel(lab, family, wire)
    traffic.speak(*scene.guests, size=8 * traffic.MEBIBYTE)


@pytest.mark.parametrize("wire", (*WIRES, PLAIN))
def test_a_kernel_that_sends_outer_checksums_is_understood(lab, family, wire):
    """Overlane sends none, and takes those of others: over both families, whole and cut."""
    scene = scene_with_kernel(lab, family, wire, checksum=True)
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, "udp"):
        traffic.ping(near.ns, far.v4)
        traffic.udp_equal(near.ns, near.v6, far.ns, far.v6)
    ours, theirs = (outer_checksums(path, host.ns.mac(UPLINK)) for host in scene.hosts)
    assert ours == {"0x0000"} and theirs and "0x0000" not in theirs
    traffic.speak(near, far, size=8 * traffic.MEBIBYTE)
    traffic.fragments_equal(near, far)
    counts = verdicts(scene.hosts[0].name)
    assert not [key for key in counts if key[0] == "from_underlay" and key[1] not in DELIVERED], counts


@CHECKSUMS
def test_guests_find_each_other_by_broadcast(lab, family, checksum):
    scene = scene_with_kernel(lab, family, "whole", checksum, declared=False)
    traffic.find_each_other(*scene.guests)
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_port", "flood"] >= 1 and counts["from_underlay", "flood"] >= 1


def test_fragments_arrive(lab, family, wire):
    scene = scene_with_kernel(lab, family, wire)
    traffic.fragments_equal(*scene.guests)


def test_udp_and_pings_of_every_size_that_fits(lab, family):
    scene = scene_with_kernel(lab, family, "whole")
    near, far = scene.guests
    for a, b, overhead in ((near.v4, far.v4, 28), (near.v6, far.v6, 48)):
        for size in (0, 1, 100, scene.mtu - overhead):
            traffic.ping(near.ns, b, count=1, size=size)
            traffic.ping(far.ns, a, count=1, size=size)
        traffic.udp_equal(near.ns, a, far.ns, b)


def test_a_guest_behind_the_kernel_is_found_by_its_own_arp(lab, family):
    """The kernel's side asks by broadcast; Overlane delivers the request and the guest answers."""
    scene = scene_with_kernel(lab, family, "whole")
    near, far = scene.guests
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap", direction="in") as capture:
        traffic.ping(far.ns, near.v4)
    assert tshark_count(capture.path, "vxlan && arp.opcode == 1") >= 1
    assert verdicts(scene.hosts[0].name)["from_underlay", "flood"] >= 1


@CHECKSUMS
def test_short_frames_arrive_with_zeros_behind(lab, family, checksum):
    near, far = scene_with_kernel(lab, family, "whole", checksum).guests
    for source, target in zip(far.addresses, near.addresses):
        short_frames_arrive(far, near, source, target)


@CHECKSUMS
def test_super_packets_from_the_kernel_arrive_whole(lab, family, checksum):
    scene = scene_with_kernel(lab, family, "whole", checksum)
    near, far = scene.guests
    with Capture(near.ns, "eth0", lab.directory / "g.pcap", "tcp", direction="in") as capture:
        traffic.tcp_equal(far.ns, far.v4, near.ns, near.v4)
    assert max(len(frame) for frame in capture.raw()) > 20_000
