"""Open vSwitch with its userspace datapath as a plain VLAN switch: access ports and a trunk.

This kernel has no 802.1Q devices. Where a test needs a machine that speaks tagged frames with a real
network stack, this is the machine: each access port is a TAP of its own in the namespace, with the
kernel's stack above it and a tag below.
"""

from net import wait_until
from peers.ovs import OpenVSwitch

TOOLS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")


class AccessSwitch:
    """A switch in one namespace, whose trunk is a device of it. `place` is a host or a guest."""

    def __init__(self, lab, place, trunk, mtu):
        self.ns, self.mtu = place.ns, mtu
        self.switch = OpenVSwitch(lab, place)
        # It reads plain frames: nothing may be merged that it would have to cut again.
        self.ns.ethtool(trunk, off=("tx", "tso", "gso", "gro"))
        self.switch.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev",
                          "--", "add-port", "br0", trunk)

    def access(self, device, vlan, mac, addresses):
        """An access port of `vlan` with addresses; `None` is the untagged (native) VLAN."""
        words = ["add-port", "br0", device]
        words += [f"tag={vlan}"] if vlan is not None else []
        words += ["--", "set", "interface", device, "type=internal", f"mtu_request={self.mtu}",
                  f'mac="{mac}"']
        self.switch.vsctl(*words)
        wait_until(lambda: device in self.ns.links(), what=f"{device} of Open vSwitch")
        lines = [f"link set {device} addrgenmode none up"]
        for address in addresses:
            v6 = ":" in address
            lines.append(f"address add {address}/{64 if v6 else 24} dev {device}"
                         + (" nodad" if v6 else ""))
        self.ns.ip(*lines)
        wait_until(lambda: self.ns.mac(device) == mac, what=f"the address of {device}")
