//! Hold: a change that takes away much of a host, and that no person wrote, waits until a person says so.
//!
//! Who edits the fabric file means it. A folder that is empty because its volume is not mounted, or a part of it that is
//! gone, means nothing of the kind.

use std::collections::BTreeSet;

use overlane_model::Tables;

/// Up to so many ports may go without a question.
const FEW: usize = 10;
/// And one of so many.
const PART: usize = 20;

/// What a change takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loss {
    /// So many ports.
    pub(super) ports: usize,
    /// Of so many.
    pub(super) of: usize,
}

impl Loss {
    /// What is gone in `after`, which is none where nothing is left.
    pub(super) fn between(before: &Tables, after: Option<&Tables>) -> Self {
        let left = after.iter().flat_map(|after| &after.ports);
        let left: BTreeSet<&str> = left.map(|port| port.name.as_str()).collect();
        let is_gone = |name: &&str| !left.contains(name);
        let ports = before.ports.iter().map(|port| port.name.as_str());
        Self {
            ports: ports.filter(is_gone).count(),
            of: before.ports.len(),
        }
    }

    /// More than ten ports, and more than a twentieth.
    pub(super) const fn is_large(self) -> bool {
        self.ports > FEW && self.ports * PART > self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_ten_ports_and_more_than_a_twentieth_are_many() {
        for (ports, of, is_large) in [
            (10, 10, false),
            (11, 11, true),
            (11, 219, true),
            (11, 220, false),
            (50, 1000, false),
            (51, 1000, true),
            (0, 0, false),
        ] {
            let loss = Loss { ports, of };
            assert_eq!(loss.is_large(), is_large, "{loss:?}");
        }
    }
}
