//! Stage acl: the first rule that matches a packet without a connection decides. Behind `conntrack`. What leaves here for
//! the log is what the data path writes into its ring while that has room.

use std::ops::ControlFlow;

use overlane_model::{Action, PortFirewall, PortTable, RuleTable, Verdict};
use overlane_wire::{EtherType, arp, ethernet};

use crate::lib::begin::{self, Beginning};
use crate::lib::classifier::{FirewallPacket, Part, action, find};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::host::Host;
use crate::lib::key::{ConnectionKey, Sender};
use crate::lib::log::LogRecord;

const STAGE: &str = "acl";

/// What only calls itself ARP carries whatever it likes.
fn is_arp(frame: &Frame<'_>) -> bool {
    let packet = frame.bytes.get(ethernet::LEN..).unwrap_or_default();
    frame.ethertype == EtherType::ARP && arp::View::new_checked(packet).is_ok()
}

/// Neither IP nor ARP: no rule looks at it.
pub(crate) fn non_ip(
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

/// The rules, for a packet without a connection. It counts at the rule that decides, also where no
/// connection can begin.
pub(crate) fn acl(
    cx: &mut Context<'_>,
    packet: &FirewallPacket<'_>,
    may_be_adopted: bool,
) -> Stage {
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
            let begun = begin::begin(cx, key, direction.into(), &packet.l4, new);
            begun.map_continue(|_| ())
        }
        (Action::AllowStateless | Action::Allow, _) => Stage::Continue(()),
    };
    if let Some(rule) = rule.filter(|rule| rule.log) {
        cx.log(packet.record(cx.now_ns, rule, ended));
    }
    ended
}

fn explain(
    host: &Host,
    packet: &FirewallPacket<'_>,
    rule: Option<&RuleTable>,
    action: Action,
) -> Found {
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

impl FirewallPacket<'_> {
    fn record(&self, time_ns: u64, rule: &RuleTable, ended: Stage) -> LogRecord {
        LogRecord {
            time_ns,
            packet: self.logged(),
            direction: self.direction,
            rule: rule.name.clone(),
            reason: match ended {
                ControlFlow::Continue(()) => None,
                ControlFlow::Break(reason) => Some(reason),
            },
            len: u16::try_from(self.len).unwrap_or(u16::MAX),
        }
    }

    /// The key of the packet, or what would be one.
    fn logged(&self) -> ConnectionKey {
        let zone = self.zone;
        let sender = Sender::from(self.direction);
        let (ends, icmp) = (&self.l4.ends, self.l4.icmp);
        ConnectionKey::of(zone, sender, ends).unwrap_or_else(|| ConnectionKey {
            peer_port: icmp.map_or(0, |(kind, _)| kind.into()),
            ..ConnectionKey::bare(zone, sender, ends)
        })
    }
}
