"""What the running kernel has. Debian's have it as modules, which are loaded when they are asked for."""

import functools
import subprocess
import sys
from pathlib import Path

#: What shows that the kernel has a thing: a command in an empty network namespace.
PROBES = {
    "geneve": "ip link add probe type geneve external",
    "netkit": f"{sys.executable} {Path(__file__).parent}/netkit.py",
    "openvswitch": "ovs-dpctl add-dp probe",
    "wireguard": "ip link add probe type wireguard",
}


@functools.cache
def kernel_has(thing):
    done = subprocess.run(["unshare", "--net", *PROBES[thing].split()], check=False,
                          capture_output=True)
    return done.returncode == 0
