//! The receive helper: a kernel VXLAN or Geneve device that never carries a packet. The kernel coalesces tunnel packets
//! (GRO) only of a UDP port that some tunnel device has; while ours is up, the tunnel's port is registered. There is none
//! where another device has the port already, or the kernel does it wrongly.

use overlane_ebpf::preflight::{KernelVersion, running_kernel};
use overlane_model::{Encapsulation, Tables, Tunnel};
use overlane_net::{Geneve, Link, NetError, Netlink, Vxlan};

use super::kind::{Kind, Look};
use super::own_devices::{self, quiet};
use super::plan::{Deed, Done, Mending, Plan};
use super::target::Links;
use crate::HostError;
use crate::lib::detour::Detour;
use crate::lib::paths::{self, GRO};
use crate::report::{Object, Row, finding};

/// What it is called.
const WHAT: &str = "receive coalescing";

/// The device.
pub(crate) struct ReceiveHelper;

impl Kind for ReceiveHelper {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let wanted = look.target.filter(|target| target.resolved.coalescing);
        let Some(target) = wanted else {
            let [_, _, old] = paths::ASIDE.map(|(_, aside)| aside);
            own_devices::take_away(look, plan, &[GRO, old], WHAT);
            return Ok(());
        };
        own_devices::discard_aside(look, plan, &[GRO]);
        let tunnel = &target.tables.tunnel;
        match look.current.devices.get(GRO) {
            Some(gro) if is_of(gro, tunnel) => {
                if !gro.up {
                    plan.add(Deed::new(
                        Row::modify(Object::Device, GRO).differs("up"),
                        raise,
                    ));
                }
                return Ok(());
            }
            // One port cannot have two.
            Some(gro) if gro.udp_port == Some(tunnel.port) => {
                plan.add(own_devices::discard(GRO, None));
            }
            _ => own_devices::put_aside(look, plan, &[GRO]),
        }
        let row = own_devices::row(look, GRO, WHAT);
        let ipv6 = target.tables.vtep.is_ipv6();
        let deed = Deed::new(row, move |mending| make(mending, tunnel, ipv6));
        let without = |reason: &str| finding::no_gro(tunnel.port, reason);
        plan.add(deed.or_without(format!("device {GRO}"), without));
        plan.fresh.insert(GRO);
        Ok(())
    }
}

/// Whatever the kernel answers is no reason to give up. EPERM here does not mean that rights are missing: the kernel
/// refuses a Geneve device in external mode beside another one on its port, whose namespace may be another.
fn make(mending: &mut Mending<'_>, tunnel: &Tunnel, ipv6: bool) -> Result<Done, HostError> {
    mending.journal.before()?;
    let netlink = mending.netlink;
    match add(netlink, tunnel, ipv6).and_then(|()| finish(netlink)) {
        Ok(()) => {
            mending.journal.push(move || Ok(netlink.delete(GRO)?));
            Ok(Done::Yes)
        }
        Err(error) => {
            // Created, but its port could not be opened.
            let _ = netlink.delete(GRO);
            Ok(Done::Refused(error.to_string()))
        }
    }
}

fn raise(mending: &mut Mending<'_>) -> Result<Done, HostError> {
    mending.journal.before()?;
    let netlink = mending.netlink;
    netlink.set_up(GRO)?;
    mending.journal.push(move || Ok(netlink.set_down(GRO)?));
    Ok(Done::Yes)
}

/// What there is to do for it.
pub(crate) enum Coalescing {
    /// `apply` makes its device.
    OwnDevice,
    /// Another device has the tunnel's port. There is no room for ours.
    OtherDevice(Row),
    /// There is none.
    None(Row),
}

pub(crate) fn decide(
    tables: &Tables,
    links: &Links<'_>,
    netlink: &Netlink,
) -> Result<Coalescing, HostError> {
    let (kind, port) = (tables.tunnel.encapsulation.name(), tables.tunnel.port);
    if let Some(other) = other(links, port) {
        let coalesces = other.up && other.kind.as_deref() == Some(kind);
        let row = finding::other_tunnel(&other.name, port, coalesces);
        return Ok(Coalescing::OtherDevice(row));
    }
    let running = running_kernel()?;
    if tables.tunnel.encapsulation == Encapsulation::Geneve && is_unsafe(&running) {
        let reason =
            format!("Linux {running} does it wrongly for Geneve: CVE-2026-72408, mended in 7.1.5");
        return Ok(Coalescing::None(finding::no_gro(port, &reason)));
    }
    // Ours is there on all but the first run.
    let has_kind = || match links.get(GRO) {
        Some(ours) if ours.kind.as_deref() == Some(kind) => Ok(true),
        _ => netlink.has_kind(kind),
    };
    if !has_kind()? {
        let reason = format!("this kernel has no {kind} devices");
        return Ok(Coalescing::None(finding::no_gro(port, &reason)));
    }
    Ok(Coalescing::OwnDevice)
}

/// Another device than ours on the tunnel's port; first one that is up.
fn other<'a>(links: &Links<'a>, port: u16) -> Option<&'a Link> {
    let ours = |link: &Link| {
        paths::ASIDE
            .iter()
            .any(|(a, b)| link.name == *a || link.name == *b)
            || Detour::Unmarker.devices().contains(&link.name.as_str())
    };
    let others = links.values().copied();
    let others = others.filter(|link| link.udp_port == Some(port) && !ours(link));
    others.max_by_key(|link| link.up)
}

/// On these kernels a packet's own hint decides how it is joined, before any program of ours sees it.
fn is_unsafe(release: &str) -> bool {
    let wrong = KernelVersion(7, 0, 0)..KernelVersion(7, 1, 5);
    wrong.contains(&KernelVersion::of(release))
}

/// Whether the GRO device is of the tunnel's kind and port, up or not.
fn is_of(link: &Link, tunnel: &Tunnel) -> bool {
    link.kind.as_deref() == Some(tunnel.encapsulation.name()) && link.udp_port == Some(tunnel.port)
}

/// Creates the GRO device for the tunnel's port; [`finish`] must follow.
fn add(netlink: &Netlink, tunnel: &Tunnel, ipv6: bool) -> Result<(), NetError> {
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
fn finish(netlink: &Netlink) -> Result<(), NetError> {
    quiet(netlink, GRO)?;
    netlink.set_up(GRO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_join_geneve_packets_wrongly() {
        for wrong in [
            "7.0.0",
            "7.0.12-amd64",
            "7.1.4+deb13-amd64",
            "7.1-rc3",
            "7.1",
        ] {
            assert!(is_unsafe(wrong), "{wrong}");
        }
        for right in [
            "6.12.95+deb12-amd64",
            "6.19.9",
            "7.1.5",
            "7.2.0-rc1",
            "7.3.4",
            "10.0.0",
        ] {
            assert!(!is_unsafe(right), "{right}");
        }
    }
}
