"""A port whose device is a TAP with vnet_hdr, as a virtual machine has it."""

import socket

import pytest

import tap_vm
import traffic
from capture import Capture
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from overlane import difference, port_counters, show, verdicts
from topology import UPLINK, WHOLE, Scene
from vms import add_trunk, add_vm

pytestmark = pytest.mark.needs_overlane


def went_the_way(counts):
    return counts.get(("from_unmarker", "to_port"), 0) > 0

#: No frame is as long unless it is a super-packet.
SUPER = 10_000


def largest_tcp(lab, vm, far, a, b):
    """The longest frame that a VM gets in a stream from `far` (address `b`) that arrives byte for byte."""
    path = lab.directory / "vm.pcap"
    traffic.tcp_in_super_packets(far.ns)
    with Capture(vm.ns, "eth0", path, "tcp", direction="in") as capture:
        traffic.tcp_equal(far.ns, b, vm.ns, a)
    return max(len(frame) for frame in capture.raw())



def test_tcp_between_a_vm_and_a_container(lab, encapsulation, family, wire):
    scene = Scene(lab, encapsulation, family, wire)
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far = scene.guests[1]
    for a, b in zip(vm.addresses, far.addresses):
        traffic.ping(vm.ns, b)
        traffic.tcp_equal(vm.ns, a, far.ns, b)
        traffic.tcp_equal(far.ns, b, vm.ns, a, port=5301, size=traffic.MEBIBYTE)
        traffic.udp_equal(far.ns, b, vm.ns, a)


def test_tcp_with_ip_options_reaches_a_vm(lab, encapsulation, family):
    """What GRO passes over goes straight: behind the unmarker some kernels would crash of it."""
    scene = Scene(lab, encapsulation, family)
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far = scene.guests[1]
    before = verdicts(scene.hosts[0].name)
    near, server = traffic.connection(far.ns, far.v4, vm.ns, vm.v4)
    with near, server:
        near.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([1, 1, 1, 1]))
        errors = []
        traffic.exchange(near, server, 8 * traffic.MEBIBYTE, 20, errors)
    assert not errors, errors
    counts = difference(before, verdicts(scene.hosts[0].name))
    assert counts["from_underlay", "to_port"] > 100 and not went_the_way(counts)


def test_tcp_between_two_vms(lab, encapsulation, wire):
    scene = Scene(lab, encapsulation, 4, wire)
    one, two = (add_vm(lab, scene, host, 8 + host.number) for host in scene.hosts)
    scene.apply()
    for a, b in zip(one.addresses, two.addresses):
        traffic.ping(one.ns, b)
        traffic.tcp_equal(one.ns, a, two.ns, b)


