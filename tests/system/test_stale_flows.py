"""Flows are remembered, and nothing that is remembered outlives what it was decided by: while many connections go on,
a port moves between two hosts again and again, rules and nat change, and connections are forgotten.

    client, visitor, here … ┤ host 1 │ ══ │ host 2 ├ … server, there     here and there: one port, now at one of them
                                          leg ── outside ── far          the client's connections are translated
"""

import contextlib
import threading
import time

import pytest

import traffic
from logical import FAR4, INSIDE4, LEG4, Estate, port
from net import wait_until
from overlane import GENEVE, VXLAN, apply, overlane
from probes import Talk
from streams import Streams
from topology import add_guest

pytestmark = pytest.mark.needs_overlane

ROUNDS = 50
TALKS = 100  # through the firewall, and as many more through nat
WEB, KNOCK = 5300, 5206


class Caller:
    """Sends datagrams to one address, a thousand in a second, until the block ends."""

    def __init__(self, guest, target):
        self._socket, self._target = traffic.udp_socket(guest.ns, guest.v4), target
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _run(self):
        while not self._over.wait(0.001):
            self._socket.sendto(b"who is there?", (self._target, KNOCK))


class Moving:
    """A port of which each host has the device; the fabric says who has the port. Its machine says nothing."""

    def __init__(self, lab, estate):
        self.estate, self.here = estate, estate.guest("front", 1, silent=True)
        self.there = add_guest(lab, estate.hosts[1], 90, estate.mtu, addresses=False, ipv6=False)
        self.there.ns.ip(f"link set eth0 address {self.here.mac}")
        self.at = self.here

    def move(self):
        self.at = self.there if self.at is self.here else self.here
        self.estate.fabric.data["ports"][port(self.here)].update(host=self.at.host.name, device=self.at.device)

    def left(self):
        return self.here if self.at is self.there else self.there


def arrived(guest):
    (link,) = guest.ns.json("-s link show eth0")
    return link["stats64"]["rx"]["packets"]


def assert_only_the_new_place_hears(moving):
    time.sleep(0.05)  # what was in the device's queue
    stale, heard = arrived(moving.left()), arrived(moving.at)
    wait_until(lambda: arrived(moving.at) > heard + 50, what="packets where the port is now")
    assert arrived(moving.left()) == stale, "a packet went where the port was"


def apply_again(estate):
    path = estate.write()
    for host in estate.hosts:
        apply(path, host.name, host.netns)


@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)])
def test_nothing_is_decided_by_what_an_apply_took_away(lab, encapsulation, family):
    estate = Estate(lab, encapsulation, family)
    client, server = estate.guest("front", 1), estate.guest("front", 2)
    visitor = estate.guest("data", 1)
    moving = Moving(lab, estate)
    estate.firewall("front", to_port="drop")
    estate.rule("web", [server], "to_port", services=[f"tcp/{WEB}"])
    estate.rule("knock", [moving.here], "to_port", services=[f"udp/{KNOCK}"])
    far = estate.gateway(2, [{"source": INSIDE4, "outside": LEG4}]).far
    estate.apply()
    with contextlib.ExitStack() as stack:
        talks = [stack.enter_context(Talk(client.ns, server.ns, server.v4, WEB)) for _ in range(TALKS)]
        talks += [stack.enter_context(Talk(client.ns, far, FAR4, WEB)) for _ in range(TALKS)]
        assert all(talk.client[0] == LEG4 for talk in talks[TALKS:])
        for guest in (client, visitor):
            stack.enter_context(Caller(guest, moving.here.v4))
        with Streams(talks) as streams:
            for number in range(ROUNDS):
                moving.move()
                estate.rule("beside", [server], "to_port", services=[f"udp/{6000 + number}"])
                estate.router["gateway"]["nat"] = [{"source": INSIDE4, "outside": LEG4, "ports": f"{1024 + number}-65535"}]
                apply_again(estate)
                assert_only_the_new_place_hears(moving)
                for guest in (client, server):
                    overlane("connections", "forget", "--host", guest.host.name, "--port", port(guest), "--protocol", "tcp")
    assert not streams.broken
    assert not streams.lost()
