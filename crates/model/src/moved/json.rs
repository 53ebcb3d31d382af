//! The members of the file, as they stand in it.

use std::borrow::Cow;
use std::net::IpAddr;

use overlane_wire::{Mac, Vni};
use serde::{Deserialize, Serialize};

use super::{
    MovedConnection, MovedConnections, MovedEnds, MovedError, MovedMarks, MovedState, Name,
    SwitchId,
};
use crate::tables::VlanId;

/// What a file says of itself; all else is another matter.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    format: Cow<'a, str>,
    port: Cow<'a, str>,
    vni: Option<u32>,
    uplink_vlan: Option<u16>,
    mac: Cow<'a, str>,
    connections: Vec<Connection>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Connection {
    protocol: u8,
    local: End,
    peer: End,
    icmp_type: Option<u8>,
    begun_by_peer: bool,
    adopted: bool,
    answered: bool,
    state: MovedState,
    age_ms: u64,
    idle_ms: u64,
    tcp: Option<MovedEnds>,
}

/// As `show connections` writes it: of ICMP the identifier is the local port.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    address: IpAddr,
    port: Option<u16>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<MovedConnections, MovedError> {
    let format = serde_json::from_slice::<Head>(bytes)?.format;
    match format {
        Some(found) if found == MovedConnections::FORMAT => {}
        Some(found) if found.starts_with(MovedConnections::FAMILY) => {
            return Err(MovedError::OtherFormat { found });
        }
        _ => return Err(MovedError::Foreign),
    }
    let document: Document<'_> = serde_json::from_slice(bytes)?;
    let head = |member, why: String| MovedError::Head { member, why };
    let port = Name::new(&document.port).map_err(|error| head("port", error.to_string()))?;
    let mac: Mac = (document.mac.parse()).map_err(|error| head("mac", format!("{error}")))?;
    let connections = (1..).zip(document.connections);
    let connections = connections.map(|(number, connection)| {
        let fail = |why: &str| MovedError::Connection {
            number,
            why: why.to_owned(),
        };
        connection.meaning().map_err(fail)
    });
    let moved = MovedConnections {
        port,
        switch: switch(document.vni, document.uplink_vlan)?,
        mac,
        connections: connections.collect::<Result<_, _>>()?,
    };
    moved.check()?;
    Ok(moved)
}

fn switch(vni: Option<u32>, vlan: Option<u16>) -> Result<SwitchId, MovedError> {
    let head = |member, why| MovedError::Head { member, why };
    match (vni, vlan) {
        (Some(vni), None) => Vni::new(vni)
            .map(SwitchId::Vni)
            .map_err(|error| head("vni", error.to_string())),
        (None, Some(vlan)) => VlanId::new(vlan.into())
            .map(SwitchId::Vlan)
            .map_err(|error| head("uplink_vlan", error.to_string())),
        _ => Err(head("vni", "one of `vni` and `uplink_vlan` is null".into())),
    }
}

pub(super) fn write(moved: &MovedConnections) -> Result<Vec<u8>, MovedError> {
    let document = Document {
        format: MovedConnections::FORMAT.into(),
        port: moved.port.as_str().into(),
        vni: moved.switch.vni().map(Vni::get),
        uplink_vlan: moved.switch.vlan().map(VlanId::get),
        mac: moved.mac.to_string().into(),
        connections: moved.connections.iter().map(Connection::of).collect(),
    };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

impl Connection {
    fn meaning(self) -> Result<MovedConnection, &'static str> {
        let marks = match (self.icmp_type, self.local.port, self.peer.port) {
            (None, None, None) => MovedMarks::None,
            (None, Some(local), Some(peer)) => MovedMarks::Ports(local, peer),
            (Some(kind), Some(identifier), None) => MovedMarks::Query(kind, identifier),
            (Some(_), ..) => return Err("ICMP has an identifier as local port, and no other"),
            (None, ..) => return Err("one end has a port and the other none"),
        };
        Ok(MovedConnection {
            protocol: self.protocol,
            local: self.local.address,
            peer: self.peer.address,
            marks,
            begun_by_peer: self.begun_by_peer,
            adopted: self.adopted,
            answered: self.answered,
            state: self.state,
            age_ms: self.age_ms,
            idle_ms: self.idle_ms,
            tcp: self.tcp,
        })
    }

    fn of(moved: &MovedConnection) -> Self {
        let (icmp_type, local, peer) = match moved.marks {
            MovedMarks::None => (None, None, None),
            MovedMarks::Ports(local, peer) => (None, Some(local), Some(peer)),
            MovedMarks::Query(kind, identifier) => (Some(kind), Some(identifier), None),
        };
        Self {
            protocol: moved.protocol,
            local: End {
                address: moved.local,
                port: local,
            },
            peer: End {
                address: moved.peer,
                port: peer,
            },
            icmp_type,
            begun_by_peer: moved.begun_by_peer,
            adopted: moved.adopted,
            answered: moved.answered,
            state: moved.state,
            age_ms: moved.age_ms,
            idle_ms: moved.idle_ms,
            tcp: moved.tcp,
        }
    }
}
