//! Which settings the laboratory has no topology for, and why.

use super::layout;
use crate::record::{BackendName, Encapsulation, FarEnd, GuestKind, Setting};

/// Why no topology of this setting can be built, whatever the backend.
pub(crate) fn impossible(backend: BackendName, setting: &Setting) -> Option<String> {
    let limit = |what: &str, value: u32, most: u32| {
        (value == 0 || value > most)
            .then(|| format!("{value} {what}: the laboratory has 1 to {most}"))
    };
    let tester = setting.far_end == FarEnd::Tester;
    let vlan = backend.encapsulation() == Encapsulation::Vlan;
    limit("hosts", setting.hosts, layout::MAX_HOSTS)
        .or_else(|| limit("pairs", setting.pairs, layout::MAX_PAIRS))
        .or_else(|| limit("VNIs", setting.vnis, layout::MAX_NETWORKS))
        .or_else(|| {
            (tester && setting.pairs > 1)
                .then(|| "a bare tester is one guest: it takes a single pair".to_owned())
        })
        .or_else(|| {
            let networks = layout::networks(setting);
            (vlan && networks > layout::VLANS)
                .then(|| format!("{networks} networks: 802.1Q has {} VLANs", layout::VLANS))
        })
        .or_else(|| {
            let cut = backend == BackendName::Direct && !setting.offload;
            (cut && setting.guests == GuestKind::Tap).then(|| {
                "direct: the cable between two virtual machines is a relay, and no wire that segments: it has wire \
                 offload on alone"
                    .to_owned()
            })
        })
        .or_else(|| {
            impossible_feature(setting)
                .map(|reason| format!("{}: {reason}", setting.feature.words()))
        })
}

/// Why the laboratory has no topology for a feature in this setting.
pub(crate) fn impossible_feature(setting: &Setting) -> Option<&'static str> {
    let feature = setting.feature;
    let refuse = |because: bool, reason| because.then_some(reason);
    refuse(
        feature.is_service() && setting.far_end == FarEnd::Tester,
        "a bare tester is in no network of the switch: there is nothing to route to, and no port that admits",
    )
    .or_else(|| {
        let reason = "a guest with trunk ports has one address in all its networks, and no router between them";
        refuse(feature.is_routed() && setting.is_trunk(), reason)
    })
    .or_else(|| {
        let reason = "the receiving guest is a physical host at the gateway's one leg: it takes a single pair";
        refuse(feature.has_gateway() && setting.pairs > 1, reason)
    })
    .or_else(|| {
        let reason = "the second host is the gateway: it takes two hosts";
        refuse(feature.has_gateway() && setting.hosts != 2, reason)
    })
}
