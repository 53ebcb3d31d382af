"""`overlane mtu`: mistakes that are really set on devices and routes are found, where they are, with what to do."""

import contextlib
import json
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

import pytest

import traffic
from net import run, veth
from overlane import GENEVE, PINS, VXLAN, binary, overlane
from test_apply_errors import NO_CAPABILITIES
from test_mtu import UDP_SEGMENT
from topology import UPLINK, Scene, guest_mtu

pytestmark = pytest.mark.needs_overlane

WRONG = 3
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def scene(lab):
    return Scene(lab, VXLAN, 4).apply()


class Audit:
    """What the command says of hosts of a scene, of all if none is named."""

    def __init__(self, scene, *words, expect=WRONG, hosts=(), prefix=()):
        file = scene.lab.directory / "fabric.yaml"
        named = [word for host in hosts or scene.hosts for word in ("--host", host.name)]
        done = overlane("mtu", file, *named, *words, "--json", expect=expect, prefix=prefix)
        self.all = json.loads(done.stdout)
        self.findings = self.all["findings"]

    def places(self):
        return [(each["severity"], each["place"], each["what"]) for each in self.findings]

    def only(self, place, what, says, remedy, severity="wrong"):
        """There is one finding, and this is it."""
        assert self.places() == [(severity, place, what)], self.findings
        found = self.findings[0]
        assert says in found["says"] and remedy in found["remedy"], found
        return found


def test_a_sound_scene_has_no_finding_and_all_its_facts(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family).apply()
    audit = Audit(scene, expect=0)
    assert audit.findings == []
    assert [host["missing"] for host in audit.all["hosts"]] == [[], []]
    fits = guest_mtu(encapsulation, family)
    assert [each["guest_mtu"] for each in audit.all["tunnels"]] == [fits, fits]
    one = audit.all["hosts"][0]
    assert (one["uplink"]["mtu"], one["uplink"]["mtu_at_apply"]) == (1500, 1500)
    port = one["ports"][0]
    assert (port["mtu"], port["peer_mtu"], port["untold"]) == (1500, fits, 0)
    assert one["routes"] == [{"remote": scene.hosts[1].name, "device": UPLINK, "mtu": None, "learned": False}]
    text = overlane("mtu", lab.directory / "fabric.yaml").stdout
    assert "nothing is wrong" in text and f"DEVICES OF {scene.hosts[1].name}" in text


def test_guests_that_are_too_large(scene):
    guest = scene.guests[0]
    guest.ns.ip("link set eth0 mtu 1500")
    host = scene.hosts[0]
    Audit(scene).only("guests", "switch blue", "port1 has MTU 1500, and 1450 fit",
                      f"on {host.name}: ip -n {host.netns} link set {guest.device} mtu 1450")
    text = overlane("mtu", scene.lab.directory / "fabric.yaml", expect=WRONG).stdout
    assert "wrong: guests of" in text and "1 wrong, 0 wasteful" in text


def test_guests_that_are_needlessly_small(scene):
    for guest in scene.guests:
        guest.ns.ip("link set eth0 mtu 1300")
    audit = Audit(scene, expect=0)
    audit.only("guests", "switch blue", "MTU 1300, and 1450 fit", "set 1450", severity="wasteful")


def test_guests_of_one_switch_that_differ(scene):
    scene.guests[1].ns.ip("link set eth0 mtu 1300")
    # The one host knows nothing of the other's guests.
    assert Audit(scene, hosts=scene.hosts[:1], expect=0).findings == []
    Audit(scene).only("guests", "switch blue", "port2 on", "mtu 1450")


def test_the_guests_end_is_larger_than_the_hosts(scene):
    host, guest = scene.hosts[0], scene.guests[0]
    host.ns.ip(f"link set {guest.device} mtu 1450")
    guest.ns.ip("link set eth0 mtu 1500")
    Audit(scene).only("virtual_switch", "port port1", "guest's end has MTU 1500", f"link set {guest.device} mtu 1500")


def test_an_uplink_that_somebody_lowers(scene):
    one, two = scene.hosts
    one.ns.ip(f"link set {UPLINK} mtu 1400")
    places = Audit(scene).places()
    assert ("wrong", "vtep", UPLINK) in places, "not as when it was applied"
    assert ("wrong", "vtep", "uplinks") in places, "unlike the other host's"
    assert ("wrong", "guests", "switch blue") in places
    other = Audit(scene, hosts=[two])
    # Its own cable leads to the smaller one.
    other.only("physical_switches", f"the other end of {UPLINK}", "its other end takes 1400", "mtu 1400")


