//! The dimensions of a cell: which network, what it carries, and how the place around it is set up.
//!
//! ```text
//! CellKey = network + copy + GroupKey          the cells of one comparison differ in the network alone
//! GroupKey = Workload + Setting                what is sent, and between whom
//! Setting                                      what a topology is built from: cells with the same one share it
//! ```

use super::{BackendName, Feature, Tuning, Workload};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The size class of the guests' MTU: groups of cells that are compared share it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum MtuClass {
    /// Guest MTU 1500 everywhere.
    #[default]
    Standard,
    /// Guest MTU 9000 without an overlay, 8900 in one.
    Jumbo,
}

impl MtuClass {
    /// The guest's MTU on `backend` in this class.
    pub fn guest_mtu(self, backend: BackendName) -> u32 {
        match (self, backend.is_overlay()) {
            (Self::Standard, _) => 1500,
            (Self::Jumbo, true) => 8900,
            (Self::Jumbo, false) => 9000,
        }
    }

    /// The MTU of the cables that machines move over.
    pub fn link_mtu(self) -> u32 {
        match self {
            Self::Standard => 1500,
            Self::Jumbo => 9000,
        }
    }

    /// The underlay's MTU in this class: the guest's frame and the widest tunnel header fit.
    pub fn underlay_mtu(self) -> u32 {
        match self {
            Self::Standard => 1600,
            Self::Jumbo => 9000,
        }
    }
}

/// An address family.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ipv4" => Ok(Self::Ipv4),
            "ipv6" => Ok(Self::Ipv6),
            _ => Err("it is ipv4 or ipv6".to_owned()),
        }
    }
}

/// What the receiving guests are behind.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum FarEnd {
    /// A host with the same switch (study E's model B).
    #[default]
    Host,
    /// Nothing: a bare tester holds the other end of the underlay cable (study E's model A).
    Tester,
}

/// What a guest is to its host.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum GuestKind {
    /// A container: its device is one end of a veth pair, the port is the other.
    #[default]
    Veth,
    /// A virtual machine under vhost-net: its card and the port are TAPs, between them is a relay.
    Tap,
    /// A whole virtual machine, run by QEMU, that can move: its port is a TAP on each host. Only machines that move are such,
    /// each the sender of its pair; the receiver, which talks to it, is a container.
    Qemu,
}

impl FromStr for GuestKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "veth" => Ok(Self::Veth),
            "tap" => Ok(Self::Tap),
            _ => Err("it is veth (containers) or tap (virtual machines)".to_owned()),
        }
    }
}

/// What a topology is built from, but for the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The size class of the guests' MTU.
    pub mtu_class: MtuClass,
    /// Wire offload: true = super-packets cross the underlay whole, false = the wire segments.
    pub offload: bool,
    /// What the receiving guests are behind.
    pub far_end: FarEnd,
    /// Virtual hosts: 1 = both guests of each pair on one host; else senders on the first, receivers on the others in turn.
    pub hosts: u32,
    /// Pairs of a sending and a receiving guest.
    pub pairs: u32,
    /// What the guests are; what lies beyond an uplink or a leg is none.
    pub guests: GuestKind,
    /// Memory of each machine that QEMU runs; null: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_memory_mib: Option<u32>,
    /// Logical switches: up to `pairs` of them the pairs are spread over them; more: the guests' ports are trunks, and packets
    /// rotate over all.
    pub vnis: u32,
    /// Family of the guests' addresses.
    pub inner: Family,
    /// Family of the hosts' underlay addresses.
    pub underlay: Family,
    /// What the network does besides switching.
    pub feature: Feature,
    /// How the networks are set.
    pub tuning: Tuning,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            mtu_class: MtuClass::Standard,
            offload: true,
            far_end: FarEnd::Host,
            hosts: 2,
            pairs: 1,
            guests: GuestKind::Veth,
            guest_memory_mib: None,
            vnis: 1,
            inner: Family::Ipv4,
            underlay: Family::Ipv4,
            feature: Feature::Default,
            tuning: Tuning::Alike,
        }
    }
}

impl Setting {
    /// The guests' ports are trunks.
    pub fn is_trunk(&self) -> bool {
        self.vnis > self.pairs
    }

    /// How many networks there are: a router joins those of the senders to as many of the receivers.
    pub fn networks(&self) -> u32 {
        let vnis = self.vnis.max(1);
        if self.feature.joins_switches() {
            2 * vnis
        } else {
            vnis
        }
    }

    /// What networks share that are always up at the same time: they differ in the MTU class, the feature and the tuning, so
    /// that jumbo frames against 1500, or routing against none, is a ratio within a round like network against network.
    pub fn place(&self) -> Self {
        Self {
            mtu_class: MtuClass::default(),
            feature: Feature::default(),
            tuning: Tuning::default(),
            ..*self
        }
    }
}

