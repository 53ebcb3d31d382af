//! Devices that the maps hold: the kernel says when one goes, and another one under its index is not taken for it
//! (ADR 21). They are held before anything is sent to them.

use std::collections::BTreeSet;

use overlane_ebpf::devices::{self as held, named};

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Plan};
use super::target::NO_DEVICE;
use crate::HostError;
use crate::lib::detour::own_devices;

/// The devices that a map entry names.
pub(crate) struct Held;

impl Kind for Held {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let Some(target) = look.target else {
            // They go with the maps.
            return Ok(());
        };
        let ours = own_devices().filter(|name| !plan.fresh.contains(name));
        let ours = ours.filter_map(|name| Some(look.current.devices.get(name)?.index));
        let mut wanted = named(&target.contents);
        wanted.extend(ours);
        wanted.remove(&NO_DEVICE);
        let surplus: BTreeSet<u32> = look.current.held.difference(&wanted).copied().collect();
        if !surplus.is_empty() {
            plan.clean_up(Deed::new(None, move |mending| {
                let maps = mending.maps()?;
                for index in surplus {
                    held::release(maps, index)?;
                }
                Ok(Done::Yes)
            }));
        }
        let held = look.current.held_in(look.here);
        let (kept, new): (BTreeSet<u32>, BTreeSet<u32>) =
            wanted.iter().partition(|index| held.contains(index));
        if !plan.fresh.is_empty() || !new.is_empty() {
            plan.add(hold(new, kept));
        }
        Ok(())
    }
}

/// Those of ours may be younger than the plan, or refused. What is kept has to be held still.
fn hold<'a>(new: BTreeSet<u32>, kept: BTreeSet<u32>) -> Deed<'a> {
    Deed::new(None, move |mending| {
        let maps = mending.maps()?;
        let ours = own_devices().filter_map(|name| mending.netlink.link(name).ok());
        let mut wanted: BTreeSet<u32> = ours.map(|link| link.index).collect();
        wanted.extend(new);
        for ifindex in wanted.difference(&kept).copied() {
            mending.journal.before()?;
            held::hold(maps, ifindex)?;
            mending
                .journal
                .push(move || Ok(held::release(maps, ifindex)?));
        }
        let held = held::held(maps)?;
        match kept.iter().find(|index| !held.contains(index)) {
            Some(index) => Err(held::gone(&format!("with index {index}")).into()),
            None => Ok(Done::Yes),
        }
    })
}
