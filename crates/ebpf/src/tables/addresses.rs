//! Where MACs live and whose addresses are, as map entries.

use std::collections::BTreeSet;

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

/// The routers whose gateway this host is.
fn gateways_here(tables: &Tables) -> BTreeSet<RouterId> {
    let here = tables
        .routers
        .iter()
        .filter(|router| router.is_gateway_here());
    here.map(|router| router.id).collect()
}
