//! The unmarker's namespace, and what of ours is in it.

use overlane_net::netns::{self, Netns};
use overlane_net::{Link, NetError, Netlink};

use crate::lib::detour::{is_inside, namespace_of};

/// The unmarker's namespace.
pub(crate) fn open(host: &str) -> Result<Netns, NetError> {
    Netns::open(&namespace_of(host))
}

/// The devices of ours in the unmarker's namespace; none without it.
pub(crate) fn inside(host: &str) -> Result<Vec<Link>, NetError> {
    let name = namespace_of(host);
    if !netns::exists(&name) {
        return Ok(Vec::new());
    }
    let mut links = match Netns::open(&name).and_then(|netns| Netlink::in_netns(&netns)) {
        Ok(netlink) => netlink.links()?,
        // Half made.
        Err(_) => Vec::new(),
    };
    links.retain(|link| is_inside(&link.name));
    Ok(links)
}
