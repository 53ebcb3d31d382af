//! What gateways translate as map entries: the rules, and two maps that find the first of them that fits
//! (`bpf/lib/abi_router.h`, struct nat_rule_key), so that a packet costs the same whatever number of rules there is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::classifier::{Prefix, contains, peer_prefix};
use overlane_model::{Gateway, GatewayPlace, NatKind, NatRule, RouterTable};
use zerocopy::{FromBytes, IntoBytes};

use super::{Contents, Table, flags, put};
use crate::abi::Addr;
use crate::abi::router as abi;

/// What the kernel has of each list.
pub(super) type Lists = BTreeMap<u32, Contents>;

/// All lists that the kernel has something of.
pub(super) fn lists(current: &Contents) -> Lists {
    let mut lists = Lists::new();
    for table in [Table::NatRules, Table::NatInsides, Table::NatEnds] {
        for (key, value) in current.get(&table).into_iter().flatten() {
            let Some(list) = list_of(table, key) else {
                continue;
            };
            let entries = lists.entry(list).or_default().entry(table).or_default();
            entries.insert(key.clone(), value.clone());
        }
    }
    lists
}

/// The list of nat rules. It has two places; a list that differs from the one in use gets the other place,
/// and the router changes over with its one entry.
pub(super) fn nat(
    router: &RouterTable,
    gateway: &Gateway,
    current: &Contents,
    lists: &Lists,
    entry: &mut abi::Router,
    contents: &mut Contents,
) {
    if matches!(gateway.place, GatewayPlace::Remote(_)) {
        return;
    }
    entry.connections = gateway.connections;
    entry.nat_version = gateway.nat_version();
    entry.timeouts = gateway.timeouts.into();
    entry.flags |= flags([(
        gateway.drop_untranslated,
        abi::ROUTER_NAT | abi::ROUTER_NAT_ALL,
    )]);
    if gateway.nat.is_empty() {
        return;
    }
    let id = router.id.get();
    let in_use = list_in_use(current, id);
    let mut list = in_use.unwrap_or(id);
    let mut entries = entries(list, &gateway.nat);
    if in_use.is_some() && lists.get(&list) != Some(&entries) {
        list ^= abi::NAT_RULES_ODD;
        entries = self::entries(list, &gateway.nat);
    }
    entry.flags |= flags([
        (true, abi::ROUTER_NAT),
        (list & abi::NAT_RULES_ODD != 0, abi::ROUTER_NAT_ODD),
    ]);
    for (table, entries) in entries {
        contents.entry(table).or_default().extend(entries);
    }
}

/// Whether an entry belongs to the list that its router uses.
pub(super) fn is_in_use(contents: &Contents, table: Table, key: &[u8]) -> bool {
    let list = list_of(table, key);
    list.is_some_and(|list| list_in_use(contents, list & !abi::NAT_RULES_ODD) == Some(list))
}

/// The list that a router uses; none: it has no rules.
fn list_in_use(contents: &Contents, id: u32) -> Option<u32> {
    let entry = contents.get(&Table::Routers)?.get(id.as_bytes())?;
    let flags = abi::Router::read_from_bytes(entry).ok()?.flags;
    let odd = match flags & abi::ROUTER_NAT_ODD {
        0 => 0,
        _ => abi::NAT_RULES_ODD,
    };
    (flags & abi::ROUTER_NAT != 0).then_some(id | odd)
}

/// The list that an entry belongs to.
fn list_of(table: Table, key: &[u8]) -> Option<u32> {
    match table {
        Table::NatRules => Some(abi::NatRuleKey::read_from_bytes(key).ok()?.list),
        Table::NatInsides => {
            let key = abi::NatInsideKey::read_from_bytes(key).ok()?;
            Some(u32::from_be(key.list))
        }
        Table::NatEnds => Some(abi::NatEndKey::read_from_bytes(key).ok()?.list),
        _ => None,
    }
}

