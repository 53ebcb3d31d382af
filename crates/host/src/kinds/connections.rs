//! Connections that are followed: a port that comes to this host begins without any, and so does a router that
//! translates here. Those of who leaves give their places back.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::abi::{self, firewall, router};
use overlane_ebpf::connections::{self, Forgetter};
use overlane_ebpf::tables::{Contents, Table};
use overlane_ebpf::{learned, neighbours};
use zerocopy::FromBytes;

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Mending, Plan};
use super::target::Target;
use crate::HostError;
use crate::lib::paths;
use crate::report::{Object, Row};

/// Switch and key of a port, or a router that translates.
type Zone = (u32, u16);

/// What the maps follow, and what they learned.
pub(crate) struct Connections;

impl Kind for Connections {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let Some(target) = look.target.filter(|_| !plan.new_set) else {
            // A new set gets those of the old one whose ports and routers are the same.
            return Ok(());
        };
        let (should, is) = (&target.contents, &look.current.contents);
        let (wanted, there) = (zones(should), zones(is));
        // Those under the key of who comes are of an earlier stay.
        let come: BTreeSet<Zone> = wanted.difference(&there).copied().collect();
        if !come.is_empty() {
            plan.add(forget(target, come));
        }
        // Where a port gets a firewall, packets have passed without it, and what it knows of their connections is from
        // before. So it is where a port loses one and that is undone.
        let changed = &guarded(should) ^ &guarded(is);
        let ports: BTreeSet<Zone> = changed.intersection(&there).copied().collect();
        if !ports.is_empty() {
            plan.add(pick_up(ports));
        }
        // So does one that has taken another one's key; what that one had is its own until it is gone.
        let (macs_wanted, macs_there) = (macs(should), macs(is));
        let is_another = |(zone, mac): &(&Zone, &abi::MacBytes)| {
            macs_there.get(zone).is_some_and(|was| was != *mac)
        };
        let replaced = macs_wanted.iter().filter(is_another);
        let replaced: BTreeSet<Zone> = replaced.map(|(zone, _)| *zone).collect();
        if !replaced.is_empty() {
            plan.delete(forget(target, replaced));
        }
        let gone: BTreeSet<Zone> = there.difference(&wanted).copied().collect();
        if !gone.is_empty() {
            let row = Row::remove(Object::Connections, "ports that left");
            let run = move |mending: &mut Mending<'a>| {
                connections::forget_of(mending.maps()?, &gone, || forgetter(target))?;
                Ok(Done::Yes)
            };
            plan.clean_up(Deed::new(None, run).or_left_over(row));
        }
        Ok(())
    }
}

/// Not undone: no port has these connections.
fn forget<'a>(target: &'a Target<'a>, zones: BTreeSet<Zone>) -> Deed<'a> {
    Deed::new(None, move |mending| {
        mending.journal.before()?;
        connections::forget_of(mending.maps()?, &zones, || forgetter(target))?;
        Ok(Done::Yes)
    })
}

/// Who knows less of a connection stops less of it. Undone it is the same: what follows takes a firewall away, or gives
/// one.
fn pick_up<'a>(zones: BTreeSet<Zone>) -> Deed<'a> {
    Deed::new(None, move |mending| {
        let maps = mending.maps()?;
        mending.journal.before()?;
        let undone = zones.clone();
        (mending.journal).push(move || Ok(connections::pick_up(maps, &undone)?));
        connections::pick_up(maps, &zones)?;
        Ok(Done::Yes)
    })
}

/// Forgets what was learned where the tables no longer allow it. Not undone: it is learned again.
pub(crate) fn prune(mending: &mut Mending<'_>) -> Result<(), HostError> {
    mending.journal.before()?;
    let maps = mending.maps()?;
    learned::prune(maps)?;
    Ok(neighbours::prune(maps)?)
}

/// For the set of maps that is there: a new one has no connections.
fn forgetter(target: &Target<'_>) -> Result<Forgetter, HostError> {
    let host = target.tables.host.as_str();
    let pins = paths::map_set(host, target.data_path.signature());
    Ok(Forgetter::load(target.data_path, &pins)?)
}

/// Whose connections are kept: ports, and routers that translate.
fn zones(contents: &Contents) -> BTreeSet<Zone> {
    let macs = macs(contents).into_keys();
    macs.chain(translating(contents)).collect()
}

/// Ports with a firewall.
fn guarded(contents: &Contents) -> BTreeSet<Zone> {
    let has_firewall = |port: &abi::Port| port.flags & abi::PORT_FIREWALL != 0;
    let ports = ports(contents).filter(has_firewall);
    ports.map(|port| (port.switch_id, port.key)).collect()
}

/// Routers that translate, as connections name them.
fn translating(contents: &Contents) -> impl Iterator<Item = Zone> {
    let routers = contents.get(&Table::Routers).into_iter().flatten();
    routers.filter_map(|(id, value)| {
        let id = u32::read_from_bytes(id).ok()?;
        let router = router::Router::read_from_bytes(value).ok()?;
        let translates = router.flags & router::ROUTER_NAT != 0;
        translates.then_some((firewall::ZONE_ROUTER | id, 0))
    })
}

fn ports(contents: &Contents) -> impl Iterator<Item = abi::Port> {
    let ports = contents.get(&Table::Ports).into_iter().flatten();
    ports.filter_map(|(_, value)| abi::Port::read_from_bytes(value).ok())
}

fn macs(contents: &Contents) -> BTreeMap<Zone, abi::MacBytes> {
    ports(contents)
        .map(|port| ((port.switch_id, port.key), port.mac))
        .collect()
}
