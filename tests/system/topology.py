"""Underlays, hosts and guests.

    guest ── port ┤ host │ uplink ═══ underlay ═══ uplink │ host ├ port ── guest

Two hosts share one cable, three or more a bridge in a namespace of its own. Guests keep every
offload on; only the wire mode changes the uplinks.
"""

import itertools
from dataclasses import dataclass, field

from net import Lab, Namespace, veth, wait_until
from overlane import OVERHEAD, VLAN, Fabric, announcers, apply, remove

UPLINK = "uplink"
#: The VLAN of the switch `blue` where it is one.
UPLINK_VLAN = 100

#: Super-packets cross the cable as they are.
WHOLE = "whole"
#: The uplinks cut super-packets, as a card without tunnel offload makes the kernel do.
SEGMENTED = "segmented"
#: As segmented, and checksums are complete on the wire: what a peer needs that reads raw frames.
PLAIN = "plain"

WIRES = (WHOLE, SEGMENTED)

_SEGMENTATION = ("tso", "gso", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
                 "tx-udp-segmentation")


def underlay_address(family, number):
    return f"198.18.0.{number}" if family == 4 else f"2001:2:0:1::{number}"


def guest_mac(number):
    return f"02:00:00:00:{number >> 8:02x}:{number & 0xff:02x}"


def guest_addresses(number):
    return f"198.18.100.{number}", f"2001:2:0:64::{number:x}"


@dataclass(eq=False)
class Guest:
    """A namespace behind one port. `device` is the host's end, eth0 the guest's."""

    ns: Namespace
    host: "Host"
    device: str
    number: int
    mac: str
    v4: str
    v6: str

    @property
    def addresses(self):
        return (self.v4, self.v6)


@dataclass(eq=False)
class Host:
    """A namespace with an uplink. `name` is its name in the fabric file."""

    ns: Namespace
    name: str
    number: int
    address: str
    family: int
    uplink: str = UPLINK
    guests: list = field(default_factory=list)

    @property
    def netns(self):
        return self.ns.name


class Underlay:
    """Hosts joined by a cable (two) or a bridge (more)."""

    def __init__(self, lab: Lab, hosts=2, family=4, wire=WHOLE, mtu=1500, bridge=None):
        self.lab, self.family, self.wire, self.mtu = lab, family, wire, mtu
        self.hosts = [self._host(number) for number in range(1, hosts + 1)]
        self.bridge = None
        if bridge or (bridge is None and hosts > 2):
            self._join_by_bridge()
        else:
            veth(self.hosts[0].ns, UPLINK, self.hosts[1].ns, UPLINK)
        for host in self.hosts:
            self._configure(host)

    def _host(self, number):
        ns = self.lab.namespace(f"h{number}")
        return Host(ns, ns.name, number, underlay_address(self.family, number), self.family)

    def _join_by_bridge(self):
        self.bridge = self.lab.namespace("u", ipv6=False)
        self.bridge.ip("link add br0 type bridge mcast_snooping 0",
                       f"link set br0 mtu {self.mtu} up")
        for host in self.hosts:
            end = f"to{host.number}"
            veth(self.bridge, end, host.ns, UPLINK)
            self.bridge.ip(f"link set {end} mtu {self.mtu} master br0 up")

    def _configure(self, host):
        host.ns.ip(f"link set {UPLINK} address 02:00:5e:00:00:{host.number:02x} mtu {self.mtu} up",
                   *address_lines(UPLINK, host.address, host.number))
        # The kernel asks a neighbour again seconds after it was last sure of it; tests count frames.
        for family in ("ipv4", "ipv6"):
            host.ns.sysctl(f"net.{family}.neigh.{UPLINK}.delay_first_probe_time", 1_000_000)
        set_wire(host.ns, UPLINK, self.wire)


def address_lines(device, address, number):
    """`ip` commands that give an underlay device its address, over IPv6 a link-local one too.

    Without the latter the kernel cannot solicit a neighbour unless a packet lends it an address.
    """
    if ":" not in address:
        return [f"address add {address}/24 dev {device}"]
    return [f"address add fe80::{number:x}/64 dev {device} nodad",
            f"address add {address}/64 dev {device} nodad"]


