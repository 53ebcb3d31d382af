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
//! Nobody else's table is touched. Who flushes the whole ruleset takes the guard away too; `show ports` says so, and
//! the next `apply` writes it again.

use std::collections::{BTreeMap, BTreeSet};

use overlane_model::Tables;
use overlane_net::NetError;
use overlane_net::nftables::{self, DropTable, Family, Nftables};

use crate::{Change, HostError, Note};

/// Who lists the tables of the machine reads it.
const COMMENT: &str = "Overlane: drops what comes by the device of a port without its program, and what the host sends there";
/// Beginning of the lines that tell of it.
const WORDS: &str = "guard: ";

/// Families with a table, and what is in each.
pub(crate) type Found = BTreeMap<Family, DropTable>;

/// Why there is no table of a family, by its name, where the kernel refused it.
pub(crate) type Refused = BTreeMap<String, String>;

/// What there is to do in one family.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) family: Family,
    /// Names of the ports' devices. Without any there is no table.
    wanted: BTreeSet<String>,
    found: Option<DropTable>,
}

/// The name of a host's tables.
pub fn table_of(host: &str) -> String {
    format!("overlane-{host}")
}

/// Looks at the tables of a host in the namespace of this thread. A kernel without nftables has none.
pub(crate) fn read(host: &str) -> Result<Found, HostError> {
    let tables = match Nftables::new() {
        Err(error) if nftables::is_unsupported(&error) => return Ok(Found::new()),
        other => other?,
    };
    let mut found = Found::new();
    for family in Family::ALL {
        if let Some(table) = tables.read(family, &table_of(host))? {
            found.insert(family, table);
        }
    }
    Ok(found)
}

/// What differs from what `tables` want.
pub(crate) fn jobs(tables: &Tables, found: &Found) -> Vec<Job> {
    let devices = tables.ports.iter().map(|port| &port.attachment.device);
    let wanted: BTreeSet<_> = devices.map(ToString::to_string).collect();
    let job = |family| Job {
        family,
        wanted: wanted.clone(),
        found: found.get(&family).cloned(),
    };
    let jobs = Family::ALL.into_iter().map(job);
    jobs.filter(Job::differs).collect()
}

impl Job {
    fn differs(&self) -> bool {
        match &self.found {
            None => !self.wanted.is_empty(),
            Some(found) => self.wanted.is_empty() || !found.is_for(&self.wanted),
        }
    }

    /// Does it, in one batch.
    pub(crate) fn run(&self, host: &str) -> Result<(), NetError> {
        let is_whole = self.found.as_ref().is_some_and(|found| found.is_whole);
        write(host, self.family, &self.wanted, is_whole)
    }

    /// Makes it as it was. A table that somebody had damaged is whole then, and one that comes back counts from zero.
    pub(crate) fn take_back(&self, host: &str) -> Result<(), NetError> {
        let before = self.found.as_ref().map(|found| &found.devices);
        let nothing = BTreeSet::new();
        let is_whole = !self.wanted.is_empty();
        write(host, self.family, before.unwrap_or(&nothing), is_whole)
    }

    fn change(&self, what: String) -> Change {
        match self.found {
            None => Change::add(what),
            Some(_) if self.wanted.is_empty() => Change::remove(what),
            Some(_) => Change::modify(what),
        }
    }
}

/// The table of one family drops by these devices. Where it `is_whole` it goes on counting.
fn write(
    host: &str,
    family: Family,
    devices: &BTreeSet<String>,
    is_whole: bool,
) -> Result<(), NetError> {
    let (tables, name) = (Nftables::new()?, table_of(host));
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

/// Takes the tables of a host away, in the namespace of this thread. Says what was there.
pub(crate) fn remove(host: &str) -> Result<Option<String>, HostError> {
    let found = read(host)?;
    for family in found.keys() {
        Nftables::new()?.destroy(*family, &table_of(host))?;
    }
    Ok((!found.is_empty()).then(|| words(host, found.keys().copied())))
}

/// The jobs in words: a line for what is added, changed and removed, without the families that the kernel refused.
pub(crate) fn changes<'a>(
    host: &str,
    jobs: impl Iterator<Item = &'a Job>,
    refused: &Refused,
) -> Vec<Change> {
    let mut lines: Vec<(Change, Vec<Family>)> = Vec::new();
    for job in jobs.filter(|job| !refused.contains_key(job.family.name())) {
        let change = job.change(String::new());
        match lines.iter_mut().find(|(known, _)| *known == change) {
            Some((_, families)) => families.push(job.family),
            None => lines.push((change, vec![job.family])),
        }
    }
    let with_words = |(change, families): (Change, Vec<Family>)| Change {
        what: format!("{WORDS}{}", words(host, families.into_iter())),
        ..change
    };
    lines.into_iter().map(with_words).collect()
}

