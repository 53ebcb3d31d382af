"""Captures inside a namespace, read back with Scapy or tshark."""

import contextlib
import os
import subprocess
import time

from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from net import PATIENCE, run, stop


#: Header checksums are verified; a zero UDP checksum over IPv6 is what the fabric asked for.
PREFERENCES = ("-o", "ip.check_checksum:TRUE", "-o", "udp.ignore_ipv6_zero_checksum:TRUE")
#: So the status of a TCP checksum can be a field. It is no error everywhere: a device may have yet to fill it in.
TCP_CHECKSUMS = ("-o", "tcp.check_checksum:TRUE")


class Capture:
    """tcpdump on one device while the `with` block runs; `frames()` afterwards.

    Packets are seen as the device's taps see them: on receipt before tcx, on sending after
    segmentation; a tag in skb metadata is shown in the frame.
    """

    def __init__(self, ns, device, path, filter="", direction="inout"):
        self.ns, self.device, self.path = ns, device, path
        self._command = ["tcpdump", "-i", device, "-w", path, "-U", "-s", "0", "-n", "-Z", "root",
                         "--immediate-mode", "-B", "32768", "-Q", direction]
        self._command += filter.split()
        self._process = None

    def __enter__(self):
        self._process = self.ns.popen(self._command, stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if "listening on" in line:
                return self
        raise AssertionError(f"tcpdump on {self.device} in {self.ns.name} did not start")

    def __exit__(self, *_):
        self._settle()
        stop(self._process)

    def _settle(self):
        """tcpdump forgets what it has not read when it is stopped: its file must grow no more."""
        size, until = -1, time.monotonic() + 5 * PATIENCE
        while (now := os.stat(self.path).st_size) != size and time.monotonic() < until:
            size = now
            time.sleep(0.15 * PATIENCE)

    def raw(self):
        """Every frame as bytes."""
        with contextlib.closing(RawPcapReader(str(self.path))) as reader:
            return [frame for frame, _ in reader]

    def frames(self):
        """Every frame, dissected."""
        return [Ether(frame) for frame in self.raw()]


def tshark_fields(path, fields, decode_as=(), display=""):
    """[{field: value}] of a capture; of a field that occurs twice, the outer one."""
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=\t",
               "-E", "occurrence=f", *PREFERENCES, *TCP_CHECKSUMS]
    for rule in decode_as:
        command += ["-d", rule]
    if display:
        command += ["-Y", display]
    for field in fields:
        command += ["-e", field]
    rows = run(command, timeout=120).stdout.splitlines()
    return [dict(zip(fields, row.split("\t"))) for row in rows]


def outer_checksums(path, mac):
    """The checksums of the outer UDP headers that this station sent, of a capture with the filter `udp`: an ICMP
    error quotes them too."""
    rows = tshark_fields(path, ["udp.checksum"], display=f"eth.src == {mac} && (vxlan || geneve)")
    return {row["udp.checksum"] for row in rows}


def tshark_count(path, display):
    """How many packets of a capture match a display filter."""
    command = ["tshark", "-n", "-r", path, *PREFERENCES, "-Y", display]
    return len(run(command, timeout=120).stdout.splitlines())
