//! `overlane mtu FILE --probe`: what really gets from host to host, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use comfy_table::Cell;
use overlane_host::HostError;
use overlane_host::mtu::facts::{HostFacts, RouteFacts};
use overlane_host::mtu::probe::{self, Probed, ProbedRemote, ProbedWay};
use overlane_model::{Fabric, Name};

use crate::failure::Failure;
use crate::output::{Output, number, state, text};

/// Probes from the hosts that were named, or from those of the file that are applied on this machine.
pub(super) fn probe(
    fabric: &Fabric,
    named: &[Name],
    output: Output,
) -> Result<Vec<Probed>, Failure> {
    let names = hosts(fabric, named)?;
    let probed: Result<Vec<Probed>, HostError> =
        names.iter().map(|name| probe::probe(name)).collect();
    let probed = probed?;
    for host in &probed {
        let remotes = host.remotes.iter();
        let remotes: Vec<_> = remotes.map(|it| (it.remote.clone(), it.address)).collect();
        note_other_file(fabric, &host.host, &remotes, output);
    }
    Ok(probed)
}

/// Ways are tried as they are applied: where that is not what the file says, both are named.
pub(super) fn note_other_file(
    fabric: &Fabric,
    host: &str,
    applied: &[(String, IpAddr)],
    output: Output,
) {
    let Ok(tables) = fabric.compile(host) else {
        return;
    };
    let declared = tables.remotes.iter();
    let declared: BTreeMap<&str, IpAddr> = declared.map(|it| (it.name.as_str(), it.addr)).collect();
    let applied: BTreeMap<&str, IpAddr> = applied
        .iter()
        .map(|(name, addr)| (name.as_str(), *addr))
        .collect();
    let names: BTreeSet<&str> = declared.keys().chain(applied.keys()).copied().collect();
    let differs = |name: &&str| declared.get(name) != applied.get(name);
    if let Some(name) = names.into_iter().find(differs) {
        let words = |known: &BTreeMap<&str, IpAddr>| {
            known
                .get(name)
                .map_or("none".to_owned(), ToString::to_string)
        };
        let (is, says) = (words(&applied), words(&declared));
        output.note(format!(
            "host {host} is applied with another file: its remote {name} is {is}, and here it is {says}; the ways \
             that are applied are tried"
        ));
    }
}

/// What the audit is to judge: where probes found what gets through, what had been heard of that way before is old.
pub(super) fn without_old(facts: &[HostFacts], probed: &[Probed]) -> Vec<HostFacts> {
    let mut facts = facts.to_vec();
    for host in probed {
        let heard = host.remotes.iter().filter(|remote| remote.there.is_some());
        let heard: BTreeSet<&str> = heard.map(|remote| remote.remote.as_str()).collect();
        for facts in facts.iter_mut().filter(|facts| facts.host == host.host) {
            facts
                .path_mtus
                .retain(|path| !heard.contains(path.remote.as_str()));
            let learned =
                |route: &&mut RouteFacts| route.learned && heard.contains(route.remote.as_str());
            facts
                .routes
                .iter_mut()
                .filter(learned)
                .for_each(|route| route.mtu = None);
        }
    }
    facts
}

/// Of them, each once.
pub(super) fn hosts(fabric: &Fabric, named: &[Name]) -> Result<Vec<String>, Failure> {
    let named: BTreeSet<&str> = named.iter().map(Name::as_str).collect();
    for name in &named {
        super::find(fabric, name)?;
    }
    if !named.is_empty() {
        return Ok(named.into_iter().map(str::to_owned).collect());
    }
    let applied = overlane_host::applied_hosts()?.into_iter();
    let declared = applied.map(|it| it.host);
    let declared = declared.filter(|host| fabric.hosts().get(host.as_str()).is_some());
    let names: Vec<String> = declared.collect();
    match names.is_empty() {
        true => Err(HostError::NoneApplied.into()),
        false => Ok(names),
    }
}

pub(super) fn show(probed: &[Probed], output: Output) -> io::Result<()> {
    let columns = [
        "FROM",
        "TO",
        "#UPLINK MTU",
        "#THERE",
        "SAID BY",
        "#BACK",
        "SAID BY",
        "#ITS UPLINK",
        "#ROUND TRIP µs",
    ];
    let mut rows = output.table(&columns);
    for host in probed {
        for remote in &host.remotes {
            rows.push(row(host, remote));
        }
    }
    output.line("")?;
    output.section("WHAT GETS THROUGH", &rows, "no remotes")
}

fn row(host: &Probed, remote: &ProbedRemote) -> Vec<Cell> {
    let name = text(&remote.remote);
    let mut cells = vec![text(&host.host), name, text(host.uplink_mtu)];
    let Some(uplink_mtu) = remote.uplink_mtu else {
        cells.push(state("no answer", false));
        cells.extend(["-", "-", "-", "-", "-"].map(text));
        return cells;
    };
    let ways = [
        (remote.there, host.uplink_mtu),
        (remote.back, uplink_mtu.into()),
    ];
    for (way, most) in ways {
        cells.push(way.map_or_else(|| text("-"), |way| size(way, most)));
        let hop = way.and_then(|way| way.hop);
        cells.push(hop.map_or_else(|| text("-"), text));
    }
    cells.push(text(uplink_mtu));
    cells.push(remote.round_trip_us.map_or_else(|| text("-"), number));
    cells
}

/// A size that is less than the sender's uplink stands out.
fn size(way: ProbedWay, most: u32) -> Cell {
    state(&way.mtu.to_string(), u32::from(way.mtu) >= most)
}
