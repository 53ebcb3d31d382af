"""A link in the middle of the underlay carries less than the uplinks: guests' TCP passes all the same."""

import json
import re
import socket
import time

import pytest

import traffic
from hops import WHOLE_MTU, HopUnderlay
from live import Live
from net import wait_until
from overlane import OVERHEAD, VXLAN, overlane, remove, show
from probes import Talk, path_mtu
from topology import UPLINK, WHOLE, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("nft")]

#: Both leave IPv6 its 1280 bytes inside.
SMALL, SMALLER = 1400, 1370
SIZE = 256 * 1024
#: Something is set wrongly, and packets are lost.
FINDINGS = 3


@pytest.fixture(params=[4, 6], ids=["inner4", "inner6"])
def inside(request):
    """Address family of the guests' packets."""
    return request.param


class Way:
    """Two hosts with a guest each, and the underlay between them."""

    def __init__(self, lab, encapsulation=VXLAN, family=4, switch=None, tunnel=None, **underlay):
        self.lab = lab
        self.underlay = HopUnderlay(lab, family, **underlay)
        self.scene = Scene(lab, encapsulation, family, underlay=self.underlay, switch=switch, tunnel=tunnel)
        self.scene.apply()
        self.file = lab.directory / "fabric.yaml"
        self.hosts = self.scene.hosts
        self.near, self.far = self.scene.guests
        self.overhead = OVERHEAD[encapsulation, family]

    def addresses(self, inside):
        return [guest.v4 if inside == 4 else guest.v6 for guest in (self.near, self.far)]

    def tcp(self, inside, size=SIZE, port=5201):
        """`size` bytes each way at once; what is too large is found out on the way."""
        near, far = self.addresses(inside)
        traffic.tcp_equal(self.near.ns, near, self.far.ns, far, size=size, timeout=30.0, port=port)

    def known(self, host=0):
        """What a host knows of the way to the other one."""
        (row,) = show("remotes", self.hosts[host].name)["remotes"]
        return row["path_mtu"]

    def probe(self, *hosts, expect=FINDINGS):
        """The report of `--probe`."""
        words = [word for host in hosts or self.hosts for word in ("--host", host.name)]
        done = overlane("mtu", self.file, "--probe", "--json", *words, expect=expect)
        return json.loads(done.stdout)

    def watch(self, host=0, interval=0.2):
        return Live(self.lab.directory, "mtu", self.file, "--watch", "--host", self.hosts[host].name,
                    "--interval", interval, "--json", name=f"watch{host}", started="watching")


def rows(report):
    """{(from, to): row} of what gets through."""
    return {(host["host"], row["remote"]): row for host in report["probes"] for row in host["remotes"]}


def says(report):
    return [finding["says"] for finding in report["findings"]]


def known_to(guest, target, mtu):
    """The kernel of a guest has been told what fits."""
    return path_mtu(guest.ns, target, mtu)


def events(live):
    return [(event["event"], event["mtu"]) for event in live.json()]


class Stuck:
    """A sender whose packets are too large: nothing that it says arrives, until somebody tells it."""

    def __init__(self, way, inside):
        near, far = way.addresses(inside)
        self.talk = Talk(way.near.ns, way.far.ns, far, source=near)
        self.got = 0

    def __enter__(self):
        self.talk.near.setblocking(False)
        self.sent = self.talk.near.send(traffic.payload(100_000))
        return self

    def __exit__(self, *_):
        self.talk.__exit__()

    def read(self, seconds):
        """What has arrived after so long."""
        self.talk.far.settimeout(0.1)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.got += len(self.talk.far.recv(1 << 20))
            except socket.timeout:
                continue
        return self.got


@pytest.mark.parametrize("wire", ["segmented", WHOLE])
def test_what_a_hop_says_reaches_the_guest(lab, encapsulation, family, inside, wire):
    """The data path learns from the router's error; the guest's kernel is told what fits inside."""
    way = Way(lab, encapsulation, family, mid=SMALL, wire=wire)
    near, far = way.addresses(inside)
    way.tcp(inside)
    fits = SMALL - way.overhead
    assert known_to(way.near, far, WHOLE_MTU - way.overhead) == fits
    assert known_to(way.far, near, WHOLE_MTU - way.overhead) == fits
    for number, host in enumerate(way.hosts):
        known = way.known(number)
        assert (known["mtu"], known["hop"]) == (SMALL, way.underlay.hop(number + 1)), host.name
        assert 0 < known["left_s"] <= 600
    (line,) = [line for line in overlane("show", "remotes", "--host", way.hosts[0].name).stdout.splitlines()
               if way.hosts[1].name in line]
    assert re.search(rf"{SMALL}, said by \S+ \d+ s ago", line), line


