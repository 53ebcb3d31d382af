//! Who is where, and by which number: networks, the tags of trunks, and [`addresses`](super::addresses). Nothing here touches
//! the machine; [`Topology`](super::Topology) builds it.

pub(crate) use super::addresses::{
    LEG_MAC, ROUTER_MAC, Subnet, guest_address, guest_mac, host_address, link_address, prefix,
    underlay_network,
};
use overlane_analysis::record::{BackendName, Encapsulation, FarEnd, GuestKind, Setting};
use overlane_analysis::study::limits::TAGS_PER_DEVICE;
use std::ops::Range;

/// The VNI of the first network; the others follow.
pub(crate) const FIRST_VNI: u32 = 5001;
/// The VLAN that plays its part where there is no tunnel, and no trunk.
pub(crate) const FIRST_VLAN: u16 = 100;

/// One network of the guests, a logical switch where the backend has such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// 0 for the first.
    pub(crate) index: u32,
    /// Its number in tunnels.
    pub(crate) vni: u32,
    /// Its number on the underlay where there is no tunnel.
    pub(crate) vlan: u16,
}

impl Network {
    /// The network of this index. With trunks there may be as many as there are VLANs, from 1 on.
    pub(crate) fn of(setting: &Setting, index: u32) -> Self {
        let first = if setting.is_trunk() { 1 } else { FIRST_VLAN };
        Self {
            index,
            vni: FIRST_VNI + index,
            vlan: first.saturating_add(u16::try_from(index).unwrap_or(u16::MAX)),
        }
    }
}

/// The plan of one device of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    /// Its tags; empty: it has none, and one network.
    pub(crate) vlans: Vec<u16>,
    /// The networks that it is in, in the order of the tags.
    pub(crate) networks: Range<u32>,
}

/// What the receiving guest of pair `pair` has for devices: the sender's, in other networks where a router joins them.
pub(crate) fn receiver_ports(setting: &Setting, pair: u32) -> Vec<PortPlan> {
    let mut plans = ports(setting, pair);
    if setting.feature.joins_switches() {
        let vnis = setting.vnis.max(1);
        for PortPlan { networks, .. } in &mut plans {
            *networks = networks.start + vnis..networks.end + vnis;
        }
    }
    plans
}

/// What the sending guest of pair `pair` has for devices, and the receiving one where nothing routes.
pub(crate) fn ports(setting: &Setting, pair: u32) -> Vec<PortPlan> {
    let pairs = setting.pairs.max(1);
    if !setting.is_trunk() {
        let network = pair % setting.vnis.max(1);
        return vec![PortPlan {
            vlans: Vec::new(),
            networks: network..network + 1,
        }];
    }
    // The first pairs have one more where it does not come out even.
    let share = |pair: u32| pair * (setting.vnis / pairs) + pair.min(setting.vnis % pairs);
    let (first, end) = (share(pair), share(pair + 1));
    (first..end)
        .step_by(TAGS_PER_DEVICE as usize)
        .map(|first| {
            let networks = first..end.min(first + TAGS_PER_DEVICE);
            let count = u16::try_from(networks.len()).unwrap_or(u16::MAX);
            PortPlan {
                vlans: (1..=count).collect(),
                networks,
            }
        })
        .collect()
}

/// What a bare tester has for devices: one, with the tags that the backend puts on its networks.
pub(crate) fn tester_port(setting: &Setting, backend: BackendName) -> PortPlan {
    let networks = 0..setting.vnis.max(1);
    let vlans = match (backend.encapsulation(), setting.is_trunk()) {
        (Encapsulation::Vlan, _) => networks
            .clone()
            .map(|index| Network::of(setting, index).vlan)
            .collect(),
        (_, true) => ports(setting, 0).remove(0).vlans,
        (_, false) => Vec::new(),
    };
    PortPlan { vlans, networks }
}

/// The host that the receiving guest of a pair is on, counted from 0.
pub(crate) fn receiver_host(setting: &Setting, pair: u32) -> usize {
    match setting.hosts {
        0 | 1 => 0,
        hosts => (1 + pair % (hosts - 1)) as usize,
    }
}

/// The hosts there are: a bare tester takes the place of the second.
pub(crate) fn hosts(setting: &Setting) -> u32 {
    match setting.far_end {
        FarEnd::Host => setting.hosts.max(1),
        FarEnd::Tester => 1,
    }
}

/// The guests are numbered from 1: of each pair first the sender, then the receiver.
pub(crate) fn guest_numbers(pair: u32) -> [u32; 2] {
    [2 * pair + 1, 2 * pair + 2]
}

