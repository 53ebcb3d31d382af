"""An underlay of three hops, whose middle link may carry less than the uplinks.

    guest ┤ h1 │ uplink ── r1 ══ mid ══ r2 ── uplink │ h2 ├ guest
                              ══ alt ══

Packets take the link `mid` both ways, until a test sends those to h1 by `alt`.
"""

from topology import SEGMENTED, UPLINK, Host, set_wire
from net import veth

#: What a link carries where a test says nothing else.
WHOLE_MTU = 1500
_BLOCK = """
table inet silence {
    chain output {
        type filter hook output priority 0;
        icmp type destination-unreachable drop
        icmpv6 type packet-too-big drop
    }
}
"""
_LOSS = """
table inet loss {{
    chain forward {{
        type filter hook forward priority 0;
        numgen random mod 100 < {} drop
    }}
}}
"""
_SQUEEZE = """
table inet squeeze {{
    chain forward {{
        type filter hook forward priority 0;
        iifname near udp sport {} meta length > {} drop
    }}
}}
"""


def _address(family, net, number):
    return f"198.18.{net}.{number}" if family == 4 else f"2001:2:0:{net}::{number}"


def _lines(device, family, net, number, mtu):
    """`ip` commands for one end of a link."""
    lines = [f"link set {device} mtu {mtu} up"]
    if family == 6:
        lines += [f"address add fe80::{number}/64 dev {device} nodad",
                  f"address add {_address(6, net, number)}/64 dev {device} nodad"]
    else:
        lines.append(f"address add {_address(4, net, number)}/24 dev {device}")
    return lines


class HopUnderlay:
    """Two hosts in networks 1 and 2, and two routers between them."""

    #: Networks of the links between the routers.
    LINKS = {"mid": 10, "alt": 11}

    def __init__(self, lab, family=4, wire=SEGMENTED, mtu=WHOLE_MTU, mid=WHOLE_MTU, alt=WHOLE_MTU):
        self.lab, self.family, self.wire, self.mtu = lab, family, wire, mtu
        self.routers = [lab.namespace(f"r{number}") for number in (1, 2)]
        self.hosts = [self._host(number) for number in (1, 2)]
        for name, carries in (("mid", mid), ("alt", alt)):
            veth(self.routers[0], name, self.routers[1], name)
            for number, router in enumerate(self.routers, 1):
                router.ip(*_lines(name, family, self.LINKS[name], number, carries))
        for router in self.routers:
            self._forward(router)
        self.route(1, "mid")
        self.route(2, "mid")

    def _host(self, number):
        ns, router = self.lab.namespace(f"h{number}"), self.routers[number - 1]
        veth(router, "near", ns, UPLINK)
        router.ip(*_lines("near", self.family, number, 254, self.mtu))
        ns.ip(*_lines(UPLINK, self.family, number, 1, self.mtu))
        for net in (3 - number, *self.LINKS.values()):
            ns.ip(f"route add {self._network(net)} via {self.hop(number)} dev {UPLINK}")
        set_wire(ns, UPLINK, self.wire)
        return Host(ns, ns.name, number, _address(self.family, number, 1), self.family)

    def _network(self, net):
        return f"198.18.{net}.0/24" if self.family == 4 else f"2001:2:0:{net}::/64"

    def _forward(self, router):
        for key, value in (("net.ipv4.ip_forward", 1), ("net.ipv6.conf.all.forwarding", 1),
                           ("net.ipv4.conf.all.rp_filter", 0), ("net.ipv4.icmp_ratelimit", 0),
                           ("net.ipv6.icmp.ratelimit", 0)):
            router.sysctl(key, value)

    def hop(self, number):
        """The address with which a router speaks to its host."""
        return _address(self.family, number, 254)

    def route(self, number, link):
        """A router sends what is for the other one's host by this link."""
        other = 3 - number
        self.routers[number - 1].ip(f"route replace {self._network(other)} "
                                    f"via {_address(self.family, self.LINKS[link], other)} dev {link}")

    def carry(self, link, mtu):
        """From now on the link carries so much."""
        for router in self.routers:
            router.ip(f"link set {link} mtu {mtu}")

    def lose(self, percent):
        """The first router loses packets by chance, each way."""
        self.routers[0].run("nft -f -", input=_LOSS.format(percent))

    def squeeze(self, ports, mtu):
        """The path of these UDP source ports, from host 1 to host 2, carries so much."""
        self.routers[0].run("nft -f -", input=_SQUEEZE.format(ports, mtu))

    def unroute(self, number):
        """A host does not know the way to the other one."""
        self.hosts[number - 1].ns.ip(f"route delete {self._network(3 - number)}")

    def silence(self, *numbers):
        """These routers tell nobody any more that a packet is too large."""
        for number in numbers or (1, 2):
            self.routers[number - 1].run("nft -f -", input=_BLOCK)

    def resize(self, number, mtu):
        """The link of a host carries so much, and so does its uplink."""
        self.routers[number - 1].ip(f"link set near mtu {mtu}")
        self.hosts[number - 1].ns.ip(f"link set {UPLINK} mtu {mtu}")
