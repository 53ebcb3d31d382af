//! Carries a plan out, step by step, each with its way back in the journal.

mod cleanup;
mod devices;
mod links;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use overlane_ebpf::maps::{MapSet, settle};
use overlane_ebpf::{Loaded, learned, neighbours};
use overlane_net::{NetError, Netlink, nftables};

pub(crate) use self::cleanup::clean_up;
use crate::detours::Detour;
use crate::groups::Group;
use crate::journal::Journal;
use crate::paths;
use crate::plan::{Plan, Step, Target};
use crate::record::Record;
use crate::state::{NextHop, State};
use crate::{HostError, Note, files, guard};

/// What the steps work with.
pub(crate) struct Executor<'a> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) netlink: &'a Netlink,
    /// The set the data path uses from now on.
    pub(crate) maps: &'a MapSet,
    pub(crate) loaded: Option<&'a Loaded>,
    pub(crate) journal: Journal<'a>,
    /// The state to be written in the end; filled on the way.
    pub(crate) state: State,
    /// Detours that were created and have no programs yet.
    pub(crate) closed: BTreeSet<Detour>,
}

impl<'a> Executor<'a> {
    /// Marks the beginning: from here on a killed run is visible, and what it may leave is in the file.
    pub(crate) fn begin(
        &mut self,
        before: Option<&State>,
        is_new_set: bool,
    ) -> Result<(), HostError> {
        let host = self.state.host.clone();
        for folder in [paths::pins(&host), paths::links(&host)] {
            if !files::is_there(&folder) {
                self.journal.before()?;
                files::host_folder(&folder)?;
                self.journal.push(move || remove_folder(&folder));
            }
        }
        let end = Record::of(&self.state);
        let ours = Record::ours_in(end.netns_id, Record::read(&host)?.as_ref(), before);
        let (undone, words) = (host.clone(), Record::words(&host)?);
        self.journal.before()?;
        self.journal.push(move || Record::put_back(&undone, &words));
        let ours = ours.and(&end.ours);
        Record { ours, ..end }.write(&host)?;
        let path = paths::state(&host);
        let old = files::read(&path)?;
        self.journal.before()?;
        let mut mark = before.cloned().unwrap_or_else(|| State {
            netns: self.state.netns.clone(),
            netns_id: self.state.netns_id,
            ports: Vec::new(),
            switches: Vec::new(),
            remotes: Vec::new(),
            rules: Vec::new(),
            routers: Vec::new(),
            answers: BTreeSet::new(),
            tunnel_port: 0,
            ..self.state.clone()
        });
        mark.in_progress = true;
        if is_new_set {
            // Programs with the maps before are not those of the set that is pinned from now on.
            mark.programs.clear();
        }
        mark.neighbours
            .extend(self.state.neighbours.iter().cloned());
        mark.promiscuous
            .extend(self.state.promiscuous.iter().cloned());
        mark.groups.extend(self.state.groups.iter().cloned());
        self.journal.push(move || match old {
            Some(old) => files::write(&path, &old),
            None => files::remove(&path).map(drop),
        });
        mark.write()
    }

