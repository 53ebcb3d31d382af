//! Applying the tables of one host to this machine, removing them, and looking at what runs.
//!
//! This crate sits between the pure side (`overlane-model` compiles the fabric file to [`Tables`]) and
//! the machine (`overlane-net` for devices and neighbours, `overlane-ebpf` for maps, programs and
//! links). It keeps nothing running: after [`apply`] the kernel carries the packets alone.
//!
//! ```text
//!   fabric file ──► Tables ──► pre-flight ──► plan (what differs) ──► steps, each with its undo ──► Report
//!                  │ fails: nothing was touched            │ fails: everything is put back
//! ```
//!
//! What it leaves on the machine is listed in [`paths`]; [`remove()`] takes exactly that away.
//!
//! [`Tables`]: overlane_model::Tables

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod agent;
mod apply;
pub mod calls;
mod conntrack;
mod kinds;
mod live;
pub mod mtu;
pub mod observe;
pub mod report;
mod state;
mod status;
mod watch;

/// What all else stands on, and what knows nothing of fabrics. A folder of this name beside `lib.rs` would be ambiguous.
#[path = "lib"]
mod lib {
    pub(crate) mod allocator;
    pub(crate) mod announcements;
    pub(crate) mod clock;
    pub mod detour;
    pub(crate) mod distrust;
    pub(crate) mod elsewhere;
    pub(crate) mod error;
    pub(crate) mod features;
    pub(crate) mod files;
    pub(crate) mod greeting;
    pub(crate) mod holder;
    pub(crate) mod lock;
    pub(crate) mod next_hop;
    pub mod paths;
    pub(crate) mod random;
    pub mod signals;
    pub(crate) mod stamp;
    pub(crate) mod wait;
}

pub use apply::{ApplyRequest, Declared, RemoveRequest, RestBy, apply, remove};
pub use conntrack::{forget, handover};
pub use kinds::Testing;
pub use lib::detour as detours;
pub use lib::distrust::Distrust;
pub use lib::error::{Absence, HostError, NotElsewhere, OtherName, UnfitDevice, UsedAs, chain};
pub use lib::holder::Holder;
pub use lib::{paths, signals};
pub use live::announcer as announce;
pub use overlane_net::netns::is_name as is_netns_name;
pub use report::{Announced, ChangeKind, Difference, Object, Remedy, Removal, Report, Row};
pub use state::{
    AppliedHost, SCHEMA as STATE_SCHEMA, applied_hosts, only_applied_host, only_known_host,
};
pub use status::{Status, Thing, Verdict, status};
pub use watch::{capture, rates, rule_log};
