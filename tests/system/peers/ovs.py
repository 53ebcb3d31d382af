"""Open vSwitch as the other host, with its userspace datapath or (`join_kernel`) with the kernel's.

Database, daemon and run directory belong to the test; both processes run in the host's namespace
and are ended by pid. The bridge `br-phy` takes the uplink over and carries the tunnel's address,
`br-int` holds the guests and the tunnel port.
"""

import os
import re
import shutil
import subprocess
import tempfile

from net import PATIENCE, run, wait_until
from topology import address_lines

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
#: Programs a test must ask for with `@pytest.mark.needs(*ovs.TOOLS)`.
TOOLS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
TUNNEL_PORT = 100


class OpenVSwitch:
    """One instance, in the namespace of one host."""

    def __init__(self, lab, host):
        self.host = host
        # Not under tmp_path: a socket's path may have 107 bytes only.
        self.directory = tempfile.mkdtemp(prefix="ovt-ovs-")
        lab.defer(shutil.rmtree, self.directory, ignore_errors=True)
        self._environment = {**os.environ, "OVS_RUNDIR": self.directory,
                             "OVS_LOGDIR": self.directory, "OVS_DBDIR": self.directory}
        self.database = f"unix:{self.directory}/db.sock"
        self._start(lab)

    def _start(self, lab):
        file = f"{self.directory}/conf.db"
        run(["ovsdb-tool", "create", file, SCHEMA])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                 "env": self._environment}
        log = ["-vconsole:off", "-vsyslog:off", "-vfile:info"]
        lab.spawn(self.host.ns, ["ovsdb-server", file, f"--remote=p{self.database}", *log,
                                 f"--log-file={self.directory}/ovsdb.log"], **quiet)
        wait_until(lambda: os.path.exists(f"{self.directory}/db.sock"), what="ovsdb-server")
        self.vsctl("--no-wait", "init")
        lab.spawn(self.host.ns, ["ovs-vswitchd", self.database, *log,
                                 f"--unixctl={self.directory}/vswitchd.ctl",
                                 f"--log-file={self.directory}/vswitchd.log"], **quiet)

    def _tool(self, *words):
        return self.host.ns.run(words, env=self._environment).stdout

    def vsctl(self, *words):
        return self._tool("ovs-vsctl", f"--db={self.database}", f"--timeout={20 * PATIENCE:.0f}", *words)

    def ofctl(self, *words):
        return self._tool("ovs-ofctl", words[0], f"{self.directory}/br-int.mgmt", *words[1:])

    def appctl(self, *words):
        return self._tool("ovs-appctl", "-t", f"{self.directory}/vswitchd.ctl", *words)

    def join(self, remote, vni, encapsulation, guests, **options):
        """Move the uplink into br-phy and tie the guests to a tunnel towards `remote`."""
        self.take_uplink()
        self._join("netdev", remote, vni, encapsulation, guests, **options)
        without_offloads(guests)
        wait_until(lambda: self.route_is_known(remote), what=f"Open vSwitch's route to {remote}")

    def take_uplink(self):
        """Move the uplink and the tunnel's address into br-phy: the userspace datapath reads frames there."""
        host, uplink = self.host, self.host.uplink
        mac = host.ns.mac(uplink)
        self.vsctl("add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev",
                   f"other_config:hwaddr={mac}", "--", "add-port", "br-phy", uplink)
        host.ns.ip(f"address flush dev {uplink}")
        if host.family == 4:
            host.ns.sysctl("net.ipv6.conf.br-phy.disable_ipv6", 1)
        host.ns.ip("link set br-phy addrgenmode none up",
                   *address_lines("br-phy", host.address, host.number))

    def join_kernel(self, remote, vni, encapsulation, guests, **options):
        """The same with the kernel's datapath: the uplink stays the kernel's, guests keep their offloads."""
        self._join("system", remote, vni, encapsulation, guests, **options)

    def _join(self, datapath, remote, vni, encapsulation, guests, flow_key=False, **options):
        """br-int with a tunnel towards `remote` and the guests. `flow_key`: flows say which VNI."""
        settings = [f"options:{name}={value}" for name, value in
                    {"remote_ip": remote, "local_ip": self.host.address, "key": "flow" if flow_key else vni,
                     **options}.items()]
        self.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", f"datapath_type={datapath}",
                   "--", "add-port", "br-int", "tunnel", "--", "set", "interface", "tunnel",
                   f"type={encapsulation}", f"ofport_request={TUNNEL_PORT}", *settings)
        for guest in guests:
            self.vsctl("add-port", "br-int", guest.device, "--", "set", "interface", guest.device,
                       f"ofport_request={guest.number}")

    def route_is_known(self, remote):
        """Whether packets to a VTEP would leave by br-phy."""
        try:
            return "br-phy" in self.appctl("ovs/route/lookup", remote)
        except AssertionError:
            return False

    def neighbour(self, address, mac):
        self.appctl("tnl/neigh/set", "br-phy", str(address), mac)

    def flow_packets(self, match):
        """How many packets one of br-int's flows has seen; `match` is a part of its text."""
        self.appctl("revalidator/purge")  # else the last half second is not in the counts
        for line in self.ofctl("dump-flows").splitlines():
            if match in line:
                return int(re.search(r"n_packets=(\d+)", line).group(1))
        raise AssertionError(f"no flow with {match}")

    def log(self):
        with open(f"{self.directory}/vswitchd.log", encoding="utf-8") as file:
            return file.read()


def without_offloads(guests):
    """Open vSwitch reads and writes plain frames: it neither finishes a guest's checksum nor cuts its
    super-packets, so its own guests must do without offloads."""
    for guest in guests:
        guest.ns.ethtool("eth0", off=("tx", "tso", "gso", "tx-udp-segmentation"))
