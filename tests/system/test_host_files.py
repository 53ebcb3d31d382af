"""The host's own files: what `apply` leaves in /run/overlane and in the BPF file system is root's alone, nothing of
another one's is taken for it, no name on the command line leads out of them, and what is ours is found without them.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import state
import traffic
from logical import LEG, OUTSIDE4, OUTSIDE6, Estate
from net import run, wait_until
from overlane import GENEVE, PINS, STATE, VXLAN, apply, overlane, remove
from test_announcements import gateway, written
from topology import UPLINK, Scene, apply_host

pytestmark = pytest.mark.needs_overlane

NOBODY = 65534
#: Runs what follows with the umask that is its first word.
UMASK = ("sh", "-c", 'umask "$0"; exec "$@"')
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def mode(path):
    return path.lstat().st_mode & 0o7777


def files_of(host):
    return sorted(STATE.glob(f"{host.name}.*")) if STATE.exists() else []


def folders_of(host):
    return [PINS, *(each for each in [PINS / host.name, *(PINS / host.name).rglob("*")] if each.is_dir())]


def inside(folder, make, *args, **options):
    """Make something in a folder that all hosts share: the last host's `remove` may take it away at any moment."""
    def made():
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            make(*args, **options)
            return True
    wait_until(made, what=f"something in {folder}")


def closed(host):
    """All that is there is root's alone."""
    assert mode(STATE) == 0o700
    for path in files_of(host):
        assert (mode(path), path.lstat().st_uid) == (0o600, 0), path
    for folder in folders_of(host):
        assert (mode(folder), folder.lstat().st_uid) == (0o700, 0), folder


@pytest.fixture
def scene(lab):
    made = Scene(lab, VXLAN, 4)
    made.fabric.write(lab.directory / "fabric.yaml")
    lab.defer(remove, made.hosts[0].name, made.hosts[0].netns, expect=None)
    return made


def apply_first(scene, **options):
    host = scene.hosts[0]
    return apply(scene.lab.directory / "fabric.yaml", host.name, host.netns, **options)


# ── Who may use them ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", ["0000", "0077", "0777"])
def test_what_apply_leaves_is_roots_alone_whatever_the_umask(scene, umask):
    apply_first(scene, prefix=(*UMASK, umask))
    closed(scene.hosts[0])
    assert len(folders_of(scene.hosts[0])) > 4 and len(files_of(scene.hosts[0])) >= 2


@pytest.mark.alone
@pytest.mark.needs("setpriv", "flock")
def test_what_an_earlier_version_left_open_is_closed(scene):
    host = scene.hosts[0]
    apply_first(scene)
    for path in files_of(host):
        path.chmod(0o644)
    for folder in [PINS / host.name, *(PINS / host.name).iterdir()]:
        folder.chmod(0o755)
    (STATE / f"{host.name}.verifier").touch(mode=0o644)
    lock = STATE / f"{host.name}.lock"
    STATE.chmod(0o755)
    assert "nothing differs" in apply_first(scene).stdout
    closed(host)
    # Nobody can hold it any more.
    refused = run([*AS_NOBODY, "flock", "--nonblock", lock, "true"], check=False)
    assert refused.returncode != 0 and "Permission denied" in refused.stderr
    remove(host.name, host.netns)
    assert files_of(host) == [] and not (PINS / host.name).exists()


@pytest.mark.alone
@pytest.mark.needs("setpriv", "flock")
def test_who_took_the_lock_while_it_was_open_to_all_is_named(lab, scene):
    """It goes on holding it after an upgrade."""
    host = scene.hosts[0]
    apply_first(scene)
    lock = STATE / f"{host.name}.lock"
    STATE.chmod(0o755)
    lock.chmod(0o644)
    holder = subprocess.Popen([*AS_NOBODY, "flock", lock, "sleep", "1000"], start_new_session=True)
    lab.defer(holder.wait)
    lab.defer(os.killpg, holder.pid, signal.SIGKILL)
    wait_until(lambda: run(["flock", "--nonblock", lock, "true"], check=False).returncode, what="the lock to be held")
    said = remove(host.name, host.netns, expect=1).stderr
    # `flock` and the program that it began both hold it.
    assert "is locked by process " in said and "sleep 1000" in said and "help: " in said
    assert "(flock" in said or "(sleep" in said


