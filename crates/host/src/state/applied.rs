//! The state file of a host: the tables that were applied last, and what only this machine knows. Which namespace, which
//! programs are current, which switches of others are ours, what the kernel refused.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::Program;
use overlane_ebpf::tables::{Contents, rule_number, rules_generation};
use overlane_model::{PortTable, RouterTable, RuleTable, SwitchId, SwitchTable, Tables};
use overlane_net::netns::Netns;
use serde::{Deserialize, Serialize};

use super::answers::Answer;
use super::device::DeviceState;
use super::former::Former;
use super::netns_id::{NetnsId, netns_id};
use crate::HostError;

/// 2: switches on VLANs, trunks. 3: rules, routers. 4: the tables themselves. An older file is read as what it meant;
/// one that is newer is refused.
pub const SCHEMA: u32 = 4;

/// Contents of `/run/overlane/<host>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) schema: u32,
    pub(crate) host: String,
    /// Name of the namespace; none for the one `apply` ran in.
    pub(crate) netns: Option<String>,
    #[serde(flatten)]
    pub(crate) netns_id: NetnsId,
    /// True while `apply` works, and after it was killed.
    pub(crate) in_progress: bool,
    /// Which build of the data path is attached.
    pub(crate) object_digest: String,
    /// Which map set it uses.
    pub(crate) map_signature: String,
    /// Link pin → id of its program.
    pub(crate) programs: BTreeMap<String, u32>,
    /// What we switched on that nothing of the kernel shows to be ours, in the words of the record.
    pub(crate) ours: BTreeSet<String>,
    /// What the kernel refused, by kind and name, and its answer. The host goes without.
    pub(crate) refused: BTreeMap<String, String>,
    /// What is answered for here, in the physical network.
    pub(crate) answers: BTreeSet<Answer>,
    /// Devices of ports and of legs that were not there.
    pub(crate) missing: BTreeSet<String>,
    /// Devices of ports, the uplink and legs, by name.
    pub(crate) devices: BTreeMap<String, DeviceState>,
    /// What the maps call the rules of the tables, in their order.
    pub(crate) rule_numbers: Vec<u32>,
    /// False: nobody knows what was applied. An earlier build did it, or the first apply did not come to its end.
    pub(crate) knows_tables: bool,
    /// What was applied.
    pub(crate) tables: Tables,
    /// Addresses that nobody has any more. An earlier build wrote none.
    #[serde(default)]
    pub(crate) former: Vec<Former>,
}

/// `VNI 5001` or `VLAN 100`, of a number that came from [`SwitchId::number`].
pub(crate) fn switch_words(id: u32) -> String {
    SwitchId::from_number(id).map_or_else(|| format!("number {id}"), |id| id.to_string())
}

impl State {
    /// The state as it will be once `tables` are applied, without what only the machine knows.
    pub(crate) fn of(tables: &Tables) -> Self {
        Self {
            schema: SCHEMA,
            host: tables.host.to_string(),
            netns: None,
            netns_id: NetnsId::default(),
            in_progress: false,
            object_digest: String::new(),
            map_signature: String::new(),
            programs: BTreeMap::new(),
            ours: BTreeSet::new(),
            refused: BTreeMap::new(),
            answers: BTreeSet::new(),
            missing: BTreeSet::new(),
            devices: BTreeMap::new(),
            rule_numbers: Vec::new(),
            knows_tables: true,
            tables: tables.clone(),
            former: Vec::new(),
        }
    }

    /// A file of an earlier schema does not say what was applied: it is taken to be what is wanted now.
    pub(crate) fn complete(&mut self, wanted: &Tables) {
        if self.schema != SCHEMA {
            self.tables = wanted.clone();
        }
    }

    /// Nothing is applied yet: the same host, without what the tables give it.
    pub(crate) fn without_tables(mut self) -> Self {
        let tables = &mut self.tables;
        tables.ports.clear();
        tables.switches.clear();
        tables.fdb.clear();
        tables.neighbours.clear();
        tables.floating_addresses.clear();
        tables.floating_macs.clear();
        tables.remotes.clear();
        tables.origins.clear();
        tables.routers.clear();
        tables.firewall.rules.clear();
        self.rule_numbers.clear();
        self.answers.clear();
        self.knows_tables = false;
        self
    }

    /// What the maps call the rules, by encoded contents.
    pub(crate) fn numbers_of_rules(tables: &Tables, contents: &Contents) -> Vec<u32> {
        let generation = rules_generation(contents);
        let places = 0..tables.firewall.rules.len();
        places.map(|place| rule_number(generation, place)).collect()
    }

    /// The rules with their numbers in the maps.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (u32, &RuleTable)> {
        let numbers = self.rule_numbers.iter().copied();
        numbers.zip(&self.tables.firewall.rules)
    }

    /// The port with this key on the switch with this number.
    pub(crate) fn port(&self, switch: u32, key: u32) -> Option<&PortTable> {
        let mut ports = self.tables.ports.iter();
        ports.find(|port| port.switch.number() == switch && u32::from(port.key.get()) == key)
    }

    /// The switch with this number.
    pub(crate) fn switch(&self, number: u32) -> Option<&SwitchTable> {
        let mut switches = self.tables.switches.iter();
        switches.find(|switch| switch.id.number() == number)
    }

    /// The router with this number.
    pub(crate) fn router(&self, number: u32) -> Option<&RouterTable> {
        let mut routers = self.tables.routers.iter();
        routers.find(|router| router.id.get() == number)
    }

    /// The name of the namespace the host was applied in; none for that of this thread.
    pub(crate) fn namespace_name(&self) -> Result<Option<String>, HostError> {
        if netns_id()? == self.netns_id {
            return Ok(None);
        }
        match &self.netns {
            Some(name) if self.netns_id.named(name).is_some() => Ok(Some(name.clone())),
            // It was entered, or has got another name since. One that is gone is called as it was.
            before => Ok(self.netns_id.name()?.or_else(|| before.clone())),
        }
    }

    /// The namespace the host was applied in, if it still exists and can be found.
    pub(crate) fn namespace(&self) -> Result<Option<Netns>, HostError> {
        self.netns_id.find(self.netns.as_deref())
    }

    /// The devices of the fabric, each once, with the program that takes its packets.
    pub(crate) fn hooks(&self) -> BTreeSet<(Program, String)> {
        let ports = self.tables.ports.iter();
        let ports = ports.map(|port| (Program::FromPort, port.attachment.device.to_string()));
        let legs = self.tables.routers.iter().filter_map(RouterTable::leg);
        let legs = legs.map(|leg| (Program::FromLeg, leg.to_string()));
        let uplink = (Program::FromUnderlay, self.tables.uplink.to_string());
        ports.chain(legs).chain([uplink]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_switch() {
        assert_eq!(switch_words(5001), "VNI 5001");
        assert_eq!(switch_words(SwitchId::VLAN_BIT | 100), "VLAN 100");
    }
}
