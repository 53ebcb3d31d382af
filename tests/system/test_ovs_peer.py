"""Open vSwitch as the other host, with each of its datapaths.

Overlane's guests keep every offload on, and with the kernel's datapath Open vSwitch's too. What the
userspace datapath needs is set on its own side: its guest without offloads, and an uplink that finishes
checksums and cuts super-packets (wire mode `plain`), because it reads frames from a raw socket without
their offload state.
"""

import pytest

import traffic
from capture import Capture, outer_checksums, tshark_count, tshark_fields
from net import wait_until
from overlane import GENEVE, VXLAN, verdicts
from peers import ovs
from topology import PLAIN, SEGMENTED, UPLINK, WHOLE, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs(*ovs.TOOLS)]


USERSPACE = pytest.param(ovs.OpenVSwitch.join, PLAIN, id="userspace")
KERNEL, KERNEL_SEGMENTED = (
    pytest.param(ovs.OpenVSwitch.join_kernel, wire, id=f"kernel-{wire}", marks=[
        pytest.mark.needs("ovs-dpctl"), pytest.mark.needs_kernel("geneve", "openvswitch")])
    for wire in (WHOLE, SEGMENTED))
DATAPATHS = pytest.mark.parametrize("join, wire", [USERSPACE, KERNEL])
DATAPATHS_AND_WIRES = pytest.mark.parametrize("join, wire", [USERSPACE, KERNEL, KERNEL_SEGMENTED])


def scene_with_ovs(lab, encapsulation, family, join, wire, declared=True, **options):
    """`options` go to the tunnel; Overlane's keys: guest 1 has key 1, Open vSwitch's guest key 2."""
    scene = Scene(lab, encapsulation, family, wire, peers=[2], declared=declared)
    one, two = scene.hosts
    switch = ovs.OpenVSwitch(lab, two)
    join(switch, one.address, scene.vni, encapsulation, two.guests, **options)
    scene.apply()
    return scene, switch


def scene_with_option(lab, family, join, wire, **options):
    """Geneve, and flows that write and read the option."""
    scene, switch = scene_with_ovs(lab, GENEVE, family, join, wire, flow_key=True, **options)
    geneve_flows(switch, scene)
    return scene, switch


@DATAPATHS_AND_WIRES
def test_vxlan_ping_and_tcp_both_ways(lab, family, join, wire):
    scene, _ = scene_with_ovs(lab, VXLAN, family, join, wire)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)
    traffic.fragments_equal(*scene.guests)


@DATAPATHS
@pytest.mark.parametrize("checksum", ["true", "false"], ids=["checksum", "no-checksum"])
def test_outer_checksums_of_open_vswitch_are_taken(lab, family, join, wire, checksum):
    scene, _ = scene_with_ovs(lab, VXLAN, family, join, wire, csum=checksum)
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, "udp"):
        traffic.udp_equal(near.ns, near.v4, far.ns, far.v4)
    traffic.speak(near, far)
    theirs = outer_checksums(path, scene.hosts[1].ns.mac(UPLINK))
    # In userspace it computes them over IPv6 whatever it is told.
    without = checksum == "false" and (family, wire) != (6, PLAIN)
    assert (theirs == {"0x0000"}) if without else (theirs and "0x0000" not in theirs), theirs


@DATAPATHS
def test_guests_find_each_other_by_broadcast_over_vxlan(lab, family, join, wire):
    scene, _ = scene_with_ovs(lab, VXLAN, family, join, wire, declared=False)
    traffic.find_each_other(*scene.guests)
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_port", "flood"] >= 1 and counts["from_underlay", "flood"] >= 1


