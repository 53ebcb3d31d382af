//! What a workload reaches over one cable: a reference for all networks of its block, not a limit.

use super::Bench;
use super::networks::{Load, Up};
use crate::error::LabError;
use crate::measure::{self, Request};
use crate::watch::Event;
use overlane_analysis::plan::{Block, Network, REFERENCE_SAMPLES, REFERENCE_SECONDS, alone};
use overlane_analysis::record::{BackendName, GroupKey, Reference, Setting, Warning};
use overlane_analysis::results::Metric;
use std::collections::BTreeSet;

impl Bench<'_> {
    /// What the traffic tool reaches over one cable, for every workload of the block.
    pub(super) fn measure_alone(&mut self, block: &Block, up: &[Up]) -> Result<(), LabError> {
        let mut wanted: Vec<GroupKey> = Vec::new();
        for cell in block.workloads.iter().flat_map(|work| &work.cells) {
            let Some(group) = alone(cell.group) else {
                continue;
            };
            let known = self.run.references.iter().any(|known| known.group == group);
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
                    self.run.warnings.push(Warning::NoReference {
                        of: setting.to_string(),
                        reason: error.to_string(),
                    });
                    continue;
                }
            };
            let mut groups = wanted.iter().filter(|group| group.setting == setting);
            let outcome = groups.try_for_each(|group| self.measure_reference(*group, &mut cable));
            self.take_down(cable);
            outcome?;
        }
        Ok(())
    }

    pub(super) fn measure_reference(
        &mut self,
        group: GroupKey,
        cable: &mut Up,
    ) -> Result<(), LabError> {
        let mut unbounded = group;
        unbounded.workload.search = None;
        unbounded.workload.rate_pps = None;
        unbounded.workload.rate_mbps = None;
        let request = Request {
            cell: unbounded.cell(BackendName::Direct),
            round: 1,
            seconds: REFERENCE_SECONDS,
        };
        self.watch
            .event(Event::Doing(&format!("the traffic tool alone: {group}")));
        let metric = Metric::primary(group.workload.test);
        let Load::Traffic(agents) = &mut cable.load else {
            return Ok(());
        };
        let mut best: Option<f64> = None;
        for _ in 0..REFERENCE_SAMPLES {
            let taken = measure::sample(
                self.session,
                &cable.topology,
                cable.backend.as_ref(),
                agents,
                &request,
                &mut |_| (),
            );
            self.check_interrupt(&taken)?;
            match taken {
                Ok(sample) => best = metric.of(&sample).into_iter().chain(best).reduce(f64::max),
                Err(error) => self.run.warnings.push(Warning::NoReference {
                    of: group.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
        self.run
            .references
            .extend(best.map(|value| Reference { group, value }));
        Ok(())
    }
}
