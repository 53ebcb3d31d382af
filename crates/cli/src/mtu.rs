//! `overlane mtu FILE`: what fits, and where this machine is set otherwise. The sizes are `overlane_model::mtu`'s, the facts
//! and what is wrong with them `overlane_host::mtu`'s; here they are printed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use overlane_model::mtu::{self, Direction, Header, SwitchRoom};
use overlane_model::{Fabric, Name};
use serde::Serialize;

use crate::args::Mtu;
use crate::check;
use crate::failure::Failure;
use crate::output::{Output, text};

/// Of an uplink of which nothing is known.
const USUAL: u32 = 1500;
/// Pairs of hosts that a table names; the others it counts.
const NAMED: usize = 4;

pub(crate) fn run(args: &Mtu, output: Output) -> Result<(), Failure> {
    let fabric = check::load(&args.file)?;
    check::warn(&fabric, output);
    let mtu = args.underlay_mtu.unwrap_or(USUAL);
    let sizes = Sizes::of(&fabric, &|_| mtu);
    if args.json {
        output.json(&sizes)?;
    } else {
        sizes.show(output)?;
    }
    Ok(())
}

/// What fits, as JSON has it.
#[derive(Serialize)]
struct Sizes {
    tunnels: Vec<TunnelSize>,
    switches: Vec<SwitchSize>,
}

/// One direction between two hosts.
#[derive(Serialize)]
struct TunnelSize {
    from: String,
    to: String,
    #[serde(flatten)]
    header: Header,
    tagged: bool,
    underlay_mtu: u32,
    guest_mtu: u32,
    switches: Vec<String>,
    routers: Vec<String>,
}

/// One logical switch.
#[derive(Serialize)]
struct SwitchSize {
    switch: String,
    vni: Option<u32>,
    uplink_vlan: Option<u16>,
    header_bytes: Option<u32>,
    tagged: bool,
    guest_mtu: Option<u32>,
}

impl Sizes {
    fn of(fabric: &Fabric, uplink: &dyn Fn(&Name) -> u32) -> Self {
        let tunnels = mtu::directions(fabric).into_iter();
        let switches = mtu::switch_rooms(fabric, uplink).into_iter();
        Self {
            tunnels: tunnels.map(|it| TunnelSize::of(&it, uplink)).collect(),
            switches: switches.map(|it| SwitchSize::of(&it)).collect(),
        }
    }

    fn show(&self, output: Output) -> io::Result<()> {
        let mut forms: BTreeMap<_, Vec<&TunnelSize>> = BTreeMap::new();
        for tunnel in &self.tunnels {
            let form = (tunnel.header, tunnel.tagged, tunnel.underlay_mtu);
            forms.entry(form).or_default().push(tunnel);
        }
        let mut rows = output.table(&["HEADER", "#BYTES", "#UNDERLAY MTU", "#GUEST MTU", "HOSTS"]);
        for ((header, tagged, underlay_mtu), tunnels) in forms {
            let tag = if tagged { " + tag" } else { "" };
            rows.push(vec![
                text(format!("{}{tag}", header.words())),
                text(header.bytes + if tagged { 4 } else { 0 }),
                text(underlay_mtu),
                text(tunnels.first().map_or(0, |tunnel| tunnel.guest_mtu)),
                text(between(&tunnels)),
            ]);
        }
        output.section(
            "TUNNELS",
            &rows,
            "no two hosts speak to each other in tunnels",
        )?;
        let mut rows = output.table(&["SWITCH", "UNDERLAY", "#HEADER", "#GUEST MTU"]);
        for switch in &self.switches {
            let on = match (switch.vni, switch.uplink_vlan) {
                (Some(vni), _) => format!("VNI {vni}"),
                (None, Some(vlan)) => format!("VLAN {vlan}"),
                (None, None) => String::new(),
            };
            let or = |value: Option<u32>| value.map_or("-".to_owned(), |it| it.to_string());
            rows.push(vec![
                text(&switch.switch),
                text(on),
                text(or(switch.header_bytes)),
                text(
                    switch
                        .guest_mtu
                        .map_or("any".to_owned(), |it| it.to_string()),
                ),
            ]);
        }
        output.line("")?;
        output.section("SWITCHES", &rows, "none")
    }
}

/// `h1, h2 <-> h3`
fn between(tunnels: &[&TunnelSize]) -> String {
    let pairs: BTreeSet<(&str, &str)> = tunnels
        .iter()
        .map(|it| (it.from.as_str(), it.to.as_str()))
        .collect();
    let all = pairs.iter().filter_map(|(from, to)| {
        let back = pairs.contains(&(to, from));
        match (back, from < to) {
            (true, true) => Some(format!("{from} <-> {to}")),
            (true, false) => None,
            (false, _) => Some(format!("{from} -> {to}")),
        }
    });
    let all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    match more {
        0 => named,
        _ => format!("{named}, and {more} more"),
    }
}

impl TunnelSize {
    fn of(direction: &Direction, uplink: &dyn Fn(&Name) -> u32) -> Self {
        let names = |list: &[Name]| list.iter().map(ToString::to_string).collect();
        let underlay_mtu = uplink(&direction.from).min(uplink(&direction.to));
        Self {
            from: direction.from.to_string(),
            to: direction.to.to_string(),
            header: direction.header,
            tagged: direction.tagged,
            underlay_mtu,
            guest_mtu: mtu::room(underlay_mtu, direction.header.bytes, direction.tagged),
            switches: names(&direction.switches),
            routers: names(&direction.routers),
        }
    }
}

impl SwitchSize {
    fn of(room: &SwitchRoom) -> Self {
        Self {
            switch: room.switch.to_string(),
            vni: room.id.vni().map(|vni| vni.get()),
            uplink_vlan: room.id.vlan().map(|vlan| vlan.get()),
            header_bytes: room.header.map(|header| header.bytes),
            tagged: room.tagged,
            guest_mtu: room.guest_mtu,
        }
    }
}
