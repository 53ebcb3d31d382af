//! The guard in `show ports`: its table in each family, and what it dropped.

use std::collections::BTreeSet;

use overlane_net::nftables::Family;
use serde::Serialize;

use crate::HostError;
use crate::kinds::guard;
use crate::lib::paths::guard_table;
use crate::state::State;

/// The table of nftables that drops what comes in by a port's device without a program, and what the host sends there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guard {
    /// Its name, the same in every family.
    pub table: String,
    /// Each family.
    pub families: Vec<GuardRow>,
}

/// The table of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardRow {
    /// `inet`, `arp` or `bridge`.
    pub family: &'static str,
    /// Whether it is as `apply` wrote it.
    pub state: GuardState,
    /// Packets from ports' devices that it dropped since it was written.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the host sent, or forwarded, to ports' devices, and that it dropped.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

/// Whether the table of a family is as `apply` wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardState {
    /// It is.
    Ok,
    /// Somebody changed it.
    Changed,
    /// Somebody took it away.
    Missing,
    /// The kernel refused it.
    Refused,
}

/// Looks at the tables from a thread in the host's namespace.
pub(super) fn look(state: &State) -> Result<Option<Guard>, HostError> {
    let wanted: BTreeSet<_> = state
        .tables
        .ports
        .iter()
        .map(|port| port.attachment.device.to_string())
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let found = guard::read(&state.host)?;
    let row = |family: Family| {
        let table = found.get(&family);
        let (incoming, outgoing) = table
            .map(|table| (table.incoming, table.outgoing))
            .unwrap_or_default();
        let is_refused = state.refused.contains_key(&guard::thing(family));
        GuardRow {
            family: family.name(),
            state: match table {
                Some(table) if table.is_for(&wanted) => GuardState::Ok,
                Some(_) => GuardState::Changed,
                None if is_refused => GuardState::Refused,
                None => GuardState::Missing,
            },
            packets: incoming.packets,
            bytes: incoming.bytes,
            sent_packets: outgoing.packets,
            sent_bytes: outgoing.bytes,
        }
    };
    Ok(Some(Guard {
        table: guard_table(&state.host),
        families: Family::ALL.into_iter().map(row).collect(),
    }))
}
