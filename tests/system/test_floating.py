"""Floating addresses: guests with keepalived share one, and the virtual MAC of VRRP with it; nobody else takes them.

    master ┤ h1 │ ═══ │ h2 ├ backup
    client ┤    │     │    ├ thief

Through a router: `far`, on another switch, and `beside`, on the switch of the two.

       far ┤    │     │    │
    beside ┤ h1 │ ═══ │ h2 ├ backup
    master ┤    │     │    │
"""

import re
import time

import pytest
from scapy.layers.l2 import ARP, Ether

import traffic
from frames import BROADCAST, PacketSocket
from logical import Estate, port
from net import PATIENCE, wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, port_counters, show, verdicts
from peers import keepalived
from peers.keepalived import Keepalived
from topology import Scene, wait_for_announcements

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs(*keepalived.TOOLS)]

FLOATING = {4: "198.18.100.200", 6: "2001:2:0:64::c8"}
#: Over IPv6 the first address of a virtual router is link-local (RFC 5798 section 5.2.9).
LINK_LOCAL = "fe80::c8"
#: Seconds between two pings, and for how long they may go unanswered when the master stops.
PAUSE, MOST_LOST = 0.05, 3.0


def sharing(addresses, mac):
    """What ports say that share addresses, and a MAC if there is one."""
    return {"allowed_addresses": addresses} | ({"allowed_macs": [mac]} if mac else {})


def wait_for_master(node, address):
    wait_until(lambda: node.has(address), 15 * PATIENCE, what=f"{node.guest.ns.name} to become master")


def answerer(client, address):
    """The MAC at which a client of the switch finds the floating address."""
    (entry,) = client.ns.json(f"neigh show {address} dev eth0")
    return entry["lladdr"]


class Cluster:
    """Master and backup with `security: strict`; a client beside the master, a thief beside the backup."""

    def __init__(self, lab, encapsulation, family, virtual_mac):
        self.scene = Scene(lab, encapsulation, 4, guests=(2, 2))
        self.address, self.mac = FLOATING[family], keepalived.MACS[family] if virtual_mac else None
        shared = [self.address] if family == 4 else [LINK_LOCAL, self.address]
        master, self.client, backup, self.thief = self.scene.guests
        for guest in (master, backup):
            self.scene.fabric.data["ports"][port(guest)].update(sharing(shared, self.mac))
        for guest in self.scene.guests:
            guest.ns.ip("link set eth0 down", "link set eth0 addrgenmode eui64 up",
                        f"address replace {guest.v6}/64 dev eth0 nodad")
        self.scene.apply()
        self.master = Keepalived(lab, master, shared, 150, virtual_mac)
        self.backup = Keepalived(lab, backup, shared, 100, virtual_mac)

    def wait_for(self, node):
        wait_for_master(node, self.address)

    def answerer(self):
        return answerer(self.client, self.address)

    def spoofed(self):
        reasons = ("spoofed_mac", "spoofed_ip", "spoofed_arp", "spoofed_nd")
        return [(host.name, key, count) for host in self.scene.hosts
                for key, count in verdicts(host.name).items() if key[1] in reasons]


def pinging(client, address, seconds):
    """Pings without end, from now on; ask the process how it went."""
    return client.ns.popen(["ping", "-n", "-i", str(PAUSE), "-W", "1", "-w", str(seconds), address],
                           stdout=-1, text=True)


def lost(process):
    """Sent and lost of pings that ended."""
    said, _ = process.communicate(timeout=60 * PATIENCE)
    sent, answered = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", said).groups())
    return sent, sent - answered


