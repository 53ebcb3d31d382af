"""The agent keeps a host as it is declared: whatever happens to the machine, to its file and to itself."""

import contextlib
import datetime
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time

import pytest
import yaml

import tap_vm
import traffic
from keeping import KEPT, Keeping, bring_up, make, make_again
from net import PATIENCE, run, stop, wait_until
from overlane import GENEVE, PINS, STATE, VXLAN, in_mount_namespace, overlane
from probes import Talk
from streams import Streams
from test_lossless import assert_nothing_is_lost, backlog_drops
from test_status import DISTURBANCES, condition, make as make_world
from topology import UPLINK, Scene, apply_host

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("nft"), pytest.mark.needs_kernel("nftables")]

#: The figures in docs/operate.md were measured with 1000.
RESTARTS = int(os.environ.get("OVERLANE_RESTARTS", "20"))
#: From `status` on, in seconds.
NOTICED = 3


def kept_scene(lab, guests=(2, 1), **options):
    """A scene whose first host is kept by an agent from its file, the others applied by hand."""
    scene = Scene(lab, GENEVE, guests=guests, **options)
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    for host in scene.hosts[1:]:
        apply_host(lab, path, host)
    return scene, Keeping(lab, scene.hosts[0], path).start(), path


def edit(path, change):
    """Another fabric takes the place of a file at once."""
    fabric = yaml.safe_load(path.read_text())
    change(fabric)
    new = path.with_name(".new")
    new.write_text(yaml.safe_dump(fabric, sort_keys=False))
    new.rename(path)


def reaches(near, far):
    return traffic.pings(near.ns, far.v4, timeout=0.3) == 1


class Listener:
    """A service of the host that no guest may reach: a guest asks it without a pause."""

    ADDRESS = "198.18.77.1"

    def __init__(self, scene, guest):
        self.guest, self.over, self.heard, self.asked = guest, threading.Event(), 0, 0
        host = scene.hosts[0].ns
        host.ip(f"address add {self.ADDRESS}/32 dev lo")
        self.service = traffic.udp_socket(host, self.ADDRESS, 7777, timeout=0.2)
        self.threads = [threading.Thread(target=it, daemon=True) for it in (self._ask, self._listen)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(10 * PATIENCE)
        self.service.close()

    def _ask(self):
        """To the MAC of whatever is at the other end: a broadcast."""
        frame = bytes.fromhex("ffffffffffff" + self.guest.mac.replace(":", "") + "0800"
                              "4500001e000040004011" "0000" "c6126401" "c6124d01" "1e611e61000a0000" "7878")
        while not self.over.is_set():
            try:
                with self.guest.ns.entered():
                    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                with sock:
                    sock.bind(("eth0", 0))
                    while not self.over.is_set():
                        sock.send(frame)
                        self.asked += 1
                        time.sleep(0.0005)
            except OSError:
                time.sleep(0.0005)

    def _listen(self):
        while not self.over.is_set():
            try:
                self.service.recv(100)
                self.heard += 1
            except OSError:
                pass


class Returns:
    """When frames of a guest reach another one again, from the kernel's first event of the guest's new device on."""

    SO_TIMESTAMPNS = 35

    def __init__(self, lab, near, far):
        self.near, self.log = near, lab.directory / "links"
        self.first_frames = []
        with far.ns.entered():
            self.frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self.frames.bind(("eth0", 0))
        self.frames.setsockopt(socket.SOL_SOCKET, self.SO_TIMESTAMPNS, 1)
        self.frames.settimeout(5 * PATIENCE)
        with open(self.log, "wb") as log:
            self.monitor = near.host.ns.popen(["ip", "-tshort", "-oneline", "monitor", "link"], stdout=log)
        lab.defer(stop, self.monitor)
        wait_until(self._is_monitored, what="the monitor to listen")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.monitor)
        self.frames.close()

    def _is_monitored(self):
        return f" {self.monitor.pid} " in self.near.host.ns.run("cat /proc/net/netlink").stdout

    def restart(self):
        self.near.host.ns.ip(f"link delete {self.near.device}")
        deleted = time.time()
        make(self.near)
        while (at := self._frame()) < deleted:
            pass
        self.first_frames.append(at)

    def _frame(self):
        """When the kernel had the next frame of the guest."""
        while True:
            frame, ancillary, _, _ = self.frames.recvmsg(200, 100)
            if frame[6:12] == bytes.fromhex(self.near.mac.replace(":", "")):
                seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
                return seconds + nanoseconds / 1e9

    def taken_ms(self):
        """One figure per restart."""
        firsts, is_awaited = [], False
        for line in self.log.read_text().splitlines():
            stamp, _, event = line.lstrip("[").partition("] ")
            words = event.removeprefix("Deleted ").split()
            if words[1].split("@")[0].rstrip(":") != self.near.device:
                continue
            is_gone = event.startswith("Deleted ")
            if is_awaited and not is_gone:
                firsts.append(datetime.datetime.fromisoformat(stamp).timestamp())
            is_awaited = is_gone
        assert len(firsts) == len(self.first_frames)
        return [(frame - first) * 1e3 for first, frame in zip(firsts, self.first_frames)]


