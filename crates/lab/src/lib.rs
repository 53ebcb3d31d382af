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

mod api;

pub use api::{
    CleanupReport, Doctor, DoctorItem, DoctorState, Progress, RunRequest, RunSummary, StudySummary, cleanup, doctor,
    list, run,
};
pub use error::LabError;
