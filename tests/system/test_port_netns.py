"""A port whose device is made in the network namespace of its guest, and left there: `apply` takes it from there.

    c: eth0 ── late0                             both ends are the guest's
    c: eth0 ── late0 ┤ host │ uplink ══ …        after `apply`
"""

import json
import os
from pathlib import Path

import pytest

import state
import traffic
from net import stop, wait_until
from overlane import GENEVE, NO_TYPES, VXLAN, apply, overlane, remove, show
from topology import Guest, Scene, guest_addresses, guest_mac

pytestmark = pytest.mark.needs_overlane

NUMBER, DEVICE = 9, "late0"


def by_name(_lab, ns):
    return ns.name


def by_path(lab, ns):
    return f"/proc/{by_process(lab, ns)}/ns/net"


def by_process(lab, ns):
    return lab.spawn(ns, ["sleep", "1000"]).pid


def container(lab, scene):
    """A namespace with both ends of a cable, as some runtimes leave it."""
    ns = lab.namespace("c")
    v4, v6 = guest_addresses(NUMBER)
    guest = Guest(ns, scene.hosts[0], DEVICE, NUMBER, guest_mac(NUMBER), v4, v6)
    cable(guest, scene.mtu)
    return guest


def cable(guest, mtu):
    guest.ns.ip(f"link add {DEVICE} mtu {mtu} type veth peer name eth0 mtu {mtu}", f"link set {DEVICE} up",
                f"link set eth0 address {guest.mac} up", f"address add {guest.v4}/24 dev eth0",
                f"address add {guest.v6}/64 dev eth0 nodad")


def declare(scene, netns, device=DEVICE, number=NUMBER):
    scene.fabric.port(f"port{number}", "blue", scene.hosts[0].name, device, guest_mac(number), guest_addresses(number),
                      key=number, netns=netns)
    return scene.fabric.write(scene.lab.directory / "fabric.yaml")


def applied(scene, path, *words, **options):
    host = scene.hosts[0]
    scene.lab.defer(remove, host.name, host.netns, expect=None)
    return apply(path, host.name, host.netns, *words, **options)


def port_state(host):
    (row,) = [row for row in show("ports", host.name)["ports"] if row["device"] == DEVICE]
    return row["state"]


def guarded(host):
    listed = json.loads(host.ns.run(f"nft -j list table inet overlane-{host.name}").stdout)
    return DEVICE in json.dumps(listed)


@pytest.mark.parametrize("netns", [by_name, by_path, by_process])
@pytest.mark.parametrize("encapsulation", [GENEVE, VXLAN])
def test_a_device_is_taken_from_its_guest(lab, netns, encapsulation):
    scene = Scene(lab, encapsulation, guests=(1, 1))
    guest = container(lab, scene)
    path = declare(scene, netns(lab, guest.ns))
    host = scene.hosts[0]
    before = state.snapshot(host.ns, host.name)
    dry = applied(scene, path, "--dry-run").stdout
    assert f"+ device {DEVICE} (taken from network namespace " in dry
    assert state.changed(before, state.snapshot(host.ns, host.name)) == {}
    assert DEVICE in guest.ns.links()
    scene.apply()
    assert DEVICE in host.ns.links() and DEVICE not in guest.ns.links()
    traffic.ping(guest.ns, scene.guests[0].v4)
    traffic.ping(guest.ns, scene.guests[1].v4)
    traffic.ping(scene.guests[1].ns, guest.v6)
    assert port_state(host) == "ok"
    again = applied(scene, path)
    assert "nothing differs" in again.stdout and DEVICE not in again.stderr
    assert json.loads(overlane("status", "--host", host.name, "--json").stdout)["verdict"] == "as_declared"
    # It is the user's from then on.
    remove(host.name, host.netns)
    assert DEVICE in host.ns.links()


