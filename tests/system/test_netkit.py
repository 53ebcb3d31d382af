"""Guests on netkit in L2 mode, in place of veth."""

import pytest

import netkit
import traffic
from net import NETNS_DIR
from overlane import port_counters
from topology import Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs_kernel("netkit")]


def put_on_netkit(guest):
    """Same names and addresses, another kind of device."""
    host = guest.host
    host.ns.ip(f"link delete {guest.device}")
    with host.ns.entered(), open(NETNS_DIR / guest.ns.name, "rb") as there:
        netkit.create(guest.device, "eth0", netkit.L2, peer_netns=there)
    host.ns.sysctl(f"net.ipv6.conf.{guest.device}.disable_ipv6", 1)
    host.ns.ip(f"link set {guest.device} up")
    guest.ns.ip(f"link set eth0 address {guest.mac} mtu 1400 up",
                f"address add {guest.v4}/24 dev eth0", f"address add {guest.v6}/64 dev eth0 nodad")


def netkit_scene(lab, encapsulation, wire):
    scene = Scene(lab, encapsulation, 4, wire)
    for guest in scene.guests:
        put_on_netkit(guest)
    return scene.apply()


def test_ping_tcp_and_udp_both_ways(lab, encapsulation, wire):
    scene = netkit_scene(lab, encapsulation, wire)
    traffic.speak(*scene.guests, size=4 * traffic.MEBIBYTE)


def test_frames_enter_the_guests_namespace_without_a_transmit(lab, encapsulation):
    """The host's end of the pair counts what it transmits: not what bpf_redirect_peer() hands over."""
    scene = netkit_scene(lab, encapsulation, "whole")
    near, far = scene.guests

    def counted():
        ends = (far.host.ns.link(far.device)["stats64"]["tx"], far.ns.link("eth0")["stats64"]["rx"])
        delivered = port_counters(scene.hosts[1].name, "port2")["to_port"]["packets"]
        return (*(end["packets"] for end in ends), delivered)

    traffic.ping(near.ns, far.v4)
    before = counted()
    traffic.ping(near.ns, far.v4, count=50)
    sent, received, delivered = (now - then for now, then in zip(counted(), before))
    assert (sent, received, delivered) == (0, 50, 50)
