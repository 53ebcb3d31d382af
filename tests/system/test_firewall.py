"""The firewall before real stacks: what a socket learns of each action, and what the operator is shown."""

import contextlib
import errno
import json
import socket

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

import probes
import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, plain_frame
from live import Live
from logical import ROUTER_MAC, Estate, connections, port, rules
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, overlane, show, verdicts
from probes import PROHIBITED, Listener, Talk, ask

pytestmark = pytest.mark.needs_overlane

INNER = pytest.mark.parametrize("inner", [0, 1], ids=["inner-v4", "inner-v6"])
#: A rule's service for echo requests of both families.
ECHO = ["icmp/8", "icmp6/128"]


@pytest.fixture
def estate(lab):
    """Client and server in one switch, a second client behind the router on the server's host."""
    estate = Estate(lab, GENEVE, 4)
    for switch, host in (("front", 1), ("front", 2), ("data", 2)):
        estate.guest(switch, host)
    return estate


@contextlib.contextmanager
def echoing(ns, address, port):
    """A UDP server that answers each datagram (by a thread of its own)."""
    import threading
    done = threading.Event()

    def serve(sock):
        while not done.is_set():
            with contextlib.suppress(OSError):
                data, sender = sock.recvfrom(65535)
                sock.sendto(data, sender)

    with traffic.udp_socket(ns, address, port, timeout=0.1) as sock:
        thread = threading.Thread(target=serve, args=(sock,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(5)


def outcome(client, server, index, port, protocol="tcp"):
    """What the client gets from a server's port."""
    target = server.addresses[index]
    if protocol == "tcp":
        with Listener(server.ns, target, port):
            return probes.connect_error(client.ns, target, port)
    with echoing(server.ns, target, port):
        return probes.datagram_error(client.ns, target, port)


@INNER
def test_what_a_rule_allows_passes_and_the_rest_is_silence(estate, inner):
    client, server, routed = estate.guests
    estate.firewall("front", to_port="drop")
    estate.rule("web", [server], "to_port", services=["tcp/80", "udp/53"])
    estate.apply()
    for guest in (client, routed):
        assert outcome(guest, server, inner, 80) == 0
        assert outcome(guest, server, inner, 81) == errno.ETIMEDOUT
        assert outcome(guest, server, inner, 53, "udp") == 0
        assert outcome(guest, server, inner, 54, "udp") == errno.ETIMEDOUT
        assert traffic.pings(guest.ns, server.addresses[inner], timeout=0.5) == 0
    counts = verdicts(estate.hosts[1].name)
    assert counts["from_underlay", "firewall_drop"] > 0 and counts["from_port", "firewall_drop"] > 0


@INNER
def test_a_rejected_client_is_told_at_once(estate, inner):
    """TCP by a reset, anything else by ICMP from the address it meant; the server sees nothing of it."""
    client, server, routed = estate.guests
    estate.rule("not-here", [server], "to_port", "reject", services=["tcp/22", "udp", "icmp", "icmp6"])
    estate.apply()
    address = server.addresses[inner]
    family = probes.family_of(address)
    for guest in (client, routed):
        assert outcome(guest, server, inner, 22) == errno.ECONNREFUSED
        assert outcome(guest, server, inner, 80) == 0
        refused = errno.EHOSTUNREACH if family == 4 else errno.EACCES
        assert outcome(guest, server, inner, 53, "udp") == refused
        assert ask(guest.ns, address) == probes.Refusal(PROHIBITED[family], address)
    counts = verdicts(estate.hosts[1].name)
    assert counts["from_underlay", "firewall_reject"] == 3 == counts["from_port", "firewall_reject"]


@INNER
def test_a_guest_that_may_not_send_is_told_by_its_own_host(estate, inner):
    client, server, _ = estate.guests
    estate.rule("stay", [client], "from_port", "reject", peers=[port(server)])
    estate.apply()
    assert outcome(client, server, inner, 80) == errno.ECONNREFUSED
    assert ask(client.ns, server.addresses[inner]).what == PROHIBITED[4 if inner == 0 else 6]
    assert verdicts(estate.hosts[0].name)["from_port", "firewall_reject"] == 2
    assert ("from_underlay", "to_port") not in verdicts(estate.hosts[1].name)


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (VXLAN, 6), (GENEVE, 4), (GENEVE, 6), (VLAN, 4)],
                         ids=["vxlan-v4", "vxlan-v6", "geneve-v4", "geneve-v6", "vlan"])