def test_a_vm_and_a_container_on_the_same_host(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    neighbour = scene.guests[0]
    for a, b in zip(vm.addresses, neighbour.addresses):
        traffic.ping(vm.ns, b)
        traffic.tcp_equal(vm.ns, a, neighbour.ns, b)
    assert verdicts(scene.hosts[0].name)["from_port", "to_port"] > 0


def test_a_vm_gets_frames_that_are_not_ip_and_broadcasts(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far = scene.guests[1]
    traffic.ping(scene.hosts[1].ns, scene.hosts[0].address, count=1)
    with PacketSocket(far.ns, "eth0") as out, PacketSocket(vm.ns, "eth0", ETH_P_ALL) as into:
        for target in (vm.mac, BROADCAST):
            frame = plain_frame(far.mac, target)
            out.send(frame)
            assert into.receive() == frame


@pytest.fixture
def scene(lab, encapsulation, family, wire):
    """A guest on the second host; whatever arrives at the first one is for its VM. Uplinks join what comes cut."""
    scene = Scene(lab, encapsulation, family, wire, guests=(0, 1))
    for host in scene.hosts:
        host.ns.ethtool(UPLINK, on=("gro",))
    return scene


def test_super_packets_arrive_whole(lab, scene):
    """Not cut before the TAP: with their mark the kernel would. What the wire cut, it has joined before."""
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far, host = scene.guests[0], scene.hosts[0].name
    assert [row["super_packets"] for row in show("ports", host)["ports"]] == ["unmarker"]
    for a, b in zip(vm.addresses, far.addresses):
        traffic.ping(vm.ns, b)
        before = verdicts(host)
        assert largest_tcp(lab, vm, far, a, b) > SUPER
        assert went_the_way(difference(before, verdicts(host)))


def test_the_port_counts_each_packet_once_and_nothing_is_dropped(lab, scene):
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far, host = scene.guests[0], scene.hosts[0].name
    traffic.speak(vm, far)
    counts, port = verdicts(host), port_counters(host, "vm9")
    joined = counts.get(("from_coalescer", "to_port"), 0)
    assert port["to_port"]["packets"] == counts["from_underlay", "to_port"] + joined
    assert port["dropped"]["packets"] == 0
    delivered = sum(counts.get((hook, "to_port"), 0) for hook in ("from_unmarker", "from_coalescer"))
    assert delivered > 0
    assert {verdict for _, verdict in counts} <= {"to_host", "to_port", "encap", "answer", "greeting", "coalesce"}, counts
    assert scene.hosts[0].ns.link(vm.device)["stats64"]["tx"]["dropped"] == 0


def test_fragments_of_large_datagrams_arrive(lab, scene):
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far = scene.guests[0]
    for a, b in zip(vm.addresses, far.addresses):
        traffic.ping(vm.ns, b)
        # Beside them a stream of super-packets, which go another way.
        traffic.tcp_equal(far.ns, b, vm.ns, a, size=traffic.MEBIBYTE)
    traffic.fragments_equal(vm, far)
    traffic.fragments_equal(far, vm)


@pytest.mark.needs("nft")
def test_a_mark_of_congestion_reaches_a_vm(lab, encapsulation, family, wire):
    """A bottleneck of the underlay marks the outer header; the detour keeps what decap handed on."""
    scene = Scene(lab, encapsulation, family, wire, guests=(0, 1), bridge=True)
    scene.hosts[0].ns.ethtool(UPLINK, on=("gro",))
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    far = scene.guests[0]
    ip = "ip" if family == 4 else "ip6"
    scene.underlay.bridge.run(["nft", "-f", "-"], input=f"""
        table netdev bottleneck {{
            chain marks {{
                type filter hook ingress device "to2" priority 0;
                {ip} ecn ect0 {ip} ecn set ce
            }}
        }}
    """)
    for guest in (vm, far):
        guest.ns.sysctl("net.ipv4.tcp_ecn", 1)
    for a, b in zip(vm.addresses, far.addresses):
        path = lab.directory / "vm.pcap"
        with Capture(vm.ns, "eth0", path, f"tcp and src {b} and greater 1000", direction="in") as capture:
            traffic.tcp_equal(far.ns, b, vm.ns, a, size=traffic.MEBIBYTE)
        marks = {frame[15] & 3 if "." in a else frame[15] >> 4 & 3 for frame in capture.raw()}
        # What TCP sends again is not ECT (RFC 3168 section 6.1.5).
        assert 3 in marks and marks <= {0, 3}, "not every segment of data is marked"


def test_a_tap_with_several_queues(lab, encapsulation, wire):
    scene = Scene(lab, encapsulation, 4, wire, guests=(0, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9, queues=4)
    scene.apply()
    far = scene.guests[0]
    traffic.speak(vm, far, size=4 * traffic.MEBIBYTE)
    traffic.fragments_equal(vm, far)
    if wire == WHOLE:
        assert largest_tcp(lab, vm, far, vm.v4, far.v4) > SUPER


def test_a_tap_that_takes_no_udp_super_packets(lab, encapsulation):
    """An older virtual machine: of TCP they arrive whole all the same."""
    scene = Scene(lab, encapsulation, 4, guests=(0, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9, offloads=tap_vm.TCP_OFFLOADS)
    scene.apply()
    assert largest_tcp(lab, vm, scene.guests[0], vm.v4, scene.guests[0].v4) > SUPER


def test_two_guests_on_a_trunk_of_a_tap(lab, encapsulation, family, wire):
    """Told apart by the tag, in two switches with the same addresses."""
    scene = Scene(lab, encapsulation, family, wire, guests=(0, 2))
    scene.fabric.switch("red", 6001)
    scene.fabric.data["ports"]["port2"]["switch"] = "red"
    guests = add_trunk(lab, scene, scene.hosts[0], "tap0", {10: 81, 20: 82})
    for (tag, guest), switch in zip(guests.items(), ("blue", "red")):
        scene.fabric.port(f"vm{guest.number}", switch, guest.host.name, guest.device, guest.mac,
                          guest.addresses, vlan=tag)
    scene.apply()
    before = verdicts(scene.hosts[0].name)
    for (tag, guest), far in zip(guests.items(), scene.guests):
        traffic.speak(guest, far)
        traffic.fragments_equal(guest, far)
    if wire == WHOLE:
        for guest, far in zip(guests.values(), scene.guests):
            assert largest_tcp(lab, guest, far, guest.v4, far.v4) > SUPER
        assert went_the_way(difference(before, verdicts(scene.hosts[0].name)))
    one, other = guests.values()
    assert traffic.pings(one.ns, scene.guests[1].v4, timeout=0.3) == 0
    assert traffic.pings(other.ns, scene.guests[0].v4, timeout=0.3) == 0
    for guest in guests.values():
        assert port_counters(scene.hosts[0].name, f"vm{guest.number}")["dropped"]["packets"] == 0


def test_tagged_guests_of_a_transparent_switch(lab, encapsulation, family, wire):
    """The tag is the guests' own, on both sides, and takes the detour with the frame."""
    scene = Scene(lab, encapsulation, family, wire, guests=(0, 0), switch={"vlan": "transparent"})
    scene.mtu -= 4
    sides = [add_trunk(lab, scene, host, "tap0", {7: number}) for host, number in zip(scene.hosts, (81, 82))]
    (one,), (two,) = (side.values() for side in sides)
    for guest in (one, two):
        scene.fabric.port(f"vm{guest.number}", "blue", guest.host.name, guest.device, guest.mac, guest.addresses)
    scene.apply()
    traffic.speak(one, two)
    traffic.fragments_equal(one, two)
    if wire == WHOLE:
        for a, b in zip(one.addresses, two.addresses):
            assert largest_tcp(lab, one, two, a, b) > SUPER
        for host in scene.hosts:
            assert went_the_way(verdicts(host.name))


def test_behind_a_bridge_may_be_anything(lab, encapsulation):
    """A veth whose other end is in a bridge, as of a host of virtual machines inside a guest: the TAP there gets whole super-packets."""
    scene = Scene(lab, encapsulation, 4)
    near, far = scene.guests
    near.ns.ip("link add br0 type bridge", f"link set br0 address {near.mac} mtu {scene.mtu} up", "address flush dev eth0",
               "link set eth0 master br0", f"address add {near.v4}/24 dev br0")
    scene.apply()
    assert [row["super_packets"] for row in show("ports", near.host.name)["ports"]] == ["unmarker"]
    before = verdicts(near.host.name)
    traffic.tcp_equal(far.ns, far.v4, near.ns, near.v4)
    assert went_the_way(difference(before, verdicts(near.host.name)))
