//! Logical switches of random fabrics.

use std::fmt::Write as _;

use super::fabric::{limits, limits_yaml, timeouts};
use crate::random::Random;

/// A logical switch.
#[derive(Clone, Debug)]
pub struct SwitchSpec {
    /// VLAN on the uplink instead of a VNI.
    pub is_vlan: bool,
    /// Which.
    pub number: u32,
    /// Floods unknown unicast.
    pub floods: bool,
    /// Carries guests' tags.
    pub is_transparent: bool,
    /// Its routers reach only declared addresses.
    pub is_declared: bool,
    /// Tells nobody what is too big.
    pub is_silent: bool,
    /// Lowers the MSS of TCP.
    pub clamps: bool,
    /// Drops from ports, and to ports, what no rule allows.
    pub drops: (bool, bool),
    /// Lets packets pass that no connection has a place for.
    pub allows_when_full: bool,
    /// Most connections of its ports, and most copies of flooded frames.
    pub limits: (Option<u32>, Option<u32>),
    /// Time-outs of the connections of its ports, as the file writes them.
    pub timeouts: Option<String>,
    /// What becomes of frames that are not IP, where the file says.
    pub non_ip: Option<&'static str>,
}

pub(super) fn switch(random: &mut Random, index: usize) -> SwitchSpec {
    let is_vlan = random.percent(25);
    SwitchSpec {
        is_vlan,
        number: if is_vlan {
            100 + index as u32
        } else {
            random.of([1, 5001, 0x00ff_fff0]) + index as u32
        },
        floods: random.percent(50),
        is_transparent: !is_vlan && random.percent(30),
        is_declared: random.percent(20),
        is_silent: random.percent(20),
        clamps: random.percent(30),
        drops: (random.percent(10), random.percent(15)),
        allows_when_full: random.percent(20),
        limits: limits(random),
        timeouts: random.some(30, timeouts),
        non_ip: random.some(20, |random| {
            random.of(["allow", "drop", "[0x88cc]", "[0x8035, 0x88f7]"])
        }),
    }
}

impl SwitchSpec {
    pub(super) fn yaml(&self) -> String {
        let id = if self.is_vlan { "uplink_vlan" } else { "vni" };
        let mut out = format!("{id}: {}", self.number);
        if self.floods {
            out += ", unknown_unicast: flood";
        }
        if self.is_transparent {
            out += ", vlan: transparent";
        }
        if self.is_declared {
            out += ", neighbours: declared";
        }
        if self.is_silent {
            out += ", path_mtu_discovery: false";
        }
        if self.clamps {
            out += ", mss_clamp: true";
        }
        let (from, to) = self.drops;
        if from || to || self.allows_when_full || self.non_ip.is_some() {
            let word = |drops| if drops { "drop" } else { "allow" };
            let (from, to, full) = (word(from), word(to), word(!self.allows_when_full));
            let non_ip = |non_ip| format!(", non_ip: {non_ip}");
            let non_ip = self.non_ip.map_or_else(String::new, non_ip);
            let policies = format!("from_port: {from}, to_port: {to}, when_full: {full}{non_ip}");
            let _ = write!(out, ", firewall: {{ {policies} }}");
        }
        out += &limits_yaml(self.limits);
        if let Some(timeouts) = &self.timeouts {
            let _ = write!(out, ", {timeouts}");
        }
        out
    }
}