def test_restarted_containers_work_again_and_nobody_else_notices(lab):
    scene, agent, _ = kept_scene(lab)
    near, other, far = scene.guests
    traffic.ping(other.ns, far.v4)
    drops = backlog_drops(scene)
    with Listener(scene, near) as listener, traffic.PacedUdp(other.ns, other.v4, far.ns, far.v4) as out, \
            traffic.PacedUdp(far.ns, far.v4, other.ns, other.v4, port=5204) as back, Returns(lab, near, far) as returns:
        for _ in range(RESTARTS):
            returns.restart()
        out.finish()
        back.finish()
    assert listener.heard == 0
    assert_nothing_is_lost(scene, out, back, drops)
    assert listener.asked > RESTARTS
    assert agent.is_whole(), agent.status()[1]["rows"]
    taken = sorted(returns.taken_ms())
    print(f"{RESTARTS} restarts, from the first event of the new device to its first frame at another guest: "
          f"median {statistics.median(taken):.1f} ms, worst {taken[-1]:.1f} ms")


def test_a_virtual_machine_that_is_started_again_works_again(lab):
    """Its TAP goes with its process, and the next process makes one of the same name."""
    scene, agent, _ = kept_scene(lab)
    near, _, far = scene.guests
    scene.hosts[0].ns.ip(f"link delete {near.device}")
    for number in range(3):
        machine = tap_vm.start(lab, near.host.ns, near.device, near.ns)
        bring_up(near)
        wait_until(lambda: reaches(near, far), what=f"start {number} to be over")
        machine.kill()
        machine.wait()
    wait_until(lambda: not agent.is_whole(), what="the port to be missed")


def test_a_container_that_stays_away_is_awaited(lab):
    scene, agent, _ = kept_scene(lab)
    near, other, far = scene.guests
    scene.hosts[0].ns.ip(f"link delete {near.device}")
    wait_until(lambda: not agent.is_whole(), what="the port to be missed")
    rows = agent.status()[1]["rows"]
    (missing,) = [row for row in rows if row["note"] == "missing_device"]
    assert missing["object"] == "port" and missing["since"]
    time.sleep(0.5)
    make(near)
    wait_until(lambda: reaches(near, far), what="the port to work again")
    wait_until(agent.is_whole, what="the host to be whole")


