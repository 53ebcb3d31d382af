//! The messages of nftables, byte by byte (linux/netfilter/nf_tables.h). Numbers in attributes are big-endian.
//!
//! ```text
//!   nlmsghdr (16) │ nfgenmsg: family, version 0, resource (4) │ attributes: length, type, value, to 4 bytes
//! ```

use std::collections::BTreeSet;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};

use super::{Chain, Dropped, Family, Way};
use crate::sys::DEVICE_NAME_MAX;

/// Enough for tens of thousands of devices.
pub(super) const LONGEST_BATCH: usize = 4 << 20;

const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
const NESTED: u16 = 1 << 15;

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

// `enum nf_tables_msg_types`.
const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;
const DELETE_ELEMENTS: u16 = 14;
const DESTROY_TABLE: u16 = 26;

// Attributes. Those of chains, rules, sets and elements all begin with the table.
const TABLE: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const TABLE_USER_DATA: u16 = 6;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const SET_NAME: u16 = 2;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_LEN: u16 = 5;
const SET_DESCRIPTION: u16 = 9;
const SET_ID: u16 = 10;
const SET_USER_DATA: u16 = 13;
const DESCRIPTION_SIZE: u16 = 1;
const ELEMENTS_SET: u16 = 2;
const ELEMENTS: u16 = 3;
const ELEMENT_KEY: u16 = 1;
const LIST_ELEMENT: u16 = 1;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const META_DESTINATION: u16 = 1;
const META_KEY: u16 = 2;
const LOOKUP_SET: u16 = 1;
const LOOKUP_SOURCE: u16 = 2;
const LOOKUP_FLAGS: u16 = 5;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;
const IMMEDIATE_DESTINATION: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;

/// `NFT_META_IIFNAME`, `NFT_META_OIFNAME`.
const IIFNAME: u32 = 6;
const OIFNAME: u32 = 7;
/// `NFT_REG_VERDICT`, `NFT_REG_1`.
const REGISTER_VERDICT: u32 = 0;
const REGISTER: u32 = 1;
/// `NF_DROP`, `NF_ACCEPT`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
/// `IFNAMSIZ`: a name with the zeros behind it.
const KEY_LEN: usize = DEVICE_NAME_MAX + 1;
/// What `nft` calls the type `ifname`; the kernel does not look at it.
const TYPE_IFNAME: u32 = 41;
/// In libnftnl's user data of a table: its comment.
const USER_DATA_COMMENT: u8 = 0;
/// And in that of a set: the order of the bytes in its keys. Without it `nft` shows names as empty.
const USER_DATA_BYTE_ORDER: u8 = 0;
const HOST_ORDER: u32 = 1;
/// Before everything that costs or remembers something: raw (-300), the defragmentation (-400), and raw before that
/// (-450).
const PRIORITY: i32 = -500;
/// `devices` is a word of the language of `nft`.
const SET: &str = "ports";
/// Names that it holds: as many as a host has ports. With a size its hash table is never enlarged
/// (net/netfilter/nft_set_hash.c, `nft_hash`): who reads one that is being enlarged misses some.
const SET_SIZE: u32 = 16 << 10;
/// The rule, as names of its expressions.
const RULE: [&str; 4] = ["meta", "lookup", "counter", "immediate"];
/// Elements of a message: the length of an attribute has 16 bits.
const ELEMENTS_AT_ONCE: usize = 1000;

/// What is known of a rule.
#[derive(Debug, Default)]
pub(super) struct Rule {
    pub(super) is_ours: bool,
    pub(super) dropped: Dropped,
}

pub(super) fn batch_begin() -> Vec<u8> {
    message(BATCH_BEGIN, NLM_F_REQUEST, 0, SUBSYSTEM, &[])
}

pub(super) fn batch_end() -> Vec<u8> {
    message(BATCH_END, NLM_F_REQUEST, 0, SUBSYSTEM, &[])
}

/// That there is none is no error (Linux 6.3).
pub(super) fn destroy_table(family: Family, table: &str) -> Vec<u8> {
    request(DESTROY_TABLE, 0, family, &[text(TABLE, table)])
}

pub(super) fn new_table(family: Family, table: &str, comment: &str) -> Vec<u8> {
    let length = u8::try_from(comment.len() + 1).unwrap_or(0);
    let user_data = [&[USER_DATA_COMMENT, length], comment.as_bytes(), &[0]].concat();
    let attributes = [text(TABLE, table), attribute(TABLE_USER_DATA, &user_data)];
    // Too long for its length: it has none.
    let attributes = &attributes[..if length == 0 { 1 } else { 2 }];
    request(NEW_TABLE, CREATE, family, attributes)
}

