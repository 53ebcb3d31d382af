"""The table of malformed packets: name → frames → the one verdict each of them must end in."""

import struct

from frames import (BROADCAST, Ends, geneve_option, ovn_option, patch, plain_frame, tagged_frame,
                    tcp_frame, udp_frame)
from overlane import GENEVE, VXLAN

UNKNOWN_MAC = "02:00:00:00:99:99"


class Inner:
    """Inner frames from the remote's guest to the local one."""

    def __init__(self, source, target):
        self.source, self.target = source, target

    def udp(self, v6=False, source_mac=None, target_mac=None):
        a, b = (self.source.v6, self.target.v6) if v6 else (self.source.v4, self.target.v4)
        return udp_frame(source_mac or self.source.mac, target_mac or self.target.mac, a, b)

    def tagged(self, tags):
        return tagged_frame(self.source.mac, self.target.mac, self.source.v4, self.target.v4, tags)

    def plain(self, target_mac=None):
        return plain_frame(self.source.mac, target_mac or self.target.mac)

    def tcp(self, v6=False):
        a, b = (self.source.v6, self.target.v6) if v6 else (self.source.v4, self.target.v4)
        return tcp_frame(self.source.mac, self.target.mac, a, b)


def inner_frames(inner: Inner):
    """(name, frame, verdict): broken inside, the same from a port and from the underlay."""
    v4, v6 = inner.udp(), inner.udp(v6=True)
    yield "inner VLAN tag 802.1Q", inner.tagged([(0x8100, 42)]), "vlan_tag"
    yield "inner tag within a priority tag", inner.tagged([(0x8100, 0), (0x8100, 42)]), "vlan_tag"
    yield "inner VLAN tag 802.1ad", inner.tagged([(0x88A8, 42)]), "vlan_tag"
    yield "inner QinQ", inner.tagged([(0x88A8, 42), (0x8100, 7)]), "vlan_tag"
    yield "inner source is a group", inner.udp(source_mac="03:00:00:00:00:01"), "source_mac"
    yield "inner source is broadcast", inner.udp(source_mac=BROADCAST), "source_mac"
    yield "inner source is zero", inner.udp(source_mac="00:00:00:00:00:00"), "source_mac"
    yield "inner IPv4 says version 5", patch(v4, 14, b"\x55"), "inner_ip_header"
    yield "inner IPv4 header of 16 bytes", patch(v4, 14, b"\x44"), "inner_ip_header"
    yield "inner IPv4 longer than the frame", patch(v4, 16, b"\xff\xff"), "inner_ip_header"
    yield "inner IPv4 shorter than its header", patch(v4, 16, b"\x00\x13"), "inner_ip_header"
    yield "inner IPv6 says version 4", patch(v6, 14, b"\x40"), "inner_ip_header"
    yield "inner IPv6 longer than the frame", patch(v6, 18, b"\xff\xff"), "inner_ip_header"
    for size in range(14, len(v4)):
        yield f"inner IPv4 cut at {size}", v4[:size], "inner_ip_header"
    for size in range(14, len(v6)):
        yield f"inner IPv6 cut at {size}", v6[:size], "inner_ip_header"


