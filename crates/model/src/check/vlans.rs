//! VLAN tags of guests beside the tags that Overlane writes itself.

use std::collections::HashMap;

use super::quoted;
use crate::decode::{Draft, PortDraft, TagDraft};
use crate::diagnostic::{Sink, Span};
use crate::fabric::GuestVlan;
use crate::record::NameDraft;
use crate::render::printable;
use crate::scalar::Spanned;
use crate::tables::VlanId;

/// A frame has room for one tag: the guest's own in a transparent switch, or the one that names a trunk
/// port or the switch's VLAN on the uplink. So a transparent switch has its devices to itself.
pub(super) fn guest_vlans(draft: &Draft<'_>, sink: &mut Sink) {
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
