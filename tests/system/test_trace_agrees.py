"""What `trace` says about a packet, what the data path counts and what `capture drops` shows is one thing."""

import json

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

import spoofed
import traffic
from frames import PacketSocket, plain_frame
from live import Live
from logical import LEG, OUTSIDE4, ROUTER, Estate
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, difference, overlane, verdicts
from topology import UPLINK, Scene

pytestmark = pytest.mark.needs_overlane


def frames(me, far):
    """Frames of all sorts from one guest, most of them refused."""
    yield from (spoof.frame for spoof in spoofed.spoofs(me, far))
    yield plain_frame(far.mac, me.mac)
    yield plain_frame("02:00:00:00:77:77", me.mac)
    yield plain_frame(me.mac, me.mac)
    yield plain_frame("01:80:c2:00:00:0e", me.mac)
    yield plain_frame(far.mac, "03:00:00:00:00:01")


def test_a_device_that_is_missing_on_this_machine_loses_the_packet(lab, tmp_path):
    """What the data path loses because the machine lacks a device, the trace loses too."""
    scene = Scene(lab, VXLAN, 4).apply()
    near, far = scene.guests
    file = scene.fabric.write(tmp_path / "fabric.yaml")
    words = ("trace", file, "--port", "port1", f"ip4.dst={far.v4}")
    done = overlane(*words)
    assert done.stderr == ""


    def ends(verdict, host, device, stage):
        text = overlane(*words, "--expect", verdict)
        assert text.stdout.splitlines()[-1].startswith(f"dropped: {verdict} at {stage} on {host.name} "), text.stdout
        assert f"note: host {host.name} on this machine has no device {device}: " in text.stderr
        assert overlane(*words, "--expect", "delivered", expect=1).stderr
        result = json.loads(overlane(*words, "--json").stdout)[0]["result"]
        assert (result["verdict"], result["drop"], result["receivers"]) == (verdict, True, [])

    far.host.ns.ip(f"link delete {far.device}")
    ends("device_gone", far.host, far.device, "to_port")
    # The next apply leaves the port out.
    scene.apply()
    ends("no_port", far.host, far.device, "to_port")
    before = verdicts(far.host.name)
    assert traffic.pings(near.ns, far.v4, count=1) == 0
    counted = difference(before, verdicts(far.host.name))
    assert counted[("from_underlay", "no_port")] >= 1
    near.host.ns.ip(f"link delete {near.device}")
    ends("device_gone", near.host, near.device, "port")


def test_a_leg_and_an_uplink_that_are_missing(lab):
    estate = Estate(lab, GENEVE)
    one, two = estate.guest("front"), estate.guest("data", 2)
    estate.gateway(1)
    estate.apply()
    file, (near, far) = lab.directory / "fabric.yaml", estate.hosts

    def ends(words, verdict, stage, host):
        text = overlane("trace", file, *words, "--expect", verdict).stdout
        assert text.splitlines()[-1].startswith(f"dropped: {verdict} at {stage} on {host.name} "), text

    outwards = ("--port", "port1", f"ip4.dst={OUTSIDE4}")
    inwards = ("--from-leg", ROUTER, f"ip4.src={OUTSIDE4}", f"ip4.dst={one.v4}")
    overlane("trace", file, *outwards, "--expect", f"leg_out:leg:{ROUTER}")
    overlane("trace", file, *inwards, "--expect", "delivered:port1")
    near.ns.ip(f"link delete {LEG}")
    ends(outwards, "device_gone", "leg_out", near)
    ends(inwards, "device_gone", "from_leg", near)
    # The next apply leaves the leg out.
    overlane("apply", file, "--host", near.name, "--netns", near.netns)
    ends(outwards, "no_route", "route", near)
    ends(inwards, "device_gone", "from_leg", near)
    there, back = ("--port", "port1", f"ip4.dst={two.v4}"), ("--port", "port2", f"ip4.dst={one.v4}")
    overlane("trace", file, *there, "--expect", "delivered:port2")
    # It leaves the namespace: the other end stays.
    near.ns.ip(f"link set {UPLINK} netns {one.ns.name}")
    ends(there, "device_gone", "encap", near)
    ends(back, "device_gone", "from_underlay", near)


@pytest.mark.parametrize("encapsulation", [VXLAN, GENEVE, VLAN])
def test_trace_counters_and_capture_say_the_same(lab, encapsulation, tmp_path):
    scene = Scene(lab, encapsulation, 4, guests=(2, 1)).apply()
    me, _, far = scene.guests
    traffic.ping(me.ns, far.v4, count=1)
    host = scene.hosts[0].name
    file = scene.fabric.write(tmp_path / "fabric.yaml")
    sent = list(frames(me, far))
    wrpcap(str(tmp_path / "sent.pcap"), [Ether(frame) for frame in sent])

    traced = json.loads(overlane("trace", file, "--port", "port1", "--pcap", tmp_path / "sent.pcap",
                                 "--json").stdout)
    expected = [each["hop"]["verdict"] for each in traced]
    drops = [each["hop"]["verdict"] for each in traced if each["hop"]["drop"]]
    assert len(expected) == len(sent) and len(set(drops)) >= 9

    before = verdicts(host)
    with Live(tmp_path, "capture", "--host", host, "drops", "--json") as shown:
        with PacketSocket(me.ns, "eth0") as out:
            for frame in sent:
                out.send(frame)
        wait_until(lambda: len(shown.lines()) >= len(drops), what="all drops to be shown")
    counted = {verdict: count for (hook, verdict), count in difference(before, verdicts(host)).items()
               if hook == "from_port"}
    assert counted == {verdict: expected.count(verdict) for verdict in set(expected)}
    assert [line["verdict"] for line in shown.json() if line["hook"] == "from_port"] == drops

    # The reason names the line of the fabric file that decided.
    lines = file.read_text().splitlines()
    port = next(number for number, line in enumerate(lines, 1) if line.strip() == "port1:")
    for each in traced:
        if each["hop"]["verdict"].startswith("spoofed_"):
            by = each["result"]["by"]
            assert lines[by["line"] - 1].strip() == f"{by['name']}:"
            if each["hop"]["verdict"] == "spoofed_ip":
                assert (by["name"], by["line"]) == ("port1", port)
