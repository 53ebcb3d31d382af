"""What all guests share, and one takes all that it can get of: others go on as if it were not there."""

import contextlib
import errno
import json
import os
import socket
import threading

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import probes
import traffic
from flood import SLOTS, Flood
from logical import INSIDE4, LEG4, ROUTER, Estate, connections, port
from net import run, wait_until
from overlane import GENEVE, PINS, difference, overlane, port_counters, show, verdicts
from probes import Listener, Talk
from topology import apply_host

pytestmark = pytest.mark.needs_overlane

#: The whole flood of a million senders: half a minute.
FULL = "OVERLANE_FULL_FLOOD"
#: Where a frame of IPv4 has its sender's port and the lower half of its address, and where its receiver's.
SENDER, RECEIVER = (34, 35, 28, 29), (36, 37, 32, 33)
#: Numbers of strangers, so that none has port 0.
FIRST = 1 << 16
SHARE = 65536
#: Of Linux: errors of the network are told, not only those of the other end.
_IP_RECVERR = 11


@pytest.fixture
def estate(lab):
    """A server whose firewall remembers, who floods it, and others of the same host and of another tenant's."""
    estate = Estate(lab, GENEVE, 4)
    for place in (("front", 1), ("front", 1), ("data", 1), ("data", 2)):
        estate.guest(*place)
    server, attacker, neighbour, _ = estate.guests
    estate.fabric.data["ports"][port(attacker)]["security"] = "off"
    # At the server alone: the sender's own firewall would remember each of them too.
    for guest in (server, neighbour):
        name = port(guest)
        services = ["tcp/5205", "tcp/80", "udp/5206"]
        estate.rule(f"service-{name}", [guest], "to_port", services=services)
        estate.rule(f"else-{name}", [guest], "to_port", "drop", priority=1)
    return estate


#: Where the complements of these numbers stand, so that the checksums stay right: the address's in the IP
#: identification too, and all in TCP's acknowledgment, or the first bytes that a datagram carries.
BALANCES = ((42,), (43,), (18, 44), (19, 45))


def stranger(attacker, server, segment):
    """A frame of the first of many senders."""
    return bytes(Ether(src=attacker.mac, dst=server.mac) / IP(src="198.19.0.0", dst=server.v4, id=0xFFFF) / segment)


def ignore_strangers(*guests):
    """No stack takes what they send: there is no way back to them."""
    for guest in guests:
        guest.ns.sysctl("net.ipv4.conf.all.rp_filter", 1)
        guest.ns.ip("route add blackhole 198.19.0.0/16")


def kept(host):
    """Connections in the table, of whom it may be."""
    return len(show("connections", host.name)["connections"])


def test_a_flood_of_strangers_turns_over_its_own_connections_only(estate):
    """Half-open connections of as many senders as there are: who was there stays, who comes later gets in, and the
    other tenant notices nothing."""
    estate.apply()
    server, attacker, neighbour, client = estate.guests
    ignore_strangers(server, attacker)
    host = estate.hosts[0]
    syn = stranger(attacker, server, TCP(sport=0, dport=80, flags="S", seq=1, ack=0xFFFFFFFF))
    count = 1_200_000 if os.environ.get(FULL) else 2 * SHARE
    with Talk(client.ns, server.ns, server.v4) as talk, Talk(client.ns, neighbour.ns, neighbour.v6) as other, \
            Listener(server.ns, server.v4, 80), Listener(neighbour.ns, neighbour.v4, 80), \
            Flood(attacker.ns, "eth0", syn, SENDER, BALANCES) as flood:
        assert talk.goes_on() and other.goes_on()
        sent = 0
        while sent < count:
            sent += flood.send(SLOTS * 4, FIRST + sent)
            assert talk.goes_on() and other.goes_on()
            for guest in (server, neighbour):
                assert probes.connect_error(client.ns, guest.v4, 80) == 0, f"{guest.v4} behind {sent} strangers"
        counts = verdicts(host.name)
        assert counts["from_port", "to_port"] >= 0.99 * sent
        assert counts.get(("from_port", "connections_full"), 0) == 0
        own = [row for row in show("connections", host.name)["connections"] if row["port"] == port(server)]
        assert 0.9 * SHARE < len(own) <= SHARE
        assert talk.goes_on() and other.goes_on()


@contextlib.contextmanager
def dialogue(attacker, server):
    """Many senders ask the server by UDP, and it answers each: as two floods."""
    ask = stranger(attacker, server, UDP(sport=0, dport=5206) / Raw(b"\xff" * 20))
    answer = bytes(Ether(src=server.mac, dst=attacker.mac) / IP(src=server.v4, dst="198.19.0.0", id=0xFFFF)
                   / UDP(sport=5206, dport=0) / Raw(b"\xff" * 20))
    with Flood(attacker.ns, "eth0", ask, SENDER, BALANCES) as asking, Flood(server.ns, "eth0", answer, RECEIVER, BALANCES) as answering:
        yield asking, answering


