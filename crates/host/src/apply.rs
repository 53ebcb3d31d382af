//! `apply`: makes this machine carry the tables of one host, changing only what differs.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use overlane_ebpf::abilities;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::preflight::OLDEST_TESTED;
use overlane_ebpf::tables::encode_beside;
use overlane_ebpf::{DataPath, EbpfError, HeldProgram, Loaded};
use overlane_model::{Tables, cookie};
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, Netlink};

use crate::announce::{self, Rest};
use crate::answers::answers;
use crate::current::Current;
use crate::detours::Detour;
use crate::execute::{Executor, clean_up};
use crate::groups;
use crate::journal::Journal;
use crate::legs::legs;
use crate::lock::Lock;
use crate::paths::{self, GRO, SEGMENTER, SEGMENTER_OUT};
use crate::plan::{Plan, Step, Target, plan};
use crate::record::Record;
use crate::state::{self, DeviceState, State};
use crate::{
    Announced, ChangeKind, Holder, HostError, Note, Report, capture, devices, files, greeting,
    guard, hooks, preflight, promiscuous, questions,
};

/// What to apply, and how.
pub struct ApplyRequest<'a> {
    /// The tables of the host, compiled from the fabric file. `tables.host` names the host.
    pub tables: &'a Tables,
    /// Named network namespace of the host (`/run/netns/NAME`); none for the one this process is in.
    pub netns: Option<&'a str>,
    /// Only say what would change.
    pub dry_run: bool,
    /// Refuse when the device of a port or of a leg is missing, in place of applying what is there.
    pub strict: bool,
    /// Called once if another process holds the host's lock, before waiting for it.
    pub on_wait: &'a dyn Fn(&Holder),
    /// For tests of this crate.
    #[doc(hidden)]
    pub testing: Testing<'a>,
}

/// Levers for tests; the default does nothing.
#[doc(hidden)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Testing<'a> {
    /// Fail before this operation (0: the first).
    pub fail_at: Option<usize>,
    /// Die before this operation, as by `kill -9`.
    pub kill_at: Option<usize>,
    /// This device goes before this operation.
    pub lose_at: Option<(usize, &'a str)>,
    /// And another one has its name and its index then.
    pub replace_lost: bool,
    /// Another build of the data path.
    pub object: Option<&'a [u8]>,
}

impl<'a> ApplyRequest<'a> {
    /// A request for `tables` in the current namespace that changes the machine and waits silently.
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            netns: None,
            dry_run: false,
            strict: false,
            on_wait: &|_| (),
            testing: Testing::default(),
        }
    }
}

/// Longer than any round trip in a data centre.
const ANSWER_TIME: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Makes this machine as `request.tables` says. On any error it is as it was before. When a device went between the
/// look at it and its use, all is looked at a second time.
pub fn apply(request: &ApplyRequest<'_>) -> Result<Report, HostError> {
    let tables = request.tables;
    preflight::machine(tables)?;
    let netns = match request.netns {
        Some(name) if !netns::exists(name) => return Err(HostError::NoNamespace(name.to_owned())),
        Some(name) => Netns::open(name)?,
        None => Netns::current()?,
    };
    let host = tables.host.as_str();
    // A dry run of a host that never was applied must not leave even a lock file.
    let lock = if request.dry_run && !files::is_there(&paths::lock(host)) {
        None
    } else {
        Some(Lock::acquire(host, request.on_wait)?)
    };
    let job = Job {
        tables,
        netns: request.netns,
        dry_run: request.dry_run,
        strict: request.strict,
        testing: request.testing,
    };
    let run = || netns.run(|| job.run()).map_err(HostError::from).flatten();
    let result = match run() {
        Err(error) if error.is_device_gone() => run(),
        other => other,
    };
    if let Some(lock) = lock.filter(|_| !files::is_there(&paths::state(host))) {
        lock.remove_file();
    }
    result
}

/// The part of a request that can go to the thread in the namespace.
struct Job<'a> {
    tables: &'a Tables,
    netns: Option<&'a str>,
    dry_run: bool,
    strict: bool,
    testing: Testing<'a>,
}

