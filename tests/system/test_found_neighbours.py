"""Neighbours that a router finds: real stacks at addresses that no port declares, and what a router does when they
move, fall silent or are too many. The first packet to one of them is lost by design: it becomes the question."""

import errno
import threading
import time

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6NDOptDstLLAddr, ICMPv6NDOptPrefixInfo,
                                IPv6)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

import probes
import traffic
from frames import BROADCAST, ETH_P_ALL, PacketSocket, patch
from logical import FAR4, FAR6, INSIDE4, LEG, LEG4, LEG6, OUTSIDE4, ROUTER_MAC, Estate, give_addresses, port
from net import PATIENCE, veth, wait_until
from overlane import GENEVE, VLAN, difference, show, verdicts
from peers import access
from probes import NO_NEIGHBOUR, ask
from spoofed import ALL_NODES, ALL_NODES_MAC, link_local
from topology import PLAIN, UPLINK, Guest, guest_mac

pytestmark = pytest.mark.needs_overlane

#: Of machines that no port declares.
NUMBER = 40
#: NEIGH-14: requests that one sender causes in a tenth of a second.
REQUESTS = 10


def is_found(ns, address):
    """The first packet is lost; the others are not."""
    wait_until(lambda: traffic.pings(ns, address, timeout=0.3), timeout=5, what=f"an answer of {address}")
    traffic.ping(ns, address)


def speak(near, far):
    """Both ways over both families."""
    for mine, theirs in zip(near.addresses, far.addresses):
        is_found(near.ns, theirs)
        is_found(far.ns, mine)
        traffic.tcp_equal(near.ns, mine, far.ns, theirs, size=traffic.MEBIBYTE)
        traffic.tcp_equal(far.ns, theirs, near.ns, mine, size=traffic.MEBIBYTE, port=5301)
        traffic.udp_equal(near.ns, mine, far.ns, theirs)


def undeclared(estate, guest):
    """The fabric does not know the guest's addresses."""
    estate.fabric.data["ports"][port(guest)]["addresses"] = []
    return guest


def questions(frames, mac=ROUTER_MAC):
    """[(destination MAC, who asks, for whom)] of the ARP requests and solicitations of one station."""
    found = []
    for packet in map(Ether, frames):
        if packet.src != mac:
            continue
        if packet.haslayer(ARP) and packet[ARP].op == 1:
            found.append((packet.dst, packet[ARP].psrc, packet[ARP].pdst))
        elif packet.haslayer(ICMPv6ND_NS):
            found.append((packet.dst, packet[IPv6].src, packet[ICMPv6ND_NS].tgt))
    return found


def test_a_station_that_only_a_learning_port_knows_is_reached(lab, encapsulation, family):
    """Nothing floods to it but the router's question."""
    estate = Estate(lab, encapsulation, family)
    near = estate.guest("front", 1)
    bridge = undeclared(estate, estate.guest("data", 2, learning=True))
    bridge.ns.ip("address flush dev eth0", "link add br0 type bridge mcast_snooping 0",
                 f"link set br0 addrgenmode none address {bridge.mac} mtu {estate.mtu} up",
                 "link set eth0 master br0")
    data = estate.segments["data"]
    nested = Guest(lab.namespace("n"), bridge.host, "n1", NUMBER, guest_mac(NUMBER), *data.host(NUMBER))
    veth(bridge.ns, nested.device, nested.ns, "eth0")
    bridge.ns.ip(f"link set {nested.device} addrgenmode none mtu {estate.mtu} master br0 up")
    nested.ns.ip(f"link set eth0 address {nested.mac} mtu {estate.mtu} up")
    give_addresses(nested.ns, "eth0", nested.addresses, data.router, nested.mac)
    wait_until(lambda: bridge.ns.link(nested.device)["linkinfo"]["info_slave_data"]["state"] == "forwarding",
               what="the bridge to take the new port")
    estate.apply()
    speak(near, nested)
    assert verdicts(estate.hosts[0].name)["from_port", "resolving"] >= 2, "once for each family"


