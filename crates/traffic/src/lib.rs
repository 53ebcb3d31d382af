//! The traffic tool: what one guest sends, receives and answers, as an agent that is told what to do.
//!
//! ```text
//! laboratory ──orders (JSON, a line each)──► stdin   agent   stdout ──answers──► laboratory
//!                                                      │
//!                                  jobs: tcp (stream, rr, crr) · udp (rr, paced) · frames (raw)
//! ```
//!
//! One agent runs in each guest. The same messages serve an agent on another machine.

pub mod message;

mod agent;
mod crew;
mod error;
mod frames;
mod incoming;
mod job;
mod latency;
mod outgoing;
mod pacing;
mod sequence;
mod socket;
#[expect(
    unsafe_code,
    reason = "socket options and batched calls that no wrapper has"
)]
mod sys;
mod tally;
mod tcp;
mod ticks;
mod udp;
mod workers;

pub use agent::run;
pub use error::TrafficError;
pub use latency::Histogram;
