//! What the programs at hooks do when the data path that they lead to is gone: the kernel empties the map `data_paths`
//! when somebody takes its pin away.

#![allow(clippy::unwrap_used, clippy::panic)]

use overlane_conformance::say;
use overlane_conformance::test_runner::{data_path, obstacle};
use overlane_ebpf::Program;
use overlane_ebpf::test_run::{Action, Beside, TestRun};
use overlane_model::Hook;
use overlane_model::Verdict::{NotConfigured, ToHost};

#[test]
fn without_a_data_path_ports_are_cut_off_and_the_host_is_not() {
    if let Some(obstacle) = obstacle() {
        return say(&format!("SKIPPED data_paths: {obstacle}"));
    }
    let mut kernel = TestRun::load(&data_path().unwrap()).unwrap();
    kernel.lead_nowhere().unwrap();
    let frame = [0x02; 60];
    for (program, hook, action, verdict) in [
        (
            Program::FromPort,
            Hook::FromPort,
            Action::Drop,
            NotConfigured,
        ),
        (
            Program::FromUnderlay,
            Hook::FromUnderlay,
            Action::Next,
            ToHost,
        ),
        (Program::FromLeg, Hook::FromLeg, Action::Next, ToHost),
    ] {
        let ran = kernel.run(program, &frame, Beside::default()).unwrap();
        assert_eq!((ran.action, ran.verdict), (action, Some(verdict)));
        assert_eq!(ran.bytes, frame);
        let counters = kernel.counters().unwrap();
        let counted = counters.verdicts.iter();
        let counted = counted.filter(|(at, ..)| *at == hook);
        let counted: Vec<_> = counted
            .filter(|(.., count)| count.packets > 0)
            .map(|(_, verdict, count)| (*verdict, count.packets, count.bytes))
            .collect();
        assert_eq!(counted, [(verdict, 1, 60)], "{hook}");
    }
}
