//! `show rules`: the firewall's rules on this host and how often each decided.

use overlane_model::RuleTable;
use serde::Serialize;

use super::look::{Count, maps};
use crate::HostError;
use crate::state::State;

/// `show rules`.
#[derive(Debug, Clone, Serialize)]
pub struct Rules {
    /// The host.
    pub host: String,
    /// The rules that name one of its ports, in the order in which they are tried.
    pub rules: Vec<RuleRow>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRow {
    /// Its name.
    pub rule: String,
    /// Its line in the fabric file.
    pub line: u32,
    /// Higher is tried first.
    pub priority: u16,
    /// `from_port` or `to_port`.
    pub direction: String,
    /// `allow`, `allow_stateless`, `drop` or `reject`.
    pub action: String,
    /// What it decides is written into the log.
    pub log: bool,
    /// What it let pass or stopped, packets of its connections included.
    pub hits: Count,
}

/// Reads the rules of `host` and their counters.
pub fn rules(host: &str) -> Result<Rules, HostError> {
    let state = State::applied(host)?;
    let numbers = state.rule_numbers.iter().copied();
    let counters = overlane_ebpf::counters::rules(&maps(&state)?, numbers)?;
    let row = |(number, rule): (u32, &RuleTable)| RuleRow {
        rule: rule.name.to_string(),
        line: rule.line,
        priority: rule.priority,
        direction: rule.direction.to_string(),
        action: rule.action.to_string(),
        log: rule.log,
        hits: counters.get(&number).copied().unwrap_or_default().into(),
    };
    Ok(Rules {
        host: host.to_owned(),
        rules: state.rules().map(row).collect(),
    })
}
