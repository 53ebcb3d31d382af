//! What the laboratory's figures mean: a study in, a plan out; the record of a run in, a report out.
//!
//! ```text
//! study ──► plan ──► (the laboratory measures) ──► record::Run ──► stats ──► results ──► report
//! ```
//!
//! Nothing here measures, and nothing but [`results::folder`] and [`study`] touches a file.

pub mod error;
pub mod plan;
pub mod record;
pub mod report;
pub mod results;
pub mod search;
pub mod stats;
pub mod study;
pub mod time;

pub use error::AnalysisError;
