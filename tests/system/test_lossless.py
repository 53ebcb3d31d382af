"""No packet is lost while the fabric, or the program itself, is replaced under traffic."""

import copy
import hashlib
import threading

import pytest

import second_build
import state
import super_packets
import traffic
from net import wait_until
from overlane import GENEVE, VXLAN, apply, hook_sum, verdicts
from topology import Scene, add_guest
from vms import add_vm

pytestmark = pytest.mark.needs_overlane

ROUNDS = 50


def two_fabrics(lab, scene):
    """Files that really differ: ports, switches, source ports, flooding."""
    spare = add_guest(lab, scene.hosts[0], 20, scene.mtu)
    first = scene.fabric.write(lab.directory / "first.yaml")
    second = copy.deepcopy(scene.fabric)
    second.switch("red", 6001, unknown_unicast="flood")
    second.port("spare", "red", scene.hosts[0].name, spare.device, spare.mac, spare.addresses)
    second.port("elsewhere", "blue", scene.hosts[1].name, "not-here", "02:00:00:00:77:01")
    second.data["switches"]["blue"]["unknown_unicast"] = "flood"
    second.data["tunnel"]["source_ports"] = "50000-60000"
    second.host("h99", scene.hosts[0].address.replace("0.1", "0.99").replace("::1", "::99"))
    return first, second.write(lab.directory / "second.yaml")


def backlog_drops(scene):
    """Packets that the kernel dropped before any program saw them, on all devices of the scene.

    A processor has one backlog for every veth of the machine (net.core.netdev_max_backlog). Another test that floods
    fills it, and each veth counts in `rx_dropped` what it lost there (enqueue_to_backlog, net/core/dev.c).
    """
    namespaces = [machine.ns for machine in (*scene.hosts, *scene.guests)]
    return sum(link["stats64"]["rx"]["dropped"] for ns in namespaces for link in ns.json("-s -d link show"))


def assert_nothing_is_lost(scene, out, back, drops_before):
    lost, drops = out.lost() + back.lost(), backlog_drops(scene) - drops_before
    assert len(lost) <= drops, (f"of {out.sent} and {back.sent} datagrams {out.lost()} and {back.lost()} are lost; "
                                f"the kernel's backlog dropped {drops} packets")


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)])
def test_fifty_changes_of_the_fabric_lose_no_packet(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    files = two_fabrics(lab, scene)
    traffic.ping(near.ns, far.v4)
    drops = backlog_drops(scene)
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4) as out, \
            traffic.PacedUdp(far.ns, far.v4, near.ns, near.v4, port=5204) as back:
        for number in range(ROUNDS):
            done = apply(files[(number + 1) % 2], host.name, host.netns)
            assert "nothing differs" not in done.stdout
        out.finish()
        back.finish()
        assert min(out.sent, back.sent) > 10 * ROUNDS
        assert_nothing_is_lost(scene, out, back, drops)
    unknown = [key for key in verdicts(host.name) if key[1] in ("no_port", "not_configured",
                                                               "unknown_switch", "unknown_unicast")]
    assert not unknown


@pytest.mark.thorough
def test_another_build_with_a_larger_map_value_takes_over_without_loss(lab):
    second = second_build.program()
    if second is None:
        pytest.skip("needs a second build of the program: tests/system/second_build.py")
    scene = Scene(lab, GENEVE, 4).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    path = lab.directory / "fabric.yaml"
    old_sets = state.map_sets(host.name)
    traffic.ping(near.ns, far.v4)
    drops = backlog_drops(scene)
    with traffic.PacedUdp(near.ns, near.v4, far.ns, far.v4) as out, \
            traffic.PacedUdp(far.ns, far.v4, near.ns, near.v4, port=5204) as back:
        wait_until(lambda: out.sent > 200, what="traffic")
        for previous, program in ((None, second), (second, None), (None, second)):
            before = hook_sum(verdicts(host.name, program=previous), "from_port")
            done = apply(path, host.name, host.netns, program=program)
            assert "nothing differs" not in done.stdout
            after = hook_sum(verdicts(host.name, program=program), "from_port")
            assert after >= before, "counters went back"
            wait_until(lambda sent=out.sent: out.sent > sent + 200, what="traffic")
        out.finish()
        back.finish()
        assert_nothing_is_lost(scene, out, back, drops)
    (new_set,) = state.map_sets(host.name)
    assert [new_set] != old_sets, "the maps must be another set"
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)


