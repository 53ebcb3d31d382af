//! Every executor on every golden case (`tests/cases/`), and on random packets.
//!
//! A case file's way: `document` (serde) → `case` (names looked up, packets [composed](compose)). An executor
//! runs its packets and says what became of each; `compare` has the differences in words.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::io::Write as _;

pub mod case;
pub mod compare;
pub mod compose;
pub mod counted;
pub mod differential;
pub mod dissect;
mod document;
pub mod generate;
pub mod layers;
pub mod logged;
pub mod pcap;
pub mod random;
pub mod reference;
pub mod test_runner;
pub mod values;
pub mod wire_runner;

pub use document::Count;

/// A line of a test, past the test harness, which shows nothing of a test that passes.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
