//! Everything that can be known to fail is looked at before anything is changed: first what concerns the
//! machine, then the namespace, then each device. What passes is resolved to numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use overlane_ebpf::tables::{Devices, PortDevice};
use overlane_ebpf::{preflight, tables};
use overlane_model::{DeviceName, Encapsulation, PortTable, Tables, mtu};
use overlane_net::{Link, Netlink, Nud};

use super::legs;
use super::own_addresses::{self, HostAddress};
use crate::HostError;
use crate::kinds::receive_helper::{self, Coalescing};
use crate::kinds::{Links, Resolved, Spot};
use crate::lib::detour::Detour;
use crate::lib::elsewhere::Elsewhere;
use crate::lib::error::{Absence, OtherName, UnfitDevice, UsedAs};
use crate::lib::features::{has_feature, takes_mark};
use crate::lib::next_hop::next_hop;
use crate::lib::{files, paths};
use crate::report::{Object, Row, finding};
use crate::state::{self, Place};

/// 1 on a PREEMPT_RT kernel; others, and old ones of these, do not have the file.
const REALTIME: &str = "/sys/kernel/realtime";
/// `#1 SMP PREEMPT_RT …` on such a kernel.
const VERSION: &str = "/proc/sys/kernel/version";

/// The MTU of an uplink that is not there: nothing is sent by it.
const WITHOUT_UPLINK: u32 = 1500;

/// The machine: kernel first (nothing else matters on an old one), rights, BPF file system, capacities.
pub(crate) fn machine(tables: &Tables) -> Result<(), HostError> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    check_preemption(&read(REALTIME), &read(VERSION))?;
    preflight::check_rights()?;
    preflight::check_bpffs_lasts(Path::new(paths::BPFFS))?;
    preflight::check_bpffs(Path::new(paths::BPFFS))?;
    tables::check_capacity(tables)?;
    Ok(())
}

/// The programs keep a packet's data in per-CPU memory, which is theirs only where no hook interrupts
/// another one of the same CPU: with PREEMPT_RT packets are handled in threads that preempt each other.
fn check_preemption(realtime: &str, version: &str) -> Result<(), HostError> {
    let says_so = version.split_whitespace().any(|word| word == "PREEMPT_RT");
    if realtime.trim() == "1" || says_so {
        return Err(HostError::Realtime);
    }
    Ok(())
}

/// The namespace of this thread is not in the way of, and not in use by, another applied host; and this
/// host is not applied in another one that still exists.
pub(crate) fn namespace(host: &str) -> Result<(), HostError> {
    // What somebody else wrote there says nothing of where the host is.
    files::check_pins(host)?;
    let here = state::netns_id()?;
    if let Some(place) = Place::of(host)?.filter(|place| place.netns_id != here)
        && place.netns_id.is_alive(place.netns.as_deref())
    {
        return Err(HostError::AppliedElsewhere {
            host: host.to_owned(),
            namespace: place.netns,
        });
    }
    match Place::all()?
        .into_iter()
        .find(|other| other.host != host && other.netns_id == here)
    {
        Some(other) => Err(HostError::NamespaceTaken { other: other.host }),
        None => Ok(()),
    }
}

/// What a device that is not fit for a port or a leg is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A reason to refuse, also where it is missing.
    Refused,
    /// A reason to refuse, but where it is missing.
    RefusedUnlessMissing,
    /// Left out; a row says why.
    LeftOut,
}

