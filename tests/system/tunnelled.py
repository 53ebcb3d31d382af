"""Which outer header each output of a golden case must have: the switch that it leaves in and both keys, from the
fabric, the packet that entered and the frame that leaves. outer.py writes the header."""

import ipaddress
import struct
from dataclasses import dataclass, replace

from scapy.contrib.geneve import GENEVE as Geneve
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN as Vxlan
from scapy.packet import Raw

import outer
from frames import FLOOD_KEY, OVN_CLASS, OVN_TYPE
from overlane import VXLAN


@dataclass(frozen=True)
class Came:
    """Where a packet came from: its switch (None from a leg), the key of its port or interface (0: none that is
    known), the host that sent it through a tunnel, and the frame in the switch."""

    switch: str
    key: int
    remote: str
    frame: bytes


def came(fabric, host, step):
    way, _, device = step.entrance.rpartition(" ")
    if way.endswith("device"):
        port, frame = fabric.port_at(host, device, step.frame)
        if port is None:
            return None
        switch = fabric.ports[port]["switch"]
        return Came(switch, fabric.stations[switch][outer.mac_bytes(fabric.ports[port]["mac"])].key, None, frame)
    if way == "leg":
        return Came(None, 0, None, step.frame)
    return out_of_tunnel(fabric, step.frame) or from_vlan(fabric, step.frame)


def from_vlan(fabric, frame):
    if outer.ethertype(frame) != outer.TAGS[0]:
        return None
    tag = int.from_bytes(frame[14:16], "big") & 0xFFF
    switches = [name for name, vlan in fabric.vlan.items() if vlan == tag]
    return Came(switches[0], 0, None, outer.without_tag(frame)) if switches else None


def out_of_tunnel(fabric, frame):
    """A tunnel packet of the fabric; None of anything else."""
    at = 14 + (20 if fabric.family == 4 else 40)
    wanted = outer.ETH_P_IP if fabric.family == 4 else outer.ETH_P_IPV6
    if len(frame) < at + 16 or outer.ethertype(frame) != wanted or frame[14] not in (0x45, *range(0x60, 0x70)):
        return None
    vtep = ipaddress.ip_address(frame[26:30] if fabric.family == 4 else frame[22:38])
    remote = next((name for name, address in fabric.vteps.items() if address == vtep), None)
    vni = int.from_bytes(frame[at + 12:at + 15], "big")
    switch = next((name for name, number in fabric.vni.items() if number == vni), None)
    length = 0 if fabric.encapsulation == VXLAN else (frame[at + 8] & 0x3F) * 4
    inner = frame[at + 16 + length:]
    if not remote or not switch or frame[at + 2:at + 4] != fabric.port.to_bytes(2, "big") or len(inner) < 14:
        return None
    return Came(switch, sender_key(frame[at + 16:at + 16 + length]), remote, inner)


def sender_key(options):
    """That of OVN's option, the last one if there are several; 0 without it."""
    key = 0
    while len(options) >= 4:
        kind, size = struct.unpack_from("!HB", options), (options[3] & 0x1F) * 4
        if kind == (OVN_CLASS, OVN_TYPE) and size == 4:
            key = int.from_bytes(options[4:6], "big") & 0x7FFF
        options = options[4 + size:]
    return key


class Learned:
    """Where a host saw stations last. The fabric's own are among them, but are looked up there first. (Packets that
    are dropped before learn count here, too; no case sends to a station that it only knows from them.)"""

    def __init__(self):
        self._places = {}

    def see(self, fabric, at, packet):
        source = packet.frame[6:12]
        if packet.switch and fabric.ages(packet.switch):
            self._places[packet.switch, source] = (at, packet)

    def behind(self, fabric, at, switch, mac):
        """The remote's station with this MAC (LEARN-8 and 9, L2-3)."""
        seen, packet = self._places.get((switch, mac), (None, None))
        if packet and packet.remote and at - seen <= max(fabric.ages(switch), default=-1):
            return outer.Station(packet.remote, packet.key)
        return None


