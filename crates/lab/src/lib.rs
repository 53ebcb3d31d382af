//! The laboratory: studies, topologies, workloads, measurement, statistics, results, reports.
//!
//! ```text
//! study ──► plan ──► topology + backends ──► proof ──► workload + measure ──► record::Run
//!                         │                                                      │
//!                      journal (undone at the end, or by `cleanup`)      stats ─► results ─► report
//! ```
//!
//! Four calls are the whole interface: [`run()`], [`list`], [`doctor()`] and [`cleanup()`].

pub mod error;
pub mod record;
pub mod report;
pub mod results;
pub mod stats;
pub mod study;
pub mod time;

mod api;
mod backends;
mod bench;
mod capture;
mod cpu_time;
mod cpus;
mod doctor;
mod environment;
mod frames;
mod interrupt;
mod iperf;
mod journal;
mod measure;
mod noise;
mod plan;
mod process;
mod progress;
mod proof;
mod run;
mod session;
#[expect(
    unsafe_code,
    reason = "the hook between fork and exec and a socket option have no safe wrapper"
)]
mod sys;
mod topology;
mod undo;

pub use api::{
    CleanupReport, Doctor, DoctorItem, DoctorState, Progress, RunRequest, RunSummary, StudySummary,
    cleanup, doctor, list, run,
};
pub use error::LabError;
