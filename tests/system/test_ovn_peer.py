"""An Overlane host in an OVN network: ovn-northd and ovn-controller on the other host write every flow.

As with Open vSwitch alone (test_ovs_peer.py), OVN's guests have no offloads, and the wire mode is `plain`.
docs/ovn.md says what of this a user has to set up.
"""

import re
import socket

import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import traffic
from capture import Capture, tshark_count, tshark_fields
from frames import PacketSocket
from net import wait_until
from overlane import GENEVE, ROOT, verdicts
from peers import ovn, ovs
from topology import PLAIN, UPLINK, Scene, Underlay, add_guest, apply_host, guest_mtu

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs(*ovn.TOOLS)]

CHASSIS, REMOTE = "chassis", "remote"
ROUTER_MAC, ROUTER_KEY = "02:00:00:00:01:fe", 100
ROUTER = ("198.18.100.254", "2001:2:0:64::fe")
GROUP = "239.1.2.3"


@pytest.fixture(params=[CHASSIS, REMOTE])
def kind(request):
    """What OVN takes the Overlane host for."""
    return request.param


class Network:
    """Guest 1 on an Overlane host, guest 2 on OVN's: both are ports of OVN's switch `blue`.

    `known=False`: neither side knows the guests' addresses, so they have to find each other.
    `more`: so many further hosts of OVN, each with a guest.
    """

    def __init__(self, lab, family=4, kind=CHASSIS, known=True, switch=None, more=0):
        self.lab = lab
        hosts = 2 + more
        self.scene = Scene(lab, GENEVE, family, PLAIN, [1] * hosts, peers=range(2, hosts + 1), declared=known)
        self.near, self.far = self.scene.guests[:2]
        self.one, self.two = self.scene.hosts[:2]
        self.ovn = ovn.Ovn(lab, self.two, **({"ovn-is-interconn": "true"} if kind == REMOTE else {}))
        self.ovn.switch("blue", self.scene.vni, **(switch or {}))
        for guest in self.scene.guests:
            self.ovn.port("blue", guest, known)
        for host in self.scene.hosts[2:]:
            self.ovn.add_host(host)
        self.ovn.attach(*self.scene.guests[1:])
        self.ovn.chassis(self.one, [self.near], remote=kind == REMOTE)

    def start(self):
        self.ovn.settle(self.one)
        self.scene.apply()
        return self

    def counts(self):
        return verdicts(self.one.name)

    def gateway(self):
        """Which host is the gateway of the router's port on green."""
        bound = self.ovn.sbctl("--bare", "--columns=chassis", "find", "port_binding",
                               "logical_port=cr-core-green").strip()
        return bound and self.ovn.sbctl("get", "chassis", bound, "name").strip().strip('"')

    def gateways(self, *priorities):
        for host, priority in priorities:
            self.ovn.nbctl("lrp-set-gateway-chassis", "core-green", host.name, str(priority))

    def router_with_a_second_switch(self, declared=ROUTER):
        """OVN's router between `blue` and `green`. In the fabric it is a port, of OVN's last host.

        Returned is a guest of that host on green.
        """
        host = self.scene.hosts[-1]
        third = add_guest(self.lab, host, 9, mtu=self.scene.mtu)
        green(third)
        self.ovn.switch("green", 5002)
        self.ovn.port("green", third)
        self.ovn.attach(third)
        self.ovn.router("core", {
            "blue": (ROUTER_MAC, [f"{ROUTER[0]}/24", f"{ROUTER[1]}/64"], ROUTER_KEY),
            "green": ("02:00:00:00:02:fe", ["198.18.101.254/24", "2001:2:0:65::fe/64"], ROUTER_KEY)})
        self.scene.fabric.port("router", "blue", host.name, "ovn-router", ROUTER_MAC, declared, key=ROUTER_KEY)
        for guest in self.scene.guests:
            use_router(guest, ROUTER)
        return third


def green(guest):
    """Addresses of the switch `green`, and its router."""
    guest.v4, guest.v6 = "198.18.101.3", "2001:2:0:65::3"
    guest.ns.ip("address flush dev eth0", f"address add {guest.v4}/24 dev eth0",
                f"address add {guest.v6}/64 dev eth0 nodad")
    use_router(guest, ("198.18.101.254", "2001:2:0:65::fe"))