    /// Does all steps. What the kernel may refuse without harm becomes a note.
    pub(crate) fn run(&mut self, plan: &'a Plan, notes: &mut Vec<Note>) -> Result<(), HostError> {
        for step in &plan.steps {
            match step {
                Step::Guard(job) => self.guard(job)?,
                Step::Discard(name) => self.discard(name)?,
                Step::Aside { name, to } => self.aside(name, to)?,
                Step::Segmenter => self.segmenter()?,
                Step::Gro => self.gro(notes)?,
                Step::Detour(detour) => self.detour(*detour, notes)?,
                Step::RaiseGro => self.raise_gro()?,
                Step::Promiscuous { device, on } => self.promiscuous(device, *on)?,
                Step::Manage(next_hop) => self.manage(next_hop)?,
                Step::Join(group) => self.join(group, notes)?,
                Step::ForgetConnections(ports) => self.forget_connections(ports)?,
                Step::PickUpConnections(ports) => self.pick_up_connections(ports)?,
                Step::Put { table, entries } => self.put(*table, entries)?,
                Step::Settings { .. } => self.settings()?,
                Step::Hold { new, kept } => self.hold(new, kept)?,
                Step::OpenDetours => self.open_detours()?,
                Step::MoveCounters(what) => self.move_counters(*what, self.maps, plan)?,
                Step::Settle => settle(),
                Step::CarryCounters { from } => self.carry_counters(from, plan)?,
                Step::Clear(folder) => self.clear(folder)?,
                Step::PinMaps(folder) => self.pin_maps(folder)?,
                Step::Attach {
                    program,
                    device,
                    ifindex,
                } => self.attach(*program, device, *ifindex)?,
                Step::Replace {
                    program,
                    device,
                    ifindex,
                    old_program,
                } => self.replace(*program, device, *ifindex, *old_program)?,
                Step::Detach(name) => self.detach(name)?,
                Step::Delete { table, entries } => self.delete(*table, entries)?,
                Step::Release(next_hop) => self.release(next_hop)?,
                Step::Leave(group) => self.leave(group)?,
            }
        }
        Ok(())
    }

    /// Forgets what was learned where the tables no longer allow it. Has no way back, and needs none: what is
    /// forgotten is learned again.
    pub(crate) fn forget(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        learned::prune(self.maps)?;
        Ok(neighbours::prune(self.maps)?)
    }

    /// Writes the final state: the apply counts as done.
    pub(crate) fn finish(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        // The undo of `begin` restores the file.
        self.state.write()?;
        self.journal.before()?;
        Record::of(&self.state).write(&self.state.host)
    }

    /// A kernel without nftables goes without; a note says what that leaves open.
    fn guard(&mut self, job: &'a guard::Job) -> Result<(), HostError> {
        self.journal.before()?;
        let host = self.target.tables.host.as_str();
        match job.run(host) {
            Ok(()) => self.journal.push(move || Ok(job.take_back(host)?)),
            Err(error) if nftables::is_unsupported(&error) => {
                let family = job.family.name().to_owned();
                self.state.guard_refused.insert(family, error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn manage(&mut self, next_hop: &'a NextHop) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        netlink.manage_neighbour(&next_hop.device, next_hop.address)?;
        self.journal.push(move || {
            unless_gone(netlink.delete_neighbour(&next_hop.device, next_hop.address))
        });
        Ok(())
    }

    fn release(&mut self, next_hop: &'a NextHop) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        match netlink.delete_neighbour(&next_hop.device, next_hop.address) {
            Ok(()) => self.journal.push(move || {
                unless_gone(netlink.manage_neighbour(&next_hop.device, next_hop.address))
            }),
            // The device, or the entry, is gone already.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A machine without IPv6 goes without; a note says so.
    fn join(&mut self, group: &'a Group, notes: &mut Vec<Note>) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        match group.join(netlink) {
            Ok(()) => self.journal.push(move || unless_gone(group.leave(netlink))),
            Err(error) if error.is_not_found() => return Err(error.into()),
            Err(error) => {
                self.state.groups.remove(group);
                notes.push(Note::NoGroup {
                    device: group.device.clone(),
                    address: group.of,
                    reason: error.to_string(),
                });
            }
        }
        Ok(())
    }

    fn leave(&mut self, group: &'a Group) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        match group.leave(netlink) {
            Ok(()) => self.journal.push(move || unless_gone(group.join(netlink))),
            // The device, or the entry, is gone already.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// What went with its device needs no way back.
fn unless_gone(done: Result<(), NetError>) -> Result<(), HostError> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

fn remove_folder(folder: &Path) -> Result<(), HostError> {
    fs::remove_dir(folder).map_err(HostError::file("remove", folder))?;
    // The shared one goes with its last host.
    let _ = fs::remove_dir(paths::PINS);
    Ok(())
}
