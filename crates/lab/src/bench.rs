//! The measuring itself: per block build every network's topology, prove every path, measure what the traffic
//! tool reaches alone, sample in turn workload by workload, take down.

use crate::agents::Agents;
use crate::backends::{self, Backend};
use crate::error::LabError;
use crate::measure::{self, Request};
use crate::session::Session;
use crate::topology::Topology;
use crate::watch::{Event, Watch};
use crate::{noise, proof, relay};
use overlane_analysis::plan::{
    Block, CEILING_SAMPLES, CEILING_SECONDS, Network, Plan, WorkloadCells, order,
};
use overlane_analysis::record::{
    BackendName, Ceiling, CellKey, CellStatus, Family, FarEnd, Feature, GroupKey, GuestKind, Run,
    Sample, Setting,
};
use overlane_analysis::results::Metric;
use overlane_analysis::results::folder::Folder;
use overlane_analysis::stats::repeat::{self, Decision};
use overlane_analysis::study::possible;
use std::collections::{BTreeMap, BTreeSet};

/// A network that is up.
struct Up {
    network: Network,
    topology: Topology,
    backend: Box<dyn Backend>,
    agents: Agents,
}

/// What cannot run here, with the reason.
#[derive(Default)]
struct Missing {
    backends: BTreeMap<BackendName, String>,
    /// Of all virtual machines.
    taps: Option<String>,
}

