//! The objects of the fabric file, told by name. The deeds are those of other kinds; here the entries that they write
//! and the tables that were applied last say which port, switch, remote, rule or router differs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use overlane_ebpf::abi;
use overlane_ebpf::tables::Table;
use overlane_model::{PortTable, Remote, RouterTable, RuleTable, SwitchTable, Tables};
use overlane_wire::Mac;
use serde::Serialize;
use serde_json::{Map, Value};
use zerocopy::FromBytes;

use super::kind::{Kind, Look};
use super::plan::Entry;
use super::plan::Plan;
use super::target::Target;
use crate::HostError;
use crate::report::{ChangeKind, Object, Row};
use crate::state::{State, switch_words};

/// Ports, switches, remotes, rules, routers, and the addresses of them.
pub(crate) struct Fabric;

impl Kind for Fabric {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let Some(target) = look.target else {
            return Ok(());
        };
        let before = look.current.state.as_ref();
        let teller = Teller {
            target,
            before,
            new: target.tables,
            old: before.map(|state| &state.tables),
        };
        let mut rows = teller.ports(plan);
        rows.extend(teller.switches(plan));
        rows.extend(teller.remotes(plan));
        rows.extend(teller.rules(plan));
        rows.extend(teller.routers(plan));
        rows.extend(teller.legs(plan));
        // In a new set every entry is written again; that is no news about the fabric.
        if !plan.new_set || before.is_none() {
            rows.extend(teller.addresses(plan));
        }
        for row in rows {
            plan.tell(row);
        }
        Ok(())
    }
}

struct Teller<'a> {
    target: &'a Target<'a>,
    before: Option<&'a State>,
    new: &'a Tables,
    old: Option<&'a Tables>,
}

