"""Guests that are more than hosts: routers, tunnel end points, senders of VLAN tags."""

import struct

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

import traffic
from capture import Capture
from frames import ETH_P_ALL, PacketSocket, tagged_frame
from overlane import difference, port_counters, verdicts
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane


def make_router(scene):
    """Guest 2, on the other host, routes between guest 1 and guest 3 through one port."""
    one, three, two = scene.guests
    for guest, mine in ((one, 1), (three, 3)):
        other = 3 if mine == 1 else 1
        guest.ns.ip("address flush dev eth0",
                    f"address add 198.18.10{mine}.{mine}/24 dev eth0",
                    f"address add 2001:2:0:a{mine}::{mine}/64 dev eth0 nodad",
                    f"route add 198.18.10{other}.0/24 via 198.18.10{mine}.254",
                    f"route add 2001:2:0:a{other}::/64 via 2001:2:0:a{mine}::fe")
    two.ns.ip("address flush dev eth0",
              *(f"address add 198.18.10{side}.254/24 dev eth0" for side in (1, 3)),
              *(f"address add 2001:2:0:a{side}::fe/64 dev eth0 nodad" for side in (1, 3)),
              "address add fe80::fe/64 dev eth0 nodad")
    for where in ("all", "eth0"):
        two.ns.sysctl(f"net.ipv4.conf.{where}.send_redirects", 0)
    two.ns.sysctl("net.ipv4.ip_forward", 1)
    two.ns.sysctl("net.ipv6.conf.all.forwarding", 1)
    addresses = {one: ["198.18.101.1", "2001:2:0:a1::1"], three: ["198.18.103.3", "2001:2:0:a3::3"],
                 two: ["198.18.101.254", "198.18.103.254", "2001:2:0:a1::fe", "2001:2:0:a3::fe"]}
    for guest, own in addresses.items():
        scene.fabric.data["ports"][f"port{guest.number}"]["addresses"] = own
    # A router sends for others, their addresses with its own MAC, and redirects who goes a long way round.
    scene.fabric.data["ports"][f"port{two.number}"].update(security="mac",
                                                          allow=["router_advertisement"])
    return (one, addresses[one]), (three, addresses[three])


def test_a_guest_routes_packets_back_into_the_overlay(lab, encapsulation, family, wire):
    scene = Scene(lab, encapsulation, family, wire, guests=(2, 1))
    (one, near), (three, far) = make_router(scene)
    scene.apply()
    for a, b in zip(near, far):
        traffic.ping(one.ns, b)
        traffic.tcp_equal(one.ns, a, three.ns, b)
        traffic.udp_equal(one.ns, a, three.ns, b)
    router = port_counters(scene.hosts[1].name, f"port{scene.guests[2].number}")
    assert router["from_port"]["packets"] > 0 and router["dropped"]["packets"] == 0


@pytest.mark.parametrize("inner_family", [4, 6], ids=["over-v4", "over-v6"])
def test_a_guest_has_a_vxlan_tunnel_of_its_own(lab, encapsulation, family, wire, inner_family):
    scene = Scene(lab, encapsulation, family, wire).apply()
    near, far = scene.guests
    mtu = scene.mtu - (50 if inner_family == 4 else 70)
    ends = []
    for guest, other, last in ((near, far, 1), (far, near, 2)):
        local, remote = ((guest.v4, other.v4) if inner_family == 4 else (guest.v6, other.v6))
        zero = "" if inner_family == 4 else "udp6zerocsumtx udp6zerocsumrx"
        guest.ns.ip(f"link add vx type vxlan id 77 local {local} remote {remote} dstport 4789"
                    f" dev eth0 {zero}",
                    f"link set vx mtu {mtu} up", f"address add 198.19.0.{last}/24 dev vx",
                    f"address add 2001:2:0:99::{last}/64 dev vx nodad")
        ends.append((f"198.19.0.{last}", f"2001:2:0:99::{last}"))
    for a, b in zip(*ends):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b)
    counts = verdicts(scene.hosts[0].name)
    assert not [key for key in counts if key[1] in ("gso_unsupported", "encap_failed")], counts


TAGS = {
    "802.1Q": ((0x8100, 42),),
    "priority": ((0x8100, 0),),
    "802.1ad": ((0x88A8, 42),),
    "QinQ": ((0x88A8, 42), (0x8100, 7)),
    "802.1Q twice": ((0x8100, 42), (0x8100, 7)),
}


def tagged(raw):
    """Frames with a tag in the outermost header."""
    return [frame for frame in raw if frame[12:14] in (b"\x81\x00", b"\x88\xa8")]


@pytest.mark.parametrize("tags", TAGS.values(), ids=TAGS)
def test_a_tag_in_a_guests_frame_never_shows_on_the_underlay(lab, encapsulation, tags):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    before = verdicts(scene.hosts[0].name)
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for target in (far.mac, "ff:ff:ff:ff:ff:ff"):
            out.send(tagged_frame(near.mac, target, near.v4, far.v4, tags))
        assert not [frame for frame in into.receive_all() if b"tagged" in frame]
    assert not tagged(capture.raw()) and not [each for each in capture.raw() if b"tagged" in each]
    assert difference(before, verdicts(scene.hosts[0].name)) == {("from_port", "vlan_tag"): 2}


def test_a_tagged_super_packet_is_dropped_whole(lab, encapsulation, wire):
    """The port's device moves the tag into packet metadata, where it is easy to lose."""
    scene = Scene(lab, encapsulation, 4, wire).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    before = verdicts(scene.hosts[0].name)
    frame = super_packet(near, far, vlan=42)
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path, direction="out") as capture, \
            PacketSocket(near.ns, "eth0", vnet_hdr=True) as out:
        out.send(frame)
    assert not tagged(capture.raw()) and not [each for each in capture.raw() if b"tagged" in each]
    assert difference(before, verdicts(scene.hosts[0].name)) == {("from_port", "vlan_tag"): 1}


def test_the_same_super_packet_without_a_tag_passes(lab, encapsulation, wire):
    scene = Scene(lab, encapsulation, 4, wire).apply()
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    path = lab.directory / "g.pcap"
    with Capture(far.ns, "eth0", path, direction="in") as capture, \
            PacketSocket(near.ns, "eth0", vnet_hdr=True) as out:
        out.send(super_packet(near, far))
    assert b"".join(each[54:] for each in capture.raw() if b"tagged" in each) == PAYLOAD


PAYLOAD = b"tagged!!" * 1250
VNET_NEEDS_CSUM, VNET_GSO_TCPV4 = 1, 1


def super_packet(near, far, vlan=None):
    """10 000 bytes of TCP in one frame, cut at 1000, with its virtio_net_hdr."""
    frame = Ether(src=near.mac, dst=far.mac)
    if vlan is not None:
        frame /= Dot1Q(vlan=vlan)
    headers = len(frame) + 20
    frame = bytes(frame / IP(src=near.v4, dst=far.v4) / TCP(sport=9, dport=9, flags="A")
                  / Raw(PAYLOAD))
    return struct.pack("<BBHHHH", VNET_NEEDS_CSUM, VNET_GSO_TCPV4, headers + 20, 1000, headers,
                       16) + frame
