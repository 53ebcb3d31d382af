"""Translations follow the file, and answers go the way on which their connection was opened. Beside test_gateway.py,
with the same kernel's stacks on the far side.
"""

import contextlib
import socket

import pytest

import probes
import traffic
from logical import FAR4, INSIDE4, LEG4, OUTSIDE4, ROUTER, SPARE4, Estate, connections
from net import wait_until
from overlane import show, verdicts
from probes import Talk
from streams import Streams

pytestmark = pytest.mark.needs_overlane

SOURCE = {"source": INSIDE4, "outside": LEG4}
WEB = 8080


def forward(guest, outside=WEB, inside=80):
    return {"forward": f"{guest.v4}:{inside}", "protocol": "tcp", "outside": f"{LEG4}:{outside}"}


@pytest.fixture
def estate(lab):
    """Two guests at a host, the gateway at another."""
    estate = Estate(lab)
    for _ in range(2):
        estate.guest("front", 1)
    estate.gateway(2, [SOURCE])
    return estate


def change(estate, nat):
    estate.router["gateway"]["nat"] = nat
    estate.apply()


def revoked(estate):
    return [row for row in connections(estate.hosts[1], ROUTER) if row["translation"]["revoked"]]


def test_what_was_opened_directly_is_answered_directly(estate):
    """By a machine outside that knows a way to the inside, whatever translates the guest."""
    web, one = estate.guests
    change(estate, [{"one_to_one": one.v4, "outside": SPARE4}, forward(web), SOURCE])
    far, outside = estate.outside.far, estate.outside.ns
    outside.ip(f"route add {INSIDE4} via {LEG4} dev eth0")
    for guest in estate.guests:
        traffic.ping(far, guest.v4)
        traffic.udp_equal(far, FAR4, guest.ns, guest.v4)
        for port in (80, 5205):
            with Talk(far, guest.ns, guest.v4, port) as talk:
                assert talk.client[0] == FAR4
                talk.exchange()
    # What they open themselves is translated as before.
    for guest, seen in ((web, LEG4), (one, SPARE4)):
        with Talk(guest.ns, far, FAR4) as talk:
            assert talk.client[0] == seen and talk.goes_on()


def test_a_translation_ends_with_its_rule(estate):
    """Both ways, of TCP and of UDP; what is begun anew goes by the rules of now."""
    guest, far = estate.guests[0], estate.outside.far
    change(estate, [forward(guest), SOURCE])
    with Talk(guest.ns, far, FAR4) as out, Talk(far, guest.ns, guest.v4, 80, target=(LEG4, WEB)) as into, \
            traffic.udp_socket(far, FAR4, 5206) as there, traffic.udp_socket(guest.ns, guest.v4) as here:
        here.sendto(b"before", (FAR4, 5206))
        assert there.recvfrom(100)[1][0] == LEG4
        assert out.goes_on() and into.goes_on()
        assert not revoked(estate)
        change(estate, [{"source": INSIDE4, "outside": SPARE4}])
        assert out.is_dead() and into.is_dead()
        assert len(revoked(estate)) == 2
        counts = verdicts(estate.hosts[1].name)
        assert counts["from_underlay", "connection_invalid"] and counts["from_leg", "connection_invalid"]
        here.sendto(b"after", (FAR4, 5206))
        data, sender = there.recvfrom(100)
        assert (data, sender[0]) == (b"after", SPARE4)
        there.sendto(b"answer", sender)
        assert here.recv(100) == b"answer"
        with Talk(guest.ns, far, FAR4, 5207) as again:
            assert again.client[0] == SPARE4 and again.goes_on()
        # And back: the rules make of the first what they made before, and the ends say once more what was lost.
        change(estate, [forward(guest), SOURCE])
        for end in (out.near, out.far, into.near, into.far):
            end.settimeout(20 * probes.PATIENCE)
            assert end.recv(100) == b"still there?"


