"""UDP super-packets (UDP_SEGMENT, as QUIC sends them) across the overlay: whole where the far side takes them."""

import threading

import pytest

import super_packets
import tap_vm
import traffic
from capture import Capture
from overlane import GENEVE, VXLAN, difference, overlane, port_counters, show, verdicts
from peers import kernel
from super_packets import SHAPES, TOO_LONG
from test_nested import make_router
from topology import WHOLE, Scene, add_guest
from vms import add_vm

pytestmark = pytest.mark.needs_overlane


def greeted(scene):
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    for guest in scene.guests[1:]:
        for address in guest.addresses:
            traffic.ping(scene.guests[0].ns, address)
    return scene


def from_port(host, before):
    """What the super-packets of a host's guests became."""
    rose = difference(before, verdicts(host.name))
    return {verdict: count for (hook, verdict), count in rose.items() if hook == "from_port"}


def assert_nothing_is_dropped(*hosts):
    good = {"to_host", "to_port", "encap", "flood", "answer", "segment", "greeting"}
    for host in hosts:
        counts = verdicts(host.name)
        assert {verdict for _, verdict in counts} <= good, counts


def test_hosts_tell_each_other(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, guests=(1, 1, 1))
    scene.apply(*scene.hosts[:2])
    super_packets.wait_for_greetings(*scene.hosts[:2])
    for host in scene.hosts[:2]:
        assert not super_packets.takes_whole(host, scene.hosts[2]), "it was not there"
    scene.apply(scene.hosts[2])
    super_packets.wait_for_greetings(*scene.hosts)
    table = overlane("show", "remotes", "--host", scene.hosts[0].name).stdout
    assert table.count("whole") == 2 and "segments" not in table
    for host in scene.hosts:
        counts = verdicts(host.name)
        assert counts["from_underlay", "greeting"] >= 4 and ("from_underlay", "vni_zero") not in counts


@pytest.mark.parametrize("joined", [False, True], ids=["one-by-one", "gro"])
def test_between_containers(lab, encapsulation, family, wire, joined):
    scene = greeted(Scene(lab, encapsulation, family, wire))
    near, far = scene.guests
    rounds = 4
    for here, there in ((near, far), (far, near)):
        for a, b in zip(here.addresses, there.addresses):
            before = verdicts(here.host.name)
            longest = super_packets.equal(here.ns, a, there.ns, b, SHAPES, joined, rounds)
            assert from_port(here.host, before) == {"encap": rounds * len(SHAPES)}
            if joined and wire == WHOLE:
                assert longest > 10_000, "nothing arrived joined"
            before = verdicts(here.host.name)
            super_packets.equal(here.ns, a, there.ns, b, TOO_LONG, joined, rounds)
            assert from_port(here.host, before) == {"segment": rounds}
    assert_nothing_is_dropped(*scene.hosts)


