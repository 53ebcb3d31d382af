"""The kernel's own VXLAN or Geneve device as the other host."""

from overlane import GENEVE, PORTS, VXLAN

_DEVICE = "vxlan0"
_GENEVE_DEVICE = "geneve0"


def join(host, remote, vni, guests=(), port=PORTS[VXLAN], mtu=1450):
    """A VXLAN device and a bridge on `host`, its guests on the bridge, everything else to `remote`.

    Over IPv6 the device sends and accepts the zero checksum that the fabric uses (RFC 6936).
    """
    zero = "udp6zerocsumtx udp6zerocsumrx" if host.family == 6 else "noudpcsum"
    host.ns.ip(f"link add {_DEVICE} type vxlan id {vni} local {host.address} remote {remote}"
               f" dstport {port} dev {host.uplink} {zero}")
    return _bridge(host, _DEVICE, guests, mtu)


def join_geneve(host, remote, vni, guests=(), port=PORTS[GENEVE], mtu=1450):
    """A Geneve device in plain mode, which takes no packet with a critical option, in place of the VXLAN device."""
    zero = "udp6zerocsumtx udp6zerocsumrx" if host.family == 6 else "noudpcsum"
    host.ns.ip(f"link add {_GENEVE_DEVICE} type geneve id {vni} remote {remote} dstport {port} {zero}")
    return _bridge(host, _GENEVE_DEVICE, guests, mtu)


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
