"""Outer headers from the fabric file, the packet that entered and the frame that leaves, by the text of
docs/semantics.md and docs/fabric.md alone. Nothing here is translated from bpf/ or crates/."""

import ipaddress
import struct
from dataclasses import dataclass

from scapy.contrib.geneve import GENEVE as Geneve
from scapy.fields import BitField, ShortField, XByteField, XShortField
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN as Vxlan
from scapy.packet import Packet, Raw

from frames import ETH_P_TEB, OVN_CLASS, OVN_TYPE
from overlane import GENEVE, PORTS, VXLAN

#: PARSE-12 says "the configured seed", but nothing configures it: this is `Tunnel::HASH_SEED` of crates/model.
SEED = 0x6F766C6E
#: What the kernel's neighbours fill in; a case has zeros there.
NO_MAC = "00:00:00:00:00:00"

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
TAGS = (0x8100, 0x88A8)
#: TCP, UDP, SCTP.
WITH_PORTS = (6, 17, 132)
#: Hop-by-hop, routing, destination options.
EXTENSIONS = (0, 43, 60)
FRAGMENT = 44
MOST_EXTENSIONS = 6


class OvnOption(Packet):
    """OVN's option of Geneve, which Scapy shows as bytes."""

    name = "OVN option"
    fields_desc = [XShortField("option_class", OVN_CLASS), XByteField("type", OVN_TYPE), BitField("reserved", 0, 3),
                   BitField("length", 1, 5), BitField("reserved_of_key", 0, 1), BitField("source_key", 0, 15),
                   ShortField("destination_key", 0)]


# The flow hash.

def rotated(word, bits):
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF


def lookup3(words, seed):
    """`hashword` of Bob Jenkins's lookup3.c (http://burtleburtle.net/bob/c/lookup3.c, public domain)."""
    words = list(words)
    a = b = c = 0xDEADBEEF + (len(words) << 2) + seed & 0xFFFFFFFF
    while len(words) > 3:
        a, b, c = (value + word & 0xFFFFFFFF for value, word in zip((a, b, c), words))
        words = words[3:]
        for bits in (4, 6, 8, 16, 19, 4):
            # A round of `mix`; the next one has the same variables, one place on.
            a = (a - c & 0xFFFFFFFF) ^ rotated(c, bits)
            c = c + b & 0xFFFFFFFF
            a, b, c = b, c, a
    a, b, c = (value + word & 0xFFFFFFFF for value, word in zip((a, b, c), [*words, 0, 0, 0]))
    for bits in (14, 11, 25, 16, 4, 14, 24):
        # A round of `final`, likewise.
        c = (c ^ b) - rotated(b, bits) & 0xFFFFFFFF
        a, b, c = b, c, a
    # The last round left its result in `b`.
    return b


def flow_hash(frame):
    """Of an Ethernet frame (PARSE-12 to 14); a tag of a transparent switch is not part of it (PARSE-3)."""
    frame = without_tag(frame)
    if ethertype(frame) == ETH_P_IP:
        flow = ip4_flow(frame[14:])
    elif ethertype(frame) == ETH_P_IPV6:
        flow = ip6_flow(frame[14:])
    else:
        flow = frame[:14].ljust(40, b"\0")
    return lookup3(struct.unpack("<10I", flow), SEED)


def ip4_flow(packet):
    protocol = packet[9]
    offset_and_more = int.from_bytes(packet[6:8], "big") & 0x3FFF
    ports = bytes(4) if offset_and_more else ports_of(protocol, packet[(packet[0] & 15) * 4:])
    mapped = bytes(10) + b"\xff\xff"
    return mapped + packet[12:16] + mapped + packet[16:20] + ports + struct.pack("<I", protocol)


def ip6_flow(packet):
    following, at, skipped = packet[6], 40, 0
    while skipped < MOST_EXTENSIONS and (following in EXTENSIONS or is_atomic(following, packet[at:])):
        length = 8 if following == FRAGMENT else (packet[at + 1] + 1) * 8
        following, at, skipped = packet[at], at + length, skipped + 1
    # Of a fragment the number is that of the fragment header (PARSE-12); an atomic one is none (PARSE-15).
    return packet[8:40] + ports_of(following, packet[at:]) + struct.pack("<I", following)


def is_atomic(number, header):
    return number == FRAGMENT and int.from_bytes(header[2:4], "big") & 0xFFF9 == 0


