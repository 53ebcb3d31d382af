"""A virtual machine as far as the host can tell: frames copied between TAP devices.

    host namespace:  TAP (the port) ── this process ── TAP eth0 in the guest's namespace

Both ends speak virtio_net_hdr and take checksum, TCP and UDP segmentation offload, so super-packets go
through as they would to a VM. Behind a trunk there are several guests' devices, each with a tag of its own.
Run as a program it is the relay: `tap_vm.py HOST[,HOST…] GUEST[:TAG][,GUEST[:TAG]…]`, all of them descriptors.
"""

import fcntl
import os
import struct
import subprocess
import sys
import threading

TUN = "/dev/net/tun"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_MULTI_QUEUE, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x0100, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6 = 0x01, 0x02, 0x04, 0x20, 0x40
#: What every virtual machine takes, and with UDP super-packets.
TCP_OFFLOADS = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6
ALL_OFFLOADS = TCP_OFFLOADS | TUN_F_USO4 | TUN_F_USO6

#: struct virtio_net_hdr: flags, kind, length of the headers, size of a segment, where the checksum begins and is.
VNET_HDR = "=BBHHHH"
VNET_HDR_LEN = struct.calcsize(VNET_HDR)
NEEDS_CSUM = 1
MACS_LEN = 12


def open_tap(ns, name, queues=1, offloads=ALL_OFFLOADS):
    """A TAP with vnet_hdr in a namespace: one descriptor for each queue; it lives as long as they do."""
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (IFF_MULTI_QUEUE if queues > 1 else 0)
    fds = []
    with ns.entered():
        for _ in range(queues):
            fds.append(os.open(TUN, os.O_RDWR))
            fcntl.ioctl(fds[-1], TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
            fcntl.ioctl(fds[-1], TUNSETOFFLOAD, offloads)
    return fds


def start(lab, host_ns, host_device, guest_ns, guest_device="eth0", queues=1, offloads=ALL_OFFLOADS):
    """Make both devices and relay between them until the test ends: queue n here is queue n there."""
    ours = open_tap(host_ns, host_device, queues, offloads)
    theirs = open_tap(guest_ns, guest_device, queues)
    return relay_in_a_process(lab, ours, [(fd, None) for fd in theirs])


def start_trunk(lab, host_ns, host_device, guests, offloads=ALL_OFFLOADS):
    """One TAP for several guests: (tag, namespace) each, and the tag stands only between relay and host."""
    ours = open_tap(host_ns, host_device, offloads=offloads)
    return relay_in_a_process(lab, ours, [(open_tap(ns, "eth0")[0], tag) for tag, ns in guests])


def relay_in_a_process(lab, ours, theirs):
    """The process has the descriptors from now on; of `theirs` each with the tag of its guest, or None."""
    fds = [*ours, *(fd for fd, _ in theirs)]
    words = [",".join(map(str, ours)),
             ",".join(f"{fd}:{tag}" if tag else str(fd) for fd, tag in theirs)]
    process = subprocess.Popen([sys.executable, __file__, *words], pass_fds=fds)
    for fd in fds:
        os.close(fd)
    lab.defer(process.wait)
    lab.defer(process.kill)
    return process


def with_tag(packet, tag):
    """A frame behind its virtio_net_hdr, with an 802.1Q tag in it."""
    return (_header_longer(packet, 4) + packet[VNET_HDR_LEN:VNET_HDR_LEN + MACS_LEN] +
            struct.pack("!HH", 0x8100, tag) + packet[VNET_HDR_LEN + MACS_LEN:])


def without_tag(packet):
    """(tag, the packet without it); the tag is None where there is none."""
    tpid, tci = struct.unpack_from("!HH", packet, VNET_HDR_LEN + MACS_LEN)
    if tpid != 0x8100:
        return None, packet
    rest = packet[VNET_HDR_LEN + MACS_LEN + 4:]
    return tci & 0xfff, _header_longer(packet, -4) + packet[VNET_HDR_LEN:VNET_HDR_LEN + MACS_LEN] + rest


def _header_longer(packet, more):
    flags, kind, headers, size, start_at, offset = struct.unpack_from(VNET_HDR, packet)
    headers = headers + more if headers else 0
    start_at = start_at + more if flags & NEEDS_CSUM else 0
    return struct.pack(VNET_HDR, flags, kind, headers, size, start_at, offset)


def relay(source, choose):
    """Frames from `source`, each to the descriptor that `choose` names, as it says."""
    while True:
        target, packet = choose(os.read(source, 1 << 17))
        try:
            if target is not None:
                os.write(target, packet)
        except OSError:
            pass  # the other end is down or refuses the frame: lost, as on any wire


def main():
    ours = [int(word) for word in sys.argv[1].split(",")]
    theirs = [word.split(":") for word in sys.argv[2].split(",")]
    by_tag = {int(word[1]): int(word[0]) for word in theirs if len(word) > 1}

    def to_tagged(packet):
        tag, packet = without_tag(packet)
        return by_tag.get(tag), packet

    ways = []
    if by_tag:
        ways.append((ours[0], to_tagged))
        ways += [(fd, lambda packet, tag=tag: (ours[0], with_tag(packet, tag))) for tag, fd in by_tag.items()]
    else:
        for our, word in zip(ours, theirs):
            their = int(word[0])
            ways.append((our, lambda packet, their=their: (their, packet)))
            ways.append((their, lambda packet, our=our: (our, packet)))
    threads = [threading.Thread(target=relay, args=way) for way in ways]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
