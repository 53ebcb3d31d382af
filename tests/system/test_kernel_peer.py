"""The kernel's VXLAN device as the other host."""

import pytest

import traffic
from capture import Capture, tshark_count
from overlane import VXLAN, verdicts
from peers import kernel
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane


def scene_with_kernel(lab, family, wire, **options):
    scene = Scene(lab, VXLAN, family, wire, peers=[2], **options)
    one, two = scene.hosts
    kernel.join(two, one.address, scene.vni, two.guests, mtu=scene.mtu)
    return scene.apply()


def test_tcp_both_ways_with_offloads_on(lab, family, wire):
    scene = scene_with_kernel(lab, family, wire)
    traffic.speak(*scene.guests, size=8 * traffic.MEBIBYTE)


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


def test_super_packets_from_the_kernel_arrive_whole(lab, family):
    scene = scene_with_kernel(lab, family, "whole")
    near, far = scene.guests
    with Capture(near.ns, "eth0", lab.directory / "g.pcap", "tcp", direction="in") as capture:
        traffic.tcp_equal(far.ns, far.v4, near.ns, near.v4)
    assert max(len(frame) for frame in capture.raw()) > 20_000
