"""A trunk: several logical ports on one device, told apart by their tags.

The guest behind it is Open vSwitch in userspace with access ports (this kernel has no 802.1Q
devices), or a raw socket where the bytes of a single frame matter.
"""

import pytest

import traffic
from capture import Capture, tshark_count
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from overlane import GENEVE, VLAN, VXLAN, difference, port_counters, verdicts
from peers import access
from topology import PLAIN, UPLINK, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane

#: Tag on the device → (name of the port, its switch, number of the machine).
TRUNK = {10: ("ten", "blue", 81), 20: ("twenty", "red", 82)}


@pytest.fixture(params=[VXLAN, GENEVE, VLAN])
def scene(request, lab):
    """Guest 1's device is the trunk: untagged a port of `blue`, tag 10 another one of it, tag 20 one of
    `red`. Guest 2 is in `blue`, guest 3 in `red`, both on the other host."""
    scene = Scene(lab, request.param, 4, PLAIN, guests=(1, 2))
    if request.param == VLAN:
        scene.fabric.switch("red", uplink_vlan=200)
    else:
        scene.fabric.switch("red", 6001)
    scene.fabric.data["ports"]["port3"]["switch"] = "red"
    trunk = scene.guests[0]
    for vlan, (name, switch, number) in TRUNK.items():
        scene.fabric.port(name, switch, scene.hosts[0].name, trunk.device, guest_mac(number),
                          guest_addresses(number), vlan=vlan)
    scene.apply()
    for one, other in (scene.hosts, reversed(scene.hosts)):
        traffic.ping(one.ns, other.address, count=1)
    return scene


def tag(frame, vlan, priority=0):
    return frame[:12] + b"\x81\x00" + (priority << 13 | vlan).to_bytes(2, "big") + frame[12:]


@pytest.mark.needs(*access.TOOLS)
def test_machines_behind_a_trunk_are_each_in_their_own_switch(lab, scene):
    trunk, blue, red = scene.guests
    trunk.ns.ip("address flush dev eth0")
    switch = access.AccessSwitch(lab, trunk, "eth0", scene.mtu)
    for vlan, (name, _, number) in TRUNK.items():
        switch.access(name, vlan, guest_mac(number), guest_addresses(number))
    switch.access("native", None, trunk.mac, trunk.addresses)
    machines = {name: guest_addresses(number) for name, _, number in TRUNK.values()}
    # One namespace, three stacks' worth of addresses in one subnet: each answers for itself alone.
    for key, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 0)):
        trunk.ns.sysctl(f"net.ipv4.conf.all.{key}", value)
    for far, mine in ((blue, machines["ten"]), (red, machines["twenty"])):
        for a, b in zip(far.addresses, mine):
            device = "ten" if far is blue else "twenty"
            trunk.ns.ip(f"route replace {a} dev {device} src {b}")
            traffic.ping(far.ns, b)
            traffic.tcp_equal(far.ns, a, trunk.ns, b, size=traffic.MEBIBYTE)
            traffic.udp_equal(far.ns, a, trunk.ns, b)
    # The other switch's machine is not there for them.
    assert traffic.pings(blue.ns, machines["twenty"][0], timeout=0.3) == 0
    assert traffic.pings(red.ns, machines["ten"][0], timeout=0.3) == 0
    counts = {name: port_counters(scene.hosts[0].name, name) for name in ("ten", "twenty")}
    assert all(each["from_port"]["packets"] and each["to_port"]["packets"] for each in counts.values())


def test_a_tag_on_the_device_is_its_port_and_goes_no_further(lab, scene):
    trunk, blue, red = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            PacketSocket(trunk.ns, "eth0") as out, PacketSocket(blue.ns, "eth0", ETH_P_ALL) as one, \
            PacketSocket(red.ns, "eth0", ETH_P_ALL) as two:
        for vlan, into, other, far in ((10, one, two, blue), (20, two, one, red)):
            mac = guest_mac(TRUNK[vlan][2])
            for target, priority in ((far.mac, 0), (far.mac, 6), (BROADCAST, 0)):
                frame = plain_frame(mac, target)
                out.send(tag(frame, vlan, priority))
                assert into.receive() == frame
            assert other.receive(0.2) is None
        frame = plain_frame(trunk.mac, blue.mac)
        out.send(frame)
        assert one.receive() == frame, "untagged: the port of the device itself"
    assert tshark_count(capture.path, "vlan.id == 10 || vlan.id == 20") == 0


