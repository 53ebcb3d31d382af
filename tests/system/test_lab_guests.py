"""Virtual machines in the laboratory: the relay in the place of vhost-net changes no frame, a study with such guests is
measured as any other, and a relay that ends is an error of its cell and never a figure."""

import os
import signal
import struct
import subprocess

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from frames import ETH_P_ALL, PacketSocket, tagged_frame
from laboratory import (Study, alive, descendants, group, is_as_before, leftovers, run_study, wait_for_the_dead,
                        write_study)
from net import wait_until
from overlane import binary, overlane

pytestmark = [pytest.mark.needs_overlane]
#: Those that run studies.
lab_alone = pytest.mark.usefixtures("only_one_lab")

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ADDRESSES = ("198.18.0.1", "198.18.0.2")
#: struct virtio_net_hdr: flags, GSO type, header length, segment size, start and offset of the checksum.
VNET = "=BBHHHH"
NEEDS_CSUM, GSO_NONE, GSO_TCPV4 = 1, 0, 1
MSS = 1448


def relay(lab, near, far, queues=2):
    """A relay between `port0` and `eth0`; its process."""
    words = [binary(), "relay", queues, f"{near.name}@", f"{far.name}@", "port0=eth0"]
    process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lab.defer(process.wait)
    lab.defer(process.kill)
    assert process.stdout.readline() == b"ready\n"
    for ns, device in ((near, "port0"), (far, "eth0")):
        ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 1)
        ns.ip(f"link set {device} up")
    return process


def has_device(ns, device):
    return any(link["ifname"] == device for link in ns.json("link show"))


def headers(payload, layer):
    ether = Ether(src=MACS[0], dst=MACS[1])
    return bytes(ether / IP(src=ADDRESSES[0], dst=ADDRESSES[1], flags="DF") / layer / Raw(payload))


def super_packet():
    """A TCP super-packet as large as a card takes it (`gso_max_size`), its checksum left to the card."""
    payload = bytes(number % 251 for number in range(65_535 - 54))
    header = struct.pack(VNET, NEEDS_CSUM, GSO_TCPV4, 54, MSS, 34, 16)
    return header + headers(payload, TCP(sport=4000, dport=4001, flags="A", chksum=0x1234))


def partial_datagram():
    """A datagram whose checksum is left to the card."""
    header = struct.pack(VNET, NEEDS_CSUM, GSO_NONE, 0, 0, 34, 6)
    return header + headers(b"partial" * 40, UDP(sport=4000, dport=4001, chksum=0x1234))


def essence(frame):
    """The bytes and what has to become of them. How much of a frame lies in one piece is each kernel's own affair."""
    flags, gso, _, size, start, offset = struct.unpack_from(VNET, frame)
    return flags, gso, size, start, offset, frame[struct.calcsize(VNET):]


@pytest.mark.parametrize("queues", [1, 4])
def test_a_relay_changes_no_frame_in_either_direction(lab, queues):
    near, far = lab.namespace("near"), lab.namespace("far")
    relay(lab, near, far, queues)
    ends = ((near, "port0"), (far, "eth0"))
    for source, target in (ends, ends[::-1]):
        with PacketSocket(*source, vnet_hdr=True) as out, PacketSocket(*target, ETH_P_ALL, vnet_hdr=True) as into:
            for frame in (super_packet(), partial_datagram()):
                out.send(frame)
                assert essence(into.receive()) == essence(frame)
        with PacketSocket(*source) as out, PacketSocket(*target, ETH_P_ALL) as into:
            frame = tagged_frame(*MACS, *ADDRESSES)
            out.send(frame)
            assert into.receive() == frame


def test_a_relay_loses_nothing_that_a_card_has_room_for(lab):
    near, far = lab.namespace("near"), lab.namespace("far")
    relay(lab, near, far)
    with PacketSocket(far, "eth0") as out, PacketSocket(near, "port0", ETH_P_ALL) as into:
        for number in range(300):
            out.send(headers(struct.pack("!I", number), UDP(sport=4000, dport=4001)))
        numbers = [struct.unpack_from("!I", frame, 42)[0] for frame in into.receive_all()]
    assert numbers == list(range(300))


def test_a_relay_ends_with_its_input_and_its_devices_with_it(lab):
    near, far = lab.namespace("near"), lab.namespace("far")
    process = relay(lab, near, far)
    assert has_device(near, "port0") and has_device(far, "eth0")
    process.stdin.close()
    assert process.wait(10) == 0
    wait_until(lambda: not has_device(near, "port0") and not has_device(far, "eth0"), what="the TAPs to be gone")


