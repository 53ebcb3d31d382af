"""What a guest may not say: name → frame → the reason it is dropped for → what would let it pass.

All of it is broadcast or multicast, so that every other guest of the switch would get it.
"""

import ipaddress
from dataclasses import dataclass

from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.dhcp6 import DHCP6_Advertise, DHCP6_Solicit
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import (ICMPv6MLReport2, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA,
                                ICMPv6ND_Redirect, ICMPv6ND_RS, ICMPv6NDOptDstLLAddr,
                                ICMPv6NDOptPrefixInfo, ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, RouterAlert)
from scapy.layers.l2 import ARP, Dot3, Ether
from scapy.packet import Raw

from frames import BROADCAST, patch

ALL_NODES_MAC, ALL_NODES = "33:33:00:00:00:01", "ff02::1"
OTHER_MAC = "02:00:00:00:66:66"
#: Nobody's: questions about it are flooded, not answered.
NOBODY4 = "198.18.100.99"
#: What lets a frame through.
MAC, OFF, DHCP_SERVER, ROUTER = "mac", "off", "dhcp_server", "router_advertisement"


@dataclass(frozen=True)
class Spoof:
    """One frame; `passes` are the settings of the port with which it goes on."""

    name: str
    frame: bytes
    reason: str
    passes: frozenset


