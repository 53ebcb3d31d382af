"""The kernel's own VXLAN or Geneve device as the other host."""

from frames import FLOOD_KEY, OVN_CLASS, OVN_TYPE
from overlane import GENEVE, PORTS, VXLAN

_DEVICE = "vxlan0"
GENEVE_DEVICE = "geneve0"
#: Preferences of the filters of `join_geneve_external`.
TO_ALL, UNICAST, REST = 1, 2, 3


def join(host, remote, vni, guests=(), port=PORTS[VXLAN], mtu=1450, checksum=False):
    """A VXLAN device and a bridge on `host`, its guests on the bridge, everything else to `remote`.

    Over IPv6 the device accepts the zero checksum that the fabric uses (RFC 6936). What it sends has none
    either, but with `checksum`.
    """
    host.ns.ip(f"link add {_DEVICE} type vxlan id {vni} local {host.address} remote {remote}"
               f" dstport {port} dev {host.uplink} {_outer_checksum(host.family, checksum)}")
    return _bridge(host, _DEVICE, guests, mtu)


def join_geneve(host, remote, vni, guests=(), port=PORTS[GENEVE], mtu=1450):
    """A Geneve device in plain mode, which takes no packet with a critical option, in place of the VXLAN device."""
    host.ns.ip(f"link add {GENEVE_DEVICE} type geneve id {vni} remote {remote} dstport {port}"
               f" {_outer_checksum(host.family)}")
    return _bridge(host, GENEVE_DEVICE, guests, mtu)


def join_geneve_external(host, remote, vni, guest, peer_key, port=PORTS[GENEVE], mtu=1442, checksum=False):
    """A Geneve device in external mode, for one guest of `host`: tc writes OVN's option and reads it.

    `peer_key` is the key of the guest behind `remote`. What comes with any other option is dropped.
    """
    device, key, guest = GENEVE_DEVICE, guest.number, guest.device
    host.ns.ip(f"link add {device} type geneve external dstport {port} udp6zerocsumrx",
               f"link set {device} addrgenmode none mtu {mtu} up")
    host.ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 1)
    arriving = f"enc_src_ip {remote} enc_dst_ip {host.address} enc_dst_port {port} enc_key_id {vni}"
    leaving = (f"action tunnel_key set src_ip {host.address} dst_ip {remote} dst_port {port} id {vni}"
               f" {'csum' if checksum else 'nocsum'}")
    group = "dst_mac 01:00:00:00:00:00/01:00:00:00:00:00"
    host.ns.tc(
        *(f"qdisc add dev {each} clsact" for each in (device, guest)),
        *(f"filter add dev {device} ingress pref {pref} protocol all flower {arriving}"
          f" geneve_opts {option(peer_key, to)} action tunnel_key unset"
          f" action mirred egress redirect dev {guest}"
          for pref, to in ((UNICAST, key), (TO_ALL, FLOOD_KEY))),
        f"filter add dev {device} ingress pref {REST} protocol all matchall action drop",
        *(f"filter add dev {guest} ingress pref {pref} protocol all {match} {leaving}"
          f" geneve_opts {option(key, to)} action mirred egress redirect dev {device}"
          for pref, match, to in ((TO_ALL, f"flower {group}", FLOOD_KEY), (UNICAST, "matchall", peer_key))),
    )
    return device


def option(source_key, dest_key):
    """OVN's option in the words of tc."""
    return f"{OVN_CLASS:04x}:{OVN_TYPE:02x}:{source_key:04x}{dest_key:04x}"


def filter_packets(host, device, pref):
    """How many packets a filter of `join_geneve_external` has seen: those of its first action."""
    for row in host.ns.tc_json(f"filter show dev {device} ingress"):
        if row["pref"] == pref and "actions" in row.get("options", {}):
            return row["options"]["actions"][0]["stats"]["packets"]
    raise AssertionError(f"no filter {pref} on {device}")


def _outer_checksum(family, checksum=False):
    if family == 4:
        return "udpcsum" if checksum else "noudpcsum"
    return "udp6zerocsumrx" if checksum else "udp6zerocsumtx udp6zerocsumrx"


def _bridge(host, device, guests, mtu):
    host.ns.ip(
        "link add br0 type bridge mcast_snooping 0",
        f"link set br0 addrgenmode none mtu {mtu} up",
        f"link set {device} addrgenmode none mtu {mtu} master br0 up",
        *(f"link set {guest.device} master br0 up" for guest in guests),
    )
    for quiet in ("br0", device):
        host.ns.sysctl(f"net.ipv6.conf.{quiet}.disable_ipv6", 1)
    return device
