"""The guard: a port's device that is deleted and made again is not open to the host until the next `apply`, and what
the host itself sends to a port's device reaches no guest.

    guest eth0 ── p1 ┤ host │ uplink ══ …                      its program goes with p1; the name comes back
    guest eth0 ── plain0 ┤  │                                   no port: the host's own business
"""

import ctypes
import json
import os
import platform
import struct
import sys

import pytest

import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from logical import FAR4, FAR6, INSIDE4, LEG4, Estate
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, apply, overlane, remove, show
from test_netkit import netkit_scene
from topology import UPLINK, Scene, add_guest, apply_host
from vms import add_vm

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("nft"), pytest.mark.needs_kernel("nftables")]

FAMILIES = ("inet", "arp", "bridge")
#: The host's own addresses on a device, in the network of the guests.
HOST = ("198.18.100.200", "2001:2:0:64::c8")
#: 802.1D, a group address that no bridge forwards.
FOR_BRIDGES = "01:80:c2:00:00:03"
#: As Docker leaves them: one in a family of ours, one in another.
FOREIGN = """
table inet docker { chain pre { type filter hook prerouting priority -600; counter
}; }
table ip nat { chain PREROUTING { type nat hook prerouting priority -100
}; }
"""


def tables(ns):
    """{(family, name)} of the namespace."""
    listed = json.loads(ns.run("nft -j list tables").stdout)["nftables"]
    return {(each["table"]["family"], each["table"]["name"]) for each in listed if "table" in each}


def ours(host):
    return {(family, f"overlane-{host.name}") for family in FAMILIES}


def recreate(guest, *more):
    """The guest was restarted: same names, another device. `more` is done to the host's end."""
    ns, device = guest.host.ns, guest.device
    ns.ip(f"link delete {device}")
    ns.ip(f"link add {device} type veth peer name eth0 netns {guest.ns.name}", f"link set {device} up")
    ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 0)
    ns.ip(*[line.format(device) for line in more])
    guest.ns.ip(f"link set eth0 address {guest.mac} up", f"address add {guest.v4}/24 dev eth0",
                f"address add {guest.v6}/64 dev eth0 nodad")


def give_addresses(ns, device):
    ns.ip(f"address add {HOST[0]}/24 dev {device}", f"address add {HOST[1]}/64 dev {device} nodad")


def dropped(host):
    """{family: packets} that the guard stopped."""
    return {row["family"]: row["packets"] for row in show("ports", host.name)["guard"]["families"]}


def states(host):
    return [row["state"] for row in show("ports", host.name)["guard"]["families"]]


def knows(ns, address, device):
    """Whether a namespace has learned who has an address."""
    entries = ns.json(f"neigh show dev {device}")
    return any(entry["dst"] == address and "lladdr" in entry for entry in entries)


def reachable(guest, address):
    return traffic.pings(guest.ns, address, count=2, timeout=0.3) > 0


def mac_of(ns, device):
    return ns.link(device)["address"]