def establish(asking, answering, rings):
    """So many rings of them: asked, answered and asked again, after which none makes way."""
    for first in range(FIRST, FIRST + rings * SLOTS, SLOTS):
        asking.send(SLOTS, first)
        answering.send(SLOTS, first)
        asking.send(SLOTS, first)
    # Beside other tests a packet overtakes one of another CPU: then its connection was not asked again, or began with
    # the answer.
    for first in range(FIRST, FIRST + rings * SLOTS, SLOTS):
        for each in (asking, answering, asking):
            each.send(SLOTS, first)


def test_a_share_nine_tenths_full_takes_nearly_all_that_come(estate):
    """In the order in which they come: established ones, one after the other, and nobody makes way."""
    estate.fabric.data["ports"][port(estate.guests[0])]["limits"] = {"connections": 10 * SLOTS}
    estate.apply()
    server, attacker = estate.guests[:2]
    ignore_strangers(server, attacker)
    host = estate.hosts[0]
    with dialogue(attacker, server) as (asking, answering):
        establish(asking, answering, 9)
        rows = [row for row in show("connections", host.name)["connections"] if row["port"] == port(server)]
        established = sum(row["state"] == "established" for row in rows)
        # Whose own connections are more than a tenth makes no room for others; these are all there.
        assert established >= 0.998 * 9 * SLOTS
        before = verdicts(host.name)
        asking.send(SLOTS, FIRST + 9 * SLOTS)
        counts = difference(before, verdicts(host.name))
    refused = counts.get(("from_port", "connections_full"), 0)
    assert counts["from_port", "to_port"] + refused >= SLOTS
    # By ADR 18 four of 8192 find no place (0.9^72). Five runs refused 2, 5, 9, 10 and 12: nobody knows yet why more.
    assert refused <= 0.002 * SLOTS
    # No established one made way.
    def now():
        rows = [row for row in show("connections", host.name)["connections"] if row["port"] == port(server)]
        assert len(rows) <= 10 * SLOTS
        return sum(row["state"] == "established" for row in rows)

    # A list that is read while connections come may miss one.
    wait_until(lambda: now() == established, what=f"all {established} established connections")


def test_a_host_holds_as_many_as_its_file_says(estate):
    """All of them live on when it is to hold fewer, and no other begins."""
    host = estate.hosts[0]
    server, attacker = estate.guests[:2]
    ignore_strangers(server, attacker)
    settings = estate.fabric.data["hosts"][host.name]
    settings["connections"] = SLOTS
    estate.apply()

    def established():
        shown = show("connections", host.name)
        return shown, sum(row["state"] == "established" for row in shown["connections"])

    with dialogue(attacker, server) as (asking, answering):
        establish(asking, answering, 3)
        shown, before = established()
        assert 0.95 * SLOTS < before <= shown["live"] <= shown["most"] == SLOTS
        settings["connections"] = SLOTS // 8
        applied = apply_host(estate.lab, estate.write(), host).stdout
        assert f"most connections {SLOTS} → {SLOTS // 8}\n" in applied
        counted = verdicts(host.name)
        asking.send(4 * SLOTS, FIRST)
        counts = difference(counted, verdicts(host.name))
        shown, after = established()
    assert counts["from_port", "to_port"] >= before
    # Those that are only asked make way for each other, and there are few of them.
    assert counts["from_port", "connections_full"] > 0
    full = {"reason": "connections_full", "whose": f"host {host.name}", "used": shown["held"], "most": SLOTS // 8,
            "of": "connections and translations"}
    assert full in show("drops", host.name)["limits"]
    assert after == before and shown["live"] > shown["most"] == SLOTS // 8
    title = overlane("show", "connections", "--host", host.name).stdout.splitlines()[0]
    assert title == f"host {host.name}: connections, {shown['live']} of at most {SLOTS // 8} live"


def test_senders_on_all_cpus_at_once_have_no_more_than_the_share(estate):
    """Each place has one connection, whoever writes there at the same moment."""
    share = 512
    server, attacker, _, client = estate.guests
    estate.fabric.data["ports"][port(server)]["limits"] = {"connections": share}
    second = estate.guest("front", 1, security="off")
    ignore_strangers(server)
    estate.apply()
    host = estate.hosts[0]
    segment = TCP(sport=0, dport=80, flags="S", seq=1, ack=0xFFFFFFFF)
    with Talk(client.ns, server.ns, server.v4) as talk, Listener(server.ns, server.v4, 80):
        floods = [Flood(guest.ns, "eth0", stranger(guest, server, segment), SENDER, BALANCES) for guest in (attacker, second)]
        # The same senders, and others.
        threads = [threading.Thread(target=flood.send, args=(32 * SLOTS, first * FIRST))
                   for flood, first in zip(floods, (1, 3))]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert talk.goes_on()
        for thread in threads:
            thread.join()
        for flood in floods:
            with flood:
                pass
        assert kept(host) <= share + 8, "with those of the client's"
        counts = verdicts(host.name)
        assert counts["from_port", "to_port"] >= 2 * 32 * SLOTS * 0.99
        assert counts.get(("from_port", "connections_full"), 0) <= 0.001 * 64 * SLOTS
        assert probes.connect_error(client.ns, server.v4, 80) == 0
        assert talk.goes_on()