impl Teller<'_> {
    fn ports(&self, plan: &Plan<'_>) -> Vec<Row> {
        // Rules, allowed addresses and MACs have rows of their own.
        let silent = ["firewall", "allowed_addresses", "allowed_macs"];
        let detail = |port: &PortTable| format!("device {}, key {}", port.attachment, port.key);
        let mut rows = named(
            self.old.map(|old| &old.ports[..]),
            &self.new.ports,
            |port| port.name.as_str(),
            &silent,
            |change, port| Row::new(change, Object::Port, &port.name).detail(detail(port)),
        );
        let written = self.written_ports(plan);
        let told = places(&rows);
        for port in &self.new.ports {
            let device = port.attachment.device.as_str();
            let (is_missing, was_missing) = self.presence(device);
            let told = told.get(port.name.as_str());
            let presence = match (is_missing, was_missing) {
                (true, _) => Some("its device is missing"),
                (false, true) => Some("its device is there"),
                (false, false) => None,
            };
            let row = || Row::modify(Object::Port, &port.name).detail(detail(port));
            match (told, presence) {
                (Some(&at), Some(presence)) => rows[at] = rows[at].clone().differs(presence),
                (Some(_), None) => {}
                (None, Some(presence)) if is_missing != was_missing => {
                    rows.push(row().differs(presence));
                }
                (None, _) if plan.attached.contains(device) => {
                    rows.push(row().without_program());
                }
                (None, _) if written.contains(port.name.as_str()) => {
                    rows.push(row().differs("its entry in the maps"));
                }
                (None, _) => {}
            }
        }
        rows
    }

    /// Whether a device is missing, and whether it was when the host was applied last.
    fn presence(&self, device: &str) -> (bool, bool) {
        let is_missing = self.target.resolved.is_missing(device);
        let was_missing = self.before.is_some_and(|it| it.missing.contains(device));
        (is_missing, was_missing)
    }

    /// Names of ports whose own entry is written, for more than their rules.
    fn written_ports(&self, plan: &Plan<'_>) -> BTreeSet<&str> {
        let without_rules = |bytes: &[u8]| {
            let mut port = abi::Port::read_from_bytes(bytes).ok()?;
            port.flags &= !(abi::PORT_RULES_ODD | abi::PORT_FIREWALL);
            (port.rules_from, port.rules_to) = (0, 0);
            Some(port)
        };
        let entries = rewritten(plan, Table::Ports);
        let ports = entries.filter_map(|entry| {
            let new = without_rules(&entry.new)?;
            let old = entry.old.as_deref().and_then(without_rules);
            (old != Some(new)).then_some((new.switch_id, new.key))
        });
        let written: BTreeSet<_> = ports.collect();
        let is_written =
            |port: &&PortTable| written.contains(&(port.switch.number(), port.key.get()));
        let ports = self.new.ports.iter().filter(is_written);
        ports.map(|port| port.name.as_str()).collect()
    }

    fn switches(&self, plan: &Plan<'_>) -> Vec<Row> {
        let row =
            |change, it: &SwitchTable| Row::new(change, Object::Switch, &it.name).detail(it.id);
        let old = self.old.map(|old| &old.switches[..]);
        let mut rows = named(old, &self.new.switches, |it| it.name.as_str(), &[], row);
        let key = |entry: &Entry| Some(abi::FloodKey::read_from_bytes(&entry.key).ok()?.switch_id);
        let repaired: BTreeSet<u32> = touched(plan, Table::Flood).filter_map(key).collect();
        let repaired = (self.new.switches.iter()).filter(|it| repaired.contains(&it.id.number()));
        let repaired = repaired.map(|it| row(ChangeKind::Modify, it).differs("flood list"));
        add_untold(&mut rows, repaired);
        rows
    }

    fn remotes(&self, plan: &Plan<'_>) -> Vec<Row> {
        let row = |change, it: &Remote| Row::new(change, Object::Remote, &it.name).detail(it.addr);
        let old = self.old.map(|old| &old.remotes[..]);
        let mut rows = named(old, &self.new.remotes, |it| it.name.as_str(), &[], row);
        let keys = rewritten(plan, Table::Remotes).map(|entry| entry.key.as_slice());
        let repaired: BTreeSet<&[u8]> = keys.collect();
        let is_repaired = |it: &&Remote| repaired.contains(&abi::Addr::from(it.addr).bytes[..]);
        let repaired = self.new.remotes.iter().filter(is_repaired);
        let repaired = repaired.map(|it| row(ChangeKind::Modify, it).differs("outer header"));
        add_untold(&mut rows, repaired);
        rows
    }

    fn rules(&self, plan: &Plan<'_>) -> Vec<Row> {
        let row = |change, rule: &RuleTable| {
            let detail = format!("{}, {}", rule.direction, rule.action);
            Row::new(change, Object::Rule, &rule.name).detail(detail)
        };
        let old = self.old.map(|old| &old.firewall.rules[..]);
        let new = &self.new.firewall.rules;
        let rows = named(old, new, |rule| rule.name.as_str(), &["line"], row);
        let tables = [
            Table::RuleSets,
            Table::Rules,
            Table::RulePeers,
            Table::RuleServices,
        ];
        self.or_repaired(rows, Object::Rule, &tables, plan)
    }

    fn routers(&self, plan: &Plan<'_>) -> Vec<Row> {
        let row = |change, router: &RouterTable| {
            Row::new(change, Object::Router, &router.name).detail(router.mac)
        };
        let old = self.old.map(|old| &old.routers[..]);
        let new = &self.new.routers;
        let rows = named(old, new, |router| router.name.as_str(), &["line"], row);
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
        self.or_repaired(rows, Object::Router, &tables, plan)
    }

    /// Where nothing but the kernel's entries differ, that.
    fn or_repaired(
        &self,
        mut rows: Vec<Row>,
        object: Object,
        tables: &[Table],
        plan: &Plan<'_>,
    ) -> Vec<Row> {
        let mut touched = tables.iter().flat_map(|table| touched(plan, *table));
        let is_repaired = self.before.is_some() && !plan.new_set;
        if rows.is_empty() && is_repaired && touched.next().is_some() {
            rows.push(Row::modify(object, "entries in the maps"));
        }
        rows
    }

    fn legs(&self, plan: &Plan<'_>) -> Vec<Row> {
        let legs = self.new.legs().filter_map(|(router, device)| {
            let device = device.as_str();
            let (is_missing, was_missing) = self.presence(device);
            let is_attached = plan.attached.contains(device);
            if !is_attached && (!is_missing || was_missing) {
                return None;
            }
            let mut before = self.old.into_iter().flat_map(legs_of);
            let was_there = before.any(|leg| leg == device);
            let change = if was_there {
                ChangeKind::Modify
            } else {
                ChangeKind::Add
            };
            let row = Row::new(change, Object::Leg, device).of(Object::Router, &router.name);
            Some(match (is_missing, was_missing) {
                (true, _) => row.differs("its device is missing"),
                (false, true) => row.differs("its device is there"),
                (false, false) if was_there => row.without_program(),
                (false, false) => row,
            })
        });
        legs.collect()
    }

    /// Entries that are nobody's but their own.
    fn addresses(&self, plan: &Plan<'_>) -> Vec<Row> {
        let mut rows = Vec::new();
        let tables: [(Table, Telling<'_>); 4] = [
            (Table::Fdb, &|change, entry| {
                let key = abi::FdbKey::read_from_bytes(&entry.key).ok()?;
                let row = Row::new(change, Object::FdbEntry, Mac::from(key.mac));
                Some(row.of(Object::Switch, self.switch(key.switch_id)))
            }),
            (Table::Neighbours, &|change, entry| {
                let key = abi::NeighbourKey::read_from_bytes(&entry.key).ok()?;
                let row = Row::new(change, Object::Neighbour, IpAddr::from(key.addr));
                Some(row.of(Object::Switch, self.switch(key.switch_id)))
            }),
            (Table::AllowedAddresses, &|change, entry| {
                let key = abi::AllowedAddressKey::read_from_bytes(&entry.key).ok()?;
                let addr = IpAddr::from(key.addr);
                // Switch and key stand before the address, and ::ffff:0:0/96 before an IPv4 one.
                let before = 96 + if addr.is_ipv4() { 96 } else { 0 };
                let length = key.prefixlen.checked_sub(before)?;
                let row = Row::new(change, Object::AllowedAddress, format!("{addr}/{length}"));
                let port = self.port(u32::from_be(key.switch_id), u32::from_be(key.key));
                Some(row.of(Object::Port, port))
            }),
            (Table::AllowedMacs, &|change, entry| {
                let key = abi::AllowedMacKey::read_from_bytes(&entry.key).ok()?;
                let row = Row::new(change, Object::AllowedMac, Mac::from(key.mac));
                Some(row.of(Object::Port, self.port(key.switch_id, key.key.into())))
            }),
        ];
        for (table, row) in tables {
            let put = written(plan, table).map(|entry| match entry.old {
                None => (ChangeKind::Add, entry),
                Some(_) => (ChangeKind::Modify, entry),
            });
            let gone = entries(&plan.deleted, table).map(|entry| (ChangeKind::Remove, entry));
            let mut all: Vec<_> = put.chain(gone).collect();
            all.sort_by_key(|(change, _)| *change);
            rows.extend(
                all.into_iter()
                    .filter_map(|(change, entry)| row(change, entry)),
            );
        }
        rows
    }

    fn switch(&self, number: u32) -> String {
        let tables = [Some(self.new), self.old];
        let mut switches = tables.into_iter().flatten().flat_map(|it| &it.switches);
        let found = switches.find(|switch| switch.id.number() == number);
        found.map_or_else(|| switch_words(number), |switch| switch.name.to_string())
    }

    fn port(&self, switch: u32, key: u32) -> String {
        let tables = [Some(self.new), self.old];
        let mut ports = tables.into_iter().flatten().flat_map(|it| &it.ports);
        let found =
            ports.find(|port| port.switch.number() == switch && u32::from(port.key.get()) == key);
        let number = || format!("{key} of switch {}", self.switch(switch));
        found.map_or_else(number, |port| port.name.to_string())
    }
}

