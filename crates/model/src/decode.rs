//! The shape of the fabric file: a YAML tree becomes a [`Draft`], in which every value is right by
//! itself and has its place. Comes after [`yaml`](crate::yaml); [`check`](crate::check) then looks at
//! the values together. The JSON Schema says the same, and tests compare the two.
//!
//! Nothing stops at a mistake: a value that is wrong or missing is `None` in the draft.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use overlane_wire::{Mac, PortKey, Vni};

use crate::diagnostic::{Sink, Span};
use crate::fabric::UnknownUnicast;
use crate::names::{DeviceName, Name};
use crate::render::{listed, printable};
use crate::scalar::{Spanned, boolean, choice, integer, text, wrong_type};
use crate::tables::Encapsulation;
use crate::values::{address, addresses, device, port_range, report_name, station};
use crate::yaml::{Entry, Kind, Node, Value, resolve};

/// The file as written.
#[derive(Debug, Default)]
pub(crate) struct Draft<'n> {
    pub(crate) tunnel: TunnelDraft,
    pub(crate) hosts: Vec<HostDraft<'n>>,
    pub(crate) switches: Vec<SwitchDraft<'n>>,
    pub(crate) ports: Vec<PortDraft<'n>>,
}

#[derive(Debug, Default)]
pub(crate) struct TunnelDraft {
    pub(crate) encapsulation: Option<Spanned<Encapsulation>>,
    pub(crate) port: Option<Spanned<u16>>,
    pub(crate) source_ports: Option<Spanned<RangeInclusive<u16>>>,
    pub(crate) strict: Option<Spanned<bool>>,
    pub(crate) udp6_zero_checksum: Option<Spanned<bool>>,
}

/// A name as written, for references to it, and checked.
#[derive(Debug)]
pub(crate) struct NameDraft<'n> {
    pub(crate) text: &'n str,
    pub(crate) at: Span,
    pub(crate) name: Option<Name>,
}

#[derive(Debug)]
pub(crate) struct HostDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) underlay: Option<Spanned<IpAddr>>,
    pub(crate) uplink: Option<Spanned<DeviceName>>,
}

#[derive(Debug)]
pub(crate) struct SwitchDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) vni: Option<Spanned<Vni>>,
    pub(crate) unknown_unicast: Option<Spanned<UnknownUnicast>>,
}

#[derive(Debug)]
pub(crate) struct PortDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) switch: Option<Spanned<&'n str>>,
    pub(crate) host: Option<Spanned<&'n str>>,
    pub(crate) device: Option<Spanned<DeviceName>>,
    pub(crate) mac: Option<Spanned<Mac>>,
    pub(crate) addresses: Vec<Spanned<IpAddr>>,
    pub(crate) key: Option<Spanned<PortKey>>,
}

/// A key that a mapping of the file may have.
struct Key {
    name: &'static str,
    /// What to add when it is missing; `None`: it may be left out.
    required: Option<&'static str>,
}

const fn required(name: &'static str, example: &'static str) -> Key {
    let required = Some(example);
    Key { name, required }
}

const fn optional(name: &'static str) -> Key {
    let required = None;
    Key { name, required }
}

const FILE: [Key; 5] = [
    required("version", "version: 1"),
    optional("tunnel"),
    required(
        "hosts",
        "hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }",
    ),
    optional("switches"),
    optional("ports"),
];
const TUNNEL: [Key; 5] = [
    optional("encapsulation"),
    optional("port"),
    optional("source_ports"),
    optional("strict"),
    optional("udp6_zero_checksum"),
];
const HOST: [Key; 2] = [
    required("underlay", "underlay: 198.18.0.1"),
    required("uplink", "uplink: eth1"),
];
const SWITCH: [Key; 2] = [required("vni", "vni: 5001"), optional("unknown_unicast")];
const PORT: [Key; 6] = [
    required("switch", "switch: blue"),
    required("host", "host: h1"),
    required("device", "device: veth0"),
    required("mac", "mac: \"02:00:00:00:00:01\""),
    optional("addresses"),
    optional("key"),
];

