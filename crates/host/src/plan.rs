//! The plan: from what should be and what is, the steps that lead from one to the other, in an order in
//! which no packet meets a half-made fabric: add, then settings, then programs, then delete.

mod entries;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use overlane_ebpf::counters::{Counted, Moves};
use overlane_ebpf::devices::named;
use overlane_ebpf::tables::{Contents, Table};
use overlane_ebpf::{DataPath, Program};
use overlane_model::Tables;

use crate::announce::Rest;
use crate::answers::Answer;
use crate::current::Current;
use crate::detours::{Detour, is_inside};
use crate::groups::{Group, Groups};
use crate::legs::legs;
use crate::paths::{self, GRO, SEGMENTER, SEGMENTER_OUT};
use crate::preflight::Resolved;
use crate::promiscuous::Promiscuous;
use crate::report::Change;
use crate::state::{NetnsId, NextHop};
use crate::{devices, guard};

/// One thing to do. Devices are looked up when a step runs: earlier steps may have created them.
#[derive(Debug)]
pub(crate) enum Step {
    /// Drop what comes in by ports' devices without a program: one family.
    Guard(guard::Job),
    /// Delete what an interrupted run put aside.
    Discard(&'static str),
    /// Put a broken device of ours out of the way.
    Aside {
        name: &'static str,
        to: &'static str,
    },
    /// Create the segmenter.
    Segmenter,
    /// Create the GRO device.
    Gro,
    /// Create a detour, in place of what there is of it. Nothing goes into it yet.
    Detour(Detour),
    /// Have the kernel hold these devices, and those of ours that were created: it says then when one goes. What is kept
    /// has to be held still.
    Hold {
        new: BTreeSet<u32>,
        kept: BTreeSet<u32>,
    },
    /// Their programs are attached: frames may go into the detours that were created.
    OpenDetours,
    /// Bring the GRO device up again.
    RaiseGro,
    /// Promiscuous mode of a device.
    Promiscuous { device: String, on: bool },
    /// Let the kernel keep a neighbour resolved.
    Manage(NextHop),
    /// Let the kernel join a multicast group.
    Join(Group),
    /// Forget what is left of connections under the keys of ports (switch and key) that have come to this host.
    ForgetConnections(BTreeSet<(u32, u16)>),
    /// Packets of these ports have passed without their firewalls.
    PickUpConnections(BTreeSet<(u32, u16)>),
    /// Write entries, new or changed.
    Put { table: Table, entries: Vec<Entry> },
    /// Give counters their new numbers; what is new begins at zero.
    MoveCounters(Counted),
    /// Wait until no packet is at work with what was just replaced.
    Settle,
    /// Write the settings, with our devices as they are by now.
    Settings { old: Option<Vec<u8>> },
    /// Take the counters of the set before over.
    CarryCounters { from: PathBuf },
    /// Take away a half-made folder that stands where the new set will be pinned.
    Clear(PathBuf),
    /// Pin the new set.
    PinMaps(PathBuf),
    /// Attach a program; in place of a dead link of the same name, if there is one. `ifindex`: of the device when it was
    /// looked at; 0: it was not there.
    Attach {
        program: Program,
        device: String,
        ifindex: u32,
    },
    /// Give a living link the new program.
    Replace {
        program: Program,
        device: String,
        ifindex: u32,
        old_program: u32,
    },
    /// Take a link away.
    Detach(String),
    /// Delete entries.
    Delete { table: Table, entries: Vec<Entry> },
    /// Stop keeping a neighbour resolved.
    Release(NextHop),
    /// Leave a multicast group.
    Leave(Group),
}

impl Plan {
    /// What differs in the guard.
    pub(crate) fn guard(&self) -> impl Iterator<Item = &guard::Job> {
        self.steps.iter().filter_map(|step| match step {
            Step::Guard(job) => Some(job),
            _ => None,
        })
    }
}

/// What cannot be undone and runs last, when all else succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cleanup {
    /// Delete a device of ours.
    Device(String),
    /// Take a detour away.
    Detour(Detour),
    /// Unpin a map set.
    Maps(PathBuf),
    /// No longer hold these devices.
    Release(BTreeSet<u32>),
    /// Forget the connections of who left: ports, by switch and key, and routers that translate here no longer.
    Connections(BTreeSet<(u32, u16)>),
}

