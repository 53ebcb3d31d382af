//! The legs of gateways: devices of this host in the physical network. Found, and looked at.

use std::collections::BTreeMap;

use overlane_ebpf::tables::LegDevice;
use overlane_model::{DeviceName, RouterTable, Tables};
use overlane_net::Netlink;
use overlane_wire::Mac;

use crate::kinds::Links;
use crate::lib::error::{UnfitDevice, UsedAs};
use crate::lib::features::takes_mark;
use crate::report::{Row, finding};

/// The devices that are there; the others are added to `missing`.
pub(crate) fn devices(
    tables: &Tables,
    links: &Links<'_>,
    netlink: &Netlink,
    missing: &mut Vec<UnfitDevice>,
) -> BTreeMap<DeviceName, LegDevice> {
    let mut devices = BTreeMap::new();
    for (router, device) in tables.legs() {
        if let Some(link) = links.get(device.as_str()) {
            let leg = LegDevice {
                ifindex: link.index,
                mac: Mac::new(link.mac),
                mtu: link.mtu,
                takes_no_mark: !takes_mark(link, netlink),
            };
            devices.insert(device.clone(), leg);
        } else {
            missing.push(UnfitDevice {
                device: device.to_string(),
                used_as: UsedAs::Leg,
                by: vec![router.name.to_string()],
            });
        }
    }
    devices
}

/// Legs that are down: packets by them are lost until somebody brings them up.
pub(crate) fn notes(tables: &Tables, links: &Links<'_>) -> Vec<Row> {
    let down = tables.legs().filter(|(_, device)| {
        let link = links.get(device.as_str());
        link.is_some_and(|link| !link.up)
    });
    let note = |(router, device): (&RouterTable, &DeviceName)| {
        finding::leg_down(router.name.as_str(), device.as_str())
    };
    down.map(note).collect()
}
