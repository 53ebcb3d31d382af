//! Programs at the hooks of devices, and the links that hold them there. A link that lives gets the new program in
//! place of the old one, so that no packet passes without any.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use overlane_ebpf::devices as held;
use overlane_ebpf::links::{HeldProgram, Link as BpfLink, unpin};
use overlane_ebpf::{Loaded, Program};
use overlane_net::Netlink;

use super::entries::write_settings;
use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Mending, Plan};
use super::target::{NO_DEVICE, Target};
use super::{carried, hooks, inside};
use crate::HostError;
use crate::lib::detour::{Detour, is_inside};
use crate::lib::paths::{self, GRO, SEGMENTER_OUT};
use crate::report::{Object, Row};

/// A program at the hook of each device of the fabric, and of ours.
pub(crate) struct Programs;

/// A program that should be at a device. `ifindex`: of the device when it was looked at; 0: it was not there.
#[derive(Clone)]
struct Hook {
    program: Program,
    device: String,
    ifindex: u32,
    /// Whose fault it is, should it not be there.
    things: Vec<(Object, String)>,
}

impl Kind for Programs {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        if let Some(target) = look.target {
            let hooks = wanted(target, look);
            let is_old = |hook: &&Hook| !plan.fresh.contains(hook.device.as_str());
            plan.hooks = (hooks.iter().filter(is_old))
                .map(|hook| (hook.program, hook.device.clone()))
                .collect();
            carried::lead(target, look, plan);
            attach_all(target, look, plan, hooks);
            tell_uplink(target, look, plan);
            // Their programs are attached: frames may go into the detours that were created.
            if Detour::ALL
                .iter()
                .any(|it| plan.fresh.contains(it.entrance()))
            {
                plan.add(Deed::new(None, move |mending| {
                    mending.closed.clear();
                    write_settings(target, mending)?;
                    Ok(Done::Yes)
                }));
            }
        }
        let surplus = look.current.links.keys();
        for name in surplus
            .filter(|name| !plan.links.contains(*name))
            .cloned()
            .collect::<Vec<_>>()
        {
            // People know the port or the leg, but where all goes.
            let row = look
                .target
                .is_none()
                .then(|| Row::remove(Object::Link, &name));
            let path = paths::links(look.host).join(name);
            plan.delete(Deed::new(row, move |mending| {
                detach(&path, mending)?;
                Ok(Done::Yes)
            }));
        }
        Ok(())
    }
}

/// In their order: ports send into the devices of ours, and the uplink is last.
fn wanted(target: &Target<'_>, look: &Look<'_>) -> Vec<Hook> {
    let of_ours = |program, device: &str| Hook {
        program,
        device: device.to_owned(),
        ifindex: look
            .current
            .devices
            .get(device)
            .map_or(0, |link| link.index),
        things: Vec::new(),
    };
    let resolved = &target.resolved;
    let mut hooks = vec![of_ours(Program::FromPort, SEGMENTER_OUT)];
    hooks.extend(
        resolved
            .coalescing
            .then(|| of_ours(Program::FromGroDevice, GRO)),
    );
    let detours = resolved.detours.iter().flat_map(|detour| detour.hooks());
    hooks.extend(detours.map(|(program, device)| of_ours(*program, device)));
    // A device once, whatever number of ports it is.
    let mut ports_of: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for port in &target.tables.ports {
        let things = ports_of.entry(&port.attachment.device).or_default();
        things.push((Object::Port, port.name.to_string()));
    }
    hooks.extend(ports_of.into_iter().filter_map(|(device, things)| {
        Some(Hook {
            program: Program::FromPort,
            device: device.to_string(),
            ifindex: resolved.devices.ports.get(device)?.ifindex,
            things,
        })
    }));
    hooks.extend(target.tables.legs().filter_map(|(_, device)| {
        Some(Hook {
            program: Program::FromLeg,
            device: device.to_string(),
            ifindex: resolved.devices.legs.get(device)?.ifindex,
            things: vec![(Object::Leg, device.to_string())],
        })
    }));
    // Nothing comes out of the tunnel before there is somewhere to go.
    hooks.extend(
        (resolved.devices.uplink_ifindex != NO_DEVICE).then(|| Hook {
            program: Program::FromUnderlay,
            device: target.tables.uplink.to_string(),
            ifindex: resolved.devices.uplink_ifindex,
            things: Vec::new(),
        }),
    );
    hooks
}

