//! The plan: deeds in an order in which no packet meets a half-made fabric. Each has its way back in the journal, and
//! its row is told when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use overlane_ebpf::counters::{Counted, Moves};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use overlane_ebpf::{Loaded, Program};
use overlane_net::{NetError, Netlink};

use super::current::Current;
use super::journal::Journal;
use super::not_kept;
use crate::HostError;
use crate::lib::detour::Detour;
use crate::report::finding;
use crate::report::{Object, Report, Row};

/// What the kernel refused, by the words of a thing (`guard arp`), and its answer.
pub(crate) type Refused = BTreeMap<String, String>;

/// How a deed went.
pub(crate) enum Done {
    /// It is done.
    Yes,
    /// There was nothing to do after all.
    Nothing,
    /// The kernel refuses, and the host goes without.
    Refused(String),
}

type Run<'a> = Box<dyn FnOnce(&mut Mending<'a>) -> Result<Done, HostError> + 'a>;

/// The row of what is missing, for the reason that the kernel gave.
type Without<'a> = Box<dyn Fn(&str) -> Row + 'a>;

/// One thing to do. Devices are looked up when it runs: earlier ones may have created them.
pub(crate) struct Deed<'a> {
    row: Option<Row>,
    /// What is left over if it fails, where no row tells of the deed.
    left_over: Option<Row>,
    /// What it makes, in the words of its kind.
    thing: Option<String>,
    run: Run<'a>,
    /// What becomes of a host that goes without the thing.
    without: Option<Without<'a>>,
    alone: Vec<(Object, String)>,
}

impl<'a> Deed<'a> {
    pub(crate) fn new(
        row: impl Into<Option<Row>>,
        run: impl FnOnce(&mut Mending<'a>) -> Result<Done, HostError> + 'a,
    ) -> Self {
        Self {
            row: row.into(),
            left_over: None,
            thing: None,
            run: Box::new(run),
            without: None,
            alone: Vec::new(),
        }
    }

    /// It makes this thing, in the words of its kind, which may be those of the record. Where it fails alone, or is
    /// refused, the thing is not ours.
    pub(crate) fn makes(self, thing: String) -> Self {
        Self {
            thing: Some(thing),
            ..self
        }
    }

    /// It makes this thing, and the kernel may refuse it; `row` says what that means.
    pub(crate) fn or_without(self, thing: String, row: impl Fn(&str) -> Row + 'a) -> Self {
        Self {
            without: Some(Box::new(row)),
            ..self.makes(thing)
        }
    }

    /// Nobody needs to hear of it, but if it fails this is left over.
    pub(crate) fn or_left_over(self, row: Row) -> Self {
        Self {
            left_over: Some(row),
            ..self
        }
    }

    /// No other thing needs it: these stand alone.
    pub(crate) fn alone(self, things: impl IntoIterator<Item = (Object, String)>) -> Self {
        Self {
            alone: things.into_iter().collect(),
            ..self
        }
    }
}

/// One entry of a map, with the value it has now.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Add,
    Delete,
    /// Cannot be undone, and runs when all else has succeeded.
    CleanUp,
}

