"""What is at the tcx hooks: our own program as `show` sees it, what comes before it, and pins that would not last."""

import contextlib
import ctypes
import os
import struct

import pytest

import state
import traffic
from frames import ETH_P_ALL, PacketSocket, plain_frame
from net import run
from overlane import GENEVE, PINS, VXLAN, apply, binary, overlane, show
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

SYS_BPF, BPF_PROG_LOAD, BPF_LINK_CREATE, BPF_PROG_TYPE_SCHED_CLS = 321, 5, 28, 3
BPF_F_BEFORE = 8
#: r0 = TCX_NEXT; exit
PASS_ON = struct.pack("=BBhiBBhi", 0xB7, 0, 0, -1, 0x95, 0, 0, 0)
_libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes)
    answer = _libc.syscall(SYS_BPF, command, buffer, len(attributes))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


@contextlib.contextmanager
def attached(ns, device, name, before=False):
    """A program of this name is at the hook of a device, held by this process. `before`: all others."""
    code, licence = ctypes.create_string_buffer(PASS_ON), ctypes.create_string_buffer(b"GPL")
    load = struct.pack("=IIQQIIQII16s", BPF_PROG_TYPE_SCHED_CLS, 2, ctypes.addressof(code), ctypes.addressof(licence),
                       0, 0, 0, 0, 0, name.encode())
    program = bpf(BPF_PROG_LOAD, load)
    index = ns.link(device)["ifindex"]
    with ns.entered():
        link = bpf(BPF_LINK_CREATE, struct.pack("=IIIIIIQ", program, index, state.BPF_TCX_INGRESS,
                                              BPF_F_BEFORE if before else 0, 0, 0, 0))
    os.close(program)
    try:
        yield
    finally:
        os.close(link)


def states(host):
    """{device: state}"""
    shown = show("ports", host.name)
    return {row["device"]: row["state"] for row in shown["ports"] + shown["others"]}


@pytest.mark.parametrize("mount", ["true", "mount -t bpf bpf /sys/fs/bpf"], ids=["none", "own"])
def test_pins_that_would_end_with_the_process_are_refused(lab, mount):
    """`ip netns exec` gives a process mounts of its own: the data path would be gone when it ends."""
    scene = Scene(lab, GENEVE, 4)
    host, path = scene.hosts[0], scene.fabric.write(lab.directory / "fabric.yaml")
    before = state.snapshot(host.ns, host.name)
    script = f"{mount}; exec {binary()} apply {path} --host {host.name}"
    done = run(["ip", "netns", "exec", host.netns, "sh", "-c", script], check=False)
    assert done.returncode == 1 and "/sys/fs/bpf is not the BPF file system of this machine" in done.stderr
    assert "--netns NAME" in done.stderr
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}


def test_an_older_data_path_that_nobody_pins_is_named_and_refused(lab):
    scene = Scene(lab, GENEVE, 4)
    host, path = scene.hosts[0], scene.fabric.write(lab.directory / "fabric.yaml")
    with attached(host.ns, UPLINK, "from_underlay"):
        program = state.tcx_programs(host.ns, UPLINK)[0]
        before = state.snapshot(host.ns, host.name)
        for words in ((), ("--dry-run",)):
            said = apply(path, host.name, host.netns, *words, expect=1).stderr
            assert f"{UPLINK} (program from_underlay, id {program}, held by process {os.getpid()})" in said, said
            assert "bpftool link detach id " in said
        assert state.changed(before, state.snapshot(host.ns, host.name)) == {}
    scene.apply()