pub(super) fn new_set(family: Family, table: &str) -> Vec<u8> {
    let order = HOST_ORDER.to_ne_bytes();
    let user_data = [&[USER_DATA_BYTE_ORDER, order.len() as u8], &order[..]].concat();
    let attributes = [
        text(TABLE, table),
        text(SET_NAME, SET),
        number(SET_KEY_TYPE, TYPE_IFNAME),
        number(SET_KEY_LEN, KEY_LEN as u32),
        nested(SET_DESCRIPTION, &[number(DESCRIPTION_SIZE, SET_SIZE)]),
        number(SET_ID, 1),
        attribute(SET_USER_DATA, &user_data),
    ];
    request(NEW_SET, CREATE, family, &attributes)
}

pub(super) fn new_elements(
    family: Family,
    table: &str,
    devices: &BTreeSet<String>,
) -> Vec<Vec<u8>> {
    let element = |name: &String| {
        let mut key = name.as_bytes().to_vec();
        key.resize(KEY_LEN, 0);
        let key = nested(ELEMENT_KEY, &[attribute(DATA_VALUE, &key)]);
        nested(LIST_ELEMENT, &[key])
    };
    let elements: Vec<_> = devices.iter().map(element).collect();
    let of_some = |some: &[Vec<u8>]| {
        let attributes = [
            text(TABLE, table),
            text(ELEMENTS_SET, SET),
            nested(ELEMENTS, some),
        ];
        request(NEW_ELEMENTS, CREATE, family, &attributes)
    };
    elements.chunks(ELEMENTS_AT_ONCE).map(of_some).collect()
}

/// Without elements: all of them.
pub(super) fn flush_elements(family: Family, table: &str) -> Vec<u8> {
    let attributes = [text(TABLE, table), text(ELEMENTS_SET, SET)];
    request(DELETE_ELEMENTS, 0, family, &attributes)
}

pub(super) fn new_chain(family: Family, table: &str, chain: Chain) -> Vec<u8> {
    let hook = [
        number(HOOK_NUMBER, chain.hook),
        attribute(HOOK_PRIORITY, &PRIORITY.to_be_bytes()),
    ];
    let attributes = [
        text(TABLE, table),
        text(CHAIN_NAME, chain.name),
        nested(CHAIN_HOOK, &hook),
        number(CHAIN_POLICY, ACCEPT),
        text(CHAIN_TYPE, "filter"),
    ];
    request(NEW_CHAIN, CREATE, family, &attributes)
}

pub(super) fn new_rule(family: Family, table: &str, chain: Chain) -> Vec<u8> {
    let verdict = nested(DATA_VERDICT, &[number(VERDICT_CODE, DROP)]);
    let data = [
        vec![
            number(META_KEY, device_name(chain)),
            number(META_DESTINATION, REGISTER),
        ],
        vec![text(LOOKUP_SET, SET), number(LOOKUP_SOURCE, REGISTER)],
        vec![],
        vec![
            number(IMMEDIATE_DESTINATION, REGISTER_VERDICT),
            nested(IMMEDIATE_DATA, &[verdict]),
        ],
    ];
    let expressions: Vec<_> = RULE
        .iter()
        .zip(data)
        .map(|(name, data)| {
            let expression = [text(EXPRESSION_NAME, name), nested(EXPRESSION_DATA, &data)];
            nested(LIST_ELEMENT, &expression)
        })
        .collect();
    let attributes = [
        text(TABLE, table),
        text(RULE_CHAIN, chain.name),
        nested(RULE_EXPRESSIONS, &expressions),
    ];
    request(NEW_RULE, CREATE | APPEND, family, &attributes)
}

/// What of a packet the rule looks at.
const fn device_name(chain: Chain) -> u32 {
    match chain.way {
        Way::In => IIFNAME,
        Way::Out => OIFNAME,
    }
}

pub(super) fn get_table(family: Family, table: &str) -> Vec<u8> {
    request(GET_TABLE, 0, family, &[text(TABLE, table)])
}

pub(super) fn get_elements(family: Family, table: &str) -> Vec<u8> {
    let attributes = [text(TABLE, table), text(ELEMENTS_SET, SET)];
    request(GET_ELEMENTS, NLM_F_DUMP, family, &attributes)
}

pub(super) fn get_chain(family: Family, table: &str, chain: Chain) -> Vec<u8> {
    let attributes = [text(TABLE, table), text(CHAIN_NAME, chain.name)];
    request(GET_CHAIN, 0, family, &attributes)
}

pub(super) fn get_rules(family: Family, table: &str, chain: Chain) -> Vec<u8> {
    let attributes = [text(TABLE, table), text(RULE_CHAIN, chain.name)];
    request(GET_RULE, NLM_F_DUMP, family, &attributes)
}

/// Of an answer to [`get_table`].
pub(super) fn table_is_active(reply: &[u8]) -> bool {
    find(contents(reply), TABLE_FLAGS).is_none_or(|flags| flags.iter().all(|byte| *byte == 0))
}

