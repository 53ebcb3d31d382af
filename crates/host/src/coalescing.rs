//! Receive coalescing (GRO): the kernel joins tunnel packets only of a UDP port that some tunnel device has. That
//! is ours (`ovl-gro`), unless another device has the port already, or the kernel does it wrongly.

use overlane_ebpf::preflight::{KernelVersion, running_kernel};
use overlane_model::{Encapsulation, Tables};
use overlane_net::{Link, Netlink};

use crate::detours::Detour;
use crate::paths;
use crate::preflight::Links;
use crate::{HostError, Note};

/// What there is to do for it.
pub(crate) enum Coalescing {
    /// `apply` makes its device.
    OwnDevice,
    /// Another device has the tunnel's port. There is no room for ours.
    OtherDevice(Note),
    /// There is none.
    None(Note),
}

pub(crate) fn decide(
    tables: &Tables,
    links: &Links<'_>,
    netlink: &Netlink,
) -> Result<Coalescing, HostError> {
    let (kind, port) = (tables.tunnel.encapsulation.name(), tables.tunnel.port);
    if let Some(other) = other(links, port) {
        let note = Note::OtherTunnel {
            device: other.name.clone(),
            port,
            coalesces: other.up && other.kind.as_deref() == Some(kind),
        };
        return Ok(Coalescing::OtherDevice(note));
    }
    let running = running_kernel()?;
    if tables.tunnel.encapsulation == Encapsulation::Geneve && is_unsafe(&running) {
        let reason =
            format!("Linux {running} does it wrongly for Geneve: CVE-2026-72408, mended in 7.1.5");
        return Ok(Coalescing::None(Note::NoGro { port, reason }));
    }
    // Ours is there on all but the first run.
    let has_kind = || match links.get(paths::GRO) {
        Some(ours) if ours.kind.as_deref() == Some(kind) => Ok(true),
        _ => netlink.has_kind(kind),
    };
    if !has_kind()? {
        let reason = format!("this kernel has no {kind} devices");
        return Ok(Coalescing::None(Note::NoGro { port, reason }));
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
