//! The measuring itself: per block build every network and prove its paths ([`networks`]), measure the cable
//! alone ([`references`]), sample in turn test by test ([`rounds`]), take down.

mod idle;
mod networks;
mod references;
mod rounds;

use crate::error::LabError;
use crate::machine::noise;
use crate::session::Session;
use crate::vm::Images;
use crate::watch::{Event, Watch};
use crate::{backends, relay};
use overlane_analysis::plan::{Block, Plan};
use overlane_analysis::record::{BackendName, CellKey, CellStatus, GuestKind, Run};
use overlane_analysis::results::folder::Folder;
use std::collections::{BTreeMap, BTreeSet};

/// What cannot run here, with the reason.
#[derive(Default)]
struct Missing {
    backends: BTreeMap<BackendName, String>,
    /// Of all virtual machines.
    taps: Option<String>,
    /// Of all machines that move.
    machines: Option<String>,
}

/// A run under way.
pub(crate) struct Bench<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a Plan,
    pub(crate) folder: Folder,
    /// What has been recorded so far; complete at any moment but for the status of open cells.
    pub(crate) run: Run,
    pub(crate) watch: &'a mut dyn Watch,
    /// What machines that move boot from; none until they are needed.
    pub(crate) images: Option<Images>,
}

impl Bench<'_> {
    /// Measures what is open in the plan.
    pub(crate) fn measure(&mut self) -> Result<(), LabError> {
        let missing = self.check_machine()?;
        self.probe_noise("before")?;
        for block in &self.plan.blocks {
            if block.networks.iter().any(|network| self.is_needed(network)) {
                self.measure_block(block, &missing)?;
                self.folder.save(&self.run)?;
            }
        }
        self.probe_noise("after")
    }

    /// Backends and kinds of guests that cannot run here, with the reason.
    fn check_machine(&mut self) -> Result<Missing, LabError> {
        let mut missing = Missing::default();
        let has = |kind| {
            let mut cells = self.plan.cells();
            cells.any(|cell| cell.group.setting.guests == kind)
        };
        if has(GuestKind::Tap) {
            missing.taps = relay::check(self.session)?;
        }
        if has(GuestKind::Qemu) {
            missing.machines = self.prepare_machines()?;
        }
        for reason in [&missing.taps, &missing.machines].into_iter().flatten() {
            self.note(reason);
        }
        let backends: BTreeSet<_> = self.plan.cells().map(|cell| cell.backend).collect();
        for backend in backends {
            if let Some(reason) = backends::check(self.session, backend)? {
                self.note(&format!("{backend} is unavailable: {reason}"));
                missing.backends.insert(backend, reason);
            }
        }
        Ok(missing)
    }

    /// What machines boot from; the reason why none can.
    fn prepare_machines(&mut self) -> Result<Option<String>, LabError> {
        self.watch.event(Event::Doing(
            "booting a virtual machine, to see how it runs",
        ));
        let prepared = Images::prepare(self.session, None);
        self.check_interrupt(&prepared)?;
        match prepared {
            Ok(images) => {
                self.images = Some(images);
                Ok(None)
            }
            // What it lacks is told as it is.
            Err(LabError::Unable { reason }) => Ok(Some(reason)),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    fn probe_noise(&mut self, when: &str) -> Result<(), LabError> {
        self.watch.event(Event::Doing("steadiness of the machine"));
        for cpu in self.session.cpus.all() {
            self.run.env.noise.push(noise::probe(when, cpu)?);
        }
        Ok(())
    }

    fn measure_block(&mut self, block: &Block, missing: &Missing) -> Result<(), LabError> {
        let mut up = Vec::new();
        let outcome = self
            .raise_block(block, missing, &mut up)
            .and_then(|()| self.measure_idle(&up))
            .and_then(|()| self.measure_alone(block, &up))
            .and_then(|()| {
                let mut turns = block.turns().into_iter();
                turns.try_for_each(|turn| self.sample_turn(&turn, &mut up))
            });
        for network in up {
            self.take_down(network);
        }
        outcome
    }

    fn is_open(&self, key: &CellKey) -> bool {
        let mut cells = self.run.cells.iter();
        cells.any(|cell| cell.key == *key && cell.status == CellStatus::Open)
    }

    fn set_status(&mut self, key: &CellKey, status: CellStatus) {
        if let Some(cell) = self.run.cells.iter_mut().find(|cell| cell.key == *key) {
            cell.status = status;
        }
    }

    /// A signal ends the run, not the cell; programs that were killed by it come back as failed.
    fn check_interrupt<T>(&self, result: &Result<T, LabError>) -> Result<(), LabError> {
        if result.is_err() && self.session.interrupts.raised() {
            Err(LabError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn note(&mut self, text: &str) {
        self.watch.event(Event::Note(text));
    }
}
