"""Fabrics with more than one logical switch: a router between them, a firewall, a gateway to the outside.

    guest ── switch ─┐                          ┌─ leg ── outside ── far
    guest ── switch ─┤ router (on every host) ──┤
    guest ── switch ─┘                          └─ physical network

Each switch has the networks 198.18.(100+n).0/24 and 2001:2:0:(64+n)::/64, in which the router is .254 and ::fe;
a guest's last part is its number, its default route the router. The network on the leg is 198.19.0.0/24, and
the machine behind the one outside stands for the rest of the world.
"""

from dataclasses import dataclass

import traffic
from net import Namespace, veth
from overlane import GENEVE, VLAN, Fabric, show
from spoofed import link_local
from topology import WHOLE, Underlay, add_guest, apply_host, guest_mtu

ROUTER, ROUTER_MAC = "core", "02:00:00:00:fe:fe"
LEG = "phys0"
#: The leg's own addresses, the router outside of it, a machine behind that one; and what nat may use.
LEG4, OUTSIDE4, FAR4, SPARE4 = "198.19.0.2", "198.19.0.1", "198.19.9.9", "198.19.0.10"
LEG6, OUTSIDE6, FAR6, SPARE6 = "2001:2:0:f0::2", "2001:2:0:f0::1", "2001:2:0:f9::9", "2001:2:0:f0::10"
#: Of all switches.
INSIDE4, INSIDE6 = "198.18.96.0/19", "2001:2:0:60::/59"
#: Of switches that are VLANs of the underlay: this and the switch's number.
FIRST_VLAN = 100
FIRST_VNI = 5000


@dataclass(frozen=True)
class Segment:
    """A logical switch and its networks."""

    name: str
    number: int

    @property
    def net4(self):
        return f"198.18.{100 + self.number}.0/24"

    @property
    def net6(self):
        return f"2001:2:0:{0x64 + self.number:x}::/64"

    def host(self, number):
        """The addresses of one of its machines."""
        return self.net4[:-4] + str(number), f"{self.net6[:-3]}{number:x}"

    @property
    def router(self):
        return self.net4[:-4] + "254", self.net6[:-3] + "fe"


@dataclass
class Outside:
    """The physical network of a gateway: a router on the leg's cable, and a machine behind it."""

    ns: Namespace
    far: Namespace


