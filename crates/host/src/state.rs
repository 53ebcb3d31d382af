//! The state file of a host: what the kernel cannot tell us. Names of ports, switches and remotes; which
//! devices and neighbour entries are ours; which programs are current. Everything else is looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;

use overlane_ebpf::Program;
use overlane_ebpf::tables::{Contents, rule_number, rules_generation};
use overlane_model::{Name, SwitchId, Tables, Timeouts, VlanId};
use overlane_net::netns::{self, Netns};
use serde::{Deserialize, Serialize};

use crate::answers::Answer;
use crate::groups::Group;
use crate::guard::Refused;
use crate::{HostError, files, paths, place};

mod device;
mod firewall;
mod netns_id;
mod router;

pub(crate) use device::DeviceState;
pub use device::Lost;
pub(crate) use firewall::RuleState;
pub(crate) use netns_id::{NetnsId, netns_id};
pub(crate) use router::RouterState;

/// 2: switches on VLANs, trunks. 3: rules, routers. An older file is read as what it meant; one that is newer
/// is refused.
pub const SCHEMA: u32 = 3;

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
    /// Digest of the tables, to tell two applied fabrics apart.
    pub(crate) tables_digest: String,
    pub(crate) uplink: String,
    pub(crate) vtep: IpAddr,
    pub(crate) encapsulation: String,
    pub(crate) tunnel_port: u16,
    /// Link pin → id of its program.
    pub(crate) programs: BTreeMap<String, u32>,
    /// Why there is no GRO device, if the kernel refused it.
    pub(crate) gro_refused: Option<String>,
    /// Why a detour is not there, by its name, if the kernel refused it.
    #[serde(default)]
    pub(crate) detours_refused: BTreeMap<String, String>,
    /// Why there is no guard of a family, by its name, if the kernel refused it.
    #[serde(default)]
    pub(crate) guard_refused: Refused,
    /// Next hops that the kernel keeps resolved for us.
    pub(crate) neighbours: BTreeSet<NextHop>,
    /// Devices that we made promiscuous.
    #[serde(default)]
    pub(crate) promiscuous: BTreeSet<String>,
    /// Multicast groups that we joined.
    #[serde(default)]
    pub(crate) groups: BTreeSet<Group>,
    /// What is answered for here, in the physical network.
    #[serde(default)]
    pub(crate) answers: BTreeSet<Answer>,
    /// Devices of ports and of legs that were not there.
    #[serde(default)]
    pub(crate) missing: BTreeSet<String>,
    /// Devices of ports, the uplink and legs, by name.
    #[serde(default)]
    pub(crate) devices: BTreeMap<String, DeviceState>,
    pub(crate) ports: Vec<PortState>,
    pub(crate) switches: Vec<SwitchState>,
    pub(crate) remotes: Vec<RemoteState>,
    /// In the order in which they are tried.
    #[serde(default)]
    pub(crate) rules: Vec<RuleState>,
    #[serde(default)]
    pub(crate) routers: Vec<RouterState>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct NextHop {
    pub(crate) device: String,
    pub(crate) address: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortState {
    pub(crate) name: String,
    pub(crate) device: String,
    /// On a trunk, its tag.
    #[serde(default)]
    pub(crate) vlan: Option<u16>,
    /// `SwitchId::number`.
    #[serde(alias = "vni")]
    pub(crate) switch_id: u32,
    pub(crate) key: u16,
    pub(crate) mac: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SwitchState {
    pub(crate) name: String,
    /// `SwitchId::number`.
    #[serde(alias = "vni")]
    pub(crate) id: u32,
    pub(crate) flood_unknown: bool,
    #[serde(default)]
    pub(crate) vlan_transparent: bool,
    /// None: written by a version that told nobody on switches.
    #[serde(default)]
    pub(crate) path_mtu_discovery: Option<bool>,
    #[serde(default)]
    pub(crate) mss_clamp: bool,
    #[serde(default)]
    pub(crate) learn_age_s: Option<u32>,
    /// None: written by a version that had none.
    #[serde(default)]
    pub(crate) timeouts: Option<Timeouts>,
}

impl PortState {
    /// Where it is attached: `v0`, or `v0 tag 10`.
    pub(crate) fn place(&self) -> String {
        match self.vlan {
            Some(vlan) => format!("{} tag {vlan}", self.device),
            None => self.device.clone(),
        }
    }
}

/// `VNI 5001` or `VLAN 100`, of a number that came from [`SwitchId::number`].
pub(crate) fn switch_words(id: u32) -> String {
    SwitchId::from_number(id).map_or_else(|| format!("number {id}"), |id| id.to_string())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteState {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

/// A host that is applied on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedHost {
    /// Its name in the fabric.
    pub host: String,
    /// Its network namespace; none for the one `apply` ran in.
    pub netns: Option<String>,
    /// Its last `apply` was killed, or is at work right now.
    pub in_progress: bool,
}

/// The hosts applied on this machine, by name. State files that make no sense are left out.
pub fn applied_hosts() -> Result<Vec<AppliedHost>, HostError> {
    Ok(all()?
        .into_iter()
        .map(|state| AppliedHost {
            host: state.host,
            netns: state.netns,
            in_progress: state.in_progress,
        })
        .collect())
}

/// The applied host, when there is exactly one: what a command means that names none.
pub fn only_applied_host() -> Result<AppliedHost, HostError> {
    let mut hosts = applied_hosts()?;
    match hosts.len() {
        0 => Err(HostError::NoneApplied),
        1 => Ok(hosts.remove(0)),
        _ => Err(HostError::SeveralApplied(
            hosts.into_iter().map(|host| host.host).collect(),
        )),
    }
}

/// The host of which there is something on this machine, when there is exactly one: what `remove` means that names
/// none. A state file that makes no sense counts.
pub fn only_known_host() -> Result<String, HostError> {
    let mut hosts = place::known_hosts()?;
    match hosts.len() {
        0 => Err(HostError::NoneApplied),
        1 => hosts.pop_first().ok_or(HostError::NoneApplied),
        _ => Err(HostError::SeveralApplied(hosts.into_iter().collect())),
    }
}

/// All states that can be read, by host.
pub(crate) fn all() -> Result<Vec<State>, HostError> {
    let folder = Path::new(paths::RUN);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HostError::file("read", folder))?,
    };
    let mut states = Vec::new();
    for entry in entries {
        let path = entry.map_err(HostError::file("read", folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            states.extend(read_file(&path).ok().flatten());
        }
    }
    states.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(states)
}

impl State {
    /// The state of a host, if it is applied.
    pub(crate) fn read(host: &str) -> Result<Option<Self>, HostError> {
        read_file(&paths::state(host))
    }

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
            tables_digest: digest(tables),
            uplink: tables.uplink.to_string(),
            vtep: tables.vtep,
            encapsulation: tables.tunnel.encapsulation.name().to_owned(),
            tunnel_port: tables.tunnel.port,
            programs: BTreeMap::new(),
            gro_refused: None,
            detours_refused: BTreeMap::new(),
            guard_refused: Refused::new(),
            neighbours: BTreeSet::new(),
            promiscuous: BTreeSet::new(),
            groups: BTreeSet::new(),
            answers: BTreeSet::new(),
            missing: BTreeSet::new(),
            devices: BTreeMap::new(),
            ports: tables.ports.iter().map(port_state).collect(),
            switches: tables.switches.iter().map(switch_state).collect(),
            remotes: tables.remotes.iter().map(remote_state).collect(),
            rules: Vec::new(),
            routers: tables.routers.iter().map(RouterState::of).collect(),
        }
    }

    /// The rules, with the numbers that encoded contents give them.
    pub(crate) fn rules_of(tables: &Tables, contents: &Contents) -> Vec<RuleState> {
        let generation = rules_generation(contents);
        let rules = tables.firewall.rules.iter().enumerate();
        let state = |(place, rule)| RuleState::of(rule, rule_number(generation, place));
        rules.map(state).collect()
    }

    /// The namespace the host was applied in, if it still exists and can be found.
    pub(crate) fn namespace(&self) -> Result<Option<Netns>, HostError> {
        self.netns_id.find(self.netns.as_deref())
    }

    /// The devices of the fabric, each once, with the program that takes its packets.
    pub(crate) fn hooks(&self) -> BTreeSet<(Program, String)> {
        let ports = self
            .ports
            .iter()
            .map(|port| (Program::FromPort, port.device.clone()));
        let legs = self.routers.iter().filter_map(|router| router.leg.clone());
        let legs = legs.map(|leg| (Program::FromLeg, leg));
        let uplink = (Program::FromUnderlay, self.uplink.clone());
        ports.chain(legs).chain([uplink]).collect()
    }

    /// Writes the file in one step: a reader sees the old or the new one.
    pub(crate) fn write(&self) -> Result<(), HostError> {
        let path = paths::state(&self.host);
        let text = serde_json::to_vec_pretty(self).map_err(|source| HostError::State {
            path: path.clone(),
            source,
        })?;
        files::write(&path, &text)
    }
}

