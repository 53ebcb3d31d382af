//! The shape of a rule by which a gateway translates.

use std::net::IpAddr;

use crate::diagnostic::{Sink, Span};
use crate::networks::{WITH_PORTS, network, socket};
use crate::record::{Key, optional, record, required};
use crate::scalar::{Spanned, choice};
use crate::tables::NatKind;
use crate::values::{address, port_range};
use crate::yaml::{Node, Value};

#[derive(Debug)]
pub(crate) struct NatDraft {
    pub(crate) kind: Option<NatKind>,
    /// Of what stands inside.
    pub(crate) inside_at: Span,
    pub(crate) outside_at: Span,
    pub(crate) at: Span,
}

/// Of the first three an entry has one.
pub(super) const NAT: [Key; 6] = [
    optional("one_to_one"),
    optional("forward"),
    optional("source"),
    required("outside", "outside: 198.19.0.2"),
    optional("protocol"),
    optional("ports"),
];

/// What stands inside: which of the three ways, and its value.
#[derive(Clone, Copy)]
enum Inside<'n> {
    OneToOne(&'n Node),
    Forward(&'n Node),
    Source(&'n Node),
}

pub(super) fn rule(node: &Node, sink: &mut Sink) -> NatDraft {
    let [one_to_one, forward, source, outside, protocol, ports] =
        record(node, node.at, "an entry of `nat`", &NAT, sink);
    let ways = [
        one_to_one.map(Inside::OneToOne),
        forward.map(Inside::Forward),
        source.map(Inside::Source),
    ];
    let mut ways = ways.into_iter().flatten();
    let (inside, more) = (ways.next(), ways.next());
    if matches!(node.value, Value::Mapping(_)) && (inside.is_none() || more.is_some()) {
        let message = if inside.is_none() {
            "an entry of `nat` says neither `one_to_one`, `forward` nor `source`"
        } else {
            "an entry of `nat` is of one kind: `one_to_one`, `forward` or `source`"
        };
        let help = "write one entry for each, for example \
                    `{ one_to_one: 198.18.1.10, outside: 198.19.0.10 }`, \
                    `{ forward: \"198.18.1.10:80\", protocol: tcp, outside: \"198.19.0.2:8080\" }` or \
                    `{ source: 198.18.1.0/24, outside: 198.19.0.2 }`";
        sink.error(node.at, message.into(), help);
    }
    let of = |inside| match inside {
        Inside::OneToOne(node) | Inside::Forward(node) | Inside::Source(node) => node,
    };
    foreign_keys(inside, protocol, ports, sink);
    let inside = if more.is_some() { None } else { inside };
    NatDraft {
        kind: inside.and_then(|inside| kind(inside, node, outside, [protocol, ports], sink)),
        inside_at: inside.map_or(node.at, |inside| of(inside).at),
        outside_at: outside.map_or(node.at, |node| node.at),
        at: node.at,
    }
}

/// Keys that only one kind of entry has.
fn foreign_keys(
    inside: Option<Inside<'_>>,
    protocol: Option<&Node>,
    ports: Option<&Node>,
    sink: &mut Sink,
) {
    let Some(inside) = inside else { return };
    for (node, key, owner, fits) in [
        (
            protocol,
            "protocol",
            "forward",
            matches!(inside, Inside::Forward(_)),
        ),
        (
            ports,
            "ports",
            "source",
            matches!(inside, Inside::Source(_)),
        ),
    ] {
        if let Some(node) = node.filter(|_| !fits) {
            let message = format!("`{key}` belongs to an entry with `{owner}`");
            sink.error(node.at, message, "remove it");
        }
    }
}

fn kind(
    inside: Inside<'_>,
    entry: &Node,
    outside: Option<&Node>,
    [protocol, ports]: [Option<&Node>; 2],
    sink: &mut Sink,
) -> Option<NatKind> {
    let outside_address = |sink: &mut Sink| -> Option<Spanned<IpAddr>> {
        outside.and_then(|node| address(node, "`outside`", sink))
    };
    match inside {
        Inside::OneToOne(node) => {
            let inside = address(node, "`one_to_one`", sink);
            let outside = outside_address(sink);
            Some(NatKind::OneToOne {
                inside: inside?.value,
                outside: outside?.value,
            })
        }
        Inside::Forward(node) => {
            let inside = socket(node, "`forward`", sink);
            let outside = outside.and_then(|node| socket(node, "`outside`", sink));
            Some(NatKind::Forward {
                protocol: forwarded(entry, protocol, sink)?,
                outside: outside?.value,
                inside: inside?.value,
            })
        }
        Inside::Source(node) => {
            let inside = network(node, "`source`", sink);
            let outside = outside_address(sink);
            let ports = match ports {
                None => NatKind::PORTS,
                Some(node) => {
                    let help = "write the first and the last port, like 1024-65535";
                    port_range(node, "`ports`", help, sink)?.value
                }
            };
            Some(NatKind::Source {
                inside: inside?.value,
                outside: outside?.value,
                ports,
            })
        }
    }
}

/// The protocol of a `forward`.
fn forwarded(entry: &Node, protocol: Option<&Node>, sink: &mut Sink) -> Option<u8> {
    let Some(node) = protocol else {
        let message = "an entry of `nat` with `forward` has no `protocol`".into();
        sink.error(entry.at, message, "add it, for example `protocol: tcp`");
        return None;
    };
    let names = WITH_PORTS.map(|(name, _)| name);
    let found = choice(node, "`protocol`", &names, sink)?;
    let number = WITH_PORTS.iter().find(|(name, _)| *name == found.value);
    number.map(|&(_, number)| number)
}
