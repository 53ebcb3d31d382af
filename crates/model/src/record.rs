//! Mappings of the fabric file: those with known keys ([`record`]) and those whose keys are names
//! ([`named`]). Duplicate, unknown and missing keys are reported here; what the values mean is up to
//! [`decode`](crate::decode).

use crate::diagnostic::{Sink, Span};
use crate::names::Name;
use crate::render::{listed, printable};
use crate::scalar::wrong_type;
use crate::values::report_name;
use crate::yaml::{Entry, Kind, Node, Value, resolve};

/// A name as written, for references to it, and checked.
#[derive(Debug)]
pub(crate) struct NameDraft<'n> {
    pub(crate) text: &'n str,
    pub(crate) at: Span,
    pub(crate) name: Option<Name>,
}

/// A key that a mapping of the file may have.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// What to add when it is missing; `None`: it may be left out.
    pub(crate) required: Option<&'static str>,
}

pub(crate) const fn required(name: &'static str, example: &'static str) -> Key {
    let required = Some(example);
    Key { name, required }
}

pub(crate) const fn optional(name: &'static str) -> Key {
    let required = None;
    Key { name, required }
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
pub(crate) fn record<'n, const N: usize>(
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
pub(crate) fn named<'n, T>(
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
