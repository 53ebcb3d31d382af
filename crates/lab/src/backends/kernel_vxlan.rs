//! `kernel-vxlan`: a Linux bridge and the kernel's VXLAN device, unicast to the other host, learning
//! as it comes.

use super::{Backend, bridge};
use crate::error::LabError;
use crate::proof::Expected;
use crate::session::Session;
use crate::topology::{HOST1_ADDRESS, HOST2_ADDRESS, PREFIX, Topology, UPLINK, VNI};
use overlane_net::Vxlan;
use std::net::Ipv4Addr;

const DEVICE: &str = "vxlan0";
/// IANA's port; the kernel's own default is an older one.
const PORT: u16 = 4789;

pub(super) struct KernelVxlan;

impl Backend for KernelVxlan {
    fn build(&mut self, _session: &Session, topology: &Topology) -> Result<(), LabError> {
        let mtu = topology.group.mtu_class.guest_mtu(topology.backend);
        for (host, own, other) in topology.hosts() {
            host.netlink.add_address(UPLINK, own.into(), PREFIX)?;
            let uplink = host.netlink.link(UPLINK)?.index;
            host.netlink.add_vxlan(
                DEVICE,
                &Vxlan {
                    device: Some(uplink),
                    ..tunnel(own, other)
                },
            )?;
            host.raise(DEVICE, mtu)?;
            bridge::join(host, DEVICE)?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        Expected::Vxlan
    }
}

fn tunnel(own: Ipv4Addr, other: Ipv4Addr) -> Vxlan {
    Vxlan {
        vni: Some(VNI),
        external: false,
        local: Some(own.into()),
        remote: Some(other.into()),
        port: PORT,
        learning: true,
        udp6_zero_csum: false,
        device: None,
    }
}

pub(super) fn check(session: &Session) -> Result<Option<String>, LabError> {
    if let Some(reason) = bridge::check(session)? {
        return Ok(Some(reason));
    }
    let tunnel = tunnel(HOST1_ADDRESS, HOST2_ADDRESS);
    let tried = session.try_in_netns(|netlink| netlink.add_vxlan(DEVICE, &tunnel))?;
    Ok(tried
        .err()
        .map(|error| format!("the kernel makes no VXLAN device: {error}")))
}