/// A name for a topology: short, as it becomes part of others, and another one for each that may be up at
/// the same time.
pub(crate) fn label(backend: BackendName, copy: u8, setting: &Setting) -> String {
    let usual = Setting::default();
    let mut label = format!("{backend}-{}", setting.mtu_class.guest_mtu(backend));
    let mut add = |differs: bool, part: String| {
        if differs {
            label.push('-');
            label.push_str(&part);
        }
    };
    // One part for both: names are short.
    let best = setting.tuning != usual.tuning;
    let kind = if best { "b" } else { "c" };
    add(copy != 0 || best, format!("{kind}{copy}"));
    add(!setting.offload, "o0".to_owned());
    add(setting.far_end != usual.far_end, "t".to_owned());
    add(setting.hosts != usual.hosts, format!("h{}", setting.hosts));
    let [pairs, machines] = [setting.pairs != usual.pairs, setting.guests != usual.guests];
    let guests = match setting.guests {
        GuestKind::Veth => "p",
        GuestKind::Tap => "m",
        GuestKind::Qemu => "q",
    };
    add(pairs || machines, format!("{guests}{}", setting.pairs));
    let memory = setting.guest_memory_mib.unwrap_or_default();
    add(memory != 0, memory.to_string());
    add(setting.vnis != usual.vnis, format!("v{}", setting.vnis));
    add(setting.inner != usual.inner, "i6".to_owned());
    add(setting.underlay != usual.underlay, "u6".to_owned());
    add(
        setting.feature != usual.feature,
        setting.feature.label().to_owned(),
    );
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_analysis::record::{Family, Feature, Tuning};

    fn setting(pairs: u32, vnis: u32) -> Setting {
        Setting {
            pairs,
            vnis,
            ..Setting::default()
        }
    }

    #[test]
    fn pairs_are_spread_over_the_switches() {
        let networks = |pairs, vnis| -> Vec<_> {
            let setting = setting(pairs, vnis);
            let ports = (0..pairs).flat_map(|pair| ports(&setting, pair));
            ports
                .map(|port| {
                    assert!(port.vlans.is_empty() && port.networks.len() == 1);
                    port.networks.start
                })
                .collect()
        };
        assert_eq!(networks(1, 1), [0]);
        assert_eq!(networks(4, 1), [0, 0, 0, 0]);
        assert_eq!(networks(4, 3), [0, 1, 2, 0]);
    }

    #[test]
    fn trunks_have_every_network_once_and_no_device_too_many_tags() {
        for (pairs, vnis) in [(1, 8), (1, 2047), (1, 2048), (1, 4096), (3, 8), (2, 4096)] {
            let setting = setting(pairs, vnis);
            let mut next = 0;
            for pair in 0..pairs {
                for port in ports(&setting, pair) {
                    assert_eq!(port.networks.start, next);
                    assert_eq!(port.networks.len(), port.vlans.len());
                    assert!((1..=TAGS_PER_DEVICE as usize).contains(&port.vlans.len()));
                    assert_eq!(port.vlans.first(), Some(&1));
                    next = port.networks.end;
                }
            }
            assert_eq!(next, vnis);
        }
        assert_eq!(ports(&setting(1, 4096), 0).len(), 3);
        assert_eq!(Network::of(&setting(1, 4096), 4095).vni, 9096);
        assert_eq!(Network::of(&setting(1, 8), 7).vlan, 8);
        assert_eq!(Network::of(&setting(4, 4), 3).vlan, 103);
    }

    #[test]
    fn receivers_take_the_hosts_after_the_first_in_turn() {
        let hosts = |hosts| {
            let setting = Setting {
                hosts,
                ..setting(4, 1)
            };
            [0, 1, 2, 3].map(|pair| receiver_host(&setting, pair))
        };
        assert_eq!(hosts(1), [0, 0, 0, 0]);
        assert_eq!(hosts(2), [1, 1, 1, 1]);
        assert_eq!(hosts(3), [1, 2, 1, 2]);
    }

    #[test]
    fn a_tester_has_the_tags_that_reach_it() {
        let port = |backend, vnis| tester_port(&setting(1, vnis), backend).vlans;
        assert!(port(BackendName::Bridge, 1).is_empty());
        assert_eq!(port(BackendName::OverlaneVlan, 1), [FIRST_VLAN]);
        assert_eq!(port(BackendName::Bridge, 3), [1, 2, 3]);
        assert_eq!(port(BackendName::OvsVlan, 3), [1, 2, 3]);
    }

    #[test]
    fn a_router_parts_the_networks_of_senders_and_receivers() {
        let setting = Setting {
            feature: Feature::Routing,
            ..setting(4, 3)
        };
        assert_eq!(setting.networks(), 6);
        let of = |plans: Vec<PortPlan>| plans[0].networks.clone();
        for pair in 0..4 {
            let near = of(ports(&setting, pair)).start;
            assert_eq!(of(receiver_ports(&setting, pair)), near + 3..near + 4);
        }
        let gateway = Setting {
            feature: Feature::Gateway,
            ..setting
        };
        assert_eq!(gateway.networks(), 3);
        assert_eq!(
            of(receiver_ports(&gateway, 1)),
            1..2,
            "that of its way back"
        );
    }

    #[test]
    fn labels_differ_and_stay_short() {
        let usual = Setting::default();
        let all = Setting {
            offload: false,
            far_end: FarEnd::Tester,
            hosts: 3,
            pairs: 4,
            guests: GuestKind::Tap,
            vnis: 4096,
            inner: Family::Ipv6,
            underlay: Family::Ipv6,
            feature: Feature::SecurityOff,
            tuning: Tuning::Best,
            ..usual
        };
        let name = BackendName::OverlaneGeneve;
        assert_eq!(label(name, 0, &usual), "overlane-geneve-1500");
        // A host's name has 63 letters at most, and a run's and the host's own are added.
        assert!(label(name, 1, &all).len() <= 49, "{}", label(name, 1, &all));
        assert_ne!(label(name, 1, &usual), label(name, 0, &usual));
        let machines = |pairs| Setting {
            pairs,
            guests: GuestKind::Tap,
            ..usual
        };
        assert_eq!(label(name, 0, &machines(1)), "overlane-geneve-1500-m1");
        assert_eq!(label(name, 0, &machines(4)), "overlane-geneve-1500-m4");
        let moving = Setting {
            guests: GuestKind::Qemu,
            guest_memory_mib: Some(256),
            ..machines(2)
        };
        assert_eq!(label(name, 0, &moving), "overlane-geneve-1500-q2-256");
    }
}
