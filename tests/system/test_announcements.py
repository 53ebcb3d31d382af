"""What the physical network is told when addresses move, and that it can ask for them: peers of the kernel's, which
remember for an hour where an address was, and switches that learn and filter.

    upstream ─┐                  ┌─ phys0 [h1]
              ├─ bridge (switch) ┤
    former ───┘                  └─ phys0 [h2]
"""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket
from logical import (INSIDE6, LEG, LEG4, LEG6, OUTSIDE4, OUTSIDE6, ROUTER, ROUTER_MAC, SPARE4, SPARE6, Estate)
from net import run, veth, wait_until
from overlane import GENEVE, STATE, VLAN, announcers, overlane, remove
from spoofed import link_local
from topology import UPLINK, UPLINK_VLAN, Scene, apply_host, wait_for_announcements

pytestmark = pytest.mark.needs_overlane

ETH_P_RARP = 0x8035
HOUR_MS = 3_600_000
LEG_MACS = {1: "02:00:5e:00:02:11", 2: "02:00:5e:00:02:12"}


class Physical:
    """The physical network: a switch, an upstream router that forgets nothing, and the hosts' legs."""

    def __init__(self, lab, estate, hosts=(1, 2), bridge="mcast_snooping 0"):
        self.lab, self.estate = lab, estate
        self.switch = lab.namespace("s", ipv6=bridge != "mcast_snooping 0")
        self.switch.ip(f"link add br0 type bridge {bridge}", "link set br0 up")
        for number in hosts:
            host = estate.hosts[number - 1].ns
            self.plug(host, LEG, f"leg{number}", LEG_MACS[number])
            # From this address the kernel reports groups (MLD).
            host.ip(f"address add fe80::{number}/64 dev {LEG} nodad")
        self.up = self.machine("up", "02:00:5e:00:02:01", OUTSIDE4, OUTSIDE6)
        self.up.ip(f"route add {INSIDE6} via {LEG6} dev eth0")

    def plug(self, ns, device, end, mac):
        veth(self.switch, end, ns, device)
        self.switch.ip(f"link set {end} master br0 up")
        ns.ip(f"link set {device} address {mac} up")

    def machine(self, name, mac, v4, v6):
        ns = self.lab.namespace(name)
        self.plug(ns, "eth0", f"to{name}", mac)
        ns.ip(f"address add {link_local(mac)}/64 dev eth0 nodad", f"address add {v4}/24 dev eth0",
              f"address add {v6}/64 dev eth0 nodad")
        # What it knows of a neighbour it believes for an hour. It takes announcements as every Linux does.
        for family in ("ipv4", "ipv6"):
            ns.sysctl(f"net.{family}.neigh.eth0.base_reachable_time_ms", HOUR_MS)
            ns.sysctl(f"net.{family}.neigh.eth0.gc_stale_time", HOUR_MS // 1000)
        return ns

    def knows(self, address):
        (entry,) = [row for row in self.up.json("neigh show dev eth0") if row["dst"] == address]
        return entry["lladdr"]


def gateway(estate, host, nat=()):
    estate.router["gateway"] = {"host": estate.hosts[host - 1].name, "device": LEG,
                                "addresses": [f"{LEG4}/24", f"{LEG6}/64"], "nat": list(nat)}


def stage(lab, nat=(), **options):
    """The gateway on the first host."""
    estate = Estate(lab, GENEVE)
    physical = Physical(lab, estate, **options)
    estate.routes(("0.0.0.0/0", OUTSIDE4), ("::/0", OUTSIDE6))
    gateway(estate, 1, nat)
    return estate, physical


def written(estate):
    estate.fabric.data["routers"] = {ROUTER: estate.router}
    return estate.write()


def announcements(frames):
    """{(kind, address, MAC, VLAN): how many}, of raw frames."""
    found = Counter()
    for raw in frames:
        frame = Ether(raw)
        vlan = frame[Dot1Q].vlan if frame.haslayer(Dot1Q) else None
        if (frame[Dot1Q] if vlan else frame).type == ETH_P_RARP:
            arp = ARP(frame.lastlayer().load)
            assert (arp.op, frame.dst, frame.src, arp.hwdst) == (3, BROADCAST, arp.hwsrc, arp.hwsrc)
            found["rarp", None, arp.hwsrc, vlan] += 1
        elif frame.haslayer(ARP):
            arp = frame[ARP]
            if arp.psrc == arp.pdst:
                assert (arp.op, frame.dst, frame.src, arp.hwdst) == (1, BROADCAST, arp.hwsrc, "00:00:00:00:00:00")
                found["arp", arp.psrc, arp.hwsrc, vlan] += 1
        elif frame.haslayer(ICMPv6ND_NA) and frame[IPv6].dst == "ff02::1":
            nd = frame[ICMPv6ND_NA]
            assert (frame.dst, frame[IPv6].hlim, nd.S, nd.O) == ("33:33:00:00:00:01", 255, 0, 1)
            assert frame[ICMPv6NDOptDstLLAddr].lladdr == frame.src and frame[IPv6].src == nd.tgt
            right = IPv6(bytes(frame[IPv6]))
            del right[ICMPv6ND_NA].cksum
            assert IPv6(bytes(right))[ICMPv6ND_NA].cksum == nd.cksum
            found["router" if nd.R else "host", nd.tgt, frame.src, vlan] += 1
    return found


def heard(sock, host):
    """The announcements until there are no more, whatever else goes on."""
    wait_for_announcements(host)
    end, frames = time.monotonic() + 0.3, []
    while (frame := sock.receive(max(0, end - time.monotonic()))) is not None:
        frames.append(frame)
    return announcements(frames)


def left_files(host):
    return sorted(path.name for path in STATE.glob(f"{host.name}.announce*"))


def of_leg(number, *addresses):
    kinds = {True: "router", False: "arp"}
    return {(kinds[":" in each], each, LEG_MACS[number], None): 3 for each in addresses}


class Pings:
    """Echo requests to an address, ten in a second, until the end of the `with` block."""

    def __init__(self, ns, address):
        self._process = ns.popen(["ping", "-n", "-D", "-i", "0.1", "-W", "1", address], stdout=-1, text=True)

    def __enter__(self):
        self._process.stdout.readline()
        self._process.stdout.readline()
        return self

    def __exit__(self, *_):
        self._process.send_signal(2)
        text, _ = self._process.communicate(timeout=10)
        words = next(line for line in text.splitlines() if "packets transmitted" in line).split()
        self.sent, self.answered = int(words[0]), int(words[3])

    @property
    def lost_s(self):
        """Without the one that was under way in the end."""
        return max(0, self.sent - self.answered - 1) / 10


def test_the_gateway_moves_and_its_peers_lose_a_second_at_most(lab, capsys):
    estate, physical = stage(lab)
    estate.guest("front", 1)
    estate.apply()
    traffic.ping(physical.up, LEG4)
    traffic.ping(physical.up, LEG6)
    wait_for_announcements(estate.hosts[0])
    gateway(estate, 2)
    with PacketSocket(physical.up, "eth0", ETH_P_ALL) as sock:
        with Pings(physical.up, LEG4) as four, Pings(physical.up, LEG6) as six:
            estate.apply(estate.hosts[1], estate.hosts[0])
            assert physical.knows(LEG4) == physical.knows(LEG6) == LEG_MACS[2]
            counted = heard(sock, estate.hosts[1])
    with capsys.disabled():
        print(f"\nthe gateway moved: lost {four.lost_s} s of IPv4, {six.lost_s} s of IPv6 "
              f"({four.answered} and {six.answered} answers)")
    assert four.lost_s <= 1 and six.lost_s <= 1
    assert four.answered > 20 and six.answered > 20
    assert counted == of_leg(2, LEG4, LEG6)
    assert [left_files(host) for host in estate.hosts] == [[], []]


def test_a_new_outside_address_is_told_and_the_others_are_not(lab):
    """It was another machine's."""
    estate, physical = stage(lab)
    guest = estate.guest("front", 1)
    former = physical.machine("former", "02:00:5e:00:02:77", SPARE4, SPARE6)
    for address in (SPARE4, SPARE6):
        traffic.ping(physical.up, address)
    estate.apply()
    wait_for_announcements(estate.hosts[0])
    former.ip("link set eth0 down")
    gateway(estate, 1, [{"one_to_one": guest.v4, "outside": SPARE4}, {"one_to_one": guest.v6, "outside": SPARE6}])
    with PacketSocket(physical.up, "eth0", ETH_P_ALL) as sock:
        path = written(estate)
        began = time.monotonic()
        done = apply_host(lab, path, estate.hosts[0])
        took = time.monotonic() - began
        for address in (SPARE4, SPARE6):
            assert physical.knows(address) == LEG_MACS[1]
            traffic.ping(physical.up, address)
        counted = heard(sock, estate.hosts[0])
        assert f"announces {SPARE4}, {SPARE6} by {LEG}" in done.stdout
        assert took < 1.5, "apply, and who reads what it says, wait for no announcement"
        assert counted == of_leg(1, SPARE4, SPARE6)
        # The same again: nothing is new.
        done = apply_host(lab, path, estate.hosts[0])
        assert "announces" not in done.stdout and announcers(estate.hosts[0].name) == []
        assert announcements(sock.receive_all(1.2)) == {}


def fdb(scene, mac):
    """The ports of the physical switch behind which it has seen a MAC."""
    rows = json.loads(run(["bridge", "-n", scene.underlay.bridge.name, "-json", "fdb", "show", "br", "br0"]).stdout)
    return [row["ifname"] for row in rows if row["mac"] == mac]


@pytest.mark.parametrize("declared", [True, False], ids=["with-addresses", "without"])
def test_a_silent_guest_moves_on_a_vlan_and_the_switch_knows_at_once(lab, declared):
    options = {"addresses": False, "ipv6": False}
    scene = Scene(lab, VLAN, 4, guests=(1, 1), bridge=True, guest_options=options)
    guest, other = scene.guests
    entry = scene.fabric.data["ports"]["port1"]
    entry["addresses"] = list(guest.addresses) if declared else []
    scene.apply()
    assert fdb(scene, guest.mac) == ["to1"] and fdb(scene, other.mac) == ["to2"]
    moved = lab.namespace("moved", ipv6=False)
    veth(scene.hosts[1].ns, guest.device, moved, "eth0")
    entry["host"] = scene.hosts[1].name
    with PacketSocket(scene.hosts[0].ns, UPLINK, ETH_P_ALL) as sock:
        scene.hosts[1].ns.ip(f"link set {guest.device} up")
        done = apply_host(lab, scene.fabric.write(lab.directory / "fabric.yaml"), scene.hosts[1])
        # The guest's own end is down: it is not there yet, and the old place stays right.
        assert f"down, or made anew since `apply`: {guest.device}" in done.stderr
        assert fdb(scene, guest.mac) == ["to1"]
        moved.ip("link set eth0 up")
        wait_until(lambda: fdb(scene, guest.mac) == ["to2"], 2, what="the switch to learn")
        counted = heard(sock, scene.hosts[1])
    scene.apply(scene.hosts[0])
    expected = {("arp", guest.v4, guest.mac, UPLINK_VLAN): 3, ("host", guest.v6, guest.mac, UPLINK_VLAN): 3}
    assert counted == (expected if declared else {("rarp", None, guest.mac, UPLINK_VLAN): 3})


def test_a_router_that_begins_to_answer_on_a_vlan_says_so(lab):
    """A gateway without a leg, on a switch of the underlay's VLAN."""
    estate = Estate(lab, VLAN, switches=("front",))
    guest = estate.guest("front", 1)
    estate.guest("front", 2)
    estate.stand_in(1)
    estate.apply()
    for host in estate.hosts:
        wait_for_announcements(host)
    estate.stand_in(2)
    vlan, (v4, v6) = estate.vlan("front"), estate.segments["front"].router
    with PacketSocket(estate.hosts[0].ns, UPLINK, ETH_P_ALL) as sock:
        estate.apply(estate.hosts[1])
        counted = heard(sock, estate.hosts[1])
    assert counted == {("arp", v4, ROUTER_MAC, vlan): 3, ("router", v6, ROUTER_MAC, vlan): 3,
                       ("router", "fe80::ff:fe00:fefe", ROUTER_MAC, vlan): 3}
    traffic.ping(guest.ns, v4)


def macvlan(host, leg, near, device):
    """A leg that takes in what its own filter lets it."""
    veth(host, "card", near, device)
    host.ip("link set card up", f"link add {leg} link card type macvlan mode bridge")


def test_a_leg_on_a_macvlan_hears_questions_about_ipv6_addresses(lab):
    estate = Estate(lab, GENEVE, hosts=2)
    guest = estate.guest("front", 1)
    outside = estate.gateway(1, [{"one_to_one": guest.v6, "outside": SPARE6}], make_leg=macvlan)
    host = estate.hosts[0]
    estate.apply(host)
    outside.ns.ip("neigh flush all")
    for address in (LEG6, SPARE6):
        assert traffic.pings(outside.ns, address, count=5) == 5
    done = remove(host.name, host.netns)
    assert f"- multicast groups of 2 addresses on {LEG}" in done.stdout
    assert host.ns.json("neigh show proxy") == []
    groups = host.ns.run(["ip", "maddr", "show", "dev", LEG]).stdout
    assert "ff00:10" not in groups and "ff:00:00:10" not in groups


def test_a_switch_that_listens_to_mld_hears_of_the_groups(lab):
    estate, physical = stage(lab, hosts=(1,), bridge="mcast_snooping 1 mcast_querier 1 mcast_startup_query_interval 20 "
                                                     "mcast_query_response_interval 20")
    guest = estate.guest("front", 1)
    gateway(estate, 1, [{"one_to_one": guest.v6, "outside": SPARE6}])
    estate.apply(estate.hosts[0])

    def snooped():
        (rows,) = json.loads(run(["bridge", "-n", physical.switch.name, "-json", "mdb", "show"]).stdout)
        return {row["grp"] for row in rows["mdb"] if row["port"] == "leg1"}

    wait_until(lambda: {"ff02::1:ff00:2", "ff02::1:ff00:10"} <= snooped(), what="reports")
    for address in (LEG6, SPARE6):
        assert traffic.pings(physical.up, address, count=5) == 5
    gateway(estate, 1)
    done = apply_host(lab, written(estate), estate.hosts[0])
    assert f"- multicast group of {SPARE6} on {LEG}" in done.stdout
    wait_until(lambda: "ff02::1:ff00:10" not in snooped(), what="the group to be left")
    wait_for_announcements(estate.hosts[0])
    # Who takes the leg down makes the kernel forget; who brings it up can have all made good.
    estate.hosts[0].ns.ip(f"link set {LEG} down", f"link set {LEG} up")
    assert estate.hosts[0].ns.json("neigh show proxy") == []
    with PacketSocket(physical.up, "eth0", ETH_P_ALL) as sock:
        done = overlane("announce", "--host", estate.hosts[0].name)
        assert f"+ multicast group of {LEG6} on {LEG}" in done.stdout
        assert f"announces {LEG4}, {LEG6} by {LEG}" in done.stdout
        assert announcements(sock.receive_all()) == of_leg(1, LEG4, LEG6)
    assert [row["dst"] for row in estate.hosts[0].ns.json("neigh show proxy")] == [LEG6]


def test_a_leg_that_comes_up_later_is_announced_then(lab):
    estate, physical = stage(lab, hosts=(1,))
    estate.guest("front", 1)
    host = estate.hosts[0]
    host.ns.ip(f"link set {LEG} down")
    with PacketSocket(physical.up, "eth0", ETH_P_ALL) as sock:
        done = apply_host(lab, written(estate), host)
        assert f"down, or made anew since `apply`: {LEG}; announcements that need it are made when it is up, within 60 seconds" in done.stderr
        assert len(announcers(host.name)) == 1
        assert announcements(sock.receive_all(1)) == {}
        host.ns.ip(f"link set {LEG} up")
        assert heard(sock, host) == of_leg(1, LEG4, LEG6)
    assert left_files(host) == []


def test_remove_and_the_next_apply_end_what_still_announces(lab):
    estate, physical = stage(lab, hosts=(1,))
    guest = estate.guest("front", 1)
    host = estate.hosts[0]
    host.ns.ip(f"link set {LEG} down")
    path = written(estate)
    apply_host(lab, path, host)
    (first,) = announcers(host.name)
    for stream in range(3):
        assert (first / "fd" / str(stream)).resolve() == Path("/dev/null")
    # Nothing differs: it goes on, and the new run announces nothing.
    done = apply_host(lab, path, host)
    assert announcers(host.name) == [first] and "announces" not in done.stdout
    # The next one carries on what is still to be said, and what is new.
    gateway(estate, 1, [{"one_to_one": guest.v4, "outside": SPARE4}])
    apply_host(lab, written(estate), host)
    wait_until(lambda: first not in announcers(host.name), 1, what="the first to end")
    assert len(announcers(host.name)) == 1
    with PacketSocket(physical.up, "eth0", ETH_P_ALL) as sock:
        host.ns.ip(f"link set {LEG} up")
        assert heard(sock, host) == of_leg(1, LEG4, LEG6, SPARE4)
    host.ns.ip(f"link set {LEG} down")
    gateway(estate, 1)
    apply_host(lab, written(estate), host)
    gateway(estate, 1, [{"one_to_one": guest.v4, "outside": SPARE4}])
    apply_host(lab, written(estate), host)
    assert len(announcers(host.name)) == 1
    remove(host.name, host.netns)
    wait_until(lambda: not announcers(host.name), 1, what="it to end with the host")
    assert left_files(host) == []


def test_a_namespace_that_is_deleted_takes_its_devices_along(lab):
    """Who announces lets go of it."""
    estate, physical = stage(lab, hosts=(1,))
    estate.guest("front", 1)
    host = estate.hosts[0]
    host.ns.ip(f"link set {LEG} down")
    apply_host(lab, written(estate), host)
    assert len(announcers(host.name)) == 1
    run(["ip", "netns", "delete", host.netns])
    wait_until(lambda: "leg1" not in {link["ifname"] for link in physical.switch.json("link show")}, 10,
               what="the other end of the leg to go")
    wait_until(lambda: not announcers(host.name), what="it to end")
