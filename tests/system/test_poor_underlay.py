"""An underlay that loses, doubles, delays and overtakes packets, under a fabric with firewall and NAT.

The kernel's netem does it, at the ports of the bridge that joins the hosts: there each packet stands alone, also
one that a guest sent as a part of a super-packet. Its counters show that it did; for delays it has none.
"""

import pytest

import traffic
from logical import FAR4, FAR6, INSIDE4, LEG4, Estate, connections, port
from overlane import GENEVE, VLAN, VXLAN, verdicts
from probes import Talk
from topology import SEGMENTED

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("tc"), pytest.mark.needs_kernel("netem")]

LOSS, DUPLICATES = "loss 2%", "duplicate 10%"
#: Three of four packets wait, the others overtake them. What waits does so for times that differ.
REORDER, JITTER = "delay 2ms reorder 25%", "delay 3ms 2ms"
ALL = f"delay 3ms 1ms reorder 10% {LOSS} duplicate 3%"
TROUBLES = {"loss": LOSS, "reorder": REORDER, "jitter": JITTER, "duplicates": DUPLICATES, "all": ALL}
FABRICS = {"vxlan-v4": (VXLAN, 4), "geneve-v6": (GENEVE, 6), "vlan": (VLAN, 4)}
#: Each trouble on one fabric, all of them together on each.
BOTH = [("geneve-v6", trouble) for trouble in TROUBLES] + [("vxlan-v4", "all"), ("vlan", "all")]
#: A packet that is lost waits for TCP's timer, again and again.
SECONDS = 120.0
SIZE = 256 * 1024
#: What stays of a connection.
SAME = ("rule", "adopted", "local", "peer")
#: What must not be said of a packet because it came twice.
REFUSALS = ("firewall_drop", "connection_invalid", "out_of_window", "no_route", "nat_exhausted", "nat_unsupported")


class Poor:
    """Hosts 1 to 3 with a client, a server and a gateway; the firewall allows what the tests ask for and no more.

    The server is behind the router; on a VLAN it is in the client's, where the gateway alone sends with the router's
    MAC: the underlay's bridge knows one place of it.
    """

    def __init__(self, lab, encapsulation=GENEVE, family=4):
        self.estate = estate = Estate(lab, encapsulation, family, SEGMENTED, hosts=3)
        self.client = estate.guest("front", 1)
        self.server = estate.guest("front" if encapsulation == VLAN else "data", 2)
        estate.gateway(3, [{"source": INSIDE4, "outside": LEG4}])
        self.far = estate.outside.far
        for switch in ("front", "data"):
            estate.firewall(switch, to_port="drop")
        estate.rule("web", [self.server], "to_port", services=["tcp/5201-5206", "udp/5203", "icmp/8", "icmp6/128"])
        estate.apply()
        self._ports = [f"to{host.number}" for host in estate.hosts]
        for address in (*self.server.addresses, FAR4, FAR6):
            traffic.ping(self.client.ns, address)  # next hops are known before the trouble begins

    def begin(self, trouble):
        self.before = self.entered()
        self.estate.underlay.bridge.tc(*(f"qdisc add dev {each} root netem {trouble}" for each in self._ports))
        return self

    def end(self):
        self.estate.underlay.bridge.tc(*(f"qdisc delete dev {each} root" for each in self._ports))

    def count(self, name):
        """A counter of netem, of all ports: `packets` that left it, `drops`, and in `requeues` those that overtook."""
        bridge = self.estate.underlay.bridge
        return sum(bridge.tc_json(f"qdisc show dev {each} root")[0][name] for each in self._ports)

    def entered(self):
        """Packets that the bridge was given."""
        return sum(self.estate.underlay.bridge.link(each)["stats64"]["rx"]["packets"] for each in self._ports)

    def assert_trouble(self, trouble):
        """netem did what it was told, by its own counters."""
        if "loss" in trouble:
            assert self.count("drops") > 0
        if "reorder" in trouble:
            assert self.count("requeues") > 0
        if "duplicate" in trouble and "loss" not in trouble:
            assert self.count("packets") > 1.02 * (self.entered() - self.before)

    def established(self, local_port):
        """The one connection to a port of the server, as its host knows it."""
        (row,) = [row for row in connections(self.estate.hosts[1], port(self.server))
                  if (row["local"]["port"], row["state"]) == (local_port, "established")]
        return row


