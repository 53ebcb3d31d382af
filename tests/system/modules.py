"""What the running kernel has. Debian's have it as modules, which are loaded when they are asked for."""

import functools
import subprocess
import sys
from pathlib import Path

#: What shows that the kernel has a thing: a shell command in an empty network namespace.
PROBES = {
    "geneve": "ip link add probe type geneve external",
    "macvlan": "ip link add below type veth && ip link add link below name probe type macvlan",
    "netem": "tc qdisc add dev lo root netem loss 1%",
    "netkit": f"{sys.executable} {Path(__file__).parent}/netkit.py",
    "nftables": "nft add table inet probe",
    "openvswitch": "ovs-dpctl add-dp probe",
    "tunnel_key": "tc qdisc add dev lo clsact && tc filter add dev lo ingress flower enc_key_id 1"
                  " action tunnel_key set src_ip 198.18.0.1 dst_ip 198.18.0.2 id 1"
                  " action mirred egress redirect dev lo",
    "vlan": "ip link add below type veth && ip link add link below name probe type vlan id 5",
    "wireguard": "ip link add probe type wireguard",
}


@functools.cache
def kernel_has(thing):
    done = subprocess.run(["unshare", "--net", "sh", "-c", PROBES[thing]], check=False,
                          capture_output=True)
    return done.returncode == 0


if __name__ == "__main__":
    for name in PROBES:
        if not kernel_has(name):
            print(f"lacks {name}")
