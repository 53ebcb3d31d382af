//! What `apply`, `remove` and `status` tell their caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::lib::announcements::Announcements;
use crate::lib::error::UnfitDevice;
use crate::state::answers::Answer;

pub(crate) mod finding;
mod remedy;
mod row;
mod sentence;

pub use remedy::Remedy;
pub use row::{ChangeKind, Difference, Object, Row};
pub use sentence::lines;

/// The outcome of [`crate::apply`].
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The host that was applied.
    pub host: String,
    /// True when nothing was changed because only the difference was asked for.
    pub dry_run: bool,
    /// What was changed, or would be; empty when the machine was already as the fabric says.
    pub changes: Vec<Row>,
    /// Devices of ports and of legs that are not there. The fabric is applied without them.
    pub missing: Vec<UnfitDevice>,
    /// What the physical network is told of: addresses that are answered for here, and were not before. And the stations
    /// of switches: addresses that have another MAC now.
    pub announced: Vec<Announced>,
    /// What works but deserves a look.
    pub notes: Vec<Row>,
    /// Entries of the maps were put right that no row names.
    #[serde(skip)]
    pub(crate) is_silent: bool,
    /// The devices of the host by name, with the indices that they had.
    #[serde(skip)]
    pub(crate) devices: BTreeMap<String, u32>,
    /// The next hops that the kernel keeps resolved.
    #[serde(skip)]
    pub(crate) next_hops: BTreeSet<IpAddr>,
    /// Announcements that are left to be made: [`Announcements::start`] has them made.
    #[serde(skip)]
    pub announcements: Option<Announcements>,
}

/// What is announced by one device, or in one switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Announced {
    /// The device; none: it is announced in the switch.
    pub device: Option<String>,
    /// The switch.
    pub switch: Option<String>,
    /// The VLAN on it.
    pub vlan: Option<u16>,
    /// Addresses; of a guest without any, its MAC.
    pub addresses: Vec<String>,
}

/// The outcome of [`crate::remove()`].
#[derive(Debug, Clone, Serialize)]
pub struct Removal {
    /// The host that was removed.
    pub host: String,
    /// What was taken away, a sentence each; empty when there was nothing.
    pub removed: Vec<String>,
    /// The same as data.
    pub rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            dry_run: false,
            changes: Vec::new(),
            missing: Vec::new(),
            announced: Vec::new(),
            notes: Vec::new(),
            is_silent: false,
            devices: BTreeMap::new(),
            next_hops: BTreeSet::new(),
            announcements: None,
        }
    }

    /// What was changed, by object.
    pub(crate) fn sort(&mut self) {
        self.changes.sort_by_key(|row| row.object);
    }
}

impl Removal {
    pub(crate) fn of(host: &str, rows: Vec<Row>) -> Self {
        // Without the sign: all of it was removed.
        let line = |line: String| line.trim_start_matches("- ").to_owned();
        Self {
            host: host.to_owned(),
            removed: lines(&rows).into_iter().map(line).collect(),
            rows,
        }
    }
}

impl Announced {
    /// Up to so many addresses are listed, more are counted.
    const LISTED_MAX: usize = 8;

    /// By device and VLAN, then by switch.
    pub(crate) fn of<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> Vec<Self> {
        type Place = (Option<String>, Option<String>, Option<u16>);
        let mut all: BTreeMap<Place, Vec<&Answer>> = BTreeMap::new();
        for answer in answers {
            let place = match &answer.switch {
                Some(switch) => (Some(switch.clone()), None, None),
                None => (None, Some(answer.device.clone()), answer.vlan),
            };
            all.entry(place).or_default().push(answer);
        }
        let announced = |((switch, device, vlan), mut answers): (Place, Vec<&Answer>)| {
            // Many stations may be told of one address.
            answers.sort_by_key(|answer| answer.address);
            let mut addresses: Vec<String> = answers.iter().map(ToString::to_string).collect();
            addresses.dedup();
            Self {
                device,
                switch,
                vlan,
                addresses,
            }
        };
        all.into_iter().map(announced).collect()
    }
}

impl fmt::Display for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses[..] {
            addresses if addresses.len() > Self::LISTED_MAX => {
                write!(f, "{} addresses", addresses.len())?;
            }
            addresses => f.write_str(&addresses.join(", "))?,
        }
        if let Some(device) = &self.device {
            write!(f, " by {device}")?;
        }
        if let Some(switch) = &self.switch {
            write!(f, " in switch {switch}")?;
        }
        match self.vlan {
            Some(vlan) => write!(f, " (VLAN {vlan})"),
            None => Ok(()),
        }
    }
}
