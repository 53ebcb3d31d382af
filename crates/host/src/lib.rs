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
mod coalescing;
mod current;
pub mod detours;
mod devices;
mod error;
mod execute;
mod files;
pub mod forget;
mod greeting;
mod groups;
pub mod guard;
pub mod handover;
mod hooks;
mod journal;
mod legs;
mod lock;
pub mod mtu;
pub mod observe;
mod own_addresses;
pub mod paths;
mod place;
mod plan;
mod preflight;
mod promiscuous;
mod questions;
mod random;
pub mod rates;
mod record;
mod remove;
mod report;
pub mod rule_log;
pub mod signals;
mod state;
mod wait;

pub use apply::{ApplyRequest, Testing, apply};
pub use error::{HostError, UnfitDevice, UsedAs};
pub use files::Distrust;
pub use lock::Holder;
pub use overlane_net::netns::is_name as is_netns_name;
pub use remove::{RemoveRequest, remove};
pub use report::{Announced, Change, ChangeKind, Note, Removal, Report};
pub use state::{
    AppliedHost, SCHEMA as STATE_SCHEMA, applied_hosts, only_applied_host, only_known_host,
};