def test_a_black_hole_stops_tcp_until_somebody_watches(lab, encapsulation, family, inside):
    """No error gets through. What was sent before goes on by itself once the size is known."""
    way = Way(lab, encapsulation, family, mid=SMALL)
    way.underlay.silence()
    with Stuck(way, inside) as stuck:
        assert stuck.read(1.5) == 0
        assert way.known() is None
        with way.watch() as watch:
            watch.until(lambda text: '"lowered"' in text)
            wait_until(lambda: stuck.read(0.2) == stuck.sent, timeout=30, what="TCP to go on")
            assert events(watch) == [("lowered", SMALL)]
            (event,) = watch.json()
            assert event["hop"] is None and event["before"] == WHOLE_MTU
            assert event["remote"] == way.hosts[1].name
        # It ages from here on, and nobody takes it back.
        known = way.known()
        assert (known["mtu"], known["hop"]) == (SMALL, None)
        with way.watch(1):
            wait_until(lambda: way.known(1), what="the way back to be known")
            way.tcp(inside)


def test_without_path_mtu_discovery_a_watch_helps_nobody(lab, encapsulation, inside):
    """The switch tells its guests nothing: too large packets are counted, and TCP stands."""
    way = Way(lab, encapsulation, mid=SMALL, switch={"path_mtu_discovery": False})
    way.underlay.silence()
    with way.watch(), Stuck(way, inside) as stuck:
        wait_until(way.known, what="the size to be found")
        assert stuck.read(1.5) == 0


def test_the_size_goes_down_and_up_again(lab, encapsulation, family, inside):
    """After `apply`, while a watch runs, with an `apply` in between."""
    way = Way(lab, encapsulation, family)
    way.underlay.silence()
    with way.watch(0) as watch, way.watch(1) as other:
        way.tcp(inside)
        way.underlay.carry("mid", SMALL)
        for each in (watch, other):
            each.until(lambda text: '"lowered"' in text)
        way.tcp(inside, port=5301)
        way.underlay.carry("mid", 1450)
        for each in (watch, other):
            each.until(lambda text: text.count('"raised"') == 1)
        assert way.known()["mtu"] == 1450
        # The maps are others now, and what was known is in them.
        way.scene.fabric.switch("red", 5002)
        way.scene.apply()
        assert way.known()["mtu"] == 1450
        way.underlay.carry("mid", WHOLE_MTU)
        for number, each in enumerate((watch, other)):
            each.until(lambda text: text.count('"raised"') == 2)
            assert events(each) == [("lowered", SMALL), ("raised", 1450), ("raised", WHOLE_MTU)]
            assert way.known(number) is None
        way.tcp(inside, port=5401)


def test_a_watch_says_who_said_it(lab, encapsulation, family):
    """A probe is refused by the router as guests' packets are: the data path learns, and the watch leaves it that."""
    way = Way(lab, encapsulation, family, mid=SMALL)
    hop = way.underlay.hop(1)
    with way.watch() as watch:
        watch.until(lambda text: '"lowered"' in text)
        assert [event["hop"] for event in watch.json()] == [hop]
        assert (way.known()["mtu"], way.known()["hop"]) == (SMALL, hop)
        way.underlay.carry("mid", WHOLE_MTU)
        watch.until(lambda text: '"raised"' in text)
        assert events(watch) == [("lowered", SMALL), ("raised", WHOLE_MTU)]
        assert way.known() is None


def test_each_way_has_its_own_size(lab, encapsulation, family, inside):
    """The way back takes another link."""
    way = Way(lab, encapsulation, family, mid=SMALL, alt=SMALLER)
    way.underlay.route(2, "alt")
    way.tcp(inside)
    assert [way.known(host)["mtu"] for host in (0, 1)] == [SMALL, SMALLER]