@pytest.mark.parametrize("suffix", ["lock", "json"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "nobody's"])
def test_what_is_no_plain_file_of_roots_is_refused_by_name(lab, scene, suffix, kind):
    host, target = scene.hosts[0], lab.directory / "target"
    target.write_text("root's own")
    path = STATE / f"{host.name}.{suffix}"
    lab.defer(lambda: path.unlink(missing_ok=True))
    if kind == "link":
        inside(STATE, path.symlink_to, target)
    elif kind == "dangling link":
        inside(STATE, path.symlink_to, lab.directory / "new")
    elif kind == "pipe":
        inside(STATE, os.mkfifo, path)
    else:
        inside(STATE, path.touch)
        os.chown(path, NOBODY, NOBODY)
    before = state.devices(host.ns)
    for done in (apply_first(scene, expect=1), remove(host.name, host.netns, expect=1)):
        assert f"error: {path} is not used: it " in done.stderr and f"take {path} away" in done.stderr
    assert target.read_text() == "root's own" and not (lab.directory / "new").exists()
    assert state.devices(host.ns) == before and not (PINS / host.name).exists()


#: Runs what follows where the folder of all hosts' pins is another one: its first word.
ELSEWHERE = ("unshare", "--mount", "sh", "-ec", 'mount --bind "$0" /sys/fs/bpf/overlane; exec "$@"')
OWNED = f"it belongs to user {NOBODY}, and not to root"


@pytest.mark.parametrize("kind, why", [("nobody's", OWNED), (0o777, "others may write in it (mode 0777)"),
                                       (0o1777, "others may write in it (mode 1777)")])
@pytest.mark.needs("unshare")
def test_a_shared_folder_of_pins_that_others_may_have_filled_is_refused(lab, scene, kind, why):
    """As it is when a user makes it before root does: everybody may, in the BPF file system."""
    host, folder = scene.hosts[0], Path("/sys/fs/bpf") / f"{scene.hosts[0].name}-pins"
    folder.mkdir(mode=0o755)
    lab.defer(folder.rmdir)
    # Whoever removes the last host elsewhere takes the folder away in which nothing is.
    own = PINS / host.name
    lab.defer(run, ["find", own, "-delete"], check=False)
    inside(PINS, own.mkdir, mode=0o700)
    if kind == "nobody's":
        os.chown(folder, NOBODY, NOBODY)
    else:
        folder.chmod(kind)
    inside(STATE, (STATE / f"{host.name}.verifier").touch)
    devices = state.devices(host.ns)
    for done in (apply_first(scene, prefix=(*ELSEWHERE, folder), expect=1),
                 remove(host.name, host.netns, prefix=(*ELSEWHERE, folder), expect=1)):
        assert f"error: {PINS} is not used: {why}" in done.stderr
        assert "help: " in done.stderr and "nothing was changed" in done.stderr
    assert state.devices(host.ns) == devices and list(folder.iterdir()) == []


@pytest.mark.parametrize("part", ["", "links", "maps-0123", "ours"])
@pytest.mark.parametrize("kind, why", [("nobody's", OWNED), (0o770, "others may write in it (mode 0770)"),
                                       ("link", "it is a symbolic link")])
def test_a_folder_of_a_host_that_others_may_have_filled_is_refused(lab, scene, part, kind, why):
    host = scene.hosts[0]
    own = PINS / host.name
    path = own / part
    lab.defer(run, ["find", own, "-delete"], check=False)
    if part:
        inside(PINS, own.mkdir, mode=0o700)
    if kind == "link":
        inside(PINS, path.symlink_to, "elsewhere")
    else:
        inside(PINS, path.mkdir, mode=0o700)
        if part == "ours":
            # What a stranger wrote does not say where the host is applied.
            there = Path("/run/netns", scene.hosts[1].netns).stat()
            (path / f"netns {there.st_dev} {there.st_ino} 0").mkdir(mode=0o700)
        os.chown(path, NOBODY, NOBODY) if kind == "nobody's" else path.chmod(kind)
    devices = state.devices(host.ns)
    for done in (apply_first(scene, expect=1), remove(host.name, host.netns, expect=1)):
        assert f"error: {path} is not used: {why}" in done.stderr
        assert "help: " in done.stderr and "nothing was changed" in done.stderr
    assert state.devices(host.ns) == devices and os.path.lexists(path) and files_of(host) == []


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────