/// `mtu 1500 offload on`, and what differs from the ordinary.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        let mtu = match self.mtu_class {
            MtuClass::Standard => "standard",
            MtuClass::Jumbo => "jumbo",
        };
        let offload = if self.offload { "on" } else { "off" };
        write!(f, "{mtu} mtu, offload {offload}")?;
        if self.far_end != usual.far_end {
            write!(f, ", tester at the far end")?;
        }
        for (name, value, usual) in [
            ("hosts", self.hosts, usual.hosts),
            ("pairs", self.pairs, usual.pairs),
            ("VNIs", self.vnis, usual.vnis),
        ] {
            if value != usual {
                write!(f, ", {value} {name}")?;
            }
        }
        if self.guests != usual.guests {
            write!(f, ", virtual machines")?;
        }
        if let Some(memory) = self.guest_memory_mib {
            write!(f, " of {memory} MiB")?;
        }
        if self.inner == Family::Ipv6 {
            write!(f, ", IPv6 inside")?;
        }
        if self.underlay == Family::Ipv6 {
            write!(f, ", IPv6 underlay")?;
        }
        if self.feature != usual.feature {
            write!(f, ", {}", self.feature.words())?;
        }
        if self.tuning != usual.tuning {
            write!(f, ", {}", self.tuning)?;
        }
        Ok(())
    }
}

/// The dimensions of one cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// The network that is measured.
    #[serde(rename = "network", alias = "backend")]
    pub backend: BackendName,
    /// 0; 1 for the second of a network that is measured against itself.
    #[serde(default)]
    pub copy: u8,
    /// What it carries, and the place around it.
    #[serde(flatten)]
    pub group: GroupKey,
}

impl CellKey {
    /// MTU of the guests' devices: 1500, 8900 (overlay) or 9000 (plain).
    pub fn mtu(&self) -> u32 {
        self.group.setting.mtu_class.guest_mtu(self.backend)
    }

    /// The network as tables name it: the backend, and whether it is the second of its kind.
    pub fn network(&self) -> String {
        match self.copy {
            0 => self.backend.to_string(),
            _ => format!("{} (again)", self.backend),
        }
    }

    /// The network with what it does besides switching: `overlane-vxlan, routing`.
    pub fn network_in_full(&self) -> String {
        match self.group.setting.feature {
            Feature::Default => self.network(),
            feature => format!("{}, {}", self.network(), feature.words()),
        }
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.network(), self.group)
    }
}

/// What the cells of one comparison share; its cells differ in the backend alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    /// What is sent.
    #[serde(flatten)]
    pub workload: Workload,
    /// Between whom.
    #[serde(flatten)]
    pub setting: Setting,
}

impl GroupKey {
    /// The cell of `backend` in this group.
    pub fn cell(&self, backend: BackendName) -> CellKey {
        CellKey {
            backend,
            copy: 0,
            group: *self,
        }
    }

    /// The group with another feature, and the same in all else.
    pub fn with_feature(&self, feature: Feature) -> Self {
        let setting = Setting {
            feature,
            ..self.setting
        };
        Self { setting, ..*self }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.workload, self.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_says_backend_is_read() {
        let group = GroupKey {
            workload: Workload {
                test: super::super::Test::TcpRr,
                bytes: 64,
                instances: 8,
                buffer_bytes: None,
                rate_pps: None,
                rate_mbps: None,
                search: None,
                migration: None,
            },
            setting: Setting::default(),
        };
        let key = group.cell(BackendName::Bridge);
        let mut record = serde_json::to_value(key).unwrap();
        let name = record.as_object_mut().unwrap().remove("network").unwrap();
        assert_eq!(name, "bridge");
        record["backend"] = name;
        assert_eq!(serde_json::from_value::<CellKey>(record).unwrap(), key);
    }

    #[test]
    fn a_record_from_before_virtual_machines_is_of_containers() {
        let setting = Setting {
            pairs: 4,
            ..Setting::default()
        };
        let mut record = serde_json::to_value(setting).unwrap();
        assert_eq!(record["guests"], "veth");
        record.as_object_mut().unwrap().remove("guests");
        assert_eq!(serde_json::from_value::<Setting>(record).unwrap(), setting);
        let tap = Setting {
            guests: "tap".parse().unwrap(),
            ..setting
        };
        assert_eq!(serde_json::to_value(tap).unwrap()["guests"], "tap");
        assert!(tap.to_string().ends_with("4 pairs, virtual machines"));
        assert!("vm".parse::<GuestKind>().is_err());
    }

    #[test]
    fn only_a_tunnel_takes_from_the_guests_mtu() {
        for name in BackendName::ALL {
            let tunnel = name.as_str().ends_with("vxlan") || name.as_str().ends_with("geneve");
            assert_eq!(name.is_overlay(), tunnel, "{name}");
            let jumbo = if tunnel { 8900 } else { 9000 };
            assert_eq!(MtuClass::Jumbo.guest_mtu(name), jumbo, "{name}");
            assert_eq!(MtuClass::Standard.guest_mtu(name), 1500, "{name}");
        }
    }
}
