//! Everything that Overlane keeps on a machine, as one list of kinds. A kind compares what is wanted with what is there,
//! and adds to a plan what is to be done about each difference. `apply`, its dry run and `status` want the tables of a
//! host; `remove` wants nothing.
//!
//! ```text
//!   ORDER ──► each kind: wanted ≠ there? ──► Plan: add forwards, delete backwards, clean up when all else is done
//!                                             │ a deed: what to do, its undo, and the row that tells of it
//! ```

pub(crate) mod connections;
mod current;
mod detours;
mod entries;
mod fabric;
pub(crate) mod guard;
mod held;
pub(crate) mod hooks;
pub(crate) mod inside;
mod journal;
mod kind;
mod maps;
mod order;
pub(crate) mod own_devices;
mod plan;
mod programs;
pub(crate) mod receive_helper;
pub(crate) mod segmenter;
pub(crate) mod switches;
mod target;

pub(crate) use current::Current;
pub(crate) use journal::Journal;
pub use journal::Testing;
pub(crate) use kind::Look;
pub(crate) use order::unclear;
pub(crate) use plan::Mending;
pub(crate) use plan::Plan;
pub(crate) use target::{Links, Resolved, Spot, Target};
