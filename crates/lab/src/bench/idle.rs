//! What the machine does while the networks of a block are up and carry nothing: the idle row of study E.

use super::Bench;
use crate::error::LabError;
use crate::machine::cpu_time::CpuTimes;
use crate::machine::programs::Programs;
use crate::measure::memory;
use crate::watch::Event;
use overlane_analysis::plan::IDLE_SECONDS;
use overlane_analysis::record::{Idle, Setting};
use std::collections::BTreeSet;
use std::time::Duration;

use super::networks::Up;

impl Bench<'_> {
    /// Watches the block for a moment; a place that has its reading already is left alone.
    pub(super) fn measure_idle(&mut self, up: &[Up]) -> Result<(), LabError> {
        let places: BTreeSet<Setting> = up.iter().map(|up| up.network.setting.place()).collect();
        let known = |place: &Setting| self.run.idle.iter().any(|idle| idle.place == *place);
        if places.iter().all(known) {
            return Ok(());
        }
        self.watch
            .event(Event::Doing("the networks without traffic"));
        let programs = Programs::now()?;
        let before = CpuTimes::now()?;
        let length = Duration::from_secs_f64(IDLE_SECONDS);
        self.session.interrupts.wait(length)?;
        let cpu = CpuTimes::now()?.since(&before, &self.session.cpus);
        let (own, cpus) = (std::process::id(), self.session.cpus.all());
        let foreign = Programs::now()?.foreign_since(&programs, own, &cpus);
        let memory = memory::of_the_machine()?;
        for place in places {
            self.run.idle.push(Idle {
                place,
                networks: up.len(),
                cpu: cpu.clone(),
                foreign: foreign.clone(),
                memory_mib: memory,
            });
        }
        Ok(())
    }
}
