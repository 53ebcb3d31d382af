"""MSS clamping with the kernel's own TCP: an opening segment says what fits, whichever offloads are on."""

import pytest

import traffic
from capture import Capture, tshark_fields
from logical import FAR4, FAR6, INSIDE4, LEG4, Estate
from overlane import GENEVE, OVERHEAD, VXLAN, verdicts
from topology import PLAIN, UPLINK, Scene

pytestmark = pytest.mark.needs_overlane

ENCAPSULATIONS = [(VXLAN, 4), (VXLAN, 6), (GENEVE, 4), (GENEVE, 6)]
NAMES = ["vxlan-v4", "vxlan-v6", "geneve-v4", "geneve-v6"]
OFFLOADS = pytest.mark.parametrize("offloads", [True, False], ids=["offloads", "no-offloads"])
HEADERS = {4: 40, 6: 60}
SIZE = 1 << 20


def switch_off(*guests):
    """Checksums and segments are the guests' own work."""
    for guest in guests:
        guest.ns.ethtool("eth0", off=("tx", "tso", "gso", "gro"))


def says(path):
    """(MSS, state of the checksum: 1 is right) of the opening segments of a capture, in a tunnel or not."""
    fields = ["tcp.options.mss_val", "tcp.checksum.status"]
    rows = tshark_fields(path, fields, display="tcp.flags.syn == 1 && !icmp && !icmpv6")
    return {(int(row[fields[0]]), row[fields[1]]) for row in rows}


def too_big(*hosts):
    return sum(packets for host in hosts for (_, verdict), packets in verdicts(host.name).items()
               if verdict == "pkt_too_big")


@OFFLOADS
@pytest.mark.parametrize("encapsulation, family", ENCAPSULATIONS, ids=NAMES)
def test_large_guests_of_a_clamping_switch(lab, encapsulation, family, offloads):
    """Nobody is told anything, and nothing has to be: no segment is too large."""
    scene = Scene(lab, encapsulation, family, PLAIN, guest_options={"mtu": 1500},
                  switch={"mss_clamp": True, "path_mtu_discovery": False}).apply()
    near, far = scene.guests
    if not offloads:
        switch_off(near, far)
    for a, b, inside in ((near.v4, far.v4, 4), (near.v6, far.v6, 6)):
        path = lab.directory / f"{inside}.pcap"
        with Capture(scene.hosts[0].ns, UPLINK, path) as capture:
            traffic.tcp_equal(near.ns, a, far.ns, b, size=SIZE)
            traffic.tcp_equal(far.ns, b, near.ns, a, size=SIZE, port=5301)
        assert says(capture.path) == {(1500 - OVERHEAD[encapsulation, family] - HEADERS[inside], "1")}
    assert too_big(*scene.hosts) == 0


@OFFLOADS
@pytest.mark.parametrize("encapsulation, family", ENCAPSULATIONS, ids=NAMES)
def test_through_a_clamping_router_and_nat(lab, encapsulation, family, offloads):
    """The gateway is another host's; the world outside believes in 1500 bytes, as the guest does."""
    estate = Estate(lab, encapsulation, family, PLAIN, hosts=2, large_guests=True)
    estate.router["mss_clamp"] = True
    guest, neighbour = estate.guest("front", 1), estate.guest("data", 2)
    estate.gateway(2, ({"source": INSIDE4, "outside": LEG4},))
    estate.apply()
    far = estate.outside.far
    estate.outside.ns.ethtool("eth0", off=("tx", "tso", "gso", "gro"))
    if not offloads:
        switch_off(guest, neighbour)
        far.ethtool("eth0", off=("tx", "tso", "gso", "gro"))
    room = 1500 - OVERHEAD[encapsulation, family]
    traffic.ping(guest.ns, FAR4)
    traffic.ping(guest.ns, FAR6)
    for name, a, b, other, ns, device in (
            ("far4", guest.v4, FAR4, far, estate.outside.ns, "eth1"),
            ("far6", guest.v6, FAR6, far, estate.outside.ns, "eth1"),
            ("v4", guest.v4, neighbour.v4, neighbour.ns, estate.hosts[0].ns, UPLINK),
            ("v6", guest.v6, neighbour.v6, neighbour.ns, estate.hosts[0].ns, UPLINK)):
        headers = HEADERS[6 if ":" in a else 4]
        with Capture(ns, device, lab.directory / f"{name}.pcap") as capture:
            traffic.tcp_equal(guest.ns, a, other, b, size=SIZE)
        seen = says(capture.path)
        # Outside, the answer of the world has not met the gateway yet: it says what it believes in.
        assert {mss for mss, _ in seen} == {room - headers} | ({1500 - headers} if other is far else set())
        if not (other is far and offloads):
            assert {status for _, status in seen} == {"1"}
    assert too_big(*estate.hosts) == 0