fn attach_all<'a>(target: &Target<'_>, look: &Look<'a>, plan: &mut Plan<'a>, hooks: Vec<Hook>) {
    let current = look.current;
    let state = current.state.as_ref();
    // A run that was killed may have led all hooks to its own data path.
    let same_build = state.filter(|state| {
        !plan.new_set
            && !state.in_progress
            && state.object_digest == target.data_path.digest()
            && state.map_signature == target.data_path.signature()
    });
    // Indices of devices of another namespace mean nothing here.
    let same_netns = state.is_none_or(|state| state.netns_id == look.here);
    let held = current.held_in(look.here);
    // Programs for a device that has a link under another name, until that is detached. The kernel takes a program
    // only once at a hook, so these are loaded anew.
    let mut renamed = BTreeSet::new();
    let mut replaced = 0;
    for hook in hooks {
        let (program, ifindex) = (hook.program, hook.ifindex);
        let name = paths::link(program, &hook.device);
        let was_there = !plan.fresh.contains(hook.device.as_str());
        let alive = current.links.get(&name).copied().flatten().filter(|info| {
            // A device that has left the namespace takes its link along, and another one may have its index here.
            let is_held = plan.new_set || held.contains(&ifindex) || is_inside(&hook.device);
            let is_here = same_netns && info.ifindex == Some(ifindex);
            is_here && is_held && was_there
        });
        let host = look.host;
        match alive {
            Some(info) => {
                let known = same_build.and_then(|state| state.programs.get(&name).copied());
                if known == Some(info.program_id) {
                    plan.running.insert(program, info.program_id);
                } else {
                    plan.load.insert(program);
                    replaced += 1;
                    let old = info.program_id;
                    plan.add(Deed::new(None, move |mending| {
                        replace(host, &hook, old, mending)
                    }));
                }
            }
            None => {
                let mut links = current.links.values().flatten();
                if links.any(|link| link.ifindex == Some(ifindex)) {
                    renamed.insert(program);
                }
                plan.load.insert(program);
                plan.attached.insert(hook.device.clone());
                let row = was_there.then(|| row_of(target, look, &hook)).flatten();
                let hook = Hook {
                    ifindex: if was_there { ifindex } else { 0 },
                    ..hook
                };
                let things = hook.things.clone();
                let deed = Deed::new(row, move |mending| attach(host, &hook, mending));
                plan.add(deed.alone(things));
            }
        }
        plan.links.insert(name);
    }
    if replaced > 0 {
        let s = if replaced == 1 { "" } else { "s" };
        let maps = if plan.new_set { " and maps" } else { "" };
        let what = format!("new programs{maps} on {replaced} device{s}");
        plan.tell(Row::modify(Object::DataPath, "").differs(what));
    }
    let (load, running) = (&mut plan.load, &mut plan.running);
    running.retain(|program, _| !renamed.contains(program) && load.remove(program));
}

/// Ports and legs are told by name, with all else that differs of them.
fn row_of(target: &Target<'_>, look: &Look<'_>, hook: &Hook) -> Option<Row> {
    let state = look.current.state.as_ref();
    let device = hook.device.as_str();
    if !hook.things.is_empty() {
        return None;
    }
    let uplink = &target.tables.uplink;
    Some(if device != uplink.as_str() {
        Row::modify(Object::Device, device).without_program()
    } else if state.is_some_and(|state| state.tables.uplink == *uplink) {
        Row::modify(Object::Uplink, device).without_program()
    } else {
        Row::add(Object::Uplink, device)
    })
}

fn tell_uplink(target: &Target<'_>, look: &Look<'_>, plan: &mut Plan<'_>) {
    let before = look
        .current
        .state
        .as_ref()
        .map(|state| &state.tables.uplink);
    if let Some(other) = before.filter(|before| **before != target.tables.uplink) {
        plan.tell(Row::remove(Object::Uplink, other));
    }
}

