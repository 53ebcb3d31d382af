"""`status` names what somebody did to a host, and its remedy works. It changes nothing itself.

    guest ── p1 ┤ host │ uplink ══ underlay ══ uplink │ other host │
                │      │ phys0 ── the physical network
"""

import dataclasses
import json
import shlex
from collections.abc import Callable

import pytest

import state
from logical import LEG, Estate
from net import run, wait_until
from overlane import GENEVE, PINS, STATE, VXLAN, announcers, apply, overlane
from test_hooks import attached
from topology import UPLINK, Scene, apply_host

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("nft", "bpftool"), pytest.mark.needs_kernel("nftables")]


@dataclasses.dataclass
class World:
    """A host with a port, a leg and a remote, applied from `path`."""

    lab: object
    estate: Estate
    path: object

    @property
    def host(self):
        return self.estate.hosts[0]

    @property
    def ns(self):
        return self.host.ns

    @property
    def port(self):
        return self.estate.guests[0]


@dataclasses.dataclass
class Disturbance:
    """What somebody does, and a row that `status` must have: its object, its name, and what its condition says."""

    what: str
    do: Callable
    row: tuple
    #: What the remedy asks of a person, where it is no command.
    mend: Callable | None = None


def status(host, *words, expect=None):
    done = overlane("status", *words, "--host", host.name, "--json", expect=expect)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def remake_port(world):
    guest = world.port
    world.ns.ip(f"link add {guest.device} type veth peer name eth0 netns {guest.ns.name}",
                f"link set {guest.device} mtu 1500 up")
    guest.ns.ip("link set eth0 up")


def delete_port(world):
    world.ns.ip(f"link delete {world.port.device}")


def replace_port(world):
    delete_port(world)
    remake_port(world)


def apply_file(world):
    apply(world.path, world.host.name, world.host.netns)


def unpin(link):
    def do(world):
        (PINS / world.host.name / "links" / link.format(port=world.port.device)).unlink()
    return do


def ip(*lines):
    return lambda world: world.ns.ip(*[line.format(port=world.port.device) for line in lines])


def far_end(line):
    return lambda world: world.estate.hosts[1].ns.ip(line)


def outside(line):
    return lambda world: world.estate.outside.ns.ip(line)


def edit_state(**fields):
    def do(world):
        path = STATE / f"{world.host.name}.json"
        written = json.loads(path.read_text())
        assert fields.keys() <= written.keys()
        path.write_text(json.dumps(written | fields))
    return do


def silence_next_hop(world):
    """The remote is there and answers no question; somebody sends to it."""
    other = world.estate.hosts[1]
    other.ns.ip(f"link set {UPLINK} arp off")
    world.ns.ip(f"neigh flush dev {UPLINK}")
    run(["ip", "netns", "exec", world.host.netns, "ping", "-c", "1", "-W", "1", other.address], check=False)


def let_next_hop_speak(world):
    other = world.estate.hosts[1]
    other.ns.ip(f"link set {UPLINK} arp on")
    run(["ip", "netns", "exec", world.host.netns, "ping", "-c", "3", "-W", "1", other.address], check=False)
    apply_file(world)


def delete_entry(table):
    """One entry of a map of the host goes."""
    def do(world):
        maps = next((PINS / world.host.name).glob("maps-*")) / table
        entries = json.loads(run(["bpftool", "-j", "map", "dump", "pinned", str(maps)]).stdout)
        run(["bpftool", "map", "delete", "pinned", str(maps), "key", *entries[0]["key"]])
    return do


def lose_route(world):
    world.ns.ip(f"route delete 198.18.0.0/24 dev {UPLINK}")


def find_route(world):
    world.ns.ip(f"route add 198.18.0.0/24 dev {UPLINK} src {world.host.address}")
    apply_file(world)


