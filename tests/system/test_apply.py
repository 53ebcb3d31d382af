"""`apply` and `remove`: what they change, and that they change nothing else."""

import json
import signal
import subprocess
import time

import pytest

import state
import traffic
from modules import kernel_has
from net import PATIENCE, wait_until
from overlane import (GENEVE, PINS, STATE, VXLAN, apply, binary, overlane, remove, show, verdicts)
from topology import UPLINK, Scene, add_guest, apply_host

pytestmark = pytest.mark.needs_overlane


def changes(done):
    """The lines that say what differs."""
    return [line for line in done.stdout.splitlines() if line[:2] in ("+ ", "- ", "~ ")]


def add_port(lab, scene, number=9):
    """One more guest on host 1, in the fabric but not applied yet."""
    guest = add_guest(lab, scene.hosts[0], number, scene.mtu)
    scene.fabric.port(f"port{number}", "blue", scene.hosts[0].name, guest.device, guest.mac,
                      guest.addresses)
    # The kernel says so a little later; who compares the machine before and after would see it.
    wait_until(lambda: scene.hosts[0].ns.link(guest.device)["operstate"] == "UP", what="its device")
    return guest


def fabric_file(lab, scene, name="fabric.yaml"):
    return scene.fabric.write(lab.directory / name)


def test_the_data_path_outlives_the_program(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    names = {host.name for host in scene.hosts}
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True,
                              check=True).stdout
    assert not [line for line in commands.splitlines()
                if "overlane" in line and any(name in line for name in names)]
    near, far = scene.guests
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)


def test_a_second_apply_changes_nothing(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    host = scene.hosts[0]
    before = state.snapshot(host.ns, host.name)
    done = apply(fabric_file(lab, scene), host.name, host.netns)
    assert changes(done) == [] and "nothing differs" in done.stdout
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}


@pytest.mark.needs("prlimit")
def test_more_ports_than_a_shell_allows_open_files(lab):
    """The usual soft limit is 1 024 files, and 1 000 ports take more; so here, both smaller."""
    scene = Scene(lab, GENEVE, 4, guests=(1, 1))
    host, count, limited = scene.hosts[0], 150, ("prlimit", "--nofile=128:4096")
    devices = [f"m{number}" for number in range(count)]
    host.ns.ip(*[f"link add {device} up type veth peer name {device}x" for device in devices],
               *[f"link set {device}x up" for device in devices])
    for number, device in enumerate(devices):
        scene.fabric.port(device, "blue", host.name, device, f"02:00:00:01:00:{number:02x}", ())
    path = fabric_file(lab, scene)
    lab.defer(remove, host.name, host.netns, expect=None)
    apply(path, host.name, host.netns, prefix=limited)
    assert len(show("ports", host.name)["ports"]) == count + 1
    for words in (("status",), ("show", "ports"), ("show", "counters")):
        overlane(*words, "--host", host.name, prefix=limited)
    remove(host.name, host.netns, prefix=limited)
    # The hard one is nobody's to raise. Then it says which limit it is.
    few = apply(path, host.name, host.netns, prefix=("prlimit", "--nofile=64:64"), expect=1)
    assert "open files" in few.stderr and "ulimit -Hn" in few.stderr, few.stderr


