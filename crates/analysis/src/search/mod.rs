//! The rate search: the highest load that a system under test carries within a goal of loss.
//!
//! ```text
//! Goal(s) + Limits ──► search ──► measure(load, duration) ──► Trial ─┐
//!                        ▲                                           │
//!                        └── classify: Lower, Upper, Undecided ◄─────┘ ──► Outcome
//! ```
//!
//! The definitions are those of Multiple Loss Ratio search (RFC 9971), the choice of loads is our
//! own ([`search()`]); [`rfc2544`] holds the two older procedures. Pure functions of the trials that
//! the caller's closure measures: no IO, no clock, no randomness, so that one list of trials always
//! gives one result.

mod book;
mod classify;
mod controller;
mod goal;
mod outcome;
mod preset;
pub mod rfc2544;
mod select;
mod trial;

pub use classify::{Class, classify, conditional_throughput};
pub use controller::search;
pub use goal::{Goal, GoalParts, Limits, SearchError};
pub use outcome::{GoalResult, Outcome};
pub use preset::Preset;
pub use trial::Trial;