DISTURBANCES = [
    Disturbance("the port's device is deleted", delete_port, ("port", "missing_device"),
                lambda world: (remake_port(world), apply_file(world))),
    Disturbance("the port's device is another one", replace_port, ("port", "other_device")),
    Disturbance("the port's device is down", ip("link set {port} down"), ("port", "port_down")),
    Disturbance("the port's program is detached", unpin("from_port-{port}"), ("port", "program is missing")),
    Disturbance("the port's MTU is lower", ip("link set {port} mtu 1300"), ("port", "lower_mtu")),
    Disturbance("the leg is down", ip(f"link set {LEG} down"), ("leg", "leg_down")),
    Disturbance("the leg's program is detached", unpin(f"from_leg-{LEG}"), ("leg", "program is missing")),
    Disturbance("the leg has no carrier", outside("link set eth0 down"), ("leg", "no_carrier"),
                outside("link set eth0 up")),
    Disturbance("the uplink has no address", lambda world: world.ns.ip(f"address flush dev {UPLINK}"),
                ("uplink", "no_address")),
    Disturbance("the uplink's MTU is lower", ip(f"link set {UPLINK} mtu 1400"), ("uplink", "lower_mtu")),
    Disturbance("the uplink's MTU is larger", ip(f"link set {UPLINK} mtu 1600"), ("uplink", "raised_mtu")),
    Disturbance("the leg's MTU is larger", ip(f"link set {LEG} mtu 1600"), ("leg", "raised_mtu")),
    Disturbance("the leg's MAC is another one", ip(f"link set {LEG} address 02:00:00:00:ee:01"), ("leg", "other_mac")),
    Disturbance("the uplink's program is detached", unpin(f"from_underlay-{UPLINK}"), ("uplink", "program is missing")),
    Disturbance("the uplink has no carrier", far_end(f"link set {UPLINK} down"), ("uplink", "no_carrier"),
                far_end(f"link set {UPLINK} up")),
    Disturbance("the guard is flushed", lambda world: world.ns.run("nft flush ruleset"), ("guard", "is missing")),
    Disturbance("the guard lost a family", lambda world: world.ns.run(
        f"nft delete table arp overlane-{world.host.name}"), ("guard", "is missing")),
    Disturbance("the next hop is not kept resolved", lambda world: world.ns.ip(
        f"neigh delete {world.estate.hosts[1].address} dev {UPLINK}"), ("next_hop", "is missing")),
    Disturbance("the next hop does not answer", silence_next_hop, ("remote", "no_answer"), let_next_hop_speak),
    Disturbance("there is no route to the remote", lose_route, ("remote", "no_route"), find_route),
    Disturbance("the segmenter is deleted", ip("link delete ovl-seg0"), ("device", "is missing")),
    Disturbance("the unmarker is down", ip("link set ovl-unm4 down"), ("device", "differs")),
    Disturbance("an FDB entry is deleted", delete_entry("fdb"), ("fdb_entry", "is missing")),
    Disturbance("an alias is cleared", ip("link set {port} alias ''"), ("device", "alias is none")),
    Disturbance("a switch is deleted from the maps", delete_entry("switches"), ("data_path", "differs")),
    Disturbance("a multicast group is left", lambda world: world.ns.ip(*[
        f"neigh delete proxy {entry['dst']} dev {LEG}" for entry in world.ns.json("neigh show proxy")][:1]),
        ("multicast_group", "is missing")),
    Disturbance("the last apply was interrupted", edit_state(in_progress=True), ("host", "apply_interrupted")),
    Disturbance("another build applied the host", edit_state(object_digest="0"), ("data_path", "other_programs")),
    Disturbance("a build with other maps applied the host", edit_state(map_signature="0"),
                ("data_path", "other_layout")),
]


def is_silent(host):
    """Nothing is left to announce: the file of an announcer is there before its process has a name, and goes with it."""
    return not announcers(host) and not list(STATE.glob(f"{host}.announce.*"))


def make(lab, encapsulation):
    estate = Estate(lab, encapsulation)
    estate.guest("front", 1)
    estate.guest("data", 2)
    estate.gateway(1, nat=[])
    estate.apply()
    return World(lab, estate, lab.directory / "fabric.yaml")


@pytest.mark.parametrize("encapsulation", [GENEVE])
def test_each_disturbance_is_named_and_its_remedy_works(lab, encapsulation):
    world = make(lab, encapsulation)
    host = world.host
    code, found = status(host)
    assert (code, found["verdict"]) == (0, "as_declared"), found["rows"]
    for disturbance in DISTURBANCES:
        disturbance.do(world)
        wait_until(lambda: carriers_are_known(host.ns), what="the kernel to say who has a carrier")
        wait_until(lambda: is_silent(host.name), timeout=30, what="the last apply's announcements to end")
        before = state.snapshot(host.ns, host.name)
        wait_until(lambda: status(host)[0] == 1, what=disturbance.what)
        _, found = status(host)
        assert state.changed(before, state.snapshot(host.ns, host.name)) == {}, disturbance.what
        where, what = disturbance.row
        rows = [row for row in found["rows"] if row["object"] == where and (row["note"] == what or what in condition(row))]
        assert rows, (disturbance.what, found["rows"])
        # What the machine has a time for says since when.
        assert (rows[0]["since"] is not None) == (what in ("no_answer", "apply_interrupted")), rows[0]
        if disturbance.mend:
            disturbance.mend(world)
        else:
            follow(rows[0])
        # A device that was down has forgotten more than its state: the next look says so.
        for _ in range(2):
            for row in status(host)[1]["rows"]:
                if row["kind"]:
                    follow(row)
        wait_until(lambda: status(host)[0] == 0,
                   what=f"the remedy of: {disturbance.what}: {[row['what'] for row in status(host)[1]['rows']]}")