def ports_of(protocol, segment):
    return segment[:4] if protocol in WITH_PORTS and len(segment) >= 4 else bytes(4)


# Frames.

def ethertype(frame):
    return int.from_bytes(frame[12:14], "big")


def without_tag(frame):
    return frame[:12] + frame[16:] if ethertype(frame) in TAGS else frame


def without_priority_tag(frame):
    """A tag of VLAN 0 is none (HOOK-5)."""
    return frame if int.from_bytes(frame[14:16], "big") & 0xFFF else without_tag(frame)


def traffic_class(frame):
    """DSCP and ECN of a frame; 0 of one that is not IP."""
    frame = without_tag(frame)
    if ethertype(frame) == ETH_P_IP:
        return frame[15]
    return int.from_bytes(frame[14:16], "big") >> 4 & 0xFF if ethertype(frame) == ETH_P_IPV6 else 0


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


# The fabric.

@dataclass(frozen=True)
class Station:
    """Who has a MAC in a switch: the host where frames for it go, the key of the port or interface."""

    host: str
    key: int


def fnv1a(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def keys(declared):
    """{name: key} of a switch, from {name: key or None} (docs/fabric.md, "Port keys")."""
    given = {name: int(key) for name, key in declared.items() if key}
    for name in sorted(set(declared) - set(given)):
        key = fnv1a(name.encode()) % 32767 + 1
        while key in given.values():
            key = key % 32767 + 1
        given[name] = key
    return given


class Fabric:
    """What the outer header needs of a fabric file."""

    def __init__(self, document):
        tunnel = document.get("tunnel") or {}
        self.encapsulation = tunnel.get("encapsulation", GENEVE)
        self.port = int(tunnel.get("port", PORTS[self.encapsulation]))
        self.source_ports = [int(port) for port in tunnel.get("source_ports", "49152-65535").split("-")]
        self.dscp = tunnel.get("dscp", "0")
        options = tunnel.get("options", "ovn")
        self.vteps = {name: ipaddress.ip_address(host["underlay"]) for name, host in document["hosts"].items()}
        self.with_option = {name: self.encapsulation == GENEVE and host.get("options", options) == "ovn"
                            for name, host in document["hosts"].items()}
        self.family = next(iter(self.vteps.values())).version
        self.vni = {name: int(switch["vni"]) for name, switch in document["switches"].items() if "vni" in switch}
        self.vlan = {name: int(switch["uplink_vlan"]) for name, switch in document["switches"].items()
                     if "uplink_vlan" in switch}
        self.ports = document.get("ports") or {}
        self.routers = document.get("routers") or {}
        self.stations = {switch: self.stations_of(switch) for switch in document["switches"]}

    def stations_of(self, switch):
        ports = {name: port for name, port in self.ports.items() if port["switch"] == switch}
        interfaces = {f"{name}/{switch}": name for name, router in self.routers.items()
                      if switch in router["interfaces"]}
        key = keys({**{name: port.get("key") for name, port in ports.items()}, **dict.fromkeys(interfaces)})
        stations = {mac_bytes(port["mac"]): Station(port["host"], key[name]) for name, port in ports.items()}
        for interface, router in interfaces.items():
            # A router is on every host; what is sent to it through a tunnel goes to its acting host (ROUTE-6).
            stations[self.router_mac(router)] = Station(self.acting_host(self.routers[router]), key[interface])
        return stations

    def acting_host(self, router):
        """That of its gateway; else, on a VLAN, the first one that has a port on one of its switches."""
        if router.get("gateway"):
            return router["gateway"]["host"]
        if not self.vlan.keys() & router["interfaces"].keys():
            return None
        on_its_switches = {port["host"] for port in self.ports.values() if port["switch"] in router["interfaces"]}
        return next((host for host in self.vteps if host in on_its_switches), None)

    def router_mac(self, name):
        mac = self.routers[name].get("mac")
        return mac_bytes(mac) if mac else self.derived_mac(self.routers[name]["interfaces"])

    def derived_mac(self, interfaces):
        """By the switch with the lowest number, VNIs before VLANs, and the first address there."""
        numbers = {**{switch: (0, vni) for switch, vni in self.vni.items()},
                   **{switch: (1, vlan) for switch, vlan in self.vlan.items()}}
        switch = min(interfaces, key=numbers.__getitem__)
        addresses = interfaces[switch]
        first = addresses if isinstance(addresses, str) else addresses[0]
        address = ipaddress.ip_interface(first).ip
        kind, number = numbers[switch]
        place = bytes([kind]) + number.to_bytes(4, "big") + bytes([address.version]) + address.packed
        return b"\x0e\x6f" + fnv1a(place).to_bytes(4, "big")

    def router_macs(self):
        return {self.router_mac(name) for name in self.routers}

    def outer_length(self, remote):
        return 14 + (20 if self.family == 4 else 40) + 8 + 8 + (8 if self.with_option[remote] else 0)

    def port_at(self, host, device, frame):
        """Name of the port that a frame enters by, and the frame without the tag of a trunk (PORT-1)."""
        here = {name: port for name, port in self.ports.items() if (port["host"], port["device"]) == (host, device)}
        tag = int.from_bytes(frame[14:16], "big") & 0xFFF if ethertype(frame) == TAGS[0] else None
        for name, port in here.items():
            if tag is not None and port.get("vlan") == str(tag):
                return name, without_tag(frame)
        return next((name for name, port in here.items() if "vlan" not in port), None), frame

    def ages(self, switch):
        """Of the learning ports of a switch, in seconds."""
        settings = [port.get("learning", "false") for port in self.ports.values() if port["switch"] == switch]
        return [300.0 if setting == "true" else float(setting.get("age", 300))
                for setting in settings if setting != "false"]


# The header.

def outer_header(fabric, host, remote, vni, port_keys, hash_of_flow, inner):
    """The layers (ENCAP-10 to 16) as [(Scapy's class, bytes)]."""
    of_inner = traffic_class(inner)
    dscp = of_inner >> 2 if fabric.dscp == "copy" else int(fabric.dscp)
    tos = dscp << 2 | of_inner & 3
    first, last = fabric.source_ports
    udp = UDP(sport=first + (hash_of_flow * (last - first + 1) >> 32), dport=fabric.port, chksum=0)
    ends = {"src": str(fabric.vteps[host]), "dst": str(fabric.vteps[remote])}
    if fabric.family == 4:
        ip = IP(**ends, tos=tos, ttl=64, flags="DF", id=0)
    else:
        ip = IPv6(**ends, tc=tos, hlim=64, fl=0)
    if fabric.encapsulation == VXLAN:
        tunnel = Vxlan(flags=0x08, vni=vni)
    elif fabric.with_option[remote]:
        source, destination = port_keys
        tunnel = Geneve(version=0, critical=1, proto=ETH_P_TEB, vni=vni, optionlen=2)
        tunnel /= OvnOption(source_key=source, destination_key=destination)
    else:
        tunnel = Geneve(version=0, critical=0, proto=ETH_P_TEB, vni=vni, optionlen=0)
    return cut(Ether(src=NO_MAC, dst=NO_MAC) / ip / udp / tunnel / Raw(inner))


SIZES = {Ether: 14, IP: 20, IPv6: 40, UDP: 8, Vxlan: 8, Geneve: 8, OvnOption: 8}


def cut(packet):
    """[(class, bytes)] of the headers in front of what is carried."""
    layers, data, at = [], bytes(packet), 0
    while not isinstance(packet, Raw):
        size = SIZES[type(packet)]
        layers.append((type(packet), data[at:at + size]))
        packet, at = packet.payload, at + size
    return layers


def difference(layers, captured):
    """The first field in which captured bytes are not the expected layers, in Scapy's words; None if none is."""
    at = 0
    for kind, expected in layers:
        found = captured[at:at + len(expected)]
        if found != expected:
            break
        at += len(expected)
    else:
        return None
    if len(found) < len(expected):
        return f"{kind.__name__}: only {len(found)} bytes"
    must, has = dissected(kind, expected), dissected(kind, found)
    name = next(field.name for field in must.fields_desc if must.getfieldval(field.name) != has.getfieldval(field.name))
    field = f"{kind.__name__}.{name}"
    return f"{field} is {has.sprintf(f'%{field}%')} and not {must.sprintf(f'%{field}%')}"


def dissected(kind, data):
    """`kind(data)` would be another class where Scapy takes the bytes for something else (802.3)."""
    layer = kind()
    layer.dissect(data)
    return layer
