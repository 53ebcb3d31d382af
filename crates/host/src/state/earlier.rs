//! State files of schema 1 to 3. They have names in place of the tables; what is ours on the machine is read, and `show`
//! knows no names until the next `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_model::{DeviceName, Encapsulation, FirewallTable, Name, Tables, Tunnel};
use serde::Deserialize;

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
    neighbours: Vec<NextHop>,
    #[serde(default)]
    promiscuous: Vec<String>,
    #[serde(default)]
    groups: Vec<Group>,
    #[serde(default)]
    answers: BTreeSet<Answer>,
    #[serde(default)]
    missing: BTreeSet<String>,
    #[serde(default)]
    devices: BTreeMap<String, DeviceState>,
}

#[derive(Deserialize)]
struct NextHop {
    device: String,
    address: IpAddr,
}

#[derive(Deserialize)]
struct Group {
    device: String,
    of: IpAddr,
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
    let tables = Tables {
        host: file.host,
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
        ports: Vec::new(),
        switches: Vec::new(),
        fdb: Vec::new(),
        neighbours: Vec::new(),
        floating_addresses: Vec::new(),
        floating_macs: Vec::new(),
        remotes: Vec::new(),
        origins: Vec::new(),
        routers: Vec::new(),
        firewall: FirewallTable::default(),
    };
    Ok(State {
        schema: file.schema,
        netns: file.netns,
        netns_id: file.netns_id,
        in_progress: file.in_progress,
        object_digest: file.object_digest,
        map_signature: file.map_signature,
        programs: file.programs,
        ours,
        answers: file.answers,
        missing: file.missing,
        devices: file.devices,
        knows_tables: false,
        ..State::of(&tables)
    })
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
    fn what_is_ours_is_read_of_each_earlier_schema() {
        let third = FIRST.replace("\"schema\": 1", "\"schema\": 3").replace(
            "\"gro_refused\": null,",
            r#""promiscuous": ["eth1"], "groups": [{ "device": "leg0", "of": "2001:2::1" }],"#,
        );
        for (text, ours) in [
            (FIRST, &["managed eth1 198.18.0.2"][..]),
            (
                &third,
                &[
                    "group leg0 2001:2::1",
                    "managed eth1 198.18.0.2",
                    "promiscuous eth1",
                ],
            ),
        ] {
            let state = decode(text.as_bytes()).unwrap();
            assert!(state.ours.iter().eq(ours), "{:?}", state.ours);
            assert_eq!(state.programs["from_port-web1"], 7);
            assert_eq!(state.tables.uplink.as_str(), "eth1");
        }
    }
}
