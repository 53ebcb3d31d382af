//! Looks at this machine as one host of the fabric. What cannot be looked at is said, and is no error: the rest is
//! worth knowing all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use overlane_ebpf::{counters, path_mtus, preflight};
use overlane_model::{Fabric, Host, Verdict};
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, Netlink};

use super::facts::{
    BelowFacts, DeviceFacts, HostFacts, LegFacts, Missing, PathMtuFacts, PortFacts, RouteFacts,
    UPLINK,
};
use crate::kinds::{inside, own_devices};
use crate::lib::clock::Clock;
use crate::state::State;
use crate::{HostError, observe};

/// What there is of a host of the fabric in a namespace; without its name, where the host is applied, or else where
/// this process is.
pub fn facts(fabric: &Fabric, host: &Host, netns: Option<&str>) -> Result<HostFacts, HostError> {
    let mut facts = HostFacts {
        host: host.name.to_string(),
        netns: netns.map(str::to_owned),
        ..HostFacts::default()
    };
    let state = match State::read(host.name.as_str()) {
        Ok(state) => state,
        Err(error) => {
            facts.misses(
                "what `apply` found, and what the data path has seen",
                &error,
            );
            None
        }
    };
    facts.applied_uplink = state.as_ref().map(|state| state.tables.uplink.to_string());
    if let Some(netns) = namespace(state.as_ref(), netns, &mut facts)? {
        let look = || -> Result<HostFacts, HostError> {
            let mut facts = facts.clone();
            devices(fabric, host, state.as_ref(), &Netlink::new()?, &mut facts)?;
            Ok(facts)
        };
        match netns.run(look).map_err(HostError::from).flatten() {
            Ok(found) => facts = found,
            Err(error) => facts.misses("devices and routes", &error),
        }
    }
    match &state {
        Some(state) => {
            if let Err(error) = seen(fabric, host, state, &mut facts) {
                facts.misses("what the data path has seen", &error);
            }
        }
        None if facts.missing.is_empty() => facts.missing.push(Missing {
            what: "what the data path has seen".to_owned(),
            why: format!("host {} is not applied on this machine", host.name),
        }),
        None => {}
    }
    Ok(facts)
}

impl HostFacts {
    fn misses(&mut self, what: &str, error: &HostError) {
        let help = error.help().map(|help| format!(" ({help})"));
        let mut why = error.to_string();
        let mut behind = error.source();
        while let Some(cause) = behind {
            let cause_text = cause.to_string();
            if !why.contains(&cause_text) {
                why = format!("{why}: {cause_text}");
            }
            behind = cause.source();
        }
        self.missing.push(Missing {
            what: what.to_owned(),
            why: why + &help.unwrap_or_default(),
        });
    }
}

/// Where to look for devices.
fn namespace(
    state: Option<&State>,
    named: Option<&str>,
    facts: &mut HostFacts,
) -> Result<Option<Netns>, HostError> {
    match (named, state) {
        (Some(name), _) if !netns::exists(name) => Err(HostError::NoNamespace(name.to_owned())),
        (Some(name), _) => Ok(Some(Netns::open(name)?)),
        (None, Some(state)) => {
            facts.netns.clone_from(&state.netns);
            let found = state.namespace()?;
            if found.is_none() {
                let why = match preflight::check_rights() {
                    Ok(()) => "the namespace in which the host was applied is gone".to_owned(),
                    Err(_) => "only root can look into the namespace of the host".to_owned(),
                };
                let what = "devices and routes".to_owned();
                facts.missing.push(Missing { what, why });
            }
            Ok(found)
        }
        (None, None) => Ok(Some(Netns::current()?)),
    }
}

/// From a thread in the host's namespace.
fn devices(
    fabric: &Fabric,
    host: &Host,
    state: Option<&State>,
    netlink: &Netlink,
    facts: &mut HostFacts,
) -> Result<(), HostError> {
    let links = netlink.links()?;
    let find = |name: &str| links.iter().find(|link| link.name == name);
    let device = |link: &Link| device(link, netlink, state);
    let lacks = |name: &str, used_as: String| Missing {
        what: used_as,
        why: match links.iter().find(|link| link.has_altname(name)) {
            Some(link) => format!("{name} is another name of device {0}: write {0}", link.name),
            None => format!("no such device: {name}"),
        },
    };
    let ports = fabric.ports().values().filter(|it| it.host == host.name);
    let mut of_ports = BTreeSet::new();
    for port in ports {
        let name = port.attachment.device.as_str();
        of_ports.insert(name);
        match find(name) {
            Some(link) => facts.ports.push(PortFacts {
                port: port.name.to_string(),
                device: device(link),
                ..PortFacts::default()
            }),
            None => {
                let used_as = format!("port {}", port.name);
                facts.missing.push(lacks(name, used_as));
            }
        }
    }
    for router in fabric.routers().values() {
        let leg = router.leg().filter(|(on, _)| **on == host.name);
        let Some((_, name)) = leg else {
            continue;
        };
        match find(name.as_str()) {
            Some(link) => facts.legs.push(LegFacts {
                router: router.name.to_string(),
                device: device(link),
            }),
            None => {
                let used_as = format!("the leg of router {}", router.name);
                facts.missing.push(lacks(name.as_str(), used_as));
            }
        }
    }
    match find(host.uplink.as_str()) {
        Some(link) => {
            facts.uplink = Some(device(link));
            facts.below = below(link, &links, &of_ports);
        }
        None => {
            let used_as = UPLINK.to_owned();
            facts.missing.push(lacks(host.uplink.as_str(), used_as));
        }
    }
    let others = fabric.hosts().values().filter(|it| it.name != host.name);
    facts.routes = others.map(|it| route(it, netlink, &links)).collect();
    let helpers = own_devices::find(&links).into_values();
    let inside = inside::inside(&facts.host).unwrap_or_default();
    facts.helpers = helpers
        .filter(|link| link.kind.as_deref() == Some("veth"))
        .chain(inside)
        .map(|link| DeviceFacts {
            device: link.name,
            mtu: link.mtu,
            ..DeviceFacts::default()
        })
        .collect();
    Ok(())
}

