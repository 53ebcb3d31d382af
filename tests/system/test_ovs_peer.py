"""Open vSwitch's userspace datapath as the other host.

Overlane's guests keep every offload on. What Open vSwitch itself needs is set on its own side: its
guest without offloads, and an uplink that finishes checksums and cuts super-packets (wire mode
`plain`), because it reads frames from a raw socket without their offload state.
"""

import pytest

import traffic
from capture import Capture, tshark_count, tshark_fields
from net import wait_until
from overlane import GENEVE, VXLAN, verdicts
from peers import ovs
from topology import PLAIN, UPLINK, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs(*ovs.TOOLS)]


def scene_with_ovs(lab, encapsulation, family, **join):
    """`join` goes to the tunnel; Overlane's keys: guest 1 has key 1, Open vSwitch's guest key 2."""
    scene = Scene(lab, encapsulation, family, PLAIN, peers=[2])
    one, two = scene.hosts
    switch = ovs.OpenVSwitch(lab, two)
    switch.join(one.address, scene.vni, encapsulation, two.guests, **join)
    scene.apply()
    return scene, switch


def test_vxlan_ping_and_tcp_both_ways(lab, family):
    scene, _ = scene_with_ovs(lab, VXLAN, family)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)


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


def test_geneve_option_is_matched_and_set_exactly(lab, family):
    scene, switch = scene_with_ovs(lab, GENEVE, family, flow_key=True)
    geneve_flows(switch, scene)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)
    near, far = scene.guests
    assert switch.flow_packets("cookie=0x1") > 100, "unicast with the option we expect"
    assert switch.flow_packets("cookie=0x4") > 100, "unicast back"
    assert switch.flow_packets("cookie=0x5") == 0, "something came with another option"
    counts = verdicts(scene.hosts[0].name)
    assert counts["from_underlay", "to_port"] > 100
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


def test_geneve_flood_group_is_understood_by_both(lab):
    scene, switch = scene_with_ovs(lab, GENEVE, 4, flow_key=True)
    geneve_flows(switch, scene)
    near, far = scene.guests
    traffic.ping(far.ns, near.v4)  # starts with an ARP broadcast of Open vSwitch's guest
    assert switch.flow_packets("cookie=0x3") >= 1
    assert verdicts(scene.hosts[0].name)["from_underlay", "flood"] >= 1
    before = switch.flow_packets("cookie=0x2")
    with traffic.udp_socket(near.ns, near.v4) as sock:
        sock.setsockopt(1, 6, 1)  # SO_BROADCAST
        sock.sendto(b"to all", ("198.18.100.255", 9))
    wait_until(lambda: switch.flow_packets("cookie=0x2") > before, what="the flooded frame")


def test_an_option_open_vswitch_does_not_know_is_counted_by_overlane(lab):
    """Open vSwitch sends another class: critical, so Overlane must drop it by name."""
    scene, switch = scene_with_ovs(lab, GENEVE, 4, flow_key=True)
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


def test_tshark_reads_what_both_sides_send(lab):
    scene, switch = scene_with_ovs(lab, GENEVE, 4, flow_key=True)
    geneve_flows(switch, scene)
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
