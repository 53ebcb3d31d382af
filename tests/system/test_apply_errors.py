"""What makes `apply` fail: each has its own words, its exit code, and leaves the host as it was."""

import fcntl
import json
import os
import subprocess
import time

import pytest

import netkit
import state
import traffic
from net import PATIENCE, run
from overlane import GENEVE, STATE, VXLAN, Fabric, apply, binary, in_mount_namespace, overlane, remove, show
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane


@pytest.fixture(params=["empty", "applied"])
def scene(lab, request):
    """A host with nothing of Overlane on it, or one that carries a fabric already."""
    made = Scene(lab, VXLAN, 4)
    if request.param == "applied":
        made.apply()
    return made


def refused(scene, *words, code=1, path=None, prefix=()):
    """Apply, expect the failure and an untouched host; returns what was said."""
    host = scene.hosts[0]
    path = path or scene.fabric.write(scene.lab.directory / "refused.yaml")
    before = state.snapshot(host.ns, host.name)
    done = apply(path, host.name, host.netns, *words, expect=None, prefix=prefix)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert code == 2 or any(line.startswith("error: ") for line in done.stderr.splitlines())
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}
    return done.stderr


def with_missing_devices(scene):
    """Two ports whose devices do not exist, one of them a trunk."""
    name, fabric = scene.hosts[0].name, scene.fabric
    fabric.port("port8", "blue", name, "nosuch0", "02:00:00:00:00:08", ["198.18.100.8"], key=8)
    for number in (9, 10):
        fabric.port(f"port{number}", "blue", name, "nosuch1", f"02:00:00:00:00:{number:02x}", key=number, vlan=number)


def test_who_is_strict_is_told_all_that_is_missing(scene):
    with_missing_devices(scene)
    said = refused(scene, "--strict")
    for word in ("nosuch0 (port port8), nosuch1 (ports port10, port9)", scene.hosts[0].netns, "help: ", "--strict"):
        assert word in said


def test_what_is_there_is_applied_and_what_is_missing_is_named(lab):
    """Also a change that has nothing to do with the missing device, such as a firewall's."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, (near, far) = scene.hosts[0], scene.guests
    with_missing_devices(scene)
    scene.fabric.data["rules"] = {"stop": {"ports": ["port1"], "direction": "from_port", "action": "drop"}}
    path = scene.fabric.write(lab.directory / "next.yaml")
    expected = [{"device": "nosuch0", "used_as": "port", "by": ["port8"]},
                {"device": "nosuch1", "used_as": "port", "by": ["port10", "port9"]}]
    dry = json.loads(apply(path, host.name, host.netns, "--dry-run", "--json").stdout)
    assert dry["missing"] == expected
    done = apply(path, host.name, host.netns, "--json")
    assert json.loads(done.stdout)["missing"] == expected
    assert "note: no such device: nosuch1 (ports port10, port9); the ports have no network" in done.stderr
    assert traffic.pings(near.ns, far.v4, count=2, timeout=0.3) == 0, "the new rule is not there"
    states = {row["port"]: row["state"] for row in show("ports", host.name)["ports"]}
    assert states == {"port1": "ok", "port8": "missing", "port9": "missing", "port10": "missing"}
    assert "nothing differs" in apply(path, host.name, host.netns).stdout


def test_a_port_whose_device_is_down_is_named(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host, near = scene.hosts[0], scene.guests[0]
    host.ns.ip(f"link set {near.device} down")
    said = apply(lab.directory / "fabric.yaml", host.name, host.netns).stderr
    assert f"note: port port1: its device {near.device} is down; no packet passes until it is up" in said


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_another_name_of_a_device_is_refused(scene, strict):
    """The kernel finds a device by it, and no packet comes from a device of that name."""
    host, near = scene.hosts[0], scene.guests[0]
    ports = scene.fabric.data["ports"]
    host.ns.ip(f"link property add dev {near.device} altname other0", f"link property add dev {UPLINK} altname other1",
               "link add late0 type veth peer name late1", "link property add dev late0 altname other2")
    ports["port1"]["device"] = "other0"
    said = refused(scene, *strict)
    assert f"error: other0 (port port1) is another name of device {near.device} (" in said
    assert f"help: write {near.device} in the fabric file" in said and "no such device" not in said
    # On a trunk, for each of its ports.
    ports["port1"]["vlan"] = 7
    scene.fabric.port("port8", "blue", host.name, "other0", "02:00:00:00:00:08", key=8, vlan=8)
    said = refused(scene, *strict)
    assert all(f"other0 (port {name}) is another name of" in said for name in ("port1", "port8"))
    del ports["port8"], ports["port1"]["vlan"]
    ports["port1"]["device"] = near.device
    scene.fabric.data["routers"] = {"r1": {"interfaces": {"blue": ["198.18.100.254/24"]},
                                           "gateway": {"host": host.name, "device": "other2", "addresses": ["198.19.0.2/24"]}}}
    assert "other2 (leg of router r1) is another name of device late0" in refused(scene, *strict)
    del scene.fabric.data["routers"]
    scene.fabric.data["hosts"][host.name]["uplink"] = "other1"
    said = refused(scene, *strict)
    assert f"other1 (uplink) is another name of device {UPLINK}" in said and f"write {UPLINK} in" in said


def test_another_name_of_a_device_elsewhere_is_refused(scene):
    elsewhere = scene.lab.namespace("c")
    elsewhere.ip("link add late0 type veth peer name late1", "link property add dev late0 altname other0")
    scene.fabric.port("port8", "blue", scene.hosts[0].name, "other0", "02:00:00:00:00:08", key=8, netns=elsewhere.name)
    said = refused(scene)
    assert "other0 (port port8" in said and "is another name of device late0" in said
    assert "late0" in elsewhere.links()


def test_status_says_that_a_device_has_another_name_now(lab):
    """Who renames a device may keep its former name as another one."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, near = scene.hosts[0], scene.guests[0]
    host.ns.ip(f"link set {near.device} down", f"link set {near.device} name new0", "link set new0 up",
               f"link property add dev new0 altname {near.device}")
    said = overlane("status", "--host", host.name, expect=None).stdout
    assert f"{near.device} is another name of device new0: write new0" in said
    assert f"no such device: {near.device}" not in said, said


