//! The networks that are compared, by name.

use crate::error::AnalysisError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One way of joining two guests: the thing that a study compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendName {
    /// One veth cable between the guests: the limit of this machine.
    Direct,
    /// A Linux bridge on each host, the uplink in it: no overlay.
    Bridge,
    /// A Linux bridge and the kernel's 802.1Q device, a VLAN on the underlay: no overlay.
    KernelVlan,
    /// A Linux bridge and the kernel's VXLAN device.
    KernelVxlan,
    /// A Linux bridge and the kernel's Geneve device.
    KernelGeneve,
    /// Open vSwitch in userspace, a VLAN on the underlay: no overlay.
    OvsVlan,
    /// Open vSwitch in userspace, VXLAN.
    OvsVxlan,
    /// Open vSwitch in userspace, Geneve.
    OvsGeneve,
    /// Open vSwitch with the kernel's datapath, a VLAN on the underlay: no overlay.
    OvsKernelVlan,
    /// Open vSwitch with the kernel's datapath, VXLAN.
    OvsKernelVxlan,
    /// Open vSwitch with the kernel's datapath, Geneve.
    OvsKernelGeneve,
    /// Overlane's eBPF data path, a VLAN on the underlay: no overlay.
    OverlaneVlan,
    /// Overlane's eBPF data path, VXLAN.
    OverlaneVxlan,
    /// Overlane's eBPF data path, Geneve with OVN's option.
    OverlaneGeneve,
}

impl BackendName {
    /// Every backend, in the order in which tables show them.
    pub const ALL: [Self; 14] = [
        Self::Direct,
        Self::Bridge,
        Self::KernelVlan,
        Self::KernelVxlan,
        Self::KernelGeneve,
        Self::OvsVlan,
        Self::OvsVxlan,
        Self::OvsGeneve,
        Self::OvsKernelVlan,
        Self::OvsKernelVxlan,
        Self::OvsKernelGeneve,
        Self::OverlaneVlan,
        Self::OverlaneVxlan,
        Self::OverlaneGeneve,
    ];

    /// The name used in study files, results and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Bridge => "bridge",
            Self::KernelVlan => "kernel-vlan",
            Self::KernelVxlan => "kernel-vxlan",
            Self::KernelGeneve => "kernel-geneve",
            Self::OvsVlan => "ovs-vlan",
            Self::OvsVxlan => "ovs-vxlan",
            Self::OvsGeneve => "ovs-geneve",
            Self::OvsKernelVlan => "ovs-kernel-vlan",
            Self::OvsKernelVxlan => "ovs-kernel-vxlan",
            Self::OvsKernelGeneve => "ovs-kernel-geneve",
            Self::OverlaneVlan => "overlane-vlan",
            Self::OverlaneVxlan => "overlane-vxlan",
            Self::OverlaneGeneve => "overlane-geneve",
        }
    }

    /// What carries the guests' frames over the underlay.
    pub fn encapsulation(self) -> Encapsulation {
        match self {
            Self::Direct | Self::Bridge => Encapsulation::None,
            Self::KernelVlan | Self::OvsVlan | Self::OvsKernelVlan | Self::OverlaneVlan => {
                Encapsulation::Vlan
            }
            Self::KernelVxlan | Self::OvsVxlan | Self::OvsKernelVxlan | Self::OverlaneVxlan => {
                Encapsulation::Vxlan
            }
            Self::KernelGeneve | Self::OvsGeneve | Self::OvsKernelGeneve | Self::OverlaneGeneve => {
                Encapsulation::Geneve
            }
        }
    }

    /// True for this project's own data path: it alone has routers and a firewall here.
    pub fn is_overlane(self) -> bool {
        matches!(
            self,
            Self::OverlaneVlan | Self::OverlaneVxlan | Self::OverlaneGeneve
        )
    }

    /// True when the guests' frames travel in a tunnel: a VLAN tag is none, and takes nothing of the
    /// guests' MTU (IEEE 802.3: the tag lies outside of the frame's largest payload).
    pub fn is_overlay(self) -> bool {
        match self.encapsulation() {
            Encapsulation::None | Encapsulation::Vlan => false,
            Encapsulation::Vxlan | Encapsulation::Geneve => true,
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BackendName {
    type Err = AnalysisError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        super::named("network", &Self::ALL, Self::as_str, text)
    }
}

/// What surrounds the guests' frames on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Nothing: the frames travel as the guests sent them.
    None,
    /// An 802.1Q tag.
    Vlan,
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
}

impl Encapsulation {
    /// What it is called.
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Vlan => "VLAN",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_tables_keep_one_order() {
        for name in BackendName::ALL {
            assert_eq!(name.as_str().parse::<BackendName>().unwrap(), name);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(json, format!("\"{name}\""));
        }
        assert!(BackendName::ALL.is_sorted());
        let unknown = "ovs".parse::<BackendName>().unwrap_err().to_string();
        assert!(unknown.contains("ovs-vlan"), "{unknown}");
    }
}
