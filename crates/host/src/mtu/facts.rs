//! What a machine has: the MTUs of its devices and routes, and what the data path has seen. Plain data, so that the
//! facts of several machines can be looked at together, and tests can write them.

use std::net::IpAddr;

use overlane_model::Name;
use serde::{Deserialize, Serialize};

/// What is missing where the uplink is.
pub(crate) const UPLINK: &str = "the uplink";
/// The kernel has no larger MTU.
const MOST_MTU: u32 = i32::MAX.cast_unsigned();

/// What is known of one host of the fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// Its name in the fabric.
    pub host: String,
    /// The network namespace of its devices; none: the machine's own, or the one of this process.
    #[serde(default)]
    pub netns: Option<String>,
    /// Its uplink; none when there is no such device.
    pub uplink: Option<DeviceFacts>,
    /// The name of the uplink that `apply` found; none: the host is not applied, or nobody may see it.
    #[serde(default)]
    pub applied_uplink: Option<String>,
    /// What lies below the uplink, each device once: what a VLAN device or a tunnel is made on, and the members of
    /// a bond or bridge.
    #[serde(default)]
    pub below: Vec<BelowFacts>,
    /// Ports whose devices are there.
    #[serde(default)]
    pub ports: Vec<PortFacts>,
    /// Legs of gateways whose devices are there.
    #[serde(default)]
    pub legs: Vec<LegFacts>,
    /// The kernel's way to each remote.
    #[serde(default)]
    pub routes: Vec<RouteFacts>,
    /// What routers of the underlay said about the paths to remotes, as far as it still counts.
    #[serde(default)]
    pub path_mtus: Vec<PathMtuFacts>,
    /// Devices that `apply` made for frames on their way.
    #[serde(default)]
    pub helpers: Vec<DeviceFacts>,
    /// Packets that were too large since `apply`; none where the counters cannot be read.
    #[serde(default)]
    pub pkt_too_big: Option<u64>,
    /// What could not be looked at.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

impl HostFacts {
    /// Facts that somebody else wrote down end up in messages, and in commands to copy. Says what no machine has.
    pub fn check(&self) -> Result<(), String> {
        let ports = self.ports.iter().map(|port| &port.device);
        let legs = self.legs.iter().map(|leg| &leg.device);
        let devices: Vec<_> = self
            .uplink
            .iter()
            .chain(ports)
            .chain(legs)
            .chain(&self.helpers)
            .collect();
        let below = self.below.iter();
        let words = devices.iter().map(|it| &it.device);
        let words = words
            .chain(&self.netns)
            .chain(&self.applied_uplink)
            .chain(self.routes.iter().filter_map(|it| it.device.as_ref()));
        let words = words.chain(
            below
                .clone()
                .flat_map(|it| [&it.device, &it.above, &it.kind]),
        );
        if let Some(word) = words.into_iter().find(|word| !is_word(word)) {
            return Err(format!("{word:?} is no name of a device or namespace"));
        }
        let names = self.ports.iter().map(|port| &port.port);
        let names = names.chain(self.legs.iter().map(|leg| &leg.router));
        let names = names.chain(self.routes.iter().map(|route| &route.remote));
        let mut names = names.chain(self.path_mtus.iter().map(|it| &it.remote));
        if let Some(name) = names.find(|name| Name::new(name).is_err()) {
            return Err(format!("{name:?} is no name of a fabric"));
        }
        let mtus = devices
            .iter()
            .flat_map(|it| [Some(it.mtu), it.peer_mtu, it.mtu_at_apply]);
        let mtus = mtus.chain(below.map(|it| Some(it.mtu)));
        let mtus = mtus.chain(self.routes.iter().map(|route| route.mtu));
        let mut mtus = mtus
            .chain(self.path_mtus.iter().map(|it| Some(it.mtu)))
            .flatten();
        mtus.find(|mtu| *mtu > MOST_MTU)
            .map_or(Ok(()), |mtu| Err(format!("no MTU is {mtu}")))
    }
}

/// One word, to a shell too.
fn is_word(text: &str) -> bool {
    let special =
        |c: char| c.is_whitespace() || c.is_control() || "/;&|<>()$`\\\"'*?[]#~!{}".contains(c);
    !text.is_empty() && !text.starts_with('-') && !text.contains(special)
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub device: String,
    /// Largest packet that it takes.
    pub mtu: u32,
    /// That of its other end, of a veth or netkit whose other end can be seen.
    #[serde(default)]
    pub peer_mtu: Option<u32>,
    /// What `apply` found, which the data path goes by; none: the host is not applied, or the device is another one.
    #[serde(default)]
    pub mtu_at_apply: Option<u32>,
}

/// A device below the uplink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BelowFacts {
    /// Its name.
    pub device: String,
    /// Largest packet that it takes.
    pub mtu: u32,
    /// The device that hands packets to it.
    pub above: String,
    /// That one's kind: `vlan`, `bond`, `bridge`, …
    pub kind: String,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// Its name in the fabric.
    pub port: String,
    /// Its device, here.
    #[serde(flatten)]
    pub device: DeviceFacts,
    /// The longest IP packet that it sent, or that was cut from what it sent; 0: none yet. None where the counters
    /// cannot be read.
    #[serde(default)]
    pub longest: Option<u64>,
    /// The longest that was cut from a super-packet: what the guest's MTU lets through, if it is not 0.
    #[serde(default)]
    pub longest_segment: Option<u64>,
    /// Packets that were refused without telling the guest, which asked too often.
    #[serde(default)]
    pub untold: Option<u64>,
}

/// A leg of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegFacts {
    /// The router.
    pub router: String,
    /// The leg's device.
    #[serde(flatten)]
    pub device: DeviceFacts,
}

/// The way to a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteFacts {
    /// The remote's name in the fabric.
    pub remote: String,
    /// The device that packets to it leave by; none without a route.
    pub device: Option<String>,
    /// An MTU of the route's own.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// The kernel was told that MTU by a router on the way; else somebody set it.
    #[serde(default)]
    pub learned: bool,
}

/// The path MTU to a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathMtuFacts {
    /// The remote's name in the fabric.
    pub remote: String,
    /// The largest outer IP packet that gets there.
    pub mtu: u32,
    /// Who said so; none: it was found by trying.
    #[serde(default)]
    pub hop: Option<IpAddr>,
    /// For how many seconds it still counts.
    #[serde(default)]
    pub seconds_left: u32,
}

/// What could not be looked at, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}