def test_a_missing_uplink_is_named(scene):
    """Missing ports are notes beside it."""
    host = scene.hosts[0]
    scene.fabric.data["hosts"][host.name]["uplink"] = "eth9"
    with_missing_devices(scene)
    said = refused(scene)
    assert f"error: no such device: eth9 (uplink) (namespace {host.netns})" in said.splitlines()
    assert "note: no such device: nosuch0 (port port8); the port has no network" in said


#: What makes a layer-3 device `l3`, in a namespace of its own.
LAYER3 = [pytest.param(line, id=kind, marks=pytest.mark.needs_kernel(kind) if kind != "tun" else ())
          for kind, line in (("tun", "tuntap add l3 mode tun"), ("wireguard", "link add l3 type wireguard"))]


@pytest.mark.parametrize("line", LAYER3)
def test_a_layer_3_device_is_refused_as_port_and_as_uplink(scene, line):
    host = scene.hosts[0]
    host.ns.ip(line, f"address add {host.address}/32 dev l3", "link set l3 up")
    scene.fabric.port("port9", "blue", host.name, "l3", "02:00:00:00:00:09", key=9)
    said = refused(scene)
    for word in ("layer-3 device: l3 (port port9)", host.netns, "help: "):
        assert word in said
    del scene.fabric.data["ports"]["port9"]
    scene.fabric.data["hosts"][host.name]["uplink"] = "l3"
    assert "layer-3 device: l3 (uplink)" in refused(scene)


@pytest.mark.needs_kernel("netkit")
def test_netkit_in_l3_mode_is_refused(scene):
    host = scene.hosts[0]
    with host.ns.entered():
        netkit.create("nk0", "nk1", netkit.L3)
    scene.fabric.port("port9", "blue", host.name, "nk0", "02:00:00:00:00:09", key=9)
    said = refused(scene)
    assert "layer-3 device: nk0 (port port9)" in said and "mode l2" in said


def test_an_uplink_without_the_underlay_address_is_refused(scene):
    host = scene.hosts[0]
    scene.fabric.data["hosts"][host.name]["underlay"] = "198.18.0.99"
    said = refused(scene)
    assert "198.18.0.99" in said and UPLINK in said and "ip address add" in said


def test_an_uplink_too_small_for_the_tunnel_is_refused(lab):
    scene = Scene(lab, GENEVE, 4)
    scene.hosts[0].ns.ip(f"link set {UPLINK} mtu 600")
    assert "600" in refused(scene)