def test_what_one_host_knows_goes_to_the_other_in_a_file(scene):
    one, two = scene.hosts
    two.ns.ip(f"link set {UPLINK} mtu 9000")
    fabric, file = scene.lab.directory / "fabric.yaml", scene.lab.directory / "two.json"
    alone = overlane("mtu", fabric, "--host", two.name, "--json", expect=WRONG)
    file.write_text(alone.stdout)
    done = overlane("mtu", fabric, "--host", one.name, "--with", file, "--json", expect=WRONG)
    found = [each["what"] for each in json.loads(done.stdout)["findings"]]
    assert "uplinks" in found, found
    file.write_text("{}")
    done = overlane("mtu", fabric, "--with", file, expect=2)
    assert "not what `overlane mtu --json` prints" in done.stderr


def test_what_lies_below_the_uplink(lab):
    """The uplink is a bridge. Nothing is applied: this machine is to become the host."""
    scene = Scene(lab, GENEVE, 4)
    host, bridge = scene.hosts[0], "br0"
    host.ns.ip(f"address flush dev {UPLINK}", f"link add {bridge} type bridge", f"link set {UPLINK} master {bridge}",
               f"link set {bridge} mtu 1500 up")
    scene.fabric.data["hosts"][host.name]["uplink"] = bridge
    scene.fabric.write(lab.directory / "fabric.yaml")
    sound = Audit(scene, "--netns", host.netns, hosts=[host], expect=0)
    assert sound.findings == []
    below = sound.all["hosts"][0]["below"]
    assert below == [{"device": UPLINK, "mtu": 1500, "above": bridge, "kind": "bridge"}]
    host.ns.ip(f"link set {UPLINK} mtu 1400", f"link set {bridge} mtu 1500")
    Audit(scene, "--netns", host.netns, hosts=[host]).only(
        "vtep", UPLINK, f"below the bridge {bridge}, takes 1400", f"link set {UPLINK} mtu 1500")


def test_routes_to_the_other_vtep(scene):
    one, two = scene.hosts
    one.ns.ip(f"route add {two.address}/32 dev {UPLINK} mtu 1400")
    Audit(scene).only("vtep", f"path to {two.name}", "has MTU 1400", f"link set {UPLINK} mtu 1400")
    one.ns.ip(f"route del {two.address}/32 dev {UPLINK}", "link add other0 type veth peer name other1",
              "link set other1 up", "link set other0 up",
              f"route add {two.address}/32 dev other0")
    Audit(scene).only("vtep", f"route to {two.name}", "leave by other0", f"by {UPLINK}")


def test_a_router_on_the_way_that_told_the_kernel(lab):
    """h1 ── 1500 ── router ── 1400 ── h2: a ping is told, and the kernel remembers."""
    scene = Scene(lab, GENEVE, 4)
    one, two = scene.hosts
    router = lab.namespace("r")
    for host, device, network in ((one, "left", 198), (two, "right", 199)):
        host.ns.ip(f"link del {UPLINK}") if host is one else None
        veth(host.ns, UPLINK, router, device)
        host.address = f"198.18.{network}.1"
        host.ns.ip(f"address add {host.address}/24 dev {UPLINK}", f"link set {UPLINK} up")
        router.ip(f"address add 198.18.{network}.254/24 dev {device}", f"link set {device} up")
        host.ns.ip(f"route add default via 198.18.{network}.254")
        scene.fabric.data["hosts"][host.name]["underlay"] = host.address
    router.sysctl("net.ipv4.ip_forward", 1)
    router.ip("link set right mtu 1400")
    scene.fabric.write(lab.directory / "fabric.yaml")
    Audit(scene, "--netns", one.netns, hosts=[one], expect=0)
    assert traffic.pings(one.ns, two.address, size=1472, timeout=0.3) == 0
    Audit(scene, "--netns", one.netns, hosts=[one]).only(
        "physical_switches", f"path to {two.name}", "told the kernel", "frames of 1518 bytes")


@pytest.mark.needs("bpftool")
def test_a_path_mtu_that_the_data_path_knows(scene):
    one, two = scene.hosts
    (maps,) = (PINS / one.name).glob("maps-*")
    until = int(time.clock_gettime(time.CLOCK_MONOTONIC)) + 500
    hop = bytes(10) + b"\xff\xff" + bytes((198, 18, 0, 99))
    for seconds, expect in ((until, WRONG), (1, 0)):
        value = struct.pack("=II", 1400, seconds) + hop
        run(["bpftool", "map", "update", "pinned", maps / "path_mtus", "key", "1", "0", "0", "0",
             "value", *value])
        audit = Audit(scene, expect=expect)
        if expect == 0:
            assert audit.findings == [], "it no longer counts"
            continue
        audit.only("physical_switches", f"path to {two.name}", "198.18.0.99 said so", "behind 198.18.0.99 carry 1500")
        text = overlane("mtu", scene.lab.directory / "fabric.yaml", "--host", one.name, expect=WRONG).stdout
        assert "198.18.0.99" in text and f"PATHS OF {one.name}" in text