/// One entry of a map, with the value it has now.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
}

/// All there is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) cleanups: Vec<Cleanup>,
    pub(crate) changes: Vec<Change>,
    /// Every program and the device that it should be attached to.
    pub(crate) hooks: Vec<(Program, String)>,
    /// Programs that links need anew.
    pub(crate) load: BTreeSet<Program>,
    /// Programs that are attached elsewhere and are attached again, by their numbers: the kernel has verified them.
    pub(crate) running: BTreeMap<Program, u32>,
    /// The maps are new.
    pub(crate) new_set: bool,
    /// Which counters get another number.
    pub(crate) moves: BTreeMap<Counted, Moves>,
}

/// What should be.
pub(crate) struct Target<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) resolved: &'a Resolved,
    /// With the index of each device of ours that is right, else 0.
    pub(crate) contents: &'a Contents,
    pub(crate) data_path: &'a DataPath<'a>,
    pub(crate) netns_id: NetnsId,
    pub(crate) promiscuous: &'a Promiscuous,
    pub(crate) groups: &'a Groups,
    pub(crate) answers: &'a BTreeSet<Answer>,
    /// What is to be announced once all is done.
    pub(crate) due: &'a Rest,
}

/// Compares and decides.
pub(crate) fn plan(target: &Target<'_>, current: &Current) -> Plan {
    let mut plan = Plan {
        steps: Vec::new(),
        cleanups: Vec::new(),
        changes: Vec::new(),
        hooks: Vec::new(),
        load: BTreeSet::new(),
        running: BTreeMap::new(),
        new_set: current.maps.is_none(),
        moves: entries::moves(target, current),
    };
    // Before a port has its program: what it may send alone is nothing.
    let guard = guard::jobs(target.tables, &current.guard);
    plan.steps.extend(guard.into_iter().map(Step::Guard));
    let fresh = plan_devices(target, current, &mut plan);
    if target.promiscuous.switch_on {
        plan.steps.push(Step::Promiscuous {
            device: target.tables.uplink.to_string(),
            on: true,
        });
    }
    plan_neighbours(target, &mut plan);
    plan_held(target, current, &fresh, &mut plan);
    entries::plan_entries(target, current, &fresh, &mut plan);
    plan_maps(target, current, &mut plan);
    let links = plan_links(target, current, &fresh, &mut plan);
    if plan
        .steps
        .iter()
        .any(|step| matches!(step, Step::Detour(_)))
    {
        plan.steps.push(Step::OpenDetours);
    }
    plan_deletions(target, current, &links, &mut plan);
    entries::forget_replaced(target, current, &mut plan);
    entries::forget_gone(target, current, &mut plan);
    plan.changes = words::changes(target, current, &plan, &fresh);
    plan
}

/// Names of the devices that the plan creates.
type Fresh = BTreeSet<&'static str>;

fn plan_devices(target: &Target<'_>, current: &Current, plan: &mut Plan) -> Fresh {
    let mut fresh = Fresh::new();
    let device = |name: &str| current.devices.get(name);
    for (_, aside) in paths::ASIDE {
        if device(aside).is_some() {
            plan.steps.push(Step::Discard(aside));
        }
    }
    if !devices::segmenter_is_right(device(SEGMENTER), device(SEGMENTER_OUT)) {
        put_aside(current, plan, &[SEGMENTER, SEGMENTER_OUT]);
        plan.steps.push(Step::Segmenter);
        fresh.extend([SEGMENTER, SEGMENTER_OUT]);
    }
    plan_gro(target, current, plan, &mut fresh);
    plan_detours(target, current, plan, &mut fresh);
    fresh
}

fn plan_detours(target: &Target<'_>, current: &Current, plan: &mut Plan, fresh: &mut Fresh) {
    let is_there = |name: &&str| current.devices.contains_key(*name);
    for detour in Detour::ALL {
        if !target.resolved.detours.contains(&detour) {
            let has_namespace = detour == Detour::Unmarker && current.unmarker_namespace;
            if has_namespace || detour.devices().iter().any(is_there) {
                plan.cleanups.push(Cleanup::Detour(detour));
            }
        } else if !detour.is_right(&current.devices) || fresh.contains(Detour::Unmarker.entrance())
        {
            // The coalescer goes with the unmarker, in whose namespace it ends.
            plan.steps.push(Step::Detour(detour));
            fresh.extend(detour.devices());
            fresh.extend(detour.hooks().iter().map(|(_, device)| *device));
        }
    }
}

