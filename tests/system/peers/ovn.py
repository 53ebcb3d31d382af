"""OVN as the other hosts' network: databases, ovn-northd and ovn-controller over peers/ovs.py.

Everything runs in the namespaces of hosts, with sockets and files in directories of the test, and is
ended by pid. The bridge `br-int` belongs to ovn-controller: it makes the tunnels, from the chassis of
the southbound database.
"""

import itertools
import json
import os
import shutil
import subprocess
import tempfile

from net import PATIENCE, run, wait_until
from peers import ovs

SCHEMAS = "/usr/share/ovn"
#: Programs a test must ask for with `@pytest.mark.needs(*ovn.TOOLS)`.
TOOLS = (*ovs.TOOLS, "ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl")


class Ovn:
    """An OVN network. Its databases and ovn-northd are on `host`, which is a chassis as well."""

    def __init__(self, lab, host, **settings):
        """`settings` are external_ids of the host's Open_vSwitch row, such as `ovn-is-interconn`."""
        self.lab, self.host = lab, host
        # Not under tmp_path: a socket's path may have 107 bytes only.
        self.directory = tempfile.mkdtemp(prefix="ovt-ovn-")
        lab.defer(shutil.rmtree, self.directory, ignore_errors=True)
        self._database = f"unix:{self.directory}/db.sock"
        self._vswitches = {}
        self.vswitch = self._open_vswitch(host)
        self._environment = self._directories(self.vswitch, self.directory)
        self._start_databases()
        self._spawn(host, self._environment,
                    "ovn-northd", f"--ovnnb-db={self._database}", f"--ovnsb-db={self._database}")
        self._start_controller(host, self._environment, settings)

    def add_host(self, host, **settings):
        """One more host with ovn-controller."""
        vswitch = self._open_vswitch(host)
        self._start_controller(host, self._directories(vswitch, vswitch.directory), settings)

    def _open_vswitch(self, host):
        vswitch = self._vswitches[host] = ovs.OpenVSwitch(self.lab, host)
        vswitch.take_uplink()
        return vswitch

    @staticmethod
    def _directories(vswitch, directory):
        """The environment in which OVN's programs use nothing of the machine's own OVN and Open vSwitch."""
        own = ("OVN_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR", "OVN_SYSCONFDIR")
        return {**os.environ, "OVS_RUNDIR": vswitch.directory, **{name: directory for name in own}}

    def _start_databases(self):
        files = []
        for name in ("nb", "sb"):
            files.append(f"{self.directory}/{name}.db")
            run(["ovsdb-tool", "create", files[-1], f"{SCHEMAS}/ovn-{name}.ovsschema"])
        self._spawn(self.host, self._environment, "ovsdb-server", *files, f"--remote=p{self._database}")
        wait_until(lambda: os.path.exists(f"{self.directory}/db.sock"), what="OVN's databases")
        self.nbctl("init")
        self.sbctl("init")

    def _start_controller(self, host, environment, settings):
        vswitch = self._vswitches[host]
        settings = {"system-id": host.name, "hostname": host.name, "ovn-remote": self._database,
                    "ovn-encap-type": "geneve", "ovn-encap-ip": host.address,
                    "ovn-bridge-datapath-type": "netdev", **settings}
        # Quotes: an address of IPv6 has colons.
        vswitch.vsctl("set", "open_vswitch", ".",
                      *(f"external_ids:{name}={json.dumps(value)}" for name, value in settings.items()))
        self._spawn(host, environment, "ovn-controller", vswitch.database)
        wait_until(lambda: host.name in self.sbctl("--bare", "--columns=name", "list", "chassis")
                   and "br-int" in vswitch.vsctl("list-br"), what=f"{host.name} as a chassis")

    def _spawn(self, host, environment, program, *words):
        # ovn-appctl finds a program by its pid file.
        directory = environment["OVN_RUNDIR"]
        command = [program, *words, f"--log-file={directory}/{program}.log", f"--pidfile={directory}/{program}.pid",
                   "-vconsole:off", "-vsyslog:off", "-vfile:info"]
        self.lab.spawn(host.ns, command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _tool(self, program, *words):
        return self.host.ns.run([program, f"--db={self._database}", f"--timeout={20 * PATIENCE:.0f}", *words],
                                env=self._environment).stdout

    def nbctl(self, *words):
        return self._tool("ovn-nbctl", *words)

    def sbctl(self, *words):
        return self._tool("ovn-sbctl", *words)

    def shell(self, script):
        """What an operator types: the tools find this OVN and its Open vSwitch by themselves."""
        environment = {**self._environment, "OVN_NB_DB": self._database, "OVN_SB_DB": self._database}
        return self.host.ns.run(["bash", "-euc", script], env=environment).stdout

    def switch(self, name, vni, **options):
        """A logical switch whose datapath key is the VNI of the fabric's switch."""
        self.nbctl("ls-add", name, "--", "set", "logical_switch", name, f"other_config:requested-tnl-key={vni}",
                   *(f"other_config:{option}={value}" for option, value in options.items()))

    def port(self, switch, guest, known=True):
        """A logical port with the guest's key. `known=False` keeps its addresses out: no ARP is answered."""
        name = port_name(guest)
        addresses = " ".join([guest.mac, *(guest.addresses if known else ())])
        self.nbctl("lsp-add", switch, name, "--", "lsp-set-addresses", name, addresses, "--",
                   "set", "logical_switch_port", name, f"options:requested-tnl-key={guest.number}")
        return name

    def attach(self, *guests):
        """Guests of hosts with ovn-controller, which claims the port when it sees the interface."""
        ovs.without_offloads(guests)
        for guest in guests:
            self._vswitches[guest.host].vsctl(
                "add-port", "br-int", guest.device, "--", "set", "interface", guest.device,
                f"external_ids:iface-id={port_name(guest)}")

    def chassis(self, host, guests=(), remote=False):
        """A host without ovn-controller: somebody has to write its row, and which ports are there.

        `remote`: as ovn-ic writes hosts of another OVN network. This host needs `ovn-is-interconn` then.
        """
        self.sbctl("chassis-add", host.name, "geneve", host.address)
        if remote:
            self.sbctl("set", "chassis", host.name, "other_config:is-remote=true")
            for guest in guests:
                self.nbctl("lsp-set-type", port_name(guest), "remote", "--", "set", "logical_switch_port",
                           port_name(guest), f"options:requested-chassis={host.name}")
        self.nbctl("--wait=sb", "sync")
        for guest in guests:
            self.sbctl("lsp-bind", port_name(guest), host.name)

    def router(self, name, switches):
        """A logical router: {switch: (MAC, addresses with prefix length, key of its port on the switch)}."""
        self.nbctl("lr-add", name)
        for switch, (mac, addresses, key) in switches.items():
            leg, port = f"{name}-{switch}", f"{switch}-{name}"
            self.nbctl("lrp-add", name, leg, mac, *addresses, "--",
                       "lsp-add", switch, port, "--", "lsp-set-type", port, "router", "--",
                       "lsp-set-addresses", port, "router", "--", "lsp-set-options", port,
                       f"router-port={leg}", f"requested-tnl-key={key}")

    def settle(self, *remotes):
        """The flows of all that was declared are there, and the ways to the other hosts known."""
        self.nbctl("--wait=hv", "sync")
        for vswitch in self._vswitches.values():
            vswitch.appctl("revalidator/purge")  # else what earlier packets cached holds for a while
        for remote, vswitch in itertools.product(remotes, self._vswitches.values()):
            wait_until(lambda by=vswitch, to=remote.address: by.route_is_known(to),
                       what=f"Open vSwitch's route to {remote.address}")

    def tunnel(self, host):
        """The name of the tunnel port that ovn-controller made for a chassis."""
        return self.vswitch.vsctl("--bare", "--columns=name", "find", "port",
                                  f"external_ids:ovn-chassis-id={json.dumps(f'{host.name}@{host.address}')}").strip()


def port_name(guest):
    """OVN's name of a guest's logical port, as in the fabric of topology.py."""
    return f"port{guest.number}"
