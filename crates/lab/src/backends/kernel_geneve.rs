//! `kernel-geneve`: on each host a Linux bridge for each network, and in it a Geneve device of the kernel for
//! each host that it exchanges packets with: such a device has one other end.
//!
//! ```text
//! port0 ── br0 ── gnv0-2 (VNI 5001, to host2) ⇢ uplink
//! ```

use super::{Backend, bridge, networks_on};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Expected, Topology, UPLINK, layout};
use overlane_analysis::record::Family;
use overlane_net::Geneve;

const PORT: u16 = 6081;

pub(super) struct KernelGeneve;

impl Backend for KernelGeneve {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        for (index, host) in topology.hosts.iter().enumerate() {
            if topology.has_underlay() {
                let (own, prefix) = (topology.host_address(index), topology.underlay_prefix());
                host.add_address(UPLINK, own, prefix)?;
            }
            for (network, mut ports) in networks_on(topology, index) {
                let mut tunnels = Vec::new();
                for peer in topology.peers(index) {
                    let device = device(network.index, peer);
                    let remote = topology.host_address(peer);
                    let geneve = Geneve {
                        to: Some((network.vni, remote)),
                        port: PORT,
                        udp_csum: false,
                        udp6_zero_csum: remote.is_ipv6(),
                    };
                    host.netlink.add_geneve(&device, &geneve)?;
                    host.raise_between(&device, topology.guest_mtu())?;
                    tunnels.push(device);
                }
                ports.extend(tunnels.iter().map(String::as_str));
                bridge::join(host, &format!("br{}", network.index), &ports)?;
            }
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Geneve { ovn: false }
    }

    fn devices(&self, topology: &Topology) -> Vec<(usize, String)> {
        let mut devices = Vec::new();
        for host in 0..topology.hosts.len() {
            for (network, _) in networks_on(topology, host) {
                devices.push((host, format!("br{}", network.index)));
                let tunnels = topology.peers(host).into_iter();
                devices.extend(tunnels.map(|peer| (host, device(network.index, peer))));
            }
        }
        devices
    }
}

fn device(network: u32, peer: usize) -> String {
    format!("gnv{network}-{}", peer + 1)
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    if let Some(reason) = bridge::check(session)? {
        return Ok(Some(reason));
    }
    let geneve = Geneve {
        to: Some((layout::FIRST_VNI, layout::host_address(Family::Ipv4, 1))),
        port: PORT,
        udp_csum: false,
        udp6_zero_csum: false,
    };
    let tried = session.try_in_netns(|netlink| netlink.add_geneve("gnv0", &geneve))?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no Geneve device (CONFIG_GENEVE): {error}")))
}