/// All there is to do.
pub(crate) struct Plan<'a> {
    deeds: Vec<(Phase, usize, Deed<'a>)>,
    kind: usize,
    takes_all_away: bool,
    /// Rows of several deeds together.
    told: Vec<Row>,
    /// Names of the devices that are created.
    pub(crate) fresh: BTreeSet<&'static str>,
    /// What is ours from then on, in the words of the record.
    pub(crate) ours: BTreeSet<String>,
    /// Entries that are written and deleted.
    pub(crate) written: Vec<(Table, Rc<Entry>)>,
    pub(crate) deleted: Vec<(Table, Rc<Entry>)>,
    /// Devices that get a program where they should have one already.
    pub(crate) attached: BTreeSet<String>,
    /// Every program and the device that it should be attached to.
    pub(crate) hooks: Vec<(Program, String)>,
    /// File names of their links.
    pub(crate) links: BTreeSet<String>,
    /// Programs that links need anew.
    pub(crate) load: BTreeSet<Program>,
    /// Programs that are attached elsewhere and are attached again, by their numbers: the kernel has verified them.
    pub(crate) running: BTreeMap<Program, u32>,
    /// The maps are new.
    pub(crate) new_set: bool,
    /// Which counters get another number.
    pub(crate) moves: BTreeMap<Counted, Rc<Moves>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(current: &Current, takes_all_away: bool) -> Self {
        Self {
            deeds: Vec::new(),
            kind: 0,
            takes_all_away,
            told: Vec::new(),
            fresh: BTreeSet::new(),
            ours: BTreeSet::new(),
            written: Vec::new(),
            deleted: Vec::new(),
            attached: BTreeSet::new(),
            hooks: Vec::new(),
            links: BTreeSet::new(),
            load: BTreeSet::new(),
            running: BTreeMap::new(),
            new_set: current.maps.is_none(),
            moves: BTreeMap::new(),
        }
    }

    pub(super) fn begin_kind(&mut self) {
        self.kind += 1;
    }

    /// In the order of the kinds, and of a kind in this order. Where nothing is wanted, it is cleanup: it takes away what no
    /// packet needs any more.
    pub(crate) fn add(&mut self, deed: Deed<'a>) {
        if self.takes_all_away {
            return self.clean_up(deed);
        }
        self.deeds.push((Phase::Add, self.kind, deed));
    }

    /// After all that is added, in the reverse order of the kinds.
    pub(crate) fn delete(&mut self, deed: Deed<'a>) {
        let last_first = usize::MAX - self.kind;
        self.deeds.push((Phase::Delete, last_first, deed));
    }

    /// When all else has succeeded, in the reverse order of the kinds. It is never undone.
    pub(crate) fn clean_up(&mut self, deed: Deed<'a>) {
        let last_first = usize::MAX - self.kind;
        self.deeds.push((Phase::CleanUp, last_first, deed));
    }

    /// A row of several deeds.
    pub(crate) fn tell(&mut self, row: Row) {
        self.told.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deeds.is_empty()
    }

    /// Something differs that no row names.
    pub(crate) fn is_silent(&self) -> bool {
        let is_told = |deed: &Deed<'_>| deed.row.is_some() || deed.without.is_some();
        let mut deeds = self.deeds.iter();
        self.told.is_empty() && !deeds.any(|(.., deed)| is_told(deed)) && !self.is_empty()
    }

    /// The programs have to be loaded, or taken from where they run.
    pub(crate) fn needs_programs(&self) -> bool {
        self.new_set || !self.load.is_empty() || !self.running.is_empty()
    }

    /// Tells what would be done. What the kernel refused the last time it would refuse again.
    pub(crate) fn predict(self, before: &Refused, report: &mut Report) {
        report.changes.extend(self.told);
        for (_, _, deed) in sorted(self.deeds) {
            let reason = deed.thing.as_ref().and_then(|thing| before.get(thing));
            match deed.without.as_ref().zip(reason) {
                Some((without, reason)) => report.notes.push(without(reason)),
                None => report.changes.extend(deed.row),
            }
        }
        not_kept::join_rows(&mut report.notes);
        report.sort();
    }

    /// Does all but the cleanup, which it returns.
    pub(crate) fn run(
        self,
        mending: &mut Mending<'a>,
        report: &mut Report,
    ) -> Result<Vec<Deed<'a>>, HostError> {
        let (deeds, left): (Vec<_>, Vec<_>) = sorted(self.deeds)
            .into_iter()
            .partition(|(phase, ..)| *phase != Phase::CleanUp);
        for (_, _, deed) in deeds {
            mending.run(deed, report)?;
        }
        not_kept::join_rows(&mut report.notes);
        let is_done = |row: &Row| !mending.failed.contains(&(row.object, row.name.clone()));
        report.changes.extend(self.told.into_iter().filter(is_done));
        Ok(left.into_iter().map(|(_, _, deed)| deed).collect())
    }
}

fn sorted<'a>(mut deeds: Vec<(Phase, usize, Deed<'a>)>) -> Vec<(Phase, usize, Deed<'a>)> {
    deeds.sort_by_key(|(phase, kind, _)| (*phase, *kind));
    deeds
}

