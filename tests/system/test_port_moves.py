"""The port follows its machine: a live migration, on the network's side. docs/migration.md says what is shown here."""

import contextlib
import json
import os
import select
import struct
import time

import pytest

from frames import BROADCAST, ETH_P_ALL, ETH_P_EXPERIMENT, PacketSocket
from logical import connections
from moving import DEVICE, PORT, Datagrams, Download, Stage, Watch
from net import PATIENCE, run, wait_until
from overlane import GENEVE, VXLAN, binary, overlane, verdicts
from tap_vm import VNET_HDR_LEN

pytestmark = pytest.mark.needs_overlane

BOTH = pytest.mark.parametrize("encapsulation", [GENEVE, VXLAN])


@contextlib.contextmanager
def under_way(stage, kinds):
    """Flows from each peer to the machine, over both families."""
    flows = []
    try:
        for peer in stage.peers:
            for which in (0, 1):
                flows += [kind(stage.machine, peer, which) for kind in kinds]
        yield flows
    finally:
        for flow in flows:
            flow.close()
    assert not [flow.errors for flow in flows if flow.errors]


def go_on(flows, what):
    """Each brings something, so many times that it is not what was under way before."""
    for _ in range(3):
        before = [flow.received for flow in flows]
        wait_until(lambda: all(flow.received > was for flow, was in zip(flows, before)), what=what)


def dropped_by_firewall(host):
    return sum(count for (_, verdict), count in verdicts(host.name).items() if verdict == "firewall_drop")


@BOTH
def test_what_a_machine_receives_goes_on_at_another_host_and_back(lab, encapsulation):
    stage = Stage(lab, encapsulation)
    machine, peers = stage.machine, stage.peers
    machine.run_at(stage.a)
    elsewhere = [Watch(lab, peer.ns, machine.mac) for peer in peers]
    here = Watch(lab, machine.ns, machine.mac)
    with under_way(stage, (Download, Datagrams)) as flows:
        go_on(flows, "all flows at the first host")
        # Back again: the first host must not take what it remembers for what is true.
        for source, target in ((stage.a, stage.b), (stage.b, stage.a)):
            taken = stage.move(source, target)
            assert (taken["taken"], taken["there"], taken["expired"]) == (len(flows), 0, 0)
            go_on(flows, f"all flows at {target.name}")
            rows = connections(target, PORT)
            assert len(rows) == len(flows)
            assert {(row["state"], row["begun_by_peer"], row["adopted"]) for row in rows} == {
                ("established", False, False)}
    assert not [flow.duplicates() for flow in flows if isinstance(flow, Datagrams) and flow.duplicates()]
    assert here.frames() > 100
    assert [watch.frames() for watch in elsewhere] == [0, 0, 0]


@BOTH
def test_without_its_connections_a_machine_that_only_receives_hears_no_more(lab, encapsulation):
    """The hole that import fills: what the peers say matches no rule at the new host, and the machine has no reason
    to say anything."""
    stage = Stage(lab, encapsulation)
    machine = stage.machine
    machine.run_at(stage.a)
    with under_way(stage, (Download,)) as flows:
        go_on(flows, "all downloads at the first host")
        for flow in flows:
            flow.pause()
        machine.stand_still()
        text = stage.export(stage.a)
        stage.apply(stage.b, *stage.hosts)
        machine.run_at(stage.b)
        before, dropped = [flow.received for flow in flows], dropped_by_firewall(stage.b)
        for flow in flows:
            flow.resume()
        wait_until(lambda: dropped_by_firewall(stage.b) >= dropped + 2 * len(flows), what="segments to be dropped")
        assert [flow.received for flow in flows] == before
        assert stage.take(stage.b, text)["taken"] == len(flows)
        go_on(flows, "all downloads once the connections have come")


def test_a_machine_that_nobody_stops_moves_with_a_moment_without_frames(lab):
    """The order for managers that cannot pause: the new host is ready first, the rest follows."""
    stage = Stage(lab, GENEVE)
    machine = stage.machine
    machine.run_at(stage.a)
    elsewhere = [Watch(lab, peer.ns, machine.mac) for peer in stage.peers]
    with under_way(stage, (Download, Datagrams)) as flows:
        go_on(flows, "all flows at the first host")
        stage.apply(stage.b, stage.b)
        machine.stand_still()
        machine.run_at(stage.b)
        text = stage.export(stage.a)
        taken = stage.take(stage.b, text)
        assert taken["taken"] + taken["there"] == len(flows)
        stage.apply(stage.b, stage.c, stage.a)
        go_on(flows, "all flows at the second host")
    assert not [flow.duplicates() for flow in flows if isinstance(flow, Datagrams) and flow.duplicates()]
    assert [watch.frames() for watch in elsewhere] == [0, 0, 0]


