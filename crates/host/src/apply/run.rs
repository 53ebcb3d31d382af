//! `apply`: makes this machine carry the tables of one host, changing only what differs.

use std::cell::OnceCell;

use overlane_ebpf::preflight::{self, OLDEST_TESTED};
use overlane_ebpf::tables::encode_beside;
use overlane_ebpf::{DataPath, Loaded, abilities};
use overlane_model::{PortTable, Report as Warnings, Tables};
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, Netlink};

use super::declared::Declared;
use super::resolve::{self, Unfit, resolve};
use super::{greeting, mend, questions};
use crate::HostError;
use crate::kinds::{Current, Look, NO_DEVICE, Plan, Resolved, Target, Testing, hooks, segmenter};
use crate::lib::detour::Detour;
use crate::lib::elsewhere::{Elsewhere, NotTaken};
use crate::lib::files;
use crate::lib::holder::Holder;
use crate::lib::lock::Lock;
use crate::lib::paths::{self, SEGMENTER, SEGMENTER_OUT};
use crate::live::announcer as announce;
use crate::report::{Announced, Object, Report, Row, finding};
use crate::state::answers::answers;
use crate::state::tells::{MOST, Tells, tells};
use crate::state::{self, DeviceState, NetnsId, State, former};
use crate::watch::capture;

/// What to apply, and how.
pub struct ApplyRequest<'a> {
    /// What the host should carry.
    pub declared: Declared<'a>,
    /// Named network namespace of the host (`/run/netns/NAME`); none for the one this process is in.
    pub netns: Option<&'a str>,
    /// Only say what would change.
    pub dry_run: bool,
    /// Refuse when the device of a port or of a leg is missing, in place of applying what is there.
    pub strict: bool,
    /// A port or a leg that cannot be applied does not stop the others: the report says which failed. Otherwise any
    /// failure takes all back.
    pub each_alone: bool,
    /// Nobody asked for it. What somebody should know of stays told: a device's lower MTU, for example.
    pub unasked: bool,
    /// Who repeats the announcements, and makes those that have to wait for a device.
    pub rest_by: RestBy,
    /// Called once with the warnings of the fabric file, if it has any.
    pub on_warnings: &'a dyn Fn(&Warnings),
    /// Called once if another process holds the host's lock, before waiting for it.
    pub on_wait: &'a dyn Fn(&Holder),
    /// For tests of this crate.
    #[doc(hidden)]
    pub testing: Testing<'a>,
}

/// Who goes on with the announcements when `apply` has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestBy {
    /// The caller, by [`Report::announcements`].
    Caller,
    /// A process of this program that outlives the caller.
    Process,
}

impl<'a> ApplyRequest<'a> {
    /// A request in the current namespace that changes the machine, waits silently and leaves the rest of the
    /// announcements to the caller.
    pub fn new(declared: impl Into<Declared<'a>>) -> Self {
        Self {
            declared: declared.into(),
            netns: None,
            dry_run: false,
            strict: false,
            each_alone: false,
            unasked: false,
            rest_by: RestBy::Caller,
            on_warnings: &|_| (),
            on_wait: &|_| (),
            testing: Testing::default(),
        }
    }
}

/// Makes this machine as `request.declared` says. On any error it is as it was before. When a device went between the
/// look at it and its use, all is looked at a second time.
pub fn apply(request: &ApplyRequest<'_>) -> Result<Report, HostError> {
    // On an old kernel nothing else is worth mending.
    preflight::check_kernel()?;
    let (mut tables, mut last_netns) = request.declared.read(request.on_warnings)?;
    resolve::machine(&tables)?;
    let host = tables.host.to_string();
    let host = host.as_str();
    // A dry run of a host that never was applied must not leave even a lock file.
    let lock = if request.dry_run && !files::is_there(&paths::lock(host)) {
        None
    } else {
        Some(Lock::acquire(host, request.on_wait)?)
    };
    if matches!(request.declared, Declared::Last { .. }) {
        (tables, last_netns) = request.declared.read(request.on_warnings)?;
    }
    let netns_name = request.netns.or(last_netns.as_deref());
    let netns = match netns_name {
        Some(name) if !netns::exists(name) => return Err(HostError::NoNamespace(name.to_owned())),
        Some(name) => Netns::open(name)?,
        None => Netns::current()?,
    };
    let run = |not_taken: &NotTaken| {
        let job = Job {
            tables: &tables,
            netns: netns_name,
            dry_run: request.dry_run,
            strict: request.strict,
            each_alone: request.each_alone,
            unasked: request.unasked,
            not_taken,
            testing: request.testing,
        };
        netns.run(|| job.run()).map_err(HostError::from).flatten()
    };
    let mut not_taken = NotTaken::new();
    let mut result = loop {
        let result = match run(&not_taken) {
            Err(error) if error.is_device_gone() => run(&not_taken),
            other => other,
        };
        match &result {
            // All was put back. Another time, without this one.
            Err(error @ HostError::NotTakenIn { device, .. }) if request.each_alone => {
                let why = (error.to_string(), error.help());
                if not_taken.insert(device.clone(), why).is_some() {
                    break result;
                }
            }
            _ => break result,
        }
    };
    if let Some(lock) = lock.filter(|_| !files::is_there(&paths::state(host))) {
        lock.remove_file();
    }
    if let (Ok(report), RestBy::Process) = (&mut result, request.rest_by)
        && let Some(Err(error)) = report.announcements.take().map(|rest| rest.start())
    {
        report
            .notes
            .push(finding::announced_once(&error.to_string()));
    }
    result
}

