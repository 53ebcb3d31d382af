//! Carries a plan out, step by step, each with its way back in the journal.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use overlane_ebpf::connections::{self, Forgetter};
use overlane_ebpf::counters::{self, Counted};
use overlane_ebpf::devices as held;
use overlane_ebpf::links::{HeldProgram, Link as BpfLink, unpin};
use overlane_ebpf::maps::{MapSet, settle, unpin_folder};
use overlane_ebpf::tables::{self, Table};
use overlane_ebpf::{Loaded, Program, abi, learned, neighbours};
use overlane_net::{NetError, Netlink, nftables};
use zerocopy::{FromBytes, IntoBytes};

use crate::detours::{self, Detour};
use crate::groups::Group;
use crate::journal::Journal;
use crate::paths::{self, GRO, SEGMENTER, SEGMENTER_OUT};
use crate::plan::{Cleanup, Entry, Plan, Step, Target};
use crate::record::Record;
use crate::state::{NextHop, State};
use crate::{HostError, Note, devices, files, guard, hooks};

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
        let old = Record::read(&host)?;
        let ours = Record::ours_in(end.netns_id, old.as_ref(), before);
        self.journal.before()?;
        let undone = host.clone();
        self.journal.push(move || match old {
            Some(old) => old.write(&undone),
            None => Record::remove(&undone),
        });
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

    fn discard(&mut self, name: &str) -> Result<(), HostError> {
        self.journal.before()?;
        Ok(self.netlink.delete(name)?)
    }

    fn aside(&mut self, name: &'static str, to: &'static str) -> Result<(), HostError> {
        self.journal.before()?;
        self.netlink.rename(name, to)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.rename(to, name)?));
        Ok(())
    }

    fn segmenter(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        devices::add_segmenter(self.netlink)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.delete(SEGMENTER)?));
        self.journal.before()?;
        Ok(devices::finish_segmenter(self.netlink)?)
    }

    /// Whatever the kernel answers is no reason to give up. EPERM here does not mean that rights are missing: the
    /// kernel refuses a Geneve device in external mode beside another one on its port, whose namespace may be another.
    fn gro(&mut self, notes: &mut Vec<Note>) -> Result<(), HostError> {
        self.journal.before()?;
        let (netlink, tables) = (self.netlink, self.target.tables);
        let (tunnel, ipv6) = (&tables.tunnel, tables.vtep.is_ipv6());
        let result =
            devices::add_gro(netlink, tunnel, ipv6).and_then(|()| devices::finish_gro(netlink));
        match result {
            Ok(()) => self.journal.push(move || Ok(netlink.delete(GRO)?)),
            Err(error) => {
                let port = tunnel.port;
                let reason = error.to_string();
                // Created, but its port could not be opened.
                let _ = netlink.delete(GRO);
                self.state.gro_refused = Some(reason.clone());
                notes.push(Note::NoGro { port, reason });
            }
        }
        Ok(())
    }

    /// Packets do without: the straight way is slower, or a remote segments what it could have sent whole.
    fn detour(&mut self, detour: Detour, notes: &mut Vec<Note>) -> Result<(), HostError> {
        self.journal.before()?;
        let (netlink, host) = (self.netlink, self.target.tables.host.as_str());
        self.close(detour)?;
        if detour == Detour::Unmarker {
            // It ends in the same namespace.
            self.close(Detour::Coalescer)?;
        }
        detour.discard(host, netlink)?;
        match detour.make(host, netlink) {
            Ok(()) => self
                .journal
                .push(move || Ok(detour.discard(host, netlink).map(drop)?)),
            Err(error) => {
                let reason = error.to_string();
                detour.discard(host, netlink)?;
                let name = detour.name().to_owned();
                self.state.detours_refused.insert(name, reason.clone());
                notes.push(Note::NoDetour { detour, reason });
            }
        }
        Ok(())
    }

    /// No frame goes into a device that is about to go. Has no way back: after a failure there is no such device.
    fn close(&mut self, detour: Detour) -> Result<(), HostError> {
        for (key, value) in self.maps.entries(Table::Settings)? {
            if let Ok(mut settings) = abi::Settings::read_from_bytes(&value) {
                detour.close(&mut settings);
                self.maps.put(Table::Settings, &key, settings.as_bytes())?;
            }
        }
        self.closed.insert(detour);
        Ok(())
    }

    fn open_detours(&mut self) -> Result<(), HostError> {
        self.closed.clear();
        self.settings()
    }

    fn raise_gro(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        self.netlink.set_up(GRO)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.set_down(GRO)?));
        Ok(())
    }

    fn promiscuous(&mut self, device: &'a str, on: bool) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        match netlink.link(device) {
            Ok(link) if link.promiscuous == on => return Ok(()),
            // It is gone, and its mode with it.
            Err(error) if error.is_not_found() && !on => return Ok(()),
            other => other.map(drop)?,
        }
        netlink.set_promiscuous(device, on)?;
        self.journal
            .push(move || unless_gone(netlink.set_promiscuous(device, !on)));
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

    fn put(&mut self, table: Table, entries: &'a [Entry]) -> Result<(), HostError> {
        let maps = self.maps;
        for entry in entries {
            self.journal.before()?;
            self.journal
                .push(move || put_back(maps, table, &entry.key, entry.old.as_deref()));
            maps.put(table, &entry.key, &entry.new)?;
        }
        Ok(())
    }

    /// Devices of ours may be younger than the plan, or refused.
    fn hold(&mut self, new: &BTreeSet<u32>, kept: &BTreeSet<u32>) -> Result<(), HostError> {
        let maps = self.maps;
        let ours = devices::ours().filter_map(|name| self.netlink.link(name).ok());
        let mut wanted: BTreeSet<u32> = ours.map(|link| link.index).collect();
        wanted.extend(new);
        for ifindex in wanted.difference(kept).copied() {
            self.journal.before()?;
            held::hold(maps, ifindex)?;
            self.journal.push(move || Ok(held::release(maps, ifindex)?));
        }
        let held = held::held(maps)?;
        match kept.iter().find(|index| !held.contains(index)) {
            Some(index) => Err(held::gone(&format!("with index {index}")).into()),
            None => Ok(()),
        }
    }

    /// The device is the one that the plan looked at, and the maps hold it since.
    fn check_device(&self, device: &str, ifindex: u32, planned: u32) -> Result<(), HostError> {
        if planned != 0 && planned != ifindex {
            return Err(held::gone(device).into());
        }
        Ok(held::check(self.maps, device, ifindex)?)
    }

    /// Has no way back, and needs none: the connections are nobody's.
    fn forget_connections(&mut self, ports: &BTreeSet<(u32, u16)>) -> Result<(), HostError> {
        self.journal.before()?;
        let target = self.target;
        connections::forget_of(self.maps, ports, || forgetter(target))
    }

    /// Who knows less of a connection stops less of it. Undone it is the same: what follows takes a firewall away, or
    /// gives one.
    fn pick_up_connections(&mut self, ports: &'a BTreeSet<(u32, u16)>) -> Result<(), HostError> {
        let maps = self.maps;
        self.journal.before()?;
        (self.journal).push(move || Ok(connections::pick_up(maps, ports)?));
        Ok(connections::pick_up(self.maps, ports)?)
    }

    /// Has no way back, and needs none: the numbers that are given are not in use before, or those of rules that
    /// have changed places.
    fn move_counters(
        &mut self,
        what: Counted,
        from: &MapSet,
        plan: &Plan,
    ) -> Result<(), HostError> {
        self.journal.before()?;
        let moves = plan.moves.get(&what).map_or(&[][..], Vec::as_slice);
        Ok(counters::move_to(what, from, self.maps, moves)?)
    }

    /// Encoded again, because devices of ours may be younger than the plan.
    fn settings(&mut self) -> Result<(), HostError> {
        let mut devices = self.target.resolved.devices.clone();
        devices.segmenter_ifindex = self.netlink.link(SEGMENTER)?.index;
        devices.segmenter_out_ifindex = self.netlink.link(SEGMENTER_OUT)?.index;
        for detour in self.target.resolved.detours.difference(&self.closed) {
            // The kernel may have refused it.
            let entrance = self.netlink.link(detour.entrance()).ok();
            let index = entrance.map_or(0, |link| link.index);
            detour.set_index(&mut devices, index);
        }
        let settings = tables::settings(self.target.tables, &devices);
        let maps = self.maps;
        let mut before = maps.entries(Table::Settings)?;
        for (key, value) in &settings {
            self.journal.before()?;
            let (undo_key, old) = (key.clone(), before.remove(key));
            self.journal
                .push(move || put_back(maps, Table::Settings, &undo_key, old.as_deref()));
            maps.put(Table::Settings, key, value)?;
        }
        Ok(())
    }

    fn carry_counters(&mut self, from: &Path, plan: &Plan) -> Result<(), HostError> {
        self.journal.before()?;
        // A set of another build may lack maps; then counting begins anew.
        match MapSet::open_any(from, self.target.data_path.layouts()) {
            Ok(Some(old)) => {
                counters::carry_over(&old, self.maps)?;
                self.move_counters(Counted::Rules, &old, plan)
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn clear(&mut self, folder: &Path) -> Result<(), HostError> {
        self.journal.before()?;
        let unpinned = unpin_folder(folder)?;
        self.journal.push(move || Ok(unpinned.restore()?));
        Ok(())
    }

    fn pin_maps(&mut self, folder: &'a Path) -> Result<(), HostError> {
        self.journal.before()?;
        files::pin_folder(folder)?;
        self.journal
            .push(move || unpin_folder(folder).map(drop).map_err(Into::into));
        self.journal.before()?;
        Ok(self.maps.pin(folder)?)
    }

    fn attach(&mut self, program: Program, device: &str, planned: u32) -> Result<(), HostError> {
        let Some(loaded) = self.loaded else {
            return Ok(());
        };
        let name = paths::link(program, device);
        let path = paths::links(&self.state.host).join(&name);
        let inside = match detours::is_inside(device) {
            true => detours::open(&self.state.host).ok(),
            false => None,
        };
        let within = inside.as_ref().map(Netlink::in_netns).transpose()?;
        let netlink = within.as_ref().unwrap_or(self.netlink);
        let ifindex = match netlink.link(device) {
            // The kernel refused that device; the note says so.
            Err(error) if error.is_not_found() && is_optional(device) => {
                return self.detach_if_there(&path);
            }
            other => other?.index,
        };
        self.detach_if_there(&path)?;
        self.journal.before()?;
        let attach = || BpfLink::attach(loaded, program, device, ifindex);
        let link = match &inside {
            Some(netns) => netns.run(attach)??,
            None => attach()?,
        };
        if inside.is_none() {
            self.check_device(device, ifindex, planned)?;
        }
        link.pin(&path)?;
        // Held until the end: unpinning in an undo then detaches when the journal lets go of it.
        self.journal.push(move || {
            unpin(&path)?;
            drop(link);
            Ok(())
        });
        self.state
            .programs
            .insert(name, loaded.program(program)?.id());
        Ok(())
    }

    fn detach(&mut self, name: &str) -> Result<(), HostError> {
        let path = paths::links(&self.state.host).join(name);
        self.detach_if_there(&path)
    }

    fn detach_if_there(&mut self, path: &Path) -> Result<(), HostError> {
        let Some(link) = BpfLink::open(path)? else {
            return Ok(());
        };
        self.journal.before()?;
        unpin(path)?;
        let path = path.to_owned();
        self.journal.push(move || Ok(link.pin(&path)?));
        Ok(())
    }

    fn replace(
        &mut self,
        program: Program,
        device: &str,
        planned: u32,
        old_program: u32,
    ) -> Result<(), HostError> {
        let Some(loaded) = self.loaded else {
            return Ok(());
        };
        let name = paths::link(program, device);
        let path = paths::links(&self.state.host).join(&name);
        self.journal.before()?;
        let Some(link) = BpfLink::open(&path)? else {
            return self.attach(program, device, planned);
        };
        if !detours::is_inside(device) {
            let ifindex = self.netlink.link(device)?.index;
            self.check_device(device, ifindex, planned)?;
            if !hooks::is_at(device, ifindex, link.info()?)? {
                // It went along with a device that left the namespace.
                return self.attach(program, device, planned);
            }
        }
        let old = HeldProgram::by_id(old_program)?;
        let new = loaded.program(program)?;
        link.replace(new)?;
        self.journal.push(move || Ok(link.replace(&old)?));
        self.state.programs.insert(name, new.id());
        Ok(())
    }

    fn delete(&mut self, table: Table, entries: &'a [Entry]) -> Result<(), HostError> {
        let maps = self.maps;
        for entry in entries {
            self.journal.before()?;
            maps.delete(table, &entry.key)?;
            self.journal
                .push(move || put_back(maps, table, &entry.key, entry.old.as_deref()));
        }
        Ok(())
    }
}

/// A device that the kernel may have refused.
fn is_optional(device: &str) -> bool {
    let hooks = Detour::ALL.iter().flat_map(|detour| detour.hooks());
    device == GRO || hooks.into_iter().any(|(_, ours)| *ours == device)
}

/// Does what cannot be undone, after all else succeeded. What resists is told; the next apply finds it.
pub(crate) fn clean_up(
    target: &Target<'_>,
    cleanups: &[Cleanup],
    netlink: &Netlink,
    maps: &MapSet,
    notes: &mut Vec<Note>,
) {
    let host = target.tables.host.as_str();
    for cleanup in cleanups {
        let left_over = match cleanup {
            Cleanup::Device(name) => match netlink.delete(name) {
                Err(error) if !error.is_not_found() => {
                    Some((format!("device {name}"), error.to_string()))
                }
                _ => None,
            },
            Cleanup::Detour(detour) => match detour.discard(host, netlink) {
                Err(error) => Some((format!("device {}", detour.entrance()), error.to_string())),
                Ok(_) => None,
            },
            Cleanup::Maps(folder) => match unpin_folder(folder) {
                Err(error) => Some((format!("map set {}", folder.display()), error.to_string())),
                Ok(_) => None,
            },
            Cleanup::Release(devices) => {
                let released = devices.iter().map(|&index| held::release(maps, index));
                let mut errors = released
                    .filter_map(Result::err)
                    .collect::<Vec<_>>()
                    .into_iter();
                errors
                    .next()
                    .map(|error| ("devices in the maps".to_owned(), error.to_string()))
            }
            Cleanup::Connections(of) => {
                match connections::forget_of(maps, of, || forgetter(target)) {
                    Err(error) => Some((
                        "connections of ports that left".to_owned(),
                        error.to_string(),
                    )),
                    Ok(()) => None,
                }
            }
        };
        notes.extend(left_over.map(|(what, reason)| Note::LeftOver { what, reason }));
    }
}

/// For the set of maps that is there: a new one has no connections.
fn forgetter(target: &Target<'_>) -> Result<Forgetter, HostError> {
    let host = target.tables.host.as_str();
    let pins = paths::map_set(host, target.data_path.signature());
    Ok(Forgetter::load(target.data_path, &pins)?)
}

/// What went with its device needs no way back.
fn unless_gone(done: Result<(), NetError>) -> Result<(), HostError> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

fn put_back(maps: &MapSet, table: Table, key: &[u8], old: Option<&[u8]>) -> Result<(), HostError> {
    match old {
        Some(old) => Ok(maps.put(table, key, old)?),
        // The entries of an array cannot be deleted, and of a new set they need not.
        None if table.is_array() => Ok(()),
        None => Ok(maps.delete(table, key)?),
    }
}

fn remove_folder(folder: &Path) -> Result<(), HostError> {
    fs::remove_dir(folder).map_err(HostError::file("remove", folder))?;
    // The shared one goes with its last host.
    let _ = fs::remove_dir(paths::PINS);
    Ok(())
}
