"""Peers that do not route themselves use the router by its gateway host: a kernel's VXLAN device, Open vSwitch with
Geneve, machines of a physical VLAN. And all of it at once."""

import errno

import pytest

import probes
import super_packets
import traffic
from capture import Capture, tshark_count
from logical import (FAR4, FAR6, INSIDE4, LEG4, ROUTER, ROUTER_MAC, SPARE4, Estate, port)
from net import wait_until
from overlane import GENEVE, VLAN, VXLAN, show, verdicts
from peers import access, kernel, ovs
from probes import PORT_UNREACHABLE, Listener, Talk, ask
from topology import PLAIN, UPLINK

pytestmark = pytest.mark.needs_overlane

#: Open vSwitch's number of its second tunnel.
OTHER_TUNNEL = 101
#: Of no machine.
MARK = "02:00:00:00:ee:ee"


def the_router_is_there(guest, segment):
    """Found by the guest's own questions, answered by nobody but the gateway."""
    for router, address in zip(segment.router, guest.addresses):
        traffic.ping(guest.ns, router)
        (entry,) = guest.ns.json(f"neigh show {router} dev eth0")
        assert entry["lladdr"] == ROUTER_MAC
        assert probes.connect_error(guest.ns, router, 22) == errno.ECONNREFUSED


@pytest.mark.parametrize("wire_mode", ["whole", "segmented"])
def test_a_guest_of_a_kernels_vxlan_device_uses_the_router(lab, family, wire_mode):
    """Gateway and the other guest on the first host; and, behind a further tunnel, a guest on the third."""
    estate = Estate(lab, VXLAN, family, wire_mode, hosts=3, peers=[2])
    stranger = estate.guest("front", 2)
    here, there = estate.guest("data", 1), estate.guest("data", 3)
    estate.stand_in(1)
    gateway, peer, _ = estate.hosts
    kernel.join(peer, gateway.address, 5001, [stranger], mtu=estate.mtu)
    estate.apply()
    the_router_is_there(stranger, estate.segments["front"])
    traffic.speak(stranger, here)
    traffic.speak(stranger, there)
    for mine, router, target in zip(stranger.addresses, estate.segments["front"].router, there.addresses):
        assert probes.route_of(stranger.ns, target, source=mine) == [router, target]
        assert ask(stranger.ns, target) == probes.Refusal(PORT_UNREACHABLE[probes.family_of(target)], target)
    counts = verdicts(gateway.name)
    assert counts["from_underlay", "answer"] > 0
    assert counts["from_underlay", "to_port"] > 0 and counts["from_underlay", "encap"] > 0, "back into a tunnel"


def test_the_gateway_host_alone_answers_for_the_router(lab):
    """Every host of the fabric gets the broadcast; answers come once."""
    estate = Estate(lab, VXLAN, 4, hosts=4, peers=[2])
    stranger = estate.guest("front", 2)
    estate.guest("front", 1), estate.guest("front", 3), estate.guest("data", 4)
    estate.stand_in(1)
    peer = estate.hosts[1]
    device = kernel.join(peer, estate.hosts[0].address, 5001, [stranger], mtu=estate.mtu)
    peer.ns.run(["bridge", "fdb", "append", "00:00:00:00:00:00", "dev", device, "dst", estate.hosts[2].address])
    estate.apply()
    with Capture(stranger.ns, "eth0", lab.directory / "g.pcap", direction="in") as capture:
        traffic.ping(stranger.ns, estate.segments["front"].router[0], count=1)
    assert tshark_count(capture.path, "arp.opcode == 2") == 1
    assert ("from_underlay", "answer") not in verdicts(estate.hosts[2].name)