def use_router(guest, router):
    guest.ns.ip(f"route add default via {router[0]}", f"route add ::/0 via {router[1]}")


def arrives(near, far, port=7000, to=None, count=3):
    """Whether datagrams of one guest get to the other."""
    with traffic.udp_socket(far.ns, "0.0.0.0", port, timeout=0.3) as there, \
            traffic.udp_socket(near.ns, near.v4) as here:
        if to == GROUP:
            join_group(there, far)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for _ in range(count):
            here.sendto(b"are you there?", (to or far.v4, port))
            try:
                return there.recv(64) == b"are you there?"
            except socket.timeout:
                continue
    return False


def join_group(sock, guest):
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(GROUP) + socket.inet_aton(guest.v4))


def test_all_traffic_both_ways(lab, family, kind):
    network = Network(lab, family, kind).start()
    near, far = network.scene.guests
    traffic.speak(near, far, size=4 * traffic.MEBIBYTE)
    largest = network.scene.mtu - 28
    traffic.ping(near.ns, far.v4, size=largest)
    traffic.ping(far.ns, near.v4, size=largest)
    counts = network.counts()
    assert counts["from_underlay", "to_port"] > 100
    assert not [key for key in counts if "geneve" in key[1] or "unknown" in key[1]], counts


def test_guests_find_each_other_by_broadcast(lab, kind):
    """Neither side answers ARP and ND for the other's guest: the questions cross the tunnel."""
    network = Network(lab, kind=kind, known=False).start()
    near, far = network.scene.guests
    for a, b in zip(near.addresses, far.addresses):
        traffic.ping(near.ns, b)
        far.ns.ip("neigh flush dev eth0")
        traffic.ping(far.ns, a)
    assert arrives(near, far, to="198.18.100.255")
    assert arrives(far, near, to="198.18.100.255")
    # To a remote chassis OVN sends one copy for each port, with the port's key; to others one, with the group's.
    assert (("from_underlay", "flood") in network.counts()) == (kind == CHASSIS)


def test_a_switch_that_snoops_multicast_needs_to_know_overlanes_ports(lab):
    """OVN hears no report of an Overlane guest. What it learns of its own guests makes this no better."""
    network = Network(lab, switch={"mcast_snoop": "true", "mcast_querier": "false"}).start()
    near, far = network.scene.guests

    def heard(*settings):
        if settings:
            network.ovn.nbctl("set", *settings)
            network.ovn.settle()
        return arrives(far, near, to=GROUP)

    traffic.ping(near.ns, far.v4)
    assert not heard()
    assert heard("logical_switch", "blue", "other_config:mcast_flood_unregistered=true")
    assert arrives(near, far, to=GROUP), "what Overlane floods reaches OVN's ports"
    with traffic.udp_socket(far.ns, "0.0.0.0") as member:
        join_group(member, far)
        wait_until(lambda: GROUP in network.ovn.sbctl("lflow-list", "blue"), what="OVN's flows for the group")
        network.ovn.settle()
        assert not heard(), "for a group that OVN knows, the members that it knows count"
        assert heard("logical_switch_port", ovn.port_name(near), "options:mcast_flood=true")


def test_ovn_routes_between_its_switches(lab, family, kind):
    network = Network(lab, family, kind)
    third = network.router_with_a_second_switch()
    network.start()
    near = network.near
    for address in ROUTER:
        traffic.ping(near.ns, address)
        (entry,) = near.ns.json(f"neigh show {address} dev eth0")
        assert entry["lladdr"] == ROUTER_MAC
    traffic.speak(near, third, size=4 * traffic.MEBIBYTE)
    assert "unknown" not in str(network.counts())


def test_ovns_router_does_not_hear_a_broadcast(lab):
    """OVN gives a flooded frame to its routers on the host where it begins: the fabric has to know their addresses."""
    network = Network(lab)
    network.router_with_a_second_switch(declared=())
    network.start()
    near = network.near
    assert traffic.pings(near.ns, ROUTER[0], timeout=0.5) == 0
    near.ns.ip(f"neigh replace {ROUTER[0]} lladdr {ROUTER_MAC} dev eth0")
    traffic.ping(near.ns, ROUTER[0])