def test_answers_need_no_rule_whatever_carries_them(lab, encapsulation, family, wire):
    """A client that takes nothing in unasked; all of TCP, UDP, echo, and ICMP errors about what it sent."""
    estate = Estate(lab, encapsulation, family, wire)
    client, far, near = (estate.guest(*place) for place in (("front", 1), ("front", 2), ("data", 2)))
    estate.firewall("front", to_port="drop")
    estate.rule("servers", [far], "to_port")
    estate.apply()
    for server in (far, near):
        for a, b in zip(client.addresses, server.addresses):
            traffic.ping(client.ns, b)
            traffic.tcp_equal(client.ns, a, server.ns, b, size=2 * traffic.MEBIBYTE)
            traffic.udp_equal(client.ns, a, server.ns, b)
            assert ask(client.ns, b).by == b, "port unreachable is related to what the client sent"
            assert traffic.pings(server.ns, a, timeout=0.3) == 0
            assert probes.connect_error(server.ns, a, 80) == errno.ETIMEDOUT


def test_super_packets_pass_a_firewall_at_both_ends_whole(lab, estate):
    client, server, _ = estate.guests
    estate.rule("everything-out", [client, server], "from_port")
    estate.rule("everything-in", [client, server], "to_port")
    estate.apply()
    for a, b in zip(client.addresses, server.addresses):
        traffic.tcp_equal(client.ns, a, server.ns, b)
    name = estate.hosts[1].name
    row = next(row for row in show("counters", name)["ports"] if row["port"] == port(server))
    assert row["to_port"]["segments"] > 3 * row["to_port"]["packets"]
    assert not [key for key in verdicts(name) if "window" in key[1] or "firewall" in key[1]]


@INNER
def test_stateless_rules_know_no_answers(estate, inner):
    """The server's answers need a rule of their own; no connection is remembered of either."""
    client, server, _ = estate.guests
    estate.firewall("front", from_port="drop", to_port="drop")
    estate.rule("client-out", [client], "from_port")
    estate.rule("in", [server], "to_port", "allow_stateless", services=["tcp/80", "udp/53"])
    estate.apply()
    assert outcome(client, server, inner, 80) == errno.ETIMEDOUT
    assert outcome(client, server, inner, 53, "udp") == errno.ETIMEDOUT
    assert verdicts(estate.hosts[1].name)["from_port", "firewall_drop"] >= 2
    estate.rule("out", [server], "from_port", "allow_stateless", peers=[port(client)])
    estate.apply()
    assert outcome(client, server, inner, 80) == 0
    assert outcome(client, server, inner, 53, "udp") == 0
    assert connections(estate.hosts[1], port(server)) == []
    assert connections(estate.hosts[0], port(client)) != []


def test_of_rules_that_match_the_highest_decides_then_the_first(estate):
    client, server, routed = estate.guests
    estate.rule("others", [server], "to_port", "drop", priority=10)
    estate.rule("first", [server], "to_port", services=["tcp/80"])
    estate.rule("second", [server], "to_port", "reject", services=["tcp/80-81"])
    estate.rule("above", [server], "to_port", "drop", priority=2000, peers=[port(routed)])
    estate.apply()
    assert outcome(client, server, 0, 80) == 0
    assert outcome(client, server, 0, 81) == errno.ECONNREFUSED
    assert outcome(client, server, 0, 82) == errno.ETIMEDOUT
    assert outcome(routed, server, 0, 80) == errno.ETIMEDOUT
    order = [row["rule"] for row in show("rules", estate.hosts[1].name)["rules"]]
    assert order == ["above", "first", "second", "others"]


def test_peers_and_services_are_what_the_file_says(estate):
    client, server, routed = estate.guests
    estate.firewall("front", to_port="drop")
    estate.fabric.data["groups"] = {"clients": [port(client)]}
    estate.fabric.data["networks"] = {"behind": [estate.segments["data"].net4, estate.segments["data"].net6]}
    estate.rule("pinging", [server], "to_port", peers=["clients"], services=ECHO)
    estate.rule("telling", [server], "to_port", peers=["behind"], services=["udp/100-200"])
    estate.apply()
    for inner in (0, 1):
        address = server.addresses[inner]
        traffic.ping(client.ns, address)
        assert traffic.pings(routed.ns, address, timeout=0.3) == 0
        for number, answer in ((99, errno.ETIMEDOUT), (100, 0), (200, 0), (201, errno.ETIMEDOUT)):
            assert outcome(routed, server, inner, number, "udp") == answer
        assert outcome(client, server, inner, 150, "udp") == errno.ETIMEDOUT