def test_what_guests_have_sent(scene):
    near, far = scene.guests

    def port():
        host = Audit(scene, hosts=scene.hosts[:1], expect=None).all["hosts"][0]
        return host["ports"][0], host["pkt_too_big"]

    seen, too_big = port()
    assert seen["longest"] < 200 and too_big == 0, "at most what IPv6 says by itself"
    traffic.ping(near.ns, far.v4, size=972)
    assert port()[0]["longest"] == 1000
    with traffic.udp_socket(far.ns, far.v4, 5300) as into, traffic.udp_socket(near.ns, near.v4) as out:
        out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1172)
        out.sendto(traffic.payload(20 * 1172, 1172), (far.v4, 5300))
        assert len(into.recv(65535)) == 1172
    seen, too_big = port()
    assert (seen["longest"], seen["longest_segment"], too_big) == (1200, 1200, 0)
    near.ns.ip("link set eth0 mtu 1500")
    assert traffic.pings(near.ns, far.v4, size=1472, timeout=0.3) == 0
    seen, too_big = port()
    assert (seen["longest"], seen["longest_segment"], too_big) == (1500, 1200, 1)
    text = overlane("mtu", scene.lab.directory / "fabric.yaml", expect=WRONG).stdout
    assert "Too large since apply: 1 packets (pkt_too_big)." in text


def test_legs_and_helpers(lab):
    scene = Scene(lab, GENEVE, 4)
    host = scene.hosts[0]
    outside = lab.namespace("x")
    veth(host.ns, "leg0", outside, "eth0")
    host.ns.ip("link set leg0 up")
    outside.ip("link set eth0 up")
    scene.fabric.data["routers"] = {"core": {
        "interfaces": {"blue": ["198.18.100.254/24"]},
        "gateway": {"host": host.name, "device": "leg0", "addresses": ["198.19.0.2/24"]}}}
    scene.apply()
    assert Audit(scene, expect=0).findings == []
    host.ns.ip("link set leg0 mtu 1400")
    found = Audit(scene)
    assert found.places() == [("wrong", "routers", "router core"), ("wasteful", "routers", "router core")]
    host.ns.ip("link set leg0 mtu 1500", "link set ovl-seg0 mtu 1500")
    Audit(scene).only("virtual_switch", "ovl-seg0", "has 1500", f"overlane apply FILE --host {host.name}")


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("prefix", [NO_CAPABILITIES, NOBODY], ids=["no capability", "nobody"])
def test_without_rights_there_is_the_arithmetic_and_what_is_missing(scene, prefix):
    with public_folder() as folder:
        program, file = folder / "overlane", folder / "fabric.yaml"
        shutil.copy(binary(), program)
        shutil.copy(scene.lab.directory / "fabric.yaml", file)
        for path in (program, file):
            path.chmod(0o755)
        done = overlane("mtu", file, "--host", scene.hosts[0].name, "--json", prefix=prefix, program=program)
    said = json.loads(done.stdout)
    assert [each["guest_mtu"] for each in said["tunnels"]] == [1450, 1450]
    missing = {each["what"]: each["why"] for each in said["hosts"][0]["missing"]}
    assert "root" in missing["devices and routes"], missing
    # Root without capabilities may read the state file and the maps. Another user may read neither.
    seen = [what for what in missing if what.endswith("what the data path has seen")]
    assert (prefix == NOBODY) == bool(seen), missing


@contextlib.contextmanager
def public_folder():
    """A folder that everybody may look into."""
    with tempfile.TemporaryDirectory(prefix="ovt") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_host_of_the_file_that_is_not_here(lab):
    scene = Scene(lab, VXLAN, 4)
    fabric = scene.fabric.write(lab.directory / "fabric.yaml")
    text = overlane("mtu", fabric).stdout
    assert "no host was looked at" in text and "1450" in text
    done = overlane("mtu", fabric, "--host", "nobody", expect=2)
    assert "the fabric has no host `nobody`" in done.stderr
    done = overlane("mtu", fabric, "--host", scene.hosts[0].name, "--netns", "nowhere", expect=1)
    assert "no network namespace nowhere" in done.stderr
