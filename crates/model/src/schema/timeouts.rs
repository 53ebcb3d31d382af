//! `timeouts` in the JSON Schema, of a switch or of a gateway.

use schemars::JsonSchema;
use serde::Serialize;

use crate::tables::Timeouts as Table;

const LEAST: u32 = *Table::RANGE.start();
const MOST: u32 = *Table::RANGE.end();

/// Seconds that connections live without a packet.
#[derive(JsonSchema, Serialize)]
#[schemars(default, deny_unknown_fields)]
pub(super) struct Timeouts {
    /// TCP whose handshake is not over.
    #[schemars(range(min = LEAST, max = MOST))]
    tcp_opening: u32,
    /// TCP that is open.
    #[schemars(range(min = LEAST, max = MOST))]
    tcp_established: u32,
    /// TCP of which an end has sent FIN.
    #[schemars(range(min = LEAST, max = MOST))]
    tcp_closing: u32,
    /// TCP that was reset.
    #[schemars(range(min = LEAST, max = MOST))]
    tcp_closed: u32,
    /// UDP that nobody has answered.
    #[schemars(range(min = LEAST, max = MOST))]
    udp_unanswered: u32,
    /// UDP that was answered.
    #[schemars(range(min = LEAST, max = MOST))]
    udp: u32,
    /// ICMP, answered or not.
    #[schemars(range(min = LEAST, max = MOST))]
    icmp: u32,
    /// Any other protocol that nobody has answered.
    #[schemars(range(min = LEAST, max = MOST))]
    other_unanswered: u32,
    /// Any other protocol that was answered.
    #[schemars(range(min = LEAST, max = MOST))]
    other: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        let Table {
            tcp_opening,
            tcp_established,
            tcp_closing,
            tcp_closed,
            udp_unanswered,
            udp,
            icmp,
            other_unanswered,
            other,
        } = Table::default();
        Self {
            tcp_opening,
            tcp_established,
            tcp_closing,
            tcp_closed,
            udp_unanswered,
            udp,
            icmp,
            other_unanswered,
            other,
        }
    }
}