/// Addresses and routes of the namespace of this thread, and what its `links` are to the tables: those that come from
/// `elsewhere` among them. A missing uplink is an error, unless all that is unfit is left out.
pub(crate) fn resolve(
    tables: &Tables,
    (netlink, links, elsewhere): (&Netlink, &[Link], Elsewhere),
    netns: Option<&str>,
    unfit: Unfit,
) -> Result<Resolved, HostError> {
    let is_strict = unfit == Unfit::Refused;
    let mut links: Links<'_> = links
        .iter()
        .map(|link| (link.name.as_str(), link))
        .collect();
    let own = own_addresses::all()?;
    let mut missing = Vec::new();
    let mut devices = Devices::default();
    let mut notes = match unfit {
        Unfit::LeftOut => leave_out(tables, &own, &mut links),
        _ => Vec::new(),
    };
    // One that could not be taken in is not the port's, whatever has its name.
    links.retain(|device, _| !elsewhere.absent.contains_key(*device));
    let uplink = links.get(tables.uplink.as_str());
    let underlay_mtu = uplink.map_or(WITHOUT_UPLINK, |link| link.mtu.min(mtu::IP_MOST));
    devices.ports = port_devices(tables, &links, (netlink, &elsewhere), &mut missing);
    devices.legs = legs::devices(tables, &links, netlink, &mut missing);
    notes.extend(down(tables, &links));
    notes.extend(port_masters(&devices.ports, &links));
    if !tables.remotes.is_empty() && uplink.is_some() {
        notes.extend(port_mtus(tables, &links, underlay_mtu));
    }
    let namespace = netns.map(str::to_owned);
    let names = other_names(tables, &links, &elsewhere);
    if unfit != Unfit::LeftOut && !names.is_empty() {
        return Err(HostError::OtherNames { names, namespace });
    }
    for name in &names {
        let (device, of) = (&name.device.device, &name.of);
        let reason = format!("its device {device} is another name of device {of}: write {of}");
        notes.extend(finding::unfit(&name.device, &reason));
    }
    let no_uplink = uplink.is_none().then(|| UnfitDevice {
        device: tables.uplink.to_string(),
        used_as: UsedAs::Uplink,
        by: Vec::new(),
        elsewhere: None,
    });
    if unfit == Unfit::LeftOut {
        // Guests of this host reach each other without it.
        missing.extend(no_uplink);
    } else if uplink.is_none() || (is_strict && !missing.is_empty()) {
        let (errors, besides) = if is_strict {
            (missing, Vec::new())
        } else {
            (Vec::new(), missing)
        };
        return Err(HostError::MissingDevices {
            devices: no_uplink.into_iter().chain(errors).collect(),
            besides,
            namespace,
        });
    }
    let devices_without_frames = layer3(tables, &links);
    if !devices_without_frames.is_empty() {
        return Err(HostError::Layer3Devices {
            devices: devices_without_frames,
            namespace,
        });
    }
    own_addresses::check(tables, &own, namespace.as_deref())?;
    if let Some(uplink) = uplink {
        let checked =
            check_address(tables, &own, namespace).and_then(|()| check_mtu(tables, uplink.mtu));
        match checked {
            Err(error) if unfit == Unfit::LeftOut => {
                notes.extend(finding::of_error(tables.host.as_str(), &error));
            }
            checked => checked?,
        }
    }
    devices.uplink_ifindex = uplink.map_or(0, |uplink| uplink.index);
    devices.underlay_mtu = underlay_mtu;
    let coalescing = receive_helper::decide(tables, &links, netlink)?;
    devices.port_shared = matches!(coalescing, Coalescing::OtherDevice(_));
    let is_geneve = tables.tunnel.encapsulation == Encapsulation::Geneve;
    let mut detours = BTreeSet::new();
    // Without remotes nothing comes out of a tunnel.
    if let Some(uplink) = uplink.filter(|_| !tables.remotes.is_empty()) {
        detours.insert(Detour::Unmarker);
        // Who switched GRO off on the uplink wants segments: a guest may read raw frames.
        if matches!(coalescing, Coalescing::None(_)) && is_geneve && has_feature(uplink, "rx-gro") {
            detours.extend(Detour::ALL);
        }
    }
    let coalescing = match coalescing {
        Coalescing::OwnDevice => true,
        // The coalescer does it.
        Coalescing::None(_) if detours.contains(&Detour::Coalescer) => false,
        Coalescing::OtherDevice(note) | Coalescing::None(note) => {
            notes.push(note);
            false
        }
    };
    let next_hops = match uplink {
        Some(uplink) => next_hops(tables, netlink, uplink.index, &mut notes)?,
        None => BTreeSet::new(),
    };
    for note in &mut notes {
        *note = note.clone().in_namespace(netns);
    }
    Ok(Resolved {
        devices,
        next_hops,
        coalescing,
        detours,
        links: links_of(tables, &links),
        coming: elsewhere.coming,
        missing,
        other_names: names.into_iter().map(|name| name.device.device).collect(),
        notes,
    })
}

/// Each once.
fn links_of(tables: &Tables, links: &Links<'_>) -> Vec<Link> {
    let ports = tables.ports.iter().map(|port| &port.attachment.device);
    let legs = tables.legs().map(|(_, device)| device);
    let names: BTreeSet<_> = ports.chain(legs).chain([&tables.uplink]).collect();
    let found = names
        .into_iter()
        .filter_map(|name| links.get(name.as_str()));
    found.map(|link| (*link).clone()).collect()
}

