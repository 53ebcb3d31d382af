"""What another program reads on the underlay: tshark finds the headers right, field by field."""

import pytest

import traffic
from capture import Capture, tshark_count, tshark_fields
from overlane import GENEVE, PORTS, VXLAN
from topology import UPLINK, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("tshark")]


def record(lab, encapsulation, family, wire):
    """(scene, capture of everything host 1 sent while guests pinged, flooded and used TCP)."""
    scene = Scene(lab, encapsulation, family, wire).apply()
    near, far = scene.guests
    traffic.ping(scene.hosts[0].ns, scene.hosts[1].address, count=1)
    with Capture(scene.hosts[0].ns, UPLINK, lab.directory / "u.pcap", direction="out") as capture:
        for a, b in zip(near.addresses, far.addresses):
            traffic.ping(near.ns, b)
            traffic.tcp_equal(near.ns, a, far.ns, b, size=64 * 1024)
        with traffic.udp_socket(near.ns, near.v4) as sock:
            sock.setsockopt(1, 6, 1)  # SO_BROADCAST
            sock.sendto(b"to all", ("198.18.100.255", 9))
    return scene, capture.path


def only_values(rows, field):
    return {row[field] for row in rows}


def test_nothing_is_malformed_and_every_field_is_as_expected(lab, encapsulation, family, wire):
    scene, path = record(lab, encapsulation, family, wire)
    assert tshark_count(path, "vxlan || geneve") > 10
    assert tshark_count(path, "_ws.malformed") == 0
    assert tshark_count(path, "_ws.expert.severity == error") == 0
    assert tshark_count(path, "vlan") == 0
    check_outer_headers(scene, path)
    check_tunnel_header(scene, path)


def check_outer_headers(scene, path):
    tunnel = scene.encapsulation
    source, target = (host.address for host in scene.hosts)
    common = ["udp.srcport", "udp.dstport", "udp.checksum"]
    if scene.family == 4:
        fields = ["ip.src", "ip.dst", "ip.flags.df", "ip.flags.mf", "ip.ttl", "ip.dsfield",
                  "ip.checksum.status", "ip.hdr_len"]
        expected = [source, target, "1", "0", "64", "0x00", "1", "20"]
    else:
        fields = ["ipv6.src", "ipv6.dst", "ipv6.hlim", "ipv6.tclass", "ipv6.flow"]
        expected = [source, target, "64", "0x00000000", "0x000000"]
    rows = tshark_fields(path, fields + common, display=tunnel)
    assert rows
    for field, value in zip(fields, expected):
        assert only_values(rows, field) == {value}, field
    assert only_values(rows, "udp.dstport") == {str(PORTS[tunnel])}
    assert only_values(rows, "udp.checksum") == {"0x0000"}
    ports = {int(port) for port in only_values(rows, "udp.srcport")}
    assert len(ports) > 1 and min(ports) >= 49152


def check_tunnel_header(scene, path):
    if scene.encapsulation == VXLAN:
        rows = tshark_fields(path, ["vxlan.vni", "vxlan.flags", "vxlan.reserved8"], display="vxlan")
        assert only_values(rows, "vxlan.vni") == {str(scene.vni)}
        assert only_values(rows, "vxlan.flags") == {"0x0800"}
        assert only_values(rows, "vxlan.reserved8") <= {"0", "0x00"}
        return
    fields = ["geneve.vni", "geneve.version", "geneve.flags.oam", "geneve.flags.critical",
              "geneve.proto_type", "geneve.option.class", "geneve.option.type",
              "geneve.option.length"]
    rows = tshark_fields(path, fields, display="geneve")
    vnis = {int(value, 0) for value in only_values(rows, "geneve.vni")}
    assert vnis == {scene.vni}
    expected = {"geneve.version": 0, "geneve.flags.oam": 0, "geneve.flags.critical": 1,
                "geneve.proto_type": 0x6558, "geneve.option.class": 0x0102,
                "geneve.option.type": 0x80, "geneve.option.length": 8}
    for field, value in expected.items():
        assert {int(text, 0) for text in only_values(rows, field)} == {value}, field


def test_geneve_option_carries_both_port_keys(lab, family):
    scene = Scene(lab, GENEVE, family).apply()
    near, far = scene.guests
    path = lab.directory / "u.pcap"
    with Capture(scene.hosts[0].ns, UPLINK, path) as capture:
        traffic.ping(near.ns, far.v4)
    found = set()
    offset = 14 + (20 if family == 4 else 40) + 8
    for frame in capture.raw():
        if frame[12:14] in (b"\x08\x00", b"\x86\xdd") and len(frame) > offset + 16:
            found.add(frame[offset + 8:offset + 16].hex())
    there, back = (f"01028001{a.number:04x}{b.number:04x}"
                   for a, b in ((near, far), (far, near)))
    assert found == {there, back}
