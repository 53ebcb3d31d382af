"""The unmarker: kernel devices and a namespace of the host's own, through which frames go to a TAP. Nothing else of the
host has a part in it: no firewall, no route, no process."""

import socket
import struct

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import state
import super_packets
import tap_vm
import traffic
from capture import Capture
from frames import ETH_P_ALL, PacketSocket, udp_frame
from net import NETNS_DIR, Namespace, delete_namespace, unmarker_namespace, veth
from overlane import apply, difference, overlane, port_counters, remove, show, verdicts
from topology import UPLINK, Scene, apply_host
from vms import add_vm, furnish, raise_device

pytestmark = pytest.mark.needs_overlane

ENTRANCE, INSIDE = "ovl-unm0", "ovl-unm1"
EXITS = ("ovl-unm4", "ovl-unm6")
#: Where the unmarker's frames go, in its own namespace (bpf/leave/unmarker.h and bpf/lib/detour.h).
FROM, HERE = "198.19.0.1", "198.19.0.2"
GOOD = {"to_host", "to_port", "encap", "flood", "answer", "segment", "greeting"}

#: A host that lets nothing in and nothing through, and knows of every connection. What it sends itself is its own.
WALL = """
    table inet wall {
        counter seen {
        }
        counter forwarded {
        }
        chain first {
            type filter hook prerouting priority -300; policy drop;
            meta l4proto ipv6-icmp accept
            counter name seen
        }
        chain in {
            type filter hook input priority 0; policy drop;
            meta l4proto ipv6-icmp accept
            ct state established,related accept
        }
        chain through {
            type filter hook forward priority 0; policy drop;
            counter name forwarded
        }
    }
"""


@pytest.fixture
def scene(lab, encapsulation, family):
    """A VM on the first host, a container on the second."""
    scene = Scene(lab, encapsulation, family, guests=(0, 1))
    scene.vm = add_vm(lab, scene, scene.hosts[0], 9)
    return scene


def speak(scene):
    """TCP and UDP super-packets both ways, over both families."""
    vm, far = scene.vm, scene.guests[0]
    traffic.speak(vm, far)
    for a, b in zip(vm.addresses, far.addresses):
        super_packets.equal(far.ns, b, vm.ns, a)
        super_packets.equal(vm.ns, a, far.ns, b)


def fabric_of(lab):
    return lab.directory / "fabric.yaml"


def counter(ns, name):
    """Packets of a named counter of the wall."""
    words = ns.run(["nft", "list", "counter", "inet", "wall", name]).stdout.split()
    return int(words[words.index("packets") + 1])


def icmp_sent(ns):
    """What the host's stack ever sent of ICMP over IPv4."""
    with ns.entered():
        lines = [line.split() for line in open("/proc/thread-self/net/snmp", encoding="ascii")
                 if line.startswith("Icmp:")]
    return int(dict(zip(*lines))["OutMsgs"])


@pytest.mark.needs("nft")
def test_the_hosts_own_firewall_and_filters_do_not_matter(lab, scene):
    for host in scene.hosts:
        for device in ("all", "default", UPLINK):
            host.ns.sysctl(f"net.ipv4.conf.{device}.rp_filter", 1)
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            host.ns.sysctl(key, 1)
    scene.apply()
    for host in scene.hosts:
        host.ns.run(["nft", "-f", "-"], input=WALL)
    # The devices are made behind the wall, too.
    for host in scene.hosts:
        host.ns.ip(f"link delete {ENTRANCE}")
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    speak(scene)
    for host in scene.hosts:
        assert counter(host.ns, "seen") == counter(host.ns, "forwarded") == 0, "the host's stack saw a packet"
        assert not [which for which in verdicts(host.name) if which[1] not in GOOD]


