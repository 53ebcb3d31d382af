"""netkit pairs, which the `ip` of Debian 12 cannot make. As a program: makes a pair and says whether that worked."""

import socket
import struct
import sys

L2, L3 = 0, 1
_RTM_NEWLINK, _REQUEST_ACK_CREATE_EXCL = 16, 0x1 | 0x4 | 0x400 | 0x200
_IFNAME, _LINKINFO, _NET_NS_FD = 3, 18, 28
_INFO_KIND, _INFO_DATA = 1, 2
_PEER_INFO, _MODE = 1, 5
_LINK = struct.pack("=BxHiII", 0, 0, 0, 0, 0)


def _attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def create(name, peer, mode, peer_netns=None):
    """A pair in this thread's namespace; the peer in that of an open file, if there is one."""
    far = _attribute(_IFNAME, peer.encode() + b"\0")
    if peer_netns is not None:
        far += _attribute(_NET_NS_FD, struct.pack("=I", peer_netns.fileno()))
    data = _attribute(_MODE, struct.pack("=I", mode)) + _attribute(_PEER_INFO, _LINK + far)
    info = _attribute(_INFO_KIND, b"netkit") + _attribute(_INFO_DATA, data)
    body = _LINK + _attribute(_IFNAME, name.encode() + b"\0") + _attribute(_LINKINFO, info)
    header = struct.pack("=IHHII", 16 + len(body), _RTM_NEWLINK, _REQUEST_ACK_CREATE_EXCL, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(header + body)
        error = -struct.unpack_from("=i", netlink.recv(4096), 16)[0]
    if error:
        raise OSError(error, f"cannot create the netkit pair {name} and {peer}")


if __name__ == "__main__":
    try:
        create("probe0", "probe1", L2)
    except OSError:
        sys.exit(1)
