//! The eBPF executor: building, loading, pinning and reading the data path.
//!
//! The programs themselves are C, in `bpf/`; this crate compiles them (build.rs), mirrors their ABI
//! ([`abi`]), turns [`overlane_model::Tables`] into map entries ([`tables`], rules by way of
//! [`overlane_model::classifier`]) and speaks to the kernel ([`maps`], [`links`], [`object`], [`devices`], [`counters`],
//! [`learned`], [`connections`], [`carry`], [`path_mtus`], [`events`], [`rule_log`]). What to do when, and how to take it back, is decided
//! one crate up, in `overlane-host`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod abi;
pub mod abilities;
mod btf;
pub mod carry;
pub mod connections;
mod counted;
pub mod counters;
mod data_paths;
pub mod devices;
mod epochs;
mod error;
pub mod events;
mod kernel;
pub mod learned;
pub mod links;
pub mod maps;
pub mod measure;
pub mod neighbours;
pub mod object;
pub mod path_mtus;
pub mod preflight;
pub mod rule_log;
#[expect(unsafe_code, reason = "bpf(2) commands that aya does not offer")]
mod sys;
pub mod tables;
pub mod test_run;

pub use error::EbpfError;
pub use links::HeldProgram;
pub use object::{DataPath, Loaded, Program, digest};
pub use sys::{Hooked, Layout, LinkInfo, ProgramSize};