def outer_packets(ends: Ends, inner: Inner):
    """(name, packet, verdict): the outer headers, whole and broken."""
    good = inner.udp()
    whole = ends.carry(good)
    header = ends.tunnel_header()
    yield "a good unicast packet", whole, "to_port"
    yield "a good IPv6 packet", ends.carry(inner.udp(v6=True)), "to_port"
    yield "a good packet that is not IP", ends.carry(inner.plain()), "to_port"
    yield "Ethernet padding behind the packet", whole + b"\0" * 7, "to_port"
    yield "UDP checksum not zero", ends.carry(good, udp={"chksum": 0x1234}), "to_port"
    yield "another UDP port", ends.carry(good, udp={"dport": 4790}), "to_host"
    other = "198.18.0.77" if ends.family == 4 else "2001:2:0:1::77"
    yield "another destination address", ends.carry(good, ip={"dst": other}), "to_host"
    yield "source is no VTEP of the fabric", ends.carry(good, ip={"src": other}), "unknown_vtep"
    yield "source is this host itself", ends.carry(good, ip={"src": ends.target}), "unknown_vtep"
    yield "outer VLAN tag", patch(whole, 12, b"\x81\x00\x00\x2a" + whole[12:14]), "to_host"
    udp_len = len(whole) - ends.outer_len + 8
    for name, value in (("zero", 0), ("7", 7), ("one less", udp_len - 1), ("one more", udp_len + 1),
                        ("maximal", 65535)):
        yield f"UDP length {name}", ends.carry(good, udp={"len": value}), "outer_length"
    for size in range(14, len(whole)):
        verdict = "to_host" if size < ends.outer_len else "outer_length"
        yield f"packet cut at {size}", whole[:size], verdict
    for size in range(len(header)):
        yield f"tunnel header cut at {size}", ends.packet(header[:size]), "tunnel_header"
    for size in range(14):
        yield f"inner Ethernet cut at {size}", ends.carry(good[:size]), "inner_too_small"
    yield "VNI 0", ends.carry(good, ends.tunnel_header(vni=0)), "vni_zero"
    yield "unknown VNI", ends.carry(good, ends.tunnel_header(vni=0xABCDEF)), "unknown_vni"
    yield from _family_packets(ends, good, whole)
    if ends.encapsulation == VXLAN:
        yield from _vxlan_packets(ends, inner, good)
    else:
        yield from _geneve_packets(ends, inner, good)


def _family_packets(ends, good, whole):
    if ends.family == 4:
        yield "first outer fragment", ends.carry(good, ip={"flags": "MF"}), "outer_fragment"
        yield "outer header checksum wrong", patch(whole, 24, b"\xde\xad"), "outer_ip_csum"
        yield "outer IPv4 says version 5", patch(whole, 14, b"\x55"), "to_host"
        yield "outer IPv4 header of 16 bytes", patch(whole, 14, b"\x44"), "to_host"
        for name, value in (("shorter than its header", 19), ("without UDP", 20),
                            ("one less", len(whole) - 15), ("one more", len(whole) - 13)):
            yield (f"outer IPv4 length {name}", ends.carry(good, ip={"len": value}),
                   "outer_length")
        options = [b"\x01\x01\x01\x00"]
        yield "outer IPv4 options", ends.carry(good, ip={"options": options}), "to_port"
    else:
        first = {"offset": 0, "m": 1, "id": 7}
        yield "first outer fragment", ends.carry(good, fragment=first), "outer_fragment"
        alone = {"offset": 0, "m": 0, "id": 7}
        yield "atomic outer fragment", ends.carry(good, fragment=alone), "outer_fragment"
        yield "outer IPv6 says version 4", patch(whole, 14, b"\x40"), "to_host"
        for name, value in (("zero", 0), ("one less", len(whole) - 55),
                            ("one more", len(whole) - 53)):
            yield (f"outer IPv6 length {name}", ends.carry(good, ip={"plen": value}),
                   "outer_length")


def _vxlan_packets(ends, inner, good):
    yield "a good broadcast", ends.carry(inner.plain(BROADCAST)), "flood"
    yield "unknown destination", ends.carry(inner.plain(UNKNOWN_MAC)), "unknown_unicast"
    for flags in (0x00, 0xF7):
        yield (f"VXLAN flags {flags:#04x}", ends.carry(good, ends.tunnel_header(flags=flags)),
               "vxlan_flags")


