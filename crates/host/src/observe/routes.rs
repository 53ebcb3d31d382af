//! `show routes`: the routers that this host knows and their routes, as the kernel has them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use overlane_ebpf::abi::router as abi;
use overlane_ebpf::tables::Table;
use overlane_model::RouterTable;
use overlane_net::Netlink;
use serde::Serialize;
use zerocopy::FromBytes;

use super::look::{in_namespace, maps, switch_name};
use super::states::{PortState, device_states, state_at};
use crate::HostError;
use crate::state::State;

/// `show routes`.
#[derive(Debug, Clone, Serialize)]
pub struct Routes {
    /// The host.
    pub host: String,
    /// The routers, by name.
    pub routers: Vec<RouterRow>,
}

/// One router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouterRow {
    /// Its name.
    pub router: String,
    /// Its MAC on every switch.
    pub mac: String,
    /// The host where it meets the physical network.
    pub gateway: Option<String>,
    /// Its device there, when that is this host.
    pub leg: Option<String>,
    /// Whether packets flow at that device.
    pub leg_state: Option<PortState>,
    /// Its routes, by network.
    pub routes: Vec<RouteRow>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteRow {
    /// The network.
    pub to: String,
    /// Where packets to it go.
    #[serde(flatten)]
    pub way: WayRow,
}

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum WayRow {
    /// The router's own address.
    Own,
    /// The network is there.
    Connected {
        /// The logical switch; none: the physical network behind the leg.
        switch: Option<String>,
    },
    /// By one of these, each packet of a flow by the same.
    Via {
        /// At least one.
        next_hops: Vec<NextHopRow>,
    },
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextHopRow {
    /// Its address.
    pub address: IpAddr,
    /// The logical switch where it is; none: the physical network behind the leg.
    pub switch: Option<String>,
}

impl fmt::Display for WayRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |switch: &Option<String>| match switch {
            Some(switch) => format!("switch {switch}"),
            None => "leg".to_owned(),
        };
        match self {
            Self::Own => f.pad("the router itself"),
            Self::Connected { switch } => write!(f, "connected, {}", side(switch)),
            Self::Via { next_hops } => {
                let hop = |hop: &NextHopRow| format!("{} ({})", hop.address, side(&hop.switch));
                let hops: Vec<String> = next_hops.iter().map(hop).collect();
                write!(f, "via {}", hops.join(", "))
            }
        }
    }
}

/// Reads the routes of `host` from the kernel.
pub fn routes(host: &str) -> Result<Routes, HostError> {
    let state = State::applied(host)?;
    let maps = maps(&state)?;
    let next_hops = maps.entries(Table::NextHops)?;
    let next_hops = read::<abi::NextHopKey, abi::NextHop>(&next_hops)
        .map(|(key, hop)| ((key.group, key.number), hop));
    let next_hops: BTreeMap<_, _> = next_hops.collect();
    let mut routes: BTreeMap<u32, Vec<(abi::RouteKey, abi::Route)>> = BTreeMap::new();
    for (key, route) in read::<abi::RouteKey, abi::Route>(&maps.entries(Table::Routes)?) {
        let of = routes.entry(u32::from_be(key.router)).or_default();
        of.push((key, route));
    }
    let look = |netlink: &Netlink| device_states(&state, &netlink.links()?);
    let states = in_namespace(&state, look)?.unwrap_or_default();
    let row = |router: &RouterTable| {
        let leg = router.leg().map(ToString::to_string);
        let mut of = routes.get(&router.id.get()).cloned().unwrap_or_default();
        of.sort_by_key(|(key, _)| (u32::from_be(key.family), key.addr, key.prefixlen));
        RouterRow {
            router: router.name.to_string(),
            mac: router.mac.to_string(),
            gateway: router.gateway.as_ref().map(|it| it.host.to_string()),
            leg_state: leg.as_deref().map(|leg| state_at(&states, leg)),
            leg,
            routes: of
                .iter()
                .map(|(key, route)| route_row(&state, key, route, &next_hops))
                .collect(),
        }
    };
    Ok(Routes {
        host: host.to_owned(),
        routers: state.tables.routers.iter().map(row).collect(),
    })
}

