//! The reference executor: packet + tables + state + now → verdict, output frames, counters and the
//! explanation of each step. Pure: no IO, no clock, no randomness. `docs/semantics.md` says what it
//! does; the eBPF data path (`bpf/`) does the same, and tests run both on the same packets.
//!
//! One file per stage, with the stage's name. There are four floors, as in `bpf/`, and a file uses those below it:
//!
//! - `hooks.rs` has the order of the stages;
//! - a file of `stage/` looks at a packet, and decides where it goes; none uses another, but `firewall`;
//! - `leave/` carries it out, and tells a packet's sender;
//! - `lib/` is what they all share: the packet, the tables, the state, connections.
//!
//! `crates/cli/tests/house_rules.rs` checks that, and that no two files need each other.

#![forbid(unsafe_code)]

mod hooks;

#[path = "stage"]
mod stage {
    pub(crate) mod acl;
    pub(crate) mod arp_nd;
    pub(crate) mod conntrack;
    pub(crate) mod decap;
    pub(crate) mod ecn;
    pub(crate) mod firewall;
    pub(crate) mod greeting;
    pub(crate) mod ids;
    pub(crate) mod l2_lookup;
    pub(crate) mod learn;
    pub(crate) mod leg_in;
    pub(crate) mod nat;
    pub(crate) mod neighbour;
    pub(crate) mod origin;
    pub(crate) mod parse;
    pub(crate) mod path_mtu;
    pub(crate) mod port;
    pub(crate) mod port_security;
    pub(crate) mod route;
    pub(crate) mod tunnel;
    pub(crate) mod vlan_in;
    pub(crate) mod vtep_check;
}

#[path = "leave"]
mod leave {
    pub(crate) mod ask;
    pub(crate) mod encap;
    pub(crate) mod flood;
    #[expect(clippy::module_inception, reason = "the twin of bpf/leave/leave.h")]
    pub(crate) mod leave;
    pub(crate) mod leg_out;
    pub(crate) mod mss;
    pub(crate) mod port;
    pub(crate) mod reply;
    pub(crate) mod reply_bytes;
    pub(crate) mod reply_destination;
    pub(crate) mod segmenter;
    pub(crate) mod vlan_out;
}

#[path = "lib"]
mod lib {
    pub(crate) mod begin;
    pub(crate) mod bytes;
    pub(crate) mod classifier;
    pub(crate) mod connection;
    pub(crate) mod context;
    pub(crate) mod covered;
    pub(crate) mod destination;
    pub(crate) mod explain;
    pub(crate) mod extensions;
    pub(crate) mod fdb;
    pub(crate) mod flow_hash;
    pub(crate) mod found;
    pub(crate) mod fragments;
    pub(crate) mod frame;
    pub(crate) mod headers;
    pub(crate) mod hiding;
    pub(crate) mod host;
    pub(crate) mod ip;
    pub(crate) mod key;
    pub(crate) mod l4;
    pub(crate) mod limit;
    pub(crate) mod log;
    pub(crate) mod moved;
    pub(crate) mod nd_options;
    pub(crate) mod neighbour;
    pub(crate) mod next_hop;
    pub(crate) mod outcome;
    pub(crate) mod outer;
    pub(crate) mod packet;
    pub(crate) mod path_mtu;
    pub(crate) mod places;
    pub(crate) mod segment;
    pub(crate) mod segments;
    pub(crate) mod sound;
    pub(crate) mod source;
    pub(crate) mod state;
    pub(crate) mod tcp_state;
    pub(crate) mod tell;
    pub(crate) mod time;
    pub(crate) mod tracking;
    pub(crate) mod upkeep;
}

pub use lib::connection::{Connection, ConnectionState, SynSeen};
pub use lib::host::Host;
pub use lib::key::{ConnectionKey, Zone};
pub use lib::log::LogRecord;
pub use lib::moved::Taken;
pub use lib::outcome::{By, Counter, Counters, Outcome, Output, Step};
pub use lib::packet::{Entry, Gso, GsoKind, Packet};
pub use lib::state::{
    Asked, FoundNeighbour, Learned, LearnedPlace, NeighbourId, PathMtu, RouterSide, State,
};
pub use lib::tcp_state::TcpEnd;
