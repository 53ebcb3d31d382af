//! What hides an inside address behind a gateway, and where its ICMP errors come from.

use std::net::IpAddr;

use overlane_model::{NatKind, NatRule, RouterTable};

use crate::lib::destination::Ingress;

/// The first rule that hides an inside address.
pub(crate) fn hiding(rules: &[NatRule], addr: IpAddr) -> Option<&NatRule> {
    rules.iter().find(|rule| match &rule.kind {
        NatKind::OneToOne { inside, .. } => *inside == addr,
        NatKind::Source { inside, .. } => inside.contains(&addr),
        NatKind::Forward { .. } => false,
    })
}

/// Where an ICMP error of a router inside comes from, as seen outside: what hides the router, or the gateway itself.
pub(crate) fn teller(gateway: &RouterTable, inside: IpAddr) -> Option<IpAddr> {
    let at_leg = Ingress {
        router: gateway,
        switch: None,
    };
    match hiding(&gateway.gateway.as_ref()?.nat, inside) {
        Some(rule) => Some(rule.kind.outside()),
        None => at_leg.address(inside.is_ipv4()),
    }
}