@pytest.fixture(params=[GENEVE, VXLAN, VLAN])
def encapsulation(request):
    return request.param


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("virtual_mac", [False, True], ids=["own mac", "virtual mac"])
def test_the_address_moves_when_the_master_stops(lab, encapsulation, family, virtual_mac):
    cluster = Cluster(lab, encapsulation, family, virtual_mac)
    cluster.master.start()
    cluster.wait_for(cluster.master)
    cluster.backup.start()
    traffic.ping(cluster.client.ns, cluster.address)
    assert cluster.answerer() == (cluster.mac or cluster.master.guest.mac)
    process = pinging(cluster.client, cluster.address, 6)
    time.sleep(2)
    cluster.master.stop()
    cluster.wait_for(cluster.backup)
    sent, missing = lost(process)
    print(f"master stopped: {missing} of {sent} pings lost, one every {PAUSE} s")
    assert missing * PAUSE < MOST_LOST * PATIENCE, f"{missing} of {sent} lost"
    assert cluster.answerer() == (cluster.mac or cluster.backup.guest.mac)
    if virtual_mac:
        near, far = (learned(host.name, cluster.mac) for host in cluster.scene.hosts)
        assert near["place"] != "local" and far["place"] == "local" and far["floating"], (near, far)
    # And back, since it has the higher priority.
    process = pinging(cluster.client, cluster.address, 6)
    cluster.master.start()
    cluster.wait_for(cluster.master)
    sent, missing = lost(process)
    print(f"master came back: {missing} of {sent} pings lost")
    assert missing * PAUSE < MOST_LOST * PATIENCE, f"{missing} of {sent} lost"
    assert not cluster.backup.has(cluster.address)
    traffic.ping(cluster.client.ns, cluster.address)
    assert cluster.spoofed() == []


def learned(host, mac):
    """The row of one learned MAC."""
    (row,) = [row for row in show("learned", host)["entries"] if row["mac"] == mac]
    return row


@pytest.mark.parametrize("virtual_mac", [False, True], ids=["own mac", "virtual mac"])
def test_a_thief_gets_neither_address_nor_mac(lab, encapsulation, virtual_mac):
    cluster = Cluster(lab, encapsulation, 4, virtual_mac)
    cluster.master.start()
    cluster.wait_for(cluster.master)
    traffic.ping(cluster.client.ns, cluster.address)
    there = cluster.answerer()
    host, thief = cluster.scene.hosts[1].name, cluster.thief
    gratuitous = Ether(src=thief.mac, dst=BROADCAST) / ARP(
        op=2, hwsrc=thief.mac, psrc=cluster.address, hwdst=BROADCAST, pdst=cluster.address)
    with_mac = Ether(src=keepalived.MACS[4], dst=BROADCAST) / ARP(
        op=2, hwsrc=keepalived.MACS[4], psrc=thief.v4, hwdst=BROADCAST, pdst=thief.v4)
    frames = {"spoofed_arp": gratuitous}
    if virtual_mac:
        frames["spoofed_mac"] = with_mac
    before = verdicts(host)
    with PacketSocket(thief.ns, "eth0") as out:
        for frame in frames.values():
            out.send(bytes(frame))
    wanted = {("from_port", reason): 1 for reason in frames}

    def stopped():
        rose = difference(before, verdicts(host))
        return {key: count for key, count in rose.items() if key in wanted} == wanted
    wait_until(stopped, 3 * PATIENCE, what="the frames to be counted")
    assert port_counters(host, f"port{thief.number}")["dropped"]["packets"] == len(frames)
    assert cluster.answerer() == there
    traffic.ping(cluster.client.ns, cluster.address)


