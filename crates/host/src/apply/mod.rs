//! `apply` and `remove`: what is there is looked at, a plan is made of what differs, and carried out.

mod declared;
mod greeting;
mod legs;
mod look;
mod mend;
mod own_addresses;
mod questions;
mod remove;
mod resolve;
mod run;

pub use declared::Declared;
pub use remove::{RemoveRequest, remove};
pub(crate) use resolve::{Unfit, resolve, users};
pub(crate) use run::target;
pub use run::{ApplyRequest, RestBy, apply};