/// The row of an entry that was added, changed or removed.
type Telling<'a> = &'a dyn Fn(ChangeKind, &Entry) -> Option<Row>;

fn legs_of(tables: &Tables) -> impl Iterator<Item = &str> {
    tables.legs().map(|(_, device)| device.as_str())
}

/// Where the row of a name is.
fn places(rows: &[Row]) -> BTreeMap<String, usize> {
    let names = rows.iter().map(|row| row.name.clone());
    names.zip(0..).collect()
}

/// Adds rows with names that have none.
fn add_untold(rows: &mut Vec<Row>, more: impl Iterator<Item = Row>) {
    let told = places(rows);
    rows.extend(more.filter(|row| !told.contains_key(&row.name)));
}

fn entries(all: &[(Table, Rc<Entry>)], wanted: Table) -> impl Iterator<Item = &Entry> {
    let of_table = all.iter().filter(move |(table, _)| *table == wanted);
    of_table.map(|(_, entry)| &**entry)
}

fn written<'p>(plan: &'p Plan<'_>, table: Table) -> impl Iterator<Item = &'p Entry> {
    entries(&plan.written, table)
}

/// Entries that are written to a set that is there. In a new set all are, and that is no news.
fn rewritten<'p>(plan: &'p Plan<'_>, table: Table) -> impl Iterator<Item = &'p Entry> {
    written(plan, table).filter(|_| !plan.new_set)
}

/// And deleted ones.
fn touched<'p>(plan: &'p Plan<'_>, table: Table) -> impl Iterator<Item = &'p Entry> {
    rewritten(plan, table).chain(entries(&plan.deleted, table))
}

