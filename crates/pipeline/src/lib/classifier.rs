//! The rules of a port's firewall, and what they ask of a packet. They are tried one after another: slow, and easy to
//! trust. `bpf/lib/classifier.h` finds the same rule by sets.

use std::net::IpAddr;

use overlane_model::{Action, Direction, PortFirewall, PortTable, RuleTable, Service};

use crate::lib::host::Host;
use crate::lib::key::{ConnectionKey, Zone};
use crate::lib::l4::{Ends, L4, Marks};

/// A packet at a port with a firewall.
pub(crate) struct FirewallPacket<'a> {
    pub(crate) port: &'a PortTable,
    pub(crate) firewall: PortFirewall,
    pub(crate) direction: Direction,
    pub(crate) zone: Zone,
    pub(crate) l4: L4,
    pub(crate) part: Part,
    /// To a group MAC.
    pub(crate) is_group: bool,
    /// `None`: it belongs to no connection and begins none.
    pub(crate) key: Option<ConnectionKey>,
    pub(crate) len: usize,
}

/// What a rule matches a packet by.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) protocol: u8,
    pub(crate) peer: IpAddr,
    /// Of the destination; of ICMP type and code. `None`: a fragment that shows none, or a protocol that has none.
    pub(crate) port: Option<u16>,
}

pub(crate) fn find<'a>(
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

pub(crate) fn action(
    rule: Option<&RuleTable>,
    firewall: PortFirewall,
    direction: Direction,
) -> Action {
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

impl FirewallPacket<'_> {
    pub(crate) fn asked(&self) -> Asked {
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

/// What a packet has to do with connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It belongs to one, or may begin one.
    Full,
    /// It belongs to one, but changes nothing of it and begins none.
    Later,
    /// Nothing.
    Unknown,
}
