//! A case file as serde reads it: before names are looked up and packets composed (`case`).

use std::collections::BTreeMap;
use std::path::Path;

use overlane_model::{Fabric, FabricErrors};
use serde::de::{self, DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use crate::case::CaseError;
use crate::layers::Layer;
use crate::values::MacText;

/// Layers, each with its line.
pub(crate) type Layers = Vec<Spanned<Layer>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) rules: Spanned<Vec<Spanned<String>>>,
    /// Rows of docs/rfc.md.
    #[serde(default)]
    pub(crate) rfc: Vec<Spanned<String>>,
    pub(crate) fabric: FabricPlace,
    pub(crate) host: Option<String>,
    pub(crate) underlay_mtu: Option<u32>,
    pub(crate) port_shared: Option<bool>,
    pub(crate) whole_udp: Option<bool>,
    pub(crate) leg: Option<Leg>,
    pub(crate) port_mtu: Option<u32>,
    pub(crate) changed: Option<FabricPlace>,
    /// A file of `overlane connections export`.
    pub(crate) moved: Option<Spanned<serde_json::Value>>,
    pub(crate) packets: Vec<Spanned<Packet>>,
}

/// The device of a gateway's leg.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leg {
    pub(crate) mac: Option<MacText>,
    pub(crate) mtu: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packet {
    pub(crate) at: Option<f64>,
    pub(crate) times: Option<usize>,
    pub(crate) changed: Option<bool>,
    #[serde(default)]
    pub(crate) gone: Vec<String>,
    pub(crate) from: String,
    pub(crate) packet: Layers,
    pub(crate) verdict: String,
    pub(crate) out: Option<Vec<Spanned<Left>>>,
    /// What a copy of it became.
    pub(crate) probe: Option<Vec<Spanned<Left>>>,
    pub(crate) counters: Option<BTreeMap<String, Count>>,
    pub(crate) log: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Left {
    pub(crate) to: String,
    pub(crate) packet: Option<Layers>,
    pub(crate) same: Option<bool>,
}

/// Packets counted at a port or remote: from it, to it, and dropped; at a rule.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// From it.
    pub from: Option<u64>,
    /// To it.
    pub to: Option<u64>,
    /// Dropped.
    pub dropped: Option<u64>,
    /// Dropped, and the port was not told: it had been told enough.
    pub untold: Option<u64>,
    /// That the rule let pass or stopped.
    pub packets: Option<u64>,
}

/// Where a case's fabric stands.
#[derive(Debug)]
pub(crate) enum FabricPlace {
    /// In `fabrics/NAME.yaml`.
    Named(String),
    /// In the case.
    Inline,
}

impl<'de> Deserialize<'de> for FabricPlace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameOrMapping;
        impl<'de> Visitor<'de> for NameOrMapping {
            type Value = FabricPlace;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a fabric, or a fabric")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<FabricPlace, E> {
                Ok(FabricPlace::Named(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FabricPlace, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(FabricPlace::Inline)
            }
        }
        from.deserialize_any(NameOrMapping)
    }
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Document, CaseError> {
    read(path, text)
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, CaseError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        CaseError::at(path, line, error)
    })
}

/// The fabric of a case under a key, and its text.
pub(crate) fn fabric(
    path: &Path,
    text: &str,
    key: &str,
    place: &FabricPlace,
) -> Result<(Fabric, String), CaseError> {
    match place {
        FabricPlace::Inline => read_fabric(path, path, only(text, key)),
        FabricPlace::Named(name) => {
            let cases = path.parent().and_then(Path::parent).unwrap_or(path);
            named_fabric(path, cases, name)
        }
    }
}

/// A fabric that several files share, and its text: `fabrics/NAME.yaml` in the folder of the cases.
pub(crate) fn named_fabric(
    path: &Path,
    cases: &Path,
    name: &str,
) -> Result<(Fabric, String), CaseError> {
    let file = cases.join("fabrics").join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(&file);
    let text = text
        .map_err(|error| CaseError::at(path, 1, format!("fabric {}: {error}", file.display())))?;
    read_fabric(path, &file, text)
}

fn read_fabric(path: &Path, file: &Path, text: String) -> Result<(Fabric, String), CaseError> {
    let fabric = Fabric::parse(&file.display().to_string(), &text);
    let fabric = fabric.map_err(|error: FabricErrors| {
        let line = error
            .diagnostics()
            .first()
            .map_or(1, |first| u64::from(first.line));
        CaseError::at(path, line, error.render(false))
    })?;
    Ok((fabric, text))
}

/// The value of a key, with all its lines and columns where they were: messages about it name the place in the
/// case.
fn only(text: &str, key: &str) -> String {
    let mut inside = false;
    let lines = text.lines().map(|line| {
        let value = line.strip_prefix(key);
        if let Some(rest) = value.and_then(|rest| rest.strip_prefix(':')) {
            inside = true;
            return format!("{}{rest}", " ".repeat(key.len() + 1));
        }
        let belongs = line.starts_with(' ') || line.starts_with('}') || line.is_empty();
        inside = inside && belongs;
        if inside {
            line.to_owned()
        } else {
            String::new()
        }
    });
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_fabric_keeps_its_place() {
        let text = "title: x\nfabric:\n  version: 1\n  hosts:\n    h1: {}\npackets: []\n";
        assert_eq!(
            only(text, "fabric"),
            "\n       \n  version: 1\n  hosts:\n    h1: {}\n\n"
        );
        assert_eq!(
            only("fabric: { a: 1 }\nchanged: { a: 2 }\n", "fabric"),
            "        { a: 1 }\n\n"
        );
        assert_eq!(
            only("fabric: { a: 1 }\nchanged: { a: 2 }\n", "changed"),
            "\n         { a: 2 }\n"
        );
    }
}