def _geneve_packets(ends, inner, good):
    def carry(options=None, frame=good, **fields):
        return ends.carry(frame, ends.tunnel_header(options=options, **fields))

    ovn = ovn_option(ends.source_key, ends.dest_key)
    spare = geneve_option(b"spare-op", cls=0xFFFF, kind=0x01)
    critical = geneve_option(b"spare-op", cls=0xFFFF, kind=0x81)
    flood = ovn_option(ends.source_key, 0x8000)
    yield "a good broadcast", carry(flood, inner.plain(BROADCAST)), "flood"
    yield "no option, known destination", carry(b"", flags=0), "to_port"
    yield "no option, broadcast", carry(b"", inner.plain(BROADCAST), flags=0), "flood"
    yield "no option, unknown destination", carry(b"", inner.plain(UNKNOWN_MAC)), "unknown_unicast"
    yield "an unknown option before OVN's", carry(spare + ovn), "to_port"
    yield "an unknown option after OVN's", carry(ovn + spare), "to_port"
    many = geneve_option(b"", cls=0xFFFF, kind=1) * 61
    yield "252 bytes of options", carry(ovn + many), "to_port"
    yield "unknown critical option", carry(critical), "geneve_critical"
    yield "unknown critical option after OVN's", carry(ovn + critical), "geneve_critical"
    yield "OVN's class, unknown critical type", carry(
        geneve_option(b"\0\1\0\2", kind=0x81)), "geneve_critical"
    yield "key of no port here", carry(ovn_option(1, 0x7001)), "unknown_port_key"
    for version in (1, 2, 3):
        yield f"Geneve version {version}", carry(version=version), "geneve_version"
    yield "control packet", carry(flags=0xC0), "geneve_control"
    for protocol in (0x0800, 0x86DD, 0x0000):
        yield f"Geneve protocol {protocol:#06x}", carry(protocol=protocol), "geneve_protocol"
    yield "OVN's option without data", carry(geneve_option(b"")), "geneve_option_length"
    yield "OVN's option twice as long", carry(geneve_option(bytes(8))), "geneve_option_length"
    for words in (2, 5, 31):
        lying = geneve_option(struct.pack("!HH", 1, 2), cls=0xFFFF, kind=1, length=words)
        yield f"option that claims {words} words of 1", carry(lying), "geneve_options"
    yield "options end inside an option", carry(spare + ovn, opt_len=4), "geneve_options"
    yield "options end before the data", carry(ovn, opt_len=1), "geneve_options"
    yield "options beyond the packet", carry(ovn, opt_len=63), "tunnel_header"


def reserved_bits(ends: Ends, inner: Inner):
    """(name, packet): reserved bits; ignored by default, dropped where the tunnel is strict."""
    good = inner.udp()
    if ends.encapsulation == VXLAN:
        for bit in (0x01, 0x02, 0x04, 0x10, 0x20, 0x40, 0x80):
            yield f"VXLAN flag {bit:#04x}", ends.carry(good, ends.tunnel_header(flags=0x08 | bit))
        for bit in range(0, 24, 5):
            yield f"VXLAN reserved bit {bit}", ends.carry(
                good, ends.tunnel_header(reserved=1 << bit))
        yield "VXLAN last byte", ends.carry(good, ends.tunnel_header(reserved2=0x80))
    else:
        for bit in range(6):
            yield f"Geneve reserved flag {bit}", ends.carry(
                good, ends.tunnel_header(flags=0x40 | 1 << bit))
        yield "Geneve last byte", ends.carry(good, ends.tunnel_header(reserved=0x80))


def port_frames(inner: Inner):
    """(name, frame, verdict): what a guest can send that is special or broken."""
    yield "unicast to a remote guest", inner.udp(), "encap"
    yield "unicast, not IP", inner.plain(), "encap"
    yield "broadcast", inner.plain(BROADCAST), "flood"
    yield "multicast", inner.udp(target_mac="01:00:5e:00:00:42"), "flood"
    yield "unknown destination", inner.plain(UNKNOWN_MAC), "unknown_unicast"
    yield "destination is the sender", inner.plain(inner.source.mac), "hairpin"
    yield "nothing behind the Ethernet header", inner.plain()[:14], "encap"
    yield from inner_frames(inner)


def encapsulated(ends: Ends, inner: Inner):
    """`inner_frames` inside good tunnel packets."""
    for name, frame, verdict in inner_frames(inner):
        yield name, ends.carry(frame), verdict


def all_seeds(ends: Ends, inner: Inner):
    """Packets worth mutating."""
    seeds = [packet for _, packet, _ in outer_packets(ends, inner) if len(packet) >= ends.outer_len]
    if ends.encapsulation == GENEVE:
        seeds += [packet for _, packet in reserved_bits(ends, inner)]
    return seeds