def test_addresses_that_a_guest_makes_for_itself_are_reached(lab):
    """SLAAC with privacy addresses (RFC 8981), by what a router advertisement says."""
    estate = Estate(lab, GENEVE, 4)
    near = estate.guest("front", 1)
    private = estate.guest("data", 2, security="mac")
    advertiser = estate.guest("data", 1, silent=True, allow=["router_advertisement"])
    estate.apply()
    for key, value in (("accept_ra", 1), ("autoconf", 1), ("use_tempaddr", 2), ("addr_gen_mode", 0)):
        private.ns.sysctl(f"net.ipv6.conf.eth0.{key}", value)
    prefix = estate.segments["data"].net6.partition("/")[0]
    offer = (Ether(src=advertiser.mac, dst=ALL_NODES_MAC) / IPv6(src=link_local(advertiser.mac), dst=ALL_NODES, hlim=255)
             / ICMPv6ND_RA(routerlifetime=0)
             / ICMPv6NDOptPrefixInfo(prefix=prefix, prefixlen=64, L=1, A=1, validlifetime=7200, preferredlifetime=3600))

    def made():
        with PacketSocket(advertiser.ns, "eth0") as out:
            out.send(bytes(offer))
        (device,) = private.ns.json("address show dev eth0")
        own = [row for row in device["addr_info"]
               if row["family"] == "inet6" and row["scope"] == "global" and row["local"] != private.v6]
        return own if {row.get("temporary", False) for row in own} == {True, False} else None

    for row in wait_until(made, interval=0.3, what="addresses of its own making"):
        is_found(near.ns, row["local"])
        traffic.tcp_equal(near.ns, near.v6, private.ns, row["local"], size=traffic.MEBIBYTE)
        traffic.tcp_equal(private.ns, row["local"], near.ns, near.v6, size=traffic.MEBIBYTE, port=5301)


@pytest.mark.needs(*access.TOOLS)
def test_a_machine_on_a_vlan_that_no_port_declares_is_reached(lab):
    """From the gateway's host and from another one, which leaves the asking to it."""
    estate = Estate(lab, GENEVE, 4, PLAIN, hosts=3, switches=("front",), peers=[3])
    office = estate.switch("office", encapsulation=VLAN)
    guests = [estate.guest("front", host) for host in (1, 2)]
    estate.stand_in(1)
    physical = access.AccessSwitch(lab, estate.hosts[2], UPLINK, estate.mtu)
    printer = Guest(physical.ns, estate.hosts[2], "printer", NUMBER, guest_mac(NUMBER), *office.host(NUMBER))
    physical.access(printer.device, estate.vlan("office"), printer.mac, printer.addresses)
    for address, via in zip(("198.18.96.0/19", "2001:2:0:60::/59"), office.router):
        physical.ns.ip(f"route add {address} via {via} dev {printer.device}")
    # A guest with a firewall, on the host that does not ask: the printer is told what it rejects.
    estate.rule("no-ssh", [guests[1]], "to_port", "reject", services=["tcp/22"])
    estate.apply()
    for guest in guests:
        speak(guest, printer)
    for address in guests[1].addresses:
        assert probes.connect_error(physical.ns, address, 22) == errno.ECONNREFUSED


def announce(guest, address):
    """What a machine says when it has taken an address over."""
    if ":" in address:
        frame = (Ether(src=guest.mac, dst=ALL_NODES_MAC) / IPv6(src=address, dst=ALL_NODES, hlim=255)
                 / ICMPv6ND_NA(tgt=address, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=guest.mac))
    else:
        frame = Ether(src=guest.mac, dst=BROADCAST) / ARP(op=1, hwsrc=guest.mac, psrc=address, pdst=address)
    with PacketSocket(guest.ns, "eth0") as out:
        out.send(bytes(frame))


