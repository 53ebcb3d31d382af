"""The kernel's own VXLAN device as the other host."""

from overlane import PORTS, VXLAN

_DEVICE = "vxlan0"


def join(host, remote, vni, guests=(), port=PORTS[VXLAN], mtu=1450):
    """A VXLAN device and a bridge on `host`, its guests on the bridge, everything else to `remote`.

    Over IPv6 the device sends and accepts the zero checksum that the fabric uses (RFC 6936).
    """
    zero = "udp6zerocsumtx udp6zerocsumrx" if host.family == 6 else "noudpcsum"
    host.ns.ip(
        f"link add {_DEVICE} type vxlan id {vni} local {host.address} remote {remote}"
        f" dstport {port} dev {host.uplink} {zero}",
        "link add br0 type bridge mcast_snooping 0",
        f"link set br0 addrgenmode none mtu {mtu} up",
        f"link set {_DEVICE} addrgenmode none mtu {mtu} master br0 up",
        *(f"link set {guest.device} master br0 up" for guest in guests),
    )
    for device in ("br0", _DEVICE):
        host.ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 1)
    return _DEVICE