class Probe:
    """Frames that nobody answers. Places are the machine's TAPs `a` and `b`, and the peers `p1` to `p3`."""

    def __init__(self, lab, stage):
        self._number = 0
        self._taps = {"a": stage.machine.taps[stage.a], "b": stage.machine.taps[stage.b]}
        self._macs = {"machine": stage.machine.mac, "all": BROADCAST}
        self._sockets = {}
        for number, peer in enumerate(stage.peers, 1):
            self._macs[f"p{number}"] = peer.mac
            self._sockets[f"p{number}"] = sock = PacketSocket(peer.ns, "eth0", ETH_P_ALL)
            lab.defer(sock.__exit__)

    def __call__(self, sender, target):
        """Where a frame arrives, a place as often as it does. Of a TAP the machine is the sender."""
        self._number += 1
        mark = b"move" + struct.pack("!I", self._number)
        source = self._macs["machine" if sender in self._taps else sender]
        addresses = bytes.fromhex((self._macs[target] + source).replace(":", ""))
        frame = addresses + struct.pack("!H", ETH_P_EXPERIMENT) + mark * 8
        if sender in self._taps:
            os.write(self._taps[sender], bytes(VNET_HDR_LEN) + frame)
        else:
            self._sockets[sender].send(frame)
        arrived, end = [], time.monotonic() + 0.05 * PATIENCE
        while time.monotonic() < end:
            arrived += [place for place, data in self._received() if mark in data]
        return " ".join(sorted(arrived))

    def _received(self):
        for place, sock in self._sockets.items():
            while (frame := sock.receive(0.002)) is not None:
                yield place, frame
        for place, fd in self._taps.items():
            while select.select([fd], [], [], 0)[0]:
                yield place, os.read(fd, 1 << 17)


#: By the hosts that know that the machine is at b: (sender, target): where the frame arrives.
WAYS = {
    "nobody": {("p1", "machine"): "a", ("p2", "machine"): "a", ("p3", "machine"): "a", ("a", "p2"): "p2",
               ("b", "p2"): "", ("p3", "all"): "a p1 p2", ("a", "all"): "p1 p2 p3"},
    # The order of the guide.
    "b": {("p1", "machine"): "a", ("p2", "machine"): "b", ("p3", "machine"): "a",
          # Who has the machine elsewhere takes no frame of it.
          ("a", "p1"): "p1", ("a", "p2"): "", ("a", "p3"): "p3", ("b", "p1"): "", ("b", "p2"): "p2", ("b", "p3"): "",
          # One copy for each host, and each has the port.
          ("p1", "all"): "a b p2 p3", ("p2", "all"): "a b p1 p3", ("p3", "all"): "a b p1 p2",
          ("a", "all"): "p1 p3", ("b", "all"): "p2"},
    "b c": {("p1", "machine"): "a", ("p2", "machine"): "b", ("p3", "machine"): "b", ("b", "p3"): "p3",
            ("a", "p1"): "p1", ("a", "p2"): "", ("a", "p3"): "", ("b", "p1"): "", ("b", "p2"): "p2",
            ("p3", "all"): "a b p1 p2"},
    "b c a": {("p1", "machine"): "b", ("p2", "machine"): "b", ("p3", "machine"): "b", ("b", "p1"): "p1", ("a", "p1"): "",
              ("p3", "all"): "b p1 p2", ("b", "all"): "p1 p2 p3"},
    # Other orders lose frames, and still none goes astray.
    "c": {("p1", "machine"): "a", ("p2", "machine"): "a", ("p3", "machine"): "", ("a", "p3"): "",
          ("p3", "all"): "a p1 p2"},
    "a": {("p1", "machine"): "", ("p2", "machine"): "", ("p3", "machine"): "", ("a", "p2"): "", ("b", "p2"): "",
          ("p3", "all"): "p1 p2"},
}