def test_packets_follow_an_address_that_moves(lab, encapsulation):
    """To another station, with another MAC and on another host, which says so."""
    estate = Estate(lab, encapsulation, 4)
    near = estate.guest("front", 1)
    holders = [estate.guest("data", host, security="mac") for host in (1, 2)]
    estate.apply()
    for address in estate.segments["data"].host(NUMBER):
        flags = "/64 nodad" if ":" in address else "/24"
        last = None
        for holder in (*holders, holders[0]):
            if last:
                last.ns.ip(f"address del {address}{flags.partition(' ')[0]} dev eth0")
            holder.ns.ip(f"address add {address}{flags} dev eth0")
            if not last:
                is_found(near.ns, address)
            with traffic.udp_socket(holder.ns, address, 5300, timeout=0.05) as into, \
                    traffic.udp_socket(near.ns, near.v6 if ":" in address else near.v4) as out:
                announce(holder, address)
                began = time.monotonic()

                def arrives():
                    out.sendto(b"are you there now?", (address, 5300))
                    try:
                        return into.recv(64)
                    except TimeoutError:
                        return None

                wait_until(arrives, timeout=1, what=f"packets to follow {address}")
                print(f"{address} followed after {time.monotonic() - began:.3f} s")
            traffic.ping(near.ns, address)
            last = holder


def until_refused(ns, target, timeout=20):
    """Datagrams until one is refused: the refusal, and after how many seconds."""
    began = time.monotonic()
    refusal = wait_until(lambda: ask(ns, target, timeout=0.2), timeout=timeout, what=f"{target} to be given up")
    return refusal, time.monotonic() - began


def test_the_sender_is_told_of_an_address_that_nobody_has(lab):
    """After three questions, and at once while the address is silent; then the router asks anew."""
    estate = Estate(lab, GENEVE, 4)
    near, beside = estate.guest("front", 1), estate.guest("data", 1)
    estate.apply()
    host = estate.hosts[0].name
    for router, nobody in zip(estate.segments["front"].router, estate.segments["data"].host(99)):
        with PacketSocket(beside.ns, "eth0", ETH_P_ALL) as heard:
            before = verdicts(host)
            refusal, seconds = until_refused(near.ns, nobody)
            print(f"{nobody} was given up after {seconds:.1f} s")
            assert refusal == probes.Refusal(NO_NEIGHBOUR[probes.family_of(nobody)], router)
            counted = difference(before, verdicts(host))
            assert counted["from_port", "resolving"] >= 3
            asked = questions(heard.receive_all())
            assert [target for _, _, target in asked] == [nobody] * 3
            assert ask(near.ns, nobody) == refusal
            # Somebody has it now, and is found when the silence is over.
            flags = "/64 nodad" if ":" in nobody else "/24"
            beside.ns.ip(f"address add {nobody}{flags} dev eth0")
            estate.fabric.data["ports"][port(beside)]["security"] = "mac"
            estate.apply(estate.hosts[0])
            is_found(near.ns, nobody)


@pytest.mark.thorough
def test_one_way_traffic_loses_nothing_while_its_neighbour_is_probed(lab):
    """A neighbour is stale after half a minute; then it is asked by unicast, and packets go on. One that answers no
    more is forgotten, and the sender is told."""
    estate = Estate(lab, GENEVE, 4)
    near = estate.guest("front", 1)
    far = undeclared(estate, estate.guest("data", 2))
    estate.apply()
    for address in far.addresses:
        is_found(near.ns, address)
    with PacketSocket(far.ns, "eth0", ETH_P_ALL) as heard:
        streams = [traffic.PacedUdp(near.ns, mine, far.ns, theirs, rate_pps=100)
                   for mine, theirs in zip(near.addresses, far.addresses)]
        with streams[0], streams[1]:
            seen = []
            until = time.monotonic() + 45
            while time.monotonic() < until:
                frame = heard.receive(0.5)
                seen += [frame] if frame and (frame[12:14] == b"\x08\x06" or frame[20:21] == b"\x3a") else []
            for stream in streams:
                stream.finish()
                assert stream.sent > 4000 and stream.lost() == []
    asked = questions(seen)
    for router, address in zip(estate.segments["data"].router, far.addresses):
        assert (far.mac, router, address) in asked, "asked by unicast"
    assert {to for to, _, _ in asked} == {far.mac}, "and never by broadcast"
    far.ns.ip("link set eth0 down")
    # Half a minute reachable, three questions by unicast, three to all.
    refusal, seconds = until_refused(near.ns, far.v4, timeout=60)
    print(f"{far.v4} was given up {seconds:.1f} s after it fell silent")
    assert refusal.what == NO_NEIGHBOUR[4]