def test_a_recreated_device_is_closed_to_the_host(lab, encapsulation):
    """IPv4, IPv6 and ARP; a device that is no port is open as before."""
    scene = Scene(lab, encapsulation, 4).apply()
    host, (near, far) = scene.hosts[0], scene.guests
    plain = add_guest(lab, host, 7)
    host.ns.sysctl(f"net.ipv6.conf.{plain.device}.disable_ipv6", 0)
    assert tables(host.ns) == ours(host) and states(host) == ["ok"] * 3
    recreate(near)
    give_addresses(host.ns, near.device)
    assert [port["state"] for port in show("ports", host.name)["ports"]] == ["detached"]
    before = dropped(host)
    for address in HOST:
        assert not reachable(near, address), address
    after = dropped(host)
    assert after["arp"] > before["arp"] and after["inet"] > before["inet"], (before, after)
    # Its packets do not wait for an answer to ARP.
    mac = mac_of(host.ns, near.device)
    for address in HOST:
        near.ns.ip(f"neigh replace {address} lladdr {mac} dev eth0")
        assert not reachable(near, address), address
    assert dropped(host)["inet"] > after["inet"]
    assert not knows(host.ns, near.v4, near.device) and not knows(host.ns, near.v6, near.device)
    # What would have been answered: the same addresses, on a device that is no port.
    host.ns.ip(f"address flush dev {near.device}")
    give_addresses(host.ns, plain.device)
    for address in HOST:
        traffic.ping(plain.ns, address, count=1)
    # Without the guard it is open, so the test would have seen it.
    host.ns.ip(f"address flush dev {plain.device}")
    give_addresses(host.ns, near.device)
    host.ns.run(f"nft delete table inet overlane-{host.name}")
    host.ns.run(f"nft delete table arp overlane-{host.name}")
    near.ns.ip("neigh flush dev eth0")
    for address in HOST:
        assert reachable(near, address), address
    assert states(host) == ["missing", "missing", "ok"]
    # The next apply closes it, and the port works again.
    host.ns.ip(f"address flush dev {near.device}")
    said = apply(lab.directory / "fabric.yaml", host.name, host.netns).stdout
    assert f"+ guard: nftables table overlane-{host.name} (inet, arp)" in said
    assert tables(host.ns) == ours(host) and states(host) == ["ok"] * 3
    near.ns.ip("neigh flush dev eth0")
    traffic.ping(near.ns, far.v4)


def test_a_recreated_device_is_not_forwarded(lab):
    """The host is a router: nothing of the guest leaves by the underlay, unencapsulated."""
    scene = Scene(lab, GENEVE, 4).apply()
    (one, two), near = scene.hosts, scene.guests[0]
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        one.ns.sysctl(key, 1)
    # Two is on the underlay, and knows the way back. Who forwards IPv6 asks with a link-local address.
    targets = {4: two.address, 6: "2001:2:0:1::2"}
    one.ns.ip(f"address add 2001:2:0:1::1/64 dev {UPLINK} nodad", f"address add fe80::1/64 dev {UPLINK} nodad")
    two.ns.ip(f"address add {targets[6]}/64 dev {UPLINK} nodad", f"route add {near.v4}/32 via {one.address}",
              f"route add {near.v6}/128 via 2001:2:0:1::1")
    recreate(near, "address add fe80::1/64 dev {} nodad")
    give_addresses(one.ns, near.device)
    mac = mac_of(one.ns, near.device)
    near.ns.ip(f"route add default via {HOST[0]}", f"route add default via {HOST[1]}",
               *[f"neigh replace {address} lladdr {mac} dev eth0" for address in HOST])
    for target in targets.values():
        assert not reachable(near, target), target
    assert dropped(one)["inet"] >= 4
    one.ns.run(f"nft delete table inet overlane-{one.name}")
    one.ns.run(f"nft delete table arp overlane-{one.name}")
    for target in targets.values():
        assert reachable(near, target), target


def test_a_recreated_device_on_a_bridge_of_the_host_is_closed(lab):
    """The host joins the device with others: frames reach neither them nor the bridge itself."""
    scene = Scene(lab, VXLAN, 4)
    host, near = scene.hosts[0], scene.guests[0]
    host.ns.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0", "link set br0 up",
               f"link set {near.device} master br0")
    other = add_guest(lab, host, 7)
    host.ns.ip(f"link set {other.device} master br0")
    give_addresses(host.ns, "br0")
    scene.apply()
    recreate(near, "link set {} master br0")
    before = dropped(host)["bridge"]
    for address in (other.v4, other.v6, *HOST):
        assert not reachable(near, address), address
    assert dropped(host)["bridge"] > before
    traffic.ping(other.ns, HOST[0], count=1)
    # Any frame, and those that a bridge takes for itself, past prerouting.
    assert near.mac not in host.ns.run("bridge fdb show br br0").stdout
    assert at_input(host) == 0
    with PacketSocket(other.ns, "eth0", ETH_P_ALL) as into, PacketSocket(near.ns, "eth0") as out:
        into.receive_all()
        for target in (BROADCAST, FOR_BRIDGES):
            out.send(plain_frame(near.mac, target))
        assert [frame for frame in into.receive_all() if octets(near.mac) in frame] == []
    assert at_input(host) == 1
    # Without the guard it is open.
    host.ns.run(f"nft delete table bridge overlane-{host.name}")
    traffic.ping(near.ns, other.v4, count=1)


