//! Devices of ports, devices that `apply` made, and legs.

use overlane_model::mtu::IP_MOST;

use super::finding::{Finding, Place, Severity};
use super::underlay::{changed, set_back};
use super::view::View;
use crate::mtu::facts::{HostFacts, LegFacts};

/// Devices that frames pass on their way: `apply` makes them so that the largest super-packet fits.
pub(super) fn helpers(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        for helper in host.helpers.iter().filter(|it| it.mtu < IP_MOST) {
            findings.push(Finding {
                host: Some(host.host.clone()),
                what: helper.device.clone(),
                says: format!(
                    "{}, which `apply` makes with MTU {IP_MOST}, has {}: larger super-packets are lost there",
                    helper.device, helper.mtu
                ),
                remedy: format!("overlane apply FILE --host {} repairs it", host.host),
                ..Finding::new(Place::VirtualSwitch, Severity::Wrong)
            });
        }
    }
}

/// The guest's end sends what the host's end does not take.
pub(super) fn port_devices(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        for port in &host.ports {
            let device = &port.device;
            let Some(peer) = device.peer_mtu.filter(|peer| *peer > device.mtu) else {
                continue;
            };
            findings.push(Finding {
                words: vec![device.device.clone()],
                host: Some(host.host.clone()),
                what: format!("port {}", port.port),
                says: format!(
                    "the guest's end has MTU {peer}, and the host's end, {}, has {}: larger packets of the guest are lost there",
                    device.device, device.mtu
                ),
                remedy: format!(
                    "set the guest's end to {}, or {}",
                    device.mtu,
                    host.set_mtu(&device.device, peer)
                ),
                ..Finding::new(Place::VirtualSwitch, Severity::Wrong)
            });
        }
    }
}

/// Legs of gateways.
pub(super) fn legs(view: &View<'_>, findings: &mut Vec<Finding>) {
    for host in view.hosts.values() {
        for leg in &host.legs {
            findings.extend(other_end(host, leg));
            findings.extend(since_apply(host, leg));
            findings.extend(smaller_than_guests(view, host, leg));
        }
    }
}

fn other_end(host: &HostFacts, leg: &LegFacts) -> Option<Finding> {
    let device = &leg.device;
    let peer = device.peer_mtu.filter(|peer| *peer < device.mtu)?;
    Some(Finding {
        words: vec![device.device.clone()],
        host: Some(host.host.clone()),
        what: format!("router {}", leg.router),
        says: format!(
            "its leg {} has MTU {}, and the other end takes {peer}: larger packets are lost there",
            device.device, device.mtu
        ),
        remedy: format!(
            "{}, then overlane apply FILE --host {}",
            host.set_mtu(&device.device, peer),
            host.host
        ),
        ..Finding::new(Place::Routers, Severity::Wrong)
    })
}

fn since_apply(host: &HostFacts, leg: &LegFacts) -> Option<Finding> {
    let device = &leg.device;
    let before = device.mtu_at_apply.filter(|mtu| *mtu != device.mtu)?;
    let (severity, so) = changed(device.mtu, before);
    Some(Finding {
        words: vec![device.device.clone()],
        host: Some(host.host.clone()),
        what: format!("router {}", leg.router),
        says: format!(
            "its leg {} has MTU {}, and had {before} when the fabric was applied: {so}",
            device.device, device.mtu
        ),
        remedy: set_back(host, device, before),
        ..Finding::new(Place::Routers, severity)
    })
}

/// The router tells each sender, so nothing but time is lost.
fn smaller_than_guests(view: &View<'_>, host: &HostFacts, leg: &LegFacts) -> Option<Finding> {
    let router = view.fabric.routers().get(leg.router.as_str())?;
    let interfaces = router.interfaces.iter();
    let rooms = interfaces.filter_map(|it| {
        let (room, fits) = view.room(it.switch.as_str())?;
        // What guests have where it is known, else what they may have.
        let set = view.guest_mtus(it.switch.as_str()).max().unwrap_or(fits);
        Some((&room.switch, set.min(fits)))
    });
    let (switch, guests) = rooms.max_by_key(|(_, mtu)| *mtu)?;
    let mtu = leg.device.mtu;
    (guests > mtu && !router.mss_clamp).then(|| Finding {
        words: vec![leg.device.device.clone()],
        host: Some(host.host.clone()),
        what: format!("router {}", leg.router),
        says: format!(
            "its leg {} has MTU {mtu}, and guests of {switch} have {guests}: the router tells each sender, which then sends again",
            leg.device.device
        ),
        remedy: format!(
            "`mss_clamp: true` at router {} spares TCP that; or raise the leg to {guests}, if its network carries it",
            leg.router
        ),
        ..Finding::new(Place::Routers, Severity::Wasteful)
    })
}