@pytest.mark.thorough
def test_a_next_hop_that_changes_its_mac_is_found_again(lab):
    """It says nothing, and only small packets out of a tunnel go to it: one of them has to ask."""
    estate = Estate(lab, GENEVE, 4)
    guest = estate.guest("front", 2)
    outside = estate.gateway(1, [{"source": INSIDE4, "outside": LEG4}])
    estate.apply()
    is_found(guest.ns, FAR4)
    leg_mac = estate.hosts[0].ns.mac(LEG)
    # It knows the leg, and has nothing to ask.
    outside.ns.ip("link set eth0 address 02:00:5e:00:02:09",
                  f"neigh replace {LEG4} lladdr {leg_mac} dev eth0 nud permanent")
    assert not traffic.pings(guest.ns, FAR4, timeout=0.3)
    began = time.monotonic()
    wait_until(lambda: traffic.pings(guest.ns, FAR4, timeout=0.3), timeout=60, what="the next hop's new MAC")
    print(f"found again after {time.monotonic() - began:.1f} s")
    counted = verdicts(estate.hosts[0].name)
    assert counted["from_segmenter", "probe"] == 3, "the third asks everybody"


def test_a_listener_is_found_again_when_its_mac_was_forgotten(lab):
    """Who says nothing is no longer learned. The router asks anew then, and does not drop for ever."""
    estate = Estate(lab, GENEVE, 4)
    near = estate.guest("front", 1)
    station = undeclared(estate, estate.guest("data", 2, learning={"age": 1}))
    estate.fabric.data["ports"][port(station)]["mac"] = guest_mac(NUMBER)
    estate.apply()
    for mine, theirs in zip(near.addresses, station.addresses):
        is_found(near.ns, theirs)
        with traffic.PacedUdp(near.ns, mine, station.ns, theirs, rate_pps=50) as stream:
            time.sleep(6)
            stream.finish()
            lost = len(stream.lost())
            print(f"{theirs}: {lost} of {stream.sent} lost")
            assert stream.sent > 200 and lost < stream.sent / 4


def test_a_scan_keeps_nobody_from_finding_a_neighbour(lab):
    """65 000 addresses in ten seconds: of them a few are asked for, and another guest's new neighbour at once."""
    estate = Estate(lab, GENEVE, 4)
    scanner, other = (estate.guest("front", 1) for _ in range(2))
    beside = undeclared(estate, estate.guest("data", 1))
    estate.apply()
    host, count, seconds = estate.hosts[0].name, 65_000, 10
    template = bytes(Ether(src=scanner.mac, dst=ROUTER_MAC) / IPv6(src=scanner.v6, dst=beside.v6)
                     / UDP(sport=4000, dport=4001) / Raw(b"who is there?"))
    took = []

    def scan():
        with PacketSocket(scanner.ns, "eth0") as out:
            began = time.monotonic()
            for number in range(count):
                out.send(patch(template, 50, (0x10000000 + number).to_bytes(4, "big")))
                if number % 65 == 0:
                    time.sleep(max(0, began + number * seconds / count - time.monotonic()))
            took.append(time.monotonic() - began)

    before = verdicts(host)
    with PacketSocket(beside.ns, "eth0", ETH_P_ALL) as heard:
        thread = threading.Thread(target=scan)
        thread.start()
        time.sleep(seconds / 2)
        began = time.monotonic()
        for address in beside.addresses:
            wait_until(lambda address=address: traffic.pings(other.ns, address, timeout=0.2), timeout=2,
                       what=f"{address} in the middle of the scan")
        print(f"found in the middle of the scan after {time.monotonic() - began:.2f} s")
        assert thread.is_alive()
        thread.join()
        asked = [target for _, _, target in questions(heard.receive_all()) if target not in beside.addresses]
    counted = difference(before, verdicts(host))
    refused = sum(counted.get(("from_port", verdict), 0) for verdict in ("resolving", "ask_limit"))
    print(f"{count} addresses in {took[0]:.1f} s: {len(asked)} questions, {counted}")
    assert count <= refused <= count + 20
    assert 0 < len(asked) <= REQUESTS * (took[0] / 0.1 + 2)
    assert counted["from_port", "ask_limit"] > count / 2


