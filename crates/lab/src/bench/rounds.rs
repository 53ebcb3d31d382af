//! The rounds of a workload: its cells sampled in turn, until there are enough samples.

use super::Bench;
use super::networks::Up;
use super::references::alone;
use crate::agents::Agents;
use crate::error::LabError;
use crate::measure::{self, Request};
use crate::watch::Event;
use overlane_analysis::plan::{Network, WorkloadCells, order};
use overlane_analysis::record::{CellKey, CellStatus, Sample, Warning};
use overlane_analysis::stats::repeat::{self, Decision};

impl Bench<'_> {
    /// A B C, B C A, C A B …; a cell that fails twice in a row is out. Rounds go on while a cell's rule asks for more.
    pub(super) fn sample_cells(
        &mut self,
        work: &WorkloadCells,
        up: &mut [Up],
    ) -> Result<(), LabError> {
        let mut cells: Vec<CellKey> = work.cells.clone();
        cells.retain(|cell| {
            self.is_open(cell) && up.iter().any(|up| up.network == Network::from(*cell))
        });
        let mut rounds = work.samples;
        let mut round = 0;
        while round <= rounds && !cells.is_empty() {
            for index in order(cells.len(), round) {
                let Some(&cell) = cells.get(index) else {
                    continue;
                };
                if self.is_open(&cell) && !self.has_round(&cell, round) {
                    self.sample_or_fail(cell, round, rounds, up)?;
                }
            }
            self.watch.event(Event::RoundDone {
                group: &work.workload.to_string(),
                round,
                rounds,
            });
            if round == rounds {
                rounds += self.more_rounds(&cells);
            }
            round += 1;
        }
        for cell in cells {
            if self.is_open(&cell) {
                self.set_status(&cell, CellStatus::Ok);
            }
        }
        Ok(())
    }

    /// How many rounds more the matrix's rule wants; all cells go on together, so that every round has its pairs.
    pub(super) fn more_rounds(&self, cells: &[CellKey]) -> u32 {
        let Some(rule) = self.plan.repeat else {
            return 0;
        };
        let more = cells.iter().filter_map(|key| {
            let cell = self.run.cells.iter().find(|cell| cell.key == *key)?;
            match repeat::decide(rule, cell) {
                Decision::Enough => None,
                Decision::More(rounds) => Some(rounds),
            }
        });
        more.max().unwrap_or(0)
    }

    pub(super) fn sample_or_fail(
        &mut self,
        cell: CellKey,
        round: u32,
        rounds: u32,
        up: &mut [Up],
    ) -> Result<(), LabError> {
        let Some(up) = up.iter_mut().find(|up| up.network == Network::from(cell)) else {
            return Ok(());
        };
        let mut taken = self.sample(cell, round, rounds, up);
        self.check_interrupt(&taken)?;
        if let Err(error) = &taken {
            self.run.warnings.push(Warning::SampledAgain {
                cell,
                round,
                reason: error.to_string(),
            });
            // Whatever state the agents are in: new ones have none.
            let again = Agents::start(self.session, &up.topology);
            taken = again.and_then(|agents| {
                up.agents = agents;
                self.sample(cell, round, rounds, up)
            });
            self.check_interrupt(&taken)?;
        }
        match taken {
            Ok(sample) => {
                self.folder.append(&sample)?;
                self.watch.event(Event::Sampled(&sample));
                if let Some(cell) = self.run.cells.iter_mut().find(|known| known.key == cell) {
                    cell.samples.push(sample);
                }
                self.watch.event(Event::Advanced(1));
            }
            Err(error) => {
                let reason = error.to_string();
                self.note(&format!("{cell} failed: {reason}"));
                self.set_status(&cell, CellStatus::Failed { reason });
                let left = u64::from(rounds.saturating_sub(round) + 1);
                self.watch.event(Event::Advanced(left));
            }
        }
        Ok(())
    }

    pub(super) fn sample(
        &mut self,
        cell: CellKey,
        round: u32,
        rounds: u32,
        up: &mut Up,
    ) -> Result<Sample, LabError> {
        let seconds = self.plan.seconds_of(round);
        self.watch.event(Event::Sampling {
            cell,
            round,
            rounds,
            seconds,
        });
        let group = alone(cell.group);
        let reference = self
            .run
            .references
            .iter()
            .find(|known| known.group == group);
        let request = Request {
            cell,
            round,
            seconds,
            reference: reference.map(|reference| reference.value),
        };
        let watch = &mut *self.watch;
        measure::sample(
            self.session,
            &up.topology,
            up.backend.as_ref(),
            &mut up.agents,
            &request,
            &mut |live| watch.event(Event::Live(live)),
        )
    }

    /// It was sampled in this round before the run was broken off. A warm-up never counts: what is up is new.
    pub(super) fn has_round(&self, key: &CellKey, round: u32) -> bool {
        let cell = self.run.cells.iter().find(|cell| cell.key == *key);
        cell.is_some_and(|cell| cell.counted().any(|sample| sample.round == round))
    }
}
