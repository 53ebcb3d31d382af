//! Routers: what they forward, answer and translate.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod found;
mod gateway;
mod nat;
mod neighbours;
mod net;
mod noise;
mod route;
mod source;
