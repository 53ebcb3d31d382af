"""`options: none`: hosts that take no critical Geneve option.

A kernel Geneve device in plain mode, and Open vSwitch without a TLV map, are such hosts. That they do
drop the option is shown too: else these tests would show nothing.
"""

import pytest

import traffic
from capture import Capture, tshark_count, tshark_fields
from overlane import GENEVE, verdicts
from peers import kernel, ovs
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane
MTU = 1450


def scene_with(lab, family, join, wire="whole", guests=(1, 1), options="none", **scene_options):
    """Overlane, and as the last host a peer, which `join` makes."""
    last = len(guests)
    scene = Scene(lab, GENEVE, family, wire, guests, peers=[last], **scene_options)
    peer = scene.hosts[-1]
    join(lab, peer, scene.hosts[0].address, scene.vni)
    scene.fabric.data["hosts"][peer.name]["options"] = options
    return scene.apply()


def kernel_device(lab, host, remote, vni):
    kernel.join_geneve(host, remote, vni, host.guests, mtu=MTU)


def open_vswitch(lab, host, remote, vni):
    ovs.OpenVSwitch(lab, host).join_kernel(remote, vni, GENEVE, host.guests)


KERNEL_DEVICE = pytest.param(kernel_device, id="device", marks=pytest.mark.needs_kernel("geneve"))
OPEN_VSWITCH = pytest.param(open_vswitch, id="ovs", marks=[
    pytest.mark.needs(*ovs.TOOLS, "ovs-dpctl"), pytest.mark.needs_kernel("geneve", "openvswitch")])
PEERS = pytest.mark.parametrize("join", [KERNEL_DEVICE, OPEN_VSWITCH])


@PEERS
def test_ping_and_tcp_both_ways(lab, family, join):
    scene = scene_with(lab, family, join)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_underlay", "to_port"] > 100
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


@PEERS
def test_super_packets_are_cut_right_behind_the_shorter_header(lab, join):
    scene = scene_with(lab, 4, join, wire="segmented")
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)


@PEERS
def test_guests_find_each_other_by_broadcast(lab, join):
    scene = scene_with(lab, 4, join, declared=False)
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    traffic.ping(far.ns, near.v6)
    assert verdicts(scene.hosts[0].name)["from_port", "flood"] >= 1


@PEERS
def test_such_a_host_drops_what_has_the_option(lab, join):
    scene = scene_with(lab, 4, join, options="ovn")
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out"):
        assert traffic.pings(near.ns, far.v4, count=3, timeout=0.5) == 0
    assert tshark_count(path, "geneve.option.class == 0x0102 && icmp") == 3


@pytest.mark.parametrize("join", [KERNEL_DEVICE])
def test_a_broadcast_reaches_hosts_with_and_without_options(lab, join):
    """h2 knows the option, h3 does not: the copies have headers of two lengths."""
    scene = scene_with(lab, 4, join, guests=(1, 1, 1), declared=False)
    one, two, three = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out"):
        traffic.ping(one.ns, two.v4)
        traffic.ping(one.ns, three.v4)
    arp = tshark_fields(path, ["ip.dst", "geneve.option.class"], display="arp.opcode == 1")
    copies = {(row["ip.dst"], row["geneve.option.class"]) for row in arp}
    assert copies == {(scene.hosts[1].address, "0x0102"), (scene.hosts[2].address, "")}
    assert tshark_count(path, "_ws.malformed") == 0


def test_a_tunnel_without_options_has_room_for_8_bytes_more(lab, family):
    """Between hosts of Overlane; on the wire no packet has an option or the C bit."""
    mtu = 1450 if family == 4 else 1430
    scene = Scene(lab, GENEVE, family, tunnel={"options": "none"}, guest_options={"mtu": mtu}).apply()
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path):
        traffic.ping(near.ns, far.v4, size=mtu - 28)
        traffic.ping(far.ns, near.v6, size=mtu - 48)
    assert tshark_count(path, "geneve.option || geneve.flags.critical == 1") == 0
    assert tshark_count(path, "geneve && (icmp || icmpv6)") >= 12
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
