//! Next hops that the kernel refused to keep resolved, told together.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_net::netns::Netns;
use overlane_net::sysctl;

use crate::report::{Row, finding};

/// Many next hops are not kept for one reason: one row for all of a device and a family tells of it, in place of the
/// first of them.
pub(crate) fn join_rows(notes: &mut Vec<Row>) {
    join(notes, |family| {
        let key = finding::neighbour_limit(family);
        // The limit is the machine's: no other namespace than its first one shows it.
        let first = || Netns::at("/proc/1/ns/net".as_ref());
        let value = Netns::current().and_then(|here| sysctl::get(&here, key));
        let value = value.or_else(|_| sysctl::get(&first()?, key)).ok()?;
        value.parse().ok()
    });
}

fn join(notes: &mut Vec<Row>, limit: impl Fn(IpAddr) -> Option<usize>) {
    let mut refused: BTreeMap<(String, bool), Vec<(IpAddr, String)>> = BTreeMap::new();
    let mut place = None;
    let mut at = 0;
    notes.retain(|row| {
        let is_refused = row.note == Some(finding::NOT_KEPT);
        let address = row.name.parse::<IpAddr>().ok().filter(|_| is_refused);
        if let (Some(address), Some((_, device)), Some(reason)) = (address, &row.of, &row.meaning) {
            place.get_or_insert(at);
            let all = refused
                .entry((device.clone(), address.is_ipv6()))
                .or_default();
            all.push((address, reason.clone()));
            return false;
        }
        at += 1;
        true
    });
    let joined = refused.into_iter().filter_map(|((device, _), all)| {
        let (first, reason) = all.first()?;
        let addresses: Vec<IpAddr> = all.iter().map(|(address, _)| *address).collect();
        Some(finding::none_kept(
            &device,
            &addresses,
            reason,
            limit(*first),
        ))
    });
    let joined: Vec<Row> = joined.collect();
    let place = place.unwrap_or_default();
    notes.splice(place..place, joined);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(addresses: &[&str], reason: &str) -> Vec<Row> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        addresses
            .map(|address| finding::not_kept("eth1", address, reason))
            .collect()
    }

    fn said(mut notes: Vec<Row>) -> Vec<String> {
        join(&mut notes, |_| Some(1024));
        notes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_full_table_is_told_once_for_a_device_and_a_family() {
        let full = "cannot manage the neighbour (device eth1): ENOBUFS: No buffer space available";
        let mut notes = vec![finding::interrupted("h1")];
        notes.extend(refused(&["198.18.0.7", "198.18.0.8", "2001:2::7"], full));
        let said = said(notes);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[1].contains("198.18.0.7, 198.18.0.8"), "{said:?}");
        assert!(
            said[1].contains("net.ipv4.neigh.default.gc_thresh3 is 1024, and 1026 or more"),
            "{said:?}"
        );
        assert!(
            said[2].contains("net.ipv6.neigh.default.gc_thresh3 is 1024, and 1025 or more"),
            "{said:?}"
        );
    }

    #[test]
    fn many_are_counted_and_another_reason_names_no_limit() {
        let addresses: Vec<String> = (1..=20).map(|n| format!("198.18.0.{n}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let said = said(refused(&addresses, "EINVAL: Invalid argument"));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("198.18.0.8 and 12 more"), "{said:?}");
        assert!(
            said[0].contains("Invalid argument") && !said[0].contains("gc_thresh3"),
            "{said:?}"
        );
        let mut nothing = Vec::new();
        join(&mut nothing, |_| None);
        assert!(nothing.is_empty());
    }
}