@BOTH
def test_where_frames_go_while_hosts_know_different_fabrics(lab, encapsulation):
    stage = Stage(lab, encapsulation, firewall=False)
    hosts = {"a": stage.a, "b": stage.b, "c": stage.c}
    probe, told = Probe(lab, stage), set()
    for known, ways in WAYS.items():
        names = {name for name in known.split() if name in hosts}
        for name in sorted(told - names):
            stage.apply(stage.a, hosts[name])
        for name in sorted(names - told):
            stage.apply(stage.b, hosts[name])
        told = names
        assert {way: probe(*way) for way in ways} == ways, f"the new place is known to {known}"
        if known == "b":  # what the guide says for guests that must not get a broadcast again
            stage.b.ns.ip(f"link set {DEVICE} down")
            assert probe("p3", "all") == "a p1 p2"
            stage.b.ns.ip(f"link set {DEVICE} up")


def test_what_import_refuses_and_that_it_changes_nothing(lab):
    stage = Stage(lab, GENEVE)
    stage.machine.run_at(stage.a)
    with under_way(stage, (Download,)) as flows:
        go_on(flows, "all downloads")
        text = stage.export(stage.a)
    file = json.loads(text)
    assert (file["format"], file["port"], file["vni"], file["mac"]) == (
        "overlane-connections/2", PORT, stage.scene.vni, stage.machine.mac)
    assert len(file["connections"]) == len(flows)

    def refused(expect=2, **members):
        return stage.take(stage.b, json.dumps({**file, **members}), expect)

    assert "no port `vm`" in refused(expect=1) and "apply the fabric" in refused(expect=1)
    stage.apply(stage.b, stage.b)
    assert "connections of port port2, and not of port vm" in refused(port="port2")
    assert "connections of switch VNI 77, and not of switch VNI 5001" in refused(vni=77)
    assert "connections of MAC" in refused(mac="02:00:00:00:00:55")
    assert "`overlane-connections/3`" in refused(format="overlane-connections/3")
    broken = [*file["connections"], {**file["connections"][0], "protocol": 17}]
    assert f"connection {len(broken)} makes no sense" in refused(connections=broken)
    first = file["connections"][0]
    for end, address in (("peer", "0.0.0.0"), ("peer", "224.0.0.251"), ("peer", "127.0.0.1"), ("peer", "255.255.255.255"),
                         ("peer", stage.machine.v4), ("local", "239.0.0.1"), ("peer", first["local"]["address"])):
        broken = [*file["connections"], {**first, end: {**first[end], "address": address, "port": 9}}]
        said = refused(connections=broken)
        assert f"connection {len(broken)} makes no sense: its {end}" in said and address in said, said
    said = refused(format="overlane-connections/\x1b[2J\nerror: another")
    assert "\x1b" not in said and "\nerror: another" not in said, said
    assert "cannot be understood" in stage.take(stage.b, text[:-10], 2)
    assert "nothing was changed" in stage.take(stage.b, "", 2)
    assert "cannot read" in overlane("connections", "import", PORT, "/nowhere", "--host", stage.b.name, expect=2).stderr
    assert connections(stage.b, PORT) == []
    # From the standard streams, and what had expired on the way is left out.
    old = {**file["connections"][0], "state": "closed"}
    old["age_ms"] = old["idle_ms"] = 241_000
    file["connections"][0] = old
    done = run([binary(), "connections", "import", PORT, "--host", stage.b.name], input=json.dumps(file))
    assert f"{len(flows) - 1} connections taken, 1 had expired" in done.stdout
    assert stage.take(stage.b, text)["there"] == len(flows) - 1


def test_a_port_without_firewall_has_no_connections_to_move(lab):
    stage = Stage(lab, GENEVE, firewall=False)
    done = overlane("connections", "export", PORT, "--host", stage.a.name)
    assert json.loads(done.stdout)["connections"] == []
    assert "no firewall" in done.stderr
    stage.apply(stage.b, stage.b)
    assert stage.take(stage.b, done.stdout)["taken"] == 0
    end = {"address": stage.machine.v4, "port": 1}
    datagrams = {"protocol": 17, "local": end, "peer": end, "icmp_type": None, "begun_by_peer": False, "adopted": False,
                 "answered": True, "state": "established", "age_ms": 1, "idle_ms": 1, "tcp": None}
    file = {**json.loads(done.stdout), "connections": [datagrams]}
    assert "port vm has no firewall" in stage.take(stage.b, json.dumps(file), 1)
