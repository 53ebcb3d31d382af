//! The legs of gateways: devices of this host in the physical network. Found, and looked at.

use std::collections::BTreeMap;

use overlane_ebpf::tables::LegDevice;
use overlane_model::{DeviceName, Tables};
use overlane_net::Netlink;
use overlane_wire::Mac;

use crate::kinds::Links;
use crate::lib::error::{UnfitDevice, UsedAs};
use crate::lib::features::takes_mark;

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
                elsewhere: None,
                device: device.to_string(),
                used_as: UsedAs::Leg,
                by: vec![router.name.to_string()],
            });
        }
    }
    devices
}