def test_a_host_that_the_fabric_does_not_know_is_refused(lab):
    scene = Scene(lab, GENEVE, 4)
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    done = apply(path, "nobody-knows", scene.hosts[0].netns, expect=2)
    assert "nobody-knows" in done.stderr and scene.hosts[0].name in done.stderr


def test_a_namespace_that_does_not_exist_is_refused(lab):
    scene = Scene(lab, GENEVE, 4)
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    done = apply(path, scene.hosts[0].name, "ovt-no-such-namespace", expect=1)
    assert "ovt-no-such-namespace" in done.stderr


def test_a_broken_fabric_file_is_a_usage_error(scene):
    path = scene.lab.directory / "broken.yaml"
    path.write_text("version: 1\nhosts: [\n")
    assert "broken.yaml" in refused(scene, code=2, path=path)


NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.mark.needs("setpriv")
def test_without_rights_the_missing_ones_are_named(scene):
    said = refused(scene, prefix=NO_CAPABILITIES)
    assert "CAP_NET_ADMIN" in said and "CAP_BPF" in said and "root" in said


@pytest.mark.needs("setpriv")
def test_a_user_who_is_not_root_is_told_so(lab, tmp_path_factory):
    path = Fabric(GENEVE, 4)
    path.host("h1", "198.18.0.1")
    directory = f"/tmp/ovt{os.getpid()}-public"
    os.mkdir(directory, 0o755)
    lab.defer(run, ["rm", "-r", directory])
    file = path.write(f"{directory}/fabric.yaml")
    os.chmod(file, 0o644)
    program = f"{directory}/overlane"
    run(["cp", binary(), program])
    os.chmod(program, 0o755)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    done = overlane("apply", file, "--host", "h1", expect=1, prefix=nobody, program=program)
    assert done.stderr.startswith("error: ") and "root" in done.stderr


@pytest.mark.needs("unshare")
def test_a_bpffs_that_is_hidden_is_no_reason_to_mount_another(scene):
    """What is pinned in another one ends with the mount namespace."""
    prefix = in_mount_namespace("mount -t tmpfs none /sys/fs/bpf")
    said = refused(scene, prefix=prefix)
    assert "/sys/fs/bpf is not the BPF file system of this machine" in said and "bind mount" in said


@pytest.mark.needs("unshare")
def test_who_cannot_see_the_machine_is_told(lab):
    """In a container, its own BPF file system and a bind mount of the machine's look alike."""
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    path = scene.fabric.write(lab.directory / "f.yaml")
    said = "/sys/fs/bpf is the machine's"
    container = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    assert said in apply(path, host.name, host.netns, "--dry-run", prefix=container).stderr
    beside = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    for prefix in (beside, ()):
        assert said not in apply(path, host.name, host.netns, "--dry-run", prefix=prefix).stderr


def on_kernel(scene, release):
    """A prefix that lets the program see another release of the kernel."""
    file = scene.lab.directory / "osrelease"
    file.write_text(f"{release}\n")
    return in_mount_namespace(f"mount --bind {file} /proc/sys/kernel/osrelease")


@pytest.mark.needs("unshare")
def test_an_old_kernel_is_refused_before_all_else(scene):
    prefix = on_kernel(scene, "6.1.0-30-amd64")
    path = scene.lab.directory / "not-even-there.yaml"
    said = refused(scene, path=path, prefix=prefix)
    assert "6.1.0-30-amd64" in said and "6.12" in said


@pytest.mark.needs("unshare")
def test_a_kernel_that_nobody_tried_is_tried_with_a_note(lab):
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    path = scene.fabric.write(lab.directory / "f.yaml")
    lab.defer(remove, host.name, host.netns, expect=None)
    done = apply(path, host.name, host.netns, prefix=on_kernel(scene, "6.8.0-45-generic"))
    assert "note: Linux 6.8.0-45-generic is not tested" in done.stderr and "6.12" in done.stderr
    done = apply(path, host.name, host.netns)
    assert "not tested" not in done.stderr