fn read<K: FromBytes, V: FromBytes>(
    entries: &overlane_ebpf::tables::Entries,
) -> impl Iterator<Item = (K, V)> {
    entries.iter().filter_map(|(key, value)| {
        Some((
            K::read_from_bytes(key).ok()?,
            V::read_from_bytes(value).ok()?,
        ))
    })
}

fn route_row(
    state: &State,
    key: &abi::RouteKey,
    route: &abi::Route,
    next_hops: &BTreeMap<(u32, u32), abi::NextHop>,
) -> RouteRow {
    // Router and family stand before the address, and ::ffff:0:0/96 before an IPv4 one.
    let family = u32::from_be(key.family);
    let before = if family == 4 { 64 + 96 } else { 64 };
    let bits = key.prefixlen.saturating_sub(before);
    let switch = |id: u32| {
        (id != abi::SWITCH_ID_LEG)
            .then(|| switch_name(state, id).unwrap_or_else(|| crate::state::switch_words(id)))
    };
    let hop = |number: u32| {
        let hop = next_hops.get(&(route.group, number))?;
        Some(NextHopRow {
            address: hop.addr.of_family(family),
            switch: switch(hop.switch_id),
        })
    };
    RouteRow {
        to: format!("{}/{bits}", key.addr.of_family(family)),
        way: match route.kind {
            abi::ROUTE_OWN => WayRow::Own,
            abi::ROUTE_CONNECTED => WayRow::Connected {
                switch: switch(route.switch_id),
            },
            _ => WayRow::Via {
                next_hops: (0..route.hops).filter_map(hop).collect(),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    fn key(family: u32, prefixlen: u32, addr: &str) -> abi::RouteKey {
        abi::RouteKey {
            prefixlen,
            router: 9u32.to_be(),
            family: family.to_be(),
            addr: addr.parse::<IpAddr>().unwrap().into(),
        }
    }

    #[test]
    fn routes_are_shown_as_they_were_written() {
        let text = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }\n\
            switches: { blue: { vni: 5001 } }\n\
            ports: { p: { switch: blue, host: h1, device: v, mac: '02:00:00:00:00:01' } }\n";
        let fabric = Fabric::parse("f", text).unwrap();
        let state = State::of(&fabric.compile("h1").unwrap());
        let hop = |addr: &str, switch_id| abi::NextHop {
            addr: addr.parse::<IpAddr>().unwrap().into(),
            switch_id,
        };
        let hops = [
            ((3, 0), hop("198.18.1.9", 5001)),
            ((3, 1), hop("198.19.0.1", abi::SWITCH_ID_LEG)),
        ];
        let shown = |key, kind, switch_id| {
            let route = abi::Route {
                kind,
                switch_id,
                group: 3,
                hops: 2,
                ..abi::Route::default()
            };
            let row = route_row(&state, &key, &route, &hops.into());
            format!("{} {}", row.to, row.way)
        };
        assert_eq!(
            shown(key(4, 64 + 96, "0.0.0.0"), abi::ROUTE_VIA, 0),
            "0.0.0.0/0 via 198.18.1.9 (switch blue), 198.19.0.1 (leg)"
        );
        assert_eq!(
            shown(
                key(4, 64 + 96 + 24, "198.18.1.0"),
                abi::ROUTE_CONNECTED,
                5001
            ),
            "198.18.1.0/24 connected, switch blue"
        );
        assert_eq!(
            shown(key(6, 64 + 64, "2001:2::"), abi::ROUTE_CONNECTED, 0),
            "2001:2::/64 connected, leg"
        );
        assert_eq!(
            shown(key(6, 64 + 128, "2001:2::fe"), abi::ROUTE_OWN, 0),
            "2001:2::fe/128 the router itself"
        );
    }
}
