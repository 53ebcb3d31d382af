//! The neighbours that routers found: the maps `found`, `found_counts` and `asked`. They change while they are read,
//! for the programs write them; here they are only made to forget what the tables no longer bear ([`prune`]).

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlane_model::RouterId;
use overlane_wire::Mac;
use zerocopy::IntoBytes as _;

use crate::EbpfError;
use crate::abi::{self, firewall::ZONE_ROUTER, router::Router};
use crate::counted;
use crate::maps::MapSet;
use crate::tables::{Contents, Table, read};

pub(crate) const FOUND: &str = "found";
const FOUND_COUNTS: &str = "found_counts";
pub(crate) const ASKED: &str = "asked";

/// By side and address, in no order.
pub type Entries<V> = Vec<(abi::NeighbourKey, V)>;

/// All neighbours that were found. One that comes or goes meanwhile may be missed.
pub fn found(maps: &MapSet) -> Result<Entries<abi::FoundNeighbour>, EbpfError> {
    maps.all(FOUND)
}

/// How many count for whom, by side and port key.
pub fn counts(maps: &MapSet) -> Result<Vec<(abi::PortKey, abi::Learning)>, EbpfError> {
    maps.all(FOUND_COUNTS)
}

/// The addresses that were asked for and did not answer.
pub fn asked(maps: &MapSet) -> Result<Entries<abi::Asked>, EbpfError> {
    maps.all(ASKED)
}

/// A machine behind a router's leg that never grows stale, for measurements.
pub fn insert_behind_leg(
    maps: &MapSet,
    router: RouterId,
    addr: IpAddr,
    mac: Mac,
) -> Result<(), EbpfError> {
    let key = abi::NeighbourKey {
        switch_id: ZONE_ROUTER | router.get(),
        addr: addr.into(),
    };
    let entry = abi::FoundNeighbour {
        mac: mac.into(),
        key: 0,
        confirmed: u64::MAX / 2,
        asked: 0,
        tries: 0,
        unasked: 0,
    };
    maps.change()?;
    let put = maps.map(FOUND)?.put(key.as_bytes(), entry.as_bytes());
    put.map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", FOUND))
}

/// Forgets all of it, for tests.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.change()?;
    maps.clear(FOUND)?;
    maps.clear(FOUND_COUNTS)?;
    maps.clear(ASKED)
}

/// Forgets neighbours on sides where no router asks any more, behind ports that are gone, or that are declared now;
/// and counts nobody is behind any more. Comes after the tables are written, so that nothing of it is found anew.
pub fn prune(maps: &MapSet) -> Result<(), EbpfError> {
    let entries = found(maps)?;
    if entries.is_empty() && counts(maps)?.is_empty() {
        return Ok(());
    }
    let borne = Borne::of(&tables_that_bear(maps)?);
    let (kept, stale): (Vec<_>, Vec<_>) = entries
        .iter()
        .map(|(key, entry)| (*key, owner(key, entry)))
        .partition(|(key, owner)| borne.bears(*owner) && !borne.declared.contains(key));
    if !stale.is_empty() {
        maps.change()?;
    }
    let is_clock = |id: abi::PortKey| (id.switch_id, id.key) == (0, 0);
    counted::forget(maps, [FOUND, FOUND_COUNTS], &kept, &stale, |id| {
        is_clock(id) || borne.bears(id)
    })
}

/// Counts all anew, where entries came from elsewhere.
pub(crate) fn recount(maps: &MapSet) -> Result<(), EbpfError> {
    let entries = found(maps)?;
    let owners = entries.iter().map(|(key, entry)| owner(key, entry));
    counted::count(maps, FOUND_COUNTS, owners)
}

/// Who counts an entry: a port, or key 0: the underlay of a switch, or a leg. Those that spoke first count apart.
fn owner(key: &abi::NeighbourKey, entry: &abi::FoundNeighbour) -> abi::PortKey {
    let apart = if entry.unasked == 0 {
        0
    } else {
        abi::FOUND_UNASKED
    };
    abi::PortKey {
        switch_id: key.switch_id,
        key: u32::from(entry.key) | apart,
    }
}

fn tables_that_bear(maps: &MapSet) -> Result<Contents, EbpfError> {
    let tables = [
        Table::Neighbours,
        Table::PortKeys,
        Table::Switches,
        Table::Routers,
    ];
    let entries = tables.map(|table| Ok((table, maps.entries(table)?)));
    entries.into_iter().collect()
}

/// Addresses of the tables that no router asks for: none that floats.
pub fn declared(maps: &MapSet) -> Result<usize, EbpfError> {
    let entries = maps.entries(Table::Neighbours)?;
    Ok(declared_in(&Contents::from([(Table::Neighbours, entries)])).count())
}

