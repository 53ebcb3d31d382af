//! The values of the fabric file that are about addresses and ports: networks, addresses with their
//! network, sockets, services. Each reader reports its own mistake and answers `None`, like those of
//! [`values`](crate::values).

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use overlane_wire::ip::protocol;

use crate::diagnostic::Sink;
use crate::fabric::single;
use crate::render::printable;
use crate::scalar::{Spanned, text, wrong_type};
use crate::tables::Service;
use crate::values::{decimal, each_once, range, unicast};
use crate::yaml::{Node, Value};

/// The entries of a list; nothing of what is none, which is reported.
pub(crate) fn list<'n>(node: &'n Node, what: &str, help: &str, sink: &mut Sink) -> &'n [Node] {
    match &node.value {
        Value::List(nodes) => nodes,
        _ => {
            wrong_type(node, what, "a list", help, sink);
            &[]
        }
    }
}

/// The same, and an empty list is a mistake.
pub(crate) fn filled<'n>(node: &'n Node, what: &str, help: &str, sink: &mut Sink) -> &'n [Node] {
    let nodes = list(node, what, help, sink);
    if nodes.is_empty() && matches!(node.value, Value::List(_)) {
        sink.error(node.at, format!("{what} is empty"), help);
    }
    nodes
}

/// Whether a text is meant as an address or network, and not as a name.
pub(crate) fn is_numeric(text: &str) -> bool {
    text.contains(['/', ':']) || text.parse::<IpAddr>().is_ok()
}

/// A network without host bits; an address is one of itself alone.
pub(crate) fn network(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<IpNet>> {
    let help = "write a network, like 198.18.1.0/24 or \"2001:2:0:1::/64\", or one address";
    let written = text(node, what, help, sink)?;
    let found = written.value.parse::<IpNet>();
    let found = found.or_else(|_| written.value.parse::<IpAddr>().map(IpNet::from));
    let Ok(network) = found else {
        let message = format!("`{}` is not a network", printable(written.value));
        sink.error(node.at, message, help);
        return None;
    };
    if network.trunc() != network {
        let message = format!("{network} has bits behind its prefix");
        let help = format!("write {}, or one address without prefix", network.trunc());
        sink.report(node.at, message, Some(help));
        return None;
    }
    if is_mapped(network) {
        let message = format!("{network} is a network of IPv4-mapped addresses");
        sink.error(node.at, message, "write it as an IPv4 network");
        return None;
    }
    Some(Spanned::new(network, node.at))
}

/// What a port may use beside its addresses, each once.
pub(crate) fn allowed_addresses(node: &Node, sink: &mut Sink) -> Vec<Spanned<IpNet>> {
    let help = "write addresses and networks in brackets: [198.18.100.9, 198.18.200.0/24]";
    let nodes = list(node, "`allowed_addresses`", help, sink).iter();
    let entries = nodes.filter_map(|node| {
        let found = network(node, "an entry of `allowed_addresses`", sink)?;
        match single(found.value) {
            Some(addr) => unicast(Spanned::new(addr, found.at), sink).map(|_| found),
            None => Some(found),
        }
    });
    let entries = entries.collect();
    each_once(entries, "allowed_addresses", sink)
}

/// The maps hold IPv4 in this form: the two would be one entry.
fn is_mapped(network: IpNet) -> bool {
    let IpAddr::V6(addr) = network.addr() else {
        return false;
    };
    network.prefix_len() >= 96 && addr.to_ipv4_mapped().is_some()
}

/// An address of a router with its network.
pub(crate) fn interface_address(node: &Node, sink: &mut Sink) -> Option<Spanned<IpNet>> {
    let help = "write address and prefix length, like 198.18.1.254/24 or \"2001:2:0:1::fe/64\"";
    let written = text(node, "an address", help, sink)?;
    let Ok(found) = written.value.parse::<IpNet>() else {
        let shown = printable(written.value);
        let message = match written.value.parse::<IpAddr>() {
            Ok(_) => format!("{shown} has no prefix length"),
            Err(_) => format!("`{shown}` is not an address with prefix length"),
        };
        sink.error(node.at, message, help);
        return None;
    };
    let addr = unicast(Spanned::new(found.addr(), node.at), sink)?.value;
    let (message, help) = match addr {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => (
            format!("{addr} is a link-local address"),
            "leave it out: a router has the link-local address made from its MAC wherever it has an IPv6 address",
        ),
        _ if has_broadcast(found) && addr == found.network() => (
            format!("{addr} is the address of the network {}", found.trunc()),
            "write the address that the router has in it",
        ),
        IpAddr::V4(_) if has_broadcast(found) && addr == found.broadcast() => (
            format!("{addr} is the broadcast address of {}", found.trunc()),
            "write the address that the router has in it",
        ),
        _ => return Some(Spanned::new(found, node.at)),
    };
    sink.error(node.at, message, help);
    None
}

/// Networks of one and of two addresses (RFC 3021, RFC 6164) have none to spare.
fn has_broadcast(network: IpNet) -> bool {
    network.max_prefix_len() - network.prefix_len() > 1
}

/// An address and a port.
pub(crate) fn socket(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<(IpAddr, u16)>> {
    let help = "write address and port in quotes, like \"198.18.1.10:80\" or \"[2001:2::1]:80\"";
    let written = text(node, what, help, sink)?;
    let found = written.value.parse::<SocketAddr>().ok();
    // The number of an interface (`%1`) means nothing to other hosts.
    let found = found.filter(|found| found.port() > 0 && !written.value.contains('%'));
    let Some(found) = found else {
        let message = format!("`{}` is not address and port", printable(written.value));
        sink.error(node.at, message, help);
        return None;
    };
    let addr = unicast(Spanned::new(found.ip(), node.at), sink)?;
    Some(Spanned::new((addr.value, found.port()), node.at))
}

/// The protocols that have ports, as the fabric file writes them.
pub(crate) const WITH_PORTS: [(&str, u8); 3] = [
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("sctp", protocol::SCTP),
];
const WITH_TYPES: [(&str, u8); 2] = [("icmp", protocol::ICMP), ("icmp6", protocol::ICMPV6)];
const BY_NUMBER: &str = "protocol";

fn numbered(known: &[(&str, u8)], word: &str) -> Option<u8> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|&(_, number)| number)
}

