//! The firewall of a port: stage conntrack, and stage acl, the rules for packets without a connection. From
//! the port after `arp_nd`; to it the first part of `to_port`, for each copy of a flooded frame too.
//!
//! The rules are tried one after another: slow, and easy to trust. `bpf/stage/acl.h` finds the same rule by sets.

mod fragments;
mod log;

use std::net::IpAddr;

use overlane_model::{
    Action, Direction, Hook, Place, PortFirewall, PortTable, RuleTable, Service, Verdict,
};

use overlane_wire::{EtherType, arp, ethernet};

pub use log::LogRecord;

use crate::Host;
use crate::conntrack::{
    self, Beginning, Connection, ConnectionKey, Followed, Judgement, Sender, Zone,
};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::link_upkeep::is_upkeep;
use crate::parse::{Ends, Frame, L4, Marks};
use fragments::Part;

const STAGE: &str = "acl";

/// A packet at a port with a firewall.
struct Packet<'a> {
    port: &'a PortTable,
    firewall: PortFirewall,
    direction: Direction,
    zone: Zone,
    l4: L4,
    part: Part,
    /// To a group MAC.
    is_group: bool,
    /// `None`: it belongs to no connection and begins none.
    key: Option<ConnectionKey>,
    len: usize,
}

/// Ends with a drop, or lets the packet pass.
pub(crate) fn firewall(
    cx: &mut Context<'_>,
    direction: Direction,
    port: &PortTable,
    frame: &Frame<'_>,
) -> Stage {
    // What comes back from the segmenter was looked at before it went there.
    let was_judged = cx.hook == Hook::FromSegmenter && direction == Direction::FromPort;
    let (Some(firewall), false) = (port.firewall, was_judged) else {
        return Stage::Continue(());
    };
    let Some(ip) = frame.ip else {
        return non_ip(cx, port, firewall, frame);
    };
    if stays_on_link(cx, port, frame) && is_upkeep(frame, &ip) {
        return Stage::Continue(());
    }
    let zone = Zone::Port(port.switch, port.key);
    let at = fragments::Place {
        zone,
        port: &port.name,
        asks: firewall.asks(direction),
    };
    let (l4, part) = fragments::read(cx, &at, frame, &ip)?;
    let is_group = frame.destination.is_group();
    let key = ConnectionKey::of(zone, direction.into(), &l4.ends);
    let packet = Packet {
        port,
        firewall,
        direction,
        zone,
        key: key.filter(|_| !is_group && part != Part::Unknown),
        l4,
        part,
        is_group,
        len: cx.weight.len,
    };
    judge(cx, &packet)?;
    if let Some(first) = ip.first_seen() {
        fragments::remember(cx, zone, frame, &ip, &first, &packet.l4);
    }
    Stage::Continue(())
}

/// No router has forwarded it here, and none is going to.
fn stays_on_link(cx: &Context<'_>, port: &PortTable, frame: &Frame<'_>) -> bool {
    let entry = cx.host.fdb_entry(port.switch, frame.destination);
    let is_routers = entry.is_some_and(|entry| matches!(entry.place, Place::Router(_)));
    cx.routed == 0 && !is_routers
}

/// What only calls itself ARP carries whatever it likes.
fn is_arp(frame: &Frame<'_>) -> bool {
    let packet = frame.bytes.get(ethernet::LEN..).unwrap_or_default();
    frame.ethertype == EtherType::ARP && arp::View::new_checked(packet).is_ok()
}

/// Neither IP nor ARP: no rule looks at it.
fn non_ip(
    cx: &mut Context<'_>,
    port: &PortTable,
    firewall: PortFirewall,
    frame: &Frame<'_>,
) -> Stage {
    let ethertype = frame.ethertype;
    if !firewall.drop_non_ip || is_arp(frame) {
        return Stage::Continue(());
    }
    let switch = cx.host.switch(port.switch);
    let passes = switch.is_some_and(|switch| switch.non_ip.contains(&ethertype.get()));
    if passes && !ethertype.is_length() {
        return Stage::Continue(());
    }
    cx.end(STAGE, Verdict::FirewallDrop, || {
        let what = match ethertype.is_length() {
            true => "an 802.3 frame".to_owned(),
            false => format!("type {ethertype}"),
        };
        let text = format!("{what} is not IP, and does not pass at port {}", port.name);
        match switch {
            Some(switch) => Found::by_switch(text, &switch.name),
            None => text.into(),
        }
    })
}

fn judge(cx: &mut Context<'_>, packet: &Packet<'_>) -> Stage {
    let mut may_be_adopted = true;
    if !packet.is_group {
        conntrack::check(cx, &packet.l4)?;
        if is_related(cx, packet) {
            return Stage::Continue(());
        }
        match follow(cx, packet)? {
            Followed::Passes { rule } => {
                if let Some(rule) = rule {
                    cx.count_rule(&rule);
                }
                return Stage::Continue(());
            }
            Followed::Asks => {}
            Followed::Nothing {
                may_be_adopted: may,
            } => may_be_adopted = may,
        }
    }
    acl(cx, packet, may_be_adopted)
}

