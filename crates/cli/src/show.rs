//! `overlane show …`: what runs on this machine. The numbers come from `overlane_host::observe`; here
//! they become tables. JSON is the observation itself.

mod firewall;

use std::io;

use overlane_host::UsedAs;
use overlane_host::observe::{
    self, Count, Counters, Fdb, FdbPlace, Guard, GuardState, Learned, Neighbours, OtherDevice,
    PathMtuRow, PortState, Ports, Remotes, Routes, SuperPackets, Switches,
};
use overlane_model::Name;

use crate::args::{HostChoice, Show, ShowWhat};
use crate::drops;
use crate::failure::Failure;
use crate::output::{Output, number, state, text};
use crate::status;

pub(crate) fn run(args: &Show, output: Output) -> Result<(), Failure> {
    let Some(what) = &args.what else {
        return status::show(None, &args.status.host, args.status.json, output);
    };
    match what {
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
        ShowWhat::Switches(args) => {
            let switches = observe::switches(&host(&args.host, output)?)?;
            if args.json {
                output.json(&switches)?
            } else {
                show_switches(&switches, output)?
            }
        }
        ShowWhat::Learned(args) => {
            let learned = observe::learned(&host(&args.host, output)?)?;
            if args.json {
                output.json(&learned)?
            } else {
                show_learned(&learned, output)?
            }
        }
        ShowWhat::Neighbours(args) => {
            let neighbours = observe::neighbours(&host(&args.host, output)?)?;
            if args.json {
                output.json(&neighbours)?
            } else {
                show_neighbours(&neighbours, output)?
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
        ShowWhat::Rules(args) => {
            let rules = observe::rules(&host(&args.host, output)?)?;
            if args.json {
                output.json(&rules)?
            } else {
                firewall::show_rules(&rules, output)?
            }
        }
        ShowWhat::Connections(args) => {
            let host = host(&args.common.host, output)?;
            let of = args.port.as_ref().map(Name::as_str);
            let connections = observe::connections(&host, of)?;
            if args.common.json {
                output.json(&connections)?
            } else {
                firewall::show_connections(&connections, of, output)?
            }
        }
        ShowWhat::Routes(args) => {
            let routes = observe::routes(&host(&args.host, output)?)?;
            if args.json {
                output.json(&routes)?
            } else {
                show_routes(&routes, output)?
            }
        }
        ShowWhat::Drops(args) => drops::run(args, output)?,
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

/// The host to look at; says so when its last `apply` did not come to an end. Switches off what a killed
/// capture left on.
pub(crate) fn host(choice: &HostChoice, output: Output) -> Result<String, Failure> {
    let host = choice.resolve()?;
    if observe::interrupted(&host)? {
        output.note(format!(
            "the last apply of host {host} was interrupted; apply again to complete or repair it"
        ));
    }
    // By the way: what cannot be switched off now is no reason not to look.
    if overlane_host::capture::recover(&host).unwrap_or(false) {
        output.note("a capture had been killed and was still switched on; it is off now");
    }
    Ok(host)
}

impl HostChoice {
    /// The host named, or the only one applied on this machine.
    pub(crate) fn resolve(&self) -> Result<String, Failure> {
        match &self.name {
            Some(name) => Ok(name.to_string()),
            None => Ok(overlane_host::only_applied_host()?.host),
        }
    }
}

fn show_ports(ports: &Ports, output: Output) -> io::Result<()> {
    let columns = [
        "PORT", "SWITCH", "UNDERLAY", "#KEY", "MAC", "DEVICE", "#TAG", "#IFINDEX", "STATE",
    ];
    let mut rows = output.table(&columns);
    for port in &ports.ports {
        let state = state(words_of(port.state), port.state == PortState::Ok);
        rows.push(vec![
            text(&port.port),
            text(&port.switch),
            text(port.on_underlay),
            text(port.key),
            text(&port.mac),
            text(&port.device),
            text(or_dash(port.vlan)),
            text(or_dash(port.ifindex)),
            state,
        ]);
    }
    output.section(&format!("host {}", ports.host), &rows, "no logical ports")?;
    show_others(&ports.others, output)?;
    for lower in &ports.lower_mtu {
        let words = lower_mtu(&lower.device, lower.mtu, lower.mtu_at_apply);
        output.line(format!("\n{words}"))?;
    }
    for raised in &ports.raised_mtu {
        let (device, before) = (&raised.device, raised.mtu_at_apply);
        output.line(format!(
            "\nMTU of {device} is {}, was {before} at apply: more than {before} is refused; lower it, or apply again",
            raised.mtu
        ))?;
    }
    for other in &ports.other_mac {
        output.line(format!(
            "\nMAC of {} is {}, was {} at apply: nothing for it is the router's; set it back, or apply again",
            other.device, other.mac, other.mac_at_apply
        ))?;
    }
    for (way, words) in [
        (SuperPackets::Unmarker, "through the unmarker to"),
        (SuperPackets::Segments, "cut into segments to"),
    ] {
        let of_way = ports
            .ports
            .iter()
            .filter(|port| port.super_packets == Some(way));
        let names: Vec<&str> = of_way.map(|port| port.port.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            output.line(format!("\nsuper-packets from tunnels: {words} {names}"))?;
        }
    }
    ports
        .guard
        .as_ref()
        .map_or(Ok(()), |guard| show_guard(guard, output))
}

/// Said of a device that somebody changed after `apply`.
pub(crate) fn lower_mtu(device: &str, mtu: u32, at_apply: u32) -> String {
    format!(
        "MTU of {device} is {mtu}, was {at_apply} at apply: larger packets are lost there; raise it, or apply again"
    )
}

const fn words_of(state: PortState) -> &'static str {
    match state {
        PortState::Ok => "ok",
        PortState::Missing => "missing",
        PortState::Detached => "detached",
        PortState::Down => "down",
        PortState::NoCarrier => "no carrier",
    }
}

/// A line for the uplink and for each leg where packets do not flow.
pub(crate) fn show_others(others: &[OtherDevice], output: Output) -> io::Result<()> {
    for other in others {
        let used_as = match other.used_as {
            UsedAs::Uplink => "uplink",
            UsedAs::Port => "port",
            UsedAs::Leg => "leg",
        };
        show_fault(used_as, &other.device, other.state, output)?;
    }
    Ok(())
}

/// A line for a device where no packets flow: why, and what to do.
fn show_fault(used_as: &str, device: &str, state: PortState, output: Output) -> io::Result<()> {
    let help = match state {
        PortState::Ok => return Ok(()),
        PortState::Missing => "create it, and apply again",
        PortState::Detached => "apply again",
        PortState::Down => &format!("bring it up with `ip link set {device} up`"),
        PortState::NoCarrier => "bring its other end up",
    };
    let state = words_of(state);
    output.line(format!("\n{used_as} {device}: {state}; {help}"))
}

/// A line for each state that families are in.
fn show_guard(guard: &Guard, output: Output) -> io::Result<()> {
    for state in [
        GuardState::Ok,
        GuardState::Changed,
        GuardState::Missing,
        GuardState::Refused,
    ] {
        let rows = guard.families.iter().filter(|row| row.state == state);
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        let words = match state {
            GuardState::Ok => {
                let packets: u64 = rows.iter().map(|row| row.packets).sum();
                let sent: u64 = rows.iter().map(|row| row.sent_packets).sum();
                format!("dropped {packets} packets from guests and {sent} from the host")
            }
            GuardState::Changed => "changed by somebody; apply again".to_owned(),
            GuardState::Missing => "missing; apply again".to_owned(),
            GuardState::Refused => "refused by the kernel".to_owned(),
        };
        let families: Vec<_> = rows.iter().map(|row| row.family).collect();
        let (table, families) = (&guard.table, families.join(", "));
        output.line(format!(
            "\nguard: nftables table {table} ({families}): {words}"
        ))?;
    }
    Ok(())
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn show_switches(switches: &Switches, output: Output) -> io::Result<()> {
    let columns = [
        "SWITCH",
        "UNDERLAY",
        "#PORTS HERE",
        "UNKNOWN",
        "GUESTS' TAGS",
        "TOO LARGE",
        "MSS",
        "LEARNING",
    ];
    let mut rows = output.table(&columns);
    for switch in &switches.switches {
        let learning = match switch.learn_age_s {
            Some(age_s) => format!("{age_s} s"),
            None => "-".to_owned(),
        };
        rows.push(vec![
            text(&switch.switch),
            text(switch.on_underlay),
            text(switch.ports.len()),
            text(if switch.flood_unknown {
                "flood"
            } else {
                "drop"
            }),
            text(if switch.vlan_transparent {
                "transparent"
            } else {
                "refuse"
            }),
            text(if switch.path_mtu_discovery {
                "told"
            } else {
                "drop"
            }),
            text(if switch.mss_clamp { "clamp" } else { "-" }),
            text(learning),
        ]);
    }
    let title = format!("host {}", switches.host);
    output.section(&title, &rows, "no logical switches")
}

fn place_words(place: &FdbPlace) -> String {
    match place {
        FdbPlace::Local {
            device,
            vlan: Some(vlan),
        } => format!("local, device {device} tag {vlan}"),
        FdbPlace::Local { device, vlan: None } => format!("local, device {device}"),
        FdbPlace::Remote {
            remote: Some(remote),
            address,
        } => format!("remote {remote}, {address}"),
        FdbPlace::Remote {
            remote: None,
            address,
        } => format!("remote {address}"),
        FdbPlace::Router {
            router: Some(router),
        } => format!("router {router}"),
        FdbPlace::Router { router: None } => "a router".to_owned(),
        FdbPlace::Uplink { device } => format!("uplink {device}"),
    }
}

fn show_learned(learned: &Learned, output: Output) -> io::Result<()> {
    let mut rows = output.table(&[
        "SWITCH", "UNDERLAY", "MAC", "PORT", "PLACE", "#SEEN", "#AGE",
    ]);
    for entry in &learned.entries {
        rows.push(vec![
            text(entry.switch.as_deref().unwrap_or("-")),
            text(entry.on_underlay),
            text(&entry.mac),
            text(entry.port.as_deref().unwrap_or("-")),
            text(place_words(&entry.place)),
            text(format!("{} s", entry.seen_s)),
            text(format!("{} s", entry.age_s)),
        ]);
    }
    let title = format!("host {}", learned.host);
    output.section(&title, &rows, "nothing learned")?;

    let mut rows = output.table(&["PORT", "SWITCH", "#MACS", "#LIMIT", "#AGE"]);
    for port in &learned.ports {
        rows.push(vec![
            text(&port.port),
            text(&port.switch),
            number(port.macs.into()),
            number(port.limit.into()),
            text(format!("{} s", port.age_s)),
        ]);
    }
    output.line("")?;
    output.section("learning ports", &rows, "no learning ports")
}

fn show_neighbours(neighbours: &Neighbours, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["PLACE", "ADDRESS", "MAC", "PORT", "STATE", "#AGE"]);
    for row in &neighbours.neighbours {
        let place = match (&row.leg_of, &row.switch) {
            (Some(router), _) => format!("leg of {router}"),
            (None, Some(switch)) => switch.clone(),
            (None, None) => "-".to_owned(),
        };
        rows.push(vec![
            text(place),
            text(&row.address),
            text(row.mac.as_deref().unwrap_or("-")),
            text(row.port.as_deref().unwrap_or("-")),
            text(row.state.name()),
            text(format!("{} s", row.age_s)),
        ]);
    }
    let title = format!("host {}", neighbours.host);
    output.section(&title, &rows, "no neighbour was found or asked for")?;
    output.line(format!(
        "{} addresses are declared, and never asked for",
        neighbours.declared
    ))
}

fn show_fdb(fdb: &Fdb, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["SWITCH", "UNDERLAY", "MAC", "#KEY", "PORT", "PLACE"]);
    for entry in &fdb.entries {
        rows.push(vec![
            text(entry.switch.as_deref().unwrap_or("-")),
            text(entry.on_underlay),
            text(&entry.mac),
            text(entry.key),
            text(entry.port.as_deref().unwrap_or("-")),
            text(place_words(&entry.place)),
        ]);
    }
    output.section(&format!("host {}", fdb.host), &rows, "no FDB entries")
}

fn show_routes(routes: &Routes, output: Output) -> io::Result<()> {
    output.line(format!("host {}", routes.host))?;
    if routes.routers.is_empty() {
        return output.line("\nno routers");
    }
    for router in &routes.routers {
        let mut rows = output.table(&["NETWORK", "WAY"]);
        for route in &router.routes {
            rows.push(vec![text(&route.to), text(&route.way)]);
        }
        let gateway = match (&router.gateway, &router.leg) {
            (Some(host), Some(leg)) => format!(", gateway {host}, leg {leg}"),
            (Some(host), None) => format!(", gateway {host}"),
            (None, _) => String::new(),
        };
        let title = format!("router {} ({}{gateway})", router.router, router.mac);
        output.line("")?;
        output.section(&title, &rows, "no routes")?;
        if let (Some(leg), Some(state)) = (&router.leg, router.leg_state) {
            show_fault("leg", leg, state, output)?;
        }
    }
    Ok(())
}

fn show_remotes(remotes: &Remotes, output: Output) -> io::Result<()> {
    let mut rows = output.table(&[
        "REMOTE",
        "ADDRESS",
        "NEXT HOP",
        "NEIGHBOUR",
        "DEVICE",
        "UDP GSO",
        "PATH MTU",
    ]);
    for remote in &remotes.remotes {
        let next_hop = remote
            .next_hop
            .map_or_else(|| "no route".to_owned(), |hop| hop.to_string());
        // What the kernel can send to; it drops the rest, after we counted it as `encap`.
        let usable = ["reachable", "stale", "delay", "probe", "permanent", "noarp"]
            .contains(&remote.neighbour.as_str());
        rows.push(vec![
            text(&remote.remote),
            text(remote.address),
            text(next_hop),
            state(&remote.neighbour, usable),
            text(&remote.device),
            text(if remote.takes_whole_udp {
                "whole"
            } else {
                "segments"
            }),
            text(path_mtu(remote.path_mtu.as_ref())),
        ]);
    }
    output.section(&format!("host {}", remotes.host), &rows, "no remotes")
}

/// `1400, said by 198.18.0.254 12 s ago`
fn path_mtu(known: Option<&PathMtuRow>) -> String {
    let Some(PathMtuRow {
        mtu, hop, age_s, ..
    }) = known
    else {
        return "-".to_owned();
    };
    match hop {
        Some(hop) => format!("{mtu}, said by {hop} {age_s} s ago"),
        None => format!("{mtu}, found by probes {age_s} s ago"),
    }
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
        let mut ways = vec![
            ("from port", &port.from_port),
            ("to port", &port.to_port),
            ("dropped", &port.dropped),
        ];
        if port.untold.packets > 0 {
            ways.push(("not told of", &port.untold));
        }
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