def test_ovns_acls_are_for_ovns_ports(lab):
    network = Network(lab)
    near, far = network.scene.guests
    network.scene.fabric.data["rules"] = {
        "no-7003": {"ports": ["port1"], "direction": "to_port", "action": "drop", "services": ["udp/7003"]}}
    network.start()
    for port, guest in ((7001, far), (7002, near)):
        name = ovn.port_name(guest)
        for direction, side in (("to-lport", "outport"), ("from-lport", "inport")):
            network.ovn.nbctl("acl-add", "blue", direction, "1001", f'{side} == "{name}" && udp.dst == {port}', "drop")
    network.ovn.settle()
    assert arrives(near, far) and arrives(far, near), "no ACL speaks of this port number"
    assert not arrives(near, far, 7001) and not arrives(far, near, 7001), "OVN's port has its ACLs"
    assert arrives(near, far, 7002) and arrives(far, near, 7002), "Overlane's has none of OVN's"
    assert not arrives(far, near, 7003), "Overlane's port has Overlane's rules"


def test_ovns_dhcp_is_for_ovns_ports(lab):
    network = Network(lab).start()
    near, far = network.scene.guests
    nbctl = network.ovn.nbctl
    options = nbctl("create", "dhcp_options", "cidr=198.18.100.0/24", "options:server_id=198.18.100.254",
                    "options:server_mac=02:00:00:00:01:fe", "options:lease_time=3600").strip()
    for guest in (near, far):
        nbctl("lsp-set-dhcpv4-options", ovn.port_name(guest), options)
    network.ovn.settle()
    wait_until(lambda: offers(far), what="an offer to OVN's guest")
    assert not offers(near)


def offers(guest):
    """Whether a DHCP server answers the guest."""
    discover = (Ether(src=guest.mac, dst="ff:ff:ff:ff:ff:ff") / IP(src="0.0.0.0", dst="255.255.255.255")
                / UDP(sport=68, dport=67) / BOOTP(chaddr=bytes.fromhex(guest.mac.replace(":", "")), xid=7)
                / DHCP(options=[("message-type", "discover"), "end"]))
    with PacketSocket(guest.ns, "eth0", protocol=0x0800) as port:
        port.send(bytes(discover))
        answers = [Ether(frame) for frame in port.receive_all(timeout=0.5)]
    return [frame for frame in answers if DHCP in frame]


@pytest.mark.parametrize("priority", [5, 20])
def test_bfd_stays_down_so_overlane_must_not_be_in_a_gateway_group(lab, priority):
    """ovn-controller turns BFD on where a group has several gateways, and off wherever somebody else turned it on."""
    network = Network(lab)
    near, far = network.scene.guests
    third = network.router_with_a_second_switch()
    network.start()
    vsctl, tunnel = network.ovn.vswitch.vsctl, network.ovn.tunnel(network.one)

    network.gateways((network.two, 10))
    wait_until(lambda: network.gateway() == network.two.name, what="OVN's host as the gateway")
    network.ovn.settle()
    traffic.speak(near, third)
    assert ("from_underlay", "vni_zero") not in network.counts()
    vsctl("set", "interface", tunnel, "bfd:enable=true")
    wait_until(lambda: vsctl("get", "interface", tunnel, "bfd").strip() == "{}", what="ovn-controller's no")

    network.gateways((network.one, priority))
    wait_until(lambda: network.counts().get(("from_underlay", "vni_zero"), 0) >= 3, what="BFD's packets")
    assert "state=down" in vsctl("get", "interface", tunnel, "bfd_status")
    assert not network.gateway(), "OVN's host takes itself for cut off"
    assert traffic.pings(near.ns, third.v4, timeout=0.5) == 0
    traffic.speak(near, far)


@pytest.mark.parametrize("more", [1, 2])
def test_a_gateway_takes_over_if_a_third_ovn_host_is_there(lab, more):
    """A host of OVN takes itself for cut off while BFD is up to nobody. Overlane's is none that counts."""
    network = Network(lab, more=more)
    network.router_with_a_second_switch()
    second, last = network.scene.hosts[2], network.scene.guests[-1]
    network.start()
    network.gateways((network.two, 20), (second, 10))
    wait_until(lambda: network.gateway() == network.two.name, what="the first gateway")
    vsctl, tunnel = network.ovn.vswitch.vsctl, network.ovn.tunnel(second)
    wait_until(lambda: "state=up" in vsctl("--bare", "get", "interface", tunnel, "bfd_status"), what="BFD")
    traffic.ping(network.near.ns, last.v4)
    network.two.ns.ip(f"link set {UPLINK} down")
    wait_until(lambda: network.gateway() != network.two.name, what="the end of the first gateway")
    if more == 1:
        assert network.gateway() == ""
    else:
        wait_until(lambda: network.gateway() == second.name, what="the second gateway")
    traffic.ping(network.near.ns, last.v4)