def test_without_types_of_the_kernel(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    guest = container(lab, scene)
    declare(scene, guest.ns.name)
    scene.apply(prefix=NO_TYPES)
    traffic.ping(guest.ns, scene.guests[1].v4)


@pytest.mark.needs("nft")
@pytest.mark.needs_kernel("nftables")
def test_a_container_that_does_not_run_is_a_missing_device(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    host = scene.hosts[0]
    name = f"{host.netns}-none"
    path = declare(scene, name)
    done = applied(scene, path)
    assert f"note: no such device: {DEVICE} (port port9; there is no network namespace {name}); the port has no network" in done.stderr
    (missing,) = json.loads(applied(scene, path, "--json").stdout)["missing"]
    assert missing["elsewhere"] == {"netns": name, "why": "no_namespace"}
    strict = applied(scene, path, "--strict", expect=1)
    assert f"there is no network namespace {name}" in strict.stderr
    scene.apply(scene.hosts[1])
    traffic.ping(scene.guests[0].ns, scene.guests[1].v4)
    # Its name is closed before it comes.
    assert port_state(host) == "missing" and guarded(host)
    guest = container(lab, scene)
    os.symlink(f"/run/netns/{guest.ns.name}", f"/run/netns/{name}")
    lab.defer(os.unlink, f"/run/netns/{name}")
    dry = applied(scene, path, "--dry-run").stdout
    assert f"+ device {DEVICE} (taken from network namespace {name})" in dry and "its device is there" in dry
    status = overlane("status", "--host", host.name, expect=1).stdout
    assert f"device {DEVICE} (taken from network namespace {name})" in status
    scene.apply()
    traffic.ping(guest.ns, scene.guests[1].v4)


@pytest.mark.parametrize("netns, why", [
    ("/etc/passwd", "/etc/passwd is not a network namespace"),
    ("/proc/self/ns/mnt", "/proc/self/ns/mnt is not a network namespace"),
    (4194304, "there is no network namespace of process 4194304"),
    ("/run/netns", "/run/netns is not a network namespace"),
])
def test_what_is_no_namespace_is_said(lab, netns, why):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    done = applied(scene, declare(scene, netns))
    assert f"{DEVICE} (port port9; {why})" in done.stderr
    assert "applied" in done.stdout


def test_the_host_has_a_device_of_that_name(lab):
    """It is the port's, as without `netns`."""
    scene = Scene(lab, GENEVE, guests=(1, 1))
    guest, host = container(lab, scene), scene.hosts[0]
    host.ns.ip(f"link add {DEVICE} type veth peer name other", f"link set {DEVICE} up")
    applied(scene, declare(scene, guest.ns.name))
    assert DEVICE in guest.ns.links() and port_state(host) != "missing"


def test_a_namespace_in_the_file_that_is_the_hosts(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    done = applied(scene, declare(scene, scene.hosts[0].netns))
    assert f"no such device: {DEVICE} (port port9); " in done.stderr


@pytest.mark.parametrize("up", [True, False])
def test_a_failing_apply_puts_the_device_back(lab, up):
    """A bridge cannot leave its namespace, and its name is behind that of the other one."""
    scene = Scene(lab, GENEVE, guests=(1, 1))
    guest, host = container(lab, scene), scene.hosts[0]
    guest.ns.ip("link add zbridge type bridge", f"link set {DEVICE} {'up' if up else 'down'}")
    declare(scene, guest.ns.name, "zbridge", 10)
    path = declare(scene, guest.ns.name)

    def there():
        devices = state.devices(guest.ns)
        wait_until(lambda: state.devices(guest.ns) == devices or devices.update(state.devices(guest.ns)),
                   what="the carrier")
        return devices

    before = state.snapshot(host.ns, host.name), there()
    done = applied(scene, path, expect=1)
    assert f"cannot take device zbridge of port port10 from network namespace {guest.ns.name}: " in done.stderr
    wait_until(lambda: state.devices(guest.ns) == before[1], what="the device to be as it was")
    assert state.changed(before[0], state.snapshot(host.ns, host.name)) == {}


def test_a_namespace_that_changes_in_the_file_loses_no_packet(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    guest, host = container(lab, scene), scene.hosts[0]
    declare(scene, guest.ns.name)
    scene.apply()
    traffic.ping(guest.ns, scene.guests[1].v4)
    kept = [state.tables(host.name), state.pins(host.name), state.tcx_programs(host.ns, DEVICE)]
    del scene.fabric.data["ports"]["port9"]
    path = declare(scene, 4711)
    count = 200
    ping = guest.ns.popen(["ping", "-n", "-q", "-i", "0.01", "-c", count, scene.guests[1].v4], stdout=-1, text=True)
    done = applied(scene, path)
    assert f"netns {guest.ns.name} → 4711" in done.stdout and "1 change" in done.stdout
    assert f"{count} received" in ping.communicate(timeout=60)[0]
    assert kept[1:] == [state.pins(host.name), state.tcx_programs(host.ns, DEVICE)]


def test_nothing_of_the_namespace_is_kept(lab):
    """It ends with its last process, and takes the guest's end along."""
    scene = Scene(lab, GENEVE, guests=(1, 1))
    guest, host = container(lab, scene), scene.hosts[0]
    process = lab.spawn(guest.ns, ["sleep", "1000"])
    applied(scene, declare(scene, process.pid))
    assert DEVICE in host.ns.links()
    guest.ns.run(f"ip netns delete {guest.ns.name}")
    assert DEVICE in host.ns.links() and Path(f"/proc/{process.pid}").exists()
    stop(process)
    wait_until(lambda: DEVICE not in host.ns.links(), what="the device to go")