def set_wire(ns, device, wire):
    """Put one end of the underlay into a wire mode."""
    if wire == WHOLE:
        return
    ns.ethtool(device, off=_SEGMENTATION + (("tx",) if wire == PLAIN else ()))


def add_guest(lab: Lab, host: Host, number, mtu=1500, device=None, addresses=True, ipv6=True):
    """A guest on a veth; `addresses=False` makes it silent whatever it receives."""
    device = device or f"p{number}"
    ns = lab.namespace(f"g{number}", ipv6=ipv6)
    v4, v6 = guest_addresses(number)
    guest = Guest(ns, host, device, number, guest_mac(number), v4, v6)
    veth(host.ns, device, ns, "eth0")
    host.ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 1)
    host.ns.ip(f"link set {device} mtu {max(mtu, 1500)} up")
    lines = [f"link set eth0 address {guest.mac} mtu {mtu} up"]
    if addresses:
        lines.append(f"address add {v4}/24 dev eth0")
        if ipv6:
            lines.append(f"address add {v6}/64 dev eth0 nodad")
    ns.ip(*lines)
    host.guests.append(guest)
    return guest


def guest_mtu(encapsulation, family, underlay_mtu=1500):
    return underlay_mtu - OVERHEAD[encapsulation, family]


class Scene:
    """Hosts running Overlane with guests on one switch: the usual stage of a test.

    `guests` is the number of guests per host; all are ports of the switch `blue`, VNI 5001 (with the
    encapsulation `vlan`: VLAN 100 on the uplinks). `port` holds options of every port.
    `declared=False` keeps the guests' addresses out of the fabric: they find each other by ARP and ND.
    `underlay` is another one than that of `Underlay`, with as many hosts.
    Hosts in `peers` (numbers) get their guests from someone else: they stand in the fabric only.
    """

    def __init__(self, lab, encapsulation, family=4, wire=WHOLE, guests=(1, 1), mtu=1500,
                 peers=(), tunnel=None, switch=None, guest_options=None, bridge=None, declared=True,
                 port=None, underlay=None):
        self.lab, self.encapsulation, self.family = lab, encapsulation, family
        self.underlay = underlay or Underlay(lab, len(guests), family, wire, mtu, bridge)
        self.hosts = self.underlay.hosts
        self.peers = set(peers)
        self.declared = declared
        self.mtu = guest_mtu(encapsulation, family, mtu)
        self.fabric = Fabric(encapsulation, family, **(tunnel or {}))
        self.vni, self.port_options = 5001, port or {}
        if encapsulation == VLAN:
            self.fabric.switch("blue", uplink_vlan=UPLINK_VLAN, **(switch or {}))
        else:
            self.fabric.switch("blue", self.vni, **(switch or {}))
        self.guests = []
        numbers = itertools.count(1)
        for host, count in zip(self.hosts, guests):
            self.fabric.host(host.name, host.address)
            for _ in range(count):
                self._guest(host, next(numbers), guest_options or {})

    def _guest(self, host, number, options):
        guest = add_guest(self.lab, host, number, **{"mtu": self.mtu, **options})
        self.guests.append(guest)
        addresses = guest.addresses if self.declared and options.get("addresses", True) else ()
        self.fabric.port(f"port{number}", "blue", host.name, guest.device, guest.mac,
                         addresses, key=number, **self.port_options)

    def apply(self, *hosts, words=(), **options):
        """Write the fabric and apply it on every Overlane host (or on those named)."""
        path = self.fabric.write(self.lab.directory / "fabric.yaml")
        for host in hosts or self.hosts:
            if host.number in self.peers:
                continue
            apply_host(self.lab, path, host, *words, **options)
        if self.encapsulation == VLAN:
            for host in hosts or self.hosts:
                wait_for_announcements(host)
        return self


def wait_for_announcements(host):
    """Until a host says nothing any more that a test could count."""
    wait_until(lambda: not announcers(host.name), what=f"{host.name} to announce all")


def apply_host(lab, path, host, *words, **options):
    """Apply on one host, and take it away again with the test."""
    lab.defer(remove, host.name, host.netns, expect=None)
    return apply(path, host.name, host.netns, *words, **options)
