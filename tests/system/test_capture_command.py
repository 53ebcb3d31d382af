"""`overlane capture` and `overlane show drops`: what a user sees of packets, and that it ends cleanly."""

import os
import signal
import subprocess
import time

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import traffic
from capture import tshark_count, tshark_fields
from frames import PacketSocket, tagged_frame
from live import Live, capture_lock, capture_mode
from net import PATIENCE, wait_until
from overlane import GENEVE, OVERHEAD, VXLAN, apply, binary, overlane, show
from topology import Scene, guest_mac

pytestmark = pytest.mark.needs_overlane

SPOOFED = "198.18.100.77"
MEANING = "port security: the source address is not the port's"


@pytest.fixture
def scene(lab, encapsulation):
    return ready(Scene(lab, encapsulation).apply())


@pytest.fixture
def geneve(lab):
    return ready(Scene(lab, GENEVE, guests=(2, 1)).apply())


def ready(scene):
    """Neighbours are known on the underlay and in the guests."""
    traffic.ping(scene.guests[0].ns, scene.guests[-1].v4)
    return scene


def spoofed_frame(guest, target, source=SPOOFED):
    return bytes(Ether(src=guest.mac, dst=target.mac) / IP(src=source, dst=target.v4)
                 / UDP(sport=4000, dport=4001) / Raw(b"spoofed" * 4))


def comments(path):
    return [row["frame.comment"] for row in tshark_fields(path, ["frame.comment"])]


def send(guest, frame, times=1):
    with PacketSocket(guest.ns, "eth0") as out:
        for _ in range(times):
            out.send(frame)


@pytest.mark.needs("tshark")
def test_a_capture_file_shows_inside_and_outside_with_comments(lab, scene):
    near, far = scene.guests
    host = scene.hosts[0].name
    path = lab.directory / "port1.pcapng"
    with Live(lab.directory, "capture", "--host", host, "port1", "-w", path) as live:
        traffic.ping(near.ns, far.v4)
        send(near, spoofed_frame(near, far))
        wait_until(lambda: len(comments(path)) >= 13, what="13 packets in the file")
    assert live.text() == ""
    assert "13 packets" in live.errors()
    assert capture_mode(host) == 0

    fields = ["frame.interface_name", "frame.comment", "frame.encap_type", "frame.number"]
    rows = tshark_fields(path, fields)
    tunnel = scene.encapsulation
    sent = [row for row in rows if row["frame.interface_name"] == "to_underlay uplink"]
    assert len(sent) == 3
    for row in sent:
        assert row["frame.comment"].startswith("verdict: encap — ")
        assert "; from port port1; " in row["frame.comment"]
        assert f"; remote {scene.hosts[1].name}; " in row["frame.comment"]
        assert row["frame.comment"].endswith("; as it left")
    assert tshark_count(path, f"{tunnel}.vni == {scene.vni} && icmp.type == 8") == 3
    assert tshark_count(path, f"{tunnel}.vni == {scene.vni} && icmp.type == 0") == 3
    assert tshark_count(path, f"!{tunnel} && icmp") == 6
    assert tshark_count(path, "_ws.malformed || _ws.expert.severity == error") == 0

    dropped = tshark_fields(path, fields, display=f"ip.src == {SPOOFED}")
    assert [row["frame.comment"] for row in dropped] == [
        f"verdict: spoofed_ip — {MEANING}; from port port1; switch blue; hook from_port; as it entered"]
    assert dropped[0]["frame.interface_name"] == "from_port port1"
    interfaces = {row["frame.interface_name"] for row in rows}
    assert interfaces == {"from_port port1", "to_underlay uplink", "from_underlay uplink",
                          "to_port port1"}


