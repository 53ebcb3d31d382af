"""The coalescer: where the kernel has no Geneve, a veth pair joins the packets of streams before the stages."""

import struct
import threading

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import state
import traffic
from capture import Capture
from frames import ETH_P_ALL, PacketSocket, tcp_frame
from modules import kernel_has
from overlane import GENEVE, apply, difference, port_counters, remove, verdicts
from test_nested import make_router
from test_super_packets import twin_of
from topology import SEGMENTED, UPLINK, Scene

pytestmark = pytest.mark.needs_overlane
WITHOUT_GENEVE = pytest.mark.skipif(kernel_has("geneve"), reason="this kernel has geneve")

ENTRANCE = "ovl-coa0"


def joining(lab, encapsulation, family, **options):
    """Segments one by one on the cable, and GRO on at the uplinks."""
    scene = Scene(lab, encapsulation, family, SEGMENTED, **options)
    for host in scene.hosts:
        host.ns.ethtool(UPLINK, on=("gro",))
    return scene


def through(host, before):
    return difference(before, verdicts(host.name)).get(("from_coalescer", "to_port"), 0)


def test_it_is_made_for_geneve_on_a_kernel_without_it(lab, encapsulation):
    scene = joining(lab, encapsulation, 4)
    host = scene.hosts[0]
    before = state.snapshot(host.ns, host.name)
    scene.apply()
    wanted = encapsulation == GENEVE and not kernel_has("geneve")
    assert (ENTRANCE in host.ns.links()) == wanted
    remove(host.name, host.netns)
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}


@WITHOUT_GENEVE
def test_who_switched_gro_off_gets_segments(lab):
    scene = joining(lab, GENEVE, 4)
    for host in scene.hosts:
        host.ns.ethtool(UPLINK, off=("gro",))
    scene.apply()
    near, far = scene.guests
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    for host in scene.hosts:
        assert ENTRANCE not in host.ns.links()
        assert ("from_underlay", "coalesce") not in verdicts(host.name)


@WITHOUT_GENEVE
def test_streams_go_through_it_byte_for_byte(lab, family):
    scene = joining(lab, GENEVE, family).apply()
    near, far = scene.guests
    for here, there in ((near, far), (far, near)):
        for a, b in zip(here.addresses, there.addresses):
            traffic.ping(here.ns, b)
            before = [verdicts(host.name) for host in scene.hosts]
            path = lab.directory / "g.pcap"
            with Capture(there.ns, "eth0", path, "tcp", direction="in") as capture:
                traffic.tcp_equal(here.ns, a, there.ns, b)
            # Both directions carry bytes: both hosts' coalescers have work.
            assert all(through(host, was) > 0 for host, was in zip(scene.hosts, before))
            assert max(len(frame) for frame in capture.raw()) > 5000, "nothing was joined"
    for host, name in zip(scene.hosts, ("port1", "port2")):
        counts, port = verdicts(host.name), port_counters(host.name, name)
        to_port = counts["from_underlay", "to_port"] + counts["from_coalescer", "to_port"]
        assert port["to_port"]["packets"] == to_port
        assert {verdict for _, verdict in counts} <= {"to_host", "to_port", "encap", "answer", "greeting", "coalesce"}
        stats = host.ns.link(ENTRANCE)["stats64"]
        assert stats["rx"]["dropped"] == stats["tx"]["dropped"] == 0


@WITHOUT_GENEVE
def test_what_is_no_stream_goes_past_it(lab, family):
    scene = joining(lab, GENEVE, family).apply()
    near, far = scene.guests
    traffic.fragments_equal(near, far)
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        traffic.udp_equal(near.ns, a, far.ns, b)
    assert all(("from_coalescer", "to_port") not in verdicts(host.name) for host in scene.hosts)


@WITHOUT_GENEVE
@pytest.mark.parametrize("behind", ["container", "vm"])
def test_two_tenants_with_the_same_addresses_do_not_mix(lab, family, behind):
    """Streams at the same time between the same MACs, addresses and ports, in two switches."""
    scene = joining(lab, GENEVE, family)
    scene.fabric.switch("red", 6001)
    pairs = [scene.guests, [twin_of(lab, scene, guest, behind) for guest in scene.guests]]
    scene.apply()
    errors = []

    def talk(near, far, seed):
        try:
            for number in range(3):
                traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=(seed + 4) * traffic.MEBIBYTE + number)
        except Exception as error:  # of another thread: told below
            errors.append(error)

    threads = [threading.Thread(target=talk, args=(*pair, seed)) for seed, pair in enumerate(pairs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert all(verdicts(host.name)["from_coalescer", "to_port"] > 0 for host in scene.hosts)


@WITHOUT_GENEVE
def test_a_guest_that_routes_gets_streams_through_it(lab, family):
    scene = joining(lab, GENEVE, family, guests=(2, 1))
    (one, near), (three, far) = make_router(scene)
    scene.apply()
    for a, b in zip(near, far):
        traffic.ping(one.ns, b)
        traffic.tcp_equal(one.ns, a, three.ns, b)
    assert verdicts(scene.hosts[1].name)["from_coalescer", "to_port"] > 0


@WITHOUT_GENEVE
def test_a_process_on_the_host_cannot_send_through_it(lab):
    scene = joining(lab, GENEVE, 4).apply()
    host, (near, far) = scene.hosts[0], scene.guests
    inner = tcp_frame(far.mac, near.mac, far.v4, near.v4)
    keys = struct.pack("!B3s3sB", 0x08, bytes(3), scene.vni.to_bytes(3, "big"), 0)
    tunnel = Ether(src=host.ns.mac(ENTRANCE)) / IP(src=scene.hosts[1].address, dst=host.address) \
        / UDP(sport=50000, dport=4789, chksum=0) / Raw(keys + inner)
    before = verdicts(host.name)
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into, PacketSocket(host.ns, ENTRANCE) as out:
        for each in (inner, bytes(tunnel)):
            out.send(each)
        assert into.receive_all() == []
    assert difference(before, verdicts(host.name)) == {("from_coalescer", "outer_device"): 2}


@WITHOUT_GENEVE
def test_without_its_devices_apply_repairs(lab):
    """Until then, streams are slower or stand still: what is for the device that is gone is lost."""
    scene = joining(lab, GENEVE, 4).apply()
    near, far = scene.guests
    host = scene.hosts[1]
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    host.ns.ip(f"link delete {ENTRANCE}")
    assert f"device {ENTRANCE} " in apply(lab.directory / "fabric.yaml", host.name, host.netns).stdout
    before = verdicts(host.name)
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    assert through(host, before) > 0
