//! Building a topology: namespaces and cables, without a backend.

use super::layout::{self, LEG_MAC, PortPlan, ROUTER_MAC, Subnet};
use super::{
    GATEWAY, Guest, GuestPort, LEG, Node, Pair, Topology, UNDERLAY, UNDERLAY_BRIDGE, UNPLUGGED,
    UPLINK, link_device,
};
use crate::error::LabError;
use crate::relay::{Join, Relay};
use crate::session::Session;
use overlane_analysis::record::{BackendName, Family, FarEnd, Feature, GuestKind, Setting};
use overlane_analysis::study::limits::MAX_LINKS;
use overlane_analysis::study::possible;
use overlane_net::tap::Tap;

/// Longer than any run: what a switch learned stays when a measurement has one direction alone.
pub(crate) const AGEING_SECONDS: u32 = 86_400;

impl Topology {
    /// Builds namespaces and cables.
    pub(crate) fn build(
        session: &Session,
        backend: BackendName,
        copy: u8,
        setting: Setting,
    ) -> Result<Self, LabError> {
        if let Some(reason) = possible::impossible(backend, &setting) {
            return Err(LabError::Unable { reason });
        }
        let mut site = Site {
            session,
            backend,
            setting,
            label: layout::label(backend, copy, &setting),
            hosts: Vec::new(),
            ports: Vec::new(),
        };
        let underlay = match backend {
            BackendName::Direct => None,
            _ => site.build_hosts()?,
        };
        let pairs = (0..setting.pairs).map(|pair| site.build_pair(pair));
        Ok(Self {
            backend,
            copy,
            setting,
            pairs: pairs.collect::<Result<_, _>>()?,
            hosts: site.hosts,
            underlay,
            devices: Vec::new(),
        })
    }
}

/// The host of those who talk to machines that move: it is another one at the beginning, and the same one after a move.
const MACHINES_TALK_TO: usize = 1;

/// A topology while it is being built.
struct Site<'a> {
    session: &'a Session,
    backend: BackendName,
    setting: Setting,
    label: String,
    hosts: Vec<Node>,
    /// Guests' ports on each of the hosts so far.
    ports: Vec<usize>,
}