def what_it_is_told(ns, target):
    """The error of a datagram: an errno."""
    with traffic.udp_socket(ns, "0.0.0.0", timeout=0.7) as sock:
        sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        sock.connect((target, 4001))
        sock.send(b"is anybody there?")
        try:
            sock.recv(64)
        except socket.timeout:
            return errno.ETIMEDOUT
        except OSError as error:
            return error.errno
        return 0


def test_who_provokes_errors_silences_nobody_else(estate):
    """Routers tell each sender; one that asks for thousands gets a hundred in a tenth of a second."""
    estate.apply()
    _, attacker, neighbour, client = estate.guests
    lost = bytes(Ether(src=attacker.mac, dst=estate.router["mac"]) / IP(src=attacker.v4, dst="198.18.250.9")
                 / UDP(sport=4000, dport=4001))
    with Flood(attacker.ns, "eth0", lost, (34, 35, 36, 37)) as flood:
        thread = threading.Thread(target=flood.send, args=(32 * SLOTS, FIRST))
        thread.start()
        told = []
        while thread.is_alive() and len(told) < 20:
            for guest in (neighbour, client):
                told.append(what_it_is_told(guest.ns, "198.18.250.8"))
        thread.join()
    assert told and set(told) == {errno.ENETUNREACH}
    assert verdicts(estate.hosts[0].name)["from_port", "no_route"] >= 32 * SLOTS


def test_a_storm_of_broadcasts_ends_at_its_own_port(estate):
    """Copies that one port floods are counted, and those of another port still arrive."""
    server, attacker, _, _ = estate.guests
    far = estate.guest("front", 2)
    estate.fabric.data["switches"]["front"]["limits"] = {"flood": 3000}
    estate.apply()
    host, limit = estate.hosts[0], 3000 // 10
    storm = bytes(Ether(src=attacker.mac, dst="ff:ff:ff:ff:ff:ff") / IP(src=attacker.v4, dst="255.255.255.255")
                  / UDP(sport=4000, dport=4001) / Raw(b"storm"))
    with traffic.udp_socket(far.ns, "0.0.0.0", 5300) as heard, traffic.udp_socket(server.ns, "0.0.0.0") as speaks, \
            Flood(attacker.ns, "eth0", storm, (34, 35, 36, 37)) as flood:
        speaks.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        before = verdicts(host.name)
        flood.send(2 * SLOTS, FIRST)
        counts = difference(before, verdicts(host.name))
        speaks.sendto(b"after the storm", ("255.255.255.255", 5300))
        assert heard.recv(64) == b"after the storm"
    assert counts["from_port", "flood_limit"] + counts["from_port", "flood"] >= 2 * SLOTS
    assert [row["whose"] for row in show("drops", host.name)["limits"] if row["reason"] == "flood_limit"] == [f"port {port(attacker)}"]
    # Each counts for the two ports here and the other host; all of it takes less than two seconds.
    assert counts["from_port", "flood"] <= 20 * (limit // 3 + 1)
    assert port_counters(host.name, port(attacker))["dropped"]["packets"] >= counts["from_port", "flood_limit"]


def entries(host, name):
    """How many a map of the data path has."""
    (path,) = (PINS / host.name).glob(f"maps-*/{name}")
    return len(json.loads(run(["bpftool", "-j", "map", "dump", "pinned", path]).stdout))


def test_translations_that_begin_on_two_cpus_at_once_leave_nothing_behind(estate):
    """Two guests send the same packets at the same moment: each translation is one, inside and outside."""
    first = estate.guests[1]
    second = estate.guest("front", 1, security="off")
    estate.gateway(1, [{"source": INSIDE4, "outside": LEG4}])
    estate.apply()
    host, target = estate.hosts[0], estate.router["mac"]
    frames = [bytes(Ether(src=guest.mac, dst=target) / IP(src=first.v4, dst="198.19.9.8")
                    / UDP(sport=4000, dport=4001, chksum=0)) for guest in (first, second)]
    floods = [Flood(guest.ns, "eth0", frame, (34, 35, 36, 37)) for guest, frame in zip((first, second), frames)]
    threads = [threading.Thread(target=flood.send, args=(6 * SLOTS, FIRST)) for flood in floods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for flood in floods:
        with flood:
            pass
    begun = len(connections(host, ROUTER))
    assert begun >= 0.9 * 6 * SLOTS
    assert entries(host, "translations") == begun
