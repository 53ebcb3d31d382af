//! Flows of Open vSwitch for trunks: each tag of a guest's device is a network, which has another number on
//! the underlay. Without trunks the switch's own learning does it, and there are no flows.

use crate::topology::{Network, Pair, Topology};
use std::fmt::Write;

/// What a network is on the underlay.
#[derive(Clone, Copy)]
pub(super) enum Carrier {
    /// A VLAN on the uplink.
    Vlan { uplink: &'static str },
    /// A number in the tunnel to each other host, whose name is made by [`tunnel_to`].
    Tunnel,
}

/// The port of a host's bridge that is the tunnel to another one.
pub(super) fn tunnel_to(peer: usize) -> String {
    format!("tunnel{}", peer + 1)
}

/// The flows of a host: for each network of its trunks there and back.
pub(super) fn flows(topology: &Topology, host: usize, carrier: Carrier) -> String {
    let mut flows = String::new();
    for pair in &topology.pairs {
        for (network, [sender, receiver]) in ends(topology, pair) {
            let (near, far) = match (sender.host == Some(host), receiver.host == Some(host)) {
                (true, true) => {
                    push_local(&mut flows, &sender, &receiver);
                    push_local(&mut flows, &receiver, &sender);
                    continue;
                }
                (true, false) => (sender, receiver),
                (false, true) => (receiver, sender),
                (false, false) => continue,
            };
            match carrier {
                Carrier::Vlan { uplink } => push_vlan(&mut flows, &near, uplink, network.vlan),
                Carrier::Tunnel => {
                    let tunnel = tunnel_to(far.host.unwrap_or(0));
                    push_tunnel(&mut flows, &near, &tunnel, network.vni);
                }
            }
        }
    }
    flows
}

/// A network at one guest.
struct End<'a> {
    host: Option<usize>,
    device: &'a str,
    tag: u16,
}

/// Both ends of every network of a pair.
fn ends<'a>(
    topology: &'a Topology,
    pair: &'a Pair,
) -> impl Iterator<Item = (Network, [End<'a>; 2])> {
    let of = |guest: &'a crate::topology::Guest| {
        let ports = guest.ports.iter();
        ports.flat_map(|port| {
            port.vlans.iter().map(|tag| End {
                host: guest.host,
                device: &port.host_device,
                tag: *tag,
            })
        })
    };
    let first = pair.sender.ports.first();
    let first = first.map_or(0, |port| port.networks.start);
    let ends = of(&pair.sender).zip(of(&pair.receiver));
    (first..).zip(ends).map(|(index, (sender, receiver))| {
        let network = Network::of(&topology.setting, index);
        (network, [sender, receiver])
    })
}

fn push_local(flows: &mut String, from: &End<'_>, to: &End<'_>) {
    let (End { device, tag, .. }, to, into) = (from, to.device, to.tag);
    push(
        flows,
        format_args!("in_port={device},dl_vlan={tag} actions=mod_vlan_vid:{into},output:{to}"),
    );
}

fn push_vlan(flows: &mut String, near: &End<'_>, uplink: &str, vlan: u16) {
    let End { device, tag, .. } = near;
    push(
        flows,
        format_args!("in_port={device},dl_vlan={tag} actions=mod_vlan_vid:{vlan},output:{uplink}"),
    );
    push(
        flows,
        format_args!("in_port={uplink},dl_vlan={vlan} actions=mod_vlan_vid:{tag},output:{device}"),
    );
}

fn push_tunnel(flows: &mut String, near: &End<'_>, tunnel: &str, vni: u32) {
    let End { device, tag, .. } = near;
    push(
        flows,
        format_args!(
            "in_port={device},dl_vlan={tag} actions=strip_vlan,set_tunnel:{vni},output:{tunnel}"
        ),
    );
    push(
        flows,
        format_args!("in_port={tunnel},tun_id={vni} actions=mod_vlan_vid:{tag},output:{device}"),
    );
}

fn push(flows: &mut String, flow: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(flows, "{flow}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: End<'_> = End {
        host: Some(0),
        device: "port0",
        tag: 3,
    };

    #[test]
    fn tags_and_numbers_are_exchanged_in_both_directions() {
        let mut flows = String::new();
        push_tunnel(&mut flows, &NEAR, &tunnel_to(1), 5003);
        assert_eq!(
            flows,
            "in_port=port0,dl_vlan=3 actions=strip_vlan,set_tunnel:5003,output:tunnel2\n\
             in_port=tunnel2,tun_id=5003 actions=mod_vlan_vid:3,output:port0\n"
        );
        flows.clear();
        push_vlan(&mut flows, &NEAR, "uplink", 2050);
        assert_eq!(
            flows,
            "in_port=port0,dl_vlan=3 actions=mod_vlan_vid:2050,output:uplink\n\
             in_port=uplink,dl_vlan=2050 actions=mod_vlan_vid:3,output:port0\n"
        );
    }
}
