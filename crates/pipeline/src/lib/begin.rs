//! How a connection begins: with a packet that the rules, or a rule of nat, let begin one.

use overlane_model::{Name, Verdict};
use overlane_wire::tcp::Flags;

use crate::lib::connection::{Connection, ConnectionState};
use crate::lib::context::{Context, Stage};
use crate::lib::key::{ConnectionKey, Sender};
use crate::lib::l4::{L4, Marks};
use crate::lib::places;
use crate::lib::segment::Segment;
use crate::lib::tcp_state::TcpEnd;
use crate::lib::tracking::{moment, remember_syn, unsound};

const STAGE: &str = "conntrack";

/// What a connection begins with.
pub(crate) struct Beginning {
    pub(crate) rule: Option<Name>,
    /// Of the rules that let it.
    pub(crate) version: u32,
    /// Of a translation: its key outside.
    pub(crate) outside: Option<ConnectionKey>,
    /// Of a port: whose it is.
    pub(crate) owner: u32,
    /// The most that its port or router may have.
    pub(crate) share: u32,
    /// A TCP packet without SYN may begin it.
    pub(crate) may_be_adopted: bool,
    /// Without a place the packet passes.
    pub(crate) allow_when_full: bool,
}

/// The packet begins a connection, if such a packet can. False: there is no place for it, and it passes
/// without.
pub(crate) fn begin(
    cx: &mut Context<'_>,
    key: &ConnectionKey,
    sender: Sender,
    l4: &L4,
    new: Beginning,
) -> Stage<bool> {
    let adopted = match (l4.segment(), l4.ends.marks) {
        (Some(segment), _) if segment.opens() => false,
        (Some(segment), _) if new.may_be_adopted && may_be_adopted(segment) => true,
        (Some(_), _) => return no_beginning(cx, "a TCP packet without SYN"),
        (None, Marks::Query { is_request, .. }) if !is_request => {
            return no_beginning(cx, "an ICMP reply");
        }
        (None, _) => false,
    };
    if let Some(why) = l4.unsound {
        return unsound(cx, why);
    }
    if let Some(segment) = l4.segment()
        && remember_syn(cx, key, sender, segment)
    {
        return Stage::Continue(true);
    }
    // What the key had is not this connection's.
    cx.state.forget(key);
    let share = (new.share, cx.host.tables().connections);
    let Some(place) = places::take_place(cx.state, key, share, cx.now_ns) else {
        return full(cx, new.allow_when_full);
    };
    let mut connection = Connection {
        begun_ns: cx.now_ns,
        seen_ns: cx.now_ns,
        rule: new.rule,
        version: new.version,
        owner: new.owner,
        place,
        state: ConnectionState::Opening,
        life_s: 0,
        from_peer: sender == Sender::Peer,
        made_by_peer: sender == Sender::Peer,
        adopted,
        answered: false,
        assured: false,
        picked_up: false,
        again: None,
        outside: new.outside,
        local: TcpEnd::default(),
        peer: TcpEnd::default(),
    };
    let now = moment(cx, key);
    connection.pass(sender, l4.segment(), &now);
    connection.keep_alive(&now);
    connection.adopted |= l4.is_first_fragment && l4.segment().is_some();
    cx.state.remember(*key, connection);
    cx.step(STAGE, || match adopted {
        true => format!("{key}: a connection older than the firewall, adopted"),
        false => format!("{key}: a connection begins"),
    });
    Stage::Continue(true)
}

/// Whether a packet that belongs to no connection can begin one.
pub(crate) fn may_begin(l4: &L4) -> bool {
    match (l4.segment(), l4.ends.marks) {
        _ if l4.unsound.is_some() => false,
        (Some(segment), _) => segment.opens() || may_be_adopted(segment),
        (None, Marks::Query { is_request, .. }) => is_request,
        (None, _) => true,
    }
}

fn may_be_adopted(segment: &Segment) -> bool {
    segment.is(Flags::ACK) && !segment.is(Flags::SYN) && !segment.is(Flags::RST)
}

fn no_beginning(cx: &mut Context<'_>, what: &str) -> Stage<bool> {
    cx.end(STAGE, Verdict::ConnectionInvalid, || {
        format!("{what} belongs to no connection and cannot begin one")
    })
}

fn full(cx: &mut Context<'_>, may_pass: bool) -> Stage<bool> {
    if may_pass {
        cx.step(
            STAGE,
            || "no place for a new connection: it passes without one",
        );
        return Stage::Continue(false);
    }
    cx.end(
        STAGE,
        Verdict::ConnectionsFull,
        || "no place for a new connection",
    )
}
