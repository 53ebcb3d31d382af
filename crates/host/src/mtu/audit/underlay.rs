//! Uplinks, what lies below them, and the paths between tunnel end points.

use overlane_model::mtu::{self, IPV4_LEAST, IPV6_LEAST};

use super::finding::{Finding, Place, Severity};
use super::view::{View, listed};
use crate::mtu::facts::{DeviceFacts, HostFacts, PathMtuFacts, RouteFacts, UPLINK};

/// Each uplink by itself, and all of them together.
pub(super) fn uplinks(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        let Some(uplink) = &host.uplink else {
            findings.extend(gone(host));
            continue;
        };
        findings.extend(below(host, uplink));
        findings.extend(other_end(host, uplink));
        findings.extend(since_apply(host, uplink));
        findings.extend(stated(host, uplink, view.underlay));
    }
    findings.extend(unlike(view));
}

/// The host was applied, and its devices can be seen: all but this one.
fn gone(host: &HostFacts) -> Option<Finding> {
    let uplink = host.applied_uplink.as_ref()?;
    let is_seen = host.missing.iter().any(|missing| missing.what == UPLINK);
    is_seen.then(|| Finding {
        host: Some(host.host.clone()),
        what: uplink.clone(),
        says: format!("the uplink {uplink} is gone since apply: nothing gets to other hosts"),
        remedy: format!(
            "bring {uplink} back, then overlane apply FILE --host {}",
            host.host
        ),
        ..Finding::new(Place::Vtep, Severity::Wrong)
    })
}

/// A VLAN device, bond or bridge hands its packets on, and nothing tells it that they are too large.
fn below(host: &HostFacts, uplink: &DeviceFacts) -> Vec<Finding> {
    let smaller = host.below.iter().filter(|below| below.mtu < uplink.mtu);
    let finding = |below: &crate::mtu::facts::BelowFacts| Finding {
        host: Some(host.host.clone()),
        what: below.device.clone(),
        says: format!(
            "uplink {} has MTU {}, and {}, below the {} {}, takes {}: larger packets are lost there",
            uplink.device, uplink.mtu, below.device, below.kind, below.above, below.mtu
        ),
        remedy: format!(
            "{}, or lower the uplink to {}",
            host.set_mtu(&below.device, uplink.mtu),
            below.mtu
        ),
        ..Finding::new(Place::Vtep, Severity::Wrong)
    };
    smaller.map(finding).collect()
}

fn other_end(host: &HostFacts, uplink: &DeviceFacts) -> Option<Finding> {
    let peer = uplink.peer_mtu.filter(|peer| *peer < uplink.mtu)?;
    Some(Finding {
        words: vec![uplink.device.clone()],
        host: Some(host.host.clone()),
        what: format!("the other end of {}", uplink.device),
        says: format!(
            "uplink {} has MTU {}, and its other end takes {peer}: larger packets are lost there",
            uplink.device, uplink.mtu
        ),
        remedy: format!(
            "set the other end to {}, or {}",
            uplink.mtu,
            host.set_mtu(&uplink.device, peer)
        ),
        ..Finding::new(Place::PhysicalSwitches, Severity::Wrong)
    })
}

/// The data path goes by what `apply` found.
fn since_apply(host: &HostFacts, uplink: &DeviceFacts) -> Option<Finding> {
    let before = uplink.mtu_at_apply.filter(|mtu| *mtu != uplink.mtu)?;
    let (severity, so) = changed(uplink.mtu, before);
    Some(Finding {
        words: vec![uplink.device.clone()],
        host: Some(host.host.clone()),
        what: uplink.device.clone(),
        says: format!(
            "uplink {} has MTU {}, and had {before} when the fabric was applied: {so}",
            uplink.device, uplink.mtu
        ),
        remedy: set_back(host, uplink, before),
        ..Finding::new(Place::Vtep, severity)
    })
}

/// What a device's new MTU means, for a data path that goes by the one before.
pub(super) const fn changed(now: u32, before: u32) -> (Severity, &'static str) {
    if now < before {
        (
            Severity::Wrong,
            "larger packets are lost, and nobody is told",
        )
    } else {
        (Severity::Wasteful, "larger packets than before are refused")
    }
}

/// `apply` would only accept what somebody changed: first what undoes it.
pub(super) fn set_back(host: &HostFacts, device: &DeviceFacts, before: u32) -> String {
    format!(
        "{}, as it was; or, if {} is meant: overlane apply FILE --host {}",
        host.set_mtu(&device.device, before),
        device.mtu,
        host.host
    )
}