@pytest.mark.parametrize("encapsulation", [GENEVE])
def test_each_disturbance_is_mended_or_named(lab, encapsulation):
    world = make_world(lab, encapsulation)
    agent = Keeping(lab, world.host, world.path).start()
    wait_until(agent.is_whole, what="the host to be whole")
    for disturbance in DISTURBANCES:
        before = len(agent.mended())
        disturbance.do(world)
        object_, what = disturbance.row
        deadline = time.monotonic() + NOTICED * PATIENCE
        while True:
            # First: rows are then those that are left.
            mended = agent.mended()[before:]
            _, found = agent.status()
            rows = [row for row in found["rows"] if row["object"] == object_
                    and (row["note"] == what or what in condition(row))]
            if mended or rows and all(row["since"] for row in rows):
                break
            assert time.monotonic() < deadline, (disturbance.what, found["rows"])
            time.sleep(0.05)
        if disturbance.mend:
            disturbance.mend(world)
        elif rows:
            for row in rows:
                if row["remedy"] and row["remedy"].startswith("ip "):
                    run(row["remedy"].split())
        wait_until(agent.is_whole, what=f"the end of: {disturbance.what}")


def test_a_file_with_a_mistake_changes_nothing(lab):
    scene, agent, path = kept_scene(lab)
    near, other, far = scene.guests
    good = path.read_text()
    for garbage in ("", "ports: [\n", "version: 1\nhosts: {}\n", good.replace("vni: 5001", "vni: 5001\n    vnn: 1"),
                    "\x00\xff", good.replace(scene.hosts[0].name, "nobody")):
        path.write_bytes(garbage.encode("latin-1"))
        wait_until(lambda: agent.view()["mistakes"], what=f"a mistake in {garbage[:20]!r}")
        code, found = agent.status()
        (row,) = [row for row in found["rows"] if row["note"] == "mistakes"]
        assert code == 1 and str(path) in row["what"] and row["since"], row
        assert reaches(near, far)
        path.write_text(good)
        wait_until(lambda: not agent.view()["mistakes"], what="the mistake to be mended")
    view = agent.view()
    assert view["attempted"]["number"] == view["applied"]["number"] == 1
    path.unlink()
    wait_until(lambda: agent.view()["mistakes"], what="the file to be missed")
    assert reaches(near, far)


def test_it_follows_links_that_are_swapped_and_files_that_are_replaced(lab):
    scene = Scene(lab, VXLAN, guests=(1, 1))
    folder = lab.directory / "config"
    for version in ("v1", "v2"):
        (folder / version).mkdir(parents=True)
        scene.fabric.write(folder / version / "fabric.yaml")
    (folder / "..data").symlink_to("v1")
    (folder / "fabric.yaml").symlink_to("..data/fabric.yaml")
    agent = Keeping(lab, scene.hosts[0], folder / "fabric.yaml").start()
    edit(folder / "v2" / "fabric.yaml", lambda fabric: fabric["switches"]["blue"].update(unknown_unicast="flood"))
    time.sleep(0.3)
    assert agent.view()["attempted"]["number"] == 1
    (folder / "..new").symlink_to("v2")
    (folder / "..new").rename(folder / "..data")
    wait_until(lambda: agent.view()["applied"]["number"] == 2, what="the swapped link")
    # As an editor saves: written beside, renamed over it.
    edit(folder / "v2" / "fabric.yaml", lambda fabric: fabric["switches"]["blue"].update(unknown_unicast="drop"))
    wait_until(lambda: agent.view()["applied"]["number"] == 3, what="the replaced file")
    # In place.
    text = (folder / "v2" / "fabric.yaml").read_text()
    (folder / "v2" / "fabric.yaml").write_text(text.replace("unknown_unicast: drop", "unknown_unicast: flood"))
    wait_until(lambda: agent.view()["applied"]["number"] == 4, what="the written file")


def many_ports(path, host, count, prefix="x", first=0):
    ports = {f"{prefix}{number}": {"switch": "blue", "host": host.name, "device": f"{prefix}{number}",
                                   "mac": f"02:00:00:01:{number >> 8:02x}:{number & 255:02x}"}
             for number in range(first, first + count)}
    path.write_text(yaml.safe_dump({"ports": ports}))
    return ports


