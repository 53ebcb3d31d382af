//! Neighbours that packets to the remotes are handed to: the kernel keeps them resolved. Its table of neighbours holds so
//! many of all namespaces together, and no more. One that it has no room for costs the first packet to it a wait.

use super::switch::{Form, Switch};
use crate::report::{Object, finding};

/// The kind.
pub(super) const NEXT_HOPS: Switch = Switch {
    word: "managed",
    object: Object::NextHop,
    purpose: None,
    wanted: |target| target.resolved.next_hops.clone(),
    form: Form::Entry {
        is_on: |netlink, device, address| {
            let known = netlink.neighbour(device, address)?;
            Ok(known.is_some_and(|known| known.managed))
        },
        set: |netlink, device, address, on| match on {
            true => netlink.manage_neighbour(device, address),
            false => netlink.delete_neighbour(device, address),
        },
        without: Some(finding::not_kept),
    },
};