fn plan_gro(target: &Target<'_>, current: &Current, plan: &mut Plan, fresh: &mut Fresh) {
    let tunnel = &target.tables.tunnel;
    let gro = current.devices.get(GRO);
    if !target.resolved.coalescing {
        plan.cleanups
            .extend(gro.map(|_| Cleanup::Device(GRO.to_owned())));
        return;
    }
    match gro {
        Some(gro) if devices::gro_is_of(gro, tunnel) => {
            if !gro.up {
                plan.steps.push(Step::RaiseGro);
            }
            return;
        }
        // One port cannot have two.
        Some(gro) if gro.udp_port == Some(tunnel.port) => plan.steps.push(Step::Discard(GRO)),
        _ => put_aside(current, plan, &[GRO]),
    }
    plan.steps.push(Step::Gro);
    fresh.insert(GRO);
}

/// Before anything is sent to them. The step finds the devices that earlier steps made by their names.
fn plan_held(target: &Target<'_>, current: &Current, fresh: &Fresh, plan: &mut Plan) {
    let ours = devices::ours().filter(|name| !fresh.contains(name));
    let ours = ours.filter_map(|name| Some(current.devices.get(name)?.index));
    let mut wanted = named(target.contents);
    wanted.extend(ours);
    let surplus: BTreeSet<u32> = current.held.difference(&wanted).copied().collect();
    if !surplus.is_empty() {
        plan.cleanups.push(Cleanup::Release(surplus));
    }
    let held = current.held_in(target.netns_id);
    let (kept, new): (BTreeSet<u32>, _) = wanted.iter().partition(|index| held.contains(index));
    if !fresh.is_empty() || !new.is_empty() {
        plan.steps.push(Step::Hold { new, kept });
    }
}

fn put_aside(current: &Current, plan: &mut Plan, names: &[&str]) {
    for (name, to) in paths::ASIDE
        .into_iter()
        .filter(|(name, _)| names.contains(name))
    {
        if current.devices.contains_key(name) {
            plan.steps.push(Step::Aside { name, to });
            plan.cleanups.push(Cleanup::Device(to.to_owned()));
        }
    }
}

fn plan_neighbours(target: &Target<'_>, plan: &mut Plan) {
    plan.steps
        .extend(target.resolved.unmanaged.iter().cloned().map(Step::Manage));
    let groups = &target.groups.join;
    plan.steps.extend(groups.iter().cloned().map(Step::Join));
}

fn plan_maps(target: &Target<'_>, current: &Current, plan: &mut Plan) {
    let host = target.tables.host.as_str();
    let own = paths::map_set(host, target.data_path.signature());
    for set in &current.stale_sets {
        if *set == own {
            plan.steps.push(Step::Clear(own.clone()));
        } else {
            plan.cleanups.push(Cleanup::Maps(set.clone()));
        }
    }
    if !plan.new_set {
        return;
    }
    let old = current
        .state
        .as_ref()
        .map(|state| paths::map_set(host, &state.map_signature));
    if let Some(from) = old.filter(|old| *old != own && current.stale_sets.contains(old)) {
        plan.steps.push(Step::CarryCounters { from });
    }
    plan.steps.push(Step::PinMaps(own));
}

