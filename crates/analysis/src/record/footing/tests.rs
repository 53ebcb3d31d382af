use super::*;
use crate::record::{BackendName, CellStatus, GroupKey, Setting, Test};

const NO_GRO: Asymmetry = Asymmetry::NoGro {
    encapsulation: Encapsulation::Geneve,
};

fn cell(backend: BackendName, test: Test, bytes: u32, asymmetries: &[Asymmetry]) -> Cell {
    let workload = Workload {
        test,
        bytes,
        instances: 1,
        buffer_bytes: None,
        rate_pps: None,
        rate_mbps: None,
        search: None,
        migration: None,
    };
    let setting = Setting {
        offload: false,
        ..Setting::default()
    };
    let key = GroupKey { workload, setting }.cell(backend);
    let mut cell = Cell::empty(key, CellStatus::Ok);
    cell.asymmetries = asymmetries.to_vec();
    cell
}

#[test]
fn what_the_kernel_lacks_for_one_of_two_is_no_verdict() {
    let stream = |backend, own: &[Asymmetry]| cell(backend, Test::TcpStream, 65536, own);
    let geneve = stream(BackendName::OverlaneGeneve, &[NO_GRO]);
    let vxlan = stream(BackendName::OverlaneVxlan, &[]);
    let reason = unequal(&geneve, &vxlan).unwrap();
    assert!(reason.starts_with("overlane-geneve: This kernel has no Geneve devices"));
    assert_eq!(unequal(&vxlan, &geneve), Some(reason), "either way");
    let kernel = stream(BackendName::KernelGeneve, &[NO_GRO]);
    assert_eq!(unequal(&geneve, &kernel), None, "both lack it");
    assert_eq!(unequal(&vxlan, &vxlan.clone()), None);
}

#[test]
fn where_nothing_could_be_joined_nothing_is_lacking() {
    for (test, bytes, bears) in [
        (Test::TcpRr, 64, false),
        (Test::TcpRr, 16384, true),
        (Test::UdpStream, 1500, false),
        (Test::UdpGsoStream, 1400, true),
        (Test::TcpReverse, 64, true),
    ] {
        let with = cell(BackendName::OverlaneGeneve, test, bytes, &[NO_GRO]);
        let without = cell(BackendName::OverlaneVxlan, test, bytes, &[]);
        assert_eq!(unequal(&with, &without).is_some(), bears, "{test} {bytes}");
    }
}

#[test]
fn what_a_network_needs_is_what_it_costs() {
    let own = [
        Asymmetry::NoSegmentationOffload,
        Asymmetry::NoReceiveOffload,
    ];
    let ovs = cell(BackendName::OvsVxlan, Test::TcpStream, 65536, &own);
    let other = cell(BackendName::OverlaneVxlan, Test::TcpStream, 65536, &[]);
    assert_eq!(unequal(&ovs, &other), None);
}

#[test]
fn a_checksum_is_no_excuse_for_a_network_at_its_best() {
    let with = |tuning| {
        let own = [Asymmetry::OuterChecksum];
        let mut cell = cell(BackendName::KernelVxlan, Test::TcpRr, 64, &own);
        cell.key.group.setting.tuning = tuning;
        cell
    };
    let other = cell(BackendName::OverlaneVxlan, Test::TcpRr, 64, &[]);
    let reason = unequal(&with(Tuning::Alike), &other).unwrap();
    assert!(reason.contains("outer UDP checksum"), "{reason}");
    assert_eq!(unequal(&with(Tuning::Best), &other), None);
}

#[test]
fn relays_count_by_their_number() {
    let with = |backend, count| {
        let own = [Asymmetry::Relay { count }];
        cell(backend, Test::TcpStream, 65536, &own)
    };
    let [one, two] = [BackendName::Direct, BackendName::Bridge].map(|name| with(name, 2));
    assert_eq!(unequal(&one, &two), None);
    let reason = unequal(&with(BackendName::Direct, 1), &two).unwrap();
    assert!(
        reason.contains("one relay") && reason.contains("2 relays"),
        "{reason}"
    );
}

fn hop(network: &str, place: &str, device: &str, gro: bool) -> Hop {
    Hop {
        topology: format!("{network}, standard mtu, offload on"),
        place: place.to_owned(),
        device: device.to_owned(),
        mtu: 1500,
        rps_cpus: vec![0],
        features: BTreeMap::from([("rx-gro".to_owned(), gro)]),
        pause: None,
        own: device.starts_with("vxlan"),
        qdisc: "noqueue".to_owned(),
        queues: [1, 1],
        gso_max_size: 65536,
        outer_checksum: None,
        learning: None,
        bridge_netfilter: None,
    }
}

#[test]
fn devices_that_are_set_alike_share_a_row() {
    let mut hops = vec![
        hop("a", "host1", "uplink", true),
        hop("a", "host2", "uplink", true),
        hop("a", "host2", "port0", false),
        hop("a", "host2", "port1", true),
    ];
    hops[1].rps_cpus = vec![1];
    let rows = rows(&hops);
    let devices: Vec<_> = rows.iter().map(|row| row.devices.join(" ")).collect();
    assert_eq!(
        devices,
        ["host1 uplink host2 uplink", "host2 port0", "host2 port1"]
    );
}

#[test]
fn unlike_names_the_setting_that_differs_and_spares_what_a_network_adds() {
    let mut hops = vec![
        hop("a", "host1", "uplink", true),
        hop("a", "host1", "vxlan0", true),
        hop("b", "host1", "uplink", true),
        hop("b", "host1", "vxlan0", false),
    ];
    assert_eq!(unlike(&hops), Vec::<String>::new());
    hops[2].rps_cpus.clear();
    let said = "b, unlike a, standard mtu, offload on: host uplink: receive packet steering off (there on)";
    assert_eq!(unlike(&hops), [said]);
    // The cable of `direct` is the wire itself.
    hops.truncate(2);
    hops.push(hop("a", "guest1", "eth0", false));
    hops.push(hop("direct", "guest1", "eth0", true));
    assert_eq!(unlike(&hops), Vec::<String>::new());
}