def test_probes_find_what_gets_through_each_way(lab, encapsulation, family):
    way = Way(lab, encapsulation, family)
    one, other = (host.name for host in way.hosts)
    report = way.probe(expect=0)
    assert says(report) == []
    for row in rows(report).values():
        assert (row["there"]["mtu"], row["back"]["mtu"], row["uplink_mtu"]) == (WHOLE_MTU,) * 3
        assert row["flows"] == 4 and row["round_trip_us"] > 0
    way.underlay.carry("mid", 1407)
    way.underlay.carry("alt", 1333)
    way.underlay.route(2, "alt")
    report = way.probe()
    there, back = rows(report)[one, other], rows(report)[other, one]
    hops = [way.underlay.hop(number) for number in (1, 2)]
    assert there["there"] == back["back"] == {"mtu": 1407, "hop": hops[0]}
    assert there["back"] == back["there"] == {"mtu": 1333, "hop": hops[1]}
    assert any(f"{hops[0]} says that no more passes" in line for line in says(report))
    sizes = {f"1407 bytes fit from {one} to {other}, and 1333 from {other} to {one}",
             f"1333 bytes fit from {other} to {one}, and 1407 from {one} to {other}"}
    assert sizes & set(says(report)), says(report)
    assert len(says(report)) == 3
    # One end alone finds the same.
    assert rows(way.probe(way.hosts[0]))[one, other]["back"] == there["back"]
    text = overlane("mtu", way.file, "--probe", "--host", one, expect=FINDINGS).stdout
    assert re.search(rf"{one} +{other} +1500 +1407 +{re.escape(hops[0])} +1333 +{re.escape(hops[1])}", text), text


def test_probes_find_a_black_hole_and_do_not_name_a_hop(lab, encapsulation, family):
    way = Way(lab, encapsulation, family, mid=SMALL)
    way.underlay.silence()
    report = way.probe(way.hosts[0])
    (row,) = rows(report).values()
    assert row["there"] == row["back"] == {"mtu": SMALL, "hop": None}
    assert len(says(report)) == 2
    assert all("nobody says so" in line for line in says(report))
    assert way.known() is None


def test_loss_is_no_size(lab, encapsulation, family):
    """Probes and answers that are lost by chance do not make a way smaller, and packets of a watch neither."""
    way = Way(lab, encapsulation, family, mid=1419)
    way.underlay.silence()
    way.underlay.lose(15)
    (row,) = rows(way.probe(way.hosts[0])).values()
    assert (row["there"]["mtu"], row["back"]["mtu"]) == (1419, 1419)
    way.underlay.carry("mid", WHOLE_MTU)
    with way.watch(interval=0.1) as watch:
        time.sleep(3)
        assert watch.text() == ""


def test_one_small_path_of_several_is_found(lab, encapsulation):
    """The underlay chooses a path by the source port, and one of them carries less."""
    way = Way(lab, encapsulation, tunnel={"source_ports": "50000-50999"})
    way.underlay.squeeze("50750-50999", SMALL)
    (row,) = rows(way.probe(way.hosts[0])).values()
    assert row["there"]["mtu"] == SMALL and row["flows"] == 4
    with way.watch() as watch:
        watch.until(lambda text: '"lowered"' in text)
        assert events(watch) == [("lowered", SMALL)]


def test_probes_pass_by_what_the_kernel_believes(lab, encapsulation):
    """Once told, a kernel does not send longer packets by itself; a link that is better again is found all the same."""
    way = Way(lab, encapsulation, mid=SMALL)
    (row,) = rows(way.probe(way.hosts[0])).values()
    assert row["there"] == {"mtu": SMALL, "hop": way.underlay.hop(1)}
    assert row["back"] == {"mtu": SMALL, "hop": way.underlay.hop(2)}
    way.underlay.carry("mid", WHOLE_MTU)
    assert says(way.probe(expect=0)) == []


def test_who_does_not_answer_has_a_row(lab, encapsulation, family):
    way = Way(lab, encapsulation, family)
    remove(way.hosts[1].name, way.hosts[1].netns)
    report = way.probe(way.hosts[0])
    (row,) = rows(report).values()
    assert (row["flows"], row["there"], row["back"]) == (0, None, None)
    (line,) = says(report)
    assert f"does not answer {way.hosts[0].name}: no Overlane there" in line
    text = overlane("mtu", way.file, "--probe", "--host", way.hosts[0].name, expect=FINDINGS).stdout
    assert re.search(rf"{way.hosts[0].name} +{way.hosts[1].name} +1500 +no answer", text), text
    # A watch leaves it alone.
    with way.watch(interval=0.1) as watch:
        time.sleep(2)
        assert watch.text() == "" and way.known() is None