def test_dry_run_prints_what_apply_then_does_and_changes_nothing(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    host = scene.hosts[0]
    path = fabric_file(lab, scene)
    for when in ("on an empty host", "on one that is applied already"):
        if when == "on one that is applied already":
            add_port(lab, scene)
            path = fabric_file(lab, scene)
        before = state.snapshot(host.ns, host.name)
        dry = apply(path, host.name, host.netns, "--dry-run")
        assert state.changed(before, state.snapshot(host.ns, host.name)) == {}
        done = apply_host(lab, path, host)
        assert changes(dry) == changes(done) != [], when


def test_only_the_difference_is_printed_and_done(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    host = scene.hosts[0]
    programs = state.tcx_programs(host.ns, host.guests[0].device)
    guest = add_port(lab, scene)
    added = changes(apply(fabric_file(lab, scene), host.name, host.netns))
    assert any(line.startswith("+ ") and "port9" in line for line in added), added
    assert not [line for line in added if "port1" in line or line.startswith("- ")], added
    assert state.tcx_programs(host.ns, host.guests[0].device) == programs, "replaced for nothing"
    apply(fabric_file(lab, scene), scene.hosts[1].name, scene.hosts[1].netns)
    traffic.ping(guest.ns, scene.guests[1].v4)

    del scene.fabric.data["ports"]["port9"]
    removed = changes(apply(fabric_file(lab, scene), host.name, host.netns))
    assert any(line.startswith("- ") and "port9" in line for line in removed), removed
    assert not [line for line in removed if "port1" in line or line.startswith("+ ")], removed
    assert state.tcx_programs(host.ns, guest.device) == []
    traffic.ping(scene.guests[0].ns, scene.guests[1].v4)
    assert traffic.pings(guest.ns, scene.guests[1].v4, timeout=0.2) == 0


def test_a_changed_tunnel_takes_effect_and_can_be_changed_back(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    near, far = scene.guests
    for tunnel in ({"encapsulation": VXLAN}, {"encapsulation": GENEVE, "port": 7777},
                   {"encapsulation": VXLAN, "port": 8472}, {"encapsulation": GENEVE}):
        scene.fabric.data["tunnel"] = tunnel
        for host in scene.hosts:
            apply(fabric_file(lab, scene), host.name, host.netns)
        traffic.ping(near.ns, far.v4)
        traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=traffic.MEBIBYTE)
        kinds = {link["ifname"]: link["linkinfo"]["info_kind"]
                 for link in scene.hosts[0].ns.json("-details link show") if "linkinfo" in link}
        kind = tunnel["encapsulation"]
        assert kinds.get("ovl-gro") == (kind if kind == VXLAN or kernel_has(GENEVE) else None)


def recreate(guest):
    """The guest was restarted: same names, another device."""
    guest.host.ns.ip(f"link delete {guest.device}")
    guest.host.ns.ip(f"link add {guest.device} type veth peer name eth0 netns {guest.ns.name}",
                     f"link set {guest.device} up")
    guest.ns.ip(f"link set eth0 address {guest.mac} up", f"address add {guest.v4}/24 dev eth0")


def test_a_recreated_port_device_is_noticed_and_repaired(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    assert [port["state"] for port in show("ports", host.name)["ports"]] == ["ok"]
    host.ns.ip(f"link delete {near.device}")
    assert [port["state"] for port in show("ports", host.name)["ports"]] == ["missing"]
    host.ns.ip(f"link add {near.device} type veth peer name eth0 netns {near.ns.name}",
               f"link set {near.device} up")
    near.ns.ip(f"link set eth0 address {near.mac} up", f"address add {near.v4}/24 dev eth0")
    assert [port["state"] for port in show("ports", host.name)["ports"]] == ["detached"]
    assert traffic.pings(near.ns, far.v4, timeout=0.2) == 0
    assert changes(apply(fabric_file(lab, scene), host.name, host.netns))
    assert [port["state"] for port in show("ports", host.name)["ports"]] == ["ok"]
    traffic.ping(near.ns, far.v4)


def test_a_recreated_uplink_is_repaired(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    one, two = scene.hosts
    one.ns.ip(f"link delete {UPLINK}")
    one.ns.ip(f"link add {UPLINK} type veth peer name {UPLINK} netns {two.netns}")
    for host in scene.hosts:
        host.ns.ip(f"link set {UPLINK} up", f"address add {host.address}/24 dev {UPLINK}")
    assert traffic.pings(near.ns, far.v4, timeout=0.2) == 0
    for host in scene.hosts:
        assert changes(apply(fabric_file(lab, scene), host.name, host.netns))
    traffic.ping(near.ns, far.v4)


@pytest.mark.parametrize("device", ["ovl-seg0", "ovl-gro"])
def test_a_deleted_helper_device_is_repaired(lab, device):
    scene = Scene(lab, VXLAN, 4).apply()
    host = scene.hosts[0]
    before = set(state.devices(host.ns))
    host.ns.ip(f"link delete {device}")
    assert changes(apply(fabric_file(lab, scene), host.name, host.netns))
    assert set(state.devices(host.ns)) == before
    traffic.ping(scene.guests[0].ns, scene.guests[1].v4)


def test_a_tunnel_port_in_use_is_reported_and_works_without(lab):
    scene = Scene(lab, VXLAN, 4)
    host = scene.hosts[0]
    taken = traffic.udp_socket(host.ns, "0.0.0.0", 4789)
    with taken:
        done = apply_host(lab, fabric_file(lab, scene), host)
        apply_host(lab, fabric_file(lab, scene), scene.hosts[1])
        assert "4789" in done.stderr, done.stderr
        near, far = scene.guests
        traffic.ping(near.ns, far.v4)
        traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=traffic.MEBIBYTE)


def test_remove_leaves_nothing_and_apply_brings_it_back(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family)
    before = [state.snapshot(host.ns, host.name) for host in scene.hosts]
    scene.apply()
    for host, was in zip(scene.hosts, before):
        remove(host.name, host.netns)
        assert state.changed(was, state.snapshot(host.ns, host.name)) == {}
        assert not (PINS / host.name).exists()
        assert not list(STATE.glob(f"{host.name}*")) if STATE.exists() else True
    near, far = scene.guests
    assert traffic.pings(near.ns, far.v4, timeout=0.2) == 0
    scene.apply()
    traffic.ping(near.ns, far.v4)


def test_remove_twice_is_no_error(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host = scene.hosts[0]
    remove(host.name, host.netns)
    assert "nothing to remove" in remove(host.name, host.netns).stdout


def test_remove_works_when_the_namespace_is_gone(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host = scene.hosts[0]
    subprocess.run(["ip", "netns", "delete", host.netns], check=True)
    overlane("remove", "--host", host.name)
    assert state.pins(host.name) == [] and state.state_files(host.name) == {}


def test_a_namespace_with_the_inode_of_one_that_is_gone_is_another(lab):
    """The kernel gives inodes again at once; only the cookie tells the two apart."""
    scene = Scene(lab, VXLAN, 4).apply()
    host = scene.hosts[0]
    before = state.devices(host.ns)
    left = json.loads((STATE / f"{host.name}.json").read_text())
    gone = f"{host.name}gone"
    file = STATE / f"{gone}.json"
    path = lab.directory / "fabric.yaml"
    try:
        left |= {"host": gone, "netns": f"{host.netns}gone"}
        file.write_text(json.dumps(left))
        refused = apply(path, host.name, host.netns, expect=1)
        assert f"host {gone} is applied in this namespace already" in refused.stderr
        left["netns_cookie"] += 1
        file.write_text(json.dumps(left))
        assert "nothing differs" in apply(path, host.name, host.netns).stdout
        overlane("remove", "--host", gone)
        assert not file.exists()
    finally:
        file.unlink(missing_ok=True)
    assert state.devices(host.ns) == before
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)


def test_the_host_may_be_applied_again_in_a_new_namespace_of_the_same_name(lab):
    """What a restarted container host leaves: the name is the same, nothing else."""
    scene = Scene(lab, GENEVE, 4).apply()
    one, two = scene.hosts
    near, far = scene.guests
    near.ns.ip("link delete eth0")
    subprocess.run(["ip", "netns", "delete", one.netns], check=True)
    wait_until(lambda: UPLINK not in two.ns.links(), what="the old namespace to be gone")
    type(one.ns).create(one.netns)
    one.ns.ip(f"link add {UPLINK} type veth peer name {UPLINK} netns {two.netns}",
              f"link add {near.device} type veth peer name eth0 netns {near.ns.name}",
              f"link set {near.device} up")
    near.ns.ip(f"link set eth0 address {near.mac} mtu {scene.mtu} up",
               f"address add {near.v4}/24 dev eth0")
    for host in scene.hosts:
        host.ns.ip(f"link set {UPLINK} up", f"address add {host.address}/24 dev {UPLINK}")
        apply(fabric_file(lab, scene), host.name, host.netns)
    traffic.ping(near.ns, far.v4)


def test_a_killed_apply_is_completed_by_the_next_one(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    host = scene.hosts[0]
    path = fabric_file(lab, scene)
    lab.defer(remove, host.name, host.netns, expect=None)
    command = [str(binary()), "apply", str(path), "--host", host.name, "--netns", host.netns]
    started = time.monotonic()
    apply_host(lab, path, scene.hosts[1])
    takes = time.monotonic() - started
    for part in range(1, 10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(takes * part / 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if part % 3 == 0:
            remove(host.name, host.netns)
    apply(path, host.name, host.netns)
    near, far = scene.guests
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4)
    assert "nothing differs" in apply(path, host.name, host.netns).stdout
    remove(host.name, host.netns)
    assert state.pins(host.name) == [] and state.state_files(host.name) == {}
    assert not [name for name in host.ns.links() if name.startswith("ovl-")]


def test_two_applies_at_once_both_succeed(lab):
    scene = Scene(lab, GENEVE, 4)
    path = fabric_file(lab, scene)
    host = scene.hosts[0]
    lab.defer(remove, host.name, host.netns, expect=None)
    command = [str(binary()), "apply", str(path), "--host", host.name, "--netns", host.netns]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(3)]
    outputs = [process.communicate(timeout=60 * PATIENCE) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    assert sum("nothing differs" in out for out, _ in outputs) == 2, outputs


def test_counters_and_traffic_survive_a_change_of_the_fabric(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4).apply()
    near, far = scene.guests
    host = scene.hosts[0]
    traffic.ping(near.ns, far.v4, count=10)
    before = verdicts(host.name)["from_port", "encap"]
    add_port(lab, scene)
    apply(fabric_file(lab, scene), host.name, host.netns)
    assert verdicts(host.name)["from_port", "encap"] >= before >= 10


def test_show_tells_what_is_applied(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family, guests=(2, 1)).apply()
    one, two = scene.hosts
    traffic.ping(scene.guests[0].ns, scene.guests[2].v4)
    ports = show("ports", one.name)
    assert ports["host"] == one.name
    assert [(port["port"], port["key"], port["device"], port["state"]) for port in ports["ports"]] \
        == [("port1", 1, "p1", "ok"), ("port2", 2, "p2", "ok")]
    places = {entry["mac"]: entry["place"] for entry in show("fdb", one.name)["entries"]}
    assert places == {guest.mac: "remote" if guest.host is two else "local"
                      for guest in scene.guests}
    (remote,) = show("remotes", one.name)["remotes"]
    assert remote["remote"] == two.name and remote["address"] == two.address
    assert remote["next_hop"] == two.address and remote["device"] == UPLINK
    assert remote["neighbour"] in ("reachable", "stale", "delay", "probe")
    everything = show("counters", one.name, "--all")["verdicts"]
    assert {"hook": "from_underlay", "verdict": "vni_zero", "drop": True, "packets": 0,
            "segments": 0, "bytes": 0} in everything