class Streams:
    """A TCP connection each way between a VM and a guest, which goes on until it is stopped."""

    def __init__(self, vm, far, port=5310):
        self._stop = threading.Event()
        self.errors = []
        self.ways = [Stream(*pair, port + number, self._stop, self.errors)
                     for number, pair in enumerate(((far, vm), (vm, far)))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        for way in self.ways:
            way.finish()

    def moved(self, size=4 * traffic.MEBIBYTE):
        """Waits until each way has carried so much more."""
        before = [way.received for way in self.ways]
        wait_until(lambda: self.errors or all(way.received > was + size for way, was in zip(self.ways, before)),
                   timeout=30, what="the streams go on")


class Stream:
    def __init__(self, source, target, port, stop, errors):
        self.received, self._errors, self._stop = 0, errors, stop
        self.sums = [hashlib.sha256(), hashlib.sha256()]
        self._out, self._in = traffic.connection(source.ns, source.v4, target.ns, target.v4, port)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        block = traffic.payload(1 << 18, 3)
        try:
            while not self._stop.is_set():
                self._out.sendall(block)
                self.sums[0].update(block)
            self._out.shutdown(1)
        except OSError as error:
            self._errors.append(f"send: {error}")

    def _receive(self):
        try:
            while block := self._in.recv(1 << 18):
                self.sums[1].update(block)
                self.received += len(block)
        except OSError as error:
            self._errors.append(f"receive: {error}")

    def finish(self):
        for thread in self._threads:
            thread.join(30)
        self._out.close()
        self._in.close()
        if self.sums[0].digest() != self.sums[1].digest():
            self._errors.append("the bytes differ")


def test_streams_to_a_vm_survive_changes_of_the_fabric(lab, encapsulation, wire):
    scene, vm = scene_with_vm(lab, encapsulation, wire)
    host, files = scene.hosts[0], two_fabrics(lab, scene)
    with Streams(vm, scene.guests[0]) as streams:
        for number in range(6):
            streams.moved()
            apply(files[(number + 1) % 2], host.name, host.netns)
        streams.moved()
    assert not streams.errors


def scene_with_vm(lab, encapsulation, wire="whole"):
    scene = Scene(lab, encapsulation, 4, wire, guests=(0, 1))
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    traffic.ping(vm.ns, scene.guests[0].v4)
    return scene, vm


@pytest.mark.thorough
def test_another_build_takes_over_from_under_a_vm(lab, encapsulation):
    """TCP goes on. Of UDP super-packets none is lost: what remotes said they can take holds for another build, which asks them again."""
    second = second_build.program()
    if second is None:
        pytest.skip("needs a second build of the program: tests/system/second_build.py")
    scene, vm = scene_with_vm(lab, encapsulation)
    far, host, path = scene.guests[0], scene.hosts[0], lab.directory / "fabric.yaml"
    with Streams(vm, far) as streams:
        for program in (second, None, second):
            streams.moved()
            apply(path, host.name, host.netns, program=program)
        streams.moved()
    assert not streams.errors
    with PacedSuperPackets(far, vm) as paced:
        for program in (None, second):
            wait_until(lambda sent=paced.sent: paced.sent > sent + 50, what="super-packets")
            apply(path, host.name, host.netns, program=program)
        wait_until(lambda sent=paced.sent: paced.sent > sent + 50, what="super-packets")
    assert paced.received == paced.sent * 40, "datagrams are lost"


def test_super_packets_travel_whole_while_hosts_apply(lab, encapsulation):
    """What a remote said holds until it says it again, and a detour that is made anew opens when it is whole."""
    scene, vm = scene_with_vm(lab, encapsulation)
    far, path = scene.guests[0], lab.directory / "fabric.yaml"
    receiving, sending = scene.hosts
    with PacedSuperPackets(far, vm) as paced:
        for host in (sending, receiving, sending):
            wait_until(lambda sent=paced.sent: paced.sent > sent + 20, what="super-packets")
            apply(path, host.name, host.netns)
        wait_until(lambda sent=paced.sent: paced.sent > sent + 20, what="super-packets")
    assert ("from_port", "segment") not in verdicts(sending.name)
    assert paced.received == paced.sent * 40, "datagrams are lost"


def test_a_remote_that_no_longer_answers_is_forgotten(lab, encapsulation):
    """It may be another build now, that takes no UDP super-packets whole."""
    scene, vm = scene_with_vm(lab, encapsulation)
    receiving, sending = scene.hosts
    assert super_packets.takes_whole(sending, receiving)
    receiving.ns.ip("link set uplink down")
    apply(lab.directory / "fabric.yaml", sending.name, sending.netns)
    assert not super_packets.takes_whole(sending, receiving)


class PacedSuperPackets:
    """Super-packets of 40 datagrams, one every few milliseconds, until the block ends; counts what arrives."""

    def __init__(self, source, target, port=5320):
        self._out = traffic.udp_socket(source.ns, source.v4)
        self._in = super_packets.receiver(target.ns, target.v4, port, timeout=0.5)
        self._to = (target.v4, port)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        self.sent = self.received = 0

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._out.close()
        self._in.close()

    def _send(self):
        while not self._stop.wait(0.005):
            super_packets.send(self._out, traffic.payload(48_000), 1200, self._to)
            self.sent += 1

    def _receive(self):
        while got := len(super_packets.receive(self._in, 40)[0]):
            self.received += got
