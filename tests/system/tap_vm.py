"""A virtual machine as far as the host can tell: frames copied between two TAP devices.

    host namespace:  TAP (the port) ── this process ── TAP eth0 in the guest's namespace

Both ends speak virtio_net_hdr and take checksum and TCP segmentation offload, so super-packets go
through as they would to a VM. Run as a program it is the relay: `tap_vm.py FD FD`.
"""

import fcntl
import os
import struct
import subprocess
import sys
import threading

TUN = "/dev/net/tun"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 0x01, 0x02, 0x04


def open_tap(ns, name):
    """A TAP with vnet_hdr in a namespace; it lives as long as the descriptor."""
    with ns.entered():
        fd = os.open(TUN, os.O_RDWR)
        request = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
        fcntl.ioctl(fd, TUNSETIFF, request)
        fcntl.ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return fd


def start(lab, host_ns, host_device, guest_ns, guest_device="eth0"):
    """Make both devices and relay between them until the test ends."""
    fds = [open_tap(host_ns, host_device), open_tap(guest_ns, guest_device)]
    process = subprocess.Popen([sys.executable, __file__, *map(str, fds)], pass_fds=fds)
    for fd in fds:
        os.close(fd)
    lab.defer(process.wait)
    lab.defer(process.kill)
    return process


def relay(source, target):
    while True:
        frame = os.read(source, 1 << 17)
        try:
            os.write(target, frame)
        except OSError:
            pass  # the other end is down or refuses the frame: lost, as on any wire


def main():
    one, two = (int(word) for word in sys.argv[1:])
    threading.Thread(target=relay, args=(one, two), daemon=True).start()
    relay(two, one)


if __name__ == "__main__":
    main()
