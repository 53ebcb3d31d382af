//! Applying the tables of one host to this machine, removing them, and looking at what runs.
//!
//! This crate sits between the pure side (`overlane-model` compiles the fabric file to [`Tables`]) and
//! the machine (`overlane-net` for devices and neighbours, `overlane-ebpf` for maps, programs and
//! links). It keeps nothing running: after [`apply`] the kernel carries the packets alone.
//!
//! ```text
//!   Tables ──► pre-flight ──► plan (what differs) ──► steps, each with its undo ──► Report
//!                  │ fails: nothing was touched            │ fails: everything is put back
//! ```
//!
//! What it leaves on the machine is listed in [`paths`]; [`remove()`] takes exactly that away.
//!
//! [`Tables`]: overlane_model::Tables

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod announce;
mod answers;
mod apply;
pub mod capture;
mod clock;
mod error;
mod files;
pub mod forget;
pub mod handover;
mod kinds;
mod legs;
mod lock;
pub mod mtu;
pub mod observe;
mod own_addresses;
pub mod paths;
mod random;
pub mod rates;
pub mod report;
pub mod rule_log;
pub mod signals;
mod state;
mod status;
mod wait;

pub use apply::remove::{RemoveRequest, remove};
pub use apply::{ApplyRequest, Testing, apply};
pub use error::{HostError, UnfitDevice, UsedAs};
pub use files::Distrust;
pub use kinds::detours;
pub use kinds::guard;
pub use lock::Holder;
pub use overlane_net::netns::is_name as is_netns_name;
pub use report::{Announced, ChangeKind, Difference, Object, Removal, Report, Row};
pub use state::{
    AppliedHost, SCHEMA as STATE_SCHEMA, applied_hosts, only_applied_host, only_known_host,
};
pub use status::{Status, Thing, Verdict, last_applied, status};
