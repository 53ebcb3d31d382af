//! What a packet has to do with connections: the one it belongs to, and what it does to that. For conntrack, and for nat,
//! whose translations are connections of the gateway.
//!
//! A stage that keeps connections asks [`check`], then [`follow`]; a packet that belongs to none may begin one
//! (`begin.rs`). Others come from another host, with their port (`moved.rs`).

use overlane_model::{Name, Tables, Timeouts, Verdict};
use overlane_wire::tcp::Flags;

use crate::lib::connection::{Connection, Moment, Passed};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::key::{ConnectionKey, Sender, Zone};
use crate::lib::l4::L4;
use crate::lib::segment::Segment;
use crate::lib::tcp_state::TcpEnd;

pub(crate) const STAGE: &str = "conntrack";

/// What the rules of now say of a connection.
pub(crate) enum Judgement {
    /// They are those that allowed it, or nobody asks them.
    Stands,
    /// Others, of this version, which allow it too: this one, or the default policy.
    Allowed { rule: Option<Name>, version: u32 },
    /// It is another guest's, who had the port before.
    Foreign,
    /// Others, which do not.
    Revoked,
}

/// Whether a packet belongs to a connection.
pub(crate) enum Followed {
    /// It does, and passes; the rule that let the connection begin.
    Passes { rule: Option<Name> },
    /// It asks for a connection of its own with the same ends, which `begin` remembers.
    Asks,
    /// It does not.
    Nothing { may_be_adopted: bool },
}

impl Followed {
    /// There is none.
    pub(crate) const NOTHING: Self = Self::Nothing {
        may_be_adopted: true,
    };
}

/// A TCP packet that no connection may see.
pub(crate) fn check(cx: &mut Context<'_>, l4: &L4) -> Stage {
    match l4.broken() {
        Some(why) => cx.end(STAGE, Verdict::ConnectionInvalid, || {
            format!("a broken TCP packet: {why}")
        }),
        None => Stage::Continue(()),
    }
}

/// The connection, unless it is expired.
pub(crate) fn live<'s>(cx: &'s Context<'_>, key: &ConnectionKey) -> Option<&'s Connection> {
    let connection = cx.state.connections.get(key);
    connection.filter(|connection| !connection.is_expired(cx.now_ns))
}

/// Now, for a connection.
pub(crate) fn moment(cx: &Context<'_>, key: &ConnectionKey) -> Moment {
    Moment {
        ns: cx.now_ns,
        key: *key,
        timeouts: timeouts_of(cx.host.tables(), key.zone),
    }
}

/// Those of the switch or router whose connection it is.
pub(crate) fn timeouts_of(tables: &Tables, zone: Zone) -> Timeouts {
    let found = match zone {
        Zone::Port(id, _) => {
            let mut switches = tables.switches.iter();
            switches
                .find(|switch| switch.id == id)
                .map(|it| it.timeouts)
        }
        Zone::Router(id) => {
            let router = tables.routers.iter().find(|router| router.id == id);
            router.and_then(|router| Some(router.gateway.as_ref()?.timeouts))
        }
    };
    found.unwrap_or_default()
}

/// The connection of a packet, where the rules of now allow it, which `judge` says; else what the packet is without. One
/// that they do not allow is forgotten, or `waits` for its time-out.
fn allowed<'s>(
    cx: &'s mut Context<'_>,
    key: &ConnectionKey,
    waits: bool,
    judge: impl FnOnce(&Connection) -> Judgement,
) -> Result<&'s mut Connection, Followed> {
    let now_ns = cx.now_ns;
    let Some(connection) = cx.state.connections.get_mut(key) else {
        return Err(Followed::NOTHING);
    };
    let over = match connection.is_expired(now_ns) {
        true => Some("has expired"),
        false => match judge(connection) {
            Judgement::Stands => None,
            Judgement::Allowed { rule, version } => {
                connection.rule = rule;
                connection.version = version;
                None
            }
            Judgement::Foreign => Some("is of another guest's"),
            Judgement::Revoked if waits => {
                if key.is_tcp() {
                    connection.pick_up();
                }
                cx.step(STAGE, || {
                    format!("{key}: the rules no longer allow this connection")
                });
                return Err(Followed::Nothing {
                    may_be_adopted: false,
                });
            }
            Judgement::Revoked => Some("is no longer allowed by the rules"),
        },
    };
    if let Some(why) = over {
        return Err(forgotten(cx, key, why));
    }
    cx.state.connections.get_mut(key).ok_or(Followed::NOTHING)
}