/// Of an answer to [`get_elements`].
pub(super) fn element_names(reply: &[u8]) -> Vec<String> {
    let elements = find(contents(reply), ELEMENTS).unwrap_or_default();
    let name = |element: &[u8]| {
        let key = find(find(element, ELEMENT_KEY)?, DATA_VALUE)?;
        Some(text_of(key))
    };
    list(elements).filter_map(name).collect()
}

/// Of an answer to [`get_chain`].
pub(super) fn chain_is(reply: &[u8], chain: Chain) -> bool {
    let contents = contents(reply);
    let hook = find(contents, CHAIN_HOOK).unwrap_or_default();
    find(hook, HOOK_NUMBER) == Some(&chain.hook.to_be_bytes())
        && find(hook, HOOK_PRIORITY) == Some(&PRIORITY.to_be_bytes())
        && find(contents, CHAIN_TYPE).is_some_and(|kind| text_of(kind) == "filter")
}

/// Of an answer to [`get_rules`].
pub(super) fn rule(reply: &[u8], chain: Chain) -> Rule {
    let expressions = find(contents(reply), RULE_EXPRESSIONS).unwrap_or_default();
    let (mut rule, mut are_ours) = (Rule::default(), Vec::new());
    for (expression, expected) in list(expressions).zip(RULE) {
        let name = find(expression, EXPRESSION_NAME).map(text_of);
        let data = find(expression, EXPRESSION_DATA).unwrap_or_default();
        if expected == "counter" {
            rule.dropped = Dropped {
                packets: long(data, COUNTER_PACKETS),
                bytes: long(data, COUNTER_BYTES),
            };
        }
        are_ours
            .push(name.as_deref() == Some(expected) && says_what_we_wrote(expected, data, chain));
    }
    let is_longer = list(expressions).nth(RULE.len()).is_some();
    rule.is_ours = are_ours == [true; RULE.len()] && !is_longer;
    rule
}

/// Whether the data of an expression is what [`new_rule`] writes.
fn says_what_we_wrote(name: &str, data: &[u8], chain: Chain) -> bool {
    let is = |found: Option<&[u8]>, number: u32| found == Some(&number.to_be_bytes()[..]);
    match name {
        "meta" => is(find(data, META_KEY), device_name(chain)),
        "lookup" => {
            let flags = find(data, LOOKUP_FLAGS);
            find(data, LOOKUP_SET).is_some_and(|set| text_of(set) == SET)
                && (flags.is_none() || is(flags, 0))
        }
        "immediate" => {
            let verdict = find(data, IMMEDIATE_DATA).and_then(|data| find(data, DATA_VERDICT));
            is(
                verdict.and_then(|verdict| find(verdict, VERDICT_CODE)),
                DROP,
            )
        }
        _ => true,
    }
}

/// Writes the sequence number into a message.
pub(super) fn set_sequence(message: &mut [u8], sequence: u32) {
    if let Some(place) = message.get_mut(8..12) {
        place.copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// Each one is acknowledged; a dump ends by itself.
fn request(kind: u16, flags: u16, family: Family, attributes: &[Vec<u8>]) -> Vec<u8> {
    let is_dump = flags & NLM_F_DUMP == NLM_F_DUMP;
    let ack = if is_dump { 0 } else { NLM_F_ACK };
    let flags = NLM_F_REQUEST | ack | flags;
    message(SUBSYSTEM << 8 | kind, flags, family.number(), 0, attributes)
}

fn message(kind: u16, flags: u16, family: u8, resource: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let attributes = attributes.concat();
    let length = (16 + 4 + attributes.len()) as u32;
    [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        // Sequence number, and who asks.
        &[0; 8],
        &[family, 0],
        &resource.to_be_bytes(),
        &attributes,
    ]
    .concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &attributes.concat())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// The attributes of an answer.
fn contents(reply: &[u8]) -> &[u8] {
    reply.get(4..).unwrap_or_default()
}

/// Kind and value of each attribute.
fn each(attributes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(attributes).flatten().filter_map(|one| {
        let (kind, end) = (one.kind(), usize::from(one.length()));
        Some((kind, one.into_inner().get(4..end)?))
    })
}

fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut found = each(attributes).filter(|(kind, _)| *kind == wanted);
    found.next().map(|(_, value)| value)
}

fn list(attributes: &[u8]) -> impl Iterator<Item = &[u8]> {
    each(attributes).map(|(_, value)| value)
}

fn text_of(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    let text = &value[..end.unwrap_or(value.len())];
    String::from_utf8_lossy(text).into_owned()
}

fn long(attributes: &[u8], kind: u16) -> u64 {
    let value = find(attributes, kind).and_then(|value| value.first_chunk());
    value.map_or(0, |value| u64::from_be_bytes(*value))
}