/// Decides for each link and returns the names of those that should be.
fn plan_links(
    target: &Target<'_>,
    current: &Current,
    fresh: &Fresh,
    plan: &mut Plan,
) -> BTreeSet<String> {
    let devices = &target.resolved.devices;
    let index = |name: &str| current.devices.get(name).map_or(0, |link| link.index);
    // First the devices of ours: ports send into them.
    let mut wanted: Vec<(Program, String, u32)> = vec![(
        Program::FromPort,
        SEGMENTER_OUT.to_owned(),
        index(SEGMENTER_OUT),
    )];
    if target.resolved.coalescing {
        wanted.push((Program::FromGroDevice, GRO.to_owned(), index(GRO)));
    }
    let detours = target.resolved.detours.iter();
    let hooks = detours.flat_map(|detour| detour.hooks());
    wanted.extend(hooks.map(|(program, device)| (*program, (*device).to_owned(), index(device))));
    // A device once, whatever number of ports it is.
    let mut seen = BTreeSet::new();
    wanted.extend(target.tables.ports.iter().filter_map(|port| {
        let device = &port.attachment.device;
        let ifindex = devices.ports.get(device)?.ifindex;
        seen.insert(device)
            .then(|| (Program::FromPort, device.to_string(), ifindex))
    }));
    wanted.extend(legs(target.tables).filter_map(|(_, device)| {
        let ifindex = devices.legs.get(device)?.ifindex;
        Some((Program::FromLeg, device.to_string(), ifindex))
    }));
    // Last: nothing comes out of the tunnel before there is somewhere to go.
    wanted.push((
        Program::FromUnderlay,
        target.tables.uplink.to_string(),
        devices.uplink_ifindex,
    ));

    let same_build = current.state.as_ref().filter(|state| {
        !plan.new_set
            && state.object_digest == target.data_path.digest()
            && state.map_signature == target.data_path.signature()
    });
    // Interface indices of another namespace mean nothing here.
    let same_netns = current
        .state
        .as_ref()
        .is_none_or(|state| state.netns_id == target.netns_id);
    let held = current.held_in(target.netns_id);
    let mut names = BTreeSet::new();
    // Programs for a device that has a link under another name, until that is detached. The kernel takes a program
    // only once at a hook, so these are loaded anew.
    let mut renamed = BTreeSet::new();
    let hooks = wanted
        .iter()
        .filter(|(_, device, _)| !fresh.contains(device.as_str()));
    plan.hooks = hooks
        .map(|(program, device, _)| (*program, device.clone()))
        .collect();
    for (program, device, ifindex) in wanted {
        let name = paths::link(program, &device);
        let alive = current.links.get(&name).copied().flatten().filter(|info| {
            // A device that has left the namespace takes its link along, and another one may have its index here.
            let is_held = plan.new_set || held.contains(&ifindex) || is_inside(&device);
            let is_here = same_netns && info.ifindex == Some(ifindex);
            is_here && is_held && !fresh.contains(device.as_str())
        });
        match alive {
            Some(info) => {
                let known = same_build.and_then(|state| state.programs.get(&name).copied());
                if known == Some(info.program_id) {
                    plan.running.insert(program, info.program_id);
                } else {
                    plan.load.insert(program);
                    plan.steps.push(Step::Replace {
                        program,
                        device,
                        ifindex,
                        old_program: info.program_id,
                    });
                }
            }
            None => {
                let mut links = current.links.values().flatten();
                if links.any(|link| link.ifindex == Some(ifindex)) {
                    renamed.insert(program);
                }
                plan.load.insert(program);
                let was_there = !fresh.contains(device.as_str());
                plan.steps.push(Step::Attach {
                    program,
                    device,
                    ifindex: if was_there { ifindex } else { 0 },
                });
            }
        }
        names.insert(name);
    }
    let (load, running) = (&mut plan.load, &mut plan.running);
    running.retain(|program, _| !renamed.contains(program) && load.remove(program));
    names
}

fn plan_deletions(
    target: &Target<'_>,
    current: &Current,
    links: &BTreeSet<String>,
    plan: &mut Plan,
) {
    for name in current.links.keys().filter(|name| !links.contains(*name)) {
        plan.steps.push(Step::Detach(name.clone()));
    }
    entries::plan_deletions(target, current, plan);
    let ours = current.ours_in(target.netns_id).neighbours;
    for next_hop in ours.difference(&target.resolved.next_hops) {
        plan.steps.push(Step::Release(next_hop.clone()));
    }
    let groups = &target.groups.leave;
    plan.steps.extend(groups.iter().cloned().map(Step::Leave));
    let off = target.promiscuous.switch_off.iter();
    plan.steps.extend(off.map(|device| Step::Promiscuous {
        device: device.clone(),
        on: false,
    }));
}
