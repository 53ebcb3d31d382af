//! Rules and routers of the plan in words.

use std::collections::BTreeSet;

use overlane_ebpf::tables::Table;

use super::{LISTED_MAX, by_name, deletes, puts};
use crate::plan::{Plan, Target};
use crate::report::{Change, ChangeKind};
use crate::state::{RouterState, RuleState, State};

/// Rules by name; when nothing but the kernel's entries differ, that.
pub(super) fn rules(target: &Target<'_>, is: Option<&State>, plan: &Plan, lines: &mut Vec<Change>) {
    let should = State::rules_of(target.tables, target.contents);
    let old = is.map(|is| is.rules.as_slice());
    let words =
        |rule: &RuleState| format!("rule {} ({}, {})", rule.name, rule.direction, rule.action);
    let named = differences(&should, old, |rule| &rule.name, |rule| &rule.digest, words);
    let tables = [
        Table::RuleSets,
        Table::Rules,
        Table::RulePeers,
        Table::RuleServices,
    ];
    tell(named, "rules", &tables, plan, is, lines);
}

/// Routers by name, likewise.
pub(super) fn routers(should: &State, is: Option<&State>, plan: &Plan, lines: &mut Vec<Change>) {
    let old = is.map(|is| is.routers.as_slice());
    let words = |router: &RouterState| format!("router {} ({})", router.name, router.mac);
    let named = differences(
        &should.routers,
        old,
        |router| &router.name,
        |router| &router.digest,
        words,
    );
    let tables = [
        Table::RouterInterfaces,
        Table::NextHops,
        Table::NatRules,
        Table::NatInsides,
        Table::NatEnds,
        Table::Routes,
        Table::Routers,
        Table::LegAddresses,
        Table::Legs,
    ];
    tell(named, "routers", &tables, plan, is, lines);
}

/// What is added, changed and removed, each in words.
fn differences<T>(
    should: &[T],
    old: Option<&[T]>,
    name: fn(&T) -> &String,
    digest: fn(&T) -> &String,
    words: impl Fn(&T) -> String,
) -> [(ChangeKind, Vec<String>); 3] {
    let old = by_name(old, name);
    let names: BTreeSet<&str> = should.iter().map(|item| name(item).as_str()).collect();
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for item in should {
        match old.get(name(item).as_str()) {
            None => added.push(words(item)),
            Some(old) if digest(old) != digest(item) => changed.push(words(item)),
            Some(_) => {}
        }
    }
    let gone = old.iter().filter(|(name, _)| !names.contains(*name));
    [
        (ChangeKind::Add, added),
        (ChangeKind::Modify, changed),
        (
            ChangeKind::Remove,
            gone.map(|(_, item)| words(item)).collect(),
        ),
    ]
}

fn tell(
    named: [(ChangeKind, Vec<String>); 3],
    many: &str,
    tables: &[Table],
    plan: &Plan,
    is: Option<&State>,
    lines: &mut Vec<Change>,
) {
    let before = lines.len();
    for (kind, all) in named {
        if all.len() > LISTED_MAX {
            let what = format!("{} {many}", all.len());
            lines.push(Change { kind, what });
        } else {
            lines.extend(all.into_iter().map(|what| Change { kind, what }));
        }
    }
    let is_news = |table: &Table| {
        puts(plan, *table)
            .chain(deletes(plan, *table))
            .next()
            .is_some()
    };
    let repaired = is.is_some() && !plan.new_set && tables.iter().any(is_news);
    if lines.len() == before && repaired {
        lines.push(Change::modify(format!("entries of {many}")));
    }
}