/// What deeds work with.
pub(crate) struct Mending<'a> {
    pub(crate) netlink: &'a Netlink,
    /// The set that the data path uses from now on. Where nothing is wanted there is none.
    pub(crate) maps: Option<&'a MapSet>,
    pub(crate) loaded: Option<&'a Loaded>,
    pub(crate) journal: Journal<'a>,
    /// What stands alone may fail alone.
    pub(crate) each_alone: bool,
    /// The programs of the links that were made.
    pub(crate) programs: BTreeMap<String, u32>,
    /// What the kernel refused, and why.
    pub(crate) refused: Refused,
    /// What failed alone.
    pub(crate) failed: BTreeSet<(Object, String)>,
    /// What else its user should know.
    pub(crate) notes: Vec<Row>,
    /// And what of the record is not ours therefore.
    pub(crate) not_ours: BTreeSet<String>,
    /// Nothing is undone: a link that is let go of is detached at once.
    pub(crate) for_good: bool,
    /// Detours that were created and have no programs yet.
    pub(crate) closed: BTreeSet<Detour>,
}

impl<'a> Mending<'a> {
    pub(crate) fn new(netlink: &'a Netlink, journal: Journal<'a>) -> Self {
        Self {
            netlink,
            maps: None,
            loaded: None,
            journal,
            each_alone: false,
            programs: BTreeMap::new(),
            refused: Refused::new(),
            failed: BTreeSet::new(),
            notes: Vec::new(),
            not_ours: BTreeSet::new(),
            for_good: false,
            closed: BTreeSet::new(),
        }
    }

    pub(crate) fn maps(&self) -> Result<&'a MapSet, HostError> {
        self.maps.ok_or(HostError::NoneApplied)
    }

    /// Does one deed, and tells how it went.
    fn run(&mut self, deed: Deed<'a>, report: &mut Report) -> Result<(), HostError> {
        let undos = self.journal.len();
        match ((deed.run)(self), deed.without) {
            (Ok(Done::Yes), _) => report.changes.extend(deed.row),
            (Ok(Done::Nothing), _) | (Ok(Done::Refused(_)), None) => {}
            (Ok(Done::Refused(reason)), Some(without)) => {
                report.notes.push(without(&reason));
                self.refused.extend(deed.thing.map(|thing| (thing, reason)));
            }
            (Err(error), _) if self.each_alone && !deed.alone.is_empty() => {
                self.journal.roll_back_to(undos)?;
                self.not_ours.extend(deed.thing);
                let (reason, help) = (error.to_string(), error.help());
                for (object, name) in deed.alone {
                    let row = finding::failed((object, &name), &reason, help.as_deref());
                    report.notes.push(row);
                    self.failed.insert((object, name));
                }
            }
            (Err(error), _) => return Err(error),
        }
        if self.for_good {
            self.journal.commit();
        }
        Ok(())
    }

    /// Does what cannot be undone, and stops at what resists.
    pub(crate) fn take_away(
        &mut self,
        deeds: Vec<Deed<'a>>,
        report: &mut Report,
    ) -> Result<(), HostError> {
        for deed in deeds {
            self.run(deed, report)?;
        }
        Ok(())
    }

    /// Does what cannot be undone. What resists is told; the next apply finds it.
    pub(crate) fn clean_up(&mut self, deeds: Vec<Deed<'a>>, report: &mut Report) {
        for deed in deeds {
            match (deed.run)(self) {
                Ok(Done::Yes) => report.changes.extend(deed.row),
                Ok(_) => {}
                Err(error) => {
                    let thing = deed.row.or(deed.left_over).unwrap_or_else(|| {
                        Row::remove(Object::DataPath, "").detail("what is no longer needed")
                    });
                    report
                        .notes
                        .push(finding::left_over(&thing, &error.to_string()));
                }
            }
        }
    }
}

/// What went with its device needs no way back.
pub(crate) fn unless_gone(done: Result<(), NetError>) -> Result<(), HostError> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}