def test_no_frame_of_a_guest_shows_elsewhere(lab, scene):
    """The host routes, and has another device: neither gets anything, and nobody is told anything by ICMP."""
    host, outside = scene.hosts[0], lab.namespace("out")
    veth(host.ns, "other", outside, "eth0")
    host.ns.ip("link set other up", "address add 198.18.70.1/24 dev other", "route add default via 198.18.70.2",
               "neigh add 198.18.70.2 lladdr 02:00:00:00:70:02 dev other")
    outside.ip("link set eth0 up")
    host.ns.sysctl("net.ipv4.ip_forward", 1)
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    sent = icmp_sent(host.ns)
    captures = [Capture(host.ns, device, lab.directory / f"{device}.pcap") for device in ("other", "lo")]
    captures.append(Capture(host.ns, UPLINK, lab.directory / "icmp.pcap", "ip proto 1"))
    with captures[0], captures[1], captures[2]:
        speak(scene)
    assert [frame for capture in captures for frame in capture.raw()] == []
    assert icmp_sent(host.ns) == sent
    inside = Namespace(unmarker_namespace(host.name))
    assert inside.links() - {"ovl-coa1"} == {"lo", INSIDE} and icmp_sent(inside) == 0


def test_a_host_with_the_same_addresses_and_routes_does_not_matter(lab, scene):
    """The unmarker's addresses are seen in its namespace only; the host may have them, too."""
    host = scene.hosts[0]
    host.ns.ip(f"address add {HERE}/32 dev lo", "address add 2001:2::c613:2/128 dev lo",
               "route add blackhole 198.18.64.0/18")
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    speak(scene)


def test_without_its_devices_nothing_leaks_and_apply_repairs(lab, scene):
    """Super-packets to the VM are lost then: the programs do not look whether the device is there."""
    host, vm, far = scene.hosts[0], scene.vm, scene.guests[0]
    scene.apply()
    super_packets.wait_for_greetings(*scene.hosts)
    speak(scene)
    sent = icmp_sent(host.ns)
    with traffic.udp_socket(vm.ns, vm.v4, 5300, timeout=0.3) as into, traffic.udp_socket(far.ns, far.v4) as out:
        for device in (ENTRANCE, EXITS[0]):
            host.ns.ip(f"link delete {device}")
            with Capture(host.ns, "lo", lab.directory / "lo.pcap") as capture:
                super_packets.send(out, traffic.payload(48_000), 1200, (vm.v4, 5300))
                assert super_packets.receive(into, 1)[0] == []
            assert capture.raw() == [] and icmp_sent(host.ns) == sent
            said = apply(fabric_of(lab), host.name, host.netns).stdout
            assert f"device {ENTRANCE} " in said
            super_packets.wait_for_greetings(*scene.hosts)
            speak(scene)


def test_without_its_namespace_apply_repairs_too(lab, scene):
    scene.apply()
    host = scene.hosts[0]
    before = host.ns.links()
    delete_namespace(unmarker_namespace(host.name))
    apply(fabric_of(lab), host.name, host.netns)
    assert host.ns.links() == before
    super_packets.wait_for_greetings(*scene.hosts)
    speak(scene)


def test_it_is_where_it_is_needed_and_goes_with_the_host(lab, scene):
    host = scene.hosts[0]
    before = state.snapshot(host.ns, host.name)
    scene.apply()
    assert {ENTRANCE, *EXITS} <= host.ns.links()
    assert "nothing differs" in apply(fabric_of(lab), host.name, host.netns).stdout
    removed = remove(host.name, host.netns).stdout
    assert all(device in removed for device in EXITS)
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}
    assert not (NETNS_DIR / unmarker_namespace(host.name)).exists()


def inside_frame(scene):
    """What to_port would send into the unmarker: for the VM's device."""
    vm, far = scene.vm, scene.guests[0]
    inner = udp_frame(far.mac, vm.mac, far.v4, vm.v4)
    first_port = 1
    return struct.pack("!BBHI", 0x88, 0, first_port, 1 << 8) + inner


def test_a_process_on_the_host_cannot_send_through_it(lab, scene):
    """Neither a frame like ours nor a datagram: the kernel's mark that the data path put on is missing."""
    scene.apply()
    host, vm = scene.hosts[0], scene.vm
    inside = Namespace(unmarker_namespace(host.name))
    payload = inside_frame(scene)
    frame = Ether(src=host.ns.mac(ENTRANCE), dst=inside.mac(INSIDE)) / IP(src=FROM, dst=HERE) \
        / UDP(sport=4789, dport=4789, chksum=0) / Raw(payload)
    host.ns.ip(f"address add {FROM}/32 dev {ENTRANCE}", f"route add {HERE}/32 dev {ENTRANCE}",
               f"link set {ENTRANCE} arp on", f"neigh replace {HERE} lladdr {inside.mac(INSIDE)} dev {ENTRANCE}")
    before = verdicts(host.name)
    with PacketSocket(vm.ns, "eth0", ETH_P_ALL) as into, PacketSocket(host.ns, ENTRANCE) as out:
        out.send(bytes(frame))
        with host.ns.entered():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, ENTRANCE.encode())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 6)
            sock.sendto(payload, (HERE, 4789))
        assert into.receive_all() == []
    assert difference(before, verdicts(host.name)) == {("from_unmarker", "outer_device"): 2}