def test_rules_that_change_end_what_they_revoke_and_nothing_else(estate):
    client, server, routed = estate.guests
    estate.firewall("front", to_port="drop")
    estate.rule("staying", [server], "to_port", services=["tcp/5205"])
    estate.rule("passing", [server], "to_port", services=["tcp/5206"])
    estate.apply()
    with Talk(client.ns, server.ns, server.v4, 5205) as kept, Talk(routed.ns, server.ns, server.v6, 5205) as kept6, \
            Talk(client.ns, server.ns, server.v4, 5206) as revoked, \
            Talk(routed.ns, server.ns, server.v6, 5206) as revoked6:
        talks = kept, kept6, revoked, revoked6
        assert all(talk.goes_on() for talk in talks)
        estate.forget_rule("passing")
        estate.rule("newer", [server], "to_port", priority=2000, services=["tcp/7"])
        estate.apply()
        assert kept.goes_on() and kept6.goes_on()
        assert revoked.is_dead() and revoked6.is_dead()
        assert kept.goes_on() and kept6.goes_on()
        rows = connections(estate.hosts[1], port(server))
        assert {row["rule"] for row in rows if row["local"]["port"] == 5205} == {"staying"}
        # Allowed again, a connection is a new one; the old one stays dead (or is adopted by neither side).
        estate.rule("passing", [server], "to_port", services=["tcp/5206"])
        estate.apply()
        assert outcome(client, server, 0, 5206) == 0


def test_a_long_transfer_survives_a_hundred_reloads(estate):
    """Rules around it come and go while it runs: not a byte is lost to a half-written rule set."""
    client, server, _ = estate.guests
    estate.firewall("front", to_port="drop")
    estate.rule("transfer", [server], "to_port", services=["tcp/5205"])
    estate.apply()
    with Talk(client.ns, server.ns, server.v4) as talk:
        for number in range(10):
            estate.rule(f"other{number}", [server], "to_port", "drop", priority=2000 + number,
                        services=[f"tcp/{6000 + number}"])
            estate.apply(estate.hosts[1])
            assert talk.goes_on(100_000)
        talk.exchange()
    assert ("from_underlay", "firewall_drop") not in verdicts(estate.hosts[1].name)


def test_a_firewall_that_comes_to_a_running_connection_adopts_it(estate):
    client, server, _ = estate.guests
    estate.apply()
    with Talk(client.ns, server.ns, server.v4) as talk, Talk(client.ns, server.ns, server.v4, 5206) as other:
        assert talk.goes_on() and other.goes_on()
        estate.firewall("front", to_port="drop")
        estate.rule("talk", [server], "to_port", services=["tcp/5205"])
        estate.rule("client", [client], "to_port", peers=[port(server)], services=["tcp"])
        estate.apply()
        assert talk.goes_on()
        (row,) = [row for row in connections(estate.hosts[1], port(server)) if row["local"]["port"] == 5205]
        assert row["adopted"] and row["rule"] == "talk" and row["state"] == "established"


def test_each_rule_counts_what_it_decided(estate):
    client, server, _ = estate.guests
    estate.rule("echo", [server], "to_port", services=ECHO)
    estate.rule("never", [server], "to_port", "drop", services=["sctp"])
    estate.rule("closed", [server], "to_port", "reject", services=["tcp/22"])
    estate.rule("quiet", [server], "to_port", "drop", services=["tcp/23"])
    estate.apply()
    host = estate.hosts[1]
    traffic.ping(client.ns, server.v4, count=3)
    assert outcome(client, server, 0, 22) == errno.ECONNREFUSED
    assert outcome(client, server, 0, 23) == errno.ETIMEDOUT
    counted = rules(host)
    assert counted["echo"] == 6, "requests, and the answers of their connections"
    assert (counted["never"], counted["closed"]) == (0, 1) and counted["quiet"] >= 1
    estate.rule("more", [server], "to_port", priority=5000, services=["udp"])
    estate.apply()
    after = rules(host)
    assert after["more"] == 0 and after["echo"] in (0, 6)
    text = overlane("show", "rules", "--host", host.name).stdout
    assert all(name in text for name in ("echo", "never", "closed", "quiet", "more"))


