"""What a host's machine looks like: everything `apply` may touch, to compare before and after."""

import ctypes
import json
import os
import shutil
import struct

from net import run
from overlane import PINS, STATE

_libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF, BPF_PROG_QUERY, BPF_TCX_INGRESS = 321, 16, 46
#: What the data path writes, and so every packet changes.
_VOLATILE_MAPS = ("port_counters", "remote_counters", "verdict_counters", "scratch", "learned",
                  "learning", "found", "asked", "capture", "events", "test_io", "devices_seen", "connections", "translations",
                  "connection_places", "limits", "rule_counters", "rule_log", "abilities", "flow_ways",
                  "fragments", "path_mtus", "flows", "kept_rules", "epochs", "coarse_clock")


def tcx_programs(ns, device):
    """Ids of the programs on a device's tcx ingress hook (Debian's bpftool does not list them)."""
    ids = (ctypes.c_uint32 * 64)()
    index = ns.link(device)["ifindex"]
    with ns.entered():
        attributes = ctypes.create_string_buffer(
            struct.pack("=IIIIQIIQQQQ", index, BPF_TCX_INGRESS, 0, 0, ctypes.addressof(ids), 64, 0,
                        0, 0, 0, 0))
        if _libc.syscall(SYS_BPF, BPF_PROG_QUERY, attributes, len(attributes) - 1) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), device)
    count = struct.unpack_from("=I", attributes, 24)[0]
    return list(ids[:count])


def pins(host):
    """Every pinned object and folder of a host."""
    root = PINS / host
    return sorted(str(path.relative_to(PINS)) for path in root.rglob("*")) if root.exists() else []


def map_sets(host):
    return sorted(path.name for path in (PINS / host).glob("maps-*"))


def tables(host):
    """Contents of every pinned map that is a table, not a counter."""
    contents = {}
    for path in sorted((PINS / host).glob("maps-*/*")):
        if path.name not in _VOLATILE_MAPS:
            dump = run(["bpftool", "-j", "map", "dump", "pinned", path], check=False).stdout
            contents[path.name] = sorted(json.dumps(each) for each in json.loads(dump or "[]"))
    return contents


def state_files(host):
    """Names and contents of the state files; the lock's text names whoever came last."""
    files = {}
    for path in sorted(STATE.glob(f"{host}.*")) if STATE.exists() else []:
        files[path.name] = None if path.suffix == ".lock" else path.read_text()
    return files


def devices(ns):
    """Links without their statistics."""
    kept = ("ifname", "ifindex", "mtu", "address", "flags", "operstate", "gso_max_segs",
            "gso_max_size", "gso_ipv4_max_size", "linkinfo")
    return {link["ifname"]: {key: link.get(key) for key in kept}
            for link in ns.json("-d link show")}


def neighbours(ns):
    """Entries that someone made on purpose; learnt ones come and go."""
    return sorted((entry["dst"], entry.get("dev")) for entry in ns.json("neigh show nud all")
                  if "managed" in entry or "PERMANENT" in entry["state"])


def nftables(ns):
    """The namespace's tables, without what they count; the elements of a set have no order."""
    if shutil.which("nft") is None:
        return None
    listed = json.loads(ns.run("nft -j -s list ruleset").stdout)["nftables"]
    for each in listed:
        elements = each.get("set", {}).get("elem")
        if elements:
            elements.sort(key=json.dumps)
    return [each for each in listed if "metainfo" not in each]


def snapshot(ns, host):
    """All of it. Equal snapshots: nothing was changed."""
    links = devices(ns)
    return {
        "devices": links,
        "programs": {name: tcx_programs(ns, name) for name in links},
        "pins": pins(host),
        "tables": tables(host),
        "state": state_files(host),
        "neighbours": neighbours(ns),
        "proxies": ns.json("neigh show proxy"),
        "nftables": nftables(ns),
    }


def changed(before, after):
    """The parts of two snapshots that differ, of mappings only what differs in them: readable in an assertion."""
    different = {key: (before.get(key), after.get(key)) for key in {*before, *after} if before.get(key) != after.get(key)}
    return {key: changed(*both) if all(isinstance(it, dict) for it in both) else both for key, both in different.items()}
