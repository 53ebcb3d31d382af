//! Routers of a draft in which nothing is missing: each gets its number, its MAC, and the keys of its
//! interfaces.

use std::net::IpAddr;

use overlane_wire::PortKey;

use crate::decode::{GatewayDraft, InterfaceDraft, NatDraft, RouteDraft, RouterDraft, SwitchIds};
use crate::fabric::{GatewayHost, Interface, Router, StaticRoute};
use crate::keys;
use crate::names::Name;
use crate::tables::{NatRule, RouterId};

/// `key` knows the key of an interface by what [`keys::interface`] calls it, `switches` their numbers.
pub(super) fn routers(
    drafts: &[RouterDraft<'_>],
    switches: &SwitchIds<'_>,
    key: impl Fn(&str) -> Option<PortKey>,
) -> Option<Vec<Router>> {
    let mut sorted: Vec<&RouterDraft<'_>> = drafts.iter().collect();
    sorted.sort_unstable_by_key(|draft| draft.name.text);
    let ids = keys::routers(sorted.iter().map(|draft| draft.name.text));
    if ids.len() < sorted.len() {
        return None;
    }
    let routers = sorted.into_iter().zip(ids);
    routers
        .map(|(draft, id)| router(draft, id, switches, &key))
        .collect()
}

fn router(
    draft: &RouterDraft<'_>,
    id: RouterId,
    switches: &SwitchIds<'_>,
    key: &impl Fn(&str) -> Option<PortKey>,
) -> Option<Router> {
    let interfaces = draft.interfaces.iter().map(|interface_draft| {
        let name = keys::interface(draft.name.text, interface_draft.switch.text);
        interface(interface_draft, key(&name)?)
    });
    let mut interfaces = interfaces.collect::<Option<Vec<_>>>()?;
    interfaces.sort_by(|a, b| a.switch.cmp(&b.switch));
    let routes = draft.routes.iter().map(route);
    let mut routes = routes.collect::<Option<Vec<_>>>()?;
    routes.sort_by_key(|route| route.to);
    let gateway = match &draft.gateway {
        None => None,
        Some(draft) => Some(gateway(draft)?),
    };
    Some(Router {
        name: draft.name.name.clone()?,
        id,
        mac: match draft.mac {
            Some(mac) => mac.value,
            None => draft.derived_mac(switches)?,
        },
        interfaces,
        routes,
        reverse_path: draft.reverse_path,
        mss_clamp: draft.mss_clamp,
        gateway,
        line: draft.name.at.line,
    })
}

fn interface(draft: &InterfaceDraft<'_>, key: PortKey) -> Option<Interface> {
    Some(Interface {
        switch: draft.switch.name.clone()?,
        key,
        addresses: draft.addresses.iter().map(|at| at.value).collect(),
        line: draft.switch.at.line,
    })
}

fn route(draft: &RouteDraft) -> Option<StaticRoute> {
    let mut via: Vec<IpAddr> = draft.via.iter().map(|at| at.value).collect();
    via.sort();
    Some(StaticRoute {
        to: draft.to?.value,
        via,
        line: draft.at.line,
    })
}

fn gateway(draft: &GatewayDraft<'_>) -> Option<GatewayHost> {
    let nat = |draft: &NatDraft| {
        Some(NatRule {
            kind: draft.kind.clone()?,
            line: draft.at.line,
        })
    };
    Some(GatewayHost {
        host: Name::new(draft.host?.value).ok()?,
        device: draft.device.as_ref().map(|at| at.value.clone()),
        addresses: draft.addresses.iter().map(|at| at.value).collect(),
        nat: draft.nat.iter().map(nat).collect::<Option<_>>()?,
        untranslated: draft.untranslated,
        connections: draft.connections,
        timeouts: draft.timeouts.whole(),
        line: draft.at.line,
    })
}