def test_a_relay_that_finds_its_device_taken_says_so(lab):
    near, far = lab.namespace("near"), lab.namespace("far")
    near.ip("link add port0 type bridge")
    done = overlane("relay", 1, f"{near.name}@", f"{far.name}@", "port0=eth0", expect=1)
    assert "port0" in done.stderr and near.name in done.stderr


@lab_alone
def test_a_study_of_containers_and_virtual_machines(tmp_path):
    study = write_study(tmp_path, ["bridge", "overlane-vxlan"], [
        group("tcp_stream", 131072, guests=["veth", "tap"]),
        group("udp_stream", 200, rate_pps=[2000], guests=["tap"], networks=["overlane-vxlan"]),
    ])
    data = run_study(study, tmp_path / "result").data
    assert len(data["cells"]) == 5
    for cell in data["cells"]:
        assert cell["status"] == "ok" and cell["path_proof"], (cell["name"], cell["reason"])
        relays = [cell["figures"][f"relay_percent_{side}"] for side in ("sender", "receiver")]
        if cell["guests"] == "veth":
            assert relays == [None, None] and "virtual machines" not in cell["name"]
        else:
            assert all(relay["mean"] > 0 for relay in relays) and "virtual machines" in cell["name"]
        if cell["test"] == "udp_stream":
            assert cell["accounting"]["unexplained"] == 0, cell["accounting"]
            assert cell["accounting"]["received"] > 0
    axes = {(each["axis"], each["cell_a"]["guests"], each["cell_b"]["guests"]) for each in data["comparisons"]}
    assert ("guests", "tap", "veth") in axes
    # The tool alone is measured on a cable, whatever the guests are.
    assert {reference["guests"] for reference in data["references"]} == {"veth"}
    devices = {(hop["place"], hop["device"]) for hop in data["env"]["hops"] if "virtual machines" in hop["topology"]}
    assert {("guest1", "eth0"), ("host1", "port0"), ("host2", "port0"), ("guest2", "eth0")} <= devices
    for name in ("report.html", "report.md"):
        assert "in the place of vhost-net" in " ".join((tmp_path / "result" / name).read_text().lower().split())


@lab_alone
def test_options_of_the_command_line_name_the_kinds_of_guests(tmp_path):
    study = write_study(tmp_path, ["direct"], [group("tcp_rr", 64)])
    data = run_study(study, tmp_path / "result", "--guests", "tap,veth").data
    assert [(cell["guests"], cell["status"]) for cell in data["cells"]] == [("tap", "ok"), ("veth", "ok")]
    wrong = overlane("lab", "run", study, "--guests", "vm", expect=2)
    assert "veth (containers) or tap (virtual machines)" in wrong.stderr


def relays(study, label):
    """Its relays of the network with the label."""
    return {pid for (pid, _), command in descendants(study.pid).items() if " relay " in command and label in command}


@pytest.mark.thorough
@lab_alone
def test_a_relay_that_is_killed_fails_its_cell_alone(tmp_path):
    before = leftovers()
    path = write_study(tmp_path, ["bridge", "overlane-vxlan"], [group("tcp_stream", 131072, guests=["tap"])], samples=4)
    with Study(path, tmp_path / "result") as study:
        study.until(study.has_samples(3), "samples of both")
        found = relays(study, "overlane-vxlan")
        assert len(found) == 2
        kept = len(study.result.counted("overlane-vxlan"))
        os.kill(min(found), signal.SIGKILL)
        assert study.end() == 0, study.text()
        cells = {cell["network"]: cell for cell in study.result.cells}
        assert cells["bridge"]["status"] == "ok" and cells["bridge"]["samples"] == 4
        failed = cells["overlane-vxlan"]
        assert failed["status"] == "failed"
        assert "the relay of guest" in failed["reason"] and "signal: 9" in failed["reason"], failed["reason"]
        # Its figures are those from before; one sample may have ended meanwhile.
        assert kept <= failed["samples"] <= kept + 1 < 4
    is_as_before(before)


@lab_alone
def test_a_study_that_is_killed_leaves_neither_relays_nor_taps(tmp_path):
    before = leftovers()
    path = write_study(tmp_path, ["bridge"], [group("tcp_stream", 131072, guests=["tap"])], samples=20)
    with Study(path, tmp_path / "result") as study:
        study.until(study.has_samples(1), "a sample")
        started = descendants(study.pid)
        assert len(relays(study, "bridge")) == 2 and alive(started)
        study.kill()
        overlane("lab", "cleanup")
        wait_for_the_dead(started, "what the study had started")
        is_as_before(before)
    assert "nothing was left behind" in overlane("lab", "cleanup").stdout