def at_input(host):
    """Packets that the bridges' second chain dropped."""
    listed = json.loads(host.ns.run(f"nft -j list chain bridge overlane-{host.name} input").stdout)
    (rule,) = [each["rule"] for each in listed["nftables"] if "rule" in each]
    (count,) = [each["counter"]["packets"] for each in rule["expr"] if "counter" in each]
    return count


def octets(mac):
    return bytes.fromhex(mac.replace(":", ""))


#: Without any right: UDP to everybody on a device. Says how each attempt ended.
SPEAK = """
import socket, sys
device, what = sys.argv[1], b"from the host itself"
def send(family, target, *options):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        for option in options:
            sock.setsockopt(*option)
        try:
            sock.sendto(what, target)
        except OSError as error:
            print(target, error)
bound = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
index = socket.if_nametoindex(device)
send(socket.AF_INET, ("255.255.255.255", 9), bound, (socket.SOL_SOCKET, socket.SO_BROADCAST, 1))
send(socket.AF_INET, ("224.0.0.251", 9), bound)
send(socket.AF_INET, ("224.0.0.1", 9), (socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
     socket.inet_aton("0.0.0.0") * 2 + index.to_bytes(4, sys.byteorder)))
send(socket.AF_INET6, ("ff02::1", 9, 0, index), bound)
send(socket.AF_INET6, ("ff02::fb", 9, 0, index))
"""
SAID = b"from the host itself"
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def speak(ns, device):
    ns.run([*AS_NOBODY, sys.executable, "-c", SPEAK, device])


def sent(host):
    """{family: packets} of the host's own that the guard stopped."""
    return {row["family"]: row["sent_packets"] for row in show("ports", host.name)["guard"]["families"]}


def enable_ipv6(ns, device):
    ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 0)
    ns.ip(f"address add fe80::c8/64 dev {device} nodad")


@pytest.mark.needs("setpriv")
def test_a_user_of_the_host_without_rights_reaches_no_guest(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4, guests=(2, 1)).apply()
    host, near = scene.hosts[0], scene.guests[0]
    enable_ipv6(host.ns, near.device)
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into:
        before = sent(host)
        speak(host.ns, near.device)
        assert [frame for frame in into.receive_all() if SAID in frame] == []
        # And what IPv6 says unasked.
        assert sent(host)["inet"] >= before["inet"] + 5
        assert ": dropped " in overlane("show", "ports", "--host", host.name).stdout
        # Without the guard it is open, so the test would have seen it.
        host.ns.run(f"nft delete table inet overlane-{host.name}")
        speak(host.ns, near.device)
        assert len([frame for frame in into.receive_all() if SAID in frame]) == 5
    apply(lab.directory / "fabric.yaml", host.name, host.netns)
    assert dropped(host) == {family: 0 for family in FAMILIES}