/// The part of a request that can go to the thread in the namespace.
struct Job<'a> {
    tables: &'a Tables,
    netns: Option<&'a str>,
    dry_run: bool,
    strict: bool,
    each_alone: bool,
    unasked: bool,
    not_taken: &'a NotTaken,
    testing: Testing<'a>,
}

impl Job<'_> {
    /// Runs in the host's namespace, under its lock.
    fn run(&self) -> Result<Report, HostError> {
        let host = self.tables.host.as_str();
        let netlink = Netlink::new()?;
        let data_path = match self.testing.object {
            Some(object) => DataPath::new(object)?,
            None => DataPath::embedded()?,
        };
        resolve::namespace(host)?;
        let here = state::netns_id()?;
        let mut links = netlink.links()?;
        let elsewhere = Elsewhere::look(self.tables, &links, self.not_taken)?;
        links.extend(elsewhere.links());
        let look = (&netlink, &links[..], elsewhere);
        let mut resolved = resolve(self.tables, look, self.netns, self.unfit())?;
        let mut notes = std::mem::take(&mut resolved.notes);
        notes.extend(not_taken_in(self.tables, self.not_taken));
        let mut current = Current::read(host, &data_path, links)?;
        // An older file has names only.
        if let Some(state) = &mut current.state {
            state.complete(self.tables);
        }
        let target = target(self.tables, resolved, &data_path, &current)?;
        let before = current.state_in(here);
        let tells = tells_after(before, &target, &current)?;
        if tells.too_many > 0 {
            notes.push(finding::not_told(tells.too_many, MOST));
        }
        let due = announce::due(host, before, &target, tells.all)?;
        let loaded = OnceCell::new();
        let plan = Look::new(host, Some(&target), &current, &netlink, here).plan()?;
        let end = self.end_state(&target, &current, &plan, here);
        let differs = !plan.is_empty() || mend::differs(&end, &current);
        notes.extend(hooks::check(host, &plan.hooks, &current, &netlink)?);
        notes.extend(machine_notes(host, &current)?);
        let mut report = Report {
            dry_run: self.dry_run,
            missing: target.resolved.to_make().cloned().collect(),
            notes,
            next_hops: (target.resolved.next_hops.iter())
                .filter_map(|next_hop| next_hop.address)
                .collect(),
            devices: (target.resolved.links.iter())
                .chain(current.devices.values())
                .map(|link| (link.name.clone(), link.index))
                .collect(),
            ..Report::new(host)
        };
        // Where nothing differs, an earlier run goes on with what it has left.
        if differs {
            report.announced = Announced::of(due.untold());
        }
        if self.dry_run {
            let before = current.state.as_ref().map(|state| &state.refused);
            plan.predict(before.unwrap_or(&Default::default()), &mut report);
            return Ok(report);
        }
        // A set of another build goes, and with it what is left on there.
        if let Some(maps) = &current.maps {
            capture::recover_in(host, maps)?;
        }
        let mut done = Ok(());
        if differs {
            report.is_silent = plan.is_silent();
            done = mend::run(
                (self.testing, self.each_alone),
                (&target, &current, &netlink),
                &loaded,
                plan,
                end,
                &mut report,
            );
        }
        // Where nothing differs too: a run that was killed may have left them in motion.
        let settled = stand_still(&current, loaded.get());
        done?;
        settled?;
        if differs {
            mend::announce(&due, (target.tables, &netlink), &mut report);
        }
        questions::ask(target.tables, &netlink);
        greeting::greet(&target, &mut report);
        Ok(report)
    }

    const fn unfit(&self) -> Unfit {
        match (self.strict, self.each_alone) {
            (true, _) => Unfit::Refused,
            (false, true) => Unfit::LeftOut,
            (false, false) => Unfit::RefusedUnlessMissing,
        }
    }

    /// The state after success, without the programs that are attached.
    fn end_state(
        &self,
        target: &Target<'_>,
        current: &Current,
        plan: &Plan<'_>,
        here: NetnsId,
    ) -> State {
        let mut state = State::of(target.tables);
        state.rule_numbers = State::numbers_of_rules(target.tables, &target.contents);
        state.netns = self.netns.map(str::to_owned);
        state.netns_id = here;
        let missing = target.resolved.missing.iter();
        state.missing = missing.map(|missing| missing.device.clone()).collect();
        let before = current.state_in(here);
        let device = |link: &Link| {
            let before = before.and_then(|before| before.devices.get(&link.name));
            let mut now = DeviceState::of(link, before);
            let same = before.filter(|before| before.ifindex == now.ifindex && self.unasked);
            now.mtu = same.map_or(now.mtu, |before| before.mtu.max(now.mtu));
            (link.name.clone(), now)
        };
        state.devices = target.resolved.links.iter().map(device).collect();
        state.object_digest = target.data_path.digest().to_owned();
        state.map_signature = target.data_path.signature().to_owned();
        state.ours = plan.ours.clone();
        state.answers = target.answers.clone();
        state.former = before.map_or_else(Vec::new, |before| {
            former((&before.tables, &before.former), target.tables)
        });
        let known = current.state.iter().flat_map(|before| &before.programs);
        state.programs = known
            .filter(|(name, _)| plan.links.contains(*name) && current.links.contains_key(*name))
            .map(|(name, id)| (name.clone(), *id))
            .collect();
        state
    }
}

