//! How long connections live without a packet. `docs/semantics.md`, conntrack, says which is for which.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Seconds that connections live without a packet, by protocol and state: of the ports of a switch, or of the
/// translations of a router.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Timeouts {
    /// TCP whose handshake is not over.
    pub tcp_opening: u32,
    /// TCP that is open.
    pub tcp_established: u32,
    /// TCP of which an end has sent FIN.
    pub tcp_closing: u32,
    /// TCP that was reset.
    pub tcp_closed: u32,
    /// UDP that nobody has answered.
    pub udp_unanswered: u32,
    /// UDP that was answered.
    pub udp: u32,
    /// ICMP, answered or not.
    pub icmp: u32,
    /// Any other protocol, and TCP without ports, that nobody has answered.
    pub other_unanswered: u32,
    /// The same, answered.
    pub other: u32,
}

impl Timeouts {
    /// What may be said of each: up to 30 days.
    pub const RANGE: RangeInclusive<u32> = 1..=2_592_000;

    /// Their names in the fabric file.
    pub const NAMES: [&str; 9] = [
        "tcp_opening",
        "tcp_established",
        "tcp_closing",
        "tcp_closed",
        "udp_unanswered",
        "udp",
        "icmp",
        "other_unanswered",
        "other",
    ];

    /// All, in the order of their names.
    pub(crate) fn all_mut(&mut self) -> [&mut u32; 9] {
        [
            &mut self.tcp_opening,
            &mut self.tcp_established,
            &mut self.tcp_closing,
            &mut self.tcp_closed,
            &mut self.udp_unanswered,
            &mut self.udp,
            &mut self.icmp,
            &mut self.other_unanswered,
            &mut self.other,
        ]
    }
}

/// No shorter than RFC 4787, RFC 5382, RFC 5508 and RFC 7857 ask of a NAT.
impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_opening: 240,
            tcp_established: 432_000,
            tcp_closing: 240,
            tcp_closed: 240,
            udp_unanswered: 120,
            udp: 300,
            icmp: 60,
            other_unanswered: 120,
            other: 300,
        }
    }
}
