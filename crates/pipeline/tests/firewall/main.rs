//! The firewall of a port: conntrack and acl, in both directions. Port a1 has one, a2 on the same host is
//! its peer and has none.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod exchange;
mod fragments;
mod icmp;
mod limits;
mod machine;
mod noise;
mod rules;
mod tcp;
mod wall;
mod windows;
