//! Addresses of VTEPs: in a switch or behind a leg nobody has one.

use std::collections::HashMap;
use std::net::IpAddr;

use super::quoted;
use crate::decode::Draft;
use crate::diagnostic::{Sink, Span};
use crate::fabric::single;

pub(super) fn vteps(draft: &Draft<'_>, sink: &mut Sink) {
    let hosts = draft.hosts.iter().filter_map(|host| {
        let underlay = host.underlay?;
        Some((underlay.value, (underlay.at, quoted("host", &host.name))))
    });
    let hosts: HashMap<IpAddr, (Span, String)> = hosts.collect();
    for (addr, at) in addresses(draft) {
        let Some((place, host)) = hosts.get(&addr) else {
            continue;
        };
        let message = format!("{addr} is the underlay address of {host}");
        let help = "no port, router or translation has the address of a VTEP: write another one";
        let said = format!("the underlay address of {host} is here");
        sink.conflict(at, message, help, (*place, said));
    }
}

/// What ports and routers have, and what translations make of addresses.
fn addresses<'d>(draft: &'d Draft<'_>) -> impl Iterator<Item = (IpAddr, Span)> + 'd {
    let ports = draft.ports.iter().flat_map(|port| {
        let allowed = port.allowed_addresses.iter();
        let floating = allowed.filter_map(|network| Some((single(network.value)?, network.at)));
        let own = port.addresses.iter().map(|addr| (addr.value, addr.at));
        own.chain(floating)
    });
    let interfaces = draft.routers.iter().flat_map(|router| &router.interfaces);
    let interfaces = interfaces.flat_map(|interface| &interface.addresses);
    let gateways = || {
        draft
            .routers
            .iter()
            .filter_map(|router| router.gateway.as_ref())
    };
    let legs = gateways().flat_map(|gateway| &gateway.addresses);
    let routers = interfaces.chain(legs);
    let routers = routers.map(|network| (network.value.addr(), network.at));
    let nat = gateways().flat_map(|gateway| &gateway.nat);
    let nat = nat.filter_map(|rule| Some((rule.kind.as_ref()?, rule)));
    let nat = nat.flat_map(|(kind, rule)| {
        let inside = kind.inside().addr();
        [(inside, rule.inside_at), (kind.outside(), rule.outside_at)]
    });
    ports.chain(routers).chain(nat)
}