def test_no_route_of_the_host_leads_to_a_guest(lab):
    """With an address in the guests' network: ARP, IPv4 and IPv6, from here and forwarded."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, (near, far) = scene.hosts[0], scene.guests
    plain = add_guest(lab, host, 7)
    enable_ipv6(host.ns, near.device)
    give_addresses(host.ns, near.device)
    host.ns.sysctl("net.ipv4.ip_forward", 1)
    host.ns.ip(f"address add 198.18.107.1/24 dev {plain.device}")
    plain.ns.ip("address add 198.18.107.7/24 dev eth0", f"route replace {near.v4}/32 via 198.18.107.1")
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into:
        into.receive_all()
        # A question without a packet: ARP, and neighbour discovery.
        before = sent(host)
        host.ns.ip(*[f"neigh add {address} dev {near.device} use" for address in near.addresses])
        after = wait_until(lambda: sent(host)["arp"] > before["arp"] and sent(host), what="the host to ask by ARP")
        assert after["inet"] > before["inet"]
        host.ns.ip(*[f"neigh replace {address} lladdr {near.mac} dev {near.device}" for address in near.addresses])
        for ns, address in ((host.ns, near.v4), (host.ns, near.v6), (plain.ns, near.v4)):
            before = sent(host)["inet"]
            assert traffic.pings(ns, address, count=1, timeout=0.3) == 0
            assert sent(host)["inet"] > before, address
        assert into.receive_all() == []
    traffic.ping(near.ns, far.v4)


def test_what_ipv6_says_unasked_reaches_no_guest(lab):
    """Reports of groups, solicitations of routers, duplicate address detection."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, near = scene.hosts[0], scene.guests[0]
    base = f"net.ipv6.conf.{near.device}"
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into:
        into.receive_all()
        for key, value in (("accept_dad", 1), ("dad_transmits", 1), ("router_solicitations", 3), ("accept_ra", 2),
                           ("addr_gen_mode", 0), ("disable_ipv6", 0)):
            host.ns.sysctl(f"{base}.{key}", value)
        host.ns.ip(f"link set {near.device} down", f"link set {near.device} up")
        wait_until(lambda: sent(host)["inet"] >= 3, what="the host to say something by IPv6")
        own = octets(mac_of(host.ns, near.device))
        assert [frame for frame in into.receive_all() if frame[6:12] == own] == []
    assert dropped(host) == {family: 0 for family in FAMILIES}


def test_frames_of_a_bridge_of_the_host_reach_no_guest(lab):
    """What it forwards, what the host says by it, and what it says itself (802.1D)."""
    scene = Scene(lab, VXLAN, 4)
    host, near = scene.hosts[0], scene.guests[0]
    host.ns.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 1", "link set br0 up",
               f"link set {near.device} master br0")
    other = add_guest(lab, host, 7)
    host.ns.ip(f"link set {other.device} master br0")
    give_addresses(host.ns, "br0")
    scene.apply()
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into, PacketSocket(other.ns, "eth0") as out:
        before = sent(host)["bridge"]
        wait_until(lambda: sent(host)["bridge"] > before, what="the bridge to say something")
        into.receive_all()
        forwarded = plain_frame(other.mac, BROADCAST)
        out.send(forwarded)
        assert traffic.pings(host.ns, near.v4, count=1, timeout=0.3) == 0
        assert into.receive_all() == []


def unharmed(*hosts):
    """Nothing that our programs deliver comes by the guard."""
    for host in hosts:
        assert states(host) == ["ok"] * 3
        assert (dropped(host), sent(host)) == ({family: 0 for family in FAMILIES},) * 2


@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
def test_what_the_switch_delivers_does_not_come_by_the_guard(lab, encapsulation, family, wire):
    """On one host and between two, both families inside; trunks, floods, and next hops that the kernel resolves."""
    scene = Scene(lab, encapsulation, family, wire, guests=(2, 1), switch={"unknown_unicast": "flood"}).apply()
    near, neighbour, far = scene.guests
    traffic.speak(near, far)
    traffic.speak(near, neighbour)
    with PacketSocket(near.ns, "eth0") as out, PacketSocket(far.ns, "eth0", ETH_P_ALL) as into:
        for target in (BROADCAST, "02:00:00:00:77:77"):
            frame = plain_frame(near.mac, target)
            out.send(frame)
            assert into.receive() == frame
    unharmed(*scene.hosts)


def test_what_a_router_delivers_does_not_come_by_the_guard(lab):
    """Between switches, and by a leg, which is not closed: nor is the uplink."""
    estate = Estate(lab, GENEVE, 4)
    near, far = estate.guest("front", 1), estate.guest("data", 2)
    outside = estate.gateway(1, [{"source": INSIDE4, "outside": LEG4}])
    estate.apply()
    traffic.speak(near, far)
    for guest in (near, far):
        traffic.ping(guest.ns, FAR4)
        traffic.ping(guest.ns, FAR6)
    traffic.ping(outside.far, near.v6)
    one, two = estate.hosts
    traffic.ping(one.ns, two.address)
    unharmed(one, two)