class Estate:
    """Hosts running Overlane with guests on several switches behind one router.

    `large_guests`: the guests believe in the underlay's MTU, so that a router has to tell them of the tunnel's.
    Hosts in `peers` (numbers) get their guests from someone else: they stand in the fabric only.
    """

    def __init__(self, lab, encapsulation=GENEVE, family=4, wire=WHOLE, hosts=2, switches=("front", "data"),
                 large_guests=False, peers=(), mtu=1500, **tunnel):
        self.lab, self.encapsulation, self.peers = lab, encapsulation, set(peers)
        self.underlay = Underlay(lab, hosts, family, wire, mtu, bridge=hosts != 2)
        self.hosts = self.underlay.hosts
        self.mtu = mtu if large_guests else guest_mtu(encapsulation, family, mtu)
        self.fabric = Fabric(encapsulation, family, **tunnel)
        self.router = {"mac": ROUTER_MAC, "interfaces": {}}
        self.segments, self.guests, self.outside = {}, [], None
        for host in self.hosts:
            self.fabric.host(host.name, host.address)
        for name in switches:
            self.switch(name)

    def switch(self, name, routed=True, **options):
        """A switch with a VNI, or with `encapsulation=VLAN` one on the underlay's VLAN."""
        segment = Segment(name, len(self.segments) + 1)
        self.segments[name] = segment
        if options.pop("encapsulation", self.encapsulation) == VLAN:
            self.fabric.switch(name, uplink_vlan=self.vlan(name), **options)
        else:
            self.fabric.switch(name, FIRST_VNI + segment.number, **options)
        if routed:
            v4, v6 = segment.router
            self.router["interfaces"][name] = [f"{v4}/24", f"{v6}/64"]
        return segment

    def vlan(self, name):
        return FIRST_VLAN + self.segments[name].number

    def firewall(self, switch, **policy):
        self.fabric.data["switches"][switch]["firewall"] = policy

    def guest(self, switch, host=1, silent=False, **options):
        """A guest of a switch on host number `host`. A silent one has no stack that could answer."""
        number, segment = len(self.guests) + 1, self.segments[switch]
        guest = add_guest(self.lab, self.hosts[host - 1], number, self.mtu, addresses=False, ipv6=not silent)
        guest.v4, guest.v6 = segment.host(number)
        self.guests.append(guest)
        self.fabric.port(port(guest), switch, guest.host.name, guest.device, guest.mac, guest.addresses,
                         key=number, **options)
        if not silent:
            give_addresses(guest.ns, "eth0", guest.addresses, segment.router, guest.mac)
        return guest

    def rule(self, name, ports, direction, action="allow", **more):
        ports = [each if isinstance(each, str) else port(each) for each in ports]
        self.fabric.data.setdefault("rules", {})[name] = {
            "ports": ports, "direction": direction, "action": action, **more}

    def forget_rule(self, name):
        del self.fabric.data["rules"][name]

    def routes(self, *routes):
        """(to, via) each."""
        self.router.setdefault("routes", []).extend({"to": to, "via": via} for to, via in routes)

    def gateway(self, host, nat=(), make_leg=veth):
        """Gives the router a leg on a host, and the world outside of it."""
        place = self.hosts[host - 1]
        self.outside = _outside(self.lab, place, make_leg)
        self.routes(("0.0.0.0/0", OUTSIDE4), ("::/0", OUTSIDE6))
        self.router["gateway"] = {"host": place.name, "device": LEG,
                                  "addresses": [f"{LEG4}/24", f"{LEG6}/64"], "nat": list(nat)}
        return self.outside

    def stand_in(self, host):
        """A gateway without leg: the host that answers peers which do not route."""
        self.router["gateway"] = {"host": self.hosts[host - 1].name}

    def apply(self, *hosts):
        self.fabric.data["routers"] = {ROUTER: self.router} if self.router["interfaces"] else {}
        path = self.write()
        for host in hosts or self.hosts:
            if host.number not in self.peers:
                apply_host(self.lab, path, host)
        if self.outside:
            # The first packet to a next hop is lost; who asks for the leg is known from then on.
            for address in (LEG4, LEG6):
                traffic.pings(self.outside.ns, address, timeout=0.5)
        return self

    def write(self):
        return self.fabric.write(self.lab.directory / "fabric.yaml")

    def line(self, name):
        """The line of the fabric file where the entry `name` begins."""
        lines = (self.lab.directory / "fabric.yaml").read_text().splitlines()
        (found,) = (number for number, line in enumerate(lines, 1) if line == f"  {name}:")
        return found


def port(guest):
    return f"port{guest.number}"


def give_addresses(ns, device, addresses, router, mac):
    """A machine's addresses, and its way out. The link-local address is what the kernel solicits from when no
    packet lends it another: for probes, and for what it forwards."""
    lines = [f"address add {link_local(mac)}/64 dev {device} nodad"]
    for address, via in zip(addresses, router):
        flags = "/64 nodad" if ":" in address else "/24"
        lines += [f"address add {address}{flags} dev {device}", f"route add default via {via} dev {device}"]
    ns.ip(*lines)


def _outside(lab, host, make_leg):
    """The kernel's own stacks in the physical network. It knows no way to the IPv4 networks inside: what is
    not translated finds no way back."""
    near, far = lab.namespace("o"), lab.namespace("w")
    make_leg(host.ns, LEG, near, "eth0")
    veth(near, "eth1", far, "eth0")
    host.ns.ip(f"link set {LEG} address 02:00:5e:00:02:02 up")
    near.sysctl("net.ipv4.ip_forward", 1)
    near.sysctl("net.ipv6.conf.all.forwarding", 1)
    near.ip("link set eth0 address 02:00:5e:00:02:01 up", "link set eth1 up",
            "address add fe80::1/64 dev eth0 nodad", f"address add {OUTSIDE4}/24 dev eth0",
            f"address add {OUTSIDE6}/64 dev eth0 nodad", "address add 198.19.9.1/24 dev eth1",
            "address add fe80::1/64 dev eth1 nodad",
            "address add 2001:2:0:f9::1/64 dev eth1 nodad", f"route add {INSIDE6} via {LEG6} dev eth0")
    far.ip("link set eth0 up")
    give_addresses(far, "eth0", (FAR4, FAR6), ("198.19.9.1", "2001:2:0:f9::1"), far.mac("eth0"))
    return Outside(near, far)


def rules(host):
    """{rule: packets that it decided}"""
    return {row["rule"]: row["hits"]["packets"] for row in show("rules", host.name)["rules"]}


def connections(host, of):
    """The live connections of a port, or translations of a router, by its name."""
    return [row for row in show("connections", host.name)["connections"]
            if of in (row.get("port"), row.get("router")) and not row["expired"]]