/// The packet's connection goes on with it, if it has one. `judge` is asked whether the rules still allow
/// it.
pub(crate) fn follow(
    cx: &mut Context<'_>,
    key: &ConnectionKey,
    sender: Sender,
    l4: &L4,
    judge: impl FnOnce(&Connection) -> Judgement,
) -> Stage<Followed> {
    let (now, segment) = (moment(cx, key), l4.segment());
    let waits = segment.is_some_and(|segment| !segment.opens());
    let connection = match allowed(cx, key, waits, judge) {
        Ok(connection) => connection,
        Err(followed) => return Stage::Continue(followed),
    };
    if segment.is_some_and(|segment| connection.is_asked_for_another(sender, segment)) {
        return Stage::Continue(Followed::Asks);
    }
    if let Some(why) = l4.unsound
        && connection.may_change(sender, segment)
    {
        return unsound(cx, why);
    }
    let ends = (connection.local, connection.peer);
    let passed = connection.pass(sender, segment, &now);
    if passed == Passed::Refused {
        return cx.end(STAGE, Verdict::OutOfWindow, || {
            out_of_window(key, sender, segment, ends)
        });
    }
    if l4.is_first_fragment && segment.is_some() && passed == Passed::Follows {
        connection.adopt(&now);
    }
    let (state, rule) = (connection.state, connection.rule.clone());
    explain(cx, rule.as_ref(), || {
        let what = match passed {
            Passed::Unheeded => {
                "changes nothing, and is for the other end to judge: of the connection"
            }
            _ => "of the connection",
        };
        format!("{what} {key}, now {state}")
    });
    Stage::Continue(Followed::Passes { rule })
}

/// The same of a later fragment, which changes no state of its connection.
pub(crate) fn accompany(
    cx: &mut Context<'_>,
    key: &ConnectionKey,
    judge: impl FnOnce(&Connection) -> Judgement,
) -> Followed {
    let now = moment(cx, key);
    let connection = match allowed(cx, key, true, judge) {
        Ok(connection) => connection,
        Err(followed) => return followed,
    };
    connection.refresh(&now);
    let rule = connection.rule.clone();
    explain(cx, rule.as_ref(), || format!("of the connection {key}"));
    Followed::Passes { rule }
}

/// Of a packet that passes, and the rule that let its connection begin.
fn explain(cx: &mut Context<'_>, rule: Option<&Name>, text: impl FnOnce() -> String) {
    cx.step(STAGE, || match rule {
        Some(rule) => Found::by_rule(format!("{}, that rule {rule} allowed", text()), rule),
        None => text().into(),
    });
}

/// A SYN that asks for a connection, where one with its ends is there: the other end decides. False: none is there.
pub(crate) fn remember_syn(
    cx: &mut Context<'_>,
    key: &ConnectionKey,
    sender: Sender,
    segment: &Segment,
) -> bool {
    let now = moment(cx, key);
    let Some(connection) = cx.state.connections.get_mut(key) else {
        return false;
    };
    if connection.is_expired(now.ns) || !segment.opens() {
        return false;
    }
    connection.remember_syn(sender, segment, &now);
    cx.step(STAGE, || {
        format!("a SYN into {key}: it begins anew if the other end takes it")
    });
    true
}

fn forgotten(cx: &mut Context<'_>, key: &ConnectionKey, why: &str) -> Followed {
    cx.state.forget(key);
    cx.step(STAGE, || format!("the former connection {key} {why}"));
    Followed::NOTHING
}

/// What the other end would discard changes nothing.
pub(crate) fn unsound<T>(cx: &mut Context<'_>, why: &str) -> Stage<T> {
    cx.end(STAGE, Verdict::ConnectionInvalid, || {
        format!("no end would take the packet: {why}")
    })
}

fn out_of_window(
    key: &ConnectionKey,
    sender: Sender,
    segment: Option<&Segment>,
    (local, peer): (TcpEnd, TcpEnd),
) -> String {
    let (s, r) = match sender {
        Sender::Local => (local, peer),
        Sender::Peer => (peer, local),
    };
    let packet = segment.map_or_else(String::new, |segment| {
        let (first, end) = (segment.sequence, segment.sequence_end());
        let ack = match segment.is(Flags::ACK) {
            true => format!(", acknowledgment {}", segment.acknowledgment),
            false => String::new(),
        };
        format!("sequence {first} to {end}{ack}")
    });
    let oldest = s.allowed_end().wrapping_sub(r.max_window);
    let newest = s.max_end;
    format!(
        "{packet} does not fit {key}: sequence {oldest} to {newest}, acknowledgment up to {} would",
        r.end
    )
}
