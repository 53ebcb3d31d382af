"""The program under test, through its public command line only."""

import contextlib
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import yaml

from net import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PINS = Path("/sys/fs/bpf/overlane")
STATE = Path("/run/overlane")

VXLAN, GENEVE = "vxlan", "geneve"
#: In place of an encapsulation: the switch is a VLAN on the uplink.
VLAN = "vlan"
PORTS = {VXLAN: 4789, GENEVE: 6081}

#: Outer bytes that count against the underlay's MTU: IP, UDP, tunnel header, inner Ethernet.
OVERHEAD = {(VXLAN, 4): 50, (VXLAN, 6): 70, (GENEVE, 4): 58, (GENEVE, 6): 78,
            (VLAN, 4): 0, (VLAN, 6): 0}


def binary():
    return Path(os.environ.get("OVERLANE", ROOT / "target" / "release" / "overlane"))


def overlane(*words, expect=0, timeout=60, program=None, prefix=()):
    """Run the program; `expect` is the exit code it must have, None for any."""
    command = [str(word) for word in (*prefix, program or binary(), *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout * PATIENCE)
    assert expect is None or done.returncode == expect, \
        f"{' '.join(command)} → {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def in_mount_namespace(script):
    """A prefix that runs the program behind changed mounts of its own."""
    return ("unshare", "--mount", "sh", "-c", f'{script}; exec "$@"', "sh")


#: A prefix: the kernel does not show its types.
NO_TYPES = in_mount_namespace("mount --bind /dev/null /sys/kernel/btf/vmlinux")


def apply(fabric, host, netns, *words, **options):
    return overlane("apply", fabric, "--host", host, "--netns", netns, *words, **options)


def remove(host, netns, **options):
    return overlane("remove", "--host", host, "--netns", netns, **options)


def announcers(host):
    """Processes that announce for a host what `apply` left to them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if words[1:4] == ["announce", "--host", host]:
                found.append(process)
    return found


def show(what, host, *words, program=None):
    return json.loads(overlane("show", what, "--host", host, "--json", *words,
                               program=program).stdout)


def counters(host, program=None):
    return show("counters", host, program=program)


def verdicts(host, field="packets", program=None):
    """{(hook, verdict): packets}, the zero ones left out; one that is asked for and not there is zero."""
    return Counter({(row["hook"], row["verdict"]): row[field]
                    for row in counters(host, program)["verdicts"] if row[field]})


def difference(before, after):
    """What the counters rose by."""
    rose = {key: after[key] - before.get(key, 0) for key in after}
    return {key: value for key, value in rose.items() if value}


def hook_sum(counts, hook):
    """All packets that ended in some verdict on one hook."""
    return sum(packets for (where, _), packets in counts.items() if where == hook)


def port_counters(host, port):
    return next(row for row in counters(host)["ports"] if row["port"] == port)


def remote_counters(host, remote):
    return next(row for row in counters(host)["remotes"] if row["remote"] == remote)


class _Plain(yaml.SafeDumper):
    """Writes a value that occurs twice out twice: a fabric file has no anchors."""

    def ignore_aliases(self, data):
        return True


class Fabric:
    """A fabric file in the making."""

    def __init__(self, encapsulation=GENEVE, family=4, **tunnel):
        self.encapsulation = encapsulation
        self.family = family
        tunnel = {"encapsulation": GENEVE if encapsulation == VLAN else encapsulation, **tunnel}
        if family == 6:
            tunnel.setdefault("udp6_zero_checksum", True)
        self.data = {"version": 1, "tunnel": tunnel, "hosts": {}, "switches": {}, "ports": {}}

    def host(self, name, underlay, uplink="uplink"):
        self.data["hosts"][name] = {"underlay": str(underlay), "uplink": uplink}

    def switch(self, name, vni=None, **options):
        """A logical switch: with a VNI, or with `uplink_vlan`."""
        if vni is not None:
            options = {"vni": vni, **options}
        self.data["switches"][name] = options

    def port(self, name, switch, host, device, mac, addresses=(), **options):
        self.data["ports"][name] = {"switch": switch, "host": host, "device": device, "mac": mac,
                                    "addresses": [str(each) for each in addresses], **options}

    def write(self, path):
        path = Path(path)
        path.write_text(yaml.dump(self.data, Dumper=_Plain, sort_keys=False))
        return path
