//! What the programs remember, in maps with another layout: it comes along. Once before the programs at the hooks
//! change, and once more behind that, for what came meanwhile.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use overlane_ebpf::Program;
use overlane_ebpf::carry::Carrier;
use overlane_ebpf::maps::{MapSet, settle};

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Mending, Plan};
use super::target::Target;
use crate::HostError;
use crate::lib::clock::Clock;
use crate::lib::paths;
use crate::report::finding;

/// Each pass takes a part of the time of the one before: what has changed during that.
const MOST_PASSES: usize = 4;
/// So few entries are carried faster than a packet notices.
const FEW: usize = 16;

/// State that goes along to other maps.
pub(crate) struct Carried;

impl Kind for Carried {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let Some(target) = look.target else {
            return Ok(());
        };
        for from in sources(look, target) {
            plan.load
                .extend([Program::TakeConnection, Program::ForgetTranslated]);
            let carrier = Rc::new(Cell::new(None));
            let then = Rc::clone(&carrier);
            plan.add(Deed::new(None, move |mending| {
                carrier.set(carry(target, from, mending)?);
                Ok(Done::Yes)
            }));
            // When all that is added is there. What came by the old programs stays in their maps until then.
            plan.delete(Deed::new(None, move |mending| {
                mending.journal.before()?;
                match then.take() {
                    Some(mut carrier) => carry_rest(&mut carrier, mending),
                    None => Ok(Done::Nothing),
                }
            }));
        }
        Ok(())
    }
}

/// The sets that programs have used until now: that of the build before, or both sets where a run was killed between
/// them.
fn sources<'a>(look: &Look<'a>, target: &Target<'_>) -> Vec<&'a Path> {
    let own = paths::map_set(look.host, target.data_path.signature());
    let Some(state) = &look.current.state else {
        return Vec::new();
    };
    let before = paths::map_set(look.host, &state.map_signature);
    let stale = look.current.stale_sets.iter();
    let sources = stale.filter(|set| **set != own && (state.in_progress || **set == before));
    sources.map(|set| set.as_path()).collect()
}

/// The programs at the hooks lead to the new data path, all at the same moment, before they are replaced one by one: else
/// what passes at one of them would begin connections that the next one does not know.
pub(super) fn lead<'a>(target: &'a Target<'a>, look: &Look<'a>, plan: &mut Plan<'a>) {
    for from in sources(look, target) {
        plan.add(Deed::new(None, move |mending| {
            let maps = MapSet::open_any(from, target.data_path.layouts())?;
            let Some((maps, loaded)) = maps.zip(mending.loaded) else {
                return Ok(Done::Nothing);
            };
            mending.journal.before()?;
            // A build may have no such map, or the kernel may refuse the program there: they are replaced one by one then.
            let Ok(Some(before)) = loaded.lead_from(&maps) else {
                return Ok(Done::Nothing);
            };
            (mending.journal).push(move || Ok(maps.lead_to(&before)?));
            Ok(Done::Yes)
        }));
    }
}

/// Not undone: a new set goes with all that is in it, and in one that was there it is what a packet would have made.
fn carry<'a>(
    target: &Target<'_>,
    from: &Path,
    mending: &mut Mending<'a>,
) -> Result<Option<Carrier<'a>>, HostError> {
    mending.journal.before()?;
    let old = MapSet::open_any(from, target.data_path.layouts())?;
    let Some((old, loaded)) = old.zip(mending.loaded) else {
        return Ok(None);
    };
    let mut carrier = Carrier::new(old, mending.maps()?, loaded)?;
    let begins_anew = carrier.begins_anew();
    if !begins_anew.is_empty() {
        mending.notes.push(finding::begins_anew(&begins_anew));
    }
    for _ in 0..MOST_PASSES {
        mending.journal.before()?;
        let passed = carrier.pass(Clock::now()?.monotonic_ns)?;
        if passed.taken + passed.forgotten <= FEW {
            break;
        }
    }
    Ok(Some(carrier))
}

fn carry_rest(carrier: &mut Carrier<'_>, mending: &mut Mending<'_>) -> Result<Done, HostError> {
    carrier.pass(Clock::now()?.monotonic_ns)?;
    // Packets that were on their way through the old programs.
    settle();
    mending.journal.before()?;
    let passed = carrier.pass(Clock::now()?.monotonic_ns)?;
    if passed.left_out > 0 {
        mending.notes.push(finding::left_behind(passed.left_out));
    }
    Ok(Done::Yes)
}