@pytest.mark.needs(*ovs.TOOLS)
def test_a_guest_of_open_vswitch_uses_the_router(lab, family):
    """Geneve, with the option both ways: what was routed says that it comes from the router's own key."""
    estate = Estate(lab, GENEVE, family, PLAIN, hosts=3, peers=[2])
    stranger = estate.guest("front", 2)
    here, there = estate.guest("data", 1), estate.guest("data", 3)
    estate.stand_in(1)
    gateway, peer, _ = estate.hosts
    estate.apply()
    key = router_key(gateway, "front")
    switch = ovs.OpenVSwitch(lab, peer)
    switch.join(gateway.address, 5001, GENEVE, [stranger], flow_key=True)
    # Every host that routes into the switch sends to the peer itself: it has to know them all.
    switch.vsctl("add-port", "br-int", "other", "--", "set", "interface", "other", "type=geneve",
                 f"ofport_request={OTHER_TUNNEL}", f"options:remote_ip={estate.hosts[2].address}",
                 f"options:local_ip={peer.address}", "options:key=flow")
    from_router = f"{key << 16 | stranger.number:#x}"
    to_router = f"{stranger.number << 16 | key:#x}"
    to_all = f"{stranger.number << 16 | 0x8000:#x}"
    switch.ofctl("del-flows")
    switch.ofctl("add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0")
    group = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
    for flow in (
        *(f"cookie=1,priority=20,in_port={tunnel},tun_id=5001,tun_metadata0={from_router},"
          f"actions=output:{stranger.number}" for tunnel in (ovs.TUNNEL_PORT, OTHER_TUNNEL)),
        f"cookie=2,priority=20,in_port={stranger.number},{group},actions=set_field:5001->tun_id,"
        f"set_field:{to_all}->tun_metadata0,output:{ovs.TUNNEL_PORT}",
        f"cookie=3,priority=10,in_port={stranger.number},dl_dst={ROUTER_MAC},actions=set_field:5001->tun_id,"
        f"set_field:{to_router}->tun_metadata0,output:{ovs.TUNNEL_PORT}",
        "cookie=4,priority=0,actions=drop",
    ):
        switch.ofctl("add-flow", flow)
    the_router_is_there(stranger, estate.segments["front"])
    traffic.speak(stranger, here)
    traffic.speak(stranger, there)
    assert switch.flow_packets("cookie=0x1") > 100 and switch.flow_packets("cookie=0x3") > 100
    assert switch.flow_packets("cookie=0x4") == 0, "something came that is not the router's"
    counts = verdicts(gateway.name)
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


def router_key(host, switch):
    (entry,) = [row for row in show("fdb", host.name)["entries"]
                if row["mac"] == ROUTER_MAC and row["switch"] == switch]
    return entry["key"]


@pytest.mark.needs(*ovs.TOOLS)
def test_a_peer_that_sends_no_option_finds_the_router_too(lab):
    estate = Estate(lab, GENEVE, 4, PLAIN, hosts=2, peers=[2])
    stranger, here = estate.guest("front", 2), estate.guest("data", 1)
    estate.stand_in(1)
    estate.apply()
    switch = ovs.OpenVSwitch(lab, estate.hosts[1])
    switch.join(estate.hosts[0].address, 5001, GENEVE, [stranger])
    switch.ofctl("add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0")
    the_router_is_there(stranger, estate.segments["front"])
    traffic.speak(stranger, here)


@pytest.mark.needs(*access.TOOLS)
def test_machines_of_a_physical_vlan_are_routed(lab, encapsulation):
    """The router's acting host answers them, and what other hosts route to them goes by way of that one."""
    estate = Estate(lab, encapsulation, 4, PLAIN, hosts=3, peers=[3])
    near, far = estate.guest("front", 1), estate.guest("front", 2)
    office = estate.switch("office", encapsulation=VLAN)
    printer = estate.guest("office", 3)
    estate.stand_in(1)
    estate.apply()
    machine = physical(lab, estate, printer, office)
    for guest in (near, far):
        for mine, theirs in zip(guest.addresses, printer.addresses):
            traffic.ping(guest.ns, theirs)
            traffic.ping(machine.ns, mine)
            traffic.tcp_equal(guest.ns, mine, machine.ns, theirs, size=traffic.MEBIBYTE)
            traffic.tcp_equal(machine.ns, theirs, guest.ns, mine, size=traffic.MEBIBYTE, port=5301)
            assert probes.route_of(machine.ns, mine, source=theirs)[1:] == [mine]
    acting, other = (verdicts(host.name) for host in estate.hosts[:2])
    assert acting["from_port", "vlan_out"] > 0 and acting["from_underlay", "vlan_out"] > 0
    assert other["from_port", "encap"] > 0 and ("from_port", "vlan_out") not in other


class PhysicalSwitch:
    """The bridge of the underlay, as the switch of a VLAN that hosts and a machine share."""

    def __init__(self, lab, estate):
        self.lab, self.ns = lab, estate.underlay.bridge

    def flush(self):
        self.ns.run(["bridge", "fdb", "flush", "dev", "br0"])

    def be_a_hub(self):
        """It forgets every MAC at once: it floods all."""
        self.ns.ip("link set br0 type bridge ageing_time 0")
        self.flush()

    def watch(self):
        """Begins to write down where it sees MACs."""
        self._log = self.lab.directory / "fdb.txt"
        with self._log.open("w") as log:
            self.lab.spawn(self.ns, ["bridge", "monitor", "fdb"], stdout=log)
        wait_until(self._is_watched, what="the monitor of the bridge")
        # What it has seen before is seen anew.
        self.flush()

    def _is_watched(self):
        """An entry comes and goes: who listens tells of it."""
        for word in ("add", "del"):
            self.ns.run(["bridge", "fdb", word, MARK, "dev", "to1", "master"])
        return MARK in self._log.read_text()

    def places(self, mac):
        """The ports where it has seen it since it is watched."""
        lines = [line.split() for line in self._log.read_text().splitlines() if "Deleted" not in line]
        return {line[line.index("dev") + 1] for line in lines if mac in line}


