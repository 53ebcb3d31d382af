//! Stage conntrack: packets of a connection that was allowed pass, in both directions. The first stage of a port's
//! firewall, before `acl`.

mod fragments;

use overlane_model::{Action, Direction, PortFirewall, PortTable};

use crate::lib::classifier::{Asked, FirewallPacket, Part, action, find};
use crate::lib::connection::Connection;
use crate::lib::context::{Context, Stage};
use crate::lib::frame::Frame;
use crate::lib::host::Host;
use crate::lib::ip::Ip;
use crate::lib::key::{ConnectionKey, Sender, Zone};
use crate::lib::tracking::{self, Followed, Judgement};

/// The packet, with what is remembered of its datagram.
pub(crate) fn read<'a>(
    cx: &mut Context<'_>,
    direction: Direction,
    (port, firewall): (&'a PortTable, PortFirewall),
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage<FirewallPacket<'a>> {
    let zone = Zone::Port(port.switch, port.key);
    let at = fragments::Place {
        zone,
        port: &port.name,
        asks: firewall.asks(direction),
    };
    let (l4, part) = fragments::read(cx, &at, frame, ip)?;
    let is_group = frame.destination.is_group();
    let key = ConnectionKey::of(zone, direction.into(), &l4.ends);
    Stage::Continue(FirewallPacket {
        port,
        firewall,
        direction,
        zone,
        key: key.filter(|_| !is_group && part != Part::Unknown),
        l4,
        part,
        is_group,
        len: cx.weight.len,
    })
}

/// Whether the packet belongs to a connection; else the rules decide.
pub(crate) fn conntrack(cx: &mut Context<'_>, packet: &FirewallPacket<'_>) -> Stage<Followed> {
    if packet.is_group {
        return Stage::Continue(Followed::NOTHING);
    }
    tracking::check(cx, &packet.l4)?;
    if is_related(cx, packet) {
        return Stage::Continue(Followed::Passes { rule: None });
    }
    let followed = follow(cx, packet)?;
    if let Followed::Passes { rule: Some(rule) } = &followed {
        cx.count_rule(rule);
    }
    Stage::Continue(followed)
}

/// An ICMP error about a packet of a live connection.
fn is_related(cx: &mut Context<'_>, packet: &FirewallPacket<'_>) -> bool {
    let Some(quoted) = packet.l4.quoted else {
        return false;
    };
    let sender = Sender::from(packet.direction).other();
    let ends = fragments::ends_of(cx, packet.zone, &quoted);
    let key = ends.and_then(|ends| ConnectionKey::of(packet.zone, sender, &ends));
    let is_for_source = packet.l4.ends.destination == quoted.ends.source;
    let owner = packet.port.owner();
    let is_own = |key: &ConnectionKey| tracking::live(cx, key).is_some_and(|it| it.owner == owner);
    let key = key.filter(|key| is_for_source && is_own(key));
    if let Some(key) = key {
        cx.step(tracking::STAGE, || {
            format!("an ICMP error about the connection {key}")
        });
    }
    key.is_some()
}

fn follow(cx: &mut Context<'_>, packet: &FirewallPacket<'_>) -> Stage<Followed> {
    let Some(key) = &packet.key else {
        return Stage::Continue(Followed::NOTHING);
    };
    let host = cx.host;
    let judge = |connection: &Connection| judge_again(host, packet, key, connection);
    if packet.part == Part::Later {
        return Stage::Continue(tracking::accompany(cx, key, judge));
    }
    tracking::follow(cx, key, packet.direction.into(), &packet.l4, judge)
}

/// The rules of now look at a connection's first packet once more.
fn judge_again(
    host: &Host,
    packet: &FirewallPacket<'_>,
    key: &ConnectionKey,
    connection: &Connection,
) -> Judgement {
    if connection.owner != packet.port.owner() {
        return Judgement::Foreign;
    }
    if connection.version == host.tables().firewall.version {
        return Judgement::Stands;
    }
    let direction = match connection.from_peer {
        true => Direction::ToPort,
        false => Direction::FromPort,
    };
    let port = match direction {
        _ if !key.has_ports() => None,
        _ if key.is_icmp() => Some(u16::from(key.request()) << 8),
        Direction::FromPort => Some(key.peer_port),
        Direction::ToPort => Some(key.local_port),
    };
    let asked = Asked {
        protocol: key.protocol,
        peer: key.peer,
        port,
    };
    let rule = find(host, packet.port, direction, asked);
    match action(rule, packet.firewall, direction) {
        Action::Allow => Judgement::Allowed {
            rule: rule.map(|rule| rule.name.clone()),
            version: host.tables().firewall.version,
        },
        _ => Judgement::Revoked,
    }
}
