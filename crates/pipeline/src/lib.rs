//! The reference executor: packet + tables + state + now → verdict, output frames, counters and the
//! explanation of each step. Pure: no IO, no clock, no randomness. `docs/semantics.md` says what it
//! does; the eBPF data path (`bpf/`) does the same, and tests run both on the same packets.
//!
//! One file per stage, with the stage's name. There are four floors, as in `bpf/`:
//!
//! - `hooks` has the order of the stages, `host` the tables that they look up in;
//! - the stages look at a packet, and decide where it goes (`destination`);
//! - `leave` carries it out, `reply` tells a packet's sender;
//! - what they all share.

#![forbid(unsafe_code)]

mod hooks;
mod host;

mod acl;
mod arp_nd;
mod conntrack;
mod decap;
mod ecn;
mod greeting;
mod ids;
mod l2_lookup;
mod learn;
mod leg_in;
mod nat;
mod neighbour;
mod origin;
mod parse;
mod path_mtu;
mod port;
mod port_security;
mod route;
mod tunnel;
mod vlan_in;
mod vtep_check;

mod ask;
mod encap;
mod flood;
mod leave;
mod leg_out;
mod mss;
mod reply;
mod segmenter;
mod vlan_out;

mod bytes;
mod context;
mod destination;
mod explain;
mod flow_hash;
mod found;
mod limit;
mod link_upkeep;
mod next_hop;
mod outcome;
mod packet;
mod segments;
mod state;

pub use acl::LogRecord;
pub use conntrack::{Connection, ConnectionKey, ConnectionState, SynSeen, Taken, TcpEnd, Zone};
pub use found::{Asked, FoundNeighbour, NeighbourId, RouterSide};
pub use host::Host;
pub use outcome::{By, Counter, Counters, Outcome, Output, Step};
pub use packet::{Entry, Gso, GsoKind, Packet};
pub use path_mtu::PathMtu;
pub use state::{Learned, LearnedPlace, State};