def office_scene(lab, hosts):
    """Guests of `front` on the first two hosts, of `office` too; on the last one is no Overlane, but a machine of
    the office's VLAN. The acting host is the first."""
    estate = Estate(lab, GENEVE, 4, PLAIN, hosts=hosts, peers=[hosts])
    guests = [estate.guest("front", 1), estate.guest("front", 2)]
    office = estate.switch("office", encapsulation=VLAN)
    guests += [estate.guest("office", 1), estate.guest("office", 2)]
    return estate, guests, office, estate.guest("office", hosts)


@pytest.mark.needs(*access.TOOLS)
def test_the_physical_network_sees_the_router_at_one_place(lab):
    estate, guests, office, printer = office_scene(lab, 3)
    estate.apply()
    switch = PhysicalSwitch(lab, estate)
    switch.watch()
    machine = physical(lab, estate, printer, office)
    for guest in guests:
        for mine, theirs in zip(guest.addresses, printer.addresses):
            traffic.ping(machine.ns, mine)
            traffic.ping(guest.ns, theirs)
            traffic.tcp_equal(guest.ns, mine, machine.ns, theirs, size=traffic.MEBIBYTE)
            traffic.tcp_equal(machine.ns, theirs, guest.ns, mine, size=traffic.MEBIBYTE, port=5301)
            traffic.udp_equal(machine.ns, theirs, guest.ns, mine)
    near, far, clerk, colleague = guests
    for here, there in ((near, colleague), (far, clerk), (far, colleague), (near, clerk)):
        traffic.speak(here, there, size=traffic.MEBIBYTE)
    assert switch.places(ROUTER_MAC) == {"to1"}
    assert switch.places(printer.mac) == {"to3"}, "the watch sees what it should"


@pytest.mark.needs(*access.TOOLS)
def test_what_the_physical_switch_floods_arrives_once(lab):
    estate, guests, office, printer = office_scene(lab, 3)
    estate.apply()
    machine = physical(lab, estate, printer, office)
    PhysicalSwitch(lab, estate).be_a_hub()
    for number, guest in enumerate(guests[:2]):
        path = lab.directory / f"{number}.pcap"
        for mine, theirs in zip(guest.addresses, printer.addresses):
            traffic.ping(guest.ns, theirs)
            for to, device, place, address in ((guest.ns, "eth0", machine.ns, mine),
                                               (machine.ns, "machine", guest.ns, theirs)):
                with Capture(to, device, path, "icmp or icmp6", direction="in"):
                    traffic.ping(place, address, count=5)
                asked = tshark_count(path, "icmp.type == 8 || icmpv6.type == 128")
                assert asked == 5, (guest.ns.name, address)
    dropped = verdicts(estate.hosts[1].name)
    assert dropped["from_underlay", "unknown_unicast"] > 0, "the second host had them too"


@pytest.mark.needs(*access.TOOLS)
def test_udp_super_packets_reach_a_machine_by_way_of_the_acting_host(lab):
    """That one could take them whole, and not send them on: they are cut before."""
    estate, guests, office, printer = office_scene(lab, 3)
    estate.apply()
    machine = physical(lab, estate, printer, office)
    super_packets.wait_for_greetings(*estate.hosts[:2])
    for guest in guests[:2]:
        for mine, theirs in zip(guest.addresses, printer.addresses):
            super_packets.equal(guest.ns, mine, machine.ns, theirs, rounds=1)
    assert verdicts(estate.hosts[1].name)["from_port", "segment"] > 0
    for host in estate.hosts[:2]:
        assert not [key for key in verdicts(host.name) if "gso_unsupported" in key]


@pytest.mark.needs(*access.TOOLS)
def test_guests_keep_the_machine_and_the_gateway_whatever_is_routed_into_the_vlan(lab):
    """Guests of the first, third and fourth host; the gateway on the second, which acts for the router."""
    estate = Estate(lab, GENEVE, 4, PLAIN, hosts=5, peers=[5])
    office = estate.switch("office", encapsulation=VLAN)
    clerk, near, far = estate.guest("office", 1), estate.guest("front", 3), estate.guest("front", 4)
    printer = estate.guest("office", 5)
    outside = estate.gateway(2, [{"source": INSIDE4, "outside": LEG4}])
    estate.apply()
    switch = PhysicalSwitch(lab, estate)
    switch.watch()
    machine = physical(lab, estate, printer, office)
    for flushed in (False, True):
        for router in (near, far):
            if flushed:
                switch.flush()
            # Into the VLAN from a host that is not the gateway's, and out of it from another.
            for mine, theirs in zip(router.addresses, clerk.addresses):
                traffic.ping(router.ns, theirs)
                traffic.ping(clerk.ns, mine)
            traffic.ping(router.ns, printer.v4)
            for place in (clerk.ns, machine.ns, router.ns):
                traffic.ping(place, FAR4)
            traffic.ping(clerk.ns, printer.v4)
            traffic.ping(machine.ns, router.v6)
            traffic.ping(outside.far, clerk.v6)
    assert switch.places(ROUTER_MAC) == {"to2"}