/// What the stations of switches are told, after what the tables before said.
fn tells_after(
    before: Option<&State>,
    target: &Target<'_>,
    current: &Current,
) -> Result<Tells, HostError> {
    let (Some(before), Some(maps)) = (before, &current.maps) else {
        return Ok(Tells::default());
    };
    let ours = abilities::who_said(maps)?;
    let remotes = target.tables.remotes.iter();
    // Who takes OVN's option names ports, and so is told of MACs by whoever runs it.
    let peers = remotes.filter(|remote| !remote.names_ports && !ours.contains(&remote.addr));
    let peers = peers.map(|remote| remote.addr).collect();
    let links = &target.resolved.links;
    Ok(tells(
        (&before.tables, &before.former),
        target.tables,
        links,
        &peers,
    ))
}

/// Whatever came of a run: nobody writes the maps any more, neither those that were there nor those that it loaded.
fn stand_still(current: &Current, loaded: Option<&Loaded>) -> Result<(), HostError> {
    let loaded = loaded.map(|loaded| &loaded.maps);
    for maps in current.maps.iter().chain(loaded) {
        maps.stand_still()?;
    }
    Ok(())
}

/// What the tables mean on this machine, with the devices of ours that are right.
pub(crate) fn target<'a>(
    tables: &'a Tables,
    mut resolved: Resolved,
    data_path: &'a DataPath<'a>,
    current: &Current,
) -> Result<Target<'a>, HostError> {
    resolved.devices.secret = current.secret();
    resolved.devices.cookie_key = current.cookie_key();
    resolved.devices.netns_cookie = netns::current_cookie()?;
    if resolved.devices.uplink_ifindex == 0 {
        // 0 is of maps that nobody filled.
        resolved.devices.uplink_ifindex = NO_DEVICE;
    }
    let index = |name: &str| current.devices.get(name).map_or(0, |link| link.index);
    let mut with_ours = resolved.devices.clone();
    if segmenter::is_right(&current.devices) {
        with_ours.segmenter_ifindex = index(SEGMENTER);
        with_ours.segmenter_out_ifindex = index(SEGMENTER_OUT);
    }
    for detour in Detour::ALL {
        if resolved.detours.contains(&detour) && detour.is_right(&current.devices) {
            detour.set_index(&mut with_ours, index(detour.entrance()));
        }
    }
    Ok(Target {
        contents: encode_beside(tables, &with_ours, &current.contents)?,
        answers: answers(tables, &resolved.links),
        tables,
        resolved,
        data_path,
    })
}

/// Ports whose devices could not be taken in from another network namespace.
fn not_taken_in(tables: &Tables, not_taken: &NotTaken) -> Vec<Row> {
    let row = |port: &PortTable| {
        let (reason, help) = not_taken.get(port.attachment.device.as_str())?;
        let thing = (Object::Port, port.name.as_str());
        Some(finding::failed(thing, reason, help.as_deref()))
    };
    tables.ports.iter().filter_map(row).collect()
}

/// What is to be known of the machine and of the last run.
fn machine_notes(host: &str, current: &Current) -> Result<Vec<Row>, HostError> {
    let running = preflight::untested_kernel()?;
    let untested = running.map(|running| {
        let oldest = OLDEST_TESTED.to_string();
        finding::kernel_untested(&running, &oldest)
    });
    let is_shut_in = preflight::is_shut_in();
    let state = current.state.as_ref();
    let is_interrupted = state.is_some_and(|state| state.in_progress);
    let notes = [
        untested,
        is_shut_in.then(|| finding::shut_in(host)),
        is_interrupted.then(|| finding::interrupted(host)),
    ];
    Ok(notes.into_iter().flatten().collect())
}
