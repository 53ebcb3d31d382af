//! Why there is no packet to trace: what was typed, what is allowed, and what was probably meant.

use std::io;
use std::path::PathBuf;

use overlane_model::{Name, nearest};
use thiserror::Error;

use super::fields::{FIELDS, WORDS};
use super::unreachable::Unreachable;

/// Why there is no packet to trace.
#[derive(Debug, Error)]
pub(crate) enum PacketError {
    /// A word that is no field.
    #[error("`{name}` is no field of a packet")]
    UnknownField { name: String, help: String },
    /// A field alone.
    #[error("{0} has no value")]
    NoValue(&'static str),
    /// A header with a value.
    #[error("{0} takes no value")]
    TakesNoValue(&'static str),
    /// A value the field does not take.
    #[error("{field}: `{value}` is not {allowed}")]
    Value {
        field: &'static str,
        value: String,
        allowed: String,
        help: Option<String>,
    },
    /// One field, two values.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// Two fields of different packets.
    #[error("{0} and {1} cannot be in one packet")]
    Conflict(&'static str, &'static str),
    /// Something the fabric cannot fill in.
    #[error("{field} is missing: {why}")]
    Missing {
        field: &'static str,
        why: String,
        help: String,
    },
    /// Nothing leads to its destination: a result of the trace.
    #[error("{}", .0.why)]
    Unreachable(Box<Unreachable>),
    /// The packet would be longer than IP can say.
    #[error("size: {size} bytes of payload do not fit into a packet (at most {most} here)")]
    TooLong { size: usize, most: usize },
    /// No such port in the fabric.
    #[error("the fabric has no port `{name}`")]
    UnknownPort { name: String, help: Option<String> },
    /// No such router in the fabric, or it has no leg.
    #[error("the fabric has no router `{name}` with a leg")]
    UnknownLeg { name: String, help: Option<String> },
    /// No such switch in the fabric.
    #[error("the fabric has no switch `{name}`")]
    UnknownSwitch { name: String, help: Option<String> },
    /// A switch whose frames never leave by the uplink as they are.
    #[error("switch `{0}` is on no VLAN: none of its frames goes into the physical network")]
    NoVlan(Name),
    /// The capture file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadCapture { path: PathBuf, source: io::Error },
    /// The capture file is none, or not of Ethernet.
    #[error("{}: {why}", path.display())]
    Capture { path: PathBuf, why: String },
}

impl PacketError {
    pub(crate) fn unknown_field(name: &str) -> Self {
        let known = FIELDS.iter().map(|field| field.name);
        let known = known.chain(WORDS.iter().map(|(word, _)| *word));
        let help = did_you_mean(name, known).unwrap_or_else(|| {
            let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            format!("the fields are {}", names.join(", "))
        });
        let name = printable(name);
        Self::UnknownField { name, help }
    }

    pub(crate) fn value(field: &'static str, value: &str, allowed: String) -> Self {
        Self::Value {
            field,
            value: printable(value),
            allowed,
            help: None,
        }
    }

    /// What to do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::UnknownField { help, .. } | Self::Missing { help, .. } => Some(help.clone()),
            Self::Value { help, .. }
            | Self::UnknownPort { help, .. }
            | Self::UnknownLeg { help, .. }
            | Self::UnknownSwitch { help, .. } => help.clone(),
            Self::NoValue(field) => Some(format!("write {field}=VALUE")),
            Self::TakesNoValue(word) => {
                let fields = FIELDS.iter().map(|field| field.name);
                let of_word = fields.filter(|name| name.starts_with(&format!("{word}.")));
                Some(format!(
                    "its fields are {}",
                    of_word.collect::<Vec<_>>().join(", ")
                ))
            }
            Self::Twice(_) | Self::TooLong { .. } | Self::Unreachable(_) => None,
            Self::NoVlan(_) => Some("name a switch with `uplink_vlan`".to_owned()),
            Self::Conflict(..) => Some("leave one of them out".to_owned()),
            Self::ReadCapture { .. } => None,
            Self::Capture { .. } => {
                Some("a capture of Ethernet frames, as `tcpdump -w` writes it".to_owned())
            }
        }
    }
}

/// `did you mean …?` with the nearest of `known`, if one is near.
pub(crate) fn did_you_mean<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(wrong, known).map(|word| format!("did you mean `{word}`?"))
}

/// What was typed, safe for a terminal and not longer than a line.
pub(crate) fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().count() > 60 {
        shown.push('…');
    }
    shown
}