@pytest.mark.parametrize("fabric, trouble", BOTH)
def test_tcp_arrives_byte_for_byte(lab, fabric, trouble):
    """Through the firewall inside, over both families, and by a translation to the outside."""
    poor = Poor(lab, *FABRICS[fabric]).begin(TROUBLES[trouble])
    client, server = poor.client, poor.server
    for near, target in zip(client.addresses, server.addresses):
        traffic.tcp_equal(client.ns, near, server.ns, target, size=SIZE, timeout=SECONDS)
    with Talk(client.ns, poor.far, FAR4) as talk:
        assert talk.client[0] == LEG4
        talk.exchange(SIZE, SECONDS)
    poor.assert_trouble(TROUBLES[trouble])


@pytest.mark.parametrize("trouble", ["reorder", "duplicates", "all"])
def test_connections_keep_their_state(lab, trouble):
    """Two that were there before the trouble go on in it, and after it, as what they were."""
    poor = Poor(lab)
    with Talk(poor.client.ns, poor.server.ns, poor.server.v4) as inside, \
            Talk(poor.client.ns, poor.far, FAR4, 5206) as outside:
        for talk in (inside, outside):
            talk.near.settimeout(SECONDS)
            talk.far.settimeout(SECONDS)
            assert talk.goes_on()
        before = poor.established(5205)
        assert before["rule"] == "web"
        poor.begin(TROUBLES[trouble])
        for _ in range(20):
            assert inside.goes_on(20_000) and outside.goes_on(20_000)
        poor.assert_trouble(TROUBLES[trouble])
        poor.end()
        assert inside.goes_on() and outside.goes_on()
        after = poor.established(5205)
        assert {key: after[key] for key in SAME} == {key: before[key] for key in SAME}


@pytest.mark.parametrize("fabric", FABRICS)
def test_duplicates_do_no_harm(lab, fabric):
    """Every packet comes twice: each datagram does too, no connection is begun twice, nothing is refused."""
    poor = Poor(lab, *FABRICS[fabric]).begin("duplicate 100%")
    client, server = poor.client, poor.server
    for near, target in zip(client.addresses, server.addresses):
        assert copies(client.ns, near, server.ns, target, 5203) == [2] * 50
        with Talk(client.ns, server.ns, target) as talk:
            assert talk.goes_on(50_000)
            assert poor.established(5205)["rule"] == "web"
            talk.exchange(SIZE, SECONDS)
        traffic.tcp_equal(client.ns, near, server.ns, target, size=SIZE, timeout=SECONDS, port=5206)
    with Talk(client.ns, poor.far, FAR4) as talk:
        talk.exchange(SIZE, SECONDS)
    assert poor.count("packets") > 1.5 * (poor.entered() - poor.before)
    for host in poor.estate.hosts:
        refused = [key for key in verdicts(host.name) if key[1] in REFUSALS]
        assert not refused, (host.name, refused)


def copies(near_ns, near, far_ns, far, to, count=50):
    """How often each of numbered datagrams arrives."""
    seen = [0] * count
    with traffic.udp_socket(far_ns, far, to, timeout=5.0) as into, traffic.udp_socket(near_ns, near) as out:
        for number in range(count):
            out.sendto(bytes([number]) + traffic.payload(200, number), (far, to))
            data = into.recv(2048)
            while True:
                assert data[1:] == traffic.payload(200, data[0])
                seen[data[0]] += 1
                if seen[number] >= 2:
                    break
                data = into.recv(2048)
    return seen