def test_a_remote_without_a_route_has_a_row(lab, encapsulation, family):
    way = Way(lab, encapsulation, family)
    way.underlay.unroute(1)
    report = way.probe(way.hosts[0])
    (row,) = rows(report).values()
    assert row["flows"] == 0 and "unreachable" in row["unsent"]
    assert any(f"cannot send to {way.hosts[1].name}" in line for line in says(report))


def test_uplinks_that_are_not_alike_are_named(lab, encapsulation, family):
    way = Way(lab, encapsulation, family)
    way.underlay.resize(2, SMALL)
    way.scene.apply(way.hosts[1])
    report = way.probe(way.hosts[0])
    (row,) = rows(report).values()
    assert row["uplink_mtu"] == SMALL
    assert (row["there"]["mtu"], row["back"]["mtu"]) == (SMALL, SMALL)
    assert any(f"has MTU {WHOLE_MTU}, and that of {way.hosts[1].name} {SMALL}" in line for line in says(report))


def test_a_watch_waits_for_its_uplink(lab):
    """It says so once, and ends as it should; the audit calls it wrong."""
    way = Way(lab)
    host = way.hosts[0]
    with way.watch() as watch:
        host.ns.ip(f"link delete {UPLINK}")
        wait_until(lambda: "or its address, is gone" in watch.errors(), what="the watch to say so")
        done = overlane("mtu", way.file, "--host", host.name, "--json", expect=FINDINGS)
        assert any("gone since apply" in line for line in says(json.loads(done.stdout)))
        time.sleep(1)
        assert watch.errors().count("is gone") == 1


def test_a_watch_looks_at_once_when_the_way_out_changes(lab, encapsulation, family):
    """However long its interval is: when a route to the remote, an address or the uplink itself changes."""
    way = Way(lab, encapsulation, family, mid=SMALL)
    way.underlay.silence()
    ns, remote, width = way.hosts[0].ns, way.hosts[1].address, 32 if family == 4 else 128
    changes = [("raised", WHOLE_MTU, f"route add {remote}/{width} via {way.underlay.hop(1)} dev {UPLINK}"),
               ("lowered", SMALL, f"address add 198.18.77.1/24 dev {UPLINK}"),
               ("raised", WHOLE_MTU, f"link set {UPLINK} alias changed"),
               ("lowered", SMALL, f"route del {remote}/{width}")]
    with way.watch(interval=300) as watch:
        watch.until(lambda text: '"lowered"' in text)
        expected = [("lowered", SMALL)]
        for event, mtu, change in changes:
            way.underlay.carry("mid", mtu)
            ns.ip(change)
            expected.append((event, mtu))
            watch.until(lambda text: text.count("\n") == len(expected))
            assert events(watch) == expected


def test_another_file_than_the_applied_one_is_noted(lab):
    """Ways are tried as they are applied."""
    way = Way(lab)
    text = way.file.read_text()
    assert text.count("198.18.2.1") >= 1
    other = lab.directory / "other.yaml"
    other.write_text(text.replace("198.18.2.1", "198.18.2.77"))
    done = overlane("mtu", other, "--probe", "--host", way.hosts[0].name)
    assert "is applied with another file" in done.stderr and "198.18.2.77" in done.stderr


@pytest.mark.parametrize("how", ["--probe", "--watch"])
@pytest.mark.needs("setpriv")
def test_what_it_needs_is_said(lab, encapsulation, how):
    way = Way(lab, encapsulation)
    name = way.hosts[0].name
    done = overlane("mtu", way.file, how, "--host", "nosuch", expect=2)
    assert "nosuch" in done.stderr and name in done.stderr
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    done = overlane("mtu", way.file, how, "--host", name, expect=1, prefix=powerless)
    assert "root" in done.stderr
    remove(name, way.hosts[0].netns)
    done = overlane("mtu", way.file, how, "--host", name, expect=1)
    assert f"host {name} is not applied" in done.stderr


def test_a_watch_ends_with_its_host(lab, encapsulation):
    way = Way(lab, encapsulation)
    host = way.hosts[0]
    with way.watch(interval=0.1) as watch:
        remove(host.name, host.netns)
        wait_until(lambda: watch.process.poll() is not None, what="the watch to end")
        assert watch.process.returncode == 0
        assert "nobody watches any more" in watch.errors()
