"""The tests' own ground: peers without Overlane. If these fail, the machine is at fault."""

import pytest

import traffic
from overlane import VXLAN
from peers import kernel, ovs
from topology import PLAIN, Underlay, add_guest, guest_mtu


def test_two_kernel_vxlan_hosts_carry_tcp_in_both_wire_modes(lab, family, wire):
    underlay = Underlay(lab, 2, family, wire)
    one, two = underlay.hosts
    mtu = guest_mtu(VXLAN, family)
    near, far = add_guest(lab, one, 1, mtu), add_guest(lab, two, 2, mtu)
    kernel.join(one, two.address, 5001, [near], mtu=mtu)
    kernel.join(two, one.address, 5001, [far], mtu=mtu)
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b)
    traffic.udp_equal(near.ns, near.v4, far.ns, far.v4)


@pytest.mark.needs(*ovs.TOOLS)
@pytest.mark.parametrize("encapsulation", [VXLAN])
def test_open_vswitch_and_kernel_vxlan_carry_tcp(lab, family, encapsulation):
    underlay = Underlay(lab, 2, family, PLAIN)
    one, two = underlay.hosts
    mtu = guest_mtu(VXLAN, family)
    near, far = add_guest(lab, one, 1, mtu), add_guest(lab, two, 2, mtu)
    kernel.join(one, two.address, 5001, [near], mtu=mtu)
    switch = ovs.OpenVSwitch(lab, two)
    switch.join(one.address, 5001, encapsulation, [far])
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.tcp_equal(near.ns, a, far.ns, b)
