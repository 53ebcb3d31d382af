"""A port whose device is a TAP with vnet_hdr, as a virtual machine has it."""

import pytest

import tap_vm
import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from overlane import verdicts
from topology import Guest, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane


def add_vm(lab, scene, host, number):
    """A guest behind a TAP, on the scene's switch."""
    ns = lab.namespace(f"v{number}")
    v4, v6 = guest_addresses(number)
    vm = Guest(ns, host, f"tap{number}", number, guest_mac(number), v4, v6)
    tap_vm.start(lab, host.ns, vm.device, ns)
    host.ns.sysctl(f"net.ipv6.conf.{vm.device}.disable_ipv6", 1)
    host.ns.ip(f"link set {vm.device} up")
    ns.ip(f"link set eth0 address {vm.mac} mtu {scene.mtu} up",
          f"address add {v4}/24 dev eth0", f"address add {v6}/64 dev eth0 nodad")
    scene.fabric.port(f"vm{number}", "blue", host.name, vm.device, vm.mac, vm.addresses)
    return vm


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
