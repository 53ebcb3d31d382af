//! Devices of the hosts: each is an uplink, a gateway's leg, or has ports.

use std::collections::BTreeMap;

use super::{Claims, quoted};
use crate::decode::{Draft, HostDraft, PortDraft, RouterDraft, TagDraft};
use crate::diagnostic::{Sink, Span};
use crate::render::printable;
use crate::tables::VlanId;

/// One use of a device.
struct Use<'d> {
    /// Of the tag, if there is one, else as `device_at`.
    at: Span,
    device_at: Span,
    host: &'d str,
    device: &'d str,
    owner: String,
    how: How,
}

/// What a device is used as.
#[derive(Clone, Copy)]
enum How {
    /// All of it, by a host.
    Uplink,
    /// All of it, by a router.
    Leg,
    /// By a port with this tag, or untagged.
    Port(Option<VlanId>),
}

/// A device is the uplink, a leg, or one port for each tag and one without.
pub(super) fn devices(draft: &Draft<'_>, sink: &mut Sink) {
    netns(draft, sink);
    let uplinks = draft.hosts.iter().filter_map(uplink_use);
    let legs = draft.routers.iter().filter_map(leg_use);
    let ports = draft.ports.iter().filter_map(port_use);
    let mut uses: Vec<Use<'_>> = uplinks.chain(legs).chain(ports).collect();
    uses.sort_by_key(|one| one.at);
    // Who has all of a device.
    let mut wholes = Claims::new();
    let mut ports = Claims::new();
    // The first port of each device: what an uplink or leg that comes later conflicts with.
    let mut firsts = Claims::new();
    for one in uses {
        let device = (one.host, one.device);
        let owner = || one.owner.clone();
        match one.how {
            How::Uplink | How::Leg => {
                let whole = wholes.claim(device, one.at, owner());
                let first = whole.or_else(|| firsts.get(&device));
                in_use(&one, None, first, sink);
            }
            How::Port(tag) => {
                firsts.claim(device, one.at, owner());
                let same = ports.claim((device, tag), one.at, owner());
                match wholes.get(&device) {
                    None => in_use(&one, tag, same, sink),
                    whole => in_use(&one, None, whole, sink),
                }
            }
        }
    }
}

/// Ports on one device agree where it comes from. One that does not say so goes by the others.
fn netns(draft: &Draft<'_>, sink: &mut Sink) {
    let mut firsts = BTreeMap::new();
    for port in &draft.ports {
        let (Some(host), Some(device), Some(netns)) = (&port.host, &port.device, &port.netns)
        else {
            continue;
        };
        let device = (host.value, device.value.as_str());
        let (first, other) = *firsts.entry(device).or_insert((netns, &port.name));
        if first.value != netns.value {
            let message = format!(
                "device `{}` comes from network namespace {} here, and from {} for {}",
                printable(device.1),
                printable(&netns.value.to_string()),
                printable(&first.value.to_string()),
                quoted("port", other)
            );
            let help = "ports on one device (`vlan`) name the same network namespace";
            let place = (first.at, format!("{} says so here", quoted("port", other)));
            sink.conflict(netns.at, message, help, place);
        }
    }
}

/// Reports a use of what is in use already: a tag of the device, or all of it.
fn in_use(one: &Use<'_>, tag: Option<VlanId>, first: Option<(Span, String)>, sink: &mut Sink) {
    let Some((place, other)) = first else { return };
    let (device, host) = (printable(one.device), printable(one.host));
    let (at, what) = match tag {
        Some(tag) => (one.at, format!("tag {tag} of device `{device}`")),
        None => (one.device_at, format!("device `{device}`")),
    };
    let whole = other.starts_with(UPLINK) || matches!(one.how, How::Uplink);
    let help = if matches!(one.how, How::Leg) || other.starts_with(LEG) {
        "a leg needs a device of its own, for example a VLAN device (`ip link add … type vlan`) on another"
    } else if whole {
        "give each port a device of its own; a switch reaches a VLAN of the uplink by `uplink_vlan`"
    } else {
        "give each port a device of its own, or a tag of its own (`vlan`) on it"
    };
    let message = format!("{what} on host `{host}` is already {other}");
    sink.conflict(at, message, help, (place, "first used here".into()));
}

/// How their owners begin.
const UPLINK: &str = "the uplink of ";
const LEG: &str = "the leg of ";

fn uplink_use<'d>(host: &'d HostDraft<'_>) -> Option<Use<'d>> {
    let uplink = host.uplink.as_ref()?;
    Some(Use {
        at: uplink.at,
        device_at: uplink.at,
        host: host.name.text,
        device: uplink.value.as_str(),
        owner: format!("{UPLINK}{}", quoted("host", &host.name)),
        how: How::Uplink,
    })
}

fn leg_use<'d>(router: &'d RouterDraft<'_>) -> Option<Use<'d>> {
    let gateway = router.gateway.as_ref()?;
    let device = gateway.device.as_ref()?;
    Some(Use {
        at: device.at,
        device_at: device.at,
        host: gateway.host?.value,
        device: device.value.as_str(),
        owner: format!("{LEG}{}", quoted("router", &router.name)),
        how: How::Leg,
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
        how: How::Port(tag),
    })
}
