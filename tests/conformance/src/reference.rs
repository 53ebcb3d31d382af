//! Runs a case on the reference executor.

use overlane_pipeline::{Host, Outcome, State};

use crate::case::Case;

/// What becomes of each packet of a case, in order on one state.
pub fn run(case: &Case) -> Vec<Outcome> {
    let host = Host::new(case.tables.clone(), case.underlay_mtu);
    let mut state = State::new();
    let steps = case.steps.iter();
    steps
        .map(|step| host.run(&mut state, step.now_ns, &step.entry, &step.packet))
        .collect()
}