class RoutedCluster:
    """Master and backup with `security: strict` behind a router; one client beside the master, one on another switch."""

    def __init__(self, lab, encapsulation, family, virtual_mac):
        self.estate = Estate(lab, encapsulation)
        self.mac = keepalived.MACS[family] if virtual_mac else None
        self.address = self.estate.segments["data"].host(200)[family == 6]
        shared = [self.address] if family == 4 else [LINK_LOCAL, self.address]
        self.far, self.beside = self.estate.guest("front", 1), self.estate.guest("data", 1)
        nodes = [self.estate.guest("data", host, **sharing(shared, self.mac)) for host in (1, 2)]
        self.estate.apply()
        for host in self.estate.hosts:
            wait_for_announcements(host)
        self.master, self.backup = (Keepalived(lab, guest, shared, priority, virtual_mac)
                                    for guest, priority in zip(nodes, (150, 100)))

    def passes_to(self, node, change):
        """The address passes to a node by `change`. What each client loses is printed; through the router no more is
        lost than on the switch, but what one more question takes, twice."""
        clients = {"on the switch": self.beside, "through the router": self.far}
        processes = {way: pinging(client, self.address, 6) for way, client in clients.items()}
        time.sleep(1)
        change()
        counts = {way: lost(process) for way, process in processes.items()}
        assert node.has(self.address)
        for way, (sent, missing) in counts.items():
            print(f"to {node.guest.ns.name} {way}: {missing} of {sent} pings lost, {missing * PAUSE:.2f} s")
        (_, switched), (sent, routed) = counts.values()
        assert sent > 50 and routed <= 2 * (switched + 1 / PAUSE), counts

    def is_owned_by(self, node):
        """The clients reach the node, and the hosts that send there for the router say so. With a virtual MAC, the
        guest's stack still asks for its router from its own one (arp_announce), and the hosts note that."""
        guest = node.guest
        for client in (self.beside, self.far):
            traffic.ping(client.ns, self.address)
        assert answerer(self.beside, self.address) == (self.mac or guest.mac)
        hosts = self.estate.hosts if self.estate.encapsulation != VLAN else self.estate.hosts[:1]
        for host in hosts:
            (row,) = [row for row in show("neighbours", host.name)["neighbours"] if row["address"] == self.address]
            assert row["mac"] in (self.mac, guest.mac), row
            assert row["port"] == (port(guest) if guest.host is host else None), row


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("virtual_mac", [False, True], ids=["own mac", "virtual mac"])
def test_the_address_moves_behind_a_router(lab, encapsulation, family, virtual_mac):
    """The master's keepalived is killed: its machine has the address too, and still speaks with it until keepalived
    comes back. Then the whole machine falls silent."""
    cluster = RoutedCluster(lab, encapsulation, family, virtual_mac)
    master, backup = cluster.master, cluster.backup
    master.start()
    wait_for_master(master, cluster.address)
    backup.start()
    wait_until(lambda: traffic.pings(cluster.far.ns, cluster.address, timeout=0.3), what="the router to find the master")
    cluster.is_owned_by(master)

    def is_killed():
        master.kill()
        wait_for_master(backup, cluster.address)

    def comes_back():
        master.start()
        wait_until(lambda: not backup.has(cluster.address), 15 * PATIENCE, what="the backup to give the address back")

    def falls_silent():
        master.guest.ns.ip("link set eth0 down")
        wait_for_master(backup, cluster.address)

    cluster.passes_to(backup, is_killed)
    cluster.passes_to(master, comes_back)
    cluster.is_owned_by(master)
    cluster.passes_to(backup, falls_silent)
    cluster.is_owned_by(backup)


def test_a_master_that_asks_by_its_own_mac_loses_nothing(lab):
    """Its stack asks for the router in the name of the address, from the MAC of eth0. There nobody answers for the
    address (keepalived sets arp_ignore), so the router asks everybody, and packets go on meanwhile."""
    cluster = RoutedCluster(lab, GENEVE, 4, virtual_mac=True)
    cluster.master.start()
    wait_for_master(cluster.master, cluster.address)
    wait_until(lambda: traffic.pings(cluster.far.ns, cluster.address, timeout=0.3), what="the router to find the master")
    time.sleep(1.5 * PATIENCE)  # keepalived's second gratuitous ARP
    machine, (router, _) = cluster.master.guest, cluster.estate.segments["data"].router
    question = Ether(src=machine.mac, dst=BROADCAST) / ARP(hwsrc=machine.mac, psrc=cluster.address, pdst=router)
    host = cluster.estate.hosts[0].name
    before = verdicts(host)
    with PacketSocket(machine.ns, "eth0") as out:
        out.send(bytes(question))
    sent, missing = lost(pinging(cluster.far, cluster.address, 8))
    rose = difference(before, verdicts(host))
    assert rose["from_segmenter", "probe"] >= 3 and ("from_port", "resolving") not in rose, rose
    assert missing == 0, f"{missing} of {sent} lost"
