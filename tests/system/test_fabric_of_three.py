"""Three hosts on one underlay: unicast and multicast behave as on a physical switch, whatever carries
the frames between the hosts: VXLAN, Geneve, or a VLAN of the underlay."""

import contextlib
import itertools
import socket
import struct

import pytest

import traffic
from capture import Capture, tshark_count
from frames import ETH_P_ALL, PacketSocket, plain_frame
from overlane import GENEVE, VLAN, VXLAN, difference, verdicts
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

#: RFC 5771 §6.1 and RFC 3849 have no groups for tests; this one is local to the site by its scope.
GROUP4, GROUP6 = "239.18.0.42", "ff05::4242"
ALL_NODES = "ff02::1"


@pytest.fixture(params=[(VXLAN, 4), (VXLAN, 6), (GENEVE, 4), (GENEVE, 6), (VLAN, 4)],
                ids=["vxlan-v4", "vxlan-v6", "geneve-v4", "geneve-v6", "vlan"])
def scene(request, lab):
    """Four guests on three hosts; the hosts know each other's next hops already."""
    encapsulation, family = request.param
    scene = Scene(lab, encapsulation, family, guests=(2, 1, 1)).apply()
    for one, other in itertools.permutations(scene.hosts, 2):
        traffic.ping(one.ns, other.address, count=1)
    return scene


def test_every_guest_reaches_every_other(scene):
    for a, b in itertools.permutations(scene.guests, 2):
        traffic.ping(a.ns, b.v4, count=1)
        traffic.ping(a.ns, b.v6, count=1)


def test_tcp_and_udp_between_all_hosts(scene):
    for a, b in itertools.combinations(scene.guests, 2):
        for source, target in zip(a.addresses, b.addresses):
            traffic.tcp_equal(a.ns, source, b.ns, target, size=traffic.MEBIBYTE)
            traffic.udp_equal(a.ns, source, b.ns, target)


def test_the_largest_packet_of_the_guests_mtu_passes(scene):
    near, *others = scene.guests
    for other in others:
        traffic.ping(near.ns, other.v4, count=1, size=scene.mtu - 28)
        traffic.ping(near.ns, other.v6, count=1, size=scene.mtu - 48)


@contextlib.contextmanager
def members(guests, group, port):
    """A socket in each guest that has joined the group."""
    family = socket.AF_INET6 if ":" in group else socket.AF_INET
    with contextlib.ExitStack() as stack:
        sockets = []
        for guest in guests:
            with guest.ns.entered():
                sock = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                index = socket.if_nametoindex("eth0")
                if family == socket.AF_INET6:
                    request = socket.inet_pton(family, group) + struct.pack("=I", index)
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
                else:
                    request = struct.pack("=4s4si", socket.inet_aton(group), bytes(4), index)
                    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
                sock.bind((group, port))
            sock.settimeout(2.0)
            sockets.append(sock)
        yield sockets


def received(sock):
    """Every datagram until nothing has come for a while."""
    got = []
    with contextlib.suppress(socket.timeout):
        while True:
            got.append(sock.recv(65535))
            sock.settimeout(0.3)
    return got


@pytest.mark.parametrize("group", [GROUP4, GROUP6], ids=["v4", "v6"])
def test_multicast_reaches_every_member_once_and_not_the_sender(scene, group):
    sender, *others = scene.guests
    v6 = ":" in group
    with members(others, group, 5400) as sockets, \
            PacketSocket(sender.ns, "eth0", ETH_P_ALL) as own, \
            traffic.udp_socket(sender.ns, sender.v6 if v6 else sender.v4) as out:
        if v6:
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 2)
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
            with sender.ns.entered():
                index = socket.if_nametoindex("eth0")
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, struct.pack("=I", index))
        else:
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                           socket.inet_aton(sender.v4))
        for number in range(3):
            out.sendto(b"to the group %d" % number, (group, 5400))
        expected = [b"to the group %d" % number for number in range(3)]
        assert [received(sock) for sock in sockets] == [expected] * len(others)
        assert not [frame for frame in own.receive_all() if b"to the group" in frame]


def test_a_ping_to_all_nodes_is_answered_by_every_other_guest(scene):
    sender, *others = scene.guests
    with sender.ns.entered():
        sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.getprotobyname("ipv6-icmp"))
        index = socket.if_nametoindex("eth0")
    with sock:
        sock.bind((sender.v6, 0))
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, struct.pack("=I", index))
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
        sock.sendto(struct.pack("!BBHHH", 128, 0, 0, 7, 1) + b"all nodes", (ALL_NODES, 0, 0, index))
        answered = []
        sock.settimeout(2.0)
        with contextlib.suppress(socket.timeout):
            while True:
                packet, address = sock.recvfrom(65535)
                if packet[0] == 129 and packet[8:] == b"all nodes":
                    answered.append(address[0])
                    sock.settimeout(0.3)
    assert sorted(answered) == sorted(guest.v6 for guest in others)


def test_a_unicast_frame_goes_to_its_host_alone(scene):
    """As on a switch: nobody but the owner of the address sees it."""
    sender, neighbour, far, elsewhere = scene.guests
    traffic.ping(sender.ns, far.v4)  # the underlay is a switch as well, and has to learn first
    before = verdicts(scene.hosts[2].name)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(PacketSocket(guest.ns, "eth0", ETH_P_ALL))
                   for guest in (neighbour, elsewhere)]
        into = stack.enter_context(PacketSocket(far.ns, "eth0", ETH_P_ALL))
        out = stack.enter_context(PacketSocket(sender.ns, "eth0"))
        frame = plain_frame(sender.mac, far.mac, b"for one pair of eyes only, whatever" * 2)
        out.send(frame)
        assert into.receive() == frame
        assert not [each for sock in sockets for each in sock.receive_all() if frame[14:] in each]
    rose = difference(before, verdicts(scene.hosts[2].name))
    assert not [key for key in rose if key != ("from_underlay", "to_host")], rose


def test_the_underlay_carries_what_the_switch_says(scene, lab):
    near, far = scene.guests[0], scene.guests[2]
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap") as capture:
        traffic.ping(near.ns, far.v4)
    tunnel, vlan = (tshark_count(capture.path, display) for display in
                    ("(vxlan || geneve) && icmp", "vlan.id == 100 && icmp"))
    if scene.encapsulation == VLAN:
        assert tunnel == 0 and vlan >= 6
        assert tshark_count(capture.path, "icmp && !vlan") == 0
    else:
        assert tunnel >= 6 and vlan == 0