def physical(lab, estate, guest, segment):
    """The machine of a port that is on a real switch: a kernel's stack of its own, on a tagged uplink. Nothing of
    Overlane is there; the fabric only knows its addresses, to have a neighbour to route to."""
    switch = access.AccessSwitch(lab, guest.host, UPLINK, estate.mtu)
    switch.access("machine", estate.vlan(segment.name), guest.mac, guest.addresses)
    guest.ns.ip("link set eth0 down")
    for router in segment.router:
        switch.ns.ip(f"route add default via {router} dev machine")
    return switch


@pytest.mark.needs(*access.TOOLS)
@pytest.mark.parametrize("encapsulation, family", [(VXLAN, 4), (GENEVE, 6)], ids=["vxlan-v4", "geneve-v6"])
def test_everything_at_once(lab, encapsulation, family):
    """Three hosts and a machine on their VLAN, three switches, a router, a firewall, a gateway with NAT."""
    estate = Estate(lab, encapsulation, family, PLAIN, hosts=4, peers=[4])
    web, other, database = (estate.guest(*place) for place in (("front", 1), ("front", 2), ("data", 2)))
    office = estate.switch("office", encapsulation=VLAN)
    clerk = estate.guest("office", 4)
    outside = estate.gateway(3, [
        {"forward": f"{web.v4}:80", "protocol": "tcp", "outside": f"{SPARE4}:80"},
        {"source": INSIDE4, "outside": LEG4}])
    estate.firewall("front", to_port="drop")
    estate.firewall("data", from_port="drop", to_port="drop")
    estate.rule("http", [web], "to_port", services=["tcp/80"])
    estate.rule("clerks", [web, other], "to_port", peers=[office.net4, office.net6], services=["tcp/22", "icmp/8"])
    estate.rule("database", [database], "to_port", peers=[port(web)], services=["tcp/5432"])
    estate.rule("strangers", [database], "to_port", "reject", priority=1)
    estate.apply()
    machine = physical(lab, estate, clerk, office)

    def listening(guest, number):
        return Listener(guest.ns, guest.v4, number)

    with listening(web, 80), listening(web, 81), listening(web, 22), listening(database, 5432):
        # Outside, and the office: what is meant for them, and nothing else.
        assert probes.connect_error(outside.far, SPARE4, 80) == 0
        assert probes.connect_error(outside.far, FAR4, 81) == errno.ECONNREFUSED, "its own"
        assert probes.connect_error(machine.ns, web.v4, 22) == 0
        assert probes.connect_error(machine.ns, web.v4, 81) == errno.ETIMEDOUT
        assert probes.connect_error(machine.ns, web.v4, 80) == 0
        # Inside.
        assert probes.connect_error(web.ns, database.v4, 5432) == 0
        assert probes.connect_error(other.ns, database.v4, 5432) == errno.ECONNREFUSED
        assert probes.connect_error(machine.ns, database.v4, 5432) == errno.ECONNREFUSED
        assert probes.connect_error(other.ns, web.v4, 22) == errno.ETIMEDOUT
    traffic.ping(machine.ns, web.v4)
    assert traffic.pings(other.ns, web.v4, timeout=0.3) == 0
    for guest in (web, other):
        with Talk(guest.ns, outside.far, FAR4) as talk:
            assert talk.client[0] == LEG4
            talk.exchange()
        traffic.tcp_equal(guest.ns, guest.v6, outside.far, FAR6, size=traffic.MEBIBYTE)
        traffic.tcp_equal(guest.ns, guest.v4, machine.ns, clerk.v4, size=traffic.MEBIBYTE)
    with Talk(outside.far, web.ns, web.v4, 80, target=(SPARE4, 80)) as talk:
        talk.exchange()
    with Talk(web.ns, database.ns, database.v4, 5432) as talk:
        talk.exchange()
    assert traffic.pings(database.ns, FAR4, timeout=0.3) == 0, "the database says nothing unasked"
    shown = {row["router"]: row for row in show("routes", estate.hosts[0].name)["routers"]}
    assert shown[ROUTER]["gateway"] == estate.hosts[2].name