/// Decodes the whole file.
pub(crate) fn decode<'n>(root: &'n Node, sink: &mut Sink) -> Draft<'n> {
    let [version, tunnel, hosts, switches, ports] =
        record(root, Span::START, "the fabric file", &FILE, sink);
    if let Some(node) = version {
        integer(node, "`version`", 1..=1, sink);
    }
    if let Some(node) =
        hosts.filter(|node| matches!(&node.value, Value::Mapping(list) if list.is_empty()))
    {
        let help = "add one, for example `h1: { underlay: 198.18.0.1, uplink: eth1 }`";
        sink.error(node.at, "the fabric has no host".into(), help);
    }
    Draft {
        tunnel: tunnel.map_or_else(TunnelDraft::default, |node| decode_tunnel(node, sink)),
        hosts: hosts.map_or_else(Vec::new, |node| named(node, "hosts", decode_host, sink)),
        switches: switches.map_or_else(Vec::new, |node| {
            named(node, "switches", decode_switch, sink)
        }),
        ports: ports.map_or_else(Vec::new, |node| named(node, "ports", decode_port, sink)),
    }
}

fn decode_tunnel(node: &Node, sink: &mut Sink) -> TunnelDraft {
    let [
        encapsulation,
        port,
        source_ports,
        strict,
        udp6_zero_checksum,
    ] = record(node, node.at, "tunnel", &TUNNEL, sink);
    TunnelDraft {
        encapsulation: encapsulation
            .and_then(|node| choice(node, "`encapsulation`", &Encapsulation::ALL, sink)),
        port: port.and_then(|node| {
            let port = integer(node, "`port`", 1..=65535, sink)?;
            Some(Spanned::new(u16::try_from(port.value).ok()?, port.at))
        }),
        source_ports: source_ports.and_then(|node| port_range(node, sink)),
        strict: strict.and_then(|node| boolean(node, "`strict`", sink)),
        udp6_zero_checksum: udp6_zero_checksum
            .and_then(|node| boolean(node, "`udp6_zero_checksum`", sink)),
    }
}

fn decode_host<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> HostDraft<'n> {
    let what = format!("host `{}`", printable(name.text));
    let [underlay, uplink] = record(node, name.at, &what, &HOST, sink);
    HostDraft {
        name,
        underlay: underlay.and_then(|node| address(node, "`underlay`", sink)),
        uplink: uplink.and_then(|node| device(node, "`uplink`", sink)),
    }
}

fn decode_switch<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> SwitchDraft<'n> {
    let what = format!("switch `{}`", printable(name.text));
    let [vni, unknown_unicast] = record(node, name.at, &what, &SWITCH, sink);
    SwitchDraft {
        name,
        vni: vni.and_then(|node| {
            let vni = integer(node, "`vni`", 1..=Vni::MAX, sink)?;
            Some(Spanned::new(Vni::new(vni.value).ok()?, vni.at))
        }),
        unknown_unicast: unknown_unicast
            .and_then(|node| choice(node, "`unknown_unicast`", &UnknownUnicast::ALL, sink)),
    }
}

fn decode_port<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> PortDraft<'n> {
    let what = format!("port `{}`", printable(name.text));
    let [switch, host, device_node, mac, list, key] = record(node, name.at, &what, &PORT, sink);
    PortDraft {
        name,
        switch: switch.and_then(|node| {
            text(
                node,
                "`switch`",
                "write a switch's name, in quotes if it looks like a number",
                sink,
            )
        }),
        host: host.and_then(|node| {
            text(
                node,
                "`host`",
                "write a host's name, in quotes if it looks like a number",
                sink,
            )
        }),
        device: device_node.and_then(|node| device(node, "`device`", sink)),
        mac: mac.and_then(|node| station(node, sink)),
        addresses: list.map_or_else(Vec::new, |node| addresses(node, sink)),
        key: key.and_then(|node| {
            let key = integer(node, "`key`", 1..=u32::from(PortKey::MAX), sink)?;
            Some(Spanned::new(PortKey::try_from(key.value).ok()?, key.at))
        }),
    }
}

