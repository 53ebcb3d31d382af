"""Floating addresses: guests with keepalived share one, and the virtual MAC of VRRP with it; nobody else takes them.

    master ┤ h1 │ ═══ │ h2 ├ backup
    client ┤    │     │    ├ thief
"""

import re
import time

import pytest
from scapy.layers.l2 import ARP, Ether

import traffic
from frames import BROADCAST, PacketSocket
from net import PATIENCE, wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, port_counters, show, verdicts
from peers import keepalived
from peers.keepalived import Keepalived
from topology import Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs(*keepalived.TOOLS)]

FLOATING = {4: "198.18.100.200", 6: "2001:2:0:64::c8"}
#: Over IPv6 the first address of a virtual router is link-local (RFC 5798 section 5.2.9).
LINK_LOCAL = "fe80::c8"
#: Seconds between two pings, and for how long they may go unanswered when the master stops.
PAUSE, MOST_LOST = 0.05, 3.0


class Cluster:
    """Master and backup with `security: strict`; a client beside the master, a thief beside the backup."""

    def __init__(self, lab, encapsulation, family, virtual_mac):
        self.scene = Scene(lab, encapsulation, 4, guests=(2, 2))
        self.address, self.mac = FLOATING[family], keepalived.MACS[family] if virtual_mac else None
        shared = [self.address] if family == 4 else [LINK_LOCAL, self.address]
        master, self.client, backup, self.thief = self.scene.guests
        for guest in (master, backup):
            port = self.scene.fabric.data["ports"][f"port{guest.number}"]
            port["allowed_addresses"] = shared
            if virtual_mac:
                port["allowed_macs"] = [self.mac]
        for guest in self.scene.guests:
            guest.ns.ip("link set eth0 down", "link set eth0 addrgenmode eui64 up",
                        f"address replace {guest.v6}/64 dev eth0 nodad")
        self.scene.apply()
        self.master = Keepalived(lab, master, shared, 150, virtual_mac)
        self.backup = Keepalived(lab, backup, shared, 100, virtual_mac)

    def wait_for(self, node):
        wait_until(lambda: node.has(self.address), 15 * PATIENCE, what=f"{node.guest.ns.name} to become master")

    def answerer(self):
        """The MAC at which the client finds the floating address."""
        (entry,) = self.client.ns.json(f"neigh show {self.address} dev eth0")
        return entry["lladdr"]

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
