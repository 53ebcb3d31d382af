//! What a device says that it can do.

use overlane_net::{Link, Netlink, ethtool};

/// Whether a device takes super-packets that the kernel has marked as a tunnel's. What it does not say it does not.
/// Nobody knows what is behind a bridge that a veth leads to: a TAP, it may be.
pub(crate) fn takes_mark(link: &Link, netlink: &Netlink) -> bool {
    let peer = || netlink.peer_of(link).ok().flatten();
    has_feature(link, "tx-udp_tnl-segmentation") && peer().is_none_or(|peer| peer.master.is_none())
}

/// Whether a device says that a feature is on.
pub(crate) fn has_feature(link: &Link, name: &str) -> bool {
    let features = ethtool::features(&link.name).unwrap_or_default();
    features.get(name).copied().unwrap_or_default()
}