def test_the_log_has_what_the_rule_decided_itself(lab, estate, tmp_path):
    client, server, _ = estate.guests
    estate.rule("seen", [server], "to_port", services=["tcp/80"], log=True)
    estate.rule("refused", [server], "to_port", "reject", services=["tcp/22"], log=True)
    estate.rule("unseen", [server], "to_port", "drop", services=["tcp/23"])
    estate.apply()
    host = estate.hosts[1]
    with Live(tmp_path, "log", "--host", host.name, "--json", started="log") as log:
        with Talk(client.ns, server.ns, server.v4, 80) as talk:
            assert talk.goes_on()
        assert outcome(client, server, 1, 22) == errno.ECONNREFUSED
        assert outcome(client, server, 0, 23) == errno.ETIMEDOUT
        wait_until(lambda: len(log.lines()) >= 2, what="both records")
    one, other = log.json()
    assert (one["rule"], one["port"], one["direction"], one["passed"], one["verdict"]) \
        == ("seen", port(server), "to_port", True, None)
    assert one["line"] == estate.line("seen") and one["protocol"] == 6
    assert one["local"] == {"address": server.v4, "port": 80} and one["peer"]["address"] == client.v4
    assert (other["rule"], other["passed"], other["verdict"]) == ("refused", False, "firewall_reject")
    assert other["local"] == {"address": server.v6, "port": 22}


def test_a_flood_of_records_is_cut_off_and_packets_are_not(lab, estate, tmp_path):
    """At most 100 records in a second are written; every packet is counted."""
    client, server, _ = estate.guests
    estate.rule("noisy", [client], "from_port", "drop", services=["udp/9"], log=True)
    estate.apply()
    host = estate.hosts[0]
    frame = bytes(Ether(src=client.mac, dst=server.mac) / IP(src=client.v4, dst=server.v4)
                  / UDP(sport=1, dport=9) / Raw(b"x" * 20))
    with Live(tmp_path, "log", "--host", host.name, "--json", started="log") as log, \
            PacketSocket(client.ns, "eth0") as out:
        for _ in range(2000):
            out.send(frame)
        wait_until(lambda: rules(host)["noisy"] == 2000, what="every packet to be counted")
        wait_until(lambda: len(log.lines()) >= 100, what="the first hundred records")
    assert 100 <= len(log.lines()) < 2000


def test_a_flooded_frame_is_judged_for_each_port(lab):
    estate = Estate(lab)
    sender, closed, far, open_ = (estate.guest("front", host, silent=True) for host in (1, 1, 2, 2))
    estate.rule("not-for-me", [closed, far], "to_port", "drop", services=["udp/9"])
    estate.apply()
    frame = bytes(Ether(src=sender.mac, dst=BROADCAST) / IP(src=sender.v4, dst="255.255.255.255")
                  / UDP(sport=1, dport=9) / Raw(b"to all of you"))
    with contextlib.ExitStack() as stack:
        into = [stack.enter_context(PacketSocket(guest.ns, "eth0", ETH_P_ALL)) for guest in (closed, far, open_)]
        out = stack.enter_context(PacketSocket(sender.ns, "eth0"))
        before = verdicts(estate.hosts[0].name)
        out.send(frame)
        assert into[2].receive() == frame
        assert into[0].receive(0.2) is None and into[1].receive(0.2) is None
        assert difference(before, verdicts(estate.hosts[0].name))["from_port", "flood"] == 1
        out.send(plain_frame(sender.mac, BROADCAST))
        assert [sock.receive() for sock in into] == [plain_frame(sender.mac, BROADCAST)] * 3, "no IP: no firewall"
    assert rules(estate.hosts[0])["not-for-me"] == 1 == rules(estate.hosts[1])["not-for-me"]