/// The kernel refused families after the plan was put in words: the lines say what happened.
pub(crate) fn forget_refused<'a>(
    host: &str,
    jobs: impl Iterator<Item = &'a Job>,
    refused: &Refused,
    lines: &mut Vec<Change>,
) {
    if !refused.is_empty() {
        lines.retain(|line| !line.what.starts_with(WORDS));
        lines.extend(changes(host, jobs, refused));
    }
}

/// What is open, if anything is.
pub(crate) fn note(refused: &Refused) -> Option<Note> {
    let reason = refused.values().next()?.clone();
    let families = refused.keys().cloned().collect();
    Some(Note::NoGuard { families, reason })
}

fn words(host: &str, families: impl Iterator<Item = Family>) -> String {
    let families: Vec<_> = families.map(Family::name).collect();
    format!(
        "nftables table {} ({})",
        table_of(host),
        families.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;
    use overlane_net::nftables::Dropped;

    use super::*;

    fn tables(ports: &str) -> Tables {
        let text = format!(
            "version: 1\nhosts: {{ h1: {{ underlay: 198.18.0.1, uplink: eth1 }} }}\n\
             switches: {{ s: {{ vni: 5001 }} }}\nports: {{ {ports} }}\n"
        );
        Fabric::parse("f", &text).unwrap().compile("h1").unwrap()
    }

    fn table(devices: &[&str], is_whole: bool) -> DropTable {
        let dropped = Dropped {
            packets: 7,
            bytes: 7,
        };
        DropTable {
            devices: devices.iter().map(|&name| name.to_owned()).collect(),
            is_whole,
            incoming: dropped,
            outgoing: dropped,
        }
    }

    fn check(ports: &str, found: &[(Family, DropTable)], refused: &[&str], expected: &[&str]) {
        let found = found.iter().cloned().collect();
        let reason = |name: &&str| ((*name).to_owned(), "no".to_owned());
        let refused = refused.iter().map(reason).collect();
        let jobs = jobs(&tables(ports), &found);
        let lines = changes("h1", jobs.iter(), &refused);
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected, "{ports}, {found:?}");
    }

    #[test]
    fn what_differs_is_written_and_told() {
        use Family::{Arp, Bridge, Inet};
        let ports = "a: { switch: s, host: h1, device: v0, vlan: 10, mac: '02:00:00:00:00:01' }, \
                     b: { switch: s, host: h1, device: v0, vlan: 20, mac: '02:00:00:00:00:02' }";
        let right = || table(&["v0"], true);
        check(
            ports,
            &[],
            &[],
            &["+ guard: nftables table overlane-h1 (inet, arp, bridge)"],
        );
        check(
            ports,
            &[(Inet, right()), (Arp, right()), (Bridge, right())],
            &[],
            &[],
        );
        check(
            ports,
            &[
                (Arp, table(&["v0", "v1"], true)),
                (Bridge, table(&["v0"], false)),
            ],
            &[],
            &[
                "+ guard: nftables table overlane-h1 (inet)",
                "~ guard: nftables table overlane-h1 (arp, bridge)",
            ],
        );
        check("", &[], &[], &[]);
        check(
            "",
            &[(Arp, right())],
            &[],
            &["- guard: nftables table overlane-h1 (arp)"],
        );
        check(
            ports,
            &[],
            &["arp", "bridge"],
            &["+ guard: nftables table overlane-h1 (inet)"],
        );
        check(ports, &[], &["inet", "arp", "bridge"], &[]);
    }
}
