"""What the firewall remembers: connections as real and as unusual TCP leads them, how long, and how many."""

import json
import struct
import time

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import probes
import traffic
from frames import ETH_P_ALL, PacketSocket
from logical import Estate, connections, port
from net import PATIENCE, run, wait_until
from overlane import GENEVE, PINS, difference, overlane, verdicts
from probes import Talk

pytestmark = pytest.mark.needs_overlane

TCP_ESTABLISHED_S, CLOSING_S, CLOSED_S, UDP_UNANSWERED_S, UDP_S, ICMP_S = 432000, 240, 240, 120, 300, 60


@pytest.fixture
def pair(lab):
    """Client and server with real stacks; the client takes in only what belongs to what it began."""
    estate = Estate(lab, GENEVE, 4)
    estate.guest("front", 1)
    estate.guest("front", 2)
    estate.firewall("front", to_port="drop")
    estate.rule("service", [estate.guests[1]], "to_port", services=["tcp/5205", "udp/5206", "icmp/8", "icmp6/128"])
    return estate.apply()


def only(host, of, **wanted):
    """The one connection of a port that has these values."""
    found = [row for row in connections(host, of) if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def becomes(host, of, state, **wanted):
    return wait_until(lambda: only(host, of, **wanted)["state"] == state and only(host, of, **wanted),
                      what=f"the connection of {of} to be {state}")


@pytest.mark.parametrize("inner", [0, 1], ids=["inner-v4", "inner-v6"])
def test_a_tcp_connection_from_its_beginning_to_its_end(pair, inner):
    client, server = pair.guests
    address = server.addresses[inner]
    with Talk(client.ns, server.ns, address) as talk:
        for host, guest, by_peer in ((pair.hosts[0], client, False), (pair.hosts[1], server, True)):
            row = becomes(host, port(guest), "established", protocol=6)
            assert (row["begun_by_peer"], row["adopted"]) == (by_peer, False)
            assert row["time_out_s"] == TCP_ESTABLISHED_S
            assert row["rule"] == ("service" if by_peer else None)
            assert row["age_s"] >= row["idle_s"] >= 0
        assert row["local"] == {"address": address, "port": 5205}
        assert row["peer"] == {"address": talk.client[0], "port": talk.client[1]}
        talk.near.shutdown(1)
        assert becomes(pair.hosts[1], port(server), "closing", protocol=6)["time_out_s"] == CLOSING_S
        talk.far.sendall(b"the other direction stays open")
        assert talk.near.recv(100) == b"the other direction stays open"


def test_a_reset_closes_and_the_same_ports_may_begin_again(pair):
    client, server = pair.guests
    for again in range(3):
        with Talk(client.ns, server.ns, server.v4, source=None) as talk:
            assert talk.goes_on()
            # SO_LINGER 0: close() sends a reset.
            talk.near.setsockopt(1, 13, struct.pack("=ii", 1, 0))
            talk.near.close()
            row = becomes(pair.hosts[1], port(server), "closed", protocol=6,
                          peer={"address": talk.client[0], "port": talk.client[1]})
            assert row["time_out_s"] == CLOSED_S


def test_udp_and_echo_open_with_the_answer(pair):
    client, server = pair.guests
    host = pair.hosts[1]
    with traffic.udp_socket(server.ns, server.v4, 5206) as far, traffic.udp_socket(client.ns, client.v4) as near:
        near.sendto(b"ask", (server.v4, 5206))
        _, sender = far.recvfrom(64)
        row = becomes(host, port(server), "opening", protocol=17)
        assert row["time_out_s"] == UDP_UNANSWERED_S
        far.sendto(b"answer", sender)
        assert near.recv(64) == b"answer"
        assert becomes(host, port(server), "established", protocol=17)["time_out_s"] == UDP_S
    for address, protocol, kind in ((server.v4, 1, 8), (server.v6, 58, 128)):
        traffic.ping(client.ns, address, count=1)
        row = becomes(host, port(server), "established", protocol=protocol)
        assert (row["icmp_type"], row["time_out_s"], row["begun_by_peer"]) == (kind, ICMP_S, True)
        assert row["peer"]["port"] is None and row["local"]["port"] is not None


def test_show_connections_in_words(pair):
    client, server = pair.guests
    with Talk(client.ns, server.ns, server.v6) as talk:
        assert talk.goes_on()
        text = overlane("show", "connections", "--host", pair.hosts[1].name).stdout
    (line,) = [line for line in text.splitlines() if "established" in line]
    assert all(part in line for part in (port(server), f"[{server.v6}]:5205", "service"))


class Wire:
    """Two silent guests: every segment is the test's own. The firewall is the near one's."""

    def __init__(self, lab, **policy):
        self.estate = Estate(lab, GENEVE, 4)
        self.near, self.far = self.estate.guest("front", 1, silent=True), self.estate.guest("front", 2, silent=True)
        self.estate.rule("out", [self.near], "from_port")
        self.estate.rule("in", [self.near], "to_port", services=["tcp/80"])
        self.estate.rule("else", [self.near], "to_port", "drop", priority=1)
        self.estate.apply()
        self.host = self.estate.hosts[0]
        self.sockets = {guest: PacketSocket(guest.ns, "eth0", ETH_P_ALL) for guest in (self.near, self.far)}
        for sock in self.sockets.values():
            lab.defer(sock.__exit__)

    def segment(self, sender, flags, seq, ack=0, ports=(4000, 80), data=b"", window=65535, options=()):
        """Whether it arrives; `ports` are (near's, far's) whoever sends it."""
        near = sender is self.near
        receiver = self.far if near else self.near
        source, target = ports if near else reversed(ports)
        frame = bytes(Ether(src=sender.mac, dst=receiver.mac) / IP(src=sender.v4, dst=receiver.v4)
                      / TCP(sport=source, dport=target, flags=flags, seq=seq, ack=ack, window=window,
                            options=list(options)) / Raw(data))
        return self.arrives(sender, receiver, frame)

    def arrives(self, sender, receiver, frame):
        """It is received unchanged, or its drop is counted: whichever shows first."""
        count = verdicts(self.host.name)
        self.sockets[sender].send(frame)
        deadline = time.monotonic() + 3 * PATIENCE
        while time.monotonic() < deadline:
            got = self.sockets[receiver].receive(0.05)
            if got is not None:
                assert got == frame
                return True
            rose = difference(count, verdicts(self.host.name))
            if self.drops(rose):
                self.reason = self.drops(rose)[0]
                return False
        raise AssertionError(f"neither received nor dropped: {rose}")

    @staticmethod
    def drops(rose):
        return [verdict for _, verdict in rose if verdict.startswith(("connection", "firewall", "out_of"))]

    def state(self, ports=(4000, 80)):
        rows = [row for row in connections(self.host, port(self.near)) if row["local"]["port"] == ports[0]]
        assert len(rows) <= 1, rows
        return rows[0]["state"] if rows else None

    def establish(self, ports=(4000, 80), near=1000, far=5000):
        assert self.segment(self.near, "S", near, ports=ports)
        assert self.segment(self.far, "SA", far, near + 1, ports=ports)
        assert self.segment(self.near, "A", near + 1, far + 1, ports=ports)
        assert self.state(ports) == "established"


@pytest.fixture
def wire(lab):
    return Wire(lab)


def test_a_half_open_connection_waits_and_may_be_tried_again(wire):
    """Nobody answers: the client asks again, from the same port and with another number when it is another one."""
    assert wire.segment(wire.near, "S", 1000)
    assert wire.state() == "opening"
    assert wire.segment(wire.near, "S", 1000), "sent again"
    assert wire.segment(wire.near, "S", 77_000_000), "another one, with another number"
    assert wire.segment(wire.far, "SA", 5000, 77_000_001)
    assert wire.segment(wire.near, "A", 77_000_001, 5001)
    assert wire.state() == "established"


def test_both_ends_may_open_at_once(wire):
    """RFC 9293 section 3.5, figure 7. To port 4000 only the answers of a connection come in."""
    assert not wire.segment(wire.far, "S", 5000) and wire.reason == "firewall_drop"
    assert wire.segment(wire.near, "S", 1000)
    assert wire.segment(wire.far, "S", 5000), "the other's SYN, crossing ours"
    assert wire.segment(wire.near, "SA", 1000, 5001)
    assert wire.segment(wire.far, "SA", 5000, 1001)
    assert wire.segment(wire.near, "A", 1001, 5001)
    assert wire.state() == "established"
    assert wire.segment(wire.far, "PA", 5001, 1001, data=b"hello")
    assert wire.segment(wire.near, "PA", 1001, 5006, data=b"hello")


def test_a_client_that_forgot_everything_gets_in_again(wire):
    """RFC 9293 section 3.5.1, half-open connections: its SYN, the challenge, its reset, and a new connection."""
    wire.establish()
    assert wire.segment(wire.near, "S", 900_000_000)
    assert wire.state() == "established", "anybody could send a SYN"
    assert wire.segment(wire.far, "A", 5001, 1001), "RFC 5961: the challenge"
    assert wire.segment(wire.near, "R", 1001)
    assert wire.state() == "closed"
    assert wire.segment(wire.near, "S", 900_000_000)
    assert wire.segment(wire.far, "SA", 6000, 900_000_001)
    assert wire.segment(wire.near, "A", 900_000_001, 6001)
    assert wire.state() == "established"


def test_what_is_not_of_the_connection_does_not_pass(wire):
    wire.establish()
    outside = "out_of_window"
    assert not wire.segment(wire.far, "PA", 5001 + 200_000, 1001, data=b"x") and wire.reason == outside
    assert not wire.segment(wire.far, "PA", 5001, 1001 + 200_000, data=b"x") and wire.reason == outside
    assert not wire.segment(wire.far, "R", 5001 + 200_000) and wire.reason == outside, "a blind reset"
    assert wire.state() == "established"
    assert wire.segment(wire.far, "PA", 5001, 1001, data=b"x")
    for flags in ("", "F", "SF", "SR", "PU"):
        assert not wire.segment(wire.far, flags, 5002, 1001) and wire.reason == "connection_invalid", flags
    assert not wire.segment(wire.far, "SA", 5000, 1001, ports=(4001, 80))
    assert wire.reason == "firewall_drop", "an answer to nothing"
    assert wire.segment(wire.far, "R", 5002)
    assert wire.state() == "closed"


def test_fin_from_both_ends_then_a_new_connection_on_the_same_ports(wire):
    wire.establish()
    assert wire.segment(wire.near, "FA", 1001, 5001)
    assert wire.state() == "established", "anybody could send a FIN"
    assert wire.segment(wire.far, "FA", 5001, 1002)
    assert wire.state() == "closing"
    assert wire.segment(wire.near, "A", 1002, 5002)
    wire.establish(near=300_000_000, far=800_000_000)


def test_sequence_numbers_go_round(wire):
    wire.establish(near=0xFFFFFFF0, far=0xFFFFFF00)
    seq, ack = 0xFFFFFFF1, 0xFFFFFF01
    for _ in range(4):
        data = b"y" * 100
        assert wire.segment(wire.near, "PA", seq, ack, data=data)
        seq = (seq + len(data)) & 0xFFFFFFFF
        assert wire.segment(wire.far, "PA", ack, seq, data=data)
        ack = (ack + len(data)) & 0xFFFFFFFF
    assert wire.state() == "established"


def test_only_what_answers_an_echo_request_comes_in(wire):
    def echo(sender, kind, identifier):
        receiver = wire.far if sender is wire.near else wire.near
        frame = bytes(Ether(src=sender.mac, dst=receiver.mac) / IP(src=sender.v4, dst=receiver.v4)
                      / ICMP(type=kind, id=identifier, seq=1) / Raw(b"ping"))
        return wire.arrives(sender, receiver, frame)

    assert not echo(wire.far, 0, 7)
    assert echo(wire.near, 8, 7)
    assert echo(wire.far, 0, 7) and not echo(wire.far, 0, 8)
    assert not echo(wire.far, 8, 7), "the other's own question, with the identifier that is open"


def test_icmp_errors_come_in_only_about_what_went_out(wire):
    def refused(quoted):
        return wire.arrives(wire.far, wire.near, bytes(
            Ether(src=wire.far.mac, dst=wire.near.mac) / IP(src=wire.far.v4, dst=wire.near.v4)
            / ICMP(type=3, code=3) / quoted))

    def quoted(sport):
        return IP(src=wire.near.v4, dst=wire.far.v4) / UDP(sport=sport, dport=53) / Raw(b"question")

    out = quoted(4444)
    assert not refused(out) and wire.reason == "firewall_drop"
    frame = bytes(Ether(src=wire.near.mac, dst=wire.far.mac) / out)
    assert wire.arrives(wire.near, wire.far, frame)
    assert refused(out) and not refused(quoted(4445))


class Memory:
    """The map of connections of one host, written where no packet would write: a connection that was last seen
    long ago. (Nothing else here knows how the kernel's side looks inside.)"""

    def __init__(self, host):
        (self._path,) = (PINS / host.name).glob("maps-*/connections")

    def entries(self):
        return json.loads(run(["bpftool", "-j", "map", "dump", "pinned", self._path]).stdout)

    def age(self, seconds):
        """As if nothing had been heard of all connections for so long."""
        changed = 0
        for entry in self.entries():
            key, value = (bytes(int(byte, 0) for byte in entry[part]) for part in ("key", "value"))
            begun, seen = struct.unpack_from("=QQ", value)
            assert 0 < begun <= seen <= time.monotonic_ns(), "the value begins with two times"
            assert seen > seconds * 10**9, "this machine has not run long enough"
            old = struct.pack("=QQ", begun, seen - seconds * 10**9) + value[16:]
            words = ["key", *map(str, key), "value", *map(str, old)]
            run(["bpftool", "map", "update", "pinned", self._path, *words])
            changed += 1
        return changed


def test_silence_ends_half_open_and_datagram_connections_and_no_established_tcp(pair):
    """After five minutes without a packet."""
    client, server = pair.guests
    host, name = pair.hosts[1], port(pair.guests[1])
    with Talk(client.ns, server.ns, server.v4) as talk, \
            traffic.udp_socket(server.ns, server.v4, 5206) as far, traffic.udp_socket(client.ns, client.v4) as near:
        assert talk.goes_on()
        near.sendto(b"ask", (server.v4, 5206))
        _, sender = far.recvfrom(64)
        far.sendto(b"answer", sender)
        assert near.recv(64) == b"answer"
        assert len(connections(host, name)) == 2
        for each in pair.hosts:
            assert Memory(each).age(300) == 2
        row = only(host, name, protocol=6)
        assert row["idle_s"] >= 300 and row["state"] == "established"
        assert not [row for row in connections(host, name) if row["protocol"] == 17]
        before = verdicts(host.name)
        far.sendto(b"too late", sender)
        wait_until(lambda: difference(before, verdicts(host.name)), what="the late answer to be sent")
        # It is the beginning of another connection for its own port, and unasked for at the client's.
        first = pair.hosts[0].name
        wait_until(lambda: verdicts(first).get(("from_underlay", "firewall_drop")), what="the late answer's end")
        assert talk.goes_on()
        assert only(host, name, protocol=6)["idle_s"] < 60


def forget(host, *words, expect=0):
    return overlane("connections", "forget", "--host", host.name, *words, expect=expect)


def test_a_connection_that_is_forgotten_is_judged_by_the_rules_again(pair):
    client, server = pair.guests
    host, name = pair.hosts[0], port(pair.guests[0])
    with Talk(client.ns, server.ns, server.v4) as talk, \
            traffic.udp_socket(server.ns, server.v4, 5206) as far, traffic.udp_socket(client.ns, client.v4) as near:
        assert talk.goes_on()
        near.sendto(b"ask", (server.v4, 5206))
        _, sender = far.recvfrom(64)
        far.sendto(b"answer", sender)
        assert near.recv(64) == b"answer"
        # What does not agree stays: each condition is of one connection or of none.
        for words in (["--protocol", "sctp"], ["--port", name, "--peer", "198.18.99.0/24"], ["--local", server.v4],
                      ["--port", name, "--peer-port", "5206", "--protocol", "tcp"], ["--peer", "2001:2::/16"]):
            assert forget(host, *words).stdout == f"host {host.name}: 0 connections forgotten\n"
        assert len(connections(host, name)) == 2
        done = forget(host, "--port", name, "--protocol", "tcp", "--peer", server.v4, "--json")
        assert json.loads(done.stdout) == {"host": host.name, "forgotten": 1}
        assert [row["protocol"] for row in connections(host, name)] == [17]
        # The client takes in only what belongs to a connection: the server's data is nobody's now.
        before = verdicts(host.name)
        talk.far.sendall(b"still there?")
        wait_until(lambda: difference(before, verdicts(host.name)).get(("from_underlay", "firewall_drop")),
                   what="the server's data to be judged by the rules")
        # Until the client says something itself, which the rules allow.
        talk.near.sendall(b"yes")
        assert talk.far.recv(64) == b"yes"
        assert talk.near.recv(64) == b"still there?"
        assert only(host, name, protocol=6)["adopted"]
        far.sendto(b"more", sender)
        assert near.recv(64) == b"more"
        assert forget(host, "--all").stdout == f"host {host.name}: 2 connections forgotten\n"
        assert connections(host, name) == []
    said = forget(host, "--port", "nobody", expect=1).stderr
    assert "has no port and no router `nobody`" in said and name in said
    assert "--all" in forget(host, expect=2).stderr


def test_time_outs_of_the_file_count_from_the_next_packet_on(lab):
    estate = Estate(lab, GENEVE, 4)
    client, server = estate.guest("front", 1), estate.guest("front", 2)
    estate.firewall("front", to_port="drop")
    estate.rule("service", [server], "to_port", services=["udp/5206"])
    switch = estate.fabric.data["switches"]["front"]
    switch["timeouts"] = {"udp_unanswered": 33, "udp": 77}
    estate.apply()
    host = estate.hosts[1]

    def time_out():
        return only(host, port(server), protocol=17)["time_out_s"]

    with traffic.udp_socket(server.ns, server.v4, 5206) as far, traffic.udp_socket(client.ns, client.v4) as near:
        near.sendto(b"ask", (server.v4, 5206))
        _, sender = far.recvfrom(64)
        assert time_out() == 33
        far.sendto(b"answer", sender)
        assert near.recv(64) == b"answer"
        assert time_out() == 77
        switch["timeouts"] = {"udp": 99}
        estate.apply()
        assert time_out() == 77

        def said_again():
            near.sendto(b"more", (server.v4, 5206))
            return time_out() == 99
        wait_until(said_again, what="the new time-out to count")
