//! Study files: what is refused has a mistake; what is accepted has cells, and a plan that says how long they take.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_analysis::study::Study;
use overlane_analysis::{AnalysisError, plan::PlanSummary};

fuzz_target!(|text: &str| {
    match Study::parse("fuzz.yaml", text) {
        Err(AnalysisError::Mistakes { mistakes }) => assert!(!mistakes.is_empty()),
        Err(other) => panic!("no mistake of the file: {other}"),
        Ok(study) => {
            for quick in [false, true] {
                let plan = PlanSummary::of(&study, quick);
                assert!(plan.samples_in_all > 0 && plan.expected_seconds.is_finite());
            }
        }
    }
});