/// What a packet is for.
pub(crate) fn service(node: &Node, sink: &mut Sink) -> Option<Spanned<Service>> {
    let help = "write a protocol, or a part of it: tcp, tcp/80, udp/8000-8100, sctp/2905, icmp/8, icmp/3/4, \
                icmp6/128, protocol/47";
    let written = text(node, "a service", help, sink)?;
    if let Some(service) = parse_service(written.value) {
        return Some(Spanned::new(service, node.at));
    }
    let message = format!("`{}` is not a service", printable(written.value));
    let word = written.value.split('/').next().unwrap_or_default();
    let words = || {
        let named = WITH_PORTS.iter().chain(&WITH_TYPES);
        named.map(|(name, _)| *name).chain([BY_NUMBER])
    };
    // A known word with a wrong rest needs the forms, not the word.
    let help = if words().any(|known| known == word) {
        Some(help.to_owned())
    } else {
        sink.suggest(word, words(), || Some(help.to_owned()))
    };
    sink.report(node.at, message, help);
    None
}

fn parse_service(text: &str) -> Option<Service> {
    let (word, rest) = match text.split_once('/') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    };
    if word == BY_NUMBER {
        return Some(Service::Protocol(decimal(rest?)?));
    }
    if let Some(protocol) = numbered(&WITH_PORTS, word) {
        let Some(rest) = rest else {
            return Some(Service::Protocol(protocol));
        };
        let ports: RangeInclusive<u16> = match decimal(rest) {
            Some(port) => port..=port,
            None => range(rest)?,
        };
        return (ports.start() <= ports.end()).then(|| Service::Ports {
            protocol,
            first: *ports.start(),
            last: *ports.end(),
        });
    }
    let protocol = numbered(&WITH_TYPES, word)?;
    let Some(rest) = rest else {
        return Some(Service::Protocol(protocol));
    };
    let (kind, code) = match rest.split_once('/') {
        Some((kind, code)) => (kind, Some(decimal(code)?)),
        None => (rest, None),
    };
    Some(Service::Icmp {
        protocol,
        kind: decimal(kind)?,
        code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services() {
        let ports = |protocol, first, last| {
            Some(Service::Ports {
                protocol,
                first,
                last,
            })
        };
        let icmp = |protocol, kind, code| {
            Some(Service::Icmp {
                protocol,
                kind,
                code,
            })
        };
        for (text, service) in [
            ("tcp", Some(Service::Protocol(6))),
            ("udp", Some(Service::Protocol(17))),
            ("sctp", Some(Service::Protocol(132))),
            ("icmp", Some(Service::Protocol(1))),
            ("icmp6", Some(Service::Protocol(58))),
            ("protocol/47", Some(Service::Protocol(47))),
            ("protocol/0", Some(Service::Protocol(0))),
            ("tcp/80", ports(6, 80, 80)),
            ("tcp/0-65535", ports(6, 0, 65535)),
            ("sctp/2905-2906", ports(132, 2905, 2906)),
            ("icmp/8", icmp(1, 8, None)),
            ("icmp/3/4", icmp(1, 3, Some(4))),
            ("icmp6/128/0", icmp(58, 128, Some(0))),
        ] {
            assert_eq!(parse_service(text), service, "{text}");
        }
        for text in [
            "",
            "TCP",
            "tcp/",
            "tcp/http",
            "tcp/65536",
            "tcp/80/81",
            "tcp/81-80",
            "tcp/+80",
            "tcp/-80",
            "tcp/80-",
            "udp/1-2-3",
            "icmp/256",
            "icmp/3/256",
            "icmp/3/4/5",
            "icmp/3/",
            "protocol",
            "protocol/256",
            "protocol/47/1",
            "47",
        ] {
            assert_eq!(parse_service(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_name() {
        for text in ["198.18.0.1", "198.18.0.0/24", "2001:2::1", "a/b", "::"] {
            assert!(is_numeric(text), "{text}");
        }
        for text in ["web", "198.18.0", "1.2.3.4.5"] {
            assert!(!is_numeric(text), "{text}");
        }
    }
}