/// Takes devices that no port and no leg can use out of the links. Says why.
fn leave_out(tables: &Tables, own: &[HostAddress], links: &mut Links<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for device in layer3(tables, links) {
        if device.used_as != UsedAs::Uplink {
            links.remove(device.device.as_str());
            let reason = format!("its device {} carries no Ethernet frames", device.device);
            rows.extend(finding::unfit(&device, &reason));
        }
    }
    for taken in own_addresses::taken(tables, own) {
        let mut legs = tables.legs();
        let leg = legs.find(|(router, _)| router.name.as_str() == taken.router);
        if let Some((_, device)) = leg {
            links.remove(device.as_str());
            let device = UnfitDevice {
                device: device.to_string(),
                used_as: UsedAs::Leg,
                by: vec![taken.router.clone()],
                elsewhere: None,
            };
            let reason = format!("its router would take packets from this host: {taken}");
            rows.extend(finding::unfit(&device, &reason));
        }
    }
    rows
}

/// Names that devices have beside their own (`altname`): no packet comes from a device of such a name.
fn other_names(tables: &Tables, links: &Links<'_>, elsewhere: &Elsewhere) -> Vec<OtherName> {
    let of = |device: &str| {
        if links.contains_key(device) {
            return None;
        }
        if let Some(Absence::OtherName(of)) = elsewhere.absent.get(device).map(|it| &it.why) {
            return Some(of.clone());
        }
        let mut links = links.values();
        let link = links.find(|link| link.has_altname(device));
        Some(link?.name.clone())
    };
    let names = used(tables).into_iter().filter_map(|device| {
        let of = of(&device.device)?;
        Some(OtherName { device, of })
    });
    names.collect()
}

/// Devices that carry no frames: programs and templates begin with an Ethernet header.
fn layer3(tables: &Tables, links: &Links<'_>) -> Vec<UnfitDevice> {
    let is_layer3 = |device: &UnfitDevice| {
        let link = links.get(device.device.as_str());
        link.is_some_and(|link| link.is_layer3)
    };
    used(tables).into_iter().filter(is_layer3).collect()
}

/// The devices of the fabric, each with what it is for.
fn used(tables: &Tables) -> Vec<UnfitDevice> {
    let uplink = std::iter::once((&tables.uplink, UsedAs::Uplink, None));
    let ports = tables.ports.iter().map(|port| {
        let name = Some(port.name.to_string());
        (&port.attachment.device, UsedAs::Port, name)
    });
    let legs = tables.legs();
    let legs = legs.map(|(router, device)| (device, UsedAs::Leg, Some(router.name.to_string())));
    let used = uplink
        .chain(ports)
        .chain(legs)
        .map(|(device, used_as, by)| UnfitDevice {
            device: device.to_string(),
            used_as,
            by: by.into_iter().collect(),
            elsewhere: None,
        });
    used.collect()
}

/// The ports' devices that are there; the others are added to `missing`.
fn port_devices(
    tables: &Tables,
    links: &Links<'_>,
    (netlink, elsewhere): (&Netlink, &Elsewhere),
    missing: &mut Vec<UnfitDevice>,
) -> BTreeMap<DeviceName, PortDevice> {
    let mut devices = BTreeMap::new();
    let mut users: BTreeMap<&DeviceName, Vec<String>> = BTreeMap::new();
    for port in &tables.ports {
        let device = &port.attachment.device;
        if devices.contains_key(device) {
            continue;
        }
        if let Some(link) = links.get(device.as_str()) {
            let port = PortDevice {
                ifindex: link.index,
                peer: link.peer_in_other_netns,
                takes_no_mark: match elsewhere.of(device.as_str()) {
                    Some(coming) => !coming.takes_mark,
                    None => !takes_mark(link, netlink),
                },
                mtu: link.mtu,
            };
            devices.insert(device.clone(), port);
        } else {
            users.entry(device).or_default().push(port.name.to_string());
        }
    }
    // A trunk is missed once, whatever number of ports it is.
    missing.extend(users.into_iter().map(|(device, by)| UnfitDevice {
        device: device.to_string(),
        used_as: UsedAs::Port,
        elsewhere: elsewhere.absent.get(device.as_str()).cloned(),
        by,
    }));
    devices
}

/// Devices of the fabric that are there, and down.
fn down(tables: &Tables, links: &Links<'_>) -> Vec<Row> {
    let is_down = |device: &str| links.get(device).is_some_and(|link| !link.up);
    let down = users(tables).filter(|(.., device)| is_down(device));
    down.map(|(object, user, device)| finding::down((object, user), device))
        .collect()
}