def test_where_only_declared_neighbours_are_nobody_is_asked(lab):
    estate = Estate(lab, GENEVE, 4, switches=("front",))
    data = estate.switch("data", neighbours="declared")
    near = estate.guest("front", 1)
    hidden, known = undeclared(estate, estate.guest("data", 1)), estate.guest("data", 1)
    estate.apply()
    with PacketSocket(hidden.ns, "eth0", ETH_P_ALL) as heard:
        for router, address in zip(estate.segments["front"].router, hidden.addresses):
            refusal = probes.Refusal(NO_NEIGHBOUR[probes.family_of(address)], router)
            assert [ask(near.ns, address) for _ in range(3)] == [refusal] * 3
        assert questions(heard.receive_all()) == []
    for address in known.addresses:
        traffic.ping(near.ns, address)
    # A station that speaks to the router is not noted there either.
    traffic.ping(hidden.ns, data.router[0])
    assert ask(near.ns, hidden.v4).what == NO_NEIGHBOUR[4]


def test_who_is_declared_now_is_no_longer_found(lab):
    estate = Estate(lab, GENEVE, 4)
    near = estate.guest("front", 1)
    far = undeclared(estate, estate.guest("data", 2))
    estate.apply()

    def found():
        rows = [row for host in estate.hosts for row in show("neighbours", host.name)["neighbours"]]
        return sorted({row["address"] for row in rows})

    for address in far.addresses:
        is_found(near.ns, address)
    assert found() == sorted(far.addresses)
    estate.fabric.data["ports"][port(far)]["addresses"] = list(far.addresses)
    estate.apply()
    assert found() == []
    for address in far.addresses:
        traffic.ping(near.ns, address)


def test_a_strict_physical_router_answers_the_leg(lab):
    """It takes questions only from an address of its own network (arp_ignore=2), and packets only by the way back
    (rp_filter=1). The leg's device has no address: the router asks with those of the leg, and with nobody else's."""
    estate = Estate(lab, GENEVE, 4)
    guest = estate.guest("front", 2)
    outside = estate.gateway(1, [{"source": INSIDE4, "outside": LEG4}])
    gateway = estate.hosts[0]
    gateway.ns.ip(f"address flush dev {LEG}")
    for device in ("all", "eth0"):
        outside.ns.sysctl(f"net.ipv4.conf.{device}.rp_filter", 1)
        outside.ns.sysctl(f"net.ipv4.conf.{device}.arp_ignore", 2)
    leg_mac = gateway.ns.mac(LEG)
    estate.outside = None  # nobody speaks to the leg before the router asks
    with PacketSocket(outside.ns, "eth0", ETH_P_ALL) as heard:
        estate.apply()
        for far, mine in ((FAR4, guest.v4), (FAR6, guest.v6)):
            is_found(guest.ns, far)
            traffic.tcp_equal(guest.ns, mine, outside.far, far, size=traffic.MEBIBYTE)
        traffic.ping(outside.far, guest.v6)
        asked = questions(heard.receive_all(), leg_mac)
    assert OUTSIDE4 in {target for _, _, target in asked}
    assert {asker for _, asker, _ in asked} == {LEG4, LEG6}
