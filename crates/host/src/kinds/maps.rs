//! Pinned sets of maps. A data path with another layout has a set of its own; the one before goes when no program uses
//! it any more.

use std::path::Path;
use std::rc::Rc;

use overlane_ebpf::counters::{self, Counted};
use overlane_ebpf::maps::{MapSet, unpin_folder};

use super::entries::give_numbers;
use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Mending, Plan};
use super::target::Target;
use crate::HostError;
use crate::lib::{files, paths};
use crate::report::{Object, Row};

/// The folders of a host's map sets.
pub(crate) struct Maps;

impl Kind for Maps {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let current = look.current;
        let signature = look.target.map(|target| target.data_path.signature());
        let own = signature.map(|signature| paths::map_set(look.host, signature));
        for set in &current.stale_sets {
            if own.as_ref() == Some(set) {
                plan.add(clear(set));
            } else {
                plan.clean_up(discard(set, look.target.is_none()));
            }
        }
        let (Some(target), Some(own)) = (look.target.filter(|_| plan.new_set), own) else {
            return Ok(());
        };
        let state = current.state.as_ref();
        let old = state.map(|state| paths::map_set(look.host, &state.map_signature));
        if let Some(from) = old.filter(|old| *old != own && current.stale_sets.contains(old)) {
            let moves = plan.moves.get(&Counted::Rules).map(Rc::clone);
            plan.add(Deed::new(None, move |mending| {
                let moves = moves.as_deref().map_or(&[][..], Vec::as_slice);
                carry_counters(target, &from, moves, mending)
            }));
        }
        plan.add(Deed::new(None, move |mending| {
            mending.journal.before()?;
            files::pin_folder(&own)?;
            let undone = own.clone();
            mending
                .journal
                .push(move || unpin_folder(&undone).map(drop).map_err(Into::into));
            mending.journal.before()?;
            mending.maps()?.pin(&own)?;
            Ok(Done::Yes)
        }));
        Ok(())
    }
}

/// A half-made folder stands where the new set will be pinned.
fn clear(folder: &Path) -> Deed<'_> {
    Deed::new(None, move |mending| {
        mending.journal.before()?;
        let unpinned = unpin_folder(folder)?;
        mending.journal.push(move || Ok(unpinned.restore()?));
        Ok(Done::Yes)
    })
}

/// People hear of it when all goes.
fn discard(folder: &Path, is_told: bool) -> Deed<'_> {
    let row = Row::remove(Object::Maps, folder.display());
    let told = is_told.then(|| row.clone());
    let deed = Deed::new(told, move |_| {
        unpin_folder(folder)?;
        Ok(Done::Yes)
    });
    deed.or_left_over(row)
}

fn carry_counters(
    target: &Target<'_>,
    from: &Path,
    moves: &[(Option<u32>, u32)],
    mending: &mut Mending<'_>,
) -> Result<Done, HostError> {
    mending.journal.before()?;
    // A set of another build may lack maps; then counting begins anew.
    if let Some(old) = MapSet::open_any(from, target.data_path.layouts())? {
        counters::carry_over(&old, mending.maps()?)?;
        give_numbers(Counted::Rules, &old, moves, mending)?;
    }
    Ok(Done::Yes)
}
