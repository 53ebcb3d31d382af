//! State files of schema 1 to 3: names, in place of the tables. They are read once, by the next `apply` or by a look.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_model::{
    Action, Attachment, DeviceName, Direction, Encapsulation, FirewallTable, Gateway, GatewayPlace,
    Name, PortLimits, PortSecurity, PortTable, Remote, RouterId, RouterTable, RuleTable, SwitchId,
    SwitchTable, Tables, Timeouts, Tunnel, VlanId,
};
use overlane_wire::{Mac, PortKey};
use serde::Deserialize;
use serde::de::Error as _;

use super::answers::Answer;
use super::applied::State;
use super::device::DeviceState;
use super::netns_id::NetnsId;

#[derive(Deserialize)]
struct Earlier {
    schema: u32,
    host: Name,
    netns: Option<String>,
    #[serde(flatten)]
    netns_id: NetnsId,
    in_progress: bool,
    object_digest: String,
    map_signature: String,
    uplink: DeviceName,
    vtep: IpAddr,
    encapsulation: Encapsulation,
    tunnel_port: u16,
    programs: BTreeMap<String, u32>,
    neighbours: BTreeSet<NextHop>,
    #[serde(default)]
    promiscuous: BTreeSet<String>,
    #[serde(default)]
    groups: BTreeSet<Group>,
    #[serde(default)]
    answers: BTreeSet<Answer>,
    #[serde(default)]
    missing: BTreeSet<String>,
    #[serde(default)]
    devices: BTreeMap<String, DeviceState>,
    ports: Vec<Port>,
    switches: Vec<Switch>,
    remotes: Vec<NamedAddress>,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    routers: Vec<Router>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct NextHop {
    device: String,
    address: IpAddr,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    device: String,
    of: IpAddr,
}

#[derive(Deserialize)]
struct Port {
    name: Name,
    device: DeviceName,
    #[serde(default)]
    vlan: Option<VlanId>,
    #[serde(alias = "vni")]
    switch_id: u32,
    key: PortKey,
    mac: Mac,
}

#[derive(Deserialize)]
struct Switch {
    name: Name,
    #[serde(alias = "vni")]
    id: u32,
    flood_unknown: bool,
    #[serde(default)]
    vlan_transparent: bool,
    #[serde(default)]
    path_mtu_discovery: Option<bool>,
    #[serde(default)]
    mss_clamp: bool,
    #[serde(default)]
    learn_age_s: Option<u32>,
    #[serde(default)]
    timeouts: Option<Timeouts>,
}

#[derive(Deserialize)]
struct NamedAddress {
    name: Name,
    address: IpAddr,
}

#[derive(Deserialize)]
struct Rule {
    name: Name,
    line: u32,
    priority: u16,
    direction: Direction,
    action: Action,
    log: bool,
    number: u32,
}

#[derive(Deserialize)]
struct Router {
    name: Name,
    id: RouterId,
    mac: Mac,
    gateway: Option<Name>,
    leg: Option<DeviceName>,
}

/// Reads such a file.
pub(super) fn decode(text: &[u8]) -> Result<State, serde_json::Error> {
    let file: Earlier = serde_json::from_slice(text)?;
    let neighbours = file.neighbours.iter();
    let neighbours = neighbours.map(|it| format!("managed {} {}", it.device, it.address));
    let promiscuous = file.promiscuous.iter();
    let promiscuous = promiscuous.map(|device| format!("promiscuous {device}"));
    let groups = file.groups.iter();
    let groups = groups.map(|it| format!("group {} {}", it.device, it.of));
    let ours = neighbours.chain(promiscuous).chain(groups).collect();
    let rule_numbers = file.rules.iter().map(|rule| rule.number).collect();
    let tables = Tables {
        host: file.host.clone(),
        vtep: file.vtep,
        uplink: file.uplink,
        connections: 0,
        tunnel: Tunnel {
            encapsulation: file.encapsulation,
            port: file.tunnel_port,
            source_ports: Tunnel::SOURCE_PORTS,
            strict: false,
            hash_seed: Tunnel::HASH_SEED,
            dscp: Default::default(),
        },
        ports: all(file.ports, port)?,
        switches: all(file.switches, switch)?,
        fdb: Vec::new(),
        neighbours: Vec::new(),
        floating_addresses: Vec::new(),
        floating_macs: Vec::new(),
        remotes: file.remotes.into_iter().map(remote).collect(),
        origins: Vec::new(),
        routers: file.routers.into_iter().map(router).collect(),
        firewall: FirewallTable {
            rules: file.rules.into_iter().map(rule).collect(),
            version: FirewallTable::NO_VERSION,
        },
    };
    Ok(State {
        schema: file.schema,
        host: file.host.to_string(),
        netns: file.netns,
        netns_id: file.netns_id,
        in_progress: file.in_progress,
        object_digest: file.object_digest,
        map_signature: file.map_signature,
        programs: file.programs,
        ours,
        // It is tried again.
        refused: BTreeMap::new(),
        answers: file.answers,
        missing: file.missing,
        devices: file.devices,
        rule_numbers,
        tables,
    })
}

fn all<T, R>(
    items: Vec<T>,
    one: impl Fn(T) -> Result<R, serde_json::Error>,
) -> Result<Vec<R>, serde_json::Error> {
    items.into_iter().map(one).collect()
}

fn switch_id(number: u32) -> Result<SwitchId, serde_json::Error> {
    let id = SwitchId::from_number(number);
    id.ok_or_else(|| serde_json::Error::custom(format!("{number} is no switch")))
}

fn port(port: Port) -> Result<PortTable, serde_json::Error> {
    Ok(PortTable {
        name: port.name,
        attachment: Attachment {
            device: port.device,
            vlan: port.vlan,
        },
        switch: switch_id(port.switch_id)?,
        key: port.key,
        mac: port.mac,
        allowed_addresses: Vec::new(),
        allowed_macs: Vec::new(),
        security: PortSecurity::default(),
        learning: None,
        limits: PortLimits::default(),
        firewall: None,
    })
}

fn switch(switch: Switch) -> Result<SwitchTable, serde_json::Error> {
    Ok(SwitchTable {
        name: switch.name,
        id: switch_id(switch.id)?,
        flood_unknown: switch.flood_unknown,
        vlan_transparent: switch.vlan_transparent,
        asks: false,
        path_mtu_discovery: switch.path_mtu_discovery.unwrap_or_default(),
        mss_clamp: switch.mss_clamp,
        learn_age_s: switch.learn_age_s,
        non_ip: Vec::new(),
        timeouts: switch.timeouts.unwrap_or_default(),
        flood: Vec::new(),
    })
}

fn remote(remote: NamedAddress) -> Remote {
    Remote {
        name: remote.name,
        addr: remote.address,
        header: Vec::new(),
        names_ports: false,
    }
}

fn rule(rule: Rule) -> RuleTable {
    RuleTable {
        name: rule.name,
        line: rule.line,
        priority: rule.priority,
        direction: rule.direction,
        ports: Vec::new(),
        peers: None,
        services: None,
        action: rule.action,
        log: rule.log,
    }
}

fn router(router: Router) -> RouterTable {
    let leg = router.leg;
    let gateway = router.gateway.map(|host| Gateway {
        host,
        place: GatewayPlace::Here { leg },
        addresses: Vec::new(),
        nat: Vec::new(),
        drop_untranslated: false,
        connections: Gateway::CONNECTIONS,
        timeouts: Timeouts::default(),
    });
    RouterTable {
        name: router.name,
        id: router.id,
        mac: router.mac,
        interfaces: Vec::new(),
        routes: Vec::new(),
        reverse_path: false,
        mss_clamp: false,
        gateway,
    }
}

/// What schema 1 wrote.
#[cfg(test)]
pub(super) const FIRST: &str = r#"{
    "schema": 1, "host": "h1", "netns": null, "netns_id": [4, 4026531840], "in_progress": false,
    "object_digest": "00", "map_signature": "11", "tables_digest": "22", "uplink": "eth1",
    "vtep": "198.18.0.1", "encapsulation": "vxlan", "tunnel_port": 4789,
    "programs": { "from_port-web1": 7 }, "gro_refused": null,
    "neighbours": [{ "device": "eth1", "address": "198.18.0.2" }],
    "ports": [{ "name": "web1", "device": "web1", "vni": 5001, "key": 7, "mac": "02:00:00:00:00:01" }],
    "switches": [{ "name": "blue", "vni": 5001, "flood_unknown": true }],
    "remotes": [{ "name": "h2", "address": "198.18.0.2" }]
}"#;

