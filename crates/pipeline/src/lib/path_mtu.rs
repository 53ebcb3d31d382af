//! What is known of the path to a remote. Stage path_mtu learns it.

use std::net::IpAddr;

use crate::lib::context::Context;
use crate::lib::frame::Frame;
use crate::lib::state::PathMtu;
use crate::lib::time::SECOND_NS;

/// Inside a tunnel: no error of the underlay makes it less.
const LEAST_4: usize = 576;
/// RFC 8200 section 5.
const LEAST_6: usize = 1280;

/// The largest outer IP packet for a remote.
pub(crate) struct Largest {
    pub(crate) mtu: usize,
    /// Who made it less than the uplink's.
    pub(crate) hop: Option<IpAddr>,
}

/// What is known of a remote, and not too old.
pub(crate) fn known(cx: &Context<'_>, remote: IpAddr) -> Option<PathMtu> {
    let known = cx.state.path_mtus.get(&remote).copied();
    known.filter(|known| now_s(cx) < known.until_s)
}

/// For a frame with so many bytes of outer headers before its IP header.
pub(crate) fn largest(
    cx: &Context<'_>,
    remote: IpAddr,
    frame: &Frame<'_>,
    headers: usize,
) -> Largest {
    let uplink = cx.host.underlay_mtu() as usize;
    let least = match frame.ip.map(|ip| ip.source) {
        Some(IpAddr::V4(_)) => LEAST_4,
        _ => LEAST_6,
    };
    let path = known(cx, remote).map(|known| ((known.mtu as usize).max(headers + least), known));
    match path.filter(|(mtu, _)| *mtu < uplink) {
        Some((mtu, known)) => Largest {
            mtu,
            hop: Some(known.hop),
        },
        None => of_uplink(cx),
    }
}

/// For any remote.
pub(crate) fn of_uplink(cx: &Context<'_>) -> Largest {
    Largest {
        mtu: cx.host.underlay_mtu() as usize,
        hop: None,
    }
}

pub(crate) fn now_s(cx: &Context<'_>) -> u64 {
    cx.now_ns / SECOND_NS
}