/// A run under way.
pub(crate) struct Bench<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a Plan,
    pub(crate) folder: Folder,
    /// What has been recorded so far; complete at any moment but for the status of open cells.
    pub(crate) run: Run,
    pub(crate) watch: &'a mut dyn Watch,
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
        let mut settings = self.plan.cells().map(|cell| cell.group.setting);
        if settings.any(|setting| setting.guests == GuestKind::Tap) {
            missing.taps = relay::check(self.session)?;
        }
        if let Some(reason) = &missing.taps {
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
            .and_then(|()| self.measure_alone(block, &up))
            .and_then(|()| {
                for work in &block.workloads {
                    self.sample_cells(work, &mut up)?;
                    self.folder.save(&self.run)?;
                }
                Ok(())
            });
        for network in up {
            self.take_down(network);
        }
        outcome
    }

    /// Builds and proves all networks of a block, those that can be.
    fn raise_block(
        &mut self,
        block: &Block,
        missing: &Missing,
        up: &mut Vec<Up>,
    ) -> Result<(), LabError> {
        for network in &block.networks {
            if !self.is_needed(network) {
                continue;
            }
            let unsupported = || possible::unsupported(network.backend, &network.setting);
            let lacks_taps = || {
                let is_vm = network.setting.guests == GuestKind::Tap;
                missing.taps.clone().filter(|_| is_vm)
            };
            let reason = missing.backends.get(&network.backend).cloned();
            if let Some(reason) = reason.or_else(unsupported).or_else(lacks_taps) {
                self.close(network, &CellStatus::Unavailable { reason });
                continue;
            }
            let raised = self.raise(network);
            self.check_interrupt(&raised)?;
            match raised {
                Ok(raised) => up.push(raised),
                Err(error) => self.close(
                    network,
                    &CellStatus::Failed {
                        reason: error.to_string(),
                    },
                ),
            }
        }
        Ok(())
    }

    fn raise(&mut self, network: &Network) -> Result<Up, LabError> {
        let Network {
            backend: name,
            copy,
            setting,
        } = *network;
        self.watch
            .event(Event::Doing(&format!("building {name}, {setting}")));
        let topology = Topology::build(self.session, name, copy, setting)?;
        let mut backend = backends::new(name);
        let built = backend.build(self.session, &topology).and_then(|()| {
            self.record_hops(&topology)?;
            self.watch.event(Event::Doing(&format!(
                "proving the path of {name}, {setting}"
            )));
            let proof = proof::prove(self.session, &topology, backend.as_ref())?;
            Ok((proof, Agents::start(self.session, &topology)?))
        });
        match built {
            Ok((proof, agents)) => {
                let notes = backend.notes();
                for cell in self
                    .run
                    .cells
                    .iter_mut()
                    .filter(|cell| *network == Network::from(cell.key))
                {
                    cell.notes.clone_from(&notes);
                    cell.path_proof = proof.holds;
                    cell.proof_detail.clone_from(&proof.detail);
                }
                Ok(Up {
                    network: *network,
                    topology,
                    backend,
                    agents,
                })
            }
            Err(error) => {
                self.take_apart(network, topology, backend);
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

    /// What the traffic tool reaches over one cable, for every workload of the block: the figure that no network can pass.
    fn measure_alone(&mut self, block: &Block, up: &[Up]) -> Result<(), LabError> {
        let mut wanted: Vec<GroupKey> = Vec::new();
        for cell in block.workloads.iter().flat_map(|work| &work.cells) {
            let group = alone(cell.group);
            let known = self.run.ceilings.iter().any(|known| known.group == group);
            if !known
                && !wanted.contains(&group)
                && up.iter().any(|up| up.network == Network::from(*cell))
            {
                wanted.push(group);
            }
        }
        let settings: BTreeSet<Setting> = wanted.iter().map(|group| group.setting).collect();
        for setting in settings {
            let network = Network {
                backend: BackendName::Direct,
                // Beside the networks of the plan, which count from 0.
                copy: u8::MAX,
                setting,
            };
            let raised = self.raise(&network);
            self.check_interrupt(&raised)?;
            let mut cable = match raised {
                Ok(cable) => cable,
                Err(error) => {
                    self.run.warnings.push(format!(
                        "The traffic tool alone could not be measured ({setting}): {error}"
                    ));
                    continue;
                }
            };
            let mut groups = wanted.iter().filter(|group| group.setting == setting);
            let outcome = groups.try_for_each(|group| self.measure_ceiling(*group, &mut cable));
            self.take_down(cable);
            outcome?;
        }
        Ok(())
    }

    fn measure_ceiling(&mut self, group: GroupKey, cable: &mut Up) -> Result<(), LabError> {
        let mut unbounded = group;
        unbounded.workload.search = None;
        unbounded.workload.rate_pps = None;
        let request = Request {
            cell: unbounded.cell(BackendName::Direct),
            round: 1,
            seconds: CEILING_SECONDS,
            ceiling: None,
        };
        self.watch
            .event(Event::Doing(&format!("the traffic tool alone: {group}")));
        let metric = Metric::primary(group.workload.test);
        let mut best: Option<f64> = None;
        for _ in 0..CEILING_SAMPLES {
            let taken = measure::sample(
                self.session,
                &cable.topology,
                cable.backend.as_ref(),
                &mut cable.agents,
                &request,
                &mut |_| (),
            );
            self.check_interrupt(&taken)?;
            match taken {
                Ok(sample) => best = metric.of(&sample).into_iter().chain(best).reduce(f64::max),
                Err(error) => self.run.warnings.push(format!(
                    "The traffic tool alone could not be measured ({group}): {error}"
                )),
            }
        }
        self.run
            .ceilings
            .extend(best.map(|value| Ceiling { group, value }));
        Ok(())
    }

    /// A B C, B C A, C A B …; a cell that fails twice in a row is out. Rounds go on while a cell's rule asks for more.
    fn sample_cells(&mut self, work: &WorkloadCells, up: &mut [Up]) -> Result<(), LabError> {
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
    fn more_rounds(&self, cells: &[CellKey]) -> u32 {
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

    fn sample_or_fail(
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
            self.run.warnings.push(format!(
                "{cell}, round {round}: sampled again after: {error}"
            ));
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

    fn sample(
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
        let ceiling = self.run.ceilings.iter().find(|known| known.group == group);
        let request = Request {
            cell,
            round,
            seconds,
            ceiling: ceiling.map(|ceiling| ceiling.value),
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

    /// Some cell of the network is still to be measured.
    fn is_needed(&self, network: &Network) -> bool {
        let mut cells = self.run.cells.iter();
        cells.any(|cell| *network == Network::from(cell.key) && cell.status == CellStatus::Open)
    }

    fn is_open(&self, key: &CellKey) -> bool {
        let mut cells = self.run.cells.iter();
        cells.any(|cell| cell.key == *key && cell.status == CellStatus::Open)
    }

    /// It was sampled in this round before the run was broken off. A warm-up never counts: what is up is new.
    fn has_round(&self, key: &CellKey, round: u32) -> bool {
        let cell = self.run.cells.iter().find(|cell| cell.key == *key);
        cell.is_some_and(|cell| cell.counted().any(|sample| sample.round == round))
    }

    fn set_status(&mut self, key: &CellKey, status: CellStatus) {
        if let Some(cell) = self.run.cells.iter_mut().find(|cell| cell.key == *key) {
            cell.status = status;
        }
    }

    /// None of the network's open cells will be measured.
    fn close(&mut self, network: &Network, status: &CellStatus) {
        if let CellStatus::Failed { reason } = status {
            self.note(&format!(
                "{}, {} failed: {reason}",
                network.backend, network.setting
            ));
        }
        let mut closed = 0;
        for cell in &mut self.run.cells {
            if *network == Network::from(cell.key) && cell.status == CellStatus::Open {
                cell.status = status.clone();
                closed += u64::from(self.plan.samples_of(&cell.key) + 1);
            }
        }
        self.watch.event(Event::Advanced(closed));
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

    fn take_down(&mut self, up: Up) {
        // The agents first: they are in the namespaces.
        drop(up.agents);
        self.take_apart(&up.network, up.topology, up.backend);
    }

    /// What stays behind here is undone by the journal; that it stayed is worth knowing.
    fn take_apart(&mut self, network: &Network, topology: Topology, mut backend: Box<dyn Backend>) {
        if self.session.interrupts.raised() {
            // Or the signal would cut the orderly way down short as well.
            self.session.interrupts.shield();
        }
        if let Err(error) = backend.tear_down(self.session, &topology) {
            self.run.warnings.push(format!(
                "{}, {} did not come down in order: {error}",
                network.backend, network.setting
            ));
        }
        topology.delete();
    }
}

/// The group in which the traffic tool is measured alone: what the network between would add is taken out.
fn alone(group: GroupKey) -> GroupKey {
    GroupKey {
        setting: Setting {
            far_end: FarEnd::Host,
            hosts: 2,
            guests: GuestKind::Veth,
            underlay: Family::Ipv4,
            feature: Feature::Default,
            ..group.setting
        },
        ..group
    }
}