/// Against what somebody knows of the physical network.
fn stated(host: &HostFacts, uplink: &DeviceFacts, underlay: Option<u32>) -> Option<Finding> {
    let underlay = underlay.filter(|underlay| *underlay != uplink.mtu)?;
    let (severity, so) = if uplink.mtu > underlay {
        (Severity::Wrong, "larger packets are lost on the way")
    } else {
        (Severity::Wasteful, "guests could send larger packets")
    };
    Some(Finding {
        words: vec![uplink.device.clone()],
        host: Some(host.host.clone()),
        what: uplink.device.clone(),
        says: format!(
            "uplink {} has MTU {}, and the physical network carries {underlay}: {so}",
            uplink.device, uplink.mtu
        ),
        remedy: format!(
            "{}, then overlane apply FILE --host {}",
            host.set_mtu(&uplink.device, underlay),
            host.host
        ),
        ..Finding::new(Place::Vtep, severity)
    })
}

/// What the one sends, the other cannot take.
fn unlike(view: &View<'_>) -> Option<Finding> {
    let joined = view.hosts.values().filter(|host| {
        let mut others = view.hosts.keys();
        others.any(|other| view.are_joined(&host.host, other))
    });
    let uplinks: Vec<(&HostFacts, &DeviceFacts)> = joined
        .filter_map(|host| Some((*host, host.uplink.as_ref()?)))
        .collect();
    let (least, smallest) = uplinks.iter().min_by_key(|(_, uplink)| uplink.mtu)?;
    let (most, largest) = uplinks.iter().max_by_key(|(_, uplink)| uplink.mtu)?;
    if smallest.mtu == largest.mtu {
        return None;
    }
    // Where most are alike, the others are wrong.
    let alike = |mtu: u32| uplinks.iter().filter(|(_, it)| it.mtu == mtu).count();
    let usual = uplinks
        .iter()
        .map(|(_, it)| it.mtu)
        .find(|mtu| alike(*mtu) * 2 > uplinks.len());
    let others = uplinks
        .iter()
        .filter(|(_, it)| usual.is_some_and(|usual| it.mtu != usual));
    let commands: Vec<String> = others
        .map(|(host, it)| host.set_mtu(&it.device, usual.unwrap_or(it.mtu)))
        .collect();
    let says = |(host, uplink): &(&HostFacts, &DeviceFacts)| {
        format!("{} has {} on {}", uplink.device, uplink.mtu, host.host)
    };
    let all: Vec<String> = uplinks.iter().map(says).collect();
    Some(Finding {
        host: None,
        what: "uplinks".to_owned(),
        says: format!(
            "the MTUs of uplinks differ: {}; {} may send what {} does not take",
            listed(&all),
            most.host,
            least.host
        ),
        remedy: match usual {
            Some(usual) => format!(
                "give all of them {usual}, as most have: {}",
                listed(&commands)
            ),
            None => format!(
                "if the physical network carries {}: {}; else {} on all others",
                largest.mtu,
                least.set_mtu(&smallest.device, largest.mtu),
                smallest.mtu
            ),
        },
        ..Finding::new(Place::Vtep, Severity::Wrong)
    })
}

/// The ways to remotes.
pub(super) fn paths(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        let Some(uplink) = &host.uplink else {
            continue;
        };
        let is_joined = |remote: &str| view.are_joined(&host.host, remote);
        for route in host.routes.iter().filter(|it| is_joined(&it.remote)) {
            findings.extend(other_device(host, uplink, route));
            findings.extend(smaller_route(host, uplink, route));
        }
        for path in host.path_mtus.iter().filter(|it| is_joined(&it.remote)) {
            findings.extend(smaller_path(view, host, uplink, path));
        }
    }
}

fn other_device(host: &HostFacts, uplink: &DeviceFacts, route: &RouteFacts) -> Option<Finding> {
    let device = route.device.as_ref();
    let device = device.filter(|device| **device != uplink.device)?;
    let (of, remote) = (&uplink.device, &route.remote);
    Some(Finding {
        host: Some(host.host.clone()),
        what: format!("route to {remote}"),
        says: format!(
            "packets to the VTEP of {remote} leave by {device}, and the MTU that counts is that of uplink {of}"
        ),
        remedy: format!(
            "route the VTEP of {remote} by {of} (ip route), or make {device} the uplink of {} in the fabric file",
            host.host
        ),
        ..Finding::new(Place::Vtep, Severity::Wrong)
    })
}

