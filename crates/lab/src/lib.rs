//! The laboratory: topologies, networks, workloads, measurement, and the journal that undoes it all.
//!
//! ```text
//! plan ──► topology + backends ──► proof ──► workload + measure ──► record::Run
//!               │
//!            journal (undone at the end, or by `cleanup`)
//! ```
//!
//! What the figures mean is `overlane_analysis`'s.
//! [`api`] is the whole interface; who wants to see a run while it goes on implements [`watch::Watch`].

pub mod error;
pub mod watch;

mod agents;
mod api;
mod backends;
mod bench;
mod machine;
mod measure;
mod proof;
mod relay;
mod run;
mod session;
mod topology;
#[allow(
    dead_code,
    unused_imports,
    reason = "the study of live migration will use it"
)]
mod vm;

pub use api::{
    CleanupReport, Doctor, DoctorItem, DoctorState, RunRequest, RunSummary, cleanup, doctor,
    resume, run,
};
pub use error::LabError;
pub use relay::{RelayCable, RelayEnd, RelayRequest, relay};
