"""keepalived (VRRP, RFC 5798) in guests: the one with the highest priority has the floating address."""

import os
import signal
from pathlib import Path

from net import stop, wait_until

TOOLS = ("keepalived",)
#: Number of the virtual router; its MACs end in it (RFC 5798 section 7.3).
VRID = 51
MACS = {4: f"00:00:5e:00:01:{VRID:02x}", 6: f"00:00:5e:00:02:{VRID:02x}"}
#: Seconds between announcements. Who hears none for a bit more than three of them takes over.
INTERVAL = 0.2

_CONFIG = """
global_defs {{
    router_id {name}
    vrrp_garp_master_delay 1
}}
vrrp_instance vi {{
    version 3
    state BACKUP
    interface eth0
    {mac}
    virtual_router_id {vrid}
    priority {priority}
    advert_int {interval}
    virtual_ipaddress {{
        {addresses}
    }}
}}
"""


class Keepalived:
    """One in a guest, in the foreground: with its own MAC, or with the virtual one (`use_vmac`: a macvlan device)."""

    def __init__(self, lab, guest, addresses, priority, virtual_mac):
        self.lab, self.guest, self.process = lab, guest, None
        self.path = lab.directory / f"keepalived-{guest.ns.name}"
        self.path.mkdir()
        config = _CONFIG.format(name=guest.ns.name, mac="use_vmac vrrp0" if virtual_mac else "", vrid=VRID,
                                priority=priority, interval=INTERVAL, addresses="\n        ".join(addresses))
        (self.path / "keepalived.conf").write_text(config)

    def start(self):
        """Each has files of its own; ended with the test, if not before."""
        log = (self.path / "log").open("ab")
        with log:
            self.process = self.lab.spawn(
                self.guest.ns,
                ["keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp",
                 "--use-file", str(self.path / "keepalived.conf"), "--pid", str(self.path / "pid"),
                 "--vrrp_pid", str(self.path / "vrrp-pid")],
                stdout=log, stderr=log)
        return self

    def stop(self):
        """It says so to the others, and gives the address back."""
        stop(self.process)

    def kill(self):
        """As a crash does: it says nothing to anybody, and its addresses stay. Its child may not tidy up meanwhile."""
        child = int((self.path / "vrrp-pid").read_text())
        os.kill(child, signal.SIGSTOP)
        self.process.kill()
        os.kill(child, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not Path(f"/proc/{child}").exists(), what="keepalived to end")

    def has(self, address):
        """Whether the guest has the address now."""
        devices = self.guest.ns.json("address show")
        return any(info.get("local") == address for device in devices for info in device["addr_info"])