def test_frames_for_a_trunk_port_get_its_tag(lab, scene):
    trunk, blue, red = scene.guests
    with PacketSocket(trunk.ns, "eth0", ETH_P_ALL) as into, PacketSocket(blue.ns, "eth0") as one, \
            PacketSocket(red.ns, "eth0") as two:
        for vlan, sender, far in ((10, one, blue), (20, two, red)):
            frame = plain_frame(far.mac, guest_mac(TRUNK[vlan][2]))
            sender.send(frame)
            assert into.receive() == tag(frame, vlan)
        frame = plain_frame(blue.mac, trunk.mac)
        one.send(frame)
        assert into.receive() == frame
        shout = plain_frame(blue.mac, BROADCAST)
        one.send(shout)
        assert sorted(into.receive_all()) == sorted([shout, tag(shout, 10)]), "two ports of `blue`"


def test_two_ports_of_one_device_talk_to_each_other(lab, scene):
    """Untagged and tag 10 are two ports of `blue`: what one sends, the other gets on the same cable."""
    trunk = scene.guests[0]
    frame = plain_frame(trunk.mac, guest_mac(81))
    with PacketSocket(trunk.ns, "eth0") as out, PacketSocket(trunk.ns, "eth0", ETH_P_ALL) as into:
        out.send(frame)
        assert into.receive() == tag(frame, 10)


def test_a_priority_tag_is_no_tag_and_its_priority_is_kept(lab, scene):
    trunk, blue, _ = scene.guests
    with PacketSocket(trunk.ns, "eth0") as out, PacketSocket(trunk.ns, "eth0", ETH_P_ALL) as back, \
            PacketSocket(blue.ns, "eth0", ETH_P_ALL) as far:
        frame = plain_frame(trunk.mac, blue.mac)
        out.send(tag(frame, 0, 5))
        assert far.receive() == frame, "the port of the device itself, in a tunnel without a tag"
        frame = plain_frame(trunk.mac, guest_mac(81))
        out.send(tag(frame, 0, 5))
        assert back.receive() == tag(frame, 10, 5), "from untagged to tag 10 on the same cable"
        frame = plain_frame(guest_mac(81), trunk.mac)
        out.send(tag(frame, 10, 6))
        assert back.receive() == frame, "from tag 10 to untagged"


def test_tags_without_a_port_and_tags_within_tags_are_dropped(lab, scene):
    trunk, blue, _ = scene.guests
    ten = guest_mac(81)
    cases = {
        "a VLAN of no port": (tag(plain_frame(trunk.mac, BROADCAST), 30), "vlan_tag"),
        "a tag within a priority tag": (tag(tag(plain_frame(trunk.mac, BROADCAST), 7), 0), "vlan_tag"),
        "a tag within the tag": (tag(tag(plain_frame(ten, BROADCAST), 7), 10), "vlan_tag"),
        "the other port's address": (tag(plain_frame(guest_mac(82), BROADCAST), 10), "spoofed_mac"),
    }
    host = scene.hosts[0].name
    with PacketSocket(trunk.ns, "eth0") as out, PacketSocket(blue.ns, "eth0", ETH_P_ALL) as into:
        for name, (frame, verdict) in cases.items():
            before = verdicts(host)
            out.send(frame)
            assert difference(before, verdicts(host)) == {("from_port", verdict): 1}, name
        assert into.receive_all() == []


def test_without_an_untagged_port_untagged_frames_have_none(lab):
    scene = Scene(lab, GENEVE, 4)
    trunk = scene.guests[0]
    scene.fabric.data["ports"]["port1"]["vlan"] = 10
    scene.apply()
    host = scene.hosts[0].name
    with PacketSocket(trunk.ns, "eth0") as out:
        before = verdicts(host)
        out.send(plain_frame(trunk.mac, BROADCAST))
        out.send(tag(plain_frame(trunk.mac, BROADCAST), 11))
        assert difference(before, verdicts(host)) == {("from_port", "no_port"): 2}
        out.send(tag(plain_frame(trunk.mac, scene.guests[1].mac), 10))
        assert difference(before, verdicts(host))["from_port", "encap"] == 1
