//! What the tables of a host do not hold. `apply` would refuse it there.

use std::collections::{BTreeMap, HashMap};

use super::rule_sizes::RuleSizes;
use crate::compile::{Crowded, needs};
use crate::decode::Draft;
use crate::diagnostic::{Sink, Span};
use crate::fabric::{Fabric, Host};
use crate::sizes::{MAX_FLOOD_MEMBERS, Size, TooMany};

/// Each table that is too small at a host, at the first host of the file.
pub(super) fn sizes(fabric: &Fabric, draft: &Draft<'_>, sink: &mut Sink) {
    let hosts = draft.hosts.iter();
    let hosts = hosts.map(|host| (host.name.text, host.name.at)).collect();
    let needs = needs(fabric);
    let mut by_order: Vec<&Host> = fabric.hosts.values().collect();
    by_order.sort_by_key(|host| host.order);
    let mut found: BTreeMap<Size, Vec<(&Host, usize)>> = BTreeMap::new();
    for host in by_order.iter().copied() {
        let counts = needs.counts.get(&host.name);
        for (size, count) in counts.iter().flat_map(|counts| counts.iter()) {
            if count > size.most() {
                found.entry(size).or_default().push((host, count));
            }
        }
    }
    for (size, places) in found {
        too_many(size, &places, &hosts, sink);
    }
    crowded(needs.crowded, draft, sink);
    // Rules take the longest to look at.
    if sink.has_errors() {
        return;
    }
    let rule_sizes = RuleSizes::new(fabric);
    let refused = by_order.into_iter().find_map(|host| {
        let TooMany { size, count } = rule_sizes.refused(host)?;
        Some((size, [(host, count)]))
    });
    if let Some((size, place)) = refused {
        too_many(size, &place, &hosts, sink);
    }
}

fn too_many(size: Size, places: &[(&Host, usize)], hosts: &HashMap<&str, Span>, sink: &mut Sink) {
    let Some(&(first, count)) = places.first() else {
        return;
    };
    let more = match places.len() - 1 {
        0 => String::new(),
        1 => "; 1 more host is too small".to_owned(),
        more => format!("; {more} more hosts are too small"),
    };
    let (name, most) = (&first.name, size.most());
    let message = format!(
        "host `{name}` is too small: it needs room for {count} {} and has room for {most}{more}",
        size.what()
    );
    let at = hosts.get(name.as_str()).copied().unwrap_or(Span::START);
    sink.report(at, message, Some(size.help()));
}

/// Each switch once, at the host with the most receivers.
fn crowded(mut all: Vec<Crowded<'_>>, draft: &Draft<'_>, sink: &mut Sink) {
    all.sort_by_key(|it| (&it.switch.name, usize::MAX - it.count, it.host.order));
    all.dedup_by_key(|it| &it.switch.name);
    let switches = draft.switches.iter();
    let switches: HashMap<&str, Span> = switches
        .map(|switch| (switch.name.text, switch.name.at))
        .collect();
    for Crowded {
        switch,
        host,
        count,
    } in all
    {
        let message = format!(
            "switch `{}` is too large at host `{}`: {count} receivers of flooded frames there, its ports and other hosts, \
             and room for {MAX_FLOOD_MEMBERS}",
            switch.name, host.name
        );
        let help = "spread the ports of this switch over more hosts, or split the switch";
        let at = switches.get(switch.name.as_str()).copied();
        sink.error(at.unwrap_or(Span::START), message, help);
    }
}