def test_what_comes_by_the_underlay_for_its_address_is_not_its(lab, scene):
    """A tunnel packet to the unmarker's address and port, by the uplink: the host's, which does not have it."""
    scene.apply()
    one, two = scene.hosts
    frame = Ether(src=two.ns.mac(UPLINK), dst=one.ns.mac(UPLINK)) / IP(src=FROM, dst=HERE) \
        / UDP(sport=4789, dport=4789, chksum=0) / Raw(inside_frame(scene))
    before = verdicts(one.name)
    with PacketSocket(scene.vm.ns, "eth0", ETH_P_ALL) as into, PacketSocket(two.ns, UPLINK) as out:
        out.send(bytes(frame))
        assert into.receive_all() == []
    assert difference(before, verdicts(one.name)) == {("from_underlay", "to_host"): 1}


def test_a_container_becomes_a_vm_on_the_same_device(lab, encapsulation):
    """Its veth goes, a TAP of the same name comes: the same port."""
    scene = Scene(lab, encapsulation, 4).apply()
    super_packets.wait_for_greetings(*scene.hosts)
    near, far = scene.guests
    traffic.speak(near, far)
    assert [row["super_packets"] for row in show("ports", near.host.name)["ports"]] == ["straight"]
    near.host.ns.ip(f"link delete {near.device}")
    tap_vm.start(lab, near.host.ns, near.device, near.ns)
    raise_device(near.host, near.device)
    furnish(scene, near)
    apply(fabric_of(lab), near.host.name, near.host.netns)
    assert [row["super_packets"] for row in show("ports", near.host.name)["ports"]] == ["unmarker"]
    super_packets.wait_for_greetings(*scene.hosts)
    before = verdicts(near.host.name)
    traffic.speak(near, far)
    super_packets.equal(far.ns, far.v4, near.ns, near.v4)
    assert difference(before, verdicts(near.host.name))["from_unmarker", "to_port"] > 0
    assert port_counters(near.host.name, "port1")["dropped"]["packets"] == 0


#: Runs a command where nobody can make a namespace that others see.
NO_NEW_NAMESPACES = ("unshare", "--mount", "sh", "-c",
                     'mount --rbind /run/netns /run/netns && mount -o remount,bind,ro /run/netns && exec "$@"', "sh")


def test_where_it_cannot_be_made_all_works_in_segments(lab, scene):
    """/run/netns is read-only, as it may be in a container: one note, and everything is slower."""
    one, two = scene.hosts
    path = scene.fabric.write(fabric_of(lab))
    said = apply_host(lab, path, one, prefix=NO_NEW_NAMESPACES).stderr
    assert said.count("there is no unmarker: ") == 1, said
    dry = apply(path, one.name, one.netns, "--dry-run")
    assert dry.stderr.count("there is no unmarker: ") == 1 and ENTRANCE not in dry.stdout, dry
    assert "nothing differs" in dry.stdout
    apply_host(lab, path, two)
    assert [row["super_packets"] for row in show("ports", one.name)["ports"]] == ["segments"]
    assert "cut into segments to vm9" in overlane("show", "ports", "--host", one.name).stdout
    assert not {ENTRANCE, *EXITS} & one.ns.links()
    before = verdicts(two.name)
    speak(scene)
    assert not super_packets.takes_whole(two, one) and super_packets.takes_whole(one, two)
    rose = difference(before, verdicts(two.name))
    assert rose["from_port", "segment"] >= 8 * len(super_packets.SHAPES)
    assert {verdict for _, verdict in verdicts(one.name)} <= GOOD
    # The reason is gone: the next one makes it.
    assert "unmarker" not in apply(path, one.name, one.netns).stderr
    super_packets.wait_for_greetings(one, two)
    assert [row["super_packets"] for row in show("ports", one.name)["ports"]] == ["unmarker"]
    speak(scene)
