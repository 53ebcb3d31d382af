//! The segmenter: a veth pair whose GSO limits make the kernel cut every super-packet that is sent into it.

use std::collections::BTreeMap;

use overlane_net::{Link, NetError, Netlink};

use super::kind::{Kind, Look};
use super::own_devices::{self, quiet};
use super::plan::{Deed, Done, Plan};
use crate::HostError;
use crate::lib::paths::{self, SEGMENTER, SEGMENTER_OUT};
use crate::lib::random;

/// The segmenter takes what a guest may send in one piece.
const SEGMENTER_MTU: u32 = 65535;
/// One segment, and less bytes than any: the device gets nothing that is not cut.
const SEGMENTER_GSO_SEGS: u32 = 1;
const SEGMENTER_GSO_SIZE: u32 = 512;

/// The kernel counts indices up from 1, and nobody gets as far.
const SEGMENTER_FIRST_INDEX: u32 = 1 << 30;

/// The pair.
pub(crate) struct Segmenter;

impl Kind for Segmenter {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        const BOTH: [&str; 2] = [SEGMENTER, SEGMENTER_OUT];
        let what = "segmenter";
        if look.target.is_none() {
            let [old0, old1, _] = paths::ASIDE.map(|(_, aside)| aside);
            let all = [SEGMENTER, SEGMENTER_OUT, old0, old1];
            own_devices::take_away(look, plan, &all, what);
            return Ok(());
        }
        own_devices::discard_aside(look, plan, &BOTH);
        if is_right(&look.current.devices) {
            return Ok(());
        }
        own_devices::put_aside(look, plan, &BOTH);
        let row = own_devices::row(look, SEGMENTER, what);
        plan.add(Deed::new(row, |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            add(netlink)?;
            let undo = move || Ok(netlink.delete(SEGMENTER)?);
            mending.journal.push(undo);
            mending.journal.before()?;
            finish(netlink)?;
            Ok(Done::Yes)
        }));
        plan.fresh.extend(BOTH);
        Ok(())
    }
}

/// Whether the pair is as [`add`] and [`finish`] make it.
pub(crate) fn is_right(devices: &BTreeMap<String, Link>) -> bool {
    let (Some(seg), Some(out)) = (devices.get(SEGMENTER), devices.get(SEGMENTER_OUT)) else {
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

/// Creates the pair; [`finish`] must follow. The end to send into has an index that no other namespace has:
/// by it the programs know this one (`bpf/lib/devices.h`).
fn add(netlink: &Netlink) -> Result<(), NetError> {
    let index = SEGMENTER_FIRST_INDEX | random::number() as u32 & (SEGMENTER_FIRST_INDEX - 1);
    netlink.add_veth_with_index(SEGMENTER, SEGMENTER_OUT, index)
}

/// Sets the pair up. It stays quiet: no addresses, no neighbour discovery.
fn finish(netlink: &Netlink) -> Result<(), NetError> {
    for name in [SEGMENTER, SEGMENTER_OUT] {
        quiet(netlink, name)?;
        netlink.set_mtu(name, SEGMENTER_MTU)?;
    }
    netlink.set_gso_limits(SEGMENTER, SEGMENTER_GSO_SEGS, SEGMENTER_GSO_SIZE)?;
    netlink.set_up(SEGMENTER)?;
    netlink.set_up(SEGMENTER_OUT)
}