#[cfg(test)]
mod tests {
    use super::super::file::decode;
    use super::FIRST;

    #[test]
    fn the_file_of_the_first_schema_is_read_as_what_it_meant() {
        let state = decode(FIRST.as_bytes()).unwrap();
        let port = &state.tables.ports[0];
        assert_eq!(
            (port.name.as_str(), port.attachment.to_string()),
            ("web1", "web1".to_owned())
        );
        assert_eq!((port.switch.number(), port.key.get()), (5001, 7));
        assert!(state.switch(5001).unwrap().flood_unknown);
        assert_eq!(state.tables.remotes[0].name.as_str(), "h2");
        assert_eq!(state.ours, ["managed eth1 198.18.0.2".to_owned()].into());
    }

    #[test]
    fn rules_routers_and_what_was_switched_on_are_read_too() {
        let third = FIRST.replace("\"schema\": 1", "\"schema\": 3").replace(
            "\"gro_refused\": null,",
            r#""promiscuous": ["eth1"], "groups": [{ "device": "leg0", "of": "2001:2::1" }],
               "rules": [{ "name": "web", "line": 7, "priority": 9, "direction": "to_port", "action": "allow_stateless",
                           "log": true, "number": 3, "digest": "0" }],
               "routers": [{ "name": "core", "id": 5, "mac": "02:00:00:00:00:fe", "gateway": "h1", "leg": "leg0", "digest": "" }],"#,
        );
        let state = decode(third.as_bytes()).unwrap();
        let rules: Vec<_> = state
            .rules()
            .map(|(number, rule)| (number, rule.line))
            .collect();
        assert_eq!(rules, [(3, 7)]);
        let leg = state.router(5).unwrap().leg().unwrap();
        assert_eq!(leg.as_str(), "leg0");
        for thing in ["promiscuous eth1", "group leg0 2001:2::1"] {
            assert!(state.ours.contains(thing), "{thing}");
        }
    }
}
