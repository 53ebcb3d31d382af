//! A port or a router that may have more connections than its host holds.

use std::collections::HashMap;

use super::quoted;
use crate::decode::Draft;
use crate::diagnostic::Sink;
use crate::scalar::Spanned;

/// Only what the file says of the port or the router itself: what a switch says is for ports of several hosts.
pub(super) fn shares(draft: &Draft<'_>, sink: &mut Sink) {
    let hosts = draft.hosts.iter();
    let sizes: HashMap<&str, Spanned<u32>> = hosts
        .filter_map(|host| Some((host.name.text, host.connections?)))
        .collect();
    let ports = draft.ports.iter().filter_map(|port| {
        let owner = quoted("port", &port.name);
        Some((owner, port.name.at, port.host?, port.limits.connections?))
    });
    let routers = draft.routers.iter().filter_map(|router| {
        let gateway = router.gateway.as_ref()?;
        let owner = quoted("router", &router.name);
        Some((owner, gateway.at, gateway.host?, gateway.connections?))
    });
    for (owner, at, host, share) in ports.chain(routers) {
        let Some(size) = sizes.get(host.value).filter(|size| share > size.value) else {
            continue;
        };
        let size_of_host = format!("host `{}` holds {} connections", host.value, size.value);
        let message = format!("{owner} may have {share} connections, but {size_of_host}");
        let help = format!("write {} or less, or more at the host", size.value);
        sink.conflict(
            at,
            message,
            &help,
            (size.at, format!("{size_of_host} here")),
        );
    }
}