impl Job<'_> {
    /// Runs in the host's namespace, under its lock.
    fn run(&self) -> Result<Report, HostError> {
        let tables = self.tables;
        let host = tables.host.as_str();
        let netlink = Netlink::new()?;
        let data_path = match self.testing.object {
            Some(object) => DataPath::new(object)?,
            None => DataPath::embedded()?,
        };
        preflight::namespace(host)?;
        let mut resolved = preflight::resolve(tables, &netlink, self.netns, self.strict)?;
        let current = Current::read(host, &data_path, &netlink)?;
        resolved.devices.secret = current.secret();
        resolved.devices.cookie_key = current.cookie_key();
        resolved.devices.netns_cookie = netns::current_cookie()?;

        let mut with_ours = resolved.devices.clone();
        let seg = current.devices.get(SEGMENTER);
        let out = current.devices.get(SEGMENTER_OUT);
        if devices::segmenter_is_right(seg, out) {
            with_ours.segmenter_ifindex = seg.map_or(0, |link| link.index);
            with_ours.segmenter_out_ifindex = out.map_or(0, |link| link.index);
        }
        for detour in &resolved.detours {
            if detour.is_right(&current.devices) {
                let entrance = current.devices.get(detour.entrance());
                let index = entrance.map_or(0, |link| link.index);
                detour.set_index(&mut with_ours, index);
            }
        }
        let contents = encode_beside(tables, &with_ours, &current.contents)?;
        let netns_id = state::netns_id()?;
        // Of another namespace nothing is ours here.
        let ours = current.ours_in(netns_id);
        let is_on = resolved.uplink_promiscuous;
        let promiscuous = promiscuous::decide(tables, is_on, &ours.promiscuous);
        let groups = groups::decide(tables, &resolved.links, &ours.groups, &netlink)?;
        let answers = answers(tables, &resolved.links);
        // Another namespace has other neighbours.
        let before = current.state.as_ref();
        let here = before.filter(|before| before.netns_id == netns_id);
        let due = announce::due(host, here, &answers)?;
        let target = Target {
            tables,
            resolved: &resolved,
            contents: &contents,
            data_path: &data_path,
            netns_id,
            promiscuous: &promiscuous,
            groups: &groups,
            answers: &answers,
            due: &due,
        };
        let plan = plan(&target, &current);
        let end = self.end_state(&target, &current);
        let differs = !plan.steps.is_empty()
            || !plan.cleanups.is_empty()
            || current.state.as_ref() != Some(&end)
            || !Record::of(&end).is_in(current.record.as_ref());
        // Where nothing differs, an earlier run goes on with what it has left.
        let announced = differs.then(|| Announced::of(due.untold()));

        let mut notes = resolved.notes.clone();
        notes.extend(hooks::check(host, &plan.hooks, &current, &netlink)?);
        notes.extend(untested_kernel()?);
        notes.extend(overlane_ebpf::preflight::is_shut_in().then_some(Note::ShutIn));
        if current
            .state
            .as_ref()
            .is_some_and(|state| state.in_progress)
        {
            notes.push(Note::Interrupted);
        }
        let mut report = Report {
            host: host.to_owned(),
            dry_run: self.dry_run,
            changes: plan.changes.clone(),
            missing: resolved.missing.clone(),
            announced: announced.unwrap_or_default(),
            notes,
            announcements: None,
        };
        if self.dry_run {
            forget_refused(&mut report, &plan, current.state.as_ref(), tables);
            return Ok(report);
        }
        // A set of another build goes, and with it what is left on there.
        if let Some(maps) = &current.maps {
            capture::recover_in(host, maps)?;
        }
        if differs {
            self.execute(&target, &current, &plan, &netlink, end, &mut report)?;
        }
        questions::ask(target.tables, &netlink);
        greet(&target, &mut report.notes);
        Ok(report)
    }

    fn execute(
        &self,
        target: &Target<'_>,
        current: &Current,
        plan: &Plan,
        netlink: &Netlink,
        end: State,
        report: &mut Report,
    ) -> Result<(), HostError> {
        // The verifier speaks before anything is changed.
        let needed = plan.new_set || !plan.load.is_empty() || !plan.running.is_empty();
        let loaded = needed.then(|| load(target, plan)).transpose()?;
        let maps = match (&loaded, &current.maps) {
            (_, Some(maps)) if !plan.new_set => maps,
            (Some(loaded), _) => &loaded.maps,
            // A new set is always loaded.
            (None, _) => return Err(HostError::OtherVersion(report.host.clone())),
        };
        let journal = Journal::new(self.testing);
        let mut executor = Executor {
            target,
            netlink,
            maps,
            loaded: loaded.as_ref(),
            journal,
            state: end,
            closed: BTreeSet::new(),
        };
        let done = executor
            .begin(current.state.as_ref(), plan.new_set)
            .and_then(|()| executor.run(plan, &mut report.notes))
            .and_then(|()| executor.forget())
            .and_then(|()| executor.finish());
        if let Err(cause) = done {
            return Err(executor.journal.roll_back(cause));
        }
        let refused = executor.state.gro_refused.is_some();
        let joined = target.groups.join.intersection(&executor.state.groups);
        let joined = groups::words(ChangeKind::Add, joined);
        let unguarded = std::mem::take(&mut executor.state.guard_refused);
        executor.journal.commit();
        announce(target.due, netlink, report);
        if refused {
            report.changes.retain(|change| !change.what.contains(GRO));
        }
        let wanted = groups::words(ChangeKind::Add, &target.groups.join);
        if joined != wanted {
            report.changes.retain(|change| !wanted.contains(change));
            report.changes.extend(joined);
        }
        guard::forget_refused(&report.host, plan.guard(), &unguarded, &mut report.changes);
        report.notes.extend(guard::note(&unguarded));
        for detour in Detour::ALL {
            if executor.state.detours_refused.contains_key(detour.name()) {
                forget_device(report, detour.entrance());
            }
        }
        clean_up(target, &plan.cleanups, netlink, maps, &mut report.notes);
        Ok(())
    }

    /// The state after success; the executor adds the programs that it attaches.
    fn end_state(&self, target: &Target<'_>, current: &Current) -> State {
        let before = current.state.as_ref();
        let mut state = State::of(target.tables);
        state.rules = State::rules_of(target.tables, target.contents);
        state.netns = self.netns.map(str::to_owned);
        state.netns_id = target.netns_id;
        let missing = target.resolved.missing.iter();
        state.missing = missing.map(|missing| missing.device.clone()).collect();
        // Indices of another namespace mean nothing here.
        let here = before.filter(|before| before.netns_id == target.netns_id);
        let device = |link: &Link| {
            let before = here.and_then(|before| before.devices.get(&link.name));
            (link.name.clone(), DeviceState::of(link, before))
        };
        state.devices = target.resolved.links.iter().map(device).collect();
        state.object_digest = target.data_path.digest().to_owned();
        state.map_signature = target.data_path.signature().to_owned();
        state.neighbours = target.resolved.next_hops.clone();
        state.promiscuous = target.promiscuous.ours.clone();
        state.groups = target.groups.ours.clone();
        state.answers = target.answers.clone();
        let devices = target
            .tables
            .ports
            .iter()
            .map(|port| port.attachment.device.to_string());
        let legs = legs(target.tables)
            .map(|(_, device)| paths::link(overlane_ebpf::Program::FromLeg, device.as_str()));
        let names: Vec<String> = devices
            .map(|device| paths::link(overlane_ebpf::Program::FromPort, &device))
            .chain(legs)
            .chain(Detour::links())
            .chain([
                paths::link(overlane_ebpf::Program::FromPort, SEGMENTER_OUT),
                paths::link(overlane_ebpf::Program::FromGroDevice, GRO),
                paths::link(
                    overlane_ebpf::Program::FromUnderlay,
                    target.tables.uplink.as_str(),
                ),
            ])
            .collect();
        let known = before.into_iter().flat_map(|before| &before.programs);
        state.programs = known
            .filter(|(name, _)| names.contains(name) && current.links.contains_key(*name))
            .map(|(name, id)| (name.clone(), *id))
            .collect();
        state
    }
}

