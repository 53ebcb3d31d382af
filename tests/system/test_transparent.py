"""A switch with `vlan: transparent` carries the guests' tags inside its frames."""

import pytest

import traffic
from capture import Capture, tshark_fields
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame, tagged_frame
from overlane import difference, verdicts
from peers import access
from topology import PLAIN, UPLINK, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane

TAGS = {
    "802.1Q": (0x8100, 42),
    "802.1Q with priority 5": (0x8100, 5 << 13 | 42),
    "802.1Q with DEI": (0x8100, 1 << 12 | 42),
    "priority tag": (0x8100, 3 << 13),
    "802.1ad": (0x88A8, 7),
}


def transparent(lab, encapsulation, family=4, wire="whole", **options):
    scene = Scene(lab, encapsulation, family, wire, guests=(2, 1), switch={"vlan": "transparent"},
                  **options).apply()
    traffic.ping(scene.hosts[0].ns, scene.hosts[1].address, count=1)
    return scene


def tag(frame, tpid, tci):
    return frame[:12] + tpid.to_bytes(2, "big") + tci.to_bytes(2, "big") + frame[12:]


@pytest.mark.parametrize("tpid, tci", TAGS.values(), ids=TAGS)
def test_a_tag_arrives_as_it_was_sent(lab, encapsulation, family, tpid, tci):
    scene = transparent(lab, encapsulation, family)
    near, neighbour, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            PacketSocket(near.ns, "eth0") as out, \
            PacketSocket(neighbour.ns, "eth0", ETH_P_ALL) as here, \
            PacketSocket(far.ns, "eth0", ETH_P_ALL) as there:
        frame = tag(plain_frame(near.mac, far.mac), tpid, tci)
        out.send(frame)
        assert there.receive() == frame
        out.send(tag(plain_frame(near.mac, neighbour.mac), tpid, tci))
        assert here.receive() == tag(plain_frame(near.mac, neighbour.mac), tpid, tci)
        shout = tag(plain_frame(near.mac, BROADCAST), tpid, tci)
        out.send(shout)
        assert there.receive() == shout and here.receive() == shout
    outer = {frame[12:14] for frame in capture.raw()}
    assert not outer & {b"\x81\x00", b"\x88\xa8"}, "a guest's tag on the outer frame"


def test_tagged_ip_and_untagged_frames_pass_side_by_side(lab, encapsulation, family):
    scene = transparent(lab, encapsulation, family)
    near, _, far = scene.guests
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for tags in (((0x8100, 42),), ((0x8100, 4094),)):
            frame = tagged_frame(near.mac, far.mac, near.v4, far.v4, tags)
            out.send(frame)
            assert into.receive() == frame
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b, size=traffic.MEBIBYTE)


def test_a_second_tag_is_dropped_and_counted(lab, encapsulation):
    scene = transparent(lab, encapsulation)
    near, _, far = scene.guests
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        before = verdicts(scene.hosts[0].name)
        for tags in (((0x88A8, 42), (0x8100, 7)), ((0x8100, 42), (0x8100, 7))):
            out.send(tagged_frame(near.mac, far.mac, near.v4, far.v4, tags))
        assert into.receive_all() == []
    assert difference(before, verdicts(scene.hosts[0].name)) == {("from_port", "vlan_tag"): 2}


def test_the_inner_tag_stands_where_another_program_expects_it(lab, encapsulation):
    scene = transparent(lab, encapsulation)
    near, _, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out"), PacketSocket(near.ns, "eth0") as out:
        out.send(tagged_frame(near.mac, far.mac, near.v4, far.v4, ((0x8100, 42),)))
    rows = tshark_fields(path, ["vlan.id", "vlan.etype"], display="vlan && ip.src == " + near.v4)
    assert rows == [{"vlan.id": "42", "vlan.etype": "0x0800"}]


def test_the_tag_counts_against_the_underlays_mtu(lab, encapsulation):
    """Four bytes of the inner frame that an untagged one does not have."""
    scene = transparent(lab, encapsulation)
    near, _, far = scene.guests
    fits = scene.mtu - 4
    near.ns.ip(f"link set eth0 mtu {scene.mtu + 8}")
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        before = verdicts(scene.hosts[0].name)
        out.send(tag(plain_frame(near.mac, far.mac, b"x" * (fits + 1)), 0x8100, 42))
        largest = tag(plain_frame(near.mac, far.mac, b"y" * fits), 0x8100, 42)
        out.send(largest)
        assert into.receive() == largest
    rose = difference(before, verdicts(scene.hosts[0].name))
    assert rose["from_port", "pkt_too_big"] == rose["from_port", "encap"] == 1


@pytest.mark.needs(*access.TOOLS)
def test_machines_in_a_vlan_of_the_guests_own_reach_each_other(lab, encapsulation):
    """Open vSwitch with access ports in both guests: real stacks, tagged frames between them. The
    machines' addresses are not in the fabric: a guest that bridges is no `strict` port."""
    scene = transparent(lab, encapsulation, wire=PLAIN, port={"security": "off"})
    near, _, far = scene.guests
    for number, guest in ((91, near), (92, far)):
        guest.ns.ip("address flush dev eth0")
        scene.fabric.data["ports"][f"port{guest.number}"].update(mac=guest_mac(number), addresses=[])
    scene.apply()
    for number, guest in ((91, near), (92, far)):
        switch = access.AccessSwitch(lab, guest, "eth0", scene.mtu - 4)
        switch.access("inner", 42, guest_mac(number), guest_addresses(number))
    for a, b in zip(guest_addresses(91), guest_addresses(92)):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b, size=traffic.MEBIBYTE)
        traffic.udp_equal(near.ns, a, far.ns, b)