/// Rows of what was added, changed and removed, by name. Fields with these names are left out of the comparison.
fn named<T: Serialize + PartialEq>(
    old: Option<&[T]>,
    new: &[T],
    name: fn(&T) -> &str,
    silent: &[&str],
    row: impl Fn(ChangeKind, &T) -> Row,
) -> Vec<Row> {
    let before: BTreeMap<&str, &T> = old.into_iter().flatten().map(|it| (name(it), it)).collect();
    let names: BTreeSet<&str> = new.iter().map(name).collect();
    let mut rows = Vec::new();
    for item in new {
        match before.get(name(item)) {
            None => rows.push(row(ChangeKind::Add, item)),
            Some(old) if *old == item => {}
            Some(&old) => {
                let mut changed = row(ChangeKind::Modify, item);
                if fields(old, item, silent, &mut changed) {
                    rows.push(changed);
                }
            }
        }
    }
    let gone = old
        .into_iter()
        .flatten()
        .filter(|it| !names.contains(name(it)));
    rows.extend(gone.map(|it| row(ChangeKind::Remove, it)));
    rows
}

/// Adds the fields that differ to a row; false: none does. Fields are called as in the tables.
fn fields<T: Serialize>(old: &T, new: &T, silent: &[&str], row: &mut Row) -> bool {
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return false;
    };
    // A field that says nothing may be left out.
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for field in names
        .into_iter()
        .filter(|it| !silent.contains(&it.as_str()))
    {
        let value = |of: &Map<String, Value>| of.get(field).cloned().unwrap_or(Value::Null);
        let (mut old, mut new) = (value(&old), value(&new));
        // Where something stands in the file makes no other thing.
        strip_lines(&mut old);
        strip_lines(&mut new);
        if old == new {
            continue;
        }
        let told = std::mem::replace(row, Row::modify(row.object, ""));
        *row = match (scalar(&old), scalar(&new)) {
            (Some(old), Some(new)) => told.has(words(field), old, new),
            _ => told.differs(words(field)),
        };
    }
    !row.differs.is_empty()
}

/// Whether tables say the same, wherever in a file it stands.
pub(crate) fn same(one: &Tables, other: &Tables) -> bool {
    let without_lines = |tables| {
        let mut value = serde_json::to_value(tables).ok()?;
        strip_lines(&mut value);
        Some(value)
    };
    one == other || without_lines(one) == without_lines(other)
}

fn strip_lines(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("line");
            fields.values_mut().for_each(strip_lines);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_lines),
        _ => {}
    }
}

/// What fits into a sentence.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Fields whose names in the tables say too little.
fn words(field: &str) -> &str {
    match field {
        "flood" => "flood list",
        "header" => "outer header",
        "addr" => "address",
        "attachment" => "device",
        "id" => "number",
        field => field,
    }
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric as File;

    use super::*;

    fn tables(switch: &str, port: &str, line: &str) -> Tables {
        let text = format!(
            "version: 1\nhosts: {{ h1: {{ underlay: 198.18.0.1, uplink: eth1 }} }}\n\
             switches: {{ s: {{ vni: 5001{switch} }} }}\n{line}\
             ports: {{ p: {{ switch: s, host: h1, device: v, mac: '02:00:00:00:00:01'{port} }} }}\n\
             rules: {{ r: {{ ports: [p], direction: to_port, action: allow }} }}\n"
        );
        File::parse("f", &text).unwrap().compile("h1").unwrap()
    }

    fn told(old: &Tables, new: &Tables) -> Vec<String> {
        let silent = ["firewall"];
        let switches = named(
            Some(&old.switches),
            &new.switches,
            |it| it.name.as_str(),
            &[],
            |change, it| Row::new(change, Object::Switch, &it.name),
        );
        let ports = named(
            Some(&old.ports),
            &new.ports,
            |it| it.name.as_str(),
            &silent,
            |change, it| Row::new(change, Object::Port, &it.name),
        );
        let rules = named(
            Some(&old.firewall.rules),
            &new.firewall.rules,
            |it| it.name.as_str(),
            &["line"],
            |change, it| Row::new(change, Object::Rule, &it.name),
        );
        let rows = switches.into_iter().chain(ports).chain(rules);
        rows.map(|row| row.to_string()).collect()
    }

    #[test]
    fn each_field_that_differs_is_told() {
        let plain = tables("", "", "");
        assert_eq!(told(&plain, &plain), Vec::<String>::new());
        let other = tables(
            ", unknown_unicast: flood, mss_clamp: true",
            ", key: 9, limits: { connections: 7 }",
            "",
        );
        let said = told(&plain, &other);
        assert!(said[0].contains("flood_unknown false → true"), "{said:?}");
        assert!(said[0].contains("mss_clamp false → true"), "{said:?}");
        assert!(said[1].contains("key "), "{said:?}");
        assert!(said[1].ends_with("limits"), "{said:?}");
    }

    #[test]
    fn another_line_in_the_file_is_no_difference() {
        let (one, two) = (tables("", "", ""), tables("", "", "# A comment.\n"));
        assert_ne!(one.firewall.rules, two.firewall.rules);
        assert_eq!(told(&one, &two), Vec::<String>::new());
    }
}