fn device(link: &Link, netlink: &Netlink, state: Option<&State>) -> DeviceFacts {
    let at_apply = state.and_then(|state| state.devices.get(&link.name));
    let at_apply = at_apply.filter(|before| before.ifindex == link.index);
    // Who may not look there does not see it.
    let peer = netlink.peer_of(link).ok().flatten();
    DeviceFacts {
        device: link.name.clone(),
        mtu: link.mtu,
        peer_mtu: peer.map(|peer| peer.mtu),
        mtu_at_apply: at_apply.map(|before| before.mtu),
    }
}

/// What lies below a device, without what leads to guests.
fn below(uplink: &Link, links: &[Link], of_ports: &BTreeSet<&str>) -> Vec<BelowFacts> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([uplink.index]);
    let mut open = vec![uplink];
    while let Some(above) = open.pop() {
        let is_below =
            |link: &&Link| Some(link.index) == above.lower || link.master == Some(above.index);
        for link in links.iter().filter(is_below) {
            if of_ports.contains(link.name.as_str()) || !seen.insert(link.index) {
                continue;
            }
            found.push(BelowFacts {
                device: link.name.clone(),
                mtu: link.mtu,
                above: above.name.clone(),
                kind: above.kind.clone().unwrap_or_else(|| "device".into()),
            });
            open.push(link);
        }
    }
    found
}

fn route(remote: &Host, netlink: &Netlink, links: &[Link]) -> RouteFacts {
    let route = netlink.route_to(remote.underlay, None).ok();
    let by = route.and_then(|route| links.iter().find(|link| link.index == route.oif));
    RouteFacts {
        remote: remote.name.to_string(),
        device: by.map(|link| link.name.clone()),
        mtu: route.and_then(|route| route.mtu),
        learned: route.is_some_and(|route| route.mtu_learned),
    }
}

/// What the data path has counted, and been told.
fn seen(
    fabric: &Fabric,
    host: &Host,
    state: &State,
    facts: &mut HostFacts,
) -> Result<(), HostError> {
    let maps = observe::maps(state)?;
    let read = counters::read(&maps)?;
    let too_big = read.verdicts.iter();
    let too_big = too_big.filter(|(_, verdict, _)| *verdict == Verdict::PktTooBig);
    facts.pkt_too_big = Some(too_big.map(|(_, _, count)| count.packets).sum());
    for port in &mut facts.ports {
        let Some(declared) = fabric.ports().get(port.port.as_str()) else {
            continue;
        };
        let switch = fabric.switches().get(&declared.switch);
        let number = switch.map_or(0, |switch| switch.id.number());
        let key = (number, declared.key.get().into());
        if let Some(counted) = read.ports.get(&key) {
            let counted = counted.value;
            port.longest = Some(counted.longest);
            port.longest_segment = Some(counted.longest_segment);
            port.untold = Some(counted.untold.packets);
        }
    }
    let now_s = Clock::now()?.monotonic_ns / 1_000_000_000;
    let now_s = u32::try_from(now_s).unwrap_or(u32::MAX);
    let known = path_mtus::all(&maps)?;
    let others = fabric.hosts().values().filter(|it| it.name != host.name);
    let names: BTreeMap<_, _> = others.map(|it| (it.underlay, &it.name)).collect();
    for (address, path) in known {
        let (Some(name), true) = (names.get(&address), now_s < path.until) else {
            continue;
        };
        let hop: std::net::IpAddr = path.hop.into();
        facts.path_mtus.push(PathMtuFacts {
            remote: name.to_string(),
            mtu: path.mtu,
            hop: (!hop.is_unspecified()).then_some(hop),
            seconds_left: path.until - now_s,
        });
    }
    Ok(())
}