def test_a_port_follows_its_device_to_another_name(lab):
    """The link that the device has under its old name is no older data path."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, (near, far) = scene.hosts[0], scene.guests
    host.ns.ip(f"link set {near.device} down", f"link set {near.device} name renamed0", "link set renamed0 up")
    scene.fabric.data["ports"]["port1"]["device"] = "renamed0"
    path = scene.fabric.write(lab.directory / "renamed.yaml")
    apply(path, host.name, host.netns)
    assert states(host) == {"renamed0": "ok", UPLINK: "ok"}
    assert len(state.tcx_programs(host.ns, "renamed0")) == 1
    traffic.ping(near.ns, far.v4)
    assert "nothing differs" in apply(path, host.name, host.netns).stdout


def test_an_older_data_path_of_a_host_that_is_forgotten_is_named_with_it(lab):
    """Its pins are there, and its state is not: another name for the same host."""
    scene = Scene(lab, VXLAN, 4).apply()
    host, other = scene.hosts[0], f"{scene.hosts[0].name}.new"
    file = lab.directory / "kept.json"
    # As an earlier version left it: without a record.
    run(["mv", f"/run/overlane/{host.name}.json", file])
    run(["find", f"/sys/fs/bpf/overlane/{host.name}/ours", "-mindepth", "1", "-delete"])
    lab.defer(run, ["mv", file, f"/run/overlane/{host.name}.json"])
    scene.fabric.host(other, host.address)
    del scene.fabric.data["hosts"][host.name]
    scene.fabric.data["ports"]["port1"]["host"] = other
    said = apply(scene.fabric.write(lab.directory / "next.yaml"), other, host.netns, expect=1).stderr
    assert f"pinned by host {host.name}" in said and f"`overlane remove --host {host.name}`" in said


def test_a_program_of_somebody_else_that_comes_first_is_told(lab):
    scene = Scene(lab, GENEVE, 4)
    host, (near, far) = scene.hosts[0], scene.guests
    with attached(host.ns, near.device, "somebody"):
        path = scene.fabric.write(lab.directory / "fabric.yaml")
        scene.apply()
        said = apply(path, host.name, host.netns).stderr
        assert f"note: device {near.device}: program somebody (id " in said and "before Overlane's" in said
        traffic.ping(near.ns, far.v4)
    # After ours it does no harm.
    with attached(host.ns, near.device, "somebody"):
        assert "somebody" not in apply(path, host.name, host.netns).stderr


def test_a_ports_device_on_a_bridge_of_the_host_is_told(lab):
    """Overlane is at the device before the bridge, which gets no frame of the guest. The guard stops what it sends."""
    scene = Scene(lab, VXLAN, 4)
    host, (near, far) = scene.hosts[0], scene.guests
    host.ns.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0", "link set br0 up",
               f"link set {near.device} master br0", "address add 198.18.100.200/24 dev br0")
    traffic.ping(near.ns, "198.18.100.200", count=1)
    scene.apply()
    path = lab.directory / "fabric.yaml"
    note = f"note: device {near.device}: it is a port of bridge br0: "
    (said,) = [line for line in apply(path, host.name, host.netns).stderr.splitlines() if line.startswith(note)]
    command = f"ip -n {host.netns} link set {near.device} nomaster"
    assert f"`{command}`" in said and "the guard drops what br0 sends to it" in said

    received = host.ns.link("br0")["stats64"]["rx"]["packets"]
    near.ns.ip("neigh flush dev eth0")
    assert traffic.pings(near.ns, "198.18.100.200", count=2, timeout=0.3) == 0
    traffic.ping(near.ns, far.v4)
    with PacketSocket(near.ns, "eth0", ETH_P_ALL) as into, PacketSocket(host.ns, "br0") as out:
        into.receive_all()
        frame = plain_frame(host.ns.link("br0")["address"], near.mac)
        out.send(frame)
        assert frame not in into.receive_all()
    assert host.ns.link("br0")["stats64"]["rx"]["packets"] == received

    run(command.split())
    assert note not in apply(path, host.name, host.netns).stderr
    traffic.ping(near.ns, far.v4)


@pytest.mark.needs("bpftool")
def test_show_looks_at_the_hook_and_not_at_the_pin(lab):
    """Somebody detached the programs: the pins are there, and no packet meets what they hold."""
    scene = Scene(lab, GENEVE, 4).apply()
    host, near = scene.hosts[0], scene.guests[0]
    assert states(host) == {near.device: "ok", UPLINK: "ok"}
    links = PINS / host.name / "links"
    for pin in (f"from_port-{near.device}", f"from_underlay-{UPLINK}"):
        run(["bpftool", "link", "detach", "pinned", links / pin])
    assert states(host) == {near.device: "detached", UPLINK: "detached"}
    apply(lab.directory / "fabric.yaml", host.name, host.netns)
    assert states(host) == {near.device: "ok", UPLINK: "ok"}
    # A pin that was taken away takes the program along.
    (links / f"from_underlay-{UPLINK}").unlink()
    assert states(host)[UPLINK] == "detached"


def test_show_says_what_to_do_about_an_uplink_that_is_missing(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host = scene.hosts[0]
    host.ns.ip(f"link del {UPLINK}")
    shown = overlane("show", "ports", "--host", host.name).stdout
    assert f"uplink {UPLINK}: missing; create it, and apply again" in shown


def test_show_says_of_a_device_that_it_is_down_or_has_no_carrier(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host, near = scene.hosts[0], scene.guests[0]
    near.ns.ip("link set eth0 down")
    assert states(host) == {near.device: "no_carrier", UPLINK: "ok"}
    host.ns.ip(f"link set {near.device} down", f"link set {UPLINK} down")
    assert states(host) == {near.device: "down", UPLINK: "down"}
    shown = overlane("show", "ports", "--host", host.name).stdout
    assert f"uplink {UPLINK}: down; bring it up with `ip link set {UPLINK} up`" in shown
    assert next(line for line in shown.splitlines() if line.startswith("port1 ")).endswith(" down")
    host.ns.ip(f"link set {near.device} up", f"link set {UPLINK} up")
    near.ns.ip("link set eth0 up")
    assert states(host) == {near.device: "ok", UPLINK: "ok"}
