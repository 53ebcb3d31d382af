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
pub mod rules;
pub mod statements;
pub mod test_runner;
pub mod values;
pub mod wire_runner;

pub use document::Count;

/// What the tests can write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The packets of each case, for tshark and Scapy.
    Captures,
    /// `tests/cases/explanations.txt`.
    Explanations,
}

impl Written {
    /// What `OVERLANE_WRITE` asks for: `captures`, `explanations`, or nothing without it.
    pub fn asked() -> Result<Option<Self>, String> {
        Self::parse(&std::env::var("OVERLANE_WRITE").unwrap_or_default())
    }

    fn parse(word: &str) -> Result<Option<Self>, String> {
        match word {
            "" => Ok(None),
            "captures" => Ok(Some(Self::Captures)),
            "explanations" => Ok(Some(Self::Explanations)),
            other => Err(format!(
                "OVERLANE_WRITE is `captures` or `explanations`, and not `{other}`"
            )),
        }
    }
}

/// A line of a test, past the test harness, which shows nothing of a test that passes.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_has_to_be_named() {
        assert_eq!(Written::parse(""), Ok(None));
        assert_eq!(Written::parse("captures"), Ok(Some(Written::Captures)));
        let explanations = Written::parse("explanations");
        assert_eq!(explanations, Ok(Some(Written::Explanations)));
        assert!(Written::parse("1").is_err_and(|error| error.ends_with("not `1`")));
    }
}