class Tunnels:
    """The outputs of one case that leave in tunnels, one packet after another."""

    def __init__(self, host):
        self._host = host
        self._learned = Learned()

    def step(self, step):
        """The expected layers of each output, None where it leaves without a tunnel."""
        fabric = outer.Fabric(step.fabric)
        if step.entrance == "underlay":
            step = replace(step, frame=outer.without_priority_tag(step.frame))
        packet = came(fabric, self._host, step)
        if packet:
            self._learned.see(fabric, step.at, packet)
        return [self._layers(fabric, step, packet, left) if left.to.startswith("underlay") else None
                for left in step.out]

    def _layers(self, fabric, step, packet, left):
        if outer.ethertype(left.frame) == outer.TAGS[0]:
            return None  # on a VLAN; the test misses it if the case has an outer header there
        if step.verdict == "greeting":
            build = size_told if is_size(fabric, left.frame) else greeting_sent_back
            return build(fabric, step.frame, left.frame)
        named = left.to.removeprefix("underlay").strip() or None
        inner = left.frame[self._outer_length(fabric, named):]
        if step.verdict in ("resolving", "to_router"):
            # A router's question (NEIGH-12), or an answer for its other hosts (NEIGH-8): as flooded frames.
            switch, key = asker(fabric, inner) if step.verdict == "resolving" else (packet.switch, packet.key)
            remote = named or next(iter(set(fabric.vteps) - {self._host}))
            return outer.outer_header(fabric, self._host, remote, fabric.vni[switch], (key, FLOOD_KEY),
                                      outer.flow_hash(inner), inner)
        # From the underlay nothing but an answer goes back there, unless it is routed: that has this verdict. An
        # answer's hash is its own (REPLY-4), any other is of the packet as it came.
        is_answer = step.entrance == "underlay" and step.verdict != "encap"
        switch, source_key = origin(fabric, packet, inner, is_answer, lambda switch, mac: self._station(
            fabric, step.at, switch, mac))
        station = self._station(fabric, step.at, switch, inner[:6])
        remote = station.host if station else named
        assert named in (None, remote), f"the frame is for {remote} and leaves to {named}"
        keys = (source_key, station.key if station else FLOOD_KEY)
        hash_of_flow = outer.flow_hash(inner if is_answer else packet.frame)
        return outer.outer_header(fabric, self._host, remote, fabric.vni[switch], keys, hash_of_flow, inner)

    def _outer_length(self, fabric, named):
        """Where the frame begins; to know it, the remote need not be known where all have the same length."""
        remotes = [named] if named else set(fabric.vteps) - {self._host}
        [length] = {fabric.outer_length(remote) for remote in remotes}
        return length

    def _station(self, fabric, at, switch, mac):
        """Who gets a frame, None if it is flooded."""
        return fabric.stations[switch].get(mac) or self._learned.behind(fabric, at, switch, mac)


def asker(fabric, question):
    """The switch in whose network a router has the address that it asks from, and the key of its interface there."""
    is_arp = outer.ethertype(question) == 0x0806
    sender = ipaddress.ip_address(question[28:32] if is_arp else question[22:38])
    [(switch, mac)] = [(switch, fabric.router_mac(name)) for name, router in fabric.routers.items()
                       for switch, addresses in router["interfaces"].items()
                       if sender in [ipaddress.ip_interface(address).ip for address in addresses]]
    assert question[6:12] == mac, "a router asks from its own MAC"
    return switch, fabric.stations[switch][mac].key


def origin(fabric, packet, inner, is_answer, station):
    """The switch that a frame leaves in, and the key of its source there (ENCAP-15, ROUTE-12, REPLY-4 and 5).
    station: who has a MAC in a switch, found neighbours among them."""
    destination, source = inner[:6], inner[6:12]
    if is_answer:
        # It has the MAC that the packet came from: a router's, which routes the answer.
        routed = source == packet.frame[6:12]
    else:
        routed = not packet.switch or destination != packet.frame[:6]
    if routed:
        ways = [name for name, stations in fabric.stations.items()
                if source in stations and station(name, destination)]
        assert source in fabric.router_macs() and len(ways) == 1, f"routed into {ways}"
        return ways[0], fabric.stations[ways[0]][source].key
    if is_answer:
        return packet.switch, fabric.stations[packet.switch][source].key
    return packet.switch, packet.key


#: Where the kind of a greeting stands behind the tunnel header, and that of an answer about a size.
KIND_AT, SIZE_ANSWER = 18, 4


def without_options(fabric):
    """Bytes before the frame in a tunnel packet of a greeting."""
    return 14 + (20 if fabric.family == 4 else 40) + 16


def is_size(fabric, frame):
    return frame[without_options(fabric) + KIND_AT] == SIZE_ANSWER


def size_told(fabric, frame, left):
    """A header as of encap, but for the probe's source port and tunnel header (GREET-6)."""
    came, tunnel = Ether(frame).payload, Vxlan if fabric.encapsulation == VXLAN else Geneve
    ends = {"src": came.dst, "dst": came.src}
    ip = IP(**ends, ttl=64, flags="DF", id=0) if fabric.family == 4 else IPv6(**ends, hlim=64)
    at = without_options(fabric)
    udp = UDP(sport=came[UDP].sport, dport=fabric.port, chksum=0)
    return outer.cut(Ether(src=outer.NO_MAC, dst=outer.NO_MAC) / ip / udp / tunnel(frame[at - 8:at]) / Raw(left[at:]))


def greeting_sent_back(fabric, frame, _):
    """The layers of the same packet with the addresses exchanged and UDP checksum 0 (GREET-4)."""
    answer = Ether(frame)
    ip = answer.payload
    ip.src, ip.dst = ip.dst, ip.src
    tunnel = Vxlan if fabric.encapsulation == VXLAN else Geneve
    header = tunnel(bytes(ip[UDP].payload)[:8])
    answer.src = answer.dst = outer.NO_MAC
    ip[UDP].remove_payload()
    answer[UDP].chksum = 0
    rest = frame[len(answer) + 8:]
    return outer.cut(answer / header / Raw(rest))
