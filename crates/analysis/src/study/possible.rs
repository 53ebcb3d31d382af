//! Which settings the laboratory has no topology for, and why.

use super::limits;
use crate::record::{BackendName, Encapsulation, Family, FarEnd, Feature, GuestKind, Setting};

/// Why a backend has no such setting, on any machine.
pub fn unsupported(name: BackendName, setting: &Setting) -> Option<String> {
    let refuse = |because: bool, reason: &str| because.then(|| format!("{name}: {reason}"));
    let tunnel = name.is_overlay();
    let plain = name.encapsulation() == Encapsulation::None && name != BackendName::Direct;
    let trunk = setting.is_trunk();
    impossible(name, setting)
        .or_else(|| {
            let reason = match setting.feature {
                Feature::SecurityOff => "port security is Overlane's",
                _ => "the laboratory has routers and firewalls of Overlane alone",
            };
            let asked = setting.feature != Feature::Default;
            refuse(asked && !name.is_overlane(), reason)
        })
        .or_else(|| {
            let tester = setting.far_end == FarEnd::Tester;
            refuse(tester && tunnel, "a bare tester takes no tunnels")
        })
        .or_else(|| {
            let many = setting.vnis > limits::TAGS_PER_DEVICE;
            let reason = "more networks than a guest's device has tags: it tells guests' devices \
                          by their MAC alone, which is one for all of them";
            refuse(plain && trunk && many, reason)
        })
        .or_else(|| {
            let known = name.is_overlane()
                || matches!(name, BackendName::Bridge | BackendName::KernelVlan)
                || matches!(name, BackendName::KernelVxlan | BackendName::KernelGeneve);
            let machines = setting.guests == GuestKind::Qemu;
            refuse(
                machines && !known,
                "no machine moves over it in this laboratory",
            )
        })
        .or_else(|| match name {
            BackendName::KernelVlan | BackendName::KernelVxlan | BackendName::KernelGeneve => {
                let reason = "it has no trunks in this laboratory: a tag for each network takes a \
                              bridge that filters VLANs";
                refuse(trunk, reason)
            }
            _ => None,
        })
}

/// Why no topology of this setting can be built, whatever the backend.
pub fn impossible(backend: BackendName, setting: &Setting) -> Option<String> {
    let limit = |what: &str, value: u32, most: u32| {
        (value == 0 || value > most)
            .then(|| format!("{value} {what}: the laboratory has 1 to {most}"))
    };
    let tester = setting.far_end == FarEnd::Tester;
    let vlan = backend.encapsulation() == Encapsulation::Vlan;
    limit("hosts", setting.hosts, limits::MAX_HOSTS)
        .or_else(|| limit("pairs", setting.pairs, limits::MAX_PAIRS))
        .or_else(|| limit("VNIs", setting.vnis, limits::MAX_NETWORKS))
        .or_else(|| {
            (tester && setting.pairs > 1)
                .then(|| "a bare tester is one guest: it takes a single pair".to_owned())
        })
        .or_else(|| (setting.guests == GuestKind::Qemu).then(|| immobile(setting)).flatten())
        .or_else(|| {
            let networks = setting.networks();
            (vlan && networks > limits::VLANS)
                .then(|| format!("{networks} networks: 802.1Q has {} VLANs", limits::VLANS))
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

/// Why no machine moves in this setting.
pub fn immobile(setting: &Setting) -> Option<String> {
    let machines = setting.pairs;
    let refuse = |because: bool, reason: &str| because.then(|| reason.to_owned());
    refuse(setting.hosts != 2, "machines move between two hosts")
        .or_else(|| {
            refuse(
                setting.far_end == FarEnd::Tester,
                "machines move to a host, not to a bare tester",
            )
        })
        .or_else(|| {
            refuse(
                setting.inner == Family::Ipv6,
                "the guest's program speaks IPv4 alone",
            )
        })
        .or_else(|| refuse(setting.vnis != 1, "machines that move are in one network"))
        .or_else(|| {
            refuse(
                setting.feature.is_routed() || setting.feature.has_gateway(),
                "machines that move are in the network of those who talk to them: no router between them",
            )
        })
        .or_else(|| {
            (machines > limits::MAX_MACHINES).then(|| {
                format!(
                    "{machines} machines at once: the laboratory moves 1 to {}",
                    limits::MAX_MACHINES
                )
            })
        })
}

/// Why the laboratory has no topology for a feature in this setting.
pub fn impossible_feature(setting: &Setting) -> Option<&'static str> {
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