def frames_for_trace(me, server, routed):
    """(frame, the rule that must decide it or None) for the rules of the test below."""
    def to(address, mac, layer):
        return bytes(Ether(src=me.mac, dst=mac) / IP(src=me.v4, dst=address) / layer)

    beside = server.v4, server.mac
    yield to(*beside, TCP(sport=1001, dport=22, flags="S")), "no-ssh"
    yield to(*beside, TCP(sport=1002, dport=23, flags="S")), "no-telnet"
    yield to(*beside, TCP(sport=1003, dport=80, flags="S")), None
    yield to(*beside, TCP(sport=1004, dport=80, flags="SA")), None
    yield to(*beside, UDP(sport=1005, dport=53) / Raw(b"query")), None
    yield to(*beside, ICMP(type=8, id=7)), "no-echo"
    yield to(*beside, ICMP(type=0, id=8)), None
    yield to(routed.v4, ROUTER_MAC, TCP(sport=1006, dport=23, flags="S")), "no-telnet"
    yield to(routed.v4, ROUTER_MAC, UDP(sport=1007, dport=53) / Raw(b"query")), "routed-only-tcp"
    yield to(routed.v4, ROUTER_MAC, TCP(sport=1008, dport=80, flags="S")), None
    yield to("198.19.77.7", ROUTER_MAC, UDP(sport=1009, dport=1) / Raw(b"lost")), None
    yield plain_frame(me.mac, server.mac), None


@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
def test_trace_names_the_rule_and_counters_and_capture_agree(lab, encapsulation, tmp_path):
    estate = Estate(lab, encapsulation, 4)
    me, server, routed = (estate.guest(*place) for place in (("front", 1), ("front", 1), ("data", 1)))
    estate.rule("no-telnet", [me], "from_port", "drop", services=["tcp/23"])
    estate.rule("no-ssh", [server], "to_port", "reject", services=["tcp/22"])
    estate.rule("no-echo", [server], "to_port", "drop", services=["icmp/8"])
    estate.rule("routed-only-tcp", [routed], "to_port", "drop", services=["udp"])
    estate.apply()
    host, file = estate.hosts[0].name, tmp_path / "fabric.yaml"
    sent = list(frames_for_trace(me, server, routed))
    wrpcap(str(tmp_path / "sent.pcap"), [Ether(frame) for frame, _ in sent])
    traced = json.loads(overlane("trace", file, "--port", port(me), "--pcap", tmp_path / "sent.pcap",
                                 "--json").stdout)
    for each, (_, rule) in zip(traced, sent, strict=True):
        assert each["hop"]["verdict"].startswith("firewall_") == (rule is not None), each
        if rule:
            by = each["result"]["by"]
            assert (by["name"], by["line"]) == (rule, estate.line(rule))
    expected = [each["hop"]["verdict"] for each in traced]
    drops = [each["hop"]["verdict"] for each in traced if each["hop"]["drop"]]
    assert {"firewall_drop", "firewall_reject", "connection_invalid", "no_route"} <= set(drops)

    before = verdicts(host)
    with Live(tmp_path, "capture", "--host", host, "drops", "--json") as shown:
        with PacketSocket(me.ns, "eth0") as out:
            for frame, _ in sent:
                out.send(frame)
        wait_until(lambda: len(shown.lines()) >= len(drops), what="all drops to be shown")
    counted = {verdict: count for (hook, verdict), count in difference(before, verdicts(host)).items()
               if hook == "from_port"}
    # What the other guests answer is theirs, not ours: only what we sent and was dropped is compared exactly.
    for verdict in set(drops):
        assert counted[verdict] >= expected.count(verdict), (verdict, counted)
    mine = [line["verdict"] for line in shown.json()
            if line["hook"] == "from_port" and line["from_port"] == port(me)]
    assert mine == drops
    deciding = [rule for _, rule in sent if rule]
    assert {name: count for name, count in rules(estate.hosts[0]).items() if count} \
        == {name: deciding.count(name) for name in set(deciding)}


def test_trace_of_a_dropped_packet_names_the_line_in_words(estate):
    client, server, _ = estate.guests
    estate.rule("no-ssh", [server], "to_port", "drop", services=["tcp/22"])
    path = estate.write()
    done = overlane("trace", path, "--port", port(client), f"ip4.dst={server.v4}", "tcp.dport=22",
                    "--expect", "firewall_drop")
    assert f"fabric.yaml:{estate.line('no-ssh')}" in done.stdout.splitlines()[-1]
    assert "no-ssh" in done.stdout.splitlines()[-1]
    overlane("trace", path, "--port", port(client), f"ip4.dst={server.v4}", "tcp.dport=80",
             "--expect", "delivered")