/// All is applied already: what cannot be announced is no reason to fail.
fn announce(due: &Rest, netlink: &Netlink, report: &mut Report) {
    match announce::begin(&report.host, due.clone(), netlink) {
        Ok((down, left)) => {
            report.announcements = left;
            let waits = (!down.is_empty()).then(|| Note::AnnouncementWaits {
                devices: down.into_iter().collect(),
                seconds: announce::PATIENCE.as_secs(),
            });
            report.notes.extend(waits);
        }
        Err(error) => report.notes.push(Note::NotAnnounced {
            reason: error.to_string(),
        }),
    }
}

fn untested_kernel() -> Result<Option<Note>, HostError> {
    let running = overlane_ebpf::preflight::untested_kernel()?;
    Ok(running.map(|running| Note::KernelUntested {
        running,
        oldest_tested: OLDEST_TESTED.to_string(),
    }))
}

/// Leaves the verifier's log behind when it refuses a program, until a later load succeeds.
fn load(target: &Target<'_>, plan: &Plan) -> Result<Loaded, HostError> {
    let host = target.tables.host.as_str();
    let pins = paths::map_set(host, target.data_path.signature());
    let pins = (!plan.new_set).then_some(pins.as_path());
    let log = paths::verifier_log(host);
    let (mut wanted, mut running) = (plan.load.clone(), Vec::new());
    for (&program, &id) in &plan.running {
        match HeldProgram::by_id(id) {
            Ok(held) => running.push((program, held)),
            // It went with its device since then.
            Err(_) => {
                wanted.insert(program);
            }
        }
    }
    match target.data_path.load(&wanted, pins) {
        Ok(mut loaded) => {
            for (program, held) in running {
                loaded.take_in(program, held);
            }
            let _ = files::remove(&log);
            Ok(loaded)
        }
        Err(cause) => Err(with_log(cause, log)),
    }
}