def geneve_flows(switch, scene):
    """Take and give exactly the option that Overlane writes; all else is dropped and counted."""
    near, far = scene.guests
    vni, tunnel, port = scene.vni, ovs.TUNNEL_PORT, far.number
    there = f"{near.number << 16 | far.number:#x}"
    back = f"{far.number << 16 | near.number:#x}"
    to_all = f"{far.number << 16 | 0x8000:#x}"
    arriving_flood = f"{near.number << 16 | 0x8000:#x}"
    switch.ofctl("del-flows")
    switch.ofctl("add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0")
    group = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
    for flow in (
        f"cookie=1,priority=20,in_port={tunnel},tun_id={vni},tun_metadata0={there},"
        f"actions=output:{port}",
        f"cookie=2,priority=20,in_port={tunnel},tun_id={vni},tun_metadata0={arriving_flood},"
        f"actions=output:{port}",
        f"cookie=3,priority=20,in_port={port},{group},actions=set_field:{vni}->tun_id,"
        f"set_field:{to_all}->tun_metadata0,output:{tunnel}",
        f"cookie=4,priority=10,in_port={port},actions=set_field:{vni}->tun_id,"
        f"set_field:{back}->tun_metadata0,output:{tunnel}",
        "cookie=5,priority=0,actions=drop",
    ):
        switch.ofctl("add-flow", flow)


@DATAPATHS_AND_WIRES
def test_geneve_option_is_matched_and_set_exactly(lab, family, join, wire):
    scene, switch = scene_with_option(lab, family, join, wire)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)
    traffic.fragments_equal(*scene.guests)
    near, far = scene.guests
    assert switch.flow_packets("cookie=0x1") > 100, "unicast with the option we expect"
    assert switch.flow_packets("cookie=0x4") > 100, "unicast back"
    assert switch.flow_packets("cookie=0x5") == 0, "something came with another option"
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_underlay", "to_port"] > 100
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


@DATAPATHS
def test_guests_find_each_other_by_broadcast_over_geneve(lab, family, join, wire):
    scene, switch = scene_with_option(lab, family, join, wire, declared=False)
    traffic.find_each_other(*scene.guests)
    assert switch.flow_packets("cookie=0x2") >= 1, "what Overlane flooded"
    assert switch.flow_packets("cookie=0x3") >= 1, "what Open vSwitch sent to all"
    assert switch.flow_packets("cookie=0x5") == 0, "something came with another option"


@DATAPATHS
def test_geneve_flood_group_is_understood_by_both(lab, join, wire):
    scene, switch = scene_with_option(lab, 4, join, wire)
    near, far = scene.guests
    traffic.ping(far.ns, near.v4)  # starts with an ARP broadcast of Open vSwitch's guest
    assert switch.flow_packets("cookie=0x3") >= 1
    assert verdicts(scene.hosts[0].name)["from_underlay", "flood"] >= 1
    before = switch.flow_packets("cookie=0x2")
    with traffic.udp_socket(near.ns, near.v4) as sock:
        sock.setsockopt(1, 6, 1)  # SO_BROADCAST
        sock.sendto(b"to all", ("198.18.100.255", 9))
    wait_until(lambda: switch.flow_packets("cookie=0x2") > before, what="the flooded frame")


@DATAPATHS
def test_an_option_overlane_does_not_know_is_counted(lab, join, wire):
    """Open vSwitch sends another class: critical, so Overlane must drop it by name."""
    scene, switch = scene_with_ovs(lab, GENEVE, 4, join, wire, flow_key=True)
    near, far = scene.guests
    switch.ofctl("del-flows")
    switch.ofctl("add-tlv-map", "{class=0xffff,type=0x81,len=4}->tun_metadata0")
    switch.ofctl("add-flow", f"in_port={far.number},actions=set_field:{scene.vni}->tun_id,"
                 f"set_field:7->tun_metadata0,output:{ovs.TUNNEL_PORT}")
    name = scene.hosts[0].name

    def counted():
        assert traffic.pings(far.ns, near.v4, timeout=0.5) == 0
        return verdicts(name).get(("from_underlay", "geneve_critical"))

    wait_until(counted, what="the drop")  # Open vSwitch drops until it knows the way itself


@DATAPATHS
def test_tshark_reads_what_both_sides_send(lab, join, wire):
    scene, _ = scene_with_option(lab, 4, join, wire)
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path):
        traffic.ping(near.ns, far.v4)
    assert tshark_count(path, "_ws.malformed") == 0
    rows = tshark_fields(path, ["ip.src", "geneve.option.class", "geneve.option.type"],
                         display="icmp")
    senders = {row["ip.src"].split(",")[0] for row in rows}
    assert senders == {host.address for host in scene.hosts}
    assert {row["geneve.option.class"] for row in rows} == {"0x0102"}
