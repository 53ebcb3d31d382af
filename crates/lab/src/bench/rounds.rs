//! The rounds of a workload: its cells sampled in turn, until there are enough samples.

use super::Bench;
use super::networks::Up;
use crate::agents::Agents;
use crate::error::LabError;
use crate::measure::{self, Request};
use crate::watch::Event;
use overlane_analysis::plan::{Network, WorkloadCells, order};
use overlane_analysis::record::{CellKey, CellStatus, Sample, Warning, invariants};
use overlane_analysis::stats::repeat::{self, Decision};

/// What becomes of a sample.
enum Judgement {
    Counts,
    /// It is taken again, for this reason.
    Again(String),
    /// Nothing like it will count.
    Never(String),
}

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
        loop {
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
                Ok(mut sample) => {
                    let left = rounds.saturating_sub(round) + 1;
                    let judgement = self.judge(&sample, rounds);
                    if let Judgement::Again(reason) | Judgement::Never(reason) = &judgement {
                        sample.discarded = Some(reason.clone());
                    }
                    self.keep(sample)?;
                    match judgement {
                        Judgement::Counts => self.watch.event(Event::Advanced(1)),
                        Judgement::Again(_) => continue,
                        Judgement::Never(reason) => self.fail(cell, reason, left),
                    }
                }
                Err(error) => {
                    let left = rounds.saturating_sub(round) + 1;
                    self.fail(cell, error.to_string(), left);
                }
            }
            return Ok(());
        }
    }

    /// Does a sample count? One beside which other programs ran, or that breaks an invariant, is taken again: at most as often as
    /// the cell has samples. Then the former counts, and is marked; the latter never does.
    fn judge(&self, sample: &Sample, rounds: u32) -> Judgement {
        if sample.round == 0 {
            return Judgement::Counts;
        }
        let cells = self.run.cells.iter();
        let again = cells
            .filter(|cell| cell.key == sample.cell)
            .flat_map(|cell| &cell.samples)
            .filter(|sample| sample.round > 0 && sample.discarded.is_some());
        let may_again = again.count() < rounds as usize;
        if let Some(broken) = invariants::broken(sample, &self.run.env) {
            let reason = broken.to_string();
            return if may_again {
                Judgement::Again(reason)
            } else {
                Judgement::Never(reason)
            };
        }
        match &sample.foreign {
            Some(foreign) if foreign.disturbs() && may_again => Judgement::Again(foreign.words()),
            _ => Judgement::Counts,
        }
    }

    /// Adds a sample to the record.
    fn keep(&mut self, sample: Sample) -> Result<(), LabError> {
        self.folder.append(&sample)?;
        self.watch.event(Event::Sampled(&sample));
        let mut cells = self.run.cells.iter_mut();
        if let Some(cell) = cells.find(|known| known.key == sample.cell) {
            cell.samples.push(sample);
        }
        Ok(())
    }

    /// The cell is out, with the samples that it had left.
    fn fail(&mut self, cell: CellKey, reason: String, left: u32) {
        self.note(&format!("{cell} failed: {reason}"));
        self.set_status(&cell, CellStatus::Failed { reason });
        self.watch.event(Event::Advanced(u64::from(left)));
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
        let request = Request {
            cell,
            round,
            seconds,
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