@pytest.mark.needs("tshark")
def test_times_are_those_of_the_wall_and_rise(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    path = lab.directory / "times.pcapng"
    before = time.time()
    with Live(lab.directory, "capture", "--host", geneve.hosts[0].name, "port1", "-w", path):
        traffic.ping(near.ns, far.v4)
        wait_until(lambda: len(comments(path)) >= 12, what="12 packets in the file")
    after = time.time()
    times = [float(row["frame.time_epoch"]) for row in tshark_fields(path, ["frame.time_epoch"])]
    assert before - 0.1 < min(times) and max(times) < after + 0.1
    # An echo request enters before it leaves, and its answer comes later.
    assert times == sorted(times)


def test_a_cut_packet_keeps_its_length(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    host = geneve.hosts[0].name
    options = ("capture", "--host", host, "port1", "icmp4.type=echo_request", "--snap", "128", "--json")
    with Live(lab.directory, *options) as live:
        traffic.ping(near.ns, far.v4, count=1, size=1000)
        live.until(lambda text: text.count("\n") >= 2)
    entered, left = live.json()
    assert entered["length"] == 14 + 20 + 8 + 1000
    assert left["length"] == entered["length"] + OVERHEAD[GENEVE, 4]
    for packet in (entered, left):
        assert len(packet["bytes"]) == 2 * 128
        assert packet["summary"].endswith("length 1008")
    assert bytes.fromhex(entered["bytes"])[:12] == bytes.fromhex(
        (far.mac + near.mac).replace(":", ""))


def test_lines_for_people(lab, geneve):
    near, _, far = geneve.guests
    first, second = geneve.hosts
    with Live(lab.directory, "capture", "--host", first.name, "port1", "icmp4") as live:
        traffic.ping(near.ns, far.v4, count=1)
        live.until(lambda text: text.count("\n") >= 4)
    entered, left, came, delivered = live.lines()
    echo = f"IP {near.v4} > {far.v4}: ICMP echo request, id "
    assert "  from_port port1 " in entered and f"  encap         {echo}" in entered
    assert f"  to_underlay uplink ({second.name})  encap         IP {first.address}." in left
    assert f"{second.address}.6081: Geneve, vni 5001, port 1 > 3 | {echo}" in left
    answer = f"IP {far.v4} > {near.v4}: ICMP echo reply, id "
    assert f"  from_underlay uplink ({second.name})  to_port " in came
    assert f"Geneve, vni 5001, port 3 > 1 | {answer}" in came
    assert "  to_port port1 " in delivered and f"  to_port       {answer}" in delivered
    assert "\x1b" not in live.text()


def test_a_port_sees_its_own_packets_only(lab, geneve):
    one, two, far = geneve.guests
    with Live(lab.directory, "capture", "--host", geneve.hosts[0].name, "port2", "--json") as live:
        traffic.ping(one.ns, far.v4)
        traffic.ping(two.ns, far.v4, count=1)
        live.until(lambda text: text.count("echo reply") >= 2)
    ends = {packet["from_port"] for packet in live.json()} | {
        packet["to_port"] for packet in live.json()}
    assert "port2" in ends and "port1" not in ends


def test_a_remote_is_seen_by_its_tunnel_packets(lab, scene):
    near, far = scene.guests
    first, second = scene.hosts
    with Live(lab.directory, "capture", "--host", first.name, second.name, "--json") as live:
        traffic.ping(near.ns, far.v4, count=2)
        live.until(lambda text: text.count("\n") >= 4)
    packets = live.json()
    assert {packet["remote"] for packet in packets} == {second.name}
    assert [packet["interface"] for packet in packets] == [
        "to_underlay uplink", "from_underlay uplink"] * 2


def test_filters_count_and_time(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    host = geneve.hosts[0].name
    words = ("capture", "--host", host, "all", f"ip4.dst={far.v4}", "icmp4", "-c", "3", "--json")
    with Live(lab.directory, *words) as live:
        traffic.ping(near.ns, far.v4, count=3)
        assert live.process.wait(10 * PATIENCE) == 0
    assert len(live.json()) == 3
    assert {packet["verdict"] for packet in live.json()} == {"encap"}
    started = time.monotonic()
    done = overlane("capture", "--host", host, "all", "tcp.dport=1", "--seconds", "1")
    assert 0.9 < time.monotonic() - started < 5
    assert (done.stdout, "0 packets" in done.stderr) == ("", True)
    wrong = overlane("capture", "--host", host, "all", "ip4.scr=198.18.0.1", expect=2)
    assert "did you mean `ip4.src`?" in wrong.stderr


def test_the_hosts_own_traffic_only_when_asked_for(lab, geneve):
    first, second = geneve.hosts
    for words, seen in (((), False), (("verdict=to_host",), True)):
        name = f"own{len(words)}"
        with Live(lab.directory, "capture", "--host", first.name, "all", *words, "--json",
                  name=name) as live:
            traffic.ping(second.ns, first.address)
            traffic.ping(geneve.guests[0].ns, geneve.guests[-1].v4, count=1)
            live.until(lambda text: ("to_host" in text) if seen else ("echo reply" in text))
        assert ({packet["verdict"] for packet in live.json()} >= {"to_host"}) == seen


@pytest.mark.needs("tshark")
def test_a_tag_beside_the_bytes_is_in_the_file(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    path = lab.directory / "tag.pcapng"
    with Live(lab.directory, "capture", "--host", geneve.hosts[0].name, "drops", "-w", path):
        send(near, tagged_frame(near.mac, far.mac, near.v4, far.v4))
        wait_until(lambda: comments(path), what="a packet in the file")
    rows = tshark_fields(path, ["vlan.id", "frame.len", "frame.cap_len", "frame.comment"])
    assert [row["vlan.id"] for row in rows] == ["42"]
    assert rows[0]["frame.len"] == rows[0]["frame.cap_len"]
    assert rows[0]["frame.comment"].startswith("verdict: vlan_tag — ")


def test_a_file_that_cannot_be_written_is_named(lab, geneve):
    done = overlane("capture", "--host", geneve.hosts[0].name, "all", "-w", "/dev/full", "--seconds", "1", expect=1)
    assert "error: cannot write /dev/full: No space left on device" in done.stderr and "standard output" not in done.stderr


@pytest.mark.needs("tshark")
def test_a_pipe_is_read_while_packets_pass(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    host = geneve.hosts[0].name
    writer = subprocess.Popen([binary(), "capture", "--host", host, "port1", "icmp4", "-w", "-"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
    reader = subprocess.Popen(["tshark", "-n", "-l", "-r", "-", "-c", "2", "-T", "fields",
                               "-e", "frame.comment"], stdin=writer.stdout,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        writer.stdout.close()
        wait_until(lambda: capture_mode(host), what="the capture")
        traffic.ping(near.ns, far.v4, count=1)
        shown = reader.communicate(timeout=20 * PATIENCE)[0].splitlines()
        assert len(shown) == 2 and all(line.startswith("verdict: encap") for line in shown)
        # The reader has gone: no packet is needed to notice it.
        assert writer.wait(10 * PATIENCE) == 0
    finally:
        for process in (reader, writer):
            process.kill()
            process.wait()
        writer.stderr.close()
        reader.stdout.close()
    assert capture_mode(host) == 0
    assert not capture_lock(host).exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_switches_it_off(lab, geneve, how):
    host = geneve.hosts[0].name
    with Live(lab.directory, "capture", "--host", host, "all") as live:
        assert capture_mode(host) == 1
        live.process.send_signal(how)
        assert live.process.wait(10 * PATIENCE) == 0
    assert capture_mode(host) == 0
    assert not capture_lock(host).exists()


def test_a_killed_capture_is_switched_off_by_the_next_command(lab, geneve):
    host = geneve.hosts[0].name
    for next_command in (("show", "ports"), ("capture", "port1", "--seconds", "1")):
        with Live(lab.directory, "capture", "--host", host, "drops") as live:
            live.kill()
            assert capture_mode(host) == 2
            done = overlane(*next_command[:2], "--host", host, *next_command[2:])
            assert "a capture had been killed" in done.stderr
            assert capture_mode(host) == 0
            assert not capture_lock(host).exists()
            assert "killed" not in overlane("show", "ports", "--host", host).stderr
            live.process.returncode = 0  # it was our kill


def test_removing_takes_away_what_a_killed_capture_left(lab, geneve):
    host = geneve.hosts[1]
    with Live(lab.directory, "capture", "--host", host.name, "all") as live:
        live.kill()
        assert capture_lock(host.name).exists()
        overlane("remove", "--host", host.name, "--netns", host.netns)
        assert not capture_lock(host.name).exists()
        live.process.returncode = 0  # it was our kill


def test_the_second_capture_is_told_who_is_first(lab, geneve):
    host = geneve.hosts[0].name
    near, far = geneve.guests[0], geneve.guests[-1]
    with Live(lab.directory, "capture", "--host", host, "all", "icmp4", "--json") as live:
        second = overlane("capture", "--host", host, "port1", expect=1)
        assert f"captured by process {live.process.pid} (" in second.stderr
        assert f"wait until process {live.process.pid} is done, or end it" in second.stderr
        # Looking is allowed, and takes nothing from the first.
        overlane("show", "drops", "--host", host)
        assert capture_mode(host) == 1
        traffic.ping(near.ns, far.v4, count=1)
        live.until(lambda text: "echo reply" in text)
        # Another host has a capture of its own.
        overlane("capture", "--host", geneve.hosts[1].name, "all", "--seconds", "1")


def test_what_is_captured_costs_nobody_a_packet(lab, geneve):
    """More packets than the ring holds while the reader sleeps: traffic goes on."""
    near, far = geneve.guests[0], geneve.guests[-1]
    with Live(lab.directory, "capture", "--host", geneve.hosts[0].name, "port1", "--snap", "2048",
              "-w", lab.directory / "big.pcapng") as live:
        os.kill(live.process.pid, signal.SIGSTOP)
        try:
            traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=8 * traffic.MEBIBYTE)
        finally:
            os.kill(live.process.pid, signal.SIGCONT)
    assert capture_mode(geneve.hosts[0].name) == 0


def test_removing_the_host_ends_it(lab, geneve):
    host = geneve.hosts[1]
    with Live(lab.directory, "capture", "--host", host.name, "all") as live:
        overlane("remove", "--host", host.name, "--netns", host.netns)
        assert live.process.wait(10 * PATIENCE) == 0
    assert f"host {host.name} was removed" in live.errors()
    assert not capture_lock(host.name).exists()


def test_applying_again_goes_on_with_new_names(lab, geneve):
    host = geneve.hosts[0]
    near, far = geneve.guests[0], geneve.guests[-1]
    with Live(lab.directory, "capture", "--host", host.name, "all", "icmp4", "--json") as live:
        ports = geneve.fabric.data["ports"]
        ports["renamed"] = ports.pop("port1")
        apply(geneve.fabric.write(lab.directory / "fabric.yaml"), host.name, host.netns)

        def seen(text):
            traffic.ping(near.ns, far.v4, count=1)
            return '"from_port":"renamed"' in live.text()
        live.until(seen)


def test_unknown_names_are_answered_with_the_known_ones(lab, geneve):
    first, second = geneve.hosts
    done = overlane("capture", "--host", first.name, "port9", expect=1)
    assert f"host {first.name} has no port and no remote `port9`" in done.stderr
    for name in ("port1", "port2", second.name):
        assert name in done.stderr
    assert not capture_lock(first.name).exists()


def test_drops_are_listed_with_their_meaning(lab, scene):
    near, far = scene.guests
    host = scene.hosts[0].name
    assert show("drops", host)["drops"] == []
    assert "nothing was dropped" in overlane("show", "drops", "--host", host).stdout
    send(near, spoofed_frame(near, far), times=3)
    rows = wait_until(lambda: [row for row in show("drops", host)["drops"]
                               if row["packets"] == 3], what="three drops")
    assert [(row["hook"], row["reason"], row["meaning"]) for row in rows] == [
        ("from_port", "spoofed_ip", MEANING)]
    table = overlane("show", "drops", "--host", host).stdout
    (line,) = [line for line in table.splitlines() if "spoofed_ip" in line]
    assert line.split()[:4] == ["from_port", "spoofed_ip", "3", "3"] and line.endswith(MEANING)


def test_drops_are_followed(lab, scene):
    near, far = scene.guests
    first, second = scene.hosts
    with Live(lab.directory, "show", "drops", "--follow", "--host", first.name) as live:
        traffic.ping(near.ns, far.v4)
        send(near, spoofed_frame(near, far))
        live.until(lambda text: "spoofed_ip" in text)
        stranger = bytes(Ether(src=near.mac, dst=guest_mac(99)) / IP(src=near.v4, dst=far.v4)
                         / UDP(sport=1, dport=2))
        send(near, stranger)
        live.until(lambda text: "unknown_unicast" in text)
    spoofed, unknown = live.lines()
    assert "  from_port port1 " in spoofed
    assert f"IP {SPOOFED}.4000 > {far.v4}.4001: UDP, length 28" in spoofed
    # Which address nobody has is the reason.
    assert f"{near.mac} > {guest_mac(99)}, IP {near.v4}.1" in unknown
    assert capture_mode(first.name) == 0

    with Live(lab.directory, "show", "drops", "-f", "--json", "--host", first.name) as live:
        send(near, spoofed_frame(near, far))
        live.until(lambda text: text)
    (packet,) = live.json()
    assert (packet["verdict"], packet["drop"], packet["from_port"]) == ("spoofed_ip", True, "port1")


def test_a_reader_that_goes_away_is_no_error(lab, geneve):
    near, far = geneve.guests[0], geneve.guests[-1]
    host = geneve.hosts[0].name
    process = subprocess.Popen([binary(), "capture", "--host", host, "all"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: capture_mode(host), what="the capture")
        process.stdout.close()
        assert process.wait(10 * PATIENCE) == 0
        assert b"error" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert capture_mode(host) == 0
    traffic.ping(near.ns, far.v4)


def test_vxlan_and_geneve_on_other_ports_are_found(lab):
    for number, encapsulation in enumerate((VXLAN, GENEVE)):
        scene = ready(Scene(lab, encapsulation, tunnel={"port": 12345}).apply())
        near, far = scene.guests
        with Live(lab.directory, "capture", "--host", scene.hosts[0].name, "port1", "icmp4",
                  name=f"port{number}") as live:
            traffic.ping(near.ns, far.v4, count=1)
            live.until(lambda text: text.count("\n") >= 4)
        assert f".12345: {'VXLAN' if encapsulation == VXLAN else 'Geneve'}, vni 5001" in live.text()
