//! The devices `apply` makes for itself. The segmenter: a veth pair whose GSO limits make the kernel cut
//! every super-packet that is sent into it. The GRO device: a kernel VXLAN or Geneve device that never carries a
//! packet; while it is up its UDP port is registered for receive coalescing.

use overlane_model::{Encapsulation, Tunnel};
use overlane_net::netns::Netns;
use overlane_net::{Geneve, Link, NetError, Netlink, Vxlan, sysctl};

use crate::detours::Detour;
use crate::paths::{GRO, SEGMENTER, SEGMENTER_OUT};
use crate::random;

/// The segmenter takes what a guest may send in one piece.
const SEGMENTER_MTU: u32 = 65535;
/// One segment, and less bytes than any: the device gets nothing that is not cut.
const SEGMENTER_GSO_SEGS: u32 = 1;
const SEGMENTER_GSO_SIZE: u32 = 512;

/// The kernel counts indices up from 1, and nobody gets as far.
const SEGMENTER_FIRST_INDEX: u32 = 1 << 30;

/// The names of all devices of ours in the host's namespace.
pub(crate) fn ours() -> impl Iterator<Item = &'static str> {
    let detours = Detour::ALL.into_iter().flat_map(Detour::devices);
    detours.copied().chain([SEGMENTER, SEGMENTER_OUT, GRO])
}

/// Whether the pair is as [`make_segmenter`] makes it.
pub(crate) fn segmenter_is_right(seg: Option<&Link>, out: Option<&Link>) -> bool {
    let (Some(seg), Some(out)) = (seg, out) else {
        return false;
    };
    let pair = seg.kind.as_deref() == Some("veth")
        && seg.index >= SEGMENTER_FIRST_INDEX
        && seg.peer_index == Some(out.index)
        && !seg.peer_in_other_netns;
    let limits = seg.gso_max_segs == SEGMENTER_GSO_SEGS
        && seg.gso_max_size == SEGMENTER_GSO_SIZE
        && seg.gso_ipv4_max_size == SEGMENTER_GSO_SIZE;
    pair && limits
        && [seg, out]
            .iter()
            .all(|link| link.up && link.mtu == SEGMENTER_MTU)
}

/// Whether the GRO device is of the tunnel's kind and port, up or not.
pub(crate) fn gro_is_of(link: &Link, tunnel: &Tunnel) -> bool {
    link.kind.as_deref() == Some(tunnel.encapsulation.name()) && link.udp_port == Some(tunnel.port)
}

/// Creates the pair; [`finish_segmenter`] must follow. The end to send into has an index that no other namespace has:
/// by it the programs know this one (`bpf/lib/devices.h`).
pub(crate) fn add_segmenter(netlink: &Netlink) -> Result<(), NetError> {
    let index = SEGMENTER_FIRST_INDEX | random::number() as u32 & (SEGMENTER_FIRST_INDEX - 1);
    netlink.add_veth_with_index(SEGMENTER, SEGMENTER_OUT, index)
}

/// Sets the pair up. It stays quiet: no addresses, no neighbour discovery.
pub(crate) fn finish_segmenter(netlink: &Netlink) -> Result<(), NetError> {
    for name in [SEGMENTER, SEGMENTER_OUT] {
        quiet(netlink, name)?;
        netlink.set_mtu(name, SEGMENTER_MTU)?;
    }
    netlink.set_gso_limits(SEGMENTER, SEGMENTER_GSO_SEGS, SEGMENTER_GSO_SIZE)?;
    netlink.set_up(SEGMENTER)?;
    netlink.set_up(SEGMENTER_OUT)
}

/// Creates the GRO device for the tunnel's port; [`finish_gro`] must follow.
pub(crate) fn add_gro(netlink: &Netlink, tunnel: &Tunnel, ipv6: bool) -> Result<(), NetError> {
    let (port, udp6_zero_csum) = (tunnel.port, ipv6);
    match tunnel.encapsulation {
        Encapsulation::Vxlan => {
            let vxlan = Vxlan {
                vni: None,
                external: true,
                group_policy: false,
                local: None,
                remote: None,
                port,
                learning: false,
                udp_csum: true,
                udp6_zero_csum,
                device: None,
            };
            netlink.add_vxlan(GRO, &vxlan)
        }
        Encapsulation::Geneve => {
            let geneve = Geneve {
                to: None,
                port,
                udp_csum: false,
                udp6_zero_csum,
            };
            netlink.add_geneve(GRO, &geneve)
        }
    }
}

/// Brings the GRO device up, quietly. Here the kernel opens the UDP port.
pub(crate) fn finish_gro(netlink: &Netlink) -> Result<(), NetError> {
    quiet(netlink, GRO)?;
    netlink.set_up(GRO)
}

/// A device of ours is up for a moment before it has its program: the host must neither speak nor listen there.
pub(crate) fn quiet(netlink: &Netlink, device: &str) -> Result<(), NetError> {
    netlink.set_addr_gen_none(device)?;
    netlink.set_arp(device, false)?;
    let disable_ipv6 = format!("net.ipv6.conf.{device}.disable_ipv6");
    match sysctl::set(&Netns::current()?, &disable_ipv6, "1") {
        // A kernel without IPv6.
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}