def test_what_a_vm_gets_does_not_come_by_the_guard(lab, encapsulation):
    """A TAP device, and super-packets that went through the unmarker."""
    scene = Scene(lab, encapsulation, 4)
    vm = add_vm(lab, scene, scene.hosts[0], 9)
    scene.apply()
    traffic.speak(vm, scene.guests[1])
    traffic.speak(vm, scene.guests[0])
    unharmed(*scene.hosts)


@pytest.mark.needs_kernel("netkit")
def test_what_a_netkit_guest_gets_does_not_come_by_the_guard(lab, encapsulation):
    scene = netkit_scene(lab, encapsulation, "whole")
    traffic.speak(*scene.guests)
    unharmed(*scene.hosts)


def test_foreign_tables_stay_and_ours_come_and_go(lab):
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    host.ns.run("nft -f -", input=FOREIGN)
    before = host.ns.run("nft -s list ruleset").stdout
    scene.apply()
    assert tables(host.ns) == ours(host) | {("inet", "docker"), ("ip", "nat")}
    # A second one writes nothing: the handles are the same.
    written = handles(host.ns)
    assert "nothing differs" in apply(lab.directory / "fabric.yaml", host.name, host.netns).stdout
    assert handles(host.ns) == written
    remove(host.name, host.netns)
    assert host.ns.run("nft -s list ruleset").stdout == before


def handles(ns):
    """The kernel's numbers for tables, sets, chains and rules, in their order."""
    lines = ns.run("nft -a list ruleset").stdout.splitlines()
    return [line.split("# handle")[1] for line in lines if "# handle" in line]


def test_who_flushes_the_ruleset_is_noticed(lab):
    """As Debian's nftables.service does when it starts."""
    scene = Scene(lab, GENEVE, 4).apply()
    host = scene.hosts[0]
    host.ns.run("nft flush ruleset")
    assert states(host) == ["missing"] * 3
    shown = overlane("show", "ports", "--host", host.name).stdout
    assert f"guard: nftables table overlane-{host.name} (inet, arp, bridge): missing; apply again" in shown
    apply(lab.directory / "fabric.yaml", host.name, host.netns)
    assert states(host) == ["ok"] * 3
    assert " packets from guests and " in overlane("show", "ports", "--host", host.name).stdout


#: Runs a command for which the kernel has no sockets of NETLINK_NETFILTER (12): EPROTONOSUPPORT.
WITHOUT_NFTABLES = (sys.executable, __file__)


def test_without_nftables_one_note_says_what_is_open(lab):
    scene = Scene(lab, GENEVE, 4)
    host, path = scene.hosts[0], scene.fabric.write(lab.directory / "fabric.yaml")
    done = apply_host(lab, path, host, prefix=WITHOUT_NFTABLES)
    assert done.stderr.count(f"guard overlane-{host.name} (inet, arp, bridge): there is no guard: ") == 1, done.stderr
    assert "guard:" not in done.stdout and tables(host.ns) == set()
    dry = apply(path, host.name, host.netns, "--dry-run", prefix=WITHOUT_NFTABLES)
    assert dry.stderr.count("there is no guard: ") == 1 and "nothing differs" in dry.stdout
    assert states(host) == ["refused"] * 3
    apply_host(lab, path, scene.hosts[1])
    traffic.ping(scene.guests[0].ns, scene.guests[1].v4)
    # The module was loaded.
    done = apply(path, host.name, host.netns)
    assert "guard" not in done.stderr and states(host) == ["ok"] * 3
    remove(host.name, host.netns, prefix=WITHOUT_NFTABLES)


def without_nftables(command):
    """seccomp: `socket(…, …, NETLINK_NETFILTER)` fails in this process and its children."""
    number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
    eprotonosupport, allow, errno = 93, 0x7fff0000, 0x00050000
    load, equals, answer = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0), (equals, 0, 3, number), (load, 0, 0, 32), (equals, 0, 1, 12),
               (answer, 0, 0, errno | eprotonosupport), (answer, 0, 0, allow)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    fprog = struct.pack("@HP", len(program), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, fprog, 0, 0) == 0, ctypes.get_errno()
    os.execvp(command[0], command)


if __name__ == "__main__":
    without_nftables(sys.argv[1:])