fn smaller_route(host: &HostFacts, uplink: &DeviceFacts, route: &RouteFacts) -> Option<Finding> {
    let mtu = route.mtu.filter(|mtu| *mtu < uplink.mtu)?;
    let (remote, of) = (&route.remote, &uplink.device);
    let lower = host.set_mtu(of, mtu);
    let (place, says, remedy) = if route.learned {
        (
            Place::PhysicalSwitches,
            format!(
                "a router told the kernel that the path to {remote} carries {mtu}, and uplink {of} has {}",
                uplink.mtu
            ),
            format!(
                "let every switch and router to {remote} carry {} (frames of {} bytes), or {lower}, and the same on all hosts",
                uplink.mtu,
                mtu::frame(uplink.mtu, false)
            ),
        )
    } else {
        (
            Place::Vtep,
            format!(
                "the route to {remote} has MTU {mtu}, and uplink {of} has {}: the tunnel goes by the uplink, and larger packets may be lost",
                uplink.mtu
            ),
            format!(
                "{lower}, and the same on all hosts; or take the MTU off the route, if the path carries {}",
                uplink.mtu
            ),
        )
    };
    Some(Finding {
        words: vec![uplink.device.clone()],
        host: Some(host.host.clone()),
        what: format!("path to {remote}"),
        says,
        remedy,
        ..Finding::new(place, Severity::Wrong)
    })
}

fn smaller_path(
    view: &View<'_>,
    host: &HostFacts,
    uplink: &DeviceFacts,
    path: &PathMtuFacts,
) -> Option<Finding> {
    let sends = view.uplink(&host.host).unwrap_or(uplink.mtu);
    if path.mtu >= sends {
        return None;
    }
    let (here, remote) = (&host.host, &path.remote);
    let whence = path.hop.map_or_else(
        || "probes found it".to_owned(),
        |hop| format!("{hop} said so"),
    );
    // Only who knows both ends can tell.
    let back = view.hosts.get(remote.as_str()).map(|other| {
        let mut known = other.path_mtus.iter();
        let back = known.find(|back| back.remote == *here);
        match back.map(|back| back.mtu).filter(|mtu| *mtu < sends) {
            Some(mtu) if mtu == path.mtu => "; the way back is as small".to_owned(),
            Some(mtu) if mtu::differ_by_a_tag(mtu, path.mtu) => {
                format!("; the way back carries {mtu}: the same path, 4 bytes apart for a VLAN tag")
            }
            Some(mtu) => format!("; the way back carries {mtu}"),
            None => {
                "; nothing is known against the way back, so only this one may be small".to_owned()
            }
        }
    });
    Some(Finding {
        host: Some(here.clone()),
        what: format!("path to {remote}"),
        says: format!(
            "the path from {here} to {remote} carries {}, and uplink {} has {} ({whence}){}",
            path.mtu,
            uplink.device,
            uplink.mtu,
            back.unwrap_or_default()
        ),
        remedy: format!(
            "let {} carry {sends} (frames of {} bytes, {} with a VLAN tag); or {}, and the same on all hosts",
            path.hop.map_or_else(
                || format!("every switch and router to {remote}"),
                |hop| format!("what is behind {hop}")
            ),
            mtu::frame(sends, false),
            mtu::frame(sends, true),
            host.set_mtu(&uplink.device, path.mtu)
        ),
        ..Finding::new(Place::PhysicalSwitches, Severity::Wrong)
    })
}

/// Uplinks that leave guests too little, whatever the guests' own MTU is.
pub(super) fn too_small(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        let Some(uplink) = &host.uplink else {
            continue;
        };
        let declared = view.fabric.hosts().get(host.host.as_str());
        let is_ipv6 = declared.is_some_and(|host| host.underlay.is_ipv6());
        if is_ipv6 && uplink.mtu < IPV6_LEAST {
            findings.push(Finding {
                host: Some(host.host.clone()),
                what: uplink.device.clone(),
                says: format!(
                    "uplink {} has MTU {}, and IPv6 needs {IPV6_LEAST} of every link: the kernel takes IPv6 off it",
                    uplink.device, uplink.mtu
                ),
                remedy: host.set_mtu(&uplink.device, IPV6_LEAST),
                ..Finding::new(Place::Vtep, Severity::Wrong)
            });
        }
    }
    for room in &view.rooms {
        let name = room.switch.as_str();
        let Some((room, fits)) = view.room(name) else {
            continue;
        };
        let (least, family) = match fits {
            ..IPV4_LEAST => (IPV4_LEAST, "IPv4"),
            ..IPV6_LEAST if view.has_ipv6(name) => (IPV6_LEAST, "IPv6"),
            _ => continue,
        };
        let header = room.header.map_or(0, |header| header.bytes);
        let needs = mtu::underlay_for(least, header, room.tagged);
        let hosts = room.smallest.as_ref();
        let hosts = hosts.map(|(from, to)| format!(" between {from} and {to}"));
        findings.push(Finding {
            host: None,
            what: format!("switch {name}"),
            says: format!(
                "{fits} bytes are left for its guests{}, and {family} needs {least}",
                hosts.unwrap_or_default()
            ),
            remedy: format!("raise the MTU of the uplinks to {needs} or more (ip link set)"),
            ..Finding::new(Place::Vtep, Severity::Wrong)
        });
    }
}