fn declared_in(contents: &Contents) -> impl Iterator<Item = abi::NeighbourKey> {
    read::<abi::NeighbourKey, abi::Neighbour>(contents, Table::Neighbours)
        .filter(|(_, neighbour)| neighbour.flags & abi::NEIGHBOUR_FLOATING == 0)
        .map(|(key, _)| key)
}

/// Where something can be found, as the tables say, and what cannot.
struct Borne {
    declared: BTreeSet<abi::NeighbourKey>,
    sides: BTreeSet<u32>,
    ports: BTreeSet<abi::PortKey>,
}

impl Borne {
    fn of(contents: &Contents) -> Self {
        let switches = read::<u32, abi::Switch>(contents, Table::Switches)
            .filter(|(_, switch)| switch.flags & abi::SWITCH_ASKS != 0)
            .map(|(id, _)| id);
        let legs = read::<u32, Router>(contents, Table::Routers)
            .filter(|(_, router)| router.leg_ifindex != 0)
            .map(|(id, _)| ZONE_ROUTER | id);
        Self {
            declared: declared_in(contents).collect(),
            sides: switches.chain(legs).collect(),
            ports: read::<abi::PortKey, abi::PortPlace>(contents, Table::PortKeys)
                .map(|(key, _)| key)
                .collect(),
        }
    }

    fn bears(&self, owner: abi::PortKey) -> bool {
        let key = owner.key & !abi::FOUND_UNASKED;
        let port = abi::PortKey { key, ..owner };
        self.sides.contains(&owner.switch_id) && (key == 0 || self.ports.contains(&port))
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromBytes as _, IntoBytes as _};

    use super::*;

    fn contents() -> Contents {
        let switch = |flags| {
            let bytes = [0; size_of::<abi::Switch>()];
            let switch = abi::Switch::read_from_bytes(&bytes).unwrap();
            abi::Switch { flags, ..switch }
        };
        let router = |leg_ifindex| {
            let bytes = [0; size_of::<Router>()];
            let router = Router::read_from_bytes(&bytes).unwrap();
            Router {
                leg_ifindex,
                ..router
            }
        };
        let place = abi::PortPlace::read_from_bytes(&[0; size_of::<abi::PortPlace>()]).unwrap();
        let port = abi::PortKey {
            switch_id: 5001,
            key: 7,
        };
        let bytes = |value: &[u8]| value.to_vec();
        Contents::from([
            (
                Table::Switches,
                [(5001u32, abi::SWITCH_ASKS), (5002, 0)]
                    .map(|(id, flags)| (bytes(id.as_bytes()), bytes(switch(flags).as_bytes())))
                    .into(),
            ),
            (
                Table::Routers,
                [(3u32, 9), (4, 0)]
                    .map(|(id, leg)| (bytes(id.as_bytes()), bytes(router(leg).as_bytes())))
                    .into(),
            ),
            (
                Table::Neighbours,
                [(1, 0), (2, abi::NEIGHBOUR_FLOATING)]
                    .map(|(last, flags)| {
                        let bytes = [0; size_of::<abi::Neighbour>()];
                        let neighbour = abi::Neighbour::read_from_bytes(&bytes).unwrap();
                        let neighbour = abi::Neighbour { flags, ..neighbour };
                        let key = neighbour_key(last);
                        (key.as_bytes().to_vec(), neighbour.as_bytes().to_vec())
                    })
                    .into(),
            ),
            (
                Table::PortKeys,
                [(bytes(port.as_bytes()), bytes(place.as_bytes()))].into(),
            ),
        ])
    }

    fn neighbour_key(last: u8) -> abi::NeighbourKey {
        let addr = IpAddr::from([198, 18, 0, last]);
        abi::NeighbourKey {
            switch_id: 5001,
            addr: addr.into(),
        }
    }

    #[test]
    fn who_floats_is_not_declared() {
        let declared = declared_in(&contents()).collect::<Vec<_>>();
        assert_eq!(declared, [neighbour_key(1)]);
    }

    #[test]
    fn only_what_the_tables_bear_is_kept() {
        let borne = Borne::of(&contents());
        for (switch_id, key, is_kept) in [
            (5001, 0, true),
            (5001, 7, true),
            (5001, 8, false),
            (5002, 0, false),
            (5003, 0, false),
            (ZONE_ROUTER | 3, 0, true),
            (ZONE_ROUTER | 4, 0, false),
            (ZONE_ROUTER | 5, 0, false),
        ] {
            let owner = abi::PortKey { switch_id, key };
            assert_eq!(borne.bears(owner), is_kept, "{owner:?}");
        }
    }
}
