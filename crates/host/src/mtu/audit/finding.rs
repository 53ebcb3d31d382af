//! What is set wrongly: a finding.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that is set wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// On which host of the fabric; none: on several.
    pub host: Option<String>,
    /// The thing: a device, a port, a switch, a router, a way.
    pub what: String,
    /// What is wrong with it.
    pub says: String,
    /// What to do.
    pub remedy: String,
    /// All ports that it names, where it names several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Names and numbers in the texts that are this finding's own: without them, and without its host and thing, those
    /// of findings alike are the same.
    #[serde(skip)]
    pub(crate) words: Vec<String>,
}

impl Finding {
    /// Without its texts.
    pub(crate) const fn new(place: Place, severity: Severity) -> Self {
        Self {
            place,
            severity,
            host: None,
            what: String::new(),
            says: String::new(),
            remedy: String::new(),
            ports: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Whether another one says the same of another thing.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.severity, self.place) == (other.severity, other.place)
            && self.without_names() == other.without_names()
    }

    /// Word for word: a name may be a part of another word.
    fn without_names(&self) -> Vec<&str> {
        let name = self.what.split(' ').next_back();
        let names = self.words.iter().chain(&self.host).map(String::as_str);
        let names: BTreeSet<&str> = names.chain(name).collect();
        let is_part = |c: char| c.is_alphanumeric() || "._-@".contains(c);
        let texts = [&self.what, &self.says, &self.remedy].into_iter();
        let words = texts.flat_map(|text| text.split_inclusive(move |c| !is_part(c)));
        words
            .map(
                |word| match names.contains(word.trim_end_matches(|c| !is_part(c))) {
                    true => "",
                    false => word,
                },
            )
            .collect()
    }
}

/// The places where MTUs must agree, from the wire to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Switches, routers and cables between tunnel end points.
    PhysicalSwitches,
    /// The tunnel end point: the uplink, what lies below it, its routes.
    Vtep,
    /// The logical switch: ports' devices, and devices that `apply` made.
    VirtualSwitch,
    /// Logical routers and their legs.
    Routers,
    /// Guests.
    Guests,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Packets are lost, or will be.
    Wrong,
    /// All packets arrive, but there are more of them than need be.
    Wasteful,
}

impl Place {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::PhysicalSwitches => "physical switches",
            Self::Vtep => "VTEP",
            Self::VirtualSwitch => "virtual switch",
            Self::Routers => "routers",
            Self::Guests => "guests",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wrong => "wrong",
            Self::Wasteful => "wasteful",
        })
    }
}
