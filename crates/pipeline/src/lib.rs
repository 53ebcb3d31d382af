//! The reference executor: packet + tables + state + now → verdict, output frames, counters and the
//! explanation of each step. Pure: no IO, no clock, no randomness. `docs/semantics.md` says what it
//! does; the eBPF data path (`bpf/`) does the same, and tests run both on the same packets.
//!
//! One file per stage, with the stage's name; `hooks` is their order.

#![forbid(unsafe_code)]

mod acl;
mod answer;
mod arp_nd;
mod bytes;
mod conntrack;
mod context;
mod decap;
mod ecn;
mod encap;
mod explain;
mod flood;
mod flow_hash;
mod greeting;
mod hooks;
mod host;
mod ids;
mod l2_lookup;
mod learn;
mod leave;
mod leg;
mod limit;
mod nat;
mod outcome;
mod packet;
mod parse;
mod port;
mod port_security;
mod route;
mod segments;
mod state;
mod to_port;
mod tunnel;
mod vlan;
mod vtep_check;

pub use acl::LogRecord;
pub use conntrack::{Connection, ConnectionKey, ConnectionState, Taken, TcpEnd, Zone};
pub use host::Host;
pub use outcome::{By, Counter, Counters, Outcome, Output, Step};
pub use packet::{Entry, Gso, GsoKind, Packet};
pub use state::{Learned, LearnedPlace, State};