def test_a_change_that_nobody_wrote_is_held(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    host, folder = scene.hosts[0], lab.directory / "fabric"
    folder.mkdir()
    scene.fabric.write(folder / "10-base.yaml")
    more = folder / "20-more.yaml"
    many_ports(more, host, 12)
    agent = Keeping(lab, host, folder).start()
    near, far = scene.guests
    wait_until(lambda: agent.view()["applied"], what="the folder to be applied")
    text = more.read_text()
    more.unlink()
    wait_until(lambda: agent.view()["held"], what="the change to be held")
    assert (agent.view()["held"]["ports"], agent.view()["held"]["of"]) == (12, 13)
    code, found = agent.status()
    (row,) = [row for row in found["rows"] if row["note"] == "held"]
    assert code == 1 and row["remedy"] == f"overlane agent accept --host {host.name}"
    refused = overlane("apply", "--host", host.name, expect=1).stderr
    assert "held" in refused and "accept" in refused
    # It comes back: nothing is held any more.
    more.write_text(text)
    wait_until(lambda: not agent.view()["held"], what="the change to be taken back")
    # Few may go, and so may many whose file was written.
    many_ports(more, host, 1)
    wait_until(lambda: agent.view()["applied"]["number"] == 2, what="the written change")
    many_ports(more, host, 12)
    wait_until(lambda: agent.view()["applied"]["number"] == 3, what="the ports to be back")
    more.unlink()
    wait_until(lambda: agent.view()["held"], what="the change to be held again")
    agent.kill()
    # It survives the agent, too: what is kept is what was accepted.
    agent.start()
    wait_until(lambda: agent.view()["held"], what="the change to be held after a restart")
    assert "applied" in overlane("agent", "accept", "--host", host.name).stdout
    assert not agent.view()["held"]
    assert len(ports_of(host)) == 1
    # Nothing left at all takes everything away, when a person says so.
    many_ports(more, host, 12)
    wait_until(lambda: len(ports_of(host)) == 13, what="the ports to be back")
    shutil.move(folder, lab.directory / "away")
    folder.mkdir()
    wait_until(lambda: agent.view()["held"] or agent.view()["mistakes"], what="the empty folder")
    shutil.rmtree(folder)
    shutil.move(lab.directory / "away", folder)
    wait_until(lambda: not agent.view()["held"] and not agent.view()["mistakes"], what="the folder to be back")
    assert len(ports_of(host)) == 13
    assert "nothing is held" in overlane("agent", "accept", "--host", host.name, expect=1).stderr


def ports_of(host):
    return json.loads((STATE / f"{host.name}.json").read_text())["tables"]["ports"]


def test_one_bad_object_stops_no_other(lab):
    scene, agent, path = kept_scene(lab)
    near, other, far = scene.guests
    host = scene.hosts[0].ns
    host.ip(f"link delete {near.device}", f"tuntap add {near.device} mode tun", f"link set {near.device} up")
    wait_until(lambda: agent.view()["failing"], what="the port to fail")
    (failing,) = agent.view()["failing"]
    assert (failing["object"], failing["name"]) == ("port", "port1") and "Ethernet" in failing["reason"]
    assert reaches(other, far)
    make_again(other)
    wait_until(lambda: reaches(other, far), what="the other port to work")
    code, found = agent.status()
    assert code == 1 and any(row["note"] == "failed" and row["since"] for row in found["rows"])
    wait_until(lambda: agent.view()["failing"][0]["tries"] >= 2, what="another try")
    host.ip(f"link delete {near.device}")
    make(near)
    wait_until(lambda: reaches(near, far), what="the port to work")
    assert agent.view()["failing"] == []
    # What the file forgets is forgotten.
    host.ip(f"link delete {near.device}", f"tuntap add {near.device} mode tun")
    wait_until(lambda: agent.view()["failing"], what="the port to fail again")
    edit(path, lambda fabric: fabric["ports"].pop("port1"))
    wait_until(lambda: agent.view()["failing"] == [], what="the port to be forgotten")


def test_guests_of_a_host_reach_each_other_without_the_uplink(lab):
    scene, agent, _ = kept_scene(lab)
    near, other, far = scene.guests
    host, remote = (each.ns for each in scene.hosts)
    host.ip(f"link delete {UPLINK}")
    wait_until(lambda: not agent.is_whole(), what="the uplink to be missed")
    make_again(near)
    wait_until(lambda: reaches(near, other), what="neighbours to reach each other")
    host.ip(f"link add {UPLINK} type veth peer name {UPLINK} netns {remote.name}")
    scene.underlay._configure(scene.hosts[0])
    scene.underlay._configure(scene.hosts[1])
    apply_host(lab, lab.directory / "fabric.yaml", scene.hosts[1])
    wait_until(lambda: reaches(near, far), what="the uplink to work again")
    wait_until(agent.is_whole, what="the host to be whole")


def test_after_a_reboot_the_host_is_whole_without_its_source(lab):
    scene, agent, path = kept_scene(lab)
    near, other, far = scene.guests
    agent.end()
    forget(scene.hosts[0])
    path.rename(path.with_name("away"))
    agent.start()
    wait_until(lambda: reaches(near, far), what="the host to be whole")
    assert agent.view()["mistakes"]
    assert agent.view()["applied"]["number"] == 1
    path.with_name("away").rename(path)
    wait_until(lambda: not agent.view()["mistakes"], what="the source to be back")


def forget(host):
    """What a reboot takes: pins, devices of ours, the guard, and the state file. Not what is kept."""
    kept = KEPT / f"{host.name}.json"
    text = kept.read_bytes()
    overlane("remove", "--host", host.name, "--netns", host.netns)
    kept.write_bytes(text)
    assert not (STATE / f"{host.name}.json").exists() and not (PINS / host.name).exists()


def test_a_full_disk_stops_nothing(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    apply_host(lab, path, scene.hosts[1])
    KEPT.mkdir(mode=0o700, exist_ok=True)
    full = in_mount_namespace(f"mount -t tmpfs -o size=4k,mode=700 none {KEPT}; "
                              f"dd if=/dev/zero of={KEPT}/all bs=4096 count=1 2>/dev/null")
    agent = Keeping(lab, scene.hosts[0], path, prefix=full).start()
    near, far = scene.guests
    wait_until(lambda: reaches(near, far), what="the host to be whole")
    assert "space" in agent.view()["not_kept"]["error"]
    code, found = agent.status()
    assert code == 1 and any(row["note"] == "not_kept" for row in found["rows"])
    make_again(near)
    wait_until(lambda: reaches(near, far), what="the port to work again")
    run(["nsenter", "-m", "-t", str(agent.process.pid), "rm", f"{KEPT}/all"])
    run(["nsenter", "-m", "-t", str(agent.process.pid), "mount", "-o", "remount,size=1m", str(KEPT)])
    make_again(near)
    wait_until(lambda: not agent.view()["not_kept"], what="the state to be kept")


#: A machine's worth of mounts, with a BPF file system that is no other program's.
OWN_BPFFS = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             f'mount -t bpf bpf {PINS.parent}; exec "$@"', "sh")


#: It is busy while the agent reads there.
UNMOUNT = f"n=0; until umount {PINS.parent}; do n=$((n + 1)); [ $n -lt 50 ]; sleep 0.1; done"


def test_a_bpffs_that_is_mounted_anew_is_filled_again(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    apply_host(lab, path, scene.hosts[1])
    agent = Keeping(lab, scene.hosts[0], path, prefix=OWN_BPFFS).start()
    lab.defer(agent.kill)
    near, far = scene.guests

    def mount(script):
        pid = str(agent.process.pid)
        run(["nsenter", "-m", f"--pid=/proc/{pid}/ns/pid_for_children", "-t", pid, "sh", "-ec", script])

    wait_until(lambda: reaches(near, far), what="the host to be whole")
    # The links end with the file system that they were pinned in.
    mount(f"{UNMOUNT}; mount -t bpf bpf {PINS.parent}")
    wait_until(lambda: reaches(near, far), what="the data path to be attached again")
    assert any("attached to its device again" in line for line in agent.mended())
    # They live on in one that another hides. Nobody may attach the same beside them.
    mount(f"mount -t bpf bpf {PINS.parent}")
    wait_until(lambda: agent.view()["failed"], what="the agent to say so")
    assert "older data path" in agent.view()["failed"]["error"]
    assert reaches(near, far)
    mount(UNMOUNT)
    wait_until(lambda: not agent.view()["failed"], what="the agent to be content")
    assert reaches(near, far)


def test_killed_at_any_moment_it_breaks_no_connection(lab):
    scene, agent, path = kept_scene(lab, guests=(3, 1))
    near, other, spare, far = scene.guests
    traffic.ping(near.ns, far.v4)
    with contextlib.ExitStack() as stack:
        talks = [stack.enter_context(Talk(near.ns, far.ns, far.v4, port=6000 + number)) for number in range(10)]
        streams = stack.enter_context(Streams(talks))
        for number in range(10):
            make_again(spare)
            time.sleep(0.008 * number)
            agent.kill()
            agent.start()
            flood = "flood" if number % 2 else "drop"
            edit(path, lambda fabric: fabric["switches"]["blue"].update(unknown_unicast=flood))
            time.sleep(0.05 + 0.01 * number)
            agent.kill()
            agent.start()
        wait_until(lambda: reaches(spare, other), what="the restarted container to work")
    assert streams.broken == {} and min(streams.heard()) > 0
    wait_until(agent.is_whole, what="the host to be whole")


def test_the_command_line_goes_through_it(lab):
    scene, agent, path = kept_scene(lab)
    host = scene.hosts[0]
    assert "nothing differs" in overlane("apply", "--host", host.name).stdout
    assert "nothing differs" in overlane("apply", path, "--host", host.name, "--netns", host.netns).stdout
    other = lab.directory / "other.yaml"
    other.write_text(path.read_text())
    refused = overlane("apply", other, "--host", host.name, expect=1)
    assert str(path) in refused.stderr and "stop the agent" in refused.stderr
    refused = overlane("apply", path, "--host", host.name, "--netns", scene.hosts[1].netns, expect=1)
    assert f"namespace {host.netns}" in refused.stderr
    assert "stop the agent" in overlane("remove", "--host", host.name, expect=1).stderr
    again = subprocess.run([agent.program, "agent", "--host", host.name], capture_output=True, text=True, timeout=20)
    assert again.returncode == 1 and str(agent.process.pid) in again.stderr
    assert agent.end() == 0
    # Without it all is as before: its file may be applied by hand, and another one too.
    assert "nothing differs" in overlane("apply", other, "--host", host.name, "--netns", host.netns).stdout
    report = json.loads(overlane("apply", path, "--host", host.name, "--netns", host.netns, "--json").stdout)
    assert report["changes"] == []


def test_without_a_file_it_keeps_what_is_applied(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    apply_host(lab, path, scene.hosts[1])
    host = scene.hosts[0]
    agent = Keeping(lab, host).start()
    assert "nobody has said yet" in overlane("apply", "--host", host.name, expect=1).stderr
    near, far = scene.guests
    overlane("apply", path, "--host", host.name, "--netns", host.netns)
    wait_until(lambda: reaches(near, far), what="the host to be whole")
    make_again(near)
    wait_until(lambda: reaches(near, far), what="the port to work again")
    # What is refused as a whole is not kept either.
    more = lab.directory / "more.yaml"
    more.write_text(path.read_text())
    edit(more, lambda fabric: fabric["ports"].update(absent={**fabric["ports"]["port1"], "device": "absent0", "key": 99,
                                                            "mac": "02:00:00:00:ab:01", "addresses": []}))
    assert "absent0" in overlane("apply", more, "--host", host.name, "--netns", host.netns, "--strict", expect=1).stderr
    assert agent.is_whole(), agent.status()[1]["rows"]
    run([str(agent.program), "apply", "-", "--host", host.name, "--netns", host.netns],
        input=path.read_text().replace("version: 1", "version: 1\n# again"))
    agent.end()
    forget(host)
    agent.start()
    wait_until(lambda: reaches(near, far), what="the host to be whole after a reboot")


@pytest.mark.parametrize("line", ["", "{", "[]", '{"version":2,"call":"status"}', '{"version":1,"call":"stop"}',
                                  '{"version":1,"call":"apply"}', "x" * 100_000])
def test_calls_that_make_no_sense_are_refused(lab, line):
    scene, agent, _ = kept_scene(lab, guests=(1, 1))
    refused = agent.call_raw(line)["refused"]
    assert refused["code"] == 2 and refused["error"]
    assert agent.view()


def test_it_tells_the_service_manager(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(lab.directory / "notify"))
        manager.settimeout(10 * PATIENCE)
        agent = Keeping(lab, scene.hosts[0], path)
        agent.start(wait=False, NOTIFY_SOCKET=str(lab.directory / "notify"), WATCHDOG_USEC="400000")
        told = [manager.recv(100).decode()]
        while "READY=1\n" not in told:
            told.append(manager.recv(100).decode())
        # By then all is applied.
        assert (STATE / f"{scene.hosts[0].name}.json").exists()
        beats = 0
        while beats < 4:
            beats += "WATCHDOG=1" in manager.recv(100).decode()
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(10 * PATIENCE) == 0
    assert not (STATE / f"{scene.hosts[0].name}.socket").exists()


def test_many_devices_at_once_take_few_passes(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    host, count = scene.hosts[0], 200
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    ports = yaml.safe_load(path.read_text())
    many = many_ports(lab.directory / "many", host, count, "m")
    ports["ports"] |= many
    path.write_text(yaml.safe_dump(ports))
    agent = Keeping(lab, host, path).start()
    before = len(agent.view()["mended"])
    host.ns.ip(*[f"link add m{number} type veth peer name n{number}" for number in range(count)])
    wait_until(lambda: not [row for row in agent.status()[1]["rows"] if row["note"] == "missing_device"],
               timeout=60, what="all devices to be attached")
    assert len(agent.view()["mended"]) - before <= 4, agent.mended()


def test_it_takes_little_when_nothing_happens(lab):
    scene, agent, _ = kept_scene(lab)
    time.sleep(4)
    before, began = agent.cpu_s(), time.monotonic()
    time.sleep(5)
    # A figure for the reader; what is asserted is that it does not spin.
    part = (agent.cpu_s() - before) / (time.monotonic() - began)
    print(f"idle: {100 * part:.2f} % of a CPU")
    assert part < 0.2


def test_a_device_is_taken_from_the_namespace_that_the_file_names(lab):
    scene = Scene(lab, GENEVE, guests=(1, 1))
    near, far = scene.guests
    scene.fabric.data["ports"]["port1"]["netns"] = near.ns.name
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    apply_host(lab, path, scene.hosts[1])
    run(["ip", "-n", near.host.netns, "link", "delete", near.device])
    agent = Keeping(lab, scene.hosts[0], path).start()
    for _ in range(3):
        near.ns.ip(f"link add eth0 type veth peer name {near.device}",
                   f"link set eth0 address {near.mac} mtu 1400 up", f"address add {near.v4}/24 dev eth0")
        wait_until(lambda: reaches(near, far), what="the device to be taken, and to work")
        assert near.device in near.host.ns.links()
        near.ns.ip("link delete eth0")
        wait_until(lambda: near.device not in near.host.ns.links(), what="the device to be gone")
    # It holds no namespace: with its last name it goes, and the device with it.
    near.ns.ip(f"link add eth0 type veth peer name {near.device}", "link set eth0 up")
    wait_until(lambda: near.device in near.host.ns.links(), what="the device to be taken")
    run(["ip", "netns", "delete", near.ns.name])
    wait_until(lambda: near.device not in near.host.ns.links(), what="the device to go with its namespace")
    assert agent.process.poll() is None
