//! Carries a plan out. Until the end every deed has its way back; the state file and the record say from the first
//! moment what may be left.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use overlane_ebpf::{EbpfError, HeldProgram, Loaded};
use overlane_model::Tables;
use overlane_net::Netlink;

use crate::HostError;
use crate::kinds::{Current, Journal, Mending, Plan, Target, Testing, connections};
use crate::lib::{files, paths};
use crate::live::announcer::{self as announce, Rest};
use crate::report::{Report, finding};
use crate::state::{Record, State};

/// Whether the state file or the record say anything else than they will.
pub(super) fn differs(end: &State, current: &Current) -> bool {
    let same_state = current.state.as_ref().is_some_and(|state| {
        // What is refused is known when it was tried.
        let refused = state.refused.clone();
        *state
            == State {
                refused,
                ..end.clone()
            }
    });
    !same_state || current.record.as_ref() != Some(&Record::of(end))
}

/// Does all that is planned, or takes all back. `loaded` lives as long as what the plan borrows.
pub(super) fn run<'a>(
    (testing, each_alone): (Testing<'a>, bool),
    (target, current, netlink): (&'a Target<'a>, &'a Current, &'a Netlink),
    loaded: &'a OnceCell<Loaded>,
    plan: Plan<'a>,
    mut end: State,
    report: &mut Report,
) -> Result<(), HostError> {
    // The verifier speaks before anything is changed.
    if plan.needs_programs() {
        let _ = loaded.set(load(target, &plan)?);
    }
    let loaded = loaded.get();
    let is_new = plan.new_set;
    let maps = match (loaded, &current.maps) {
        (_, Some(maps)) if !is_new => maps,
        (Some(loaded), _) => &loaded.maps,
        // A new set is always loaded.
        (None, _) => return Err(HostError::OtherVersion(report.host.clone())),
    };
    let mut mending = Mending::new(netlink, Journal::new(testing));
    mending.maps = Some(maps);
    mending.loaded = loaded;
    mending.each_alone = each_alone;
    let done = begin(&mut mending.journal, current.state.as_ref(), &end, is_new)
        .and_then(|()| plan.run(&mut mending, report))
        .and_then(|left| {
            connections::prune(&mut mending)?;
            finish(&mut mending, &mut end)?;
            Ok(left)
        });
    match done {
        Ok(left) => {
            mending.journal.commit();
            report.notes.append(&mut mending.notes);
            mending.clean_up(left, report);
            report.sort();
            Ok(())
        }
        Err(cause) => Err(mending.journal.roll_back(cause)),
    }
}

/// Marks the beginning: from here on a killed run is visible, and what it may leave is in the file.
fn begin(
    journal: &mut Journal<'_>,
    before: Option<&State>,
    end: &State,
    is_new_set: bool,
) -> Result<(), HostError> {
    let host = end.host.clone();
    for folder in [paths::pins(&host), paths::links(&host)] {
        if !files::is_there(&folder) {
            journal.before()?;
            files::host_folder(&folder)?;
            journal.push(move || remove_folder(&folder));
        }
    }
    let mut record = Record::of(end);
    let ours = Record::ours_in(end.netns_id, Record::read(&host)?.as_ref(), before);
    let (undone, words) = (host.clone(), Record::words(&host)?);
    journal.before()?;
    journal.push(move || Record::put_back(&undone, &words));
    record.ours.extend(ours);
    record.write(&host)?;
    let path = paths::state(&host);
    let old = files::read(&path)?;
    journal.before()?;
    let mut mark = match before {
        Some(before) => before.clone(),
        None => end.clone().without_tables(),
    };
    mark.in_progress = true;
    if is_new_set {
        // Programs with the maps before are not those of the set that is pinned from now on.
        mark.programs.clear();
    }
    mark.ours.extend(end.ours.iter().cloned());
    journal.push(move || match old {
        Some(old) => files::write(&path, &old),
        None => files::remove(&path).map(drop),
    });
    mark.write()
}

/// Writes the final state: the apply counts as done.
fn finish(mending: &mut Mending<'_>, end: &mut State) -> Result<(), HostError> {
    end.programs.append(&mut mending.programs);
    end.refused = std::mem::take(&mut mending.refused);
    let refused = &end.refused;
    let not_ours = &mending.not_ours;
    end.ours
        .retain(|thing| !refused.contains_key(thing) && !not_ours.contains(thing));
    mending.journal.before()?;
    // The undo of `begin` restores the file.
    end.write()?;
    mending.journal.before()?;
    Record::of(end).write(&end.host)
}

fn remove_folder(folder: &Path) -> Result<(), HostError> {
    fs::remove_dir(folder).map_err(HostError::file("remove", folder))?;
    // The shared one goes with its last host.
    let _ = fs::remove_dir(paths::PINS);
    Ok(())
}

/// All is applied already: what cannot be announced is no reason to fail.
pub(super) fn announce(due: &Rest, (tables, netlink): (&Tables, &Netlink), report: &mut Report) {
    match announce::begin(&report.host, due.clone(), (tables, netlink)) {
        Ok((down, left)) => {
            report.announcements = left;
            if !down.is_empty() {
                let devices: Vec<String> = down.into_iter().collect();
                let row = finding::announcement_waits(&devices, announce::PATIENCE.as_secs());
                report.notes.push(row);
            }
        }
        Err(error) => report
            .notes
            .push(finding::not_announced(&error.to_string())),
    }
}

/// Leaves the verifier's log behind when it refuses a program, until a later load succeeds.
fn load(target: &Target<'_>, plan: &Plan<'_>) -> Result<Loaded, HostError> {
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