/// The entries of a mapping, after reporting duplicate keys.
fn entries<'n>(node: &'n Node, what: &str, help: &str, sink: &mut Sink) -> &'n [Entry] {
    let Value::Mapping(entries) = &node.value else {
        wrong_type(node, what, "a mapping", help, sink);
        return &[];
    };
    for entry in entries {
        if let Some(first) = entry.duplicate_of {
            let key = printable(&entry.key);
            let message = format!("`{key}` appears twice in {what}");
            let help = "remove one of the two, or give it another name";
            sink.conflict(
                entry.key_at,
                message,
                help,
                (first, format!("`{key}` is first here")),
            );
        }
    }
    entries
}

/// The values of a mapping with known keys, in the order of `keys`. `at` is where something missing
/// is missed.
fn record<'n, const N: usize>(
    node: &'n Node,
    at: Span,
    what: &str,
    keys: &[Key; N],
    sink: &mut Sink,
) -> [Option<&'n Node>; N] {
    let mut values = [None; N];
    let names = || keys.iter().map(|key| key.name);
    let all = format!("{what} may have: {}", listed(names()));
    for entry in entries(node, what, &all, sink) {
        match keys.iter().position(|key| key.name == entry.key) {
            // Of a duplicate the first counts.
            Some(index) => {
                if let Some(value) = values.get_mut(index) {
                    value.get_or_insert(&entry.value);
                }
            }
            None => {
                let message = format!("unknown key `{}` in {what}", printable(&entry.key));
                let help = sink.suggest(&entry.key, names(), || Some(all.clone()));
                sink.report(entry.key_at, message, help);
            }
        }
    }
    if matches!(node.value, Value::Mapping(_)) {
        for (key, value) in keys.iter().zip(&values) {
            if let (None, Some(example)) = (value, key.required) {
                let message = format!("{what} has no `{}`", key.name);
                sink.error(at, message, &format!("add it, for example `{example}`"));
            }
        }
    }
    values
}

/// The entries of a mapping whose keys are names. A duplicate is decoded, for its own mistakes, but
/// left out.
fn named<'n, T>(
    node: &'n Node,
    what: &str,
    decode: fn(NameDraft<'n>, &'n Node, &mut Sink) -> T,
    sink: &mut Sink,
) -> Vec<T> {
    let mut list = Vec::new();
    let help = "write one `name: …` entry for each, or remove the key if there is none";
    for entry in entries(node, what, help, sink) {
        let name = NameDraft {
            text: &entry.key,
            at: entry.key_at,
            name: name(entry, sink),
        };
        let item = decode(name, &entry.value, sink);
        if entry.duplicate_of.is_none() {
            list.push(item);
        }
    }
    list
}

fn name(entry: &Entry, sink: &mut Sink) -> Option<Name> {
    let shown = printable(&entry.key);
    if entry.key_plain && resolve(&entry.key) != Kind::Text {
        let message = format!("`{shown}` is not text in YAML, so it is no name");
        sink.error(
            entry.key_at,
            message,
            &format!("put it in quotes: \"{shown}\""),
        );
        return None;
    }
    Name::new(&entry.key)
        .map_err(|error| report_name(&error, entry.key_at, sink))
        .ok()
}

/// The keys of one kind of mapping, for the comparison with the schema: name, required.
#[cfg(test)]
pub(crate) fn keys(of: &str) -> Vec<(&'static str, bool)> {
    let keys: &[Key] = match of {
        "FabricFile" => &FILE,
        "TunnelSettings" => &TUNNEL,
        "Host" => &HOST,
        "LogicalSwitch" => &SWITCH,
        "LogicalPort" => &PORT,
        other => panic!("no such mapping: {other}"),
    };
    keys.iter()
        .map(|key| (key.name, key.required.is_some()))
        .collect()
}
