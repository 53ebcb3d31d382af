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
mod doctor;
mod flows;
mod machine;
mod machines;
mod measure;
mod proof;
mod relay;
mod run;
mod session;
mod topology;
mod vm;

pub use api::{cleanup, doctor, resume, run};
pub use doctor::{Doctor, DoctorItem, DoctorState};
pub use error::LabError;
pub use machine::open_files;
pub use relay::{RelayCable, RelayEnd, RelayRequest, relay};
pub use run::{RunRequest, RunSummary};
pub use session::undo::CleanupReport;
