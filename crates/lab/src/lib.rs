//! The laboratory: studies, topologies, workloads, measurement, statistics, results, reports.
//!
//! ```text
//! study ──► plan ──► topology + backends ──► proof ──► workload + measure ──► record::Run
//!                         │                                                      │
//!                      journal (undone at the end, or by `cleanup`)      stats ─► results ─► report
//! ```
//!
//! [`api`] is the whole interface; who wants to see a run while it goes on implements [`watch::Watch`].

pub mod error;
pub mod record;
pub mod report;
pub mod results;
pub mod search;
pub mod stats;
pub mod study;
pub mod time;
pub mod watch;

mod agents;
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
mod journal;
mod measure;
mod noise;
mod plan;
mod process;
mod proof;
mod relay;
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
    CleanupReport, Doctor, DoctorItem, DoctorState, Overrides, RunRequest, RunSummary, StudyRef,
    StudySummary, check, cleanup, compare, doctor, list, plan, report, resume, run,
};
pub use error::LabError;
pub use plan::{PlanBlock, PlanCell, PlanSummary};
pub use relay::{RelayCable, RelayEnd, RelayRequest, relay};
pub use results::compare::{
    CompareReport, CompareRequest, CompareRow, MissingCell, Network as CompareNetwork,
    Side as CompareSide,
};
