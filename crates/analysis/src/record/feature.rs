//! What a network does besides switching: the axis `feature` of a study.
//!
//! Each feature is a network of its own. It is held against the same backend as it comes, and against the feature that it
//! contains: NAT against the gateway without it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::AnalysisError;

/// What the network does besides switching.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// As it comes.
    #[default]
    Default,
    /// Overlane with port security switched off, which it is not by default.
    SecurityOff,
    /// 10 rules without connections, on all ports.
    #[serde(rename = "stateless-10")]
    Stateless10,
    /// 10 rules with connections, on all ports.
    #[serde(rename = "firewall-10")]
    Firewall10,
    /// 1000 of them.
    #[serde(rename = "firewall-1000")]
    Firewall1000,
    /// The guests of a pair are in two logical switches and two subnets, joined by a distributed router.
    Routing,
    /// The same with 10 rules with connections.
    RoutingFirewall,
    /// The receiving guest is a physical host: it holds the other end of a device of the second host, which is the gateway.
    Gateway,
    /// The same, and the physical host sees the gateway's address in place of the guest's.
    GatewayNat,
}

/// The rules of a firewall, of which the last one admits what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How many.
    pub count: u32,
    /// They begin connections.
    pub stateful: bool,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 9] = [
        Self::Default,
        Self::SecurityOff,
        Self::Stateless10,
        Self::Firewall10,
        Self::Firewall1000,
        Self::Routing,
        Self::RoutingFirewall,
        Self::Gateway,
        Self::GatewayNat,
    ];

    /// The name used in study files and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::SecurityOff => "security-off",
            Self::Stateless10 => "stateless-10",
            Self::Firewall10 => "firewall-10",
            Self::Firewall1000 => "firewall-1000",
            Self::Routing => "routing",
            Self::RoutingFirewall => "routing-firewall",
            Self::Gateway => "gateway",
            Self::GatewayNat => "gateway-nat",
        }
    }

    /// What it is, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Default => "as it comes",
            Self::SecurityOff => "port security off",
            Self::Stateless10 => "firewall of 10 stateless rules",
            Self::Firewall10 => "firewall of 10 rules",
            Self::Firewall1000 => "firewall of 1000 rules",
            Self::Routing => "routing",
            Self::RoutingFirewall => "routing and firewall of 10 rules",
            Self::Gateway => "gateway",
            Self::GatewayNat => "gateway with NAT",
        }
    }

    /// Something is done to each packet that switching alone does not do.
    pub fn is_service(self) -> bool {
        self.is_routed() || self.rules().is_some()
    }

    /// A router is between the guests of a pair.
    pub fn is_routed(self) -> bool {
        matches!(self, Self::Routing | Self::RoutingFirewall) || self.has_gateway()
    }

    /// The router has a leg in a physical network, and the receiving guest is there.
    pub fn has_gateway(self) -> bool {
        matches!(self, Self::Gateway | Self::GatewayNat)
    }

    /// The router joins two logical switches: one for the senders, one for the receivers.
    pub fn joins_switches(self) -> bool {
        self.is_routed() && !self.has_gateway()
    }

    /// The rules of the ports' firewall.
    pub fn rules(self) -> Option<Rules> {
        let (count, stateful) = match self {
            Self::Stateless10 => (10, false),
            Self::Firewall10 | Self::RoutingFirewall => (10, true),
            Self::Firewall1000 => (1000, true),
            _ => return None,
        };
        Some(Rules { count, stateful })
    }

    /// The feature, besides none, that this one is held against: it does the same and less.
    pub fn contains(self) -> Option<Self> {
        match self {
            Self::Firewall1000 => Some(Self::Firewall10),
            Self::RoutingFirewall => Some(Self::Routing),
            Self::GatewayNat => Some(Self::Gateway),
            _ => None,
        }
    }

    /// Two letters for it in the names of topologies.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::SecurityOff => "s0",
            Self::Stateless10 => "f0",
            Self::Firewall10 => "f1",
            Self::Firewall1000 => "f3",
            Self::Routing => "rt",
            Self::RoutingFirewall => "rf",
            Self::Gateway => "gw",
            Self::GatewayNat => "gn",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Feature {
    type Err = AnalysisError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        super::named("feature", &Self::ALL, Self::as_str, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_names_are_those_of_study_files() {
        for feature in Feature::ALL {
            let name = serde_json::to_value(feature).unwrap();
            assert_eq!(name, feature.as_str(), "{feature:?}");
            assert_eq!(feature.as_str().parse::<Feature>().unwrap(), feature);
        }
        let labels: BTreeSet<_> = Feature::ALL.iter().map(|f| f.label()).collect();
        assert_eq!(labels.len(), Feature::ALL.len());
    }

    #[test]
    fn a_feature_does_what_the_one_that_it_contains_does() {
        for feature in Feature::ALL {
            let Some(part) = feature.contains() else {
                continue;
            };
            assert!(part.is_service() && part < feature);
            assert!(feature.is_routed() || !part.is_routed(), "{feature}");
            assert_eq!(feature.has_gateway(), part.has_gateway(), "{feature}");
        }
        assert!(!Feature::SecurityOff.is_service() && !Feature::Default.is_service());
    }
}