/// All entries of a list.
fn entries(list: u32, rules: &[NatRule]) -> Contents {
    let mut contents = Contents::new();
    for (number, rule) in (0..).zip(rules) {
        let key = abi::NatRuleKey { list, number };
        put(&mut contents, Table::NatRules, &key, &entry(&rule.kind));
    }
    for (family, trie) in tries(rules) {
        for ((addr, bits), number) in firsts(trie) {
            let key = abi::NatInsideKey {
                prefixlen: 64 + bits,
                list: list.to_be(),
                family: u32::from(family).to_be(),
                addr: Addr::from_bits(addr),
            };
            put(&mut contents, Table::NatInsides, &key, &number);
        }
    }
    // Backwards: of two rules with the same end the first stays.
    for (number, rule) in rules.iter().enumerate().rev() {
        for key in ends(list, &rule.kind).into_iter().flatten() {
            put(&mut contents, Table::NatEnds, &key, &(number as u32));
        }
    }
    contents
}

fn entry(kind: &NatKind) -> abi::NatRule {
    match kind {
        NatKind::OneToOne { inside, outside } => abi::NatRule {
            kind: abi::NAT_ONE_TO_ONE,
            inside: (*inside).into(),
            outside: (*outside).into(),
            ..abi::NatRule::default()
        },
        NatKind::Forward {
            protocol,
            outside,
            inside,
        } => abi::NatRule {
            kind: abi::NAT_FORWARD,
            protocol: *protocol,
            inside: inside.0.into(),
            inside_port: inside.1,
            outside: outside.0.into(),
            outside_port: outside.1,
            ..abi::NatRule::default()
        },
        NatKind::Source { outside, ports, .. } => abi::NatRule {
            kind: abi::NAT_SOURCE,
            outside: (*outside).into(),
            port_min: *ports.start(),
            port_max: *ports.end(),
            ..abi::NatRule::default()
        },
    }
}

/// Inside prefixes with the number of the first rule that names exactly them. In this order a prefix comes behind
/// all that contain it.
type Trie = BTreeMap<Prefix, u32>;

/// By family: the inside addresses and networks that rules hide.
fn tries(rules: &[NatRule]) -> BTreeMap<u8, Trie> {
    let mut tries: BTreeMap<u8, Trie> = BTreeMap::new();
    for (number, rule) in (0..).zip(rules) {
        if !matches!(rule.kind, NatKind::Forward { .. }) {
            let prefix = peer_prefix(rule.kind.inside());
            let place = (prefix.addr, prefix.bits);
            let trie = tries.entry(prefix.family).or_default();
            trie.entry(place).or_insert(number);
        }
    }
    tries
}

/// Each prefix with the first rule among its own and those of the prefixes that contain it. One whose rule a wider
/// one already has is left out.
fn firsts(trie: Trie) -> Vec<(Prefix, u32)> {
    let mut firsts = Vec::new();
    // The prefixes that contain the one at hand.
    let mut around: Vec<(Prefix, u32)> = Vec::new();
    for (prefix, number) in trie {
        around.retain(|(wider, _)| contains(*wider, prefix));
        if around.last().is_none_or(|(_, first)| number < *first) {
            firsts.push((prefix, number));
            around.push((prefix, number));
        }
    }
    firsts
}

/// The ends that a rule is found by.
fn ends(list: u32, kind: &NatKind) -> [Option<abi::NatEndKey>; 2] {
    let end = |side, protocol, (addr, port): (IpAddr, u16)| {
        Some(abi::NatEndKey {
            list,
            side,
            addr: addr.into(),
            port,
            protocol,
            family: if addr.is_ipv4() { 4 } else { 6 },
        })
    };
    match kind {
        NatKind::OneToOne { outside, .. } => [None, end(abi::NAT_OUTSIDE, 0, (*outside, 0))],
        NatKind::Forward {
            protocol,
            outside,
            inside,
        } => [
            end(abi::NAT_INSIDE, *protocol, *inside),
            end(abi::NAT_OUTSIDE, *protocol, *outside),
        ],
        NatKind::Source { .. } => [None, None],
    }
}
