//! The values of a fabric file looked at together: references that lead nowhere, and two things that
//! claim what only one can have. Comes after [`decode`](crate::decode); a draft without mistakes
//! becomes the [`Fabric`].
//!
//! Of two conflicting places the later one in the file is pointed at, and the earlier one named.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;
use std::net::IpAddr;

use crate::build;
use crate::decode::{Draft, HostDraft, PortDraft, SwitchDraft, TagDraft, TunnelDraft};
use crate::diagnostic::{Sink, Span};
use crate::fabric::{Fabric, GuestVlan};
use crate::keys;
use crate::record::NameDraft;
use crate::render::{listed, printable};
use crate::scalar::Spanned;
use crate::tables::VlanId;

/// Reports everything that does not fit together; the fabric, if all of it was there.
pub(crate) fn fabric(draft: &Draft<'_>, sink: &mut Sink) -> Option<Fabric> {
    underlays(draft, sink);
    switch_ids(&draft.switches, sink);
    guest_vlans(draft, sink);
    references(draft, sink);
    devices(draft, sink);
    members(&draft.ports, sink);
    switch_sizes(draft, sink);
    if !sink.is_empty() {
        return None;
    }
    build::fabric(draft)
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

/// A frame has room for one tag: the guest's own in a transparent switch, or the one that names a trunk
/// port or the switch's VLAN on the uplink. So a transparent switch has its devices to itself.
fn guest_vlans(draft: &Draft<'_>, sink: &mut Sink) {
    let mut transparent: HashMap<&str, Span> = HashMap::new();
    for switch in &draft.switches {
        let Some(setting) = switch.guest_vlan else {
            continue;
        };
        if setting.value != GuestVlan::Transparent {
            continue;
        }
        transparent.insert(switch.name.text, setting.at);
        if let Some(vlan) = switch.uplink_vlan {
            let owner = quoted("switch", &switch.name);
            let message = format!("{owner} is on a VLAN and cannot carry the guests' tags as well");
            let help = "carry tags of guests in a switch with a `vni`, or remove `vlan`";
            let places = [
                (vlan.at, "it is on a VLAN here"),
                (setting.at, "it is transparent here"),
            ];
            sink.disagreement(places, message, help);
        }
    }
    for port in &draft.ports {
        let (TagDraft::Vlan(tag), Some(switch)) = (port.tag, port.switch) else {
            continue;
        };
        if let Some(&setting) = transparent.get(switch.value) {
            let switch = printable(switch.value);
            let message = format!(
                "{} is a tag on its device, but switch `{switch}` carries tags of guests",
                quoted("port", &port.name)
            );
            let help = "remove the port's `vlan`, or `vlan: transparent` from the switch";
            let said = format!("switch `{switch}` is transparent here");
            let places = [(tag.at, "the port's tag is here"), (setting, &said)];
            sink.disagreement(places, message, help);
        }
    }
    beside_trunks(&draft.ports, &transparent, sink);
}

/// An untagged port of a transparent switch takes every tag on its device for the guest's. Where a trunk
/// shares the device, frames that leave by the port with the trunk's tag would arrive in the trunk's
/// network, and what the guest sends with that tag would never reach its own.
fn beside_trunks(ports: &[PortDraft<'_>], transparent: &HashMap<&str, Span>, sink: &mut Sink) {
    let is_transparent = |port: &PortDraft<'_>| {
        (port.switch).is_some_and(|switch| transparent.contains_key(switch.value))
    };
    // The first trunk of each device; those of transparent switches have been reported.
    let mut trunks: HashMap<(&str, &str), (&NameDraft<'_>, Spanned<VlanId>)> = HashMap::new();
    for port in ports.iter().filter(|port| !is_transparent(port)) {
        let (TagDraft::Vlan(tag), Some(host), Some(device)) = (port.tag, port.host, &port.device)
        else {
            continue;
        };
        let device = (host.value, device.value.as_str());
        trunks.entry(device).or_insert((&port.name, tag));
    }
    for port in ports.iter().filter(|port| is_transparent(port)) {
        let (TagDraft::None, Some(host), Some(device)) = (port.tag, port.host, &port.device) else {
            continue;
        };
        let Some((trunk, tag)) = trunks.get(&(host.value, device.value.as_str())) else {
            continue;
        };
        let (owner, trunk) = (quoted("port", &port.name), quoted("port", trunk));
        let message = format!(
            "{owner} carries tags of guests on device `{}`, on which {trunk} is tag {}",
            printable(device.value.as_str()),
            tag.value
        );
        let help = "give the port of the transparent switch a device of its own";
        let said = [
            format!("{owner} has the device here"),
            format!("{trunk} has its tag here"),
        ];
        let places = [(device.at, said[0].as_str()), (tag.at, said[1].as_str())];
        sink.disagreement(places, message, help);
    }
}

/// Hosts and switches that ports name. A name whose declaration has mistakes still counts as known.
fn references(draft: &Draft<'_>, sink: &mut Sink) {
    let hosts: Vec<&str> = draft.hosts.iter().map(|host| host.name.text).collect();
    let switches: Vec<&str> = draft
        .switches
        .iter()
        .map(|switch| switch.name.text)
        .collect();
    let known_hosts: HashSet<&str> = hosts.iter().copied().collect();
    let known_switches: HashSet<&str> = switches.iter().copied().collect();
    for port in &draft.ports {
        for (kind, plural, wanted, names, known) in [
            (
                "switch",
                "switches",
                port.switch,
                &switches,
                &known_switches,
            ),
            ("host", "hosts", port.host, &hosts, &known_hosts),
        ] {
            let Some(wanted) = wanted.filter(|wanted| !known.contains(wanted.value)) else {
                continue;
            };
            let shown = printable(wanted.value);
            let message = format!("there is no {kind} `{shown}`");
            let help = sink.suggest(wanted.value, names.iter().copied(), || {
                Some(if names.is_empty() {
                    format!("declare it under `{plural}`")
                } else {
                    format!(
                        "the {plural} are: {}",
                        printable(&listed(names.iter().copied()))
                    )
                })
            });
            sink.report(wanted.at, message, help);
        }
    }
}

/// One use of a device: by a port with this tag, or untagged; or by a host as its uplink.
struct Use<'d> {
    /// Of the tag, if there is one, else as `device_at`.
    at: Span,
    device_at: Span,
    host: &'d str,
    device: &'d str,
    owner: String,
    /// `None`: the uplink, all of it.
    tag: Option<Option<VlanId>>,
}

/// A device is the uplink, or one port for each tag and one without.
fn devices(draft: &Draft<'_>, sink: &mut Sink) {
    let mut uses: Vec<Use<'_>> = draft
        .hosts
        .iter()
        .filter_map(uplink_use)
        .chain(draft.ports.iter().filter_map(port_use))
        .collect();
    uses.sort_by_key(|one| one.at);
    let mut uplinks = Claims::new();
    let mut ports = Claims::new();
    // The first port of each device: what an uplink that comes later conflicts with.
    let mut firsts = Claims::new();
    for one in uses {
        let device = (one.host, one.device);
        let owner = || one.owner.clone();
        match one.tag {
            None => {
                uplinks.claim(device, one.at, owner());
                in_use(&one, firsts.get(&device), sink);
            }
            Some(tag) => {
                firsts.claim(device, one.at, owner());
                let same = ports.claim((device, tag), one.at, owner());
                match uplinks.get(&device) {
                    None => in_use(&one, same, sink),
                    uplink => in_use(&Use { tag: None, ..one }, uplink, sink),
                }
            }
        }
    }
}

/// Reports a use of what is in use already. One of the two is the uplink when this has no tag to name.
fn in_use(one: &Use<'_>, first: Option<(Span, String)>, sink: &mut Sink) {
    let Some((place, other)) = first else { return };
    let (device, host) = (printable(one.device), printable(one.host));
    let (at, what) = match one.tag.flatten() {
        Some(tag) => (one.at, format!("tag {tag} of device `{device}`")),
        None => (one.device_at, format!("device `{device}`")),
    };
    let help = match one.tag {
        Some(_) => "give each port a device of its own, or a tag of its own (`vlan`) on it",
        None => {
            "give each port a device of its own; a switch reaches a VLAN of the uplink by `uplink_vlan`"
        }
    };
    let message = format!("{what} on host `{host}` is already {other}");
    sink.conflict(at, message, help, (place, "first used here".into()));
}

fn uplink_use<'d>(host: &'d HostDraft<'_>) -> Option<Use<'d>> {
    let uplink = host.uplink.as_ref()?;
    Some(Use {
        at: uplink.at,
        device_at: uplink.at,
        host: host.name.text,
        device: uplink.value.as_str(),
        owner: format!("the uplink of {}", quoted("host", &host.name)),
        tag: None,
    })
}

fn port_use<'d>(port: &'d PortDraft<'_>) -> Option<Use<'d>> {
    let device = port.device.as_ref()?;
    let (at, tag) = match port.tag {
        TagDraft::None => (device.at, None),
        TagDraft::Vlan(tag) => (tag.at, Some(tag.value)),
        TagDraft::Wrong => return None,
    };
    Some(Use {
        at,
        device_at: device.at,
        host: port.host?.value,
        device: device.value.as_str(),
        owner: quoted("port", &port.name),
        tag: Some(tag),
    })
}

/// What only one port of a switch can have: MAC, address, key.
fn members(ports: &[PortDraft<'_>], sink: &mut Sink) {
    let mut macs = Claims::new();
    let mut addresses = Claims::new();
    let mut keys = Claims::new();
    for port in ports {
        let Some(switch) = port.switch else { continue };
        let switch = switch.value;
        let owner = || quoted("port", &port.name);
        if let Some(mac) = port.mac {
            let first = macs.claim((switch, mac.value), mac.at, owner());
            taken(first, &format!("MAC {}", mac.value), switch, mac.at, sink);
        }
        for address in &port.addresses {
            let first = addresses.claim((switch, address.value), address.at, owner());
            taken(first, &address.value.to_string(), switch, address.at, sink);
        }
        if let Some(key) = port.key {
            let first = keys.claim((switch, key.value), key.at, owner());
            taken(first, &format!("key {}", key.value), switch, key.at, sink);
        }
    }
}

fn taken(first: Option<(Span, String)>, what: &str, switch: &str, at: Span, sink: &mut Sink) {
    if let Some((place, other)) = first {
        let switch = printable(switch);
        let message = format!("{what} is already taken by {other} in switch `{switch}`");
        let help = "it must be unique within the switch";
        sink.conflict(at, message, help, (place, format!("{other} has it here")));
    }
}

fn switch_sizes(draft: &Draft<'_>, sink: &mut Sink) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for switch in draft.ports.iter().filter_map(|port| port.switch) {
        *sizes.entry(switch.value).or_default() += 1;
    }
    for switch in &draft.switches {
        let size = sizes.get(switch.name.text).copied().unwrap_or_default();
        if size > keys::KEYS {
            let message = format!("{} has {size} ports", quoted("switch", &switch.name));
            let help = format!("a switch can have {} ports: split it", keys::KEYS);
            sink.report(switch.name.at, message, Some(help));
        }
    }
}
