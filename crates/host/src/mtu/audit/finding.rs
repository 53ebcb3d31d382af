//! What is set wrongly: a finding.

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
