//! The machine's side of the plan in words: settings, devices, programs, next hops.

use overlane_ebpf::tables::Table;
use overlane_ebpf::{Program, abi};
use zerocopy::FromBytes;

use crate::current::Current;
use crate::legs::legs;
use crate::paths::{self, GRO, SEGMENTER};
use crate::plan::words::presence;
use crate::plan::{Cleanup, Fresh, Plan, Step, Target};
use crate::report::{Change, ChangeKind};
use crate::{detours, groups, guard};

/// Settings, devices and programs.
pub(super) fn machine(
    target: &Target<'_>,
    current: &Current,
    plan: &Plan,
    fresh: &Fresh,
    lines: &mut Vec<Change>,
) {
    let is = current.state.as_ref();
    settings(target, plan, lines);
    let host = target.tables.host.as_str();
    lines.extend(guard::changes(host, plan.guard(), &guard::Refused::new()));
    let uplink = target.tables.uplink.as_str();
    for (_, device) in legs(target.tables) {
        let presence = presence(target, is, device.as_str());
        if presence.is_missing && presence.is_new() {
            lines.push(leg(target, current, device.as_str()));
        }
    }
    let mut replaced = 0;
    for step in &plan.steps {
        match step {
            Step::Attach {
                program, device, ..
            } if device == uplink && program.name() == "from_underlay" => {
                let words = format!("uplink {uplink}");
                lines.push(if is.is_some_and(|is| is.uplink == uplink) {
                    Change::modify(format!("{words}: attached to its device again"))
                } else {
                    Change::add(words)
                });
            }
            Step::Attach {
                program, device, ..
            } if *program == Program::FromLeg => {
                lines.push(leg(target, current, device));
            }
            Step::Attach { device, .. }
                if paths::ASIDE.iter().any(|(own, _)| own == device)
                    && !fresh.contains(device.as_str()) =>
            {
                lines.push(Change::modify(format!(
                    "device {device}: program attached again"
                )));
            }
            Step::Replace { .. } => replaced += 1,
            Step::Segmenter => lines.push(device(current, SEGMENTER, "segmenter")),
            Step::Gro => lines.push(device(current, GRO, "receive coalescing")),
            Step::Detour(detour) => {
                lines.push(device(current, detour.entrance(), detour.name()));
            }
            Step::RaiseGro => lines.push(Change::modify(format!("device {GRO}: up"))),
            Step::Discard(name) => lines.push(Change::remove(format!(
                "device {name} of an interrupted run"
            ))),
            Step::Promiscuous { device, on: true } => lines.push(Change::add(format!(
                "promiscuous mode of {device} (for switches on a VLAN)"
            ))),
            Step::Promiscuous { device, on: false } => {
                lines.push(Change::remove(format!("promiscuous mode of {device}")))
            }
            Step::Manage(hop) => lines.push(Change::add(format!(
                "next hop {} on {}",
                hop.address, hop.device
            ))),
            Step::Release(hop) => lines.push(Change::remove(format!(
                "next hop {} on {}",
                hop.address, hop.device
            ))),
            _ => {}
        }
    }
    lines.extend(groups::words(ChangeKind::Add, &target.groups.join));
    lines.extend(groups::words(ChangeKind::Remove, &target.groups.leave));
    if is.is_some_and(|is| is.uplink != uplink) {
        lines.extend(is.map(|is| Change::remove(format!("uplink {}", is.uplink))));
    }
    if replaced > 0 {
        let maps = if plan.new_set { " and maps" } else { "" };
        let s = if replaced == 1 { "" } else { "s" };
        lines.push(Change::modify(format!(
            "data path: new programs{maps} on {replaced} device{s}"
        )));
    }
    for cleanup in &plan.cleanups {
        if let Cleanup::Detour(detour) = cleanup {
            let (entrance, name) = (detour.entrance(), detour.name());
            let is_there = |device: &&str| current.devices.contains_key(*device);
            let words = if detour.devices().iter().any(is_there) {
                format!("device {entrance} ({name})")
            } else {
                format!("namespace {} ({name})", detours::namespace_of(host))
            };
            lines.push(Change::remove(words));
        }
    }
    if plan.cleanups.contains(&Cleanup::Device(GRO.to_owned())) {
        lines.push(Change::remove(format!("device {GRO} (receive coalescing)")));
    }
}

fn leg(target: &Target<'_>, current: &Current, device: &str) -> Change {
    let router = legs(target.tables).find(|(_, leg)| leg.as_str() == device);
    let words = match router {
        Some((router, _)) => format!("leg {device} of router {}", router.name),
        None => format!("leg {device}"),
    };
    let presence = presence(target, current.state.as_ref(), device);
    let words = format!("{words}{}", presence.words());
    let mut before = current.state.iter().flat_map(|state| &state.routers);
    if before.any(|router| router.leg.as_deref() == Some(device)) {
        let again = if presence.is_new() {
            ""
        } else {
            ": attached to its device again"
        };
        Change::modify(format!("{words}{again}"))
    } else {
        Change::add(words)
    }
}

fn device(current: &Current, name: &str, what: &str) -> Change {
    let words = format!("device {name} ({what})");
    if current.devices.contains_key(name) {
        Change::modify(words)
    } else {
        Change::add(words)
    }
}

fn settings(target: &Target<'_>, plan: &Plan, lines: &mut Vec<Change>) {
    let old = plan.steps.iter().find_map(|step| match step {
        Step::Settings { old } => old
            .as_deref()
            .and_then(|old| abi::Settings::read_from_bytes(old).ok()),
        _ => None,
    });
    let new = target.contents[&Table::Settings].values().next();
    let new = new.and_then(|new| abi::Settings::read_from_bytes(new).ok());
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    // An array map starts with zeros: nothing was configured.
    if old.uplink_ifindex == 0 {
        return;
    }
    let fields: [(&str, String, String); 10] = [
        ("tunnel end point", address(old.vtep), address(new.vtep)),
        (
            "underlay MTU",
            old.underlay_mtu.to_string(),
            new.underlay_mtu.to_string(),
        ),
        (
            "encapsulation",
            encapsulation(old.encapsulation),
            encapsulation(new.encapsulation),
        ),
        (
            "tunnel port",
            old.tunnel_port.to_string(),
            new.tunnel_port.to_string(),
        ),
        ("source ports", ports_range(&old), ports_range(&new)),
        (
            "strict",
            (old.strict != 0).to_string(),
            (new.strict != 0).to_string(),
        ),
        ("DSCP", dscp(&old), dscp(&new)),
        (
            "most connections",
            old.connection_places.to_string(),
            new.connection_places.to_string(),
        ),
        (
            "another device on the tunnel port",
            (old.port_shared != 0).to_string(),
            (new.port_shared != 0).to_string(),
        ),
        (
            "uplink index",
            old.uplink_ifindex.to_string(),
            new.uplink_ifindex.to_string(),
        ),
    ];
    for (name, old, new) in fields {
        if old != new {
            lines.push(Change::modify(format!("{name} {old} → {new}")));
        }
    }
}

fn address(addr: abi::Addr) -> String {
    std::net::IpAddr::from(addr).to_string()
}

fn encapsulation(number: u8) -> String {
    if number == abi::ENCAPSULATION_GENEVE {
        "geneve"
    } else {
        "vxlan"
    }
    .to_owned()
}

fn dscp(settings: &abi::Settings) -> String {
    if settings.copy_dscp == 0 {
        settings.dscp.to_string()
    } else {
        "copy".to_owned()
    }
}

fn ports_range(settings: &abi::Settings) -> String {
    format!("{}-{}", settings.source_port_min, settings.source_port_max)
}