/// What remotes said before may be out of date: they are asked anew. All is applied already: no reason to fail.
fn greet(target: &Target<'_>, notes: &mut Vec<Note>) {
    if let Err(error) = ask_remotes(target) {
        notes.push(Note::LeftOver {
            what: String::from("what remotes said of themselves"),
            reason: error.to_string(),
        });
    }
}

/// What they said holds until they say it again, which takes no longer than a round trip; who does not is another
/// build now, or away.
fn ask_remotes(target: &Target<'_>) -> Result<(), HostError> {
    let (tables, host) = (target.tables, target.tables.host.as_str());
    let folder = paths::map_set(host, target.data_path.signature());
    let Some(maps) = MapSet::open(&folder, target.data_path.layouts())? else {
        return Ok(());
    };
    let is_remote = |addr: IpAddr| tables.remotes.iter().any(|remote| remote.addr == addr);
    let mut is_waiting = abilities::doubt(&maps, is_remote)?;
    // Answers would be the other device's.
    if !target.resolved.devices.port_shared {
        let devices = &target.resolved.devices;
        let key = cookie::Key {
            secret: devices.secret,
            words: devices.cookie_key,
        };
        greeting::ask(tables, unmarks(target)?, key)?;
        let end = Instant::now() + ANSWER_TIME;
        while is_waiting && Instant::now() < end {
            thread::sleep(BETWEEN_LOOKS);
            is_waiting = abilities::are_doubted(&maps)?;
        }
    }
    Ok(abilities::forget_doubted(&maps)?)
}

/// Whether this host takes UDP super-packets whole.
fn unmarks(target: &Target<'_>) -> Result<bool, HostError> {
    let refused = State::read(target.tables.host.as_str())?.map(|state| state.detours_refused);
    let is_refused = refused.is_some_and(|it| it.contains_key(Detour::Unmarker.name()));
    Ok(target.resolved.detours.contains(&Detour::Unmarker) && !is_refused)
}

/// What the verifier said goes into a file. Without one, on a full disk, the error still has its reason.
fn with_log(cause: EbpfError, log: PathBuf) -> HostError {
    if let EbpfError::Refused { log: text, .. } = &cause {
        match files::write(&log, text.as_bytes()) {
            Ok(()) => {
                let cause = Box::new(cause);
                return HostError::Refused { cause, log };
            }
            Err(_) => drop(files::remove(&log)),
        }
    }
    cause.into()
}

/// Nothing is said of a device that the kernel refused, but the note.
fn forget_device(report: &mut Report, device: &str) {
    let name = format!("device {device} ");
    report.changes.retain(|change| !change.what.contains(&name));
}

/// A dry run cannot try; what the kernel refused the last time is told as it was then.
fn forget_refused(report: &mut Report, plan: &Plan, before: Option<&State>, tables: &Tables) {
    let Some(before) = before else {
        return;
    };
    let mut unguarded = before.guard_refused.clone();
    unguarded.retain(|family, _| plan.guard().any(|job| job.family.name() == family));
    let host = report.host.clone();
    guard::forget_refused(&host, plan.guard(), &unguarded, &mut report.changes);
    report.notes.extend(guard::note(&unguarded));
    for step in &plan.steps {
        match step {
            Step::Gro => {
                if let Some(reason) = before.gro_refused.clone() {
                    let port = tables.tunnel.port;
                    report.changes.retain(|change| !change.what.contains(GRO));
                    report.notes.push(Note::NoGro { port, reason });
                }
            }
            Step::Detour(detour) => {
                if let Some(reason) = before.detours_refused.get(detour.name()) {
                    forget_device(report, detour.entrance());
                    report.notes.push(Note::NoDetour {
                        detour: *detour,
                        reason: reason.clone(),
                    });
                }
            }
            _ => {}
        }
    }
}
