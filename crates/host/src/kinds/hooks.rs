//! The tcx ingress hooks of our devices, as the kernel has them: whether our program is there, and who comes before it.
//! A pin says only that a link lives; the hook says what packets meet.
//!
//! An older data path of ours whose pins were lost is still at the hook, before the one that `apply` attaches, and takes
//! all packets. It has to go first. What somebody else has there is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use overlane_ebpf::links::{self, Link as BpfLink};
use overlane_ebpf::{HeldProgram, Hooked, LinkInfo, Program};
use overlane_net::Netlink;

use super::current::Current;
use super::inside;
use crate::HostError;
use crate::lib::detour::is_inside;
use crate::lib::error::Leftover;
use crate::lib::{files, paths};
use crate::report::{Row, finding};

/// A link whose pin was just taken away is at its hook for a moment.
const PARTING: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A program at the hook of a device.
#[derive(Debug)]
struct Earlier {
    device: String,
    program: String,
    at: Hooked,
}

/// What runs at the hook of a device before the link `own`; everything there when that is not at the hook.
fn earlier(hook: &[Hooked], own: Option<LinkInfo>) -> &[Hooked] {
    let own = own.and_then(|own| hook.iter().position(|at| at.link_id == own.id));
    &hook[..own.unwrap_or(hook.len())]
}

/// Whether a link is at the hook of this device, in the namespace of this thread.
pub(crate) fn is_at(device: &str, ifindex: u32, own: Option<LinkInfo>) -> Result<bool, HostError> {
    let Some(own) = own else {
        return Ok(false);
    };
    let hook = links::hooked(device, ifindex)?;
    Ok(hook.iter().any(|at| at.link_id == own.id))
}

/// Nothing of ours that no pin of this host holds is before our programs on `devices`. Who else is, is told.
pub(crate) fn check(
    host: &str,
    devices: &[(Program, String)],
    current: &Current,
    netlink: &Netlink,
) -> Result<Vec<Row>, HostError> {
    let end = Instant::now() + PARTING;
    loop {
        let (ours, others) = earlier_programs(host, devices, current, netlink)?;
        if ours.is_empty() {
            return Ok(others.into_iter().map(note).collect());
        }
        if Instant::now() > end {
            return Err(refusal(ours)?);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Who is before our programs right now.
pub(crate) fn look(
    host: &str,
    devices: &[(Program, String)],
    current: &Current,
    netlink: &Netlink,
) -> Result<Vec<Row>, HostError> {
    let (ours, others) = earlier_programs(host, devices, current, netlink)?;
    Ok(ours.into_iter().chain(others).map(note).collect())
}

/// Programs before ours: those that look like ours, and others.
fn earlier_programs(
    host: &str,
    devices: &[(Program, String)],
    current: &Current,
    netlink: &Netlink,
) -> Result<(Vec<Earlier>, Vec<Earlier>), HostError> {
    let all = devices.iter().map(|(program, device)| {
        let own = current.links.get(&paths::link(*program, device));
        earlier_on(host, device, own.copied().flatten(), netlink)
    });
    let all = all.collect::<Result<Vec<_>, _>>()?;
    // What a pin of this host holds is right, or `apply` takes it off: a device was renamed, or is used as another thing.
    let held = |at: &Hooked| {
        current
            .links
            .values()
            .flatten()
            .any(|own| own.id == at.link_id)
    };
    let earlier = all
        .into_iter()
        .flatten()
        .filter(|earlier| !held(&earlier.at));
    Ok(earlier.partition(is_of_ours))
}

fn earlier_on(
    host: &str,
    device: &str,
    own: Option<LinkInfo>,
    netlink: &Netlink,
) -> Result<Vec<Earlier>, HostError> {
    let look = |netlink: &Netlink| {
        let Ok(link) = netlink.link(device) else {
            return Ok(Vec::new());
        };
        let hook = links::hooked(device, link.index)?;
        let named = earlier(&hook, own).iter().filter_map(|&at| {
            // It may go meanwhile.
            let program = HeldProgram::by_id(at.program_id).ok()?.name().ok()?;
            Some(Earlier {
                device: device.to_owned(),
                program,
                at,
            })
        });
        Ok(named.collect())
    };
    if !is_inside(device) {
        return look(netlink);
    }
    match inside::open(host) {
        Ok(inside) => inside.run(|| look(&Netlink::new()?))?,
        // There is no such namespace yet.
        Err(_) => Ok(Vec::new()),
    }
}

fn is_of_ours(earlier: &Earlier) -> bool {
    let mut names = Program::ALL.iter().map(|program| program.name());
    names.any(|name| name == earlier.program)
}

fn note(earlier: Earlier) -> Row {
    let at = earlier.at;
    finding::earlier_program(&earlier.device, &earlier.program, at.program_id, at.link_id)
}

fn refusal(ours: Vec<Earlier>) -> Result<HostError, HostError> {
    let leftovers = ours.into_iter().map(|earlier| {
        Ok(Leftover {
            pinned_by: pinned_by(earlier.at.link_id)?,
            processes: holders(earlier.at.link_id),
            device: earlier.device,
            program: earlier.program,
            program_id: earlier.at.program_id,
            link_id: earlier.at.link_id,
        })
    });
    Ok(HostError::Leftovers(
        leftovers.collect::<Result<_, HostError>>()?,
    ))
}

/// The host whose pin holds a link.
fn pinned_by(link_id: u32) -> Result<Option<String>, HostError> {
    for host in files::names(Path::new(paths::PINS))? {
        let folder = Path::new(paths::PINS).join(&host).join("links");
        for name in files::names(&folder)? {
            let link = BpfLink::open(&folder.join(name))?;
            let info = link.map(|link| link.info()).transpose()?.flatten();
            if info.is_some_and(|info| info.id == link_id) {
                return Ok(Some(paths::unpin_name(&host)));
            }
        }
    }
    Ok(None)
}

/// Processes that hold a link open, as proc(5) says of their descriptors.
fn holders(link_id: u32) -> BTreeSet<u32> {
    let line = format!("link_id:\t{link_id}");
    let holds = |process: &u32| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
            return false;
        };
        let texts = descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
        texts
            .into_iter()
            .any(|text| text.lines().any(|it| it == line))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(holds).collect()
}

/// Pinned links of a host.
pub(crate) fn links(host: &str) -> Result<BTreeMap<String, Option<LinkInfo>>, HostError> {
    files::check_pins(host)?;
    let folder = paths::links(host);
    let mut links = BTreeMap::new();
    for name in files::names(&folder)? {
        let info = BpfLink::open(&folder.join(&name))?
            .map(|link| link.info())
            .transpose()?
            .flatten();
        links.insert(name, info);
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_our_own() {
        let hook = [5, 6, 7].map(|link_id| Hooked {
            program_id: link_id + 100,
            link_id,
        });
        let own = |id| LinkInfo {
            id,
            program_id: 1,
            ifindex: Some(1),
        };
        assert_eq!(earlier(&hook, Some(own(5))), []);
        assert_eq!(earlier(&hook, Some(own(7))), &hook[..2]);
        assert_eq!(earlier(&hook, Some(own(9))), hook);
        assert_eq!(earlier(&hook, None), hook);
    }

    #[test]
    fn only_names_of_ours_are_ours() {
        let at = Hooked {
            program_id: 1,
            link_id: 2,
        };
        let named = |program: &str| Earlier {
            device: "eth1".into(),
            program: program.into(),
            at,
        };
        assert!(is_of_ours(&named("from_gro_device")) && is_of_ours(&named("from_port")));
        assert!(!is_of_ours(&named("cil_from_netdev")));
    }
}