fn read_file(path: &Path) -> Result<Option<State>, HostError> {
    let Some(text) = files::read(path)? else {
        return Ok(None);
    };
    decode(&text).map(Some).map_err(|source| HostError::State {
        path: path.to_owned(),
        source,
    })
}

fn decode(text: &[u8]) -> Result<State, serde_json::Error> {
    let state: State = serde_json::from_slice(text)?;
    if state.schema > SCHEMA {
        let schema = state.schema;
        let what = format!(
            "a newer version of this program wrote it (schema {schema}, this one knows {SCHEMA})"
        );
        return Err(serde::de::Error::custom(what));
    }
    // These become parts of paths.
    let is_signature = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_namespace = |name: &String| netns::is_name(name);
    if Name::new(&state.host).is_err() || !state.netns.iter().all(is_namespace) {
        let (host, netns) = (&state.host, &state.netns);
        let what = format!("host {host:?} in namespace {netns:?} has a name that cannot be");
        return Err(serde::de::Error::custom(what));
    }
    if !is_signature(&state.map_signature) {
        let what = format!("no map set is called {:?}", state.map_signature);
        return Err(serde::de::Error::custom(what));
    }
    Ok(state)
}

fn digest(tables: &impl Hash) -> String {
    // Only compared with digests this very machine wrote.
    let mut hasher = std::hash::DefaultHasher::new();
    tables.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn port_state(port: &overlane_model::PortTable) -> PortState {
    PortState {
        name: port.name.to_string(),
        device: port.attachment.device.to_string(),
        vlan: port.attachment.vlan.map(VlanId::get),
        switch_id: port.switch.number(),
        key: port.key.get(),
        mac: port.mac.to_string(),
    }
}

fn switch_state(switch: &overlane_model::SwitchTable) -> SwitchState {
    SwitchState {
        name: switch.name.to_string(),
        id: switch.id.number(),
        flood_unknown: switch.flood_unknown,
        vlan_transparent: switch.vlan_transparent,
        path_mtu_discovery: Some(switch.path_mtu_discovery),
        mss_clamp: switch.mss_clamp,
        learn_age_s: switch.learn_age_s,
        timeouts: Some(switch.timeouts),
    }
}

fn remote_state(remote: &overlane_model::Remote) -> RemoteState {
    RemoteState {
        name: remote.name.to_string(),
        address: remote.addr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 1 wrote.
    const FIRST: &str = r#"{
        "schema": 1, "host": "h1", "netns": null, "netns_id": [4, 4026531840], "in_progress": false,
        "object_digest": "00", "map_signature": "11", "tables_digest": "22", "uplink": "eth1",
        "vtep": "198.18.0.1", "encapsulation": "vxlan", "tunnel_port": 4789,
        "programs": { "from_port-web1": 7 }, "gro_refused": null,
        "neighbours": [{ "device": "eth1", "address": "198.18.0.2" }],
        "ports": [{ "name": "web1", "device": "web1", "vni": 5001, "key": 7, "mac": "02:00:00:00:00:01" }],
        "switches": [{ "name": "blue", "vni": 5001, "flood_unknown": true }],
        "remotes": [{ "name": "h2", "address": "198.18.0.2" }]
    }"#;

    #[test]
    fn the_file_of_the_first_version_is_read_as_what_it_meant() {
        let state = decode(FIRST.as_bytes()).unwrap();
        let port = PortState {
            name: "web1".into(),
            device: "web1".into(),
            vlan: None,
            switch_id: 5001,
            key: 7,
            mac: "02:00:00:00:00:01".into(),
        };
        assert_eq!(state.ports, [port]);
        let switch = SwitchState {
            name: "blue".into(),
            id: 5001,
            flood_unknown: true,
            vlan_transparent: false,
            path_mtu_discovery: None,
            mss_clamp: false,
            learn_age_s: None,
            timeouts: None,
        };
        assert_eq!(state.switches, [switch]);
        assert!(state.promiscuous.is_empty());
        let again = serde_json::to_vec(&state).unwrap();
        assert_eq!(decode(&again).unwrap(), state);
    }

    #[test]
    fn the_file_of_a_newer_version_is_refused() {
        let newer = FIRST.replace("\"schema\": 1", "\"schema\": 4");
        let error = decode(newer.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("a newer version of this program wrote it"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_would_lead_elsewhere_is_refused() {
        for (right, wrong) in [
            ("\"h1\"", "\"../../h1\""),
            ("\"netns\": null", "\"netns\": \"../x\""),
            ("\"11\"", "\"/../../other\""),
        ] {
            let text = FIRST.replace(right, wrong);
            assert_ne!(text, FIRST);
            decode(text.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn where_a_port_is_attached() {
        let mut port = decode(FIRST.as_bytes()).unwrap().ports.remove(0);
        assert_eq!(port.place(), "web1");
        port.vlan = Some(10);
        assert_eq!(port.place(), "web1 tag 10");
        assert_eq!(switch_words(5001), "VNI 5001");
        assert_eq!(switch_words(SwitchId::VLAN_BIT | 100), "VLAN 100");
    }
}