def test_rules_that_change_beside_it_break_no_translation(estate):
    web, other = estate.guests
    one = {"one_to_one": other.v4, "outside": SPARE4}
    change(estate, [one, forward(web), SOURCE])
    far = estate.outside.far
    with Talk(web.ns, far, FAR4) as source, Talk(other.ns, far, FAR4, 5207) as mapped, \
            Talk(far, web.ns, web.v4, 80, target=(LEG4, WEB)) as forwarded:
        for number in range(8):
            beside = [forward(other, 9000 + number, 25)] if number % 2 else []
            change(estate, [*beside, one, forward(web), {**SOURCE, "ports": f"{1024 + number}-65535"}])
            for talk in (source, mapped, forwarded):
                assert talk.goes_on()
    assert not revoked(estate)
    assert ("from_leg", "connection_invalid") not in verdicts(estate.hosts[1].name)


def test_fifty_applies_break_none_of_two_hundred_connections(estate):
    """Through nat and the firewall of the guests, while other rules of both come and go."""
    web, other = estate.guests
    nat = [{"one_to_one": other.v4, "outside": SPARE4}, forward(web), SOURCE]
    estate.firewall("front", to_port="drop", from_port="drop")
    estate.rule("in", estate.guests, "to_port", services=["tcp/80"])
    estate.rule("out", estate.guests, "from_port", services=["tcp/5207"])
    change(estate, nat)
    far = estate.outside.far
    with contextlib.ExitStack() as open_ones:
        kinds = [(web.ns, far, FAR4, 5207), (other.ns, far, FAR4, 5207), (far, web.ns, web.v4, 80, (LEG4, WEB)),
                 (far, other.ns, other.v4, 80, (SPARE4, 80))]
        talks = [open_ones.enter_context(Talk(*kinds[number % 4])) for number in range(200)]
        with Streams(talks) as streams:
            for number in range(50):
                before = streams.heard()
                estate.rule("beside", [other], "to_port", services=[f"tcp/{6000 + number}"])
                beside = [forward(other, 9000 + number, 25)] if number % 2 else []
                change(estate, [*beside, *nat[:2], {**SOURCE, "ports": f"{1024 + number}-65535"}])
                wait_until(lambda: all(now > then for now, then in zip(streams.heard(), before)) or streams.broken,
                           timeout=20, what="every connection to go on")
    assert (streams.broken, streams.lost()) == ({}, {})
    assert not revoked(estate)
    for host in estate.hosts:
        reasons = {reason for _, reason in verdicts(host.name)}
        assert not reasons & {"connection_invalid", "out_of_window"}


def test_protocols_without_ports_have_one_flow_for_each_peer(estate):
    """ESP and GRE of one guest reach a peer, and its answers the guest; another guest's are dropped by name."""
    estate.apply()
    first, second = estate.guests
    for protocol in (47, 50):
        sockets = []
        for ns, address in ((first.ns, first.v4), (second.ns, second.v4), (estate.outside.far, FAR4),
                            (estate.outside.ns, OUTSIDE4)):
            with ns.entered():
                sockets.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol))
            sockets[-1].bind((address, 0))
            sockets[-1].settimeout(2 * probes.PATIENCE)
        one, other, far, outside = sockets
        one.sendto(b"by the first", (FAR4, 0))
        data, sender = far.recvfrom(100)
        assert (data[20:], sender[0]) == (b"by the first", LEG4)
        far.sendto(b"answer", (LEG4, 0))
        assert one.recv(100)[20:] == b"answer"
        before = verdicts(estate.hosts[1].name).get(("from_underlay", "nat_exhausted"), 0)
        other.sendto(b"by the second", (FAR4, 0))
        other.sendto(b"by the second", (OUTSIDE4, 0))
        assert outside.recvfrom(100)[1][0] == LEG4
        assert verdicts(estate.hosts[1].name)["from_underlay", "nat_exhausted"] == before + 1
        (row,) = show("drops", estate.hosts[1].name)["limits"]
        assert (row["reason"], row["whose"]) == ("nat_exhausted", f"router {ROUTER}") and f"to {FAR4}" in row["of"], row
        for sock in sockets:
            sock.close()
