//! Where MACs live, whose addresses are, and what ports may use beside their own, as map entries.

use std::collections::BTreeSet;

use ipnet::IpNet;
use overlane_model::{Place, RouterId, Tables};

use super::{Contents, Devices, Table, flags, put};
use crate::abi;

/// The FDB and the neighbours.
pub(super) fn addresses(tables: &Tables, devices: &Devices, contents: &mut Contents) {
    for entry in &tables.fdb {
        let (port, remote) = match &entry.place {
            Place::Local(at) => (devices.id(at), abi::Addr::default()),
            Place::Remote(addr) => (abi::PortId::default(), (*addr).into()),
            Place::Vlan | Place::Router(_) => (abi::PortId::default(), abi::Addr::default()),
        };
        let router = match entry.place {
            Place::Router(router) => router.get(),
            _ => 0,
        };
        let key = abi::FdbKey {
            switch_id: entry.switch.number(),
            mac: entry.mac.into(),
            pad: 0,
        };
        put(
            contents,
            Table::Fdb,
            &key,
            &abi::FdbEntry {
                port,
                key: entry.key.get().into(),
                remote,
                router,
                flags: flags([(entry.roams, abi::FDB_ROAMS)]),
            },
        );
    }
    for floating in &tables.floating_macs {
        let key = abi::FdbKey {
            switch_id: floating.switch.number(),
            mac: floating.mac.into(),
            pad: 0,
        };
        let value = abi::FdbEntry {
            port: abi::PortId::default(),
            key: 0,
            remote: abi::Addr::default(),
            router: 0,
            flags: abi::FDB_FLOATS,
        };
        put(contents, Table::Fdb, &key, &value);
    }
    neighbours(tables, contents);
}

fn neighbours(tables: &Tables, contents: &mut Contents) {
    for floating in &tables.floating_addresses {
        let key = abi::NeighbourKey {
            switch_id: floating.switch.number(),
            addr: floating.addr.into(),
        };
        let value = abi::Neighbour {
            mac: abi::MacBytes::default(),
            key: 0,
            flags: abi::NEIGHBOUR_FLOATING,
        };
        put(contents, Table::Neighbours, &key, &value);
    }
    let here = gateways_here(tables);
    for neighbour in &tables.neighbours {
        let router = neighbour.router;
        let key = abi::NeighbourKey {
            switch_id: neighbour.switch.number(),
            addr: neighbour.addr.into(),
        };
        let value = abi::Neighbour {
            mac: neighbour.mac.into(),
            key: neighbour.key.get(),
            flags: flags([
                (
                    neighbour.is_router || router.is_some(),
                    abi::NEIGHBOUR_ROUTER,
                ),
                (router.is_some(), abi::NEIGHBOUR_INTERFACE),
                (
                    router.is_some_and(|router| here.contains(&router)),
                    abi::NEIGHBOUR_GATEWAY,
                ),
            ]),
        };
        put(contents, Table::Neighbours, &key, &value);
    }
}

/// What ports of this host may use beside their own.
pub(super) fn allowed(tables: &Tables, contents: &mut Contents) {
    for port in &tables.ports {
        for &network in &port.allowed_addresses {
            let (family, offset): (u32, u32) = match network {
                IpNet::V4(_) => (4, 96),
                IpNet::V6(_) => (6, 0),
            };
            let length = u32::from(network.prefix_len());
            let key = abi::AllowedAddressKey {
                prefixlen: 96 + offset + length,
                switch_id: port.switch.number().to_be(),
                key: u32::from(port.key.get()).to_be(),
                family: family.to_be(),
                addr: network.addr().into(),
            };
            let is_single = offset + length == 128;
            put(
                contents,
                Table::AllowedAddresses,
                &key,
                &u32::from(is_single),
            );
        }
        for &mac in &port.allowed_macs {
            let key = abi::AllowedMacKey {
                switch_id: port.switch.number(),
                mac: mac.into(),
                key: port.key.get(),
            };
            put(contents, Table::AllowedMacs, &key, &1u32);
        }
    }
}

/// The routers for which this host acts.
fn gateways_here(tables: &Tables) -> BTreeSet<RouterId> {
    let here = tables
        .routers
        .iter()
        .filter(|router| router.is_gateway_here());
    here.map(|router| router.id).collect()
}