def test_a_second_namespace_for_an_applied_host_is_refused(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    one, two = scene.hosts
    done = apply(path, one.name, two.netns, expect=1)
    assert one.name in done.stderr or two.name in done.stderr


def test_a_full_table_is_named_with_its_limit(scene):
    for number in range(3, 1028):
        scene.fabric.host(f"more{number}", f"198.18.{number // 250 + 1}.{number % 250 + 1}")
    said = refused(scene, code=2)
    assert "needs room for 1026 other hosts and has room for 1024" in said, said


def lock_as(host, text=""):
    """Take a host's lock as another process would; closing the file lets go. `text` is what earlier versions wrote."""
    STATE.mkdir(exist_ok=True)
    file = open(STATE / f"{host}.lock", "w", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(text)
    file.flush()
    return file


def test_a_locked_host_is_waited_for_and_the_holder_named(lab):
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    lab.defer(remove, host.name, host.netns, expect=None)
    command = [str(binary()), "apply", str(path), "--host", host.name, "--netns", host.netns]
    # Whoever is named in the file has nothing to do with it.
    with lock_as(host.name, "1 somebody else\n"):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        said = process.stderr.readline()
        assert f"is locked by process {os.getpid()} (" in said and "somebody else" not in said
        time.sleep(0.3)
        assert process.poll() is None, "did not wait"
    out, _ = process.communicate(timeout=20 * PATIENCE)
    assert process.returncode == 0 and "applied" in out


def test_a_host_locked_for_too_long_is_refused(lab):
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    with lock_as(host.name):
        said = refused(scene)
        removal = remove(host.name, host.netns, expect=1).stderr
    for each in (said, removal):
        assert f"error: host {host.name} is locked by process {os.getpid()} (" in each
        assert f"help: wait until process {os.getpid()} is done, or end it" in each


def test_a_lock_that_nobody_holds_names_nobody(lab):
    """Its file was left behind, with the words of an earlier version."""
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    lock_as(host.name, "1 a process that ended\n").close()
    scene.apply(host)
    # Somebody else is inside, and has it open alone.
    with open(STATE / f"{host.name}.lock", encoding="utf-8"):
        done = apply(lab.directory / "fabric.yaml", host.name, host.netns)
        assert "nothing differs" in done.stdout and "waiting" not in done.stderr


@pytest.mark.needs("prlimit")
def test_an_apply_that_runs_out_of_files_at_any_moment_puts_everything_back(scene):
    """Fewer descriptors than it needs: it fails elsewhere each time, also half way through."""
    host, (near, far) = scene.hosts[0], scene.guests
    was_applied = bool(state.pins(host.name))
    scene.fabric.data["switches"]["blue"]["unknown_unicast"] = "flood"
    scene.fabric.data["tunnel"]["source_ports"] = "50000-50999"
    path = scene.fabric.write(scene.lab.directory / "next.yaml")
    apply(path, host.name, host.netns, "--dry-run")
    before = state.snapshot(host.ns, host.name)
    before["state"].setdefault(f"{host.name}.lock", None)
    places = set()
    for limit in range(4, 160, 3):
        done = apply(path, host.name, host.netns, expect=None, prefix=("prlimit", f"--nofile={limit}"))
        if done.returncode == 0:
            break
        assert done.returncode == 1 and "put back" not in done.stderr, (limit, done.stderr)
        after = state.snapshot(host.ns, host.name)
        after["state"].setdefault(f"{host.name}.lock", None)
        assert state.changed(before, after) == {}, (limit, done.stderr)
        places.add(done.stderr.splitlines()[0])
        if was_applied:
            traffic.ping(near.ns, far.v4, count=1)
    else:
        pytest.fail("never enough descriptors")
    scene.lab.defer(remove, host.name, host.netns, expect=None)
    assert len(places) > 3, f"failed in too few places to prove anything: {places}"


def test_an_unwritable_state_file_puts_everything_back(lab):
    """The last step fails: a folder stands where the state file must go."""
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    STATE.mkdir(exist_ok=True)
    obstacle = STATE / f"{host.name}.json"
    obstacle.mkdir()
    (obstacle / "full").touch()
    lab.defer(run, ["rm", "-rf", obstacle])
    before = (state.devices(host.ns), state.neighbours(host.ns), state.pins(host.name),
              state.tcx_programs(host.ns, UPLINK))
    done = apply(scene.fabric.write(lab.directory / "f.yaml"), host.name, host.netns, expect=1)
    assert obstacle.name in done.stderr
    assert before == (state.devices(host.ns), state.neighbours(host.ns), state.pins(host.name),
                      state.tcx_programs(host.ns, UPLINK))
