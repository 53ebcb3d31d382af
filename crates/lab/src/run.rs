//! A run from plan to result folder: per group build every backend's topology, prove every path,
//! sample in turn, take down. What was measured survives errors and signals.

use crate::api::{RunRequest, RunSummary};
use crate::backends::{self, Backend};
use crate::error::LabError;
use crate::plan::{GroupPlan, Plan, order};
use crate::progress::Shown;
use crate::record::{BackendName, Cell, CellKey, CellStatus, Run, SCHEMA};
use crate::session::Session;
use crate::study::Study;
use crate::topology::Topology;
use crate::{environment, measure, noise, proof, results, time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The status of a cell before its turn.
const NOT_REACHED: &str = "not reached";

/// Runs a study and writes its result folder.
pub(crate) fn run(request: &RunRequest) -> Result<RunSummary, LabError> {
    run_study(Study::shipped(&request.study)?, request)
}

fn run_study(study: Study, request: &RunRequest) -> Result<RunSummary, LabError> {
    let plan = Plan::new(if request.quick {
        &study.quick
    } else {
        &study.matrix
    });
    let started_unix_ms = time::unix_ms();
    let dir = request
        .out
        .clone()
        .unwrap_or_else(|| default_dir(&study, started_unix_ms));
    // Before the measuring, not after it: a folder that cannot be written would cost the whole run.
    std::fs::create_dir_all(&dir).map_err(LabError::io("creating", &dir))?;
    let session = Session::begin()?;
    require_generator()?;
    let env = environment::record(&session.cpus);
    let run = Run {
        schema: SCHEMA.to_owned(),
        study,
        quick: request.quick,
        interrupted: false,
        planned_samples: plan.samples,
        planned_seconds: f64::from(plan.seconds),
        env,
        cells: plan.cells().map(not_reached).collect(),
        started_unix_ms,
        finished_unix_ms: started_unix_ms,
        warnings: Vec::new(),
    };
    let samples = plan.cells().count() as u64 * u64::from(plan.samples + 1);
    let shown = Shown::new(request.progress, samples, plan.expected());
    let mut bench = Bench {
        session: &session,
        plan: &plan,
        run,
        shown,
    };
    let outcome = bench.measure();
    session.interrupts.shield();
    bench.shown.finish();
    let Bench { mut run, .. } = bench;
    run.finished_unix_ms = time::unix_ms();
    run.interrupted = matches!(outcome, Err(LabError::Interrupted));
    if let Err(error) = outcome {
        if !run.cells.iter().any(|cell| cell.counted().next().is_some()) {
            return Err(error);
        }
        close_open_cells(&mut run.cells, &error);
        if !run.interrupted {
            run.warnings.push(format!(
                "The run broke off: {error}. What had been measured is kept."
            ));
        }
    }
    for left in session.end() {
        run.warnings.push(format!(
            "Not undone: {left}. `overlane lab cleanup` tries again."
        ));
    }
    run.warnings.extend(noise::drift(&run.env.noise));
    let report = results::write(&run, &dir)?;
    Ok(RunSummary { dir, report, run })
}

fn default_dir(study: &Study, started_unix_ms: u64) -> PathBuf {
    Path::new("results").join(format!(
        "{}-{}",
        time::utc_stamp(started_unix_ms),
        study.name
    ))
}

fn require_generator() -> Result<(), LabError> {
    match environment::find_program("iperf3") {
        Some(_) => Ok(()),
        None => Err(LabError::Unable {
            reason: "`iperf3` is not installed (package iperf3)".to_owned(),
        }),
    }
}

/// A cell before its turn; if its turn never comes, this is how it ended.
fn not_reached(key: CellKey) -> Cell {
    Cell::empty(
        key,
        CellStatus::Failed {
            reason: NOT_REACHED.to_owned(),
        },
    )
}

/// After a run that broke off: a cell with samples is as good as they are, and their number is shown;
/// the others ended with the run.
fn close_open_cells(cells: &mut [Cell], error: &LabError) {
    for cell in cells {
        if !matches!(&cell.status, CellStatus::Failed { reason } if reason == NOT_REACHED) {
            continue;
        }
        cell.status = if cell.counted().next().is_some() {
            CellStatus::Ok
        } else {
            CellStatus::Failed {
                reason: error.to_string(),
            }
        };
    }
}

/// A cell whose topology is up.
struct Live {
    /// Its place in `Run::cells`.
    cell: usize,
    topology: Topology,
    backend: Box<dyn Backend>,
}

struct Bench<'a> {
    session: &'a Session,
    plan: &'a Plan,
    run: Run,
    shown: Shown,
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<(), LabError> {
        let missing = self.check_backends()?;
        self.probe_noise("before")?;
        for group in &self.plan.groups {
            self.measure_group(group, &missing)?;
        }
        self.probe_noise("after")
    }

    /// Backends that cannot run here, with the reason.
    fn check_backends(&self) -> Result<BTreeMap<BackendName, String>, LabError> {
        let mut missing = BTreeMap::new();
        for backend in self.plan.cells().map(|cell| cell.backend) {
            if !missing.contains_key(&backend)
                && let Some(reason) = backends::check(self.session, backend)?
            {
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

    fn measure_group(
        &mut self,
        group: &GroupPlan,
        missing: &BTreeMap<BackendName, String>,
    ) -> Result<(), LabError> {
        let mut live = Vec::new();
        let outcome = self
            .raise_group(group, missing, &mut live)
            .and_then(|()| self.sample_group(group, &mut live));
        for cell in live {
            self.take_down(cell);
        }
        outcome
    }

    /// Builds and proves all topologies of a group, those that can be.
    fn raise_group(
        &mut self,
        group: &GroupPlan,
        missing: &BTreeMap<BackendName, String>,
        live: &mut Vec<Live>,
    ) -> Result<(), LabError> {
        let samples = u64::from(self.plan.samples) + 1;
        for key in &group.cells {
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

    /// The same devices serve several groups: each set is recorded once.
    fn record_hops(&mut self, topology: &Topology) -> Result<(), LabError> {
        let hops = topology.hops()?;
        let known = |name: &str| self.run.env.hops.iter().any(|hop| hop.topology == name);
        if !hops.first().is_some_and(|hop| known(&hop.topology)) {
            self.run.env.hops.extend(hops);
        }
        Ok(())
    }

    /// A B C, B C A, C A B …; a cell that fails twice in a row is out.
    fn sample_group(&mut self, group: &GroupPlan, live: &mut Vec<Live>) -> Result<(), LabError> {
        let offload = if group.key.offload { "on" } else { "off" };
        let mtu = group
            .cells
            .iter()
            .map(|cell| cell.mtu.to_string())
            .collect::<std::collections::BTreeSet<_>>();
        let mtu = mtu.into_iter().collect::<Vec<_>>().join("/");
        let name = format!(
            "mtu {mtu}, {} streams, offload {offload}",
            group.key.streams
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Progress;
    use crate::record::MtuClass;
    use crate::study::GroupAxes;
    use nix::unistd::geteuid;

    /// Real namespaces, real traffic, one second a sample.
    #[test]
    fn a_small_study_is_measured_and_leaves_nothing() {
        if !geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mut study = Study::shipped("jumbo-vxlan").unwrap();
        // Those of the project itself need its program, which a test is not.
        study.quick.backends = BackendName::ALL[..5].to_vec();
        study.quick.groups = vec![GroupAxes {
            mtu: vec![MtuClass::Standard],
            streams: vec![1],
            offload: vec![false],
        }];
        (study.quick.samples, study.quick.seconds) = (1, 1);
        let out = std::env::temp_dir().join(format!("overlane-lab-run-{}", std::process::id()));
        let request = RunRequest {
            study: study.name.clone(),
            quick: true,
            out: Some(out.clone()),
            progress: Progress::Lines,
        };
        let run = run_study(study, &request).unwrap().run;
        for cell in &run.cells {
            let needs_packages = matches!(
                cell.key.backend,
                BackendName::OvsVxlan | BackendName::OvsGeneve
            );
            if needs_packages && matches!(cell.status, CellStatus::Unavailable { .. }) {
                continue;
            }
            assert_eq!(cell.status, CellStatus::Ok, "{cell:?}");
            assert!(cell.path_proof, "{cell:?}");
            assert_eq!((cell.samples.len(), cell.counted().count()), (2, 1));
            let sample = cell.counted().next().unwrap();
            assert!(
                sample.goodput_gbps > 0.01 && sample.underlay_packets > 100,
                "{sample:?}"
            );
            // The wire segments: no packet is larger than the underlay allows.
            let size = sample.underlay_packet_bytes.unwrap();
            assert!((1000.0..1615.0).contains(&size), "{size}");
        }
        let prefix = format!("lab{}-", std::process::id());
        let left = overlane_net::netns::list().unwrap();
        assert!(
            !left.iter().any(|name| name.starts_with(&prefix)),
            "{left:?}"
        );
        std::fs::remove_dir_all(out).unwrap();
    }
}