/// An ICMP error about a packet of a live connection.
fn is_related(cx: &mut Context<'_>, packet: &Packet<'_>) -> bool {
    let Some(quoted) = packet.l4.quoted else {
        return false;
    };
    let sender = Sender::from(packet.direction).other();
    let ends = fragments::ends_of(cx, packet.zone, &quoted);
    let key = ends.and_then(|ends| ConnectionKey::of(packet.zone, sender, &ends));
    let is_for_source = packet.l4.ends.destination == quoted.ends.source;
    let owner = packet.port.owner();
    let is_own = |key: &ConnectionKey| conntrack::live(cx, key).is_some_and(|it| it.owner == owner);
    let key = key.filter(|key| is_for_source && is_own(key));
    if let Some(key) = key {
        cx.step(conntrack::STAGE, || {
            format!("an ICMP error about the connection {key}")
        });
    }
    key.is_some()
}

fn follow(cx: &mut Context<'_>, packet: &Packet<'_>) -> Stage<Followed> {
    let Some(key) = &packet.key else {
        return Stage::Continue(Followed::NOTHING);
    };
    let host = cx.host;
    let judge = |connection: &Connection| judge_again(host, packet, key, connection);
    if packet.part == Part::Later {
        return Stage::Continue(conntrack::accompany(cx, key, judge));
    }
    conntrack::follow(cx, key, packet.direction.into(), &packet.l4, judge)
}

/// The rules of now look at a connection's first packet once more.
fn judge_again(
    host: &Host,
    packet: &Packet<'_>,
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

/// The rules, for a packet without a connection. It counts at the rule that decides, also where no
/// connection can begin.
fn acl(cx: &mut Context<'_>, packet: &Packet<'_>, may_be_adopted: bool) -> Stage {
    let (port, direction) = (packet.port, packet.direction);
    let rule = find(cx.host, port, direction, packet.asked());
    if let Some(rule) = rule {
        cx.count_rule(&rule.name);
    }
    let action = action(rule, packet.firewall, direction);
    cx.step(STAGE, || explain(cx.host, packet, rule, action));
    let ended = match (action, &packet.key) {
        (Action::Drop, _) => Stage::Break(Verdict::FirewallDrop),
        (Action::Reject, _) => Stage::Break(Verdict::FirewallReject),
        (Action::Allow, Some(key)) if packet.part == Part::Full => {
            let new = Beginning {
                rule: rule.map(|rule| rule.name.clone()),
                version: cx.host.tables().firewall.version,
                outside: None,
                owner: port.owner(),
                share: port.limits.connections,
                may_be_adopted,
                allow_when_full: packet.firewall.allow_when_full,
            };
            let begun = conntrack::begin(cx, key, direction.into(), &packet.l4, new);
            begun.map_continue(|_| ())
        }
        (Action::AllowStateless | Action::Allow, _) => Stage::Continue(()),
    };
    if let Some(rule) = rule.filter(|rule| rule.log) {
        cx.log(packet.record(cx.now_ns, rule, ended));
    }
    ended
}

/// What a rule matches a packet by.
#[derive(Clone, Copy)]
struct Asked {
    protocol: u8,
    peer: IpAddr,
    /// Of the destination; of ICMP type and code. `None`: a fragment that shows none, or a protocol that has none.
    port: Option<u16>,
}

fn find<'a>(
    host: &'a Host,
    port: &PortTable,
    direction: Direction,
    asked: Asked,
) -> Option<&'a RuleTable> {
    let here = (port.switch, port.key);
    let mut rules = host.tables().firewall.rules.iter();
    rules.find(|rule| {
        rule.direction == direction && rule.ports.contains(&here) && asked.is_matched_by(rule)
    })
}

fn action(rule: Option<&RuleTable>, firewall: PortFirewall, direction: Direction) -> Action {
    let drops = match direction {
        Direction::FromPort => firewall.drop_from_port,
        Direction::ToPort => firewall.drop_to_port,
    };
    match rule {
        Some(rule) => rule.action,
        None if drops => Action::Drop,
        None => Action::Allow,
    }
}

impl Asked {
    fn is_matched_by(&self, rule: &RuleTable) -> bool {
        let peers = rule.peers.as_ref();
        let services = rule.services.as_ref();
        peers.is_none_or(|peers| peers.iter().any(|peer| peer.contains(&self.peer)))
            && services.is_none_or(|services| services.iter().any(|one| self.is_for(one)))
    }

    fn is_for(&self, service: &Service) -> bool {
        let (protocol, ports) = service.range();
        let has_port =
            ports.is_none_or(|ports| self.port.is_some_and(|port| ports.contains(&port)));
        self.protocol == protocol && has_port
    }
}

impl Packet<'_> {
    fn asked(&self) -> Asked {
        let Ends {
            protocol,
            source,
            destination,
            marks,
        } = self.l4.ends;
        Asked {
            protocol,
            peer: match self.direction {
                Direction::FromPort => destination,
                Direction::ToPort => source,
            },
            port: match (marks, self.l4.icmp) {
                (Marks::Ports { destination, .. }, _) => Some(destination),
                (Marks::None, _) => None,
                (_, icmp) => icmp.map(|(kind, code)| u16::from_be_bytes([kind, code])),
            },
        }
    }
}

fn explain(host: &Host, packet: &Packet<'_>, rule: Option<&RuleTable>, action: Action) -> Found {
    let (port, direction) = (&packet.port.name, packet.direction);
    if let Some(rule) = rule {
        let name = &rule.name;
        return Found::by_rule(
            format!("rule {name} of port {port}, {direction}: {action}"),
            name,
        );
    }
    let text = format!("no rule of port {port} matches, and {direction} the default is {action}");
    match host.switch(packet.port.switch) {
        Some(switch) => Found::by_switch(text, &switch.name),
        None => text.into(),
    }
}
