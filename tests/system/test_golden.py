"""The golden frames of tests/golden: tshark and Scapy decode the fields written there.

crates/wire/tests/golden.rs shows the same files to our own parser. Fields have tshark's names; a
field that occurs several times (outer and inner) is a comma-separated list, outermost first.
"""

import subprocess
from pathlib import Path

import pytest
import yaml
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.layers import inet6
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw
from scapy.utils import wrpcap

FOLDER = Path(__file__).parents[1] / "golden"
FRAMES = [frame for path in sorted(FOLDER.glob("*.yaml")) for frame in yaml.safe_load(path.read_text())]
NAMES = [frame["name"] for frame in FRAMES]

#: Raw numbers, one dissection per frame, every checksum verified.
TSHARK = ["tshark", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,", "-E", "separator=/t"]
OPTIONS = {
    "tcp.relative_sequence_numbers": "FALSE",
    "ip.defragment": "FALSE",
    "ipv6.defragment": "FALSE",
    "ip.check_checksum": "TRUE",
    "tcp.check_checksum": "TRUE",
    "udp.check_checksum": "TRUE",
}
#: Frames whose ICMP error embeds only the front of a packet, with a checksum made up.
EMBEDDED = {"icmp-fragmentation-needed", "icmp-time-exceeded", "icmpv6-packet-too-big"}
BAD = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 || tcp.checksum.status == 0"


def raw(frame):
    return bytes.fromhex("".join(frame["hex"].split()))


def tshark(pcap, *arguments):
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}:{value}")]
    command = [*TSHARK, "-r", str(pcap), *options, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def pcap(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.pcap"
    wrpcap(str(path), [Ether(raw(frame)) for frame in FRAMES])
    return path


@pytest.fixture(scope="module")
def decoded(pcap):
    """name → field → tshark's value, all in one run."""
    fields = sorted({field for frame in FRAMES for field in frame["fields"]})
    columns = [word for field in fields for word in ("-e", field)]
    rows = [line.split("\t") for line in tshark(pcap, *columns)]
    assert len(rows) == len(FRAMES)
    return {name: dict(zip(fields, row)) for name, row in zip(NAMES, rows)}


def test_there_are_enough_frames():
    assert len(NAMES) == len(set(NAMES)) >= 20


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("frame", FRAMES, ids=NAMES)
def test_tshark_decodes_the_fields(frame, decoded):
    found = decoded[frame["name"]]
    assert {field: found[field] for field in frame["fields"]} == frame["fields"]


@pytest.mark.needs("tshark")
def test_tshark_finds_nothing_wrong(pcap):
    numbers = tshark(pcap, "-Y", BAD, "-e", "frame.number")
    assert {NAMES[int(number) - 1] for number in numbers} <= EMBEDDED


def hexadecimal(digits):
    return lambda value: f"0x{int(value):0{digits}x}"


def number(value):
    return str(int(value))


#: Where Scapy keeps tshark's field: layer, how to read it, how tshark writes it.
SCAPY = {
    "eth.dst": (Ether, "dst", str),
    "eth.src": (Ether, "src", str),
    "eth.type": (Ether, "type", hexadecimal(4)),
    "ieee8021ad.id": (Dot1AD, "vlan", number),
    "ieee8021ad.priority": (Dot1AD, "prio", number),
    "ieee8021ad.dei": (Dot1AD, "id", number),
    "vlan.id": (Dot1Q, "vlan", number),
    "vlan.priority": (Dot1Q, "prio", number),
    "vlan.dei": (Dot1Q, "id", number),
    "vlan.etype": (Dot1Q, "type", hexadecimal(4)),
    "ip.hdr_len": (IP, lambda ip: ip.ihl * 4, number),
    "ip.dsfield.dscp": (IP, lambda ip: ip.tos >> 2, number),
    "ip.dsfield.ecn": (IP, lambda ip: ip.tos & 3, number),
    "ip.len": (IP, "len", number),
    "ip.id": (IP, "id", hexadecimal(4)),
    "ip.flags.df": (IP, lambda ip: ip.flags.DF, number),
    "ip.flags.mf": (IP, lambda ip: ip.flags.MF, number),
    "ip.frag_offset": (IP, "frag", number),
    "ip.ttl": (IP, "ttl", number),
    "ip.proto": (IP, "proto", number),
    "ip.checksum": (IP, "chksum", hexadecimal(4)),
    "ip.src": (IP, "src", str),
    "ip.dst": (IP, "dst", str),
    "ipv6.version": (IPv6, "version", number),
    "ipv6.tclass.dscp": (IPv6, lambda ip: ip.tc >> 2, number),
    "ipv6.tclass.ecn": (IPv6, lambda ip: ip.tc & 3, number),
    "ipv6.flow": (IPv6, "fl", hexadecimal(6)),
    "ipv6.plen": (IPv6, "plen", number),
    "ipv6.nxt": (IPv6, "nh", number),
    "ipv6.hlim": (IPv6, "hlim", number),
    "ipv6.src": (IPv6, "src", str),
    "ipv6.dst": (IPv6, "dst", str),
    "ipv6.hopopts.nxt": (inet6.IPv6ExtHdrHopByHop, "nh", number),
    "ipv6.fraghdr.nxt": (inet6.IPv6ExtHdrFragment, "nh", number),
    "ipv6.fraghdr.offset": (inet6.IPv6ExtHdrFragment, "offset", number),
    "ipv6.fraghdr.more": (inet6.IPv6ExtHdrFragment, "m", number),
    "ipv6.fraghdr.ident": (inet6.IPv6ExtHdrFragment, "id", hexadecimal(8)),
    "udp.srcport": (UDP, "sport", number),
    "udp.dstport": (UDP, "dport", number),
    "udp.length": (UDP, "len", number),
    "udp.checksum": (UDP, "chksum", hexadecimal(4)),
    "tcp.srcport": (TCP, "sport", number),
    "tcp.dstport": (TCP, "dport", number),
    "tcp.seq_raw": (TCP, "seq", number),
    "tcp.ack_raw": (TCP, "ack", number),
    "tcp.hdr_len": (TCP, lambda tcp: tcp.dataofs * 4, number),
    "tcp.flags": (TCP, "flags", hexadecimal(4)),
    "tcp.window_size_value": (TCP, "window", number),
    "tcp.checksum": (TCP, "chksum", hexadecimal(4)),
    "tcp.urgent_pointer": (TCP, "urgptr", number),
    "tcp.options.mss_val": (TCP, lambda tcp: dict(tcp.options)["MSS"], number),
    "tcp.options.wscale.shift": (TCP, lambda tcp: dict(tcp.options)["WScale"], number),
    "tcp.options.timestamp.tsval": (TCP, lambda tcp: dict(tcp.options)["Timestamp"][0], number),
    "tcp.options.timestamp.tsecr": (TCP, lambda tcp: dict(tcp.options)["Timestamp"][1], number),
    "tcp.options.sack_le": (TCP, lambda tcp: list(dict(tcp.options)["SAck"][0::2]), number),
    "tcp.options.sack_re": (TCP, lambda tcp: list(dict(tcp.options)["SAck"][1::2]), number),
    "vxlan.flags": (VXLAN, lambda vxlan: int(vxlan.flags) << 8, hexadecimal(4)),
    "vxlan.vni": (VXLAN, "vni", number),
    "vxlan.reserved8": (VXLAN, "reserved2", number),
    "geneve.version": (GENEVE, "version", number),
    "geneve.flags.oam": (GENEVE, "oam", number),
    "geneve.flags.critical": (GENEVE, "critical", number),
    "geneve.proto_type": (GENEVE, "proto", hexadecimal(4)),
    "geneve.vni": (GENEVE, "vni", hexadecimal(6)),
    "geneve.option.class": (GeneveOptions, "classid", hexadecimal(4)),
    "geneve.option.type": (GeneveOptions, "type", hexadecimal(2)),
    "geneve.option.unknown.data": (GeneveOptions, lambda option: bytes(option.data).hex(), str),
    "arp.opcode": (ARP, "op", number),
    "arp.src.hw_mac": (ARP, "hwsrc", str),
    "arp.src.proto_ipv4": (ARP, "psrc", str),
    "arp.dst.hw_mac": (ARP, "hwdst", str),
    "arp.dst.proto_ipv4": (ARP, "pdst", str),
    "icmp.type": (ICMP, "type", number),
    "icmp.code": (ICMP, "code", number),
    "icmp.checksum": (ICMP, "chksum", hexadecimal(4)),
    "icmp.ident": (ICMP, "id", number),
    "icmp.seq": (ICMP, "seq", number),
    "icmp.mtu": (ICMP, "nexthopmtu", number),
    "icmpv6.type": (inet6._ICMPv6, "type", number),
    "icmpv6.code": (inet6._ICMPv6, "code", number),
    "icmpv6.checksum": (inet6._ICMPv6, "cksum", hexadecimal(4)),
    "icmpv6.mtu": (inet6.ICMPv6PacketTooBig, "mtu", number),
    "icmpv6.echo.identifier": (inet6.ICMPv6EchoRequest, "id", hexadecimal(4)),
    "icmpv6.echo.sequence_number": (inet6.ICMPv6EchoRequest, "seq", number),
    "icmpv6.nd.ns.target_address": (inet6.ICMPv6ND_NS, "tgt", str),
    "icmpv6.nd.na.target_address": (inet6.ICMPv6ND_NA, "tgt", str),
    "icmpv6.nd.na.flag.r": (inet6.ICMPv6ND_NA, "R", number),
    "icmpv6.nd.na.flag.s": (inet6.ICMPv6ND_NA, "S", number),
    "icmpv6.nd.na.flag.o": (inet6.ICMPv6ND_NA, "O", number),
    "icmpv6.nd.ra.cur_hop_limit": (inet6.ICMPv6ND_RA, "chlim", number),
    "icmpv6.nd.ra.flag": (
        inet6.ICMPv6ND_RA,
        lambda ra: ra.M << 7 | ra.O << 6 | ra.H << 5 | ra.prf << 3 | ra.P << 2 | ra.res,
        hexadecimal(2),
    ),
    "icmpv6.nd.ra.router_lifetime": (inet6.ICMPv6ND_RA, "routerlifetime", number),
    "icmpv6.nd.ra.reachable_time": (inet6.ICMPv6ND_RA, "reachabletime", number),
    "icmpv6.nd.ra.retrans_timer": (inet6.ICMPv6ND_RA, "retranstimer", number),
    "icmpv6.opt.type": (inet6._ICMPv6NDGuessPayload, "type", number),
    "icmpv6.opt.linkaddr": (inet6._ICMPv6NDGuessPayload, "lladdr", str),
    "icmpv6.opt.mtu": (inet6.ICMPv6NDOptMTU, "mtu", number),
    "icmpv6.opt.prefix": (inet6.ICMPv6NDOptPrefixInfo, "prefix", str),
    "icmpv6.opt.prefix.length": (inet6.ICMPv6NDOptPrefixInfo, "prefixlen", number),
    "icmpv6.opt.prefix.valid_lifetime": (inet6.ICMPv6NDOptPrefixInfo, "validlifetime", number),
    "icmpv6.opt.prefix.preferred_lifetime": (inet6.ICMPv6NDOptPrefixInfo, "preferredlifetime", number),
}


def options(geneve):
    """Scapy leaves what follows the first option as its raw payload."""
    for option in geneve.options:
        while True:
            yield option
            if not isinstance(option.payload, Raw):
                break
            option = GeneveOptions(option.payload.load)


def layers(packet):
    """Every layer of the frame, outermost first, options of Geneve among them."""
    layer = packet
    while layer:
        yield layer
        if isinstance(layer, GENEVE):
            yield from options(layer)
        layer = layer.payload


def scapy_value(packet, field):
    kind, read, write = SCAPY[field]
    values = []
    for layer in layers(packet):
        if kind is Dot1Q and isinstance(layer, Dot1AD):
            continue  # a subclass in Scapy, a protocol of its own in tshark
        is_option = "NDOpt" in type(layer).__name__
        if not isinstance(layer, kind) or is_option != field.startswith("icmpv6.opt."):
            continue
        if isinstance(read, str):
            # Of the options only some have the field.
            if not any(description.name == read for description in layer.fields_desc):
                continue
            value = getattr(layer, read)
        else:
            value = read(layer)
        values += value if isinstance(value, list) else [value]
    return ",".join(write(value) for value in values)


@pytest.mark.parametrize("frame", FRAMES, ids=NAMES)
def test_scapy_decodes_the_fields(frame):
    packet = Ether(raw(frame))
    assert {field: scapy_value(packet, field) for field in frame["fields"]} == frame["fields"]
