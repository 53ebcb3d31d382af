//! The machine that a run measures on: its CPUs and their time, its record, its steadiness, its signals.

pub(crate) mod cpu_time;
pub(crate) mod cpus;
pub(crate) mod environment;
pub(crate) mod interrupt;
pub(crate) mod noise;
pub mod open_files;
pub(crate) mod programs;
pub(crate) mod spinner;
#[expect(
    unsafe_code,
    reason = "the hook between fork and exec and a socket option have no safe wrapper"
)]
pub(crate) mod sys;
