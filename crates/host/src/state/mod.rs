//! What is remembered of a host: its state file, and the record of what is ours.

pub(crate) mod answers;
mod applied;
mod device;
mod earlier;
mod file;
mod former;
mod hosts;
mod netns_id;
mod place;
mod record;
pub(crate) mod tells;

pub use applied::SCHEMA;
pub(crate) use applied::{State, switch_words};
pub(crate) use device::DeviceState;
pub use device::Lost;
pub(crate) use former::former;
pub use hosts::{AppliedHost, applied_hosts, only_applied_host, only_known_host};
pub(crate) use netns_id::{NetnsId, netns_id};
pub(crate) use place::Place;
pub(crate) use record::Record;
