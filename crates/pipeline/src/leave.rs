//! The last step of a frame whose place is known: `to_port`, `encap` or `vlan_out`. After `l2_lookup`, of
//! frames that were routed and of those that were not.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::Verdict;

use crate::answer::Back;
use crate::context::{Context, RemoteCount, Stage};
use crate::encap::Origin;
use crate::l2_lookup::Place;
use crate::parse::Frame;
use crate::{encap, to_port, vlan};

/// Ends with the verdict of the way that the frame takes.
pub(crate) fn leave(
    cx: &mut Context<'_>,
    origin: Origin,
    frame: &Frame<'_>,
    place: &Place<'_>,
    back: &Back<'_>,
) -> Stage<Verdict> {
    match *place {
        Place::Port(port) => to_port::to_port(cx, frame, port, back),
        Place::Remote { remote, key } => to_remote(cx, origin, frame, remote, key),
        Place::Uplink(vlan) => vlan::vlan_out(cx, frame, vlan),
    }
}

/// The remote counts what it gets and what it does not.
fn to_remote(
    cx: &mut Context<'_>,
    origin: Origin,
    frame: &Frame<'_>,
    remote: IpAddr,
    key: u16,
) -> Stage<Verdict> {
    let ended = encap::encap(cx, origin, frame, remote, key);
    let (ControlFlow::Continue(verdict) | ControlFlow::Break(verdict)) = ended;
    match verdict {
        Verdict::Segment => {}
        verdict if verdict.is_drop() => cx.count_remote(RemoteCount::Dropped, remote),
        _ => cx.count_remote(RemoteCount::To, remote),
    }
    ended
}

/// The largest IP packet that can leave there, of a frame with this tag. `None`: any.
pub(crate) fn mtu(cx: &Context<'_>, frame: &Frame<'_>, place: &Place<'_>) -> Option<usize> {
    match place {
        Place::Port(_) => None,
        Place::Remote { remote, .. } => {
            let remote = cx.host.remote(*remote)?;
            Some(encap::largest_ip_len(cx, remote, frame))
        }
        Place::Uplink(_) => Some(cx.host.underlay_mtu() as usize),
    }
}