def carriers_are_known(ns):
    """The kernel says up to a second later what a lost carrier makes of a device."""
    links = [link for link in ns.json("link show") if "UP" in link["flags"]]
    return all(("LOWER_UP" in link["flags"]) == (link["operstate"] in ("UP", "UNKNOWN")) for link in links)


def follow(row):
    """Does what a remedy says."""
    command = shlex.split(row["remedy"])
    if command[0] == "overlane":
        overlane(*command[1:])
    else:
        run(command)


def condition(row):
    """As `status` puts a difference into words."""
    if row["differs"]:
        return ", ".join(f"{it['what']} is {it['have']}" if it["have"] else f"{it['what']} differs"
                         for it in row["differs"])
    return {"add": "is missing", "modify": "differs", "remove": "should not be there"}.get(row["kind"], "")


def test_a_foreign_program_in_front_is_named_and_taken_off(lab):
    scene = Scene(lab, GENEVE, 4).apply()
    host = scene.hosts[0]
    with attached(host.ns, UPLINK, "foreign", before=True):
        code, found = status(host)
        row = next(row for row in found["rows"] if row["note"] == "earlier_program")
        assert code == 1 and "program foreign" in row["meaning"]
        run(shlex.split(row["remedy"]))
        assert status(host)[0] == 0


def test_a_file_that_is_not_the_applied_one(lab):
    scene = Scene(lab, VXLAN, 4).apply()
    host = scene.hosts[0]
    path = lab.directory / "fabric.yaml"
    assert status(host, path)[0] == 0
    scene.fabric.data["switches"]["blue"]["unknown_unicast"] = "flood"
    other = scene.fabric.write(lab.directory / "other.yaml")
    code, found = status(host, other)
    notes = {row["note"] for row in found["rows"]}
    assert code == 1 and "other_file" in notes
    row = next(row for row in found["rows"] if row["object"] == "switch" and row["name"] == "blue")
    # What was applied last would not help.
    assert row["remedy"] == f"overlane apply FILE --host {host.name}"
    commented = lab.directory / "commented.yaml"
    commented.write_text("# A comment moves all lines.\n" + path.read_text())
    assert status(host, commented)[0] == 0
    apply_host(lab, other, host)
    assert status(host, other)[0] == 0 and status(host, path)[0] == 1


def test_a_first_apply_that_was_interrupted_has_nothing_to_repeat(lab):
    scene = Scene(lab, VXLAN, 4).apply()
    host = scene.hosts[0]
    path = STATE / f"{host.name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"in_progress": True, "knows_tables": False}))
    code, found = status(host)
    assert (code, [row["note"] for row in found["rows"]]) == (1, ["apply_interrupted"])
    assert found["rows"][0]["remedy"] == f"overlane apply FILE --host {host.name}"
    refused = overlane("apply", "--last", "--host", host.name, expect=1).stderr
    assert "overlane apply FILE" in refused
    apply_host(lab, lab.directory / "fabric.yaml", host)
    assert status(host)[0] == 0


def test_who_cannot_tell_says_so(lab):
    scene = Scene(lab, VXLAN, 4)
    host = scene.hosts[0]
    done = overlane("status", "--host", host.name, expect=2)
    assert "is not applied" in done.stderr
    scene.apply()
    (STATE / f"{host.name}.json").write_text("{")
    done = overlane("status", "--host", host.name, expect=2)
    assert "cannot be understood" in done.stderr


def test_show_without_more_is_status(lab):
    scene = Scene(lab, VXLAN, 4).apply()
    host = scene.hosts[0]
    shown = overlane("show", "--host", host.name).stdout
    assert shown == overlane("status", "--host", host.name).stdout
    assert f"host {host.name}: as declared" in shown
    host.ns.ip(f"link set {UPLINK} down")
    said = overlane("show", "--host", host.name, expect=1).stdout
    assert f"help: run `ip -n {host.netns} link set {UPLINK} up`" in said
