//! Neighbours that packets to the remotes are handed to: the kernel keeps them resolved.

use super::switch::Switch;
use crate::report::Object;

/// The kind.
pub(super) const NEXT_HOPS: Switch = Switch {
    word: "managed",
    object: Object::NextHop,
    wanted: |target| target.resolved.next_hops.clone(),
    is_on: |netlink, spot| match spot.address {
        Some(address) => {
            let known = netlink.neighbour(&spot.device, address)?;
            Ok(known.is_some_and(|known| known.managed))
        }
        None => Ok(false),
    },
    set: |netlink, spot, on| match (spot.address, on) {
        (Some(address), true) => netlink.manage_neighbour(&spot.device, address),
        (Some(address), false) => netlink.delete_neighbour(&spot.device, address),
        (None, _) => Ok(()),
    },
    without: None,
};
