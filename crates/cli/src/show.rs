//! `overlane show …`: what runs on this machine. The numbers come from `overlane_host::observe`; here
//! they become tables. JSON is the observation itself.

use std::io;

use overlane_host::observe::{self, Count, Counters, Fdb, FdbPlace, PortState, Ports, Remotes};

use crate::args::{HostChoice, Show, ShowWhat};
use crate::failure::Failure;
use crate::output::{Output, number, state, text};

pub(crate) fn run(args: &Show, output: Output) -> Result<(), Failure> {
    match &args.what {
        ShowWhat::Ports(args) => {
            let ports = observe::ports(&host(&args.host, output)?)?;
            if args.json {
                output.json(&ports)?
            } else {
                show_ports(&ports, output)?
            }
        }
        ShowWhat::Fdb(args) => {
            let fdb = observe::fdb(&host(&args.host, output)?)?;
            if args.json {
                output.json(&fdb)?
            } else {
                show_fdb(&fdb, output)?
            }
        }
        ShowWhat::Remotes(args) => {
            let remotes = observe::remotes(&host(&args.host, output)?)?;
            if args.json {
                output.json(&remotes)?
            } else {
                show_remotes(&remotes, output)?
            }
        }
        ShowWhat::Counters(args) => {
            let mut counters = observe::counters(&host(&args.common.host, output)?)?;
            if !args.all {
                counters = counters.without_zeros();
            }
            if args.common.json {
                output.json(&counters)?;
            } else {
                show_counters(&counters, output)?;
            }
        }
    }
    Ok(())
}

/// The host to look at; says so when its last `apply` did not come to an end.
fn host(choice: &HostChoice, output: Output) -> Result<String, Failure> {
    let host = choice.resolve()?;
    if observe::interrupted(&host)? {
        output.note(format!(
            "the last apply of host {host} was interrupted; apply again to complete or repair it"
        ));
    }
    Ok(host)
}

impl HostChoice {
    /// The host named, or the only one applied on this machine.
    pub(crate) fn resolve(&self) -> Result<String, Failure> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => Ok(overlane_host::only_applied_host()?.host),
        }
    }
}

fn show_ports(ports: &Ports, output: Output) -> io::Result<()> {
    let columns = [
        "PORT", "SWITCH", "#VNI", "#KEY", "MAC", "DEVICE", "#IFINDEX", "STATE",
    ];
    let mut rows = output.table(&columns);
    for port in &ports.ports {
        let ifindex = port
            .ifindex
            .map_or_else(|| "-".to_owned(), |index| index.to_string());
        let state = match port.state {
            PortState::Ok => state("ok", true),
            PortState::Missing => state("missing", false),
            PortState::Detached => state("detached", false),
        };
        rows.push(vec![
            text(&port.port),
            text(&port.switch),
            text(port.vni),
            text(port.key),
            text(&port.mac),
            text(&port.device),
            text(ifindex),
            state,
        ]);
    }
    output.section(&format!("host {}", ports.host), &rows, "no logical ports")
}

fn show_fdb(fdb: &Fdb, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["SWITCH", "#VNI", "MAC", "#KEY", "PORT", "PLACE"]);
    for entry in &fdb.entries {
        let place = match &entry.place {
            FdbPlace::Local { device } => format!("local, device {device}"),
            FdbPlace::Remote {
                remote: Some(remote),
                address,
            } => {
                format!("remote {remote}, {address}")
            }
            FdbPlace::Remote {
                remote: None,
                address,
            } => format!("remote {address}"),
        };
        rows.push(vec![
            text(entry.switch.as_deref().unwrap_or("-")),
            text(entry.vni),
            text(&entry.mac),
            text(entry.key),
            text(entry.port.as_deref().unwrap_or("-")),
            text(place),
        ]);
    }
    output.section(&format!("host {}", fdb.host), &rows, "no FDB entries")
}

fn show_remotes(remotes: &Remotes, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["REMOTE", "ADDRESS", "NEXT HOP", "NEIGHBOUR", "DEVICE"]);
    for remote in &remotes.remotes {
        let next_hop = remote
            .next_hop
            .map_or_else(|| "no route".to_owned(), |hop| hop.to_string());
        // What the kernel can send to; the rest means drops (no_neighbour, no_route).
        let usable = ["reachable", "stale", "delay", "probe", "permanent", "noarp"]
            .contains(&remote.neighbour.as_str());
        rows.push(vec![
            text(&remote.remote),
            text(remote.address),
            text(next_hop),
            state(&remote.neighbour, usable),
            text(&remote.device),
        ]);
    }
    output.section(&format!("host {}", remotes.host), &rows, "no remotes")
}

fn show_counters(counters: &Counters, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["HOOK", "VERDICT", "", "#PACKETS", "#SEGMENTS", "#BYTES"]);
    for entry in &counters.verdicts {
        let fate = if entry.drop {
            state("drop", false)
        } else {
            text("")
        };
        let mut cells = vec![text(entry.hook), text(entry.verdict), fate];
        cells.extend(count_cells(&entry.count));
        rows.push(cells);
    }
    output.section(
        &format!("host {}: verdicts", counters.host),
        &rows,
        "no packets yet",
    )?;

    let mut rows = output.table(&["PORT", "SWITCH", "", "#PACKETS", "#SEGMENTS", "#BYTES"]);
    for port in &counters.ports {
        let ways = [
            ("from port", &port.from_port),
            ("to port", &port.to_port),
            ("dropped", &port.dropped),
        ];
        for (way, count) in ways {
            let mut cells = vec![text(&port.port), text(&port.switch), text(way)];
            cells.extend(count_cells(count));
            rows.push(cells);
        }
    }
    output.line("")?;
    output.section("logical ports", &rows, "no logical ports")?;

    let mut rows = output.table(&["REMOTE", "ADDRESS", "", "#PACKETS", "#SEGMENTS", "#BYTES"]);
    for remote in &counters.remotes {
        let ways = [
            ("to remote", &remote.to_remote),
            ("from remote", &remote.from_remote),
            ("dropped", &remote.dropped),
        ];
        for (way, count) in ways {
            let mut cells = vec![text(&remote.remote), text(remote.address), text(way)];
            cells.extend(count_cells(count));
            rows.push(cells);
        }
    }
    output.line("")?;
    output.section("remotes", &rows, "no remotes")
}

fn count_cells(count: &Count) -> [comfy_table::Cell; 3] {
    [
        number(count.packets),
        number(count.segments),
        number(count.bytes),
    ]
}