def test_tshark_reads_ovns_option_of_both_sides(lab, kind):
    network = Network(lab, kind=kind).start()
    near, far = network.scene.guests
    path = lab.directory / "u.pcap"
    with Capture(network.one.ns, UPLINK, path):
        traffic.ping(near.ns, far.v4)
        assert arrives(far, near, to="198.18.100.255")
    assert tshark_count(path, "_ws.malformed") == 0

    def options(display):
        rows = tshark_fields(path, ["ip.src", "geneve.vni", "geneve.options"], display=display)
        return {(row["ip.src"], int(row["geneve.vni"], 16), row["geneve.options"]) for row in rows}

    def option(source, destination):
        return f"01028001{source:04x}{destination:04x}"

    vni, here, there = network.scene.vni, network.one.address, network.two.address
    # OVN's userspace datapath leaves its kernel a copy, which answers: no such UDP port.
    assert options("icmp && !(icmp.type == 3)") == {(here, vni, option(near.number, far.number)),
                               (there, vni, option(far.number, near.number))}
    group = 0x8000 if kind == CHASSIS else near.number
    assert options("udp.dstport == 7000") == {(there, vni, option(far.number, group))}


@pytest.mark.parametrize("counter", ["unknown_vni", "unknown_port_key", "unknown_vtep"])
def test_what_differs_between_ovn_and_the_fabric_is_counted_by_name(lab, counter):
    network = Network(lab)
    fabric = network.scene.fabric.data
    where, key, value = {
        "unknown_vni": (fabric["switches"]["blue"], "vni", 7),
        "unknown_port_key": (fabric["ports"]["port1"], "key", 7),
        "unknown_vtep": (fabric["hosts"][network.two.name], "underlay", "198.18.0.7")}[counter]
    where[key] = value
    network.start()

    def counted():
        assert traffic.pings(network.far.ns, network.near.v4, timeout=0.3) == 0
        return network.counts().get(("from_underlay", counter))

    wait_until(counted, what=counter)


def documented():
    """{heading: its commands} of docs/ovn.md, and its fabric file."""
    text = (ROOT / "docs" / "ovn.md").read_text(encoding="utf-8")
    sections = dict(section.split("\n", 1) for section in text.split("\n## ")[1:])
    commands = {title: re.findall(r"```sh\n(.*?)```", body, re.S) for title, body in sections.items()}
    (fabric,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    return commands, fabric


def test_what_is_documented_works(lab, kind):
    """docs/ovn.md, command by command."""
    commands, fabric = documented()
    underlay = Underlay(lab, wire=PLAIN)
    edge, node = underlay.hosts
    web, db, app = (add_guest(lab, host, number, mtu=guest_mtu(GENEVE, 4), device=device)
                    for host, number, device in ((edge, 1, "web0"), (node, 2, "db0"), (node, 3, "app0")))
    green(app)
    use_router(web, ROUTER)
    network = ovn.Ovn(lab, node)
    ovs.without_offloads([db, app])
    chassis, take_out = commands["The chassis"]
    for script in (*commands["Switch and ports"], *(commands["A remote chassis"] if kind == REMOTE else [chassis]),
                   *commands["OVN's router"], *commands["Multicast"]):
        network.shell(script)
    network.shell("ovs-vsctl add-port br-int app0 -- set interface app0 external_ids:iface-id=app")
    network.settle(edge)
    path = lab.directory / "fabric.yaml"
    path.write_text(re.sub(r"\bedge\b", edge.name, fabric))
    apply_host(lab, path, edge)
    traffic.speak(web, db)
    traffic.speak(web, app)
    network.shell(take_out)
    wait_until(lambda: traffic.pings(web.ns, db.v4, timeout=0.3) == 0, what="the end of it")
