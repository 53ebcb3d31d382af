//! What the kernel cannot tell of rules: it has numbers.

use overlane_model::RuleTable;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleState {
    pub(crate) name: String,
    /// In the fabric file.
    pub(crate) line: u32,
    pub(crate) priority: u16,
    pub(crate) direction: String,
    pub(crate) action: String,
    pub(crate) log: bool,
    /// In the maps.
    pub(crate) number: u32,
    /// Of all that the rule says, to tell whether it changed.
    pub(crate) digest: String,
}

impl RuleState {
    pub(super) fn of(rule: &RuleTable, number: u32) -> Self {
        let says = (
            (rule.priority, rule.direction, rule.action, rule.log),
            (&rule.ports, &rule.peers, &rule.services),
        );
        Self {
            name: rule.name.to_string(),
            line: rule.line,
            priority: rule.priority,
            direction: rule.direction.to_string(),
            action: rule.action.to_string(),
            log: rule.log,
            number,
            digest: super::digest(&says),
        }
    }
}