/// Ports, legs and the uplink, and the device of each.
pub(crate) fn users(tables: &Tables) -> impl Iterator<Item = (Object, &str, &str)> {
    let ports = tables.ports.iter();
    let ports = ports.map(|port| {
        let device = port.attachment.device.as_str();
        (Object::Port, port.name.as_str(), device)
    });
    let legs = tables.legs();
    let legs = legs.map(|(_, leg)| (Object::Leg, leg.as_str(), leg.as_str()));
    let uplink = tables.uplink.as_str();
    ports.chain(legs).chain([(Object::Uplink, uplink, uplink)])
}

/// Devices of ports that are also ports of a bridge or of another master.
fn port_masters(ports: &BTreeMap<DeviceName, PortDevice>, links: &Links<'_>) -> Vec<Row> {
    let by_index: BTreeMap<u32, &Link> = links.values().map(|link| (link.index, *link)).collect();
    let note = |device: &DeviceName| {
        let master = by_index.get(&links.get(device.as_str())?.master?)?;
        let kind = master.kind.as_deref().unwrap_or("device");
        Some(finding::port_master(device.as_str(), &master.name, kind))
    };
    ports.keys().filter_map(note).collect()
}

/// Ports whose devices take more than fits into the underlay.
fn port_mtus(tables: &Tables, links: &Links<'_>, underlay_mtu: u32) -> Vec<Row> {
    let note = |port: &PortTable| {
        let device = port.attachment.device.as_str();
        let mtu = links.get(device)?.mtu;
        let fits = tables.largest_packet(port, underlay_mtu);
        (mtu > fits).then(|| finding::port_mtu(port.name.as_str(), device, mtu, fits))
    };
    tables.ports.iter().filter_map(note).collect()
}

fn check_address(
    tables: &Tables,
    own: &[HostAddress],
    namespace: Option<String>,
) -> Result<(), HostError> {
    let uplink = tables.uplink.as_str();
    let is_vtep = |own: &HostAddress| own.device == uplink && own.address == tables.vtep;
    if own.iter().any(is_vtep) {
        return Ok(());
    }
    Err(HostError::NoVtepAddress {
        uplink: uplink.to_owned(),
        address: tables.vtep,
        namespace,
    })
}

fn check_mtu(tables: &Tables, mtu: u32) -> Result<(), HostError> {
    let needs = mtu::least_uplink(tables.longest_header(), tables.vtep.is_ipv6());
    if mtu >= needs {
        return Ok(());
    }
    Err(HostError::MtuTooSmall {
        uplink: tables.uplink.to_string(),
        mtu,
        needs,
    })
}

/// The neighbour each remote is reached through. A remote without a route is told, not refused: routes
/// may come later, and until then its packets have a drop reason of their own.
fn next_hops(
    tables: &Tables,
    netlink: &Netlink,
    uplink: u32,
    notes: &mut Vec<Row>,
) -> Result<BTreeSet<Spot>, HostError> {
    let mut next_hops = BTreeSet::new();
    for remote in &tables.remotes {
        match next_hop(netlink, uplink, remote.addr) {
            Ok(Some(address)) => {
                let known = netlink.neighbour(tables.uplink.as_str(), address)?;
                // A static entry is the user's, and as good as one the kernel keeps resolved for us.
                if known.is_none_or(|known| known.state != Nud::Permanent) {
                    next_hops.insert(Spot {
                        device: tables.uplink.to_string(),
                        address: Some(address),
                    });
                }
            }
            Err(error) if error.is_permission() => return Err(error.into()),
            _ => notes.push(finding::no_route(
                remote.name.as_str(),
                remote.addr,
                tables.uplink.as_str(),
            )),
        }
    }
    Ok(next_hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_preempt_rt_is_refused() {
        let plain = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.6-1 (2024-12-21)\n";
        let rt = "#1 SMP PREEMPT_RT Debian 6.12.6-1 (2024-12-21)\n";
        for realtime in ["", "0\n"] {
            check_preemption(realtime, plain).unwrap();
        }
        for (realtime, version) in [("1\n", plain), ("1", ""), ("", rt), ("1\n", rt)] {
            let error = check_preemption(realtime, version).unwrap_err();
            assert!(error.to_string().contains("PREEMPT_RT"), "{error}");
            assert!(error.help().is_some());
        }
    }
}
