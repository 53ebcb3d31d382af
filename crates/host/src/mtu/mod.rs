//! What fits through the underlay, and where a machine is set otherwise: `overlane mtu`. The arithmetic itself is the
//! model's (`overlane_model::mtu`).
//!
//! [`gather`] looks at this machine, [`audit()`] judges what was found, of one host or of several. [`probe`] tries what
//! really gets through, and [`watch`] goes on trying.

pub mod audit;
pub mod facts;
pub mod gather;
pub mod probe;
pub mod watch;
pub(crate) mod way;

pub use audit::audit;