fn attach<'a>(host: &str, hook: &Hook, mending: &mut Mending<'a>) -> Result<Done, HostError> {
    let Some(loaded) = mending.loaded else {
        return Ok(Done::Nothing);
    };
    let device = hook.device.as_str();
    let name = paths::link(hook.program, device);
    let path = paths::links(host).join(&name);
    let inside = match is_inside(device) {
        true => inside::open(host).ok(),
        false => None,
    };
    let within = inside.as_ref().map(Netlink::in_netns).transpose()?;
    let netlink = within.as_ref().unwrap_or(mending.netlink);
    let ifindex = match netlink.link(device) {
        // The kernel refused that device; a row says so.
        Err(error) if error.is_not_found() && is_optional(device) => {
            detach(&path, mending)?;
            return Ok(Done::Nothing);
        }
        other => other?.index,
    };
    detach(&path, mending)?;
    lead(loaded, mending)?;
    mending.journal.before()?;
    let attach = || BpfLink::attach(loaded, hook.program, device, ifindex);
    let link = match &inside {
        Some(netns) => netns.run(attach)??,
        None => attach()?,
    };
    if inside.is_none() {
        check_device(hook, ifindex, mending)?;
    }
    link.pin(&path)?;
    // Held until the end: unpinning in an undo then detaches when the journal lets go of it.
    mending.journal.push(move || {
        unpin(&path)?;
        drop(link);
        Ok(())
    });
    let program = loaded.program(hook.program)?.id();
    mending.programs.insert(name, program);
    Ok(Done::Yes)
}

fn detach(path: &Path, mending: &mut Mending<'_>) -> Result<(), HostError> {
    let Some(link) = BpfLink::open(path)? else {
        return Ok(());
    };
    mending.journal.before()?;
    unpin(path)?;
    let path = path.to_owned();
    mending.journal.push(move || Ok(link.pin(&path)?));
    Ok(())
}

fn replace<'a>(
    host: &str,
    hook: &Hook,
    old_program: u32,
    mending: &mut Mending<'a>,
) -> Result<Done, HostError> {
    let Some(loaded) = mending.loaded else {
        return Ok(Done::Nothing);
    };
    let name = paths::link(hook.program, &hook.device);
    let path = paths::links(host).join(&name);
    mending.journal.before()?;
    let Some(link) = BpfLink::open(&path)? else {
        return attach(host, hook, mending);
    };
    if !is_inside(&hook.device) {
        let ifindex = mending.netlink.link(&hook.device)?.index;
        check_device(hook, ifindex, mending)?;
        if !hooks::is_at(&hook.device, ifindex, link.info()?)? {
            // It went along with a device that left the namespace.
            return attach(host, hook, mending);
        }
    }
    lead(loaded, mending)?;
    let old = HeldProgram::by_id(old_program)?;
    let new = loaded.program(hook.program)?;
    link.replace(new)?;
    mending.journal.push(move || Ok(link.replace(&old)?));
    mending.programs.insert(name, new.id());
    Ok(Done::Yes)
}

/// Before the first link has a program of this build: what the programs at hooks lead to.
fn lead<'a>(loaded: &'a Loaded, mending: &mut Mending<'a>) -> Result<(), HostError> {
    mending.journal.before()?;
    if let Some(before) = loaded.lead()? {
        let undo = move || Ok(loaded.lead_to(&before)?);
        mending.journal.push(undo);
    }
    Ok(())
}

/// The device is the one that the plan looked at, and the maps hold it since.
fn check_device(hook: &Hook, ifindex: u32, mending: &Mending<'_>) -> Result<(), HostError> {
    if hook.ifindex != 0 && hook.ifindex != ifindex {
        return Err(held::gone(&hook.device).into());
    }
    Ok(held::check(mending.maps()?, &hook.device, ifindex)?)
}

/// A device that the kernel may have refused.
fn is_optional(device: &str) -> bool {
    let hooks = Detour::ALL.iter().flat_map(|detour| detour.hooks());
    device == GRO || hooks.into_iter().any(|(_, ours)| *ours == device)
}