@pytest.mark.parametrize("offloads", [tap_vm.TCP_OFFLOADS, tap_vm.ALL_OFFLOADS], ids=["cut-for-it", "takes-them"])
def test_to_and_from_a_vm(lab, encapsulation, family, wire, offloads):
    scene = Scene(lab, encapsulation, family, wire, guests=(0, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9, offloads=offloads)
    far = scene.guests[0]
    greeted(scene)
    for a, b in zip(vm.addresses, far.addresses):
        traffic.ping(vm.ns, b)
        before = verdicts(scene.hosts[1].name)
        super_packets.equal(far.ns, b, vm.ns, a)
        assert from_port(scene.hosts[1], before) == {"encap": 4 * len(SHAPES)}
        before = verdicts(scene.hosts[0].name)
        super_packets.equal(vm.ns, a, far.ns, b, joined=True)
        # What the guest's device gave as one packet is one.
        assert from_port(scene.hosts[0], before) == {"encap": 4 * len(SHAPES)}
    assert_nothing_is_dropped(*scene.hosts)


def test_a_vm_that_takes_them_gets_them_whole(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, guests=(0, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    far = scene.guests[0]
    greeted(scene)
    for a, b in zip(vm.addresses, far.addresses):
        traffic.ping(vm.ns, b)
        path = lab.directory / "vm.pcap"
        with Capture(vm.ns, "eth0", path, "udp", direction="in") as capture:
            super_packets.equal(far.ns, b, vm.ns, a)
        assert max(len(frame) for frame in capture.raw()) > 10_000


def test_a_guest_that_routes_sends_them_on(lab, encapsulation, family, wire):
    """To the router they travel whole, and from it too: its own stack takes the packets as they are."""
    scene = Scene(lab, encapsulation, family, wire, guests=(2, 1))
    (one, near), (three, far) = make_router(scene)
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    for a, b in zip(near, far):
        traffic.ping(one.ns, b)
        super_packets.equal(one.ns, a, three.ns, b)
        super_packets.equal(three.ns, b, one.ns, a, joined=True)
    router = port_counters(scene.hosts[1].name, f"port{scene.guests[2].number}")
    assert router["dropped"]["packets"] == 0 and router["from_port"]["packets"] > 0
    assert_nothing_is_dropped(*scene.hosts)


@pytest.mark.parametrize("behind", ["container", "vm"])
def test_two_tenants_with_the_same_addresses_never_mix(lab, encapsulation, family, wire, behind):
    """Two switches, in both the same MACs, addresses and UDP ports, at the same time: what the kernel joins on
    the way is told apart only by where it goes."""
    scene = Scene(lab, encapsulation, family, wire)
    scene.fabric.switch("red", 6001)
    near, far = scene.guests
    twins = [twin_of(lab, scene, guest, behind) for guest in (near, far)]
    greeted(scene)
    errors = []

    def talk(pair, seed):
        try:
            size, length = 1200, 48_000
            with super_packets.receiver(pair[1].ns, pair[1].v4, joined=True) as into, \
                    traffic.udp_socket(pair[0].ns, pair[0].v4, 5555) as out:
                for number in range(40):
                    data = bytes([seed]) * 8 + traffic.payload(length - 8, seed + number)
                    super_packets.send(out, data, size, (pair[1].v4, 5206))
                    expected = super_packets.cut(data, size)
                    got, _ = super_packets.receive(into, len(expected))
                    assert got == expected, f"tenant {seed}, round {number}: {len(got)} datagrams"
        except Exception as error:  # of another thread: told below
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(pair, seed)) for seed, pair in ((1, (near, far)), (2, twins))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert_nothing_is_dropped(*scene.hosts)


def twin_of(lab, scene, guest, behind):
    """A guest of the other switch on the same host, with the same MAC and addresses."""
    number, name = guest.number + 10, f"port{guest.number + 10}"
    if behind == "vm":
        twin = add_vm(lab, scene, guest.host, number)
        del scene.fabric.data["ports"][f"vm{number}"]
    else:
        twin = add_guest(lab, guest.host, number, scene.mtu)
    twin.ns.ip("address flush dev eth0", f"link set eth0 address {guest.mac}", f"address add {guest.v4}/24 dev eth0",
               f"address add {guest.v6}/64 dev eth0 nodad")
    twin.mac, twin.v4, twin.v6 = guest.mac, guest.v4, guest.v6
    scene.fabric.port(name, "red", guest.host.name, twin.device, guest.mac, guest.addresses)
    return twin


def test_a_kernels_vxlan_device_gets_segments(lab, family, wire):
    """It answers no greeting, and nobody greets it twice."""
    scene = Scene(lab, VXLAN, family, wire, peers=[2])
    one, two = scene.hosts
    kernel.join(two, one.address, scene.vni, two.guests, mtu=scene.mtu)
    scene.apply()
    near, far = scene.guests
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        before = verdicts(one.name)
        super_packets.equal(near.ns, a, far.ns, b)
        assert from_port(one, before) == {"segment": 4 * len(SHAPES)}
        super_packets.equal(far.ns, b, near.ns, a)
    assert not super_packets.takes_whole(one, two)
    assert "segments" in overlane("show", "remotes", "--host", one.name).stdout
    assert_nothing_is_dropped(one)


def test_what_a_remote_said_is_forgotten_when_it_is_gone(lab, encapsulation):
    """A host that answers no more, as an older Overlane would not: after the next `apply` it gets segments."""
    scene = greeted(Scene(lab, encapsulation))
    one, two = scene.hosts
    overlane("remove", "--host", two.name, "--netns", two.netns)
    scene.apply(one)
    assert not super_packets.takes_whole(one, two)
    near, far = scene.guests
    before = verdicts(one.name)
    with traffic.udp_socket(near.ns, near.v4) as out:
        super_packets.send(out, traffic.payload(48_000), 1200, (far.v4, 5206))
    assert from_port(one, before) == {"segment": 1}
    scene.apply(two)
    super_packets.wait_for_greetings(*scene.hosts)
    super_packets.equal(near.ns, near.v4, far.ns, far.v4)


def test_a_greeting_goes_by_no_guest(lab, encapsulation, family):
    """Neither a port nor a remote counts them, and no guest sees them."""
    scene = Scene(lab, encapsulation, family)
    near = scene.guests[0]
    with Capture(near.ns, "eth0", lab.directory / "g.pcap", "ether proto 0x88b5") as capture:
        greeted(scene)
        scene.apply()
    assert capture.raw() == []
    for host in scene.hosts:
        assert show("counters", host.name)["verdicts"]