WRONG = ["../../victim/v", "..", ".hidden", "a/b", "", "a\x1b[31mb", "a\u202eb", "a b"]
COMMANDS = [
    "apply FABRIC --host {}", "announce --host {}", "remove --host {}", "capture all --host {}", "log --host {}",
    "top --once --host {}", "mtu FABRIC --host {}", "trace FABRIC --from-underlay {} --pcap FABRIC",
    *(f"show {what} --host {{}}" for what in ("ports", "switches", "learned", "neighbours", "fdb", "rules",
                                              "connections", "routes", "remotes", "counters", "drops")),
    "connections export p --host {}", "connections import p --host {}", "connections forget --all --host {}",
    "capture {}", "connections export {}", "connections import {}", "connections forget --port {}",
    "show connections --port {}", "trace FABRIC --port {} arp", "trace FABRIC --from-leg {} arp", "flows FABRIC {}",
    "apply FABRIC --host h1 --netns {}", "remove --host h1 --netns {}", "mtu FABRIC --host h1 --netns {}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_name_is_wrong_usage(lab, scene, command):
    victim = lab.directory / "victim"
    victim.mkdir()
    for suffix in ("json", "lock", "verifier", "capture", "log"):
        (victim / f"v.{suffix}").write_text("somebody's")
    # From /run/overlane, and from where namespaces have their names.
    climbing = f"../..{victim}/v"
    for wrong in [climbing, *WRONG]:
        is_netns = "--netns" in command
        if is_netns and wrong == "a b":
            continue
        words = [word.replace("FABRIC", str(lab.directory / "fabric.yaml")) for word in command.split()]
        done = overlane(*[wrong if word == "{}" else word for word in words], expect=2)
        assert done.stdout == "" and "\x1b" not in done.stderr and "\u202e" not in done.stderr
        allowed = "the name of a network namespace has 1 to 255" if is_netns else "a name has 1 to 63 letters"
        assert allowed in done.stderr or wrong == "" and "a value is required" in done.stderr, (wrong, done.stderr)
    assert {each.read_text() for each in victim.iterdir()} == {"somebody's"} and len(list(victim.iterdir())) == 5


def test_names_and_paths_in_errors_are_printed_as_they_can_be_seen(lab):
    for hidden, shown in (("\x1b[31m", r"\u{1b}[31m"), ("\u202e", r"\u{202e}"), ("\u200b", r"\u{200b}"),
                          ("\u2028", r"\u{2028}"), ("\x9b", r"\u{9b}"), ("\u00a0", r"\u{a0}")):
        path = lab.directory / f"a{hidden}b.yaml"
        done = overlane("check", path, expect=2)
        assert f"a{shown}b.yaml" in done.stderr and hidden not in done.stderr
        path.write_text(f"version: 1\nhosts: {{ 'h{hidden}': {{ underlay: 198.18.0.1, uplink: eth1 }} }}\n")
        done = overlane("check", path, expect=2)
        assert hidden not in done.stderr
        done = overlane(f"no{hidden}such", expect=2)
        assert shown in done.stderr and hidden not in done.stderr
        done = overlane("show", "ports", f"--no{hidden}such", expect=2)
        assert shown in done.stderr and hidden not in done.stderr


def test_a_namespace_that_does_not_exist_leaves_nothing_behind(scene):
    host = scene.hosts[0]
    done = overlane("remove", "--host", host.name, "--netns", "ovt-no-such-namespace", expect=1)
    assert "error: no network namespace ovt-no-such-namespace" in done.stderr
    assert files_of(host) == []


def test_what_a_failed_write_left_is_removed(lab, scene):
    """Of this version and of earlier ones."""
    host = scene.hosts[0]
    obstacle = STATE / f"{host.name}.json"
    inside(STATE, (obstacle / "full").mkdir, parents=True)
    apply_first(scene, expect=1)
    assert files_of(host) == [obstacle, STATE / f"{host.name}.lock"]
    shutil.rmtree(obstacle)
    left = ["json.new", "new", "verifier", "announce.7.new", "announce.new", "announce.7"]
    for suffix in left:
        (STATE / f"{host.name}.{suffix}").write_text("{")
    overlane("remove", "--host", host.name)
    assert files_of(host) == []


# ── What is ours without the state file ───────────────────────────────────────────────────────────

SPOILT = {
    "missing": None,
    "empty": lambda text: "",
    "cut": lambda text: text[:len(text) // 2],
    "garbage": lambda text: "\x1b]0;garbage",
    "newer": lambda text: text.replace('"schema": ', '"schema": 9', 1),
    "another": lambda text: text.replace('"host": "', '"host": "../', 1),
}


def spoil(host, how):
    path = STATE / f"{host.name}.json"
    if SPOILT[how] is None:
        path.unlink()
    else:
        path.write_text(SPOILT[how](path.read_text()))


def ours(host):
    """What nothing of the kernel shows to be ours."""
    return {"promiscuous": "PROMISC" in host.ns.link(UPLINK)["flags"], "neighbours": state.neighbours(host.ns),
            "proxies": sorted(entry["dst"] for entry in host.ns.json("neigh show proxy"))}


@pytest.fixture
def estate(lab):
    """A promiscuous uplink, managed neighbours, and groups of a leg."""
    made = Estate(lab, GENEVE)
    for number, switch in ((1, "front"), (2, "data")):
        made.guest(switch, number)
    made.switch("wire", encapsulation="vlan")
    made.guest("wire", 1)
    host = made.hosts[0]
    host.ns.ip(f"link add {LEG} type veth peer name phys1", f"link set {LEG} up", "link set phys1 up")
    made.routes(("0.0.0.0/0", OUTSIDE4), ("::/0", OUTSIDE6))
    gateway(made, 1)
    return made


@pytest.mark.parametrize("how", SPOILT)
def test_remove_takes_everything_back_without_the_state_file(lab, estate, how):
    host = estate.hosts[0]
    before = state.snapshot(host.ns, host.name), ours(host)
    path = written(estate)
    apply_host(lab, path, host)
    found = ours(host)
    assert found["promiscuous"] and found["neighbours"] and found["proxies"]
    spoil(host, how)
    # Nor does anybody say in which namespace.
    done = overlane("remove", "--host", host.name)
    assert "promiscuous mode of uplink" in done.stdout and "multicast group" in done.stdout
    assert (state.snapshot(host.ns, host.name), ours(host)) == before
    assert "nothing to remove" in overlane("remove", "--host", host.name).stdout


@pytest.mark.parametrize("how", SPOILT)
def test_apply_does_not_lose_track_without_the_state_file(lab, estate, how):
    host = estate.hosts[0]
    before = ours(host)
    path = written(estate)
    apply_host(lab, path, host)
    found = ours(host)
    spoil(host, how)
    done = apply(path, host.name, host.netns, expect=0 if how == "missing" else 1)
    if how != "missing":
        assert "help: `overlane remove`, then `overlane apply`" in done.stderr
        assert "\x1b" not in done.stderr
    assert ours(host) == found
    overlane("remove", "--host", host.name)
    assert ours(host) == before


def test_a_user_who_made_the_uplink_promiscuous_keeps_it_so(lab, estate):
    host = estate.hosts[0]
    host.ns.ip(f"link set {UPLINK} promisc on")
    path = written(estate)
    apply_host(lab, path, host)
    spoil(host, "missing")
    overlane("remove", "--host", host.name)
    assert ours(host)["promiscuous"]


# ── Time namespaces ───────────────────────────────────────────────────────────────────────────────

DAYS = 864_000
ELSEWHEN = {name: ("unshare", "--time", f"--monotonic={seconds}", f"--boottime={seconds}", "--fork")
            for name, seconds in (("later", DAYS), ("earlier", -100))}


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("when", ELSEWHEN)
def test_in_a_time_namespace_nothing_looks_older_than_it_is(lab, when):
    if not Path("/proc/self/timens_offsets").exists():
        pytest.skip("this kernel has no time namespaces")
    estate = Estate(lab, GENEVE, 4)
    near, far = estate.guest("front", 1), estate.guest("front", 2)
    estate.firewall("front", to_port="drop")
    estate.rule("echo", [far], "to_port", services=["icmp/8"])
    estate.apply()
    traffic.ping(near.ns, far.v4)
    host, prefix = estate.hosts[0], ELSEWHEN[when]

    def look(*words):
        return [json.loads(overlane(*words, "--host", host.name, prefix=each).stdout) for each in ((), prefix)]

    name = next(iter(estate.fabric.data["ports"]))
    here, there = look("connections", "export", name)
    assert len(here["connections"]) == len(there["connections"]) == 1
    here, there = look("show", "connections", "--json")
    (one,), (other,) = here["connections"], there["connections"]
    assert one["state"] == other["state"] == "established"
    assert abs(one["age_s"] - other["age_s"]) < 60
