//! The rounds of a test: its cells sampled in turn, workload by workload, until there are enough samples.

use super::Bench;
use super::networks::{Load, Up, no_images};
use crate::error::LabError;
use crate::measure::{self, Request, migration};
use crate::watch::Event;
use overlane_analysis::plan::{Network, WorkloadCells, order};
use overlane_analysis::record::{
    CellKey, CellStatus, Discard, Foreign, Sample, Warning, invariants, rounds,
};
use overlane_analysis::stats::repeat::{self, Decision};
use std::collections::BTreeSet;

/// What becomes of a sample.
enum Judgement {
    Counts,
    /// It is taken again, for this reason.
    Again(String),
    /// Nothing like it will count.
    Never(String),
}

/// A workload that takes turns.
struct Turn {
    /// In words.
    name: String,
    cells: Vec<CellKey>,
    /// The last round that a run which was broken off has of it.
    done: u32,
    /// The last round that it takes part in.
    rounds: u32,
    /// So many of its rounds may be taken again beside other programs.
    tries: u32,
}

impl Bench<'_> {
    /// The cells in the order of the plan's design, round by round; one that fails twice in a row is out. A workload takes part
    /// until it has its samples, and goes on while the rule of one of its cells asks for more.
    pub(super) fn sample_turn(
        &mut self,
        works: &[&WorkloadCells],
        up: &mut [Up],
    ) -> Result<(), LabError> {
        let is_up = |cell: &CellKey| up.iter().any(|up| up.network == Network::from(*cell));
        let turn = |work: &&WorkloadCells| Turn {
            name: work.workload.to_string(),
            cells: (work.cells.iter().copied())
                .filter(|cell| self.is_open(cell) && is_up(cell))
                .collect(),
            done: 0,
            rounds: work.samples,
            tries: if self.run.matrix().busy_machine {
                0
            } else {
                work.samples
            },
        };
        let mut turns: Vec<Turn> = works.iter().map(turn).collect();
        turns.retain(|turn| !turn.cells.is_empty());
        for turn in &mut turns {
            self.go_on_with(turn);
        }
        let mut round = 0;
        while !turns.is_empty() {
            self.sample_round(&turns, round, up)?;
            for turn in &mut turns {
                let is_new = round > turn.done && turn.tries > 0;
                if is_new && self.discard_if_disturbed(turn, round)? {
                    turn.tries -= 1;
                    self.more(turn, 1);
                }
            }
            for turn in &mut turns {
                self.watch.event(Event::RoundDone {
                    group: &turn.name,
                    round,
                    rounds: turn.rounds,
                });
                if round >= turn.rounds {
                    self.more(turn, self.more_rounds(&turn.cells));
                }
            }
            self.finish(&mut turns, round)?;
            round += 1;
        }
        Ok(())
    }

    /// Goes on behind the rounds that a run which was broken off has: those that count, and those between that other programs
    /// disturbed.
    fn go_on_with(&self, turn: &mut Turn) {
        let cells = self.run.cells.iter();
        let cells = cells.filter(|cell| turn.cells.contains(&cell.key));
        let (mut counted, mut settled) = (BTreeSet::new(), BTreeSet::new());
        for sample in cells.flat_map(|cell| &cell.samples) {
            let round = rounds::settled(sample).filter(|round| *round > 0);
            settled.extend(round);
            counted.extend(round.filter(|_| sample.discarded.is_none()));
        }
        let again = settled.len() - counted.len();
        turn.done = settled.last().copied().unwrap_or(0);
        turn.tries = turn.tries.saturating_sub(again as u32);
        turn.rounds = turn.done + turn.rounds.saturating_sub(counted.len() as u32);
    }

    /// A workload takes part in so many rounds more.
    fn more(&mut self, turn: &mut Turn, rounds: u32) {
        turn.rounds += rounds;
        let open = turn.cells.iter().filter(|cell| self.is_open(cell)).count();
        self.watch
            .event(Event::More(u64::from(rounds) * open as u64));
    }

    fn sample_round(&mut self, turns: &[Turn], round: u32, up: &mut [Up]) -> Result<(), LabError> {
        let counts: Vec<usize> = turns.iter().map(|turn| turn.cells.len()).collect();
        for (workload, index) in order(&counts, round) {
            let Some(turn) = turns.get(workload) else {
                continue;
            };
            let Some(&cell) = turn.cells.get(index) else {
                continue;
            };
            let is_done = round > 0 && round <= turn.done;
            if self.is_open(&cell) && !is_done && !self.has_round(&cell, round) {
                self.sample_or_fail(cell, round, turn.rounds, up)?;
            }
        }
        Ok(())
    }

    /// A round of a workload beside which other programs ran does not count, for none of its cells, so that those left are whole
    /// pairs. Another one is added at the end, when the programs may have ended: at most as many as there are samples. Then it
    /// counts, and its samples are marked by the load that they hold.
    fn discard_if_disturbed(&mut self, turn: &Turn, round: u32) -> Result<bool, LabError> {
        let is_of = |sample: &&mut Sample| {
            let is_its = turn.cells.contains(&sample.cell);
            is_its && sample.round == round && sample.discarded.is_none()
        };
        let cells = self.run.cells.iter_mut();
        let samples = cells.flat_map(|cell| &mut cell.samples);
        let mut of_round: Vec<&mut Sample> = samples.filter(is_of).collect();
        let foreign = of_round.iter().filter_map(|sample| sample.foreign.clone());
        let worst = foreign.max_by(|a, b| a.percent.total_cmp(&b.percent));
        let Some(worst) = worst.filter(|worst| round > 0 && worst.disturbs()) else {
            return Ok(false);
        };
        for sample in &mut of_round {
            let own = sample.foreign.as_ref().filter(|foreign| foreign.disturbs());
            let words = own.map_or_else(
                || format!("beside another sample of its round {}", worst.words()),
                Foreign::words,
            );
            sample.discarded = Some(Discard::OtherPrograms { words });
        }
        let name = &turn.name;
        self.note(&format!(
            "{name}, round {round} is taken again: {}",
            worst.words()
        ));
        self.folder.rewrite(&self.run)?;
        Ok(true)
    }

    /// Workloads that have all their samples take no further part. That is saved, so that a run that is broken off later does
    /// not miss their next rounds.
    fn finish(&mut self, turns: &mut Vec<Turn>, round: u32) -> Result<(), LabError> {
        let finished: Vec<Turn> = turns.extract_if(.., |turn| round >= turn.rounds).collect();
        for cell in finished.iter().flat_map(|turn| &turn.cells) {
            if self.is_open(cell) {
                self.set_status(cell, CellStatus::Ok);
            }
        }
        if !finished.is_empty() {
            self.folder.save(&self.run)?;
        }
        Ok(())
    }

    /// How many rounds more the matrix's rule wants; all cells of a workload go on together, so that every round has its pairs.
    pub(super) fn more_rounds(&self, cells: &[CellKey]) -> u32 {
        let Some(rule) = self.plan.repeat else {
            return 0;
        };
        let more = cells.iter().filter_map(|key| {
            // One that failed gets no samples more, and would ask for ever.
            let mut open = self.run.cells.iter();
            let cell = open.find(|cell| cell.key == *key && cell.status == CellStatus::Open)?;
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
                taken = self
                    .start_load_again(up)
                    .and_then(|()| self.sample(cell, round, rounds, up));
                self.check_interrupt(&taken)?;
            }
            match taken {
                Ok(mut sample) => {
                    let left = rounds.saturating_sub(round) + 1;
                    let judgement = self.judge(&sample, rounds);
                    if let Judgement::Again(reason) | Judgement::Never(reason) = &judgement {
                        sample.discarded = Some(Discard::Broken {
                            rule: reason.clone(),
                        });
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

    /// Does a sample count? One that breaks an invariant never does; it is taken again, at most as often as the cell has samples.
    fn judge(&self, sample: &Sample, rounds: u32) -> Judgement {
        let broken = invariants::broken(sample, &self.run.env).filter(|_| sample.round > 0);
        let Some(broken) = broken else {
            return Judgement::Counts;
        };
        let cells = self.run.cells.iter();
        let again = cells
            .filter(|cell| cell.key == sample.cell)
            .flat_map(|cell| &cell.samples)
            .filter(|sample| matches!(sample.discarded, Some(Discard::Broken { .. })));
        if again.count() < rounds as usize {
            Judgement::Again(broken.to_string())
        } else {
            Judgement::Never(broken.to_string())
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
        if matches!(&up.load, Load::Machines(machines) if machines.all.is_empty()) {
            self.start_load_again(up)?;
        }
        let watch = &mut *self.watch;
        match &mut up.load {
            Load::Traffic(agents) => measure::sample(
                self.session,
                &up.topology,
                up.backend.as_ref(),
                agents,
                &request,
                &mut |live| watch.event(Event::Live(live)),
            ),
            Load::Machines(machines) => {
                let mut place = migration::Place {
                    session: self.session,
                    images: self.images.as_ref().ok_or_else(no_images)?,
                    topology: &up.topology,
                    backend: up.backend.as_mut(),
                    machines,
                };
                let taken = migration::sample(&mut place, &request)?;
                self.add_proof(&cell, &taken.proof);
                Ok(taken.sample)
            }
        }
    }

    /// The path proof of a cell has this besides.
    fn add_proof(&mut self, key: &CellKey, words: &str) {
        let mut cells = self.run.cells.iter_mut();
        let cell = cells.find(|cell| cell.key == *key);
        if let Some(cell) = cell.filter(|_| !words.is_empty())
            && !cell.proof_detail.contains(words)
        {
            cell.proof_detail = format!("{} | {words}", cell.proof_detail);
        }
    }

    /// It was sampled in this round before the run was broken off. A warm-up never counts: what is up is new.
    pub(super) fn has_round(&self, key: &CellKey, round: u32) -> bool {
        let cell = self.run.cells.iter().find(|cell| cell.key == *key);
        cell.is_some_and(|cell| cell.counted().any(|sample| sample.round == round))
    }
}
