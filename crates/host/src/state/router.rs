//! What the kernel cannot tell of routers: names, and which device is whose leg.

use overlane_model::RouterTable;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RouterState {
    pub(crate) name: String,
    /// `RouterId::get`.
    pub(crate) id: u32,
    pub(crate) mac: String,
    /// Its acting host.
    pub(crate) gateway: Option<String>,
    /// The gateway's device in the physical network, when it is on this host.
    pub(crate) leg: Option<String>,
    /// Of all that the router is, to tell whether it changed.
    pub(crate) digest: String,
}

impl RouterState {
    pub(super) fn of(router: &RouterTable) -> Self {
        let gateway = router.gateway.as_ref();
        Self {
            name: router.name.to_string(),
            id: router.id.get(),
            mac: router.mac.to_string(),
            gateway: gateway.map(|gateway| gateway.host.to_string()),
            leg: router.leg().map(ToString::to_string),
            digest: super::digest(&without_lines(router)),
        }
    }
}

/// Where something stands in the file makes no other router.
fn without_lines(router: &RouterTable) -> RouterTable {
    let mut router = router.clone();
    for route in &mut router.routes {
        route.line = 0;
    }
    for rule in router
        .gateway
        .iter_mut()
        .flat_map(|gateway| &mut gateway.nat)
    {
        rule.line = 0;
    }
    router
}
