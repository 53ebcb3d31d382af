//! Tests that build topologies with every backend that can run here, show their paths, and look that nothing
//! stays. They need root; backends that this machine or this program cannot run are named and left out:
//! those of Overlane unless the program is `overlane`.

use super::*;
use crate::backends;
use crate::proof;
use crate::session::Session;
use nix::unistd::geteuid;
use overlane_analysis::record::{Asymmetry, Family, Feature, MtuClass, PathSizes, Tuning, footing};
use overlane_analysis::study::possible;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// One session at a time: a run holds the machine.
static MACHINE: Mutex<()> = Mutex::new(());

fn session() -> Option<(MutexGuard<'static, ()>, Session)> {
    if !geteuid().is_root() {
        // Past the capture of the test harness: a skipped test must be seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED lab topology: needs root");
        return None;
    }
    let guard = MACHINE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // Another program's run, or the tests of another file, end sooner or later.
    for _ in 0..600 {
        match Session::begin() {
            Ok(session) => return Some((guard, session)),
            Err(LabError::Busy { .. }) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("another run of the laboratory does not end");
}

/// Builds a setting with every backend that has it, proves each path, and takes it down.
fn prove_all(setting: Setting) {
    let Some((_guard, session)) = session() else {
        return;
    };
    let pid = std::process::id();
    for name in BackendName::ALL {
        let missing = backends::check(&session, name).unwrap();
        if let Some(reason) = possible::unsupported(name, &setting).or(missing) {
            eprintln!("left out: {name}: {reason}");
            continue;
        }
        prove(&session, name, setting);
        let left: Vec<_> = netns::list()
            .unwrap()
            .into_iter()
            .filter(|netns| netns.starts_with(&format!("lab{pid}-")))
            .collect();
        assert!(left.is_empty(), "{name}, {setting}: {left:?}");
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

/// The devices of a network, where it stands on another footing, outer checksums, and the sizes of its path.
fn footing(
    session: &Session,
    name: BackendName,
    setting: Setting,
) -> (Vec<Hop>, Vec<Asymmetry>, Option<bool>, Option<PathSizes>) {
    let mut topology = Topology::build(session, name, 0, setting).unwrap();
    let mut backend = backends::new(name);
    topology.devices = backend.devices(&topology);
    backend.build(session, &topology).unwrap();
    let proof = proof::prove(session, &topology, backend.as_ref()).unwrap();
    let hops = topology.hops().unwrap();
    let asymmetries = topology.asymmetries(&hops, proof.outer_checksum).unwrap();
    let sizes = topology.sizes(&hops, proof.around);
    backend.tear_down(session, &topology).unwrap();
    topology.delete();
    (hops, asymmetries, proof.outer_checksum, sizes)
}

/// Read back from the devices and from the packets.
#[test]
fn networks_are_set_alike() {
    let Some((_guard, session)) = session() else {
        return;
    };
    let setting = offload_off();
    let mut all = Vec::new();
    for name in [
        BackendName::Bridge,
        BackendName::KernelVlan,
        BackendName::KernelVxlan,
        BackendName::KernelGeneve,
    ] {
        if let Some(reason) = backends::check(&session, name).unwrap() {
            eprintln!("left out: {name}: {reason}");
            continue;
        }
        let (hops, asymmetries, outer_checksum, sizes) = footing(&session, name, setting);
        let expected = PathSizes {
            underlay_mtu: 1600,
            header_bytes: if name.is_overlay() { 50 } else { 0 },
            guest_mtu: 1500,
            between_mtu: Some(1500),
        };
        assert_eq!(sizes, Some(expected), "{name}");
        let tunnels = hops.iter().filter_map(|hop| hop.outer_checksum);
        assert_eq!(tunnels.reduce(|a, b| a || b), outer_checksum, "{name}");
        assert_ne!(outer_checksum, Some(true), "{name}");
        let bridges: Vec<_> = hops.iter().filter_map(|hop| hop.bridge_netfilter).collect();
        assert!(bridges.iter().all(|on| !on), "{name}");
        assert_eq!(asymmetries, [], "{name}");
        if name == BackendName::KernelVxlan {
            assert_eq!(outer_checksum, Some(false));
            let own = hops.iter().filter(|hop| hop.device == "vxlan0");
            let own: Vec<_> = own.collect();
            assert_eq!(own.len(), 2);
            assert!(own.iter().all(|hop| hop.own && hop.rps_cpus.is_empty()));
            assert!(own.iter().all(|hop| hop.learning == Some(true)));
            assert!(own.iter().all(|hop| !hop.features["rx-gro"]));
        }
        all.extend(hops);
    }
    assert_eq!(footing::unlike(&all), Vec::<String>::new());
    let best = Setting {
        tuning: Tuning::Best,
        ..setting
    };
    let (hops, ..) = footing(&session, BackendName::KernelVxlan, best);
    let learning: Vec<_> = hops.iter().filter_map(|hop| hop.learning).collect();
    assert_eq!(learning, [false, false]);
    session.end();
}

fn prove(session: &Session, name: BackendName, setting: Setting) {
    let what = format!("{name}, {setting}");
    let mut topology = Topology::build(session, name, 0, setting).unwrap();
    let mut backend = backends::new(name);
    topology.devices = backend.devices(&topology);
    let built = backend.build(session, &topology);
    built.unwrap_or_else(|error| panic!("{what}: {error}"));
    let proof = proof::prove(session, &topology, backend.as_ref());
    let proof = proof.unwrap_or_else(|error| panic!("{what}: {error}"));
    eprintln!("{what}: {}", proof.detail);
    assert!(proof.holds, "{what}: {}", proof.detail);
    assert_eq!(topology.pairs.len(), setting.pairs as usize);
    for device in topology.path() {
        let link = device.node.netlink.link(&device.device);
        assert!(link.is_ok(), "{what}: {}", device.name);
    }
    let hops = topology.hops().unwrap();
    assert!(hops.len() >= topology.pairs.len() * 2, "{what}");
    let lost = backend.counters(session, &topology).unwrap();
    // A switch that has just begun drops what it cannot place yet; afterwards it is none of the guests'.
    assert!(lost.values().all(|count| *count < 100), "{what}: {lost:?}");
    backend.tear_down(session, &topology).unwrap();
    topology.delete();
}

fn offload_off() -> Setting {
    Setting {
        offload: false,
        ..Setting::default()
    }
}

#[test]
fn one_pair_on_two_hosts() {
    prove_all(Setting::default());
    prove_all(Setting {
        mtu_class: MtuClass::Jumbo,
        ..offload_off()
    });
}

#[test]
fn one_host() {
    for pairs in [1, 2] {
        prove_all(Setting {
            hosts: 1,
            pairs,
            ..Setting::default()
        });
    }
}

#[test]
fn three_hosts_with_pairs_in_turn() {
    prove_all(Setting {
        hosts: 3,
        pairs: 4,
        vnis: 2,
        ..offload_off()
    });
}

#[test]
fn four_pairs_in_one_network() {
    prove_all(Setting {
        pairs: 4,
        ..Setting::default()
    });
}

#[test]
fn ipv6_inside_and_outside() {
    for (inner, underlay) in [
        (Family::Ipv6, Family::Ipv4),
        (Family::Ipv4, Family::Ipv6),
        (Family::Ipv6, Family::Ipv6),
    ] {
        prove_all(Setting {
            inner,
            underlay,
            ..Setting::default()
        });
    }
}

#[test]
fn trunks() {
    for (hosts, pairs, inner) in [
        (2, 1, Family::Ipv4),
        (1, 1, Family::Ipv6),
        (3, 2, Family::Ipv6),
    ] {
        prove_all(Setting {
            hosts,
            pairs,
            inner,
            vnis: 8,
            ..Setting::default()
        });
    }
}

#[test]
fn a_bare_tester() {
    for vnis in [1, 8] {
        prove_all(Setting {
            far_end: FarEnd::Tester,
            vnis,
            ..offload_off()
        });
    }
}

#[test]
fn port_security_off() {
    prove_all(Setting {
        feature: Feature::SecurityOff,
        ..Setting::default()
    });
}

#[test]
fn routers_firewalls_and_gateways() {
    let services = Feature::ALL.into_iter().filter(|f| f.is_service());
    for feature in services {
        for (inner, offload) in [(Family::Ipv4, true), (Family::Ipv6, false)] {
            prove_all(Setting {
                inner,
                offload,
                feature,
                ..Setting::default()
            });
        }
    }
    prove_all(Setting {
        feature: Feature::RoutingFirewall,
        hosts: 3,
        pairs: 4,
        vnis: 2,
        ..Setting::default()
    });
    prove_all(Setting {
        feature: Feature::RoutingFirewall,
        hosts: 1,
        ..Setting::default()
    });
}

#[test]
fn a_feature_says_where_it_cannot_be() {
    let reason = |name, setting| possible::unsupported(name, &setting).unwrap_or_default();
    for feature in Feature::ALL.into_iter().filter(|f| f.is_service()) {
        let usual = Setting {
            feature,
            ..Setting::default()
        };
        let others = BackendName::ALL.into_iter();
        for name in others.filter(|name| !name.as_str().starts_with("overlane")) {
            assert!(reason(name, usual).contains("Overlane alone"), "{name}");
        }
        let (vlan, vxlan) = (BackendName::OverlaneVlan, BackendName::OverlaneVxlan);
        assert_eq!(reason(vxlan, usual) + &reason(vlan, usual), "");
        let tester = Setting {
            far_end: FarEnd::Tester,
            ..usual
        };
        assert!(reason(vlan, tester).contains("bare tester"), "{feature}");
        let trunk = Setting { vnis: 8, ..usual };
        assert_eq!(reason(vxlan, trunk).is_empty(), !feature.is_routed());
        for many in [Setting { pairs: 2, ..usual }, Setting { hosts: 3, ..usual }] {
            assert_eq!(reason(vxlan, many).is_empty(), !feature.has_gateway());
        }
        let vnis = Setting {
            pairs: 50,
            vnis: 50,
            hosts: 2,
            ..usual
        };
        assert_eq!(reason(vlan, vnis).is_empty(), !feature.has_gateway());
    }
}

#[test]
fn what_cannot_be_is_said() {
    let reason = |name, setting| possible::unsupported(name, &setting).unwrap_or_default();
    let usual = Setting::default();
    let tester = Setting {
        far_end: FarEnd::Tester,
        ..usual
    };
    assert!(reason(BackendName::KernelVxlan, tester).contains("takes no tunnels"));
    assert_eq!(reason(BackendName::Bridge, tester), "");
    let pairs = Setting { pairs: 2, ..tester };
    assert!(reason(BackendName::Bridge, pairs).contains("a single pair"));
    let trunk = Setting {
        vnis: 4096,
        ..usual
    };
    assert!(reason(BackendName::KernelVxlan, trunk).contains("no trunks"));
    assert!(reason(BackendName::OvsVlan, trunk).contains("4094 VLANs"));
    assert_eq!(reason(BackendName::OverlaneVxlan, trunk), "");
    assert_eq!(reason(BackendName::Direct, trunk), "");
    let off = Setting {
        feature: Feature::SecurityOff,
        ..usual
    };
    assert!(reason(BackendName::OvsVxlan, off).contains("Overlane's"));
    assert_eq!(reason(BackendName::OverlaneVlan, off), "");
    for bad in [
        Setting { pairs: 0, ..usual },
        Setting { hosts: 0, ..usual },
        Setting {
            vnis: 4097,
            ..usual
        },
    ] {
        assert!(!reason(BackendName::Direct, bad).is_empty(), "{bad}");
    }
}

#[test]
fn machines_that_move_have_a_port_on_each_host() {
    let Some((_lock, session)) = session() else {
        return;
    };
    let setting = Setting {
        mtu_class: MtuClass::Jumbo,
        pairs: 2,
        guests: GuestKind::Qemu,
        guest_memory_mib: Some(256),
        ..offload_off()
    };
    let mut topology = Topology::build(&session, BackendName::Bridge, 0, setting).unwrap();
    let mut bridge = backends::new(BackendName::Bridge);
    topology.devices = bridge.devices(&topology);
    bridge.build(&session, &topology).unwrap();
    for host in 0..2 {
        let ports: Vec<_> = topology
            .ports_on(host)
            .map(|(_, port)| &port.host_device)
            .collect();
        let own: &[&str] = if host == 1 {
            &["machine1", "port0", "machine3", "port1"]
        } else {
            &["machine1", "machine3"]
        };
        assert_eq!(ports, own, "host{}", host + 1);
        for device in topology.links() {
            let link = topology.hosts[host].netlink.link(&device).unwrap();
            assert_eq!((link.mtu, link.up), (9000, true), "{device}");
        }
    }
    let hops = topology.hops().unwrap();
    let links = hops.iter().filter(|hop| hop.device == "link1");
    assert!(
        links.clone().count() == 2
            && links
                .clone()
                .all(|hop| !hop.features["tx-tcp-segmentation"])
    );
    assert!(hops.iter().all(|hop| !hop.place.starts_with("machine")));
    topology.delete();
}
