//! The maps of the firewall: the classifier's rule sets, connections, and the log of rules.

#![allow(
    missing_docs,
    reason = "the meaning of each member stands in bpf/lib/abi_firewall.h, once"
)]

pub use overlane_model::sizes::{MAX_RULE_PREFIXES, MAX_RULE_SETS, MAX_RULES};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Addr, StructLayout};

pub const RULE_GENERATIONS: usize = 2;
pub const RULE_WORDS: usize = 160;
pub const RULE_SUMMARY_WORDS: usize = 3;
pub const MAX_CONNECTIONS: usize = 1 << 20;
pub const LOG_BYTES: usize = 1 << 19;
pub const ZONE_ROUTER: u32 = 1 << 25;
pub const ZONE_REMOTE: u32 = 1 << 26;

pub const RULE_ALLOW: u32 = 0;
pub const RULE_ALLOW_STATELESS: u32 = 1;
pub const RULE_DROP: u32 = 2;
pub const RULE_REJECT: u32 = 3;
pub const RULE_LOG: u32 = 1 << 0;
pub const RULE_DEFAULT: u32 = u32::MAX;

pub const TCP_END_SEEN: u8 = 1 << 0;
pub const TCP_END_SCALE: u8 = 1 << 1;
pub const TCP_END_FIN: u8 = 1 << 2;

pub const CONNECTION_OPENING: u8 = 0;
pub const CONNECTION_ESTABLISHED: u8 = 1;
pub const CONNECTION_CLOSING: u8 = 2;
pub const CONNECTION_CLOSED: u8 = 3;
pub const CONNECTION_FROM_PEER: u8 = 1 << 0;
pub const CONNECTION_ADOPTED: u8 = 1 << 1;
pub const CONNECTION_ANSWERED: u8 = 1 << 2;
pub const CONNECTION_ASSURED: u8 = 1 << 3;
pub const CONNECTION_PICKED_UP: u8 = 1 << 4;
pub const CONNECTION_MADE_BY_PEER: u8 = 1 << 5;
pub const CONNECTION_REVOKED: u8 = 1 << 6;

pub const SYN_FROM_PEER: u8 = 1 << 0;
pub const SYN_SCALE: u8 = 1 << 1;
pub const SYN_SEEN: u8 = 1 << 2;

pub const FRAGMENT_PLACES: usize = 64;
pub const ROUTER_FRAGMENT_PLACES: usize = 2048;
pub const MAX_FRAGMENTS: usize = 2_097_152;

pub const MAX_LIMITS: usize = 65536;

pub const LIMIT_ANSWERS: u16 = 0;
pub const LIMIT_LOG: u16 = 1;
pub const LIMIT_FLOOD: u16 = 2;
pub const LIMIT_ASKS: u16 = 3;
pub const LIMIT_SIZES: u16 = 4;
pub const LIMIT_ABILITIES: u16 = 5;

abi! {
    #[derive(Hash, PartialOrd, Ord)]
    struct RuleSet = "rule_set" {
        summary: [u64; RULE_SUMMARY_WORDS],
        words: [u64; RULE_WORDS],
    }
    struct RulePeerKey = "rule_peer_key" {
        prefixlen: u32,
        generation: u8,
        family: u8,
        pad: u16,
        addr: Addr,
    }
    struct RuleServiceKey = "rule_service_key" {
        prefixlen: u32,
        generation: u8,
        protocol: u8,
        port: [u8; 2],
    }
    #[derive(Default)]
    struct Rule = "rule" {
        action: u32,
        flags: u32,
    }
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct ConnectionKey = "connection_key" {
        switch_id: u32,
        key: u16,
        protocol: u8,
        family: u8,
        local: Addr,
        peer: Addr,
        local_port: u16,
        peer_port: u16,
    }
    #[derive(Default)]
    struct TcpEnd = "tcp_end" {
        end: u32,
        max_end: u32,
        max_window: u32,
        acked: u32,
        scale: u8,
        flags: u8,
        pad: u16,
    }
    #[derive(Default)]
    struct SynSeen = "syn_seen" {
        acked: u32,
        end: u32,
        window: u16,
        scale: u8,
        flags: u8,
    }
    #[derive(Default)]
    struct Connection = "connection" {
        begun: u64,
        seen: u64,
        rule: u32,
        version: u32,
        place: u32,
        state: u8,
        flags: u8,
        outside_port: u16,
        outside: Addr,
        life: u32,
        owner: u32,
        again: SynSeen,
        local: TcpEnd,
        peer: TcpEnd,
        pad: u32,
    }
    #[derive(Default)]
    struct ConnectionPlace = "connection_place" {
        key: ConnectionKey,
        claim: u32,
    }
    #[derive(Default)]
    struct TranslationEntry = "translation_entry" {
        inside: ConnectionKey,
        claim: u32,
    }
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct FragmentPlace = "fragment_place" {
        switch_id: u32,
        key: u16,
        place: u16,
    }
    #[derive(Default)]
    struct FirstFragment = "first_fragment" {
        seen: u64,
        source: Addr,
        dest: Addr,
        id: u32,
        family: u8,
        next: u8,
        l4_end: u16,
        kind: u8,
        protocol: u8,
        has_type: u8,
        icmp_type: u8,
        icmp_code: u8,
        request: u8,
        icmp_id: u16,
        source_port: u16,
        dest_port: u16,
        pad: u32,
    }
    #[derive(Default, Hash, PartialOrd, Ord)]
    struct LimitKey = "limit_key" {
        switch_id: u32,
        key: u16,
        limit: u16,
    }
    #[derive(Default)]
    struct LimitState = "limit_state" {
        since: u64,
        count: u32,
        pad: u32,
    }
    #[derive(Default)]
    struct LogRecord = "log_record" {
        time: u64,
        packet: ConnectionKey,
        rule: u32,
        verdict_reason: u8,
        from_port: u8,
        len: u16,
        pad: u32,
    }
}