impl Site<'_> {
    fn node(&self, place: &str, cpus: &[usize]) -> Result<Node, LabError> {
        Node::create(self.session, &self.label, place, cpus)
    }

    /// The first host has CPUs of its own, the others share theirs. One that is alone has all.
    fn cpus_of_host(&self, host: usize) -> Vec<usize> {
        let cpus = &self.session.cpus;
        match host {
            _ if self.setting.hosts == 1 && self.setting.far_end == FarEnd::Host => cpus.all(),
            0 => cpus.host1.clone(),
            _ => cpus.host2.clone(),
        }
    }

    fn guest_mtu(&self) -> u32 {
        self.setting.mtu_class.guest_mtu(self.backend)
    }

    fn raise_wire(&self, node: &Node, device: &str, mtu: u32) -> Result<(), LabError> {
        node.raise(device, mtu)?;
        node.set_wire(device, self.setting.offload)
    }

    /// The hosts with their uplinks, and what is between them where they are more than two.
    fn build_hosts(&mut self) -> Result<Option<Node>, LabError> {
        let mtu = self.setting.mtu_class.underlay_mtu();
        for host in 0..layout::hosts(&self.setting) as usize {
            let node = self.node(&format!("host{}", host + 1), &self.cpus_of_host(host))?;
            self.hosts.push(node);
            self.ports.push(0);
        }
        if self.setting.far_end == FarEnd::Tester {
            return Ok(None); // its cable is the tester's
        }
        let underlay = match self.hosts.as_slice() {
            [alone] => {
                alone.netlink.add_veth(UPLINK, UNPLUGGED, None)?;
                alone.raise(UNPLUGGED, mtu)?;
                None
            }
            [first, second] => {
                first
                    .netlink
                    .add_veth(UPLINK, UPLINK, Some(&second.netns))?;
                None
            }
            _ => Some(self.build_underlay(mtu)?),
        };
        for host in &self.hosts {
            self.raise_wire(host, UPLINK, mtu)?;
        }
        if self.setting.guests == GuestKind::Qemu {
            self.build_links()?;
        }
        Ok(underlay)
    }

    /// The cables that machines move over, each in a network of its own.
    fn build_links(&self) -> Result<(), LabError> {
        let [first, second] = self.hosts.as_slice() else {
            return Ok(()); // [`possible`] lets no machine move between others
        };
        for number in 0..MAX_LINKS {
            let device = link_device(number);
            let far = Some(&second.netns);
            first.netlink.add_veth(&device, &device, far)?;
            for (index, host) in [first, second].into_iter().enumerate() {
                self.raise_wire(host, &device, self.setting.mtu_class.link_mtu())?;
                let address = layout::link_address(number, index);
                host.add_address(&device, address, layout::prefix(Family::Ipv4))?;
            }
        }
        Ok(())
    }

    /// A switch with a cable to each host. It passes packets as they come: no GRO.
    fn build_underlay(&self, mtu: u32) -> Result<Node, LabError> {
        let underlay = self.node(UNDERLAY, &self.session.cpus.host2)?;
        underlay.netlink.add_bridge(UNDERLAY_BRIDGE)?;
        underlay
            .netlink
            .set_bridge_ageing(UNDERLAY_BRIDGE, AGEING_SECONDS)?;
        for host in &self.hosts {
            host.netlink
                .add_veth(UPLINK, &host.place, Some(&underlay.netns))?;
            underlay.raise(&host.place, mtu)?;
            underlay.netlink.set_master(&host.place, UNDERLAY_BRIDGE)?;
        }
        underlay.netlink.set_up(UNDERLAY_BRIDGE)?;
        Ok(underlay)
    }

    fn build_pair(&mut self, pair: u32) -> Result<Pair, LabError> {
        let [sender, receiver] = layout::guest_numbers(pair);
        let plans = layout::ports(&self.setting, pair);
        let mut pair = match (self.backend, self.setting.far_end) {
            (BackendName::Direct, _) => self.joined(sender, receiver, &plans)?,
            (_, FarEnd::Tester) => Pair {
                sender: self.guest_on(0, sender, &plans)?,
                receiver: self.tester(receiver)?,
            },
            (_, FarEnd::Host) if self.setting.feature.has_gateway() => Pair {
                sender: self.guest_on(0, sender, &plans)?,
                receiver: self.physical(receiver, &plans)?,
            },
            (_, FarEnd::Host) if self.setting.guests == GuestKind::Qemu => Pair {
                sender: self.machine(sender, &plans)?,
                receiver: self.guest_on(MACHINES_TALK_TO, receiver, &plans)?,
            },
            (_, FarEnd::Host) => Pair {
                sender: self.guest_on(0, sender, &plans)?,
                receiver: {
                    let host = layout::receiver_host(&self.setting, pair);
                    let plans = layout::receiver_ports(&self.setting, pair);
                    self.guest_on(host, receiver, &plans)?
                },
            },
        };
        self.introduce(&mut pair)?;
        Ok(pair)
    }

    /// Both guests know each other from the start, or their router: nobody asks while something is measured.
    fn introduce(&self, pair: &mut Pair) -> Result<(), LabError> {
        let feature = self.setting.feature;
        if feature.is_routed() {
            let far = Subnet::of_receivers(feature);
            let physical = pair.receiver.is_physical;
            self.route(&mut pair.sender, Subnet::Guests, Some(far), ROUTER_MAC)?;
            // Behind NAT a physical host knows the gateway and nobody beyond it.
            let back = (feature != Feature::GatewayNat).then_some(Subnet::Guests);
            let mac = if physical { LEG_MAC } else { ROUTER_MAC };
            return self.route(&mut pair.receiver, far, back, mac);
        }
        let Pair { sender, receiver } = pair;
        sender.next_mac = receiver.mac;
        receiver.next_mac = sender.mac;
        let both = [(&*sender, &*receiver), (&*receiver, &*sender)];
        // A machine asks by itself.
        for (guest, peer) in both.into_iter().filter(|(guest, _)| !guest.is_machine) {
            let device = &guest.ports[0].device;
            guest
                .node
                .netlink
                .add_neighbour(device, peer.address, peer.mac)?;
        }
        Ok(())
    }

    /// Tells a guest of its router, and the subnet behind it.
    fn route(
        &self,
        guest: &mut Guest,
        own: Subnet,
        to: Option<Subnet>,
        router_mac: [u8; 6],
    ) -> Result<(), LabError> {
        let family = self.setting.inner;
        let (router, device) = (own.router(family), &guest.ports[0].device);
        let netlink = &guest.node.netlink;
        netlink.add_neighbour(device, router, router_mac)?;
        if let Some(to) = to {
            let network = (to.network(family), layout::prefix(family));
            netlink.add_route(Some(network), Some(router), device)?;
        }
        guest.next_mac = router_mac;
        Ok(())
    }

    /// Makes a guest's cables, each from its device to one of another node's: a veth pair, or a relay between TAPs.
    fn cable(
        &self,
        guest: &Node,
        far: &Node,
        cables: &[[String; 2]],
    ) -> Result<Option<Relay>, LabError> {
        if self.setting.guests != GuestKind::Tap {
            for [device, other] in cables {
                guest.netlink.add_veth(device, other, Some(&far.netns))?;
            }
            return Ok(None);
        }
        let join = Join {
            owner: format!("{} of {}", guest.place, self.label),
            ends: [guest, far].map(|node| (node.netns.name(), node.cpus.as_slice())),
            cables: cables.to_vec(),
        };
        Relay::start(self.session, &join).map(Some)
    }

    /// Two guests with a cable for each device: the wire is theirs.
    fn joined(&self, sender: u32, receiver: u32, plans: &[PortPlan]) -> Result<Pair, LabError> {
        let cpus = &self.session.cpus;
        let mut sender = self.guest(sender, "guest", &cpus.host1)?;
        let mut receiver = self.guest(receiver, "guest", &cpus.host2)?;
        let devices = (0..plans.len()).map(|number| format!("eth{number}"));
        let cables: Vec<_> = devices.map(|device| [device.clone(), device]).collect();
        sender.relay = self.cable(&sender.node, &receiver.node, &cables)?;
        for ([device, _], plan) in cables.iter().zip(plans) {
            for guest in [&mut sender, &mut receiver] {
                guest.ports.push(port(device, plan, device));
            }
        }
        for guest in [&sender, &receiver] {
            self.finish(guest)?;
            for port in &guest.ports {
                guest.node.set_wire(&port.device, self.setting.offload)?;
            }
        }
        Ok(Pair { sender, receiver })
    }

    /// A guest with its cables to a host.
    fn guest_on(
        &mut self,
        host: usize,
        number: u32,
        plans: &[PortPlan],
    ) -> Result<Guest, LabError> {
        let cpus = &self.session.cpus;
        // The odd ones send.
        let cpus = if number % 2 == 1 {
            &cpus.host1
        } else {
            &cpus.host2
        };
        let mut guest = self.guest(number, "guest", cpus)?;
        guest.host = Some(host);
        let node = &self.hosts[host];
        let first = self.ports[host];
        let cable = |number| [format!("eth{number}"), format!("port{}", first + number)];
        let cables: Vec<_> = (0..plans.len()).map(cable).collect();
        guest.relay = self.cable(&guest.node, node, &cables)?;
        for ([device, host_device], plan) in cables.iter().zip(plans) {
            node.raise(host_device, self.guest_mtu())?;
            guest.ports.push(port(device, plan, host_device));
        }
        self.ports[host] += plans.len();
        self.finish(&guest)?;
        Ok(guest)
    }

    /// A machine that moves: a TAP on each host, which QEMU attaches to. It begins on the first.
    fn machine(&self, number: u32, plans: &[PortPlan]) -> Result<Guest, LabError> {
        let host = &self.hosts[0];
        let mut machine =
            self.without_devices(Node::same(host, &format!("machine{number}"))?, number);
        (machine.host, machine.is_machine) = (Some(0), true);
        for plan in plans {
            let device = format!("machine{number}");
            for host in &self.hosts {
                host.netns.run(|| {
                    let tap = Tap::create(&device, true)?;
                    tap.set_persist(true)
                })??;
                host.raise(&device, self.guest_mtu())?;
            }
            machine.ports.push(port(&device, plan, &device));
        }
        Ok(machine)
    }

    /// A bare tester: its device is the other end of the first host's uplink.
    fn tester(&self, number: u32) -> Result<Guest, LabError> {
        let mut tester = self.guest(number, "tester", &self.session.cpus.host2)?;
        let plan = layout::tester_port(&self.setting, self.backend);
        tester.ports.push(port("eth0", &plan, UPLINK));
        let (host, far) = (&self.hosts[0], Some(&tester.node.netns));
        host.netlink.add_veth(UPLINK, "eth0", far)?;
        self.finish(&tester)?;
        self.raise_wire(host, UPLINK, self.setting.mtu_class.underlay_mtu())?;
        tester.node.set_wire("eth0", self.setting.offload)?;
        Ok(tester)
    }

    /// A physical host: its device is the other end of the gateway's leg, which is a wire like the underlay's.
    fn physical(&self, number: u32, plans: &[PortPlan]) -> Result<Guest, LabError> {
        let mut guest = self.guest(number, "physical", &self.session.cpus.host2)?;
        (guest.host, guest.is_physical) = (Some(GATEWAY), true);
        let gateway = &self.hosts[GATEWAY];
        for plan in plans {
            let far = Some(&guest.node.netns);
            gateway.netlink.add_veth(LEG, "eth0", far)?;
            guest.ports.push(port("eth0", plan, LEG));
        }
        gateway.netlink.set_mac(LEG, LEG_MAC)?;
        self.finish(&guest)?;
        self.raise_wire(gateway, LEG, self.guest_mtu())?;
        gateway.speak(LEG, guest.address)?;
        let netlink = &gateway.netlink;
        netlink.add_neighbour(LEG, guest.address, guest.mac)?;
        guest.node.set_wire("eth0", self.setting.offload)?;
        Ok(guest)
    }

    /// A guest without devices.
    fn guest(&self, number: u32, kind: &str, cpus: &[usize]) -> Result<Guest, LabError> {
        let node = self.node(&format!("{kind}{number}"), cpus)?;
        node.keep_quiet()?;
        Ok(self.without_devices(node, number))
    }

    fn without_devices(&self, node: Node, number: u32) -> Guest {
        Guest {
            node,
            mac: layout::guest_mac(number),
            address: layout::guest_address(&self.setting, number),
            ports: Vec::new(),
            host: None,
            is_physical: false,
            is_machine: false,
            relay: None,
            next_mac: layout::guest_mac(number),
        }
    }

    /// MAC and MTU of its devices, the address on the first.
    fn finish(&self, guest: &Guest) -> Result<(), LabError> {
        for port in &guest.ports {
            guest.node.netlink.set_mac(&port.device, guest.mac)?;
            guest.node.raise(&port.device, self.guest_mtu())?;
        }
        let prefix = layout::prefix(self.setting.inner);
        let device = &guest.ports[0].device;
        guest.node.add_address(device, guest.address, prefix)
    }
}

fn port(device: &str, plan: &PortPlan, host_device: &str) -> GuestPort {
    GuestPort {
        device: device.to_owned(),
        vlans: plan.vlans.clone(),
        networks: plan.networks.clone(),
        host_device: host_device.to_owned(),
    }
}
