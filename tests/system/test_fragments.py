"""Datagrams in fragments between real stacks: a flow is one, in fragments or whole, and nobody takes another's share."""

import contextlib
import threading

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import traffic
from frames import PacketSocket
from logical import Estate, connections, port
from net import wait_until
from overlane import GENEVE, VXLAN, verdicts
from test_firewall import ECHO, INNER, echoing

pytestmark = pytest.mark.needs_overlane

#: Three fragments on a link of 1400 bytes.
LONG = 3000


@pytest.fixture(params=[VXLAN, GENEVE], ids=["vxlan", "geneve"])
def estate(request, lab):
    """Two guests in one switch on two hosts, one behind the router on the second."""
    estate = Estate(lab, request.param, 4)
    for switch, host in (("front", 1), ("front", 2), ("data", 2)):
        estate.guest(switch, host)
    return estate


def answered(client, server, index, number, size=LONG):
    """Whether a long datagram to a port is answered by one as long."""
    with echoing(server.ns, server.addresses[index], number), \
            traffic.udp_socket(client.ns, client.addresses[index], 7000, timeout=1) as sock:
        sock.sendto(traffic.payload(size), (server.addresses[index], number))
        with contextlib.suppress(TimeoutError):
            return sock.recv(65535) == traffic.payload(size)
    return False


@INNER
def test_a_rule_with_ports_judges_long_datagrams_too(estate, inner):
    client, server, routed = estate.guests
    estate.firewall("front", to_port="drop")
    estate.rule("dns", [server], "to_port", services=["udp/53"])
    estate.rule("echo", [server], "to_port", services=ECHO)
    estate.apply()
    for guest in (client, routed):
        assert answered(guest, server, inner, 53)
        assert not answered(guest, server, inner, 54)
        guest.ns.run(["ping", "-c1", "-W2", "-s", LONG, server.addresses[inner]])
    counts = verdicts(estate.hosts[1].name)
    assert counts["from_underlay", "firewall_drop"] >= 1 and counts["from_underlay", "fragment_unknown"] >= 2
    assert counts["from_underlay", "to_port"] >= 3


@INNER
def test_who_asks_small_is_answered_in_fragments_and_in_no_other_flow(estate, inner):
    """The client takes nothing in unasked. What it asked for comes in fragments; to its other ports none do."""
    client, server, _ = estate.guests
    estate.firewall("front", to_port="drop")
    estate.rule("in", [server], "to_port")
    estate.apply()
    address, asked = client.addresses[inner], 7000
    with traffic.udp_socket(server.ns, server.addresses[inner], 53) as far, \
            traffic.udp_socket(client.ns, address, asked) as near, \
            traffic.udp_socket(client.ns, address, 7001, timeout=0.5) as closed:
        near.sendto(b"?", (server.addresses[inner], 53))
        _, sender = far.recvfrom(100)
        for _ in range(3):
            far.sendto(traffic.payload(LONG), sender)
            assert near.recv(65535) == traffic.payload(LONG)
            far.sendto(traffic.payload(LONG), (address, 7001))
        with pytest.raises(TimeoutError):
            closed.recv(65535)
        near.sendto(b"whole", (server.addresses[inner], 53))
        assert far.recv(100) == b"whole"
    kept = [row for row in connections(estate.hosts[0], port(client)) if row["protocol"] == 17]
    assert len(kept) == 1


def first_fragments(guest, target, port, count):
    """First fragments of datagrams that never go on, each with its own identification."""
    def frame(number):
        head = IP(src=guest.v4, dst=target.v4, id=number, flags="MF")
        return bytes(Ether(src=guest.mac, dst=target.mac) / head / UDP(sport=9, dport=port) / Raw(bytes(16)))
    return [frame(number) for number in range(count)]


def test_a_flood_of_first_fragments_takes_nobody_elses_places(lab):
    """Two guests of one host: one opens datagrams without end, on another CPU, while the other's arrive whole."""
    estate = Estate(lab, GENEVE, 4)
    client, attacker = estate.guest("front", 1), estate.guest("front", 1)
    server, other = estate.guest("front", 2), estate.guest("front", 2)
    estate.firewall("front", to_port="drop")
    for name, guest in (("server", server), ("other", other)):
        estate.rule(name, [guest], "to_port", services=["udp/53"])
    estate.apply()
    frames, done = first_fragments(attacker, other, 53, 512), threading.Event()

    def flood():
        with PacketSocket(attacker.ns, "eth0") as socket:
            while not done.is_set():
                for frame in frames:
                    socket.send(frame)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        wait_until(lambda: verdicts(estate.hosts[1].name)["from_underlay", "to_port"] > 1000)
        for _ in range(50):
            assert answered(client, server, 0, 53)
    finally:
        done.set()
        thread.join(5)
