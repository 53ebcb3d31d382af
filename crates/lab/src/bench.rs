//! The measuring itself: per block build every backend's topology, prove every path, sample in turn,
//! take down.

use crate::backends::{self, Backend};
use crate::error::LabError;
use crate::plan::{Block, Plan, order};
use crate::progress::Shown;
use crate::record::{BackendName, CellStatus, Run};
use crate::session::Session;
use crate::topology::Topology;
use crate::{measure, noise, proof};
use std::collections::{BTreeMap, BTreeSet};

/// A cell whose topology is up.
struct Live {
    /// Its place in `Run::cells`.
    cell: usize,
    topology: Topology,
    backend: Box<dyn Backend>,
}

/// A run under way.
pub(crate) struct Bench<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a Plan,
    /// What has been recorded so far; complete at any moment but for the status of open cells.
    pub(crate) run: Run,
    pub(crate) shown: Shown,
}

impl Bench<'_> {
    /// Measures the whole plan.
    pub(crate) fn measure(&mut self) -> Result<(), LabError> {
        let missing = self.check_backends()?;
        self.probe_noise("before")?;
        for block in &self.plan.blocks {
            self.measure_block(block, &missing)?;
        }
        self.probe_noise("after")
    }

    /// Backends that cannot run here, with the reason.
    fn check_backends(&self) -> Result<BTreeMap<BackendName, String>, LabError> {
        let mut missing = BTreeMap::new();
        let backends: BTreeSet<_> = self.plan.cells().map(|cell| cell.backend).collect();
        for backend in backends {
            if let Some(reason) = backends::check(self.session, backend)? {
                self.shown
                    .note(&format!("{backend} is unavailable: {reason}"));
                missing.insert(backend, reason);
            }
        }
        Ok(missing)
    }

    fn probe_noise(&mut self, when: &str) -> Result<(), LabError> {
        self.shown.doing("steadiness of the machine");
        for cpu in self.session.cpus.all() {
            self.run.env.noise.push(noise::probe(when, cpu)?);
        }
        Ok(())
    }

    fn measure_block(
        &mut self,
        block: &Block,
        missing: &BTreeMap<BackendName, String>,
    ) -> Result<(), LabError> {
        let mut live = Vec::new();
        let outcome = self
            .raise_block(block, missing, &mut live)
            .and_then(|()| self.sample_block(block, &live));
        for cell in live {
            self.take_down(cell);
        }
        outcome
    }

    /// Builds and proves all topologies of a block, those that can be.
    fn raise_block(
        &mut self,
        block: &Block,
        missing: &BTreeMap<BackendName, String>,
        live: &mut Vec<Live>,
    ) -> Result<(), LabError> {
        let samples = u64::from(self.plan.samples) + 1;
        for key in &block.cells {
            let Some(cell) = self.run.cells.iter().position(|cell| cell.key == *key) else {
                continue;
            };
            if let Some(reason) = missing.get(&key.backend) {
                self.run.cells[cell].status = CellStatus::Unavailable {
                    reason: reason.clone(),
                };
                self.shown.advance(samples);
                continue;
            }
            self.shown.doing(&format!("building {key}"));
            let raised = self.raise(cell, live);
            self.check_interrupt(&raised)?;
            if let Err(error) = raised {
                self.fail(cell, &error);
                self.shown.advance(samples);
            }
        }
        Ok(())
    }

    fn raise(&mut self, cell: usize, live: &mut Vec<Live>) -> Result<(), LabError> {
        let key = self.run.cells[cell].key;
        let topology = Topology::build(self.session, key.backend, key.group())?;
        let mut backend = backends::new(key.backend);
        let built = backend.build(self.session, &topology).and_then(|()| {
            self.record_hops(&topology)?;
            self.shown.doing(&format!("proving the path of {key}"));
            proof::prove(self.session, &topology, backend.expected())
        });
        let raised = Live {
            cell,
            topology,
            backend,
        };
        match built {
            Ok(proof) => {
                let cell = &mut self.run.cells[cell];
                cell.notes = raised.backend.notes();
                (cell.path_proof, cell.proof_detail) = (proof.holds, proof.detail);
                live.push(raised);
                Ok(())
            }
            Err(error) => {
                self.take_down(raised);
                Err(error)
            }
        }
    }

    /// The same devices serve several cells: each set is recorded once.
    fn record_hops(&mut self, topology: &Topology) -> Result<(), LabError> {
        let hops = topology.hops()?;
        let known = |name: &str| self.run.env.hops.iter().any(|hop| hop.topology == name);
        if !hops.first().is_some_and(|hop| known(&hop.topology)) {
            self.run.env.hops.extend(hops);
        }
        Ok(())
    }

    /// A B C, B C A, C A B …; a cell that fails twice in a row is out.
    fn sample_block(&mut self, block: &Block, live: &[Live]) -> Result<(), LabError> {
        let offload = if block.offload { "on" } else { "off" };
        let mtus: BTreeSet<_> = block.cells.iter().map(|cell| cell.mtu).collect();
        let mtus: Vec<_> = mtus.iter().map(u32::to_string).collect();
        let name = format!(
            "mtu {}, streams {}, offload {offload}",
            mtus.join("/"),
            block.streams
        );
        let mut out = vec![false; live.len()];
        for round in self.plan.rounds() {
            for index in order(live.len(), round) {
                if out[index] {
                    continue;
                }
                let sampled = self.sample(&live[index], round);
                self.check_interrupt(&sampled)?;
                if let Err(error) = sampled {
                    self.fail(live[index].cell, &error);
                    out[index] = true;
                    self.shown.advance(u64::from(self.plan.samples - round));
                }
                self.shown.advance(1);
            }
            self.shown.round(&name, round, self.plan.samples);
        }
        for (live, _) in live.iter().zip(out).filter(|(_, out)| !out) {
            self.run.cells[live.cell].status = CellStatus::Ok;
        }
        Ok(())
    }

    fn sample(&mut self, live: &Live, round: u32) -> Result<(), LabError> {
        let key = self.run.cells[live.cell].key;
        let seconds = self.plan.seconds_of(round);
        self.shown.doing(&format!("{key}, round {round}"));
        let mut taken = measure::sample(self.session, &live.topology, key, round, seconds);
        if let Err(error) = &taken
            && !matches!(error, LabError::Interrupted)
        {
            self.run.warnings.push(format!(
                "{key}, round {round}: sampled again after: {error}"
            ));
            taken = measure::sample(self.session, &live.topology, key, round, seconds);
        }
        self.run.cells[live.cell].samples.push(taken?);
        Ok(())
    }

    /// A signal ends the run, not the cell; programs that were killed by it come back as failed.
    fn check_interrupt<T>(&self, result: &Result<T, LabError>) -> Result<(), LabError> {
        if result.is_err() && self.session.interrupts.raised() {
            Err(LabError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn fail(&mut self, cell: usize, error: &LabError) {
        let cell = &mut self.run.cells[cell];
        self.shown.note(&format!("{} failed: {error}", cell.key));
        cell.status = CellStatus::Failed {
            reason: error.to_string(),
        };
    }

    /// What stays behind here is undone by the journal; that it stayed is worth knowing.
    fn take_down(&mut self, mut live: Live) {
        if self.session.interrupts.raised() {
            // Or the signal would cut the orderly way down short as well.
            self.session.interrupts.shield();
        }
        if let Err(error) = live.backend.tear_down(self.session, &live.topology) {
            let key = self.run.cells[live.cell].key;
            self.run
                .warnings
                .push(format!("{key} did not come down in order: {error}"));
        }
        live.topology.delete();
    }
}