def link_local(mac):
    """The address of RFC 4291 appendix A."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    words = octets[:3] + [0xFF, 0xFE] + octets[3:]
    groups = [f"{words[at] << 8 | words[at + 1]:x}" for at in range(0, 8, 2)]
    return "fe80::" + ":".join(groups)


def _udp4(mac, source, sport=4000, dport=4001):
    return (Ether(src=mac, dst=BROADCAST) / IP(src=source, dst="255.255.255.255")
            / UDP(sport=sport, dport=dport) / Raw(b"spoof" * 10))


def _ip6(mac, source, **fields):
    return Ether(src=mac, dst=ALL_NODES_MAC) / IPv6(src=source, dst=ALL_NODES, **fields)


def _nd(mac, source):
    return _ip6(mac, source, hlim=255)


def _dad(mac, target):
    """Duplicate address detection (RFC 4862), to the solicited-node address of the target."""
    low = ipaddress.IPv6Address(target).packed[-3:]
    group = f"ff02::1:ff{low[0]:02x}:{low[1]:02x}{low[2]:02x}"
    to = f"33:33:ff:{low[0]:02x}:{low[1]:02x}:{low[2]:02x}"
    return Ether(src=mac, dst=to) / IPv6(src="::", dst=group, hlim=255) / ICMPv6ND_NS(tgt=target)


def _mac_spoofs(me, victim):
    for name, mac in (("another guest's MAC", victim.mac), ("a MAC of nobody", OTHER_MAC)):
        yield name, _udp4(mac, me.v4), "spoofed_mac", {OFF}
    arp = ARP(op=2, hwsrc=victim.mac, psrc=victim.v4, hwdst=BROADCAST, pdst=victim.v4)
    yield ("a whole ARP reply of another guest", Ether(src=victim.mac, dst=BROADCAST) / arp,
           "spoofed_mac", {OFF})


def _arp_spoofs(me, victim):
    def arp(**fields):
        fields = {"op": 2, "hwsrc": me.mac, "psrc": me.v4, "hwdst": BROADCAST, "pdst": NOBODY4, **fields}
        return Ether(src=me.mac, dst=BROADCAST) / ARP(**fields)

    yield "ARP: I have another guest's address", arp(psrc=victim.v4), "spoofed_arp", {OFF}
    yield ("gratuitous ARP for another guest's address", arp(psrc=victim.v4, pdst=victim.v4),
           "spoofed_arp", {OFF})
    yield ("an ARP request in another guest's name", arp(op=1, psrc=victim.v4), "spoofed_arp", {OFF})
    yield ("ARP: I have an address that nobody has", arp(psrc="198.18.100.98"), "spoofed_arp",
           {MAC, OFF})
    yield ("ARP: another guest has my address", arp(hwsrc=victim.mac), "spoofed_arp", {OFF})
    yield "ARP cut short", Raw(bytes(arp())[:40]), "spoofed_arp", {OFF}
    yield ("ARP with hardware addresses of 8 bytes", Raw(patch(bytes(arp()), 18, b"\x08")),
           "spoofed_arp", {OFF})


def _ip_spoofs(me, victim):
    strict = {MAC, OFF}
    yield "IPv4 of another guest", _udp4(me.mac, victim.v4), "spoofed_ip", strict
    yield "IPv4 of nobody", _udp4(me.mac, NOBODY4), "spoofed_ip", strict
    yield "IPv4 0.0.0.0 that is no DHCP", _udp4(me.mac, "0.0.0.0"), "spoofed_ip", strict
    udp = UDP(sport=4000, dport=4001) / Raw(b"spoof" * 10)
    for name, source in (("another guest", victim.v6), ("nobody", "2001:2:0:64::99"),
                         ("another link-local address", "fe80::66"), ("no address", "::")):
        yield f"IPv6 of {name}", _ip6(me.mac, source) / udp, "spoofed_ip", strict


def _nd_spoofs(me, victim):
    nd = _nd(me.mac, me.v6)
    yield ("NA: I have another guest's address",
           nd / ICMPv6ND_NA(tgt=victim.v6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=me.mac),
           "spoofed_nd", {OFF})
    yield ("NA: I have an address that nobody has",
           nd / ICMPv6ND_NA(tgt="2001:2:0:64::97", R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=me.mac),
           "spoofed_nd", {MAC, OFF})
    yield ("duplicate address detection for another guest's link-local address",
           _dad(me.mac, link_local(victim.mac)), "spoofed_nd", {MAC, OFF})
    yield ("NA: another guest has my address",
           nd / ICMPv6ND_NA(tgt=me.v6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=victim.mac),
           "spoofed_nd", {OFF})
    source = ICMPv6NDOptSrcLLAddr(lladdr=victim.mac)
    yield ("NS with another guest's link-layer address",
           nd / ICMPv6ND_NS(tgt="2001:2:0:64::98") / source, "spoofed_nd", {OFF})
    yield ("RS with another guest's link-layer address", nd / ICMPv6ND_RS() / source, "spoofed_nd",
           {OFF})
    empty = Raw(b"\x01\x00" + bytes(6))
    yield ("NS with an option of length 0", nd / ICMPv6ND_NS(tgt="2001:2:0:64::98") / empty,
           "spoofed_nd", {OFF})


def _fragments(me):
    """RFC 6980: neighbour discovery in fragments; RFC 7113: headers in its way."""
    na = ICMPv6ND_NA(tgt=me.v6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=me.mac)
    first = IPv6ExtHdrFragment(offset=0, m=1, id=9)
    yield ("a fragmented NA", _nd(me.mac, me.v6) / IPv6ExtHdrFragment(offset=0, m=1, id=9, nh=58) / na,
           "hidden_header", {OFF})
    snap = b"\xaa\xaa\x03\0\0\0\x86\xdd" + bytes(IPv6(src=me.v6, dst=ALL_NODES, hlim=255) / ICMPv6ND_RA())
    yield ("a router advertisement behind a SNAP header",
           Dot3(src=me.mac, dst=ALL_NODES_MAC, len=len(snap)) / Raw(snap), "hidden_header", {OFF})
    yield ("a header behind the fragment header",
           _nd(me.mac, me.v6) / first / IPv6ExtHdrDestOpt(nh=58) / ICMPv6ND_RA(), "hidden_header", {OFF})


def _servers(me):
    offer = BOOTP(op=2, yiaddr="198.18.100.77") / DHCP(options=[("message-type", "offer"), "end"])
    yield ("a DHCP offer", Ether(src=me.mac, dst=BROADCAST) / IP(src=me.v4, dst="255.255.255.255")
           / UDP(sport=67, dport=68) / offer, "dhcp_server", {OFF, DHCP_SERVER})
    yield ("a DHCP offer from another port", Ether(src=me.mac, dst=BROADCAST)
           / IP(src=me.v4, dst="255.255.255.255") / UDP(sport=6767, dport=68) / offer, "dhcp_server",
           {OFF, DHCP_SERVER})
    yield ("a DHCPv6 advertisement", _ip6(me.mac, me.v6) / UDP(sport=547, dport=546)
           / DHCP6_Advertise(trid=7), "dhcp_server", {OFF, DHCP_SERVER})


def _routers(me):
    own = _nd(me.mac, link_local(me.mac))
    ra = ICMPv6ND_RA(routerlifetime=1800) / ICMPv6NDOptPrefixInfo(prefix="2001:2:0:bad::", prefixlen=64)
    passes = {OFF, ROUTER}
    yield "a router advertisement", own / ra, "router_advertisement", passes
    yield ("a router advertisement behind a destination options header",
           own / IPv6ExtHdrDestOpt() / ra, "router_advertisement", passes)
    yield ("a router advertisement behind three headers",
           own / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / ra,
           "router_advertisement", passes)
    yield ("a redirect", own / ICMPv6ND_Redirect(tgt=link_local(me.mac), dst="2001:2:0:64::98"),
           "router_advertisement", passes)


def spoofs(me, victim):
    """All of them, from `me` against `victim`."""
    for rows in (_mac_spoofs(me, victim), _arp_spoofs(me, victim), _ip_spoofs(me, victim),
                 _nd_spoofs(me, victim), _fragments(me), _servers(me), _routers(me)):
        for name, frame, reason, passes in rows:
            yield Spoof(name, bytes(frame), reason, frozenset(passes))


def honest(me):
    """(name, frame): what a guest with its own addresses has every right to send, all to many."""
    own = link_local(me.mac)
    yield "UDP broadcast", _udp4(me.mac, me.v4)
    yield ("a DHCP client's discovery", Ether(src=me.mac, dst=BROADCAST)
           / IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67)
           / BOOTP(op=1) / DHCP(options=[("message-type", "discover"), "end"]))
    yield ("an ARP probe", Ether(src=me.mac, dst=BROADCAST)
           / ARP(op=1, hwsrc=me.mac, psrc="0.0.0.0", pdst=me.v4))
    yield ("an ARP announcement", Ether(src=me.mac, dst=BROADCAST)
           / ARP(op=1, hwsrc=me.mac, psrc=me.v4, pdst=me.v4))
    yield "duplicate address detection", _dad(me.mac, me.v6)
    yield ("an unsolicited NA", _nd(me.mac, me.v6) / ICMPv6ND_NA(tgt=me.v6, R=0, S=0, O=1)
           / ICMPv6NDOptDstLLAddr(lladdr=me.mac))
    yield ("an NA for the link-local address", _nd(me.mac, own) / ICMPv6ND_NA(tgt=own, R=0, S=0, O=1)
           / ICMPv6NDOptDstLLAddr(lladdr=me.mac))
    yield "a router solicitation", _nd(me.mac, own) / ICMPv6ND_RS()
    for name, source in (("unspecified", "::"), ("link-local", own)):
        yield (f"a listener report from the {name} address",
               _ip6(me.mac, source, hlim=1) / IPv6ExtHdrHopByHop(options=[RouterAlert()])
               / ICMPv6MLReport2())
    yield ("a DHCPv6 client's solicitation", _ip6(me.mac, own) / UDP(sport=546, dport=547)
           / DHCP6_Solicit(trid=7))
    yield ("a fragment of UDP", _ip6(me.mac, me.v6)
           / IPv6ExtHdrFragment(offset=0, m=1, id=9, nh=17)
           / UDP(sport=4000, dport=9, len=2000, chksum=1) / Raw(b"f" * 64))
