//! The guard: a table of nftables that drops what comes in by the name of a port's device, and what the host sends there.
//!
//! Our program at the device takes every packet, so nothing gets as far as nftables. But it goes with the device:
//! a device that is deleted and made again has none until the next `apply`, and its guest would reach the services of
//! the host, and what the host forwards to. The table knows the name only, and the name comes back.
//!
//! ```text
//!   guest ── web1 ─┬─ program of ours: takes all ──► logical port
//!                  └─ (made again: none) ──► prerouting, input of ARP and of bridges: dropped here
//! ```
//!
//! The other way, our programs hand a frame to the device itself, past nftables. Whatever comes by postrouting is the
//! host's own: what a user of it sends to the device without any right, what it forwards, what IPv6 says unasked. No
//! rule of the switch would see it, so it is dropped here.
//!
//! Nobody else's table is touched. Who flushes the whole ruleset takes the guard away too; `status` says so, and
//! the next `apply` writes it again.

use std::collections::{BTreeMap, BTreeSet};

use overlane_model::Tables;
use overlane_net::NetError;
use overlane_net::nftables::{self, DropTable, Family, Nftables};

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Plan};
use crate::HostError;
use crate::lib::paths::guard_table;
use crate::report::{ChangeKind, Object, Row, finding};

/// Who lists the tables of the machine reads it.
const COMMENT: &str = "Overlane: drops what comes by the device of a port without its program, and what the host sends there";

/// Families with a table, and what is in each.
pub(crate) type Found = BTreeMap<Family, DropTable>;

/// Looks at the tables of a host in the namespace of this thread. A kernel without nftables has none.
pub(crate) fn read(host: &str) -> Result<Found, HostError> {
    let tables = match Nftables::new() {
        Err(error) if nftables::is_unsupported(&error) => return Ok(Found::new()),
        other => other?,
    };
    let mut found = Found::new();
    for family in Family::ALL {
        if let Some(table) = tables.read(family, &guard_table(host))? {
            found.insert(family, table);
        }
    }
    Ok(found)
}

/// The words of the table of a family, where the kernel refused it.
pub(crate) fn thing(family: Family) -> String {
    format!("guard {}", family.name())
}

/// A table in each family.
pub(crate) struct Guard;

impl Kind for Guard {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let wanted = (look.target).map_or_else(BTreeSet::new, |target| devices(target.tables));
        let host = look.host;
        for family in Family::ALL {
            let found = look.current.guard.get(&family);
            let Some(change) = difference(&wanted, found) else {
                continue;
            };
            let row = Row::new(change, Object::Guard, family.name());
            let row = row.of(Object::Guard, guard_table(host));
            let deed = replace(host, family, wanted.clone(), found.cloned());
            let deed = Deed::new(row, deed).or_without(thing(family), move |reason| {
                finding::no_guard(host, family, reason)
            });
            plan.add(deed);
        }
        Ok(())
    }
}

/// Whether a table is not as these tables want it, in a family that the kernel does not refuse. From a thread in the
/// host's namespace.
pub(crate) fn differs(
    host: &str,
    tables: &Tables,
    refused: &BTreeMap<String, String>,
) -> Result<bool, HostError> {
    let found = read(host)?;
    let wanted = devices(tables);
    let differs = |family: &Family| difference(&wanted, found.get(family)).is_some();
    let mut families = Family::ALL.into_iter();
    Ok(families.any(|family| !refused.contains_key(&thing(family)) && differs(&family)))
}

fn devices(tables: &Tables) -> BTreeSet<String> {
    let ports = tables.ports.iter();
    ports
        .map(|port| port.attachment.device.to_string())
        .collect()
}

fn difference(wanted: &BTreeSet<String>, found: Option<&DropTable>) -> Option<ChangeKind> {
    match (wanted.is_empty(), found) {
        (true, None) => None,
        (true, Some(_)) => Some(ChangeKind::Remove),
        (false, None) => Some(ChangeKind::Add),
        (false, Some(found)) => (!found.is_for(wanted)).then_some(ChangeKind::Modify),
    }
}

/// Writes it in one batch. Undone it is as it was: a table that somebody had damaged is whole then, and one that comes
/// back counts from zero.
fn replace<'a>(
    host: &'a str,
    family: Family,
    wanted: BTreeSet<String>,
    found: Option<DropTable>,
) -> impl FnOnce(&mut super::Mending<'a>) -> Result<Done, HostError> + 'a {
    move |mending| {
        mending.journal.before()?;
        let is_whole = found.as_ref().is_some_and(|found| found.is_whole);
        match write(host, family, &wanted, is_whole) {
            Ok(()) => {}
            Err(error) if nftables::is_unsupported(&error) => {
                return Ok(Done::Refused(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        let before = found.map(|found| found.devices).unwrap_or_default();
        let is_whole = !wanted.is_empty();
        let undo = move || Ok(write(host, family, &before, is_whole)?);
        mending.journal.push(undo);
        Ok(Done::Yes)
    }
}

/// The table of one family drops by these devices. Where it `is_whole` it goes on counting.
fn write(
    host: &str,
    family: Family,
    devices: &BTreeSet<String>,
    is_whole: bool,
) -> Result<(), NetError> {
    let (tables, name) = (Nftables::new()?, guard_table(host));
    if devices.is_empty() {
        tables.destroy(family, &name)
    } else if is_whole {
        // Somebody may have taken it away since it was looked at.
        let replaced = tables.replace_devices(family, &name, devices);
        replaced.or_else(|_| tables.write(family, &name, COMMENT, devices))
    } else {
        tables.write(family, &name, COMMENT, devices)
    }
}

#[cfg(test)]
mod tests {
    use overlane_net::nftables::Dropped;

    use super::*;

    #[test]
    fn a_table_that_is_missing_changed_or_too_much_differs() {
        let devices = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let check = |wanted: &[&str], found: Option<(&[&str], bool)>, expected| {
            let dropped = Dropped {
                packets: 7,
                bytes: 7,
            };
            let found = found.map(|(names, is_whole)| DropTable {
                devices: devices(names),
                is_whole,
                incoming: dropped,
                outgoing: dropped,
            });
            let differs = difference(&devices(wanted), found.as_ref());
            assert_eq!(differs, expected, "{wanted:?} {found:?}");
        };
        check(&[], None, None);
        check(&["v0"], None, Some(ChangeKind::Add));
        check(&["v0"], Some((&["v0"], true)), None);
        check(
            &["v0"],
            Some((&["v0", "v1"], true)),
            Some(ChangeKind::Modify),
        );
        check(&["v0"], Some((&["v0"], false)), Some(ChangeKind::Modify));
        check(&[], Some((&["v0"], true)), Some(ChangeKind::Remove));
    }
}
