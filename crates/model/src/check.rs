//! The values of a fabric file looked at together: references that lead nowhere, and two things that
//! claim what only one can have. Comes after [`decode`](crate::decode); a draft without mistakes
//! becomes the [`Fabric`].
//!
//! Of two conflicting places the wrong one is pointed at, and the other one named. Where neither is wrong, the later
//! one in the file is pointed at.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::IpAddr;

use crate::build;
use crate::decode::{Draft, SwitchDraft, TunnelDraft};
use crate::diagnostic::{Sink, Span};
use crate::fabric::Fabric;
use crate::record::NameDraft;
use crate::render::printable;
use crate::scalar::Spanned;
use crate::tables::Encapsulation;
use ways::Ways;

mod devices;
mod equal_cost;
mod hidden;
mod members;
mod nat;
mod places;
mod references;
mod routers;
mod rule_sizes;
mod rules;
mod shares;
mod sizes;
mod timeouts;
mod translations;
mod vlans;
mod vteps;
mod ways;

/// Reports everything that does not fit together; the fabric, if all of it was there.
pub(crate) fn fabric(draft: &Draft<'_>, sink: &mut Sink) -> Option<Fabric> {
    let is_whole = !sink.has_errors();
    underlays(draft, sink);
    geneve_options(draft, sink);
    switch_ids(&draft.switches, sink);
    vlans::guest_vlans(draft, sink);
    references::references(draft, sink);
    devices::devices(draft, sink);
    members::members(draft, sink);
    members::switch_sizes(draft, sink);
    rules::rules(draft, sink);
    routers::routers(draft, sink);
    vteps::vteps(draft, sink);
    shares::shares(draft, sink);
    if is_whole {
        meant(draft, sink);
    }
    if sink.has_errors() {
        return None;
    }
    let fabric = build::fabric(draft)?;
    sizes::sizes(&fabric, draft, sink);
    (!sink.has_errors()).then_some(fabric)
}

/// What can hardly be meant. Looked for in a draft of which nothing is missing: what is missing could be what
/// makes it right.
fn meant(draft: &Draft<'_>, sink: &mut Sink) {
    let routers: Vec<Ways<'_>> = draft.routers.iter().map(Ways::new).collect();
    let stations = places::stations(draft);
    places::places(draft, &routers, &stations, sink);
    equal_cost::equal_cost(draft, &routers, sink);
    translations::translations(&routers, &stations, sink);
    timeouts::timeouts(&draft.routers, sink);
    rules::loose_peers(draft, sink);
    hidden::rules(draft, sink);
}

/// What has been claimed, by whom and where.
struct Claims<K>(HashMap<K, (Span, String)>);

impl<K: Eq + Hash> Claims<K> {
    fn new() -> Self {
        Self(HashMap::new())
    }

    /// The earlier claim, if there is one.
    fn claim(&mut self, key: K, at: Span, owner: String) -> Option<(Span, String)> {
        if let Some(first) = self.0.get(&key) {
            return Some(first.clone());
        }
        self.0.insert(key, (at, owner));
        None
    }

    fn get(&self, key: &K) -> Option<(Span, String)> {
        self.0.get(key).cloned()
    }
}

fn quoted(kind: &str, name: &NameDraft<'_>) -> String {
    format!("{kind} `{}`", printable(name.text))
}

fn underlays(draft: &Draft<'_>, sink: &mut Sink) {
    let mut claims = Claims::new();
    let mut first: Option<(Spanned<IpAddr>, String)> = None;
    for host in &draft.hosts {
        let Some(underlay) = host.underlay else {
            continue;
        };
        let (ip, at) = (underlay.value, underlay.at);
        let owner = quoted("host", &host.name);
        if let Some((place, other)) = claims.claim(ip, at, owner.clone()) {
            let message = format!("{ip} is already the underlay address of {other}");
            let help = "give each host its own underlay address";
            sink.conflict(at, message, help, (place, format!("{other} has it here")));
        }
        if let IpAddr::V6(v6) = ip
            && v6.is_unicast_link_local()
        {
            let message = format!("{ip} is a link-local address");
            let help = "write an address that the other hosts can route to";
            sink.error(at, message, help);
        }
        match &first {
            None => first = Some((underlay, owner)),
            Some((model, other)) if model.value.is_ipv4() != ip.is_ipv4() => {
                let message = format!(
                    "the underlay is {} here and {} at {other}",
                    family(ip),
                    family(model.value)
                );
                let help = "give all hosts underlay addresses of one family";
                let said = format!("{other} is {} here", family(model.value));
                sink.conflict(at, message, help, (model.at, said));
            }
            Some(_) => {}
        }
    }
    let v6 = draft
        .hosts
        .iter()
        .filter_map(|host| host.underlay)
        .find(|at| at.value.is_ipv6());
    if let Some(v6) = v6 {
        zero_checksum(&draft.tunnel, v6.at, sink);
    }
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// IPv6 has no header checksum, so RFC 8200 §8.1 wants one in UDP. Tunnels may do without under the
/// conditions of RFC 6936 §5, which only the operator of the underlay can judge.
fn zero_checksum(tunnel: &TunnelDraft, underlay: Span, sink: &mut Sink) {
    let setting = tunnel.udp6_zero_checksum;
    if setting.is_some_and(|setting| setting.value) {
        return;
    }
    let at = setting.map_or(underlay, |setting| setting.at);
    let message = "an IPv6 underlay needs `udp6_zero_checksum: true` in `tunnel`".into();
    let help = "outer UDP checksums are sent as zero; over IPv6 that leaves the outer addresses \
                unprotected, which RFC 6936 allows for tunnels on a network that rarely corrupts \
                packets and whose receivers accept it: set it to true if yours is one";
    sink.error(at, message, help);
}

/// VXLAN has no options.
fn geneve_options(draft: &Draft<'_>, sink: &mut Sink) {
    let encapsulation = draft.tunnel.encapsulation;
    let Some(vxlan) = encapsulation.filter(|at| at.value == Encapsulation::Vxlan) else {
        return;
    };
    let of_hosts = draft.hosts.iter().filter_map(|host| host.options);
    for options in draft.tunnel.options.into_iter().chain(of_hosts) {
        let message = "VXLAN has no options".into();
        let help = "remove `options`, or write `encapsulation: geneve`";
        let place = (vxlan.at, "the encapsulation is VXLAN here".into());
        sink.conflict(options.at, message, help, place);
    }
}

/// What tells a switch apart on the underlay is its own.
fn switch_ids(switches: &[SwitchDraft<'_>], sink: &mut Sink) {
    let mut vnis = Claims::new();
    let mut vlans = Claims::new();
    for switch in switches {
        let owner = || quoted("switch", &switch.name);
        if let Some(vni) = switch.vni {
            let first = vnis.claim(vni.value, vni.at, owner());
            switch_id_taken(first, "VNI", vni.value, vni.at, sink);
        }
        if let Some(vlan) = switch.uplink_vlan {
            let first = vlans.claim(vlan.value, vlan.at, owner());
            switch_id_taken(first, "VLAN", vlan.value, vlan.at, sink);
        }
    }
}

fn switch_id_taken(
    first: Option<(Span, String)>,
    kind: &str,
    number: impl Display,
    at: Span,
    sink: &mut Sink,
) {
    if let Some((place, other)) = first {
        let message = format!("{kind} {number} is already taken by {other}");
        let help = format!("give each switch its own {kind}");
        sink.conflict(at, message, &help, (place, format!("{other} has it here")));
    }
}
