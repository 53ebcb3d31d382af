//! Plans of the shipped studies, and laws of every plan.

use super::*;
use crate::record::{Family, Feature, GuestKind, MtuClass, Test};
use crate::study::Overrides;
use crate::study::Study;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn quick(name: &str) -> Plan {
    Plan::new(&Study::shipped(name).unwrap().quick)
}

fn whole(name: &str) -> Plan {
    Plan::new(&Study::shipped(name).unwrap().matrix)
}

#[test]
fn study_a_is_the_matrix_of_its_document() {
    let full = whole("jumbo-vxlan");
    // 16 groups of TCP, half of them for virtual machines, and 8 of UDP super-packets: as fast as they go, and at a rate.
    assert_eq!((full.blocks.len(), full.cells().count()), (4, 212));
    let supers = full
        .cells()
        .map(|cell| cell.group.workload)
        .filter(|workload| workload.test == Test::UdpGsoStream);
    let (paced, free): (Vec<_>, Vec<_>) = supers.partition(|workload| workload.rate_pps.is_some());
    assert_eq!((paced.len(), free.len()), (36, 36));
    assert_eq!((full.rounds, full.seconds), (16, 3.0));
    let quick = quick("jumbo-vxlan");
    // All of it is up at the same time and takes turns.
    assert_eq!((quick.blocks.len(), quick.turns().len()), (1, 1));
    let [veth, tap] = [GuestKind::Veth, GuestKind::Tap];
    let of = |instances: u32, guests: GuestKind| {
        let cells = quick
            .cells()
            .filter(|cell| cell.group.workload.instances == instances);
        cells
            .filter(|cell| cell.group.setting.guests == guests)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of(4, veth).len(), of(4, tap).len(), of(1, tap).len()),
        (5, 5, 0)
    );
    let cells = of(1, veth);
    let machines = |name| {
        whole(name)
            .cells()
            .filter(|cell| cell.group.setting.guests == tap)
            .count()
    };
    assert_eq!(
        (machines("jumbo-vxlan"), machines("geneve-vs-vxlan")),
        (68, 0)
    );
    assert_eq!(2 * machines("cpu-cost"), whole("cpu-cost").cells().count());
    let mtus: Vec<_> = cells.iter().map(CellKey::mtu).collect();
    assert_eq!(
        mtus,
        [1500, 1500, 1500, 1500, 1500, 9000, 9000, 8900, 8900, 8900]
    );
}

#[test]
fn study_b_has_its_scenarios_on_one_set_of_networks() {
    let quick = quick("geneve-vs-vxlan");
    assert_eq!((quick.blocks.len(), quick.cells().count()), (1, 3 * 18));
    assert_eq!(quick.blocks[0].networks.len(), 3);
    let names = |plan: &Plan| -> BTreeSet<String> {
        let workloads = plan.blocks.iter().flat_map(|block| &block.workloads);
        workloads.map(|cells| cells.workload.to_string()).collect()
    };
    assert_eq!(names(&quick).len(), 18);
    assert!(names(&quick).contains("tcp_rr-64B-8i"));
    let full = whole("geneve-vs-vxlan");
    // The whole matrix has streams at a rate and UDP super-packets besides.
    let more: Vec<_> = names(&full).difference(&names(&quick)).cloned().collect();
    let besides = [
        "tcp_stream-16384B-8i-2000mbps",
        "udp_gso_stream-1400B-1i",
        "udp_gso_stream-1400B-1i-106180pps",
        "udp_gso_stream-1400B-4i",
        "udp_gso_stream-1400B-4i-106180pps",
    ];
    assert_eq!(more, besides);
    assert_eq!(full.cells().count(), 5 * (18 + besides.len()));
    assert!(full.at_most() > full.expected());
    assert_eq!(full.most_samples(&full.blocks[0].workloads[0]), 18);
}

#[test]
fn quick_matrices_end_in_time_and_have_samples_for_verdicts() {
    for study in Study::all_shipped().unwrap() {
        let plan = Plan::new(&study.quick);
        let expected = plan.expected();
        assert!(
            expected < Duration::from_secs(420),
            "{}: {expected:?}",
            study.name
        );
        let workloads = plan.blocks.iter().flat_map(|block| &block.workloads);
        let compared = workloads.filter(|turn| turn.samples >= 8 && turn.cells.len() >= 2);
        assert!(compared.count() >= 2, "{}", study.name);
    }
}

#[test]
fn study_e_has_both_models_pairs_and_networks() {
    for plan in [quick("frame-sweep"), whole("frame-sweep")] {
        let cells: Vec<_> = plan.cells().collect();
        let tester = |cell: &&CellKey| cell.group.setting.far_end == crate::record::FarEnd::Tester;
        assert!(
            cells
                .iter()
                .filter(tester)
                .all(|cell| !cell.backend.is_overlay())
        );
        assert!(
            cells
                .iter()
                .filter(|cell| !tester(cell))
                .all(|cell| cell.backend.is_overlay())
        );
        let bytes = |wanted_tester: bool| -> BTreeSet<u32> {
            let chosen = cells.iter().filter(|cell| tester(cell) == wanted_tester);
            let chosen = chosen.filter(|cell| cell.group.workload.test == Test::UdpStream);
            chosen.map(|cell| cell.group.workload.bytes).collect()
        };
        assert!(bytes(true).is_superset(&[64, 128, 256, 512, 1024, 1518].into()));
        assert!(bytes(false).is_superset(&[64, 128, 256, 512, 1024, 1450, 8900].into()));
        assert!(cells.iter().any(|cell| cell.group.setting.pairs == 4));
        assert!(cells.iter().any(|cell| cell.group.setting.vnis == 4096));
        assert!(
            cells
                .iter()
                .any(|cell| cell.group.workload.search.is_some())
        );
    }
}

#[test]
fn study_d_has_its_features_in_the_turn_of_what_they_are_held_against() {
    for plan in [quick("cpu-cost"), whole("cpu-cost")] {
        for block in &plan.blocks {
            let streams = block.workloads.iter();
            for turn in streams.filter(|turn| turn.workload.search.is_none()) {
                let of = |backend, feature| {
                    let mut cells = turn.cells.iter();
                    cells.any(|cell| {
                        (cell.backend, cell.group.setting.feature) == (backend, feature)
                    })
                };
                for feature in [
                    Feature::Default,
                    Feature::Routing,
                    Feature::Firewall10,
                    Feature::Firewall1000,
                    Feature::RoutingFirewall,
                    Feature::Gateway,
                    Feature::GatewayNat,
                ] {
                    assert!(of(BackendName::OverlaneVxlan, feature), "{feature}");
                }
                assert!(of(BackendName::KernelVxlan, Feature::Default));
                assert!(turn.samples >= 8);
            }
        }
    }
    // What is up together is named once.
    let study = Study::shipped("cpu-cost").unwrap();
    let summary = PlanSummary::of(&study, true);
    let setting = &summary.blocks[0].setting;
    assert!(
        setting.starts_with("standard mtu, offload on, features default routing "),
        "{setting}"
    );
    assert_eq!(summary.blocks[0].networks, 5 + 6);
    let jumbo = Study::shipped("jumbo-vxlan").unwrap();
    let all = &PlanSummary::of(&jumbo, true).blocks[0].setting;
    let places = [
        "standard mtu, offload on",
        "standard mtu, offload on, virtual machines",
        "standard and jumbo mtu, offload off",
    ];
    assert_eq!(*all, places.join("; "));
}

#[test]
fn against_itself_every_network_is_there_twice() {
    let mut study = Study::shipped("jumbo-vxlan").unwrap();
    let before = Plan::new(&study.quick);
    study
        .change(&Overrides {
            against_itself: true,
            ..Overrides::default()
        })
        .unwrap();
    let plan = Plan::new(&study.quick);
    assert_eq!(plan.cells().count(), 2 * before.cells().count());
    for block in &plan.blocks {
        let copies = |copy| {
            block
                .networks
                .iter()
                .filter(move |network| network.copy == copy)
        };
        assert_eq!(copies(0).count(), copies(1).count());
    }
    assert!(plan.expected() > before.expected());
}

#[test]
fn what_takes_longer_is_expected_to() {
    let study = Study::shipped("geneve-vs-vxlan").unwrap();
    let expected = |change: &dyn Fn(&mut Matrix)| {
        let mut matrix = study.quick.clone();
        change(&mut matrix);
        Plan::new(&matrix).expected()
    };
    let usual = expected(&|_| {});
    let longer: [&dyn Fn(&mut Matrix); 5] = [
        &|matrix| matrix.samples += 1,
        &|matrix| matrix.seconds += 0.1,
        &|matrix| matrix.warm_up_seconds += 0.1,
        &|matrix| matrix.groups[0].pairs = vec![4],
        &|matrix| matrix.groups[0].hosts = vec![4],
    ];
    for (index, change) in longer.into_iter().enumerate() {
        assert!(expected(change) > usual, "{index}");
    }
    let packets = |test: Test, search: Option<crate::search::Preset>| {
        expected(&|matrix| {
            matrix.groups.truncate(1);
            matrix.groups[0].tests = vec![test];
            matrix.groups[0].search = search;
        })
    };
    let (brief, strict) = (crate::search::Preset::Brief, crate::search::Preset::Rfc2544);
    assert!(packets(Test::UdpStream, None) > packets(Test::TcpStream, None));
    assert!(packets(Test::UdpStream, Some(brief)) > packets(Test::UdpStream, None));
    assert!(packets(Test::UdpStream, Some(strict)) > packets(Test::UdpStream, Some(brief)));
}

#[test]
fn the_summary_adds_up() {
    for study in Study::all_shipped().unwrap() {
        for quick in [true, false] {
            let summary = PlanSummary::of(&study, quick);
            let cells = summary.blocks.iter().flat_map(|block| &block.cells);
            assert_eq!(cells.clone().count(), summary.cells);
            let samples: u64 = cells.map(|cell| u64::from(cell.samples) + 1).sum();
            assert_eq!(samples, summary.samples_in_all);
            let mut sum = cost::RUN_SECONDS;
            for block in &summary.blocks {
                let cells: f64 = block.cells.iter().map(|cell| cell.expected_seconds).sum();
                assert!((cells + block.overhead_seconds - block.expected_seconds).abs() < 1e-6);
                sum += block.expected_seconds;
            }
            assert!((sum - summary.expected_seconds).abs() < 1e-3);
            assert!(summary.at_most_seconds >= summary.expected_seconds);
            let cells = summary.blocks.iter().flat_map(|block| &block.cells);
            let refused: Vec<_> = cells.filter_map(|cell| cell.unsupported.as_ref()).collect();
            assert!(refused.is_empty(), "{}: {refused:?}", study.name);
            let json = serde_json::to_value(&summary).unwrap();
            assert_eq!(
                json["blocks"][0]["cells"][0]["network"],
                study_first(&study, quick)
            );
        }
    }
}

fn study_first(study: &Study, quick: bool) -> String {
    let plan = Plan::new(if quick { &study.quick } else { &study.matrix });
    plan.cells().next().unwrap().backend.to_string()
}

/// One of these lists, so that groups overlap often.
fn some<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = Vec<T>> {
    proptest::sample::subsequence(all, 1..=all.len())
}

fn group() -> impl Strategy<Value = GroupAxes> {
    const BACKENDS: &[BackendName] = &[BackendName::Bridge, BackendName::KernelVxlan];
    let workload = (
        some(&[Test::TcpStream, Test::TcpRr]),
        some(&[64_u32, 1024]),
        some(&[1_u32, 4]),
    );
    let setting = (
        some(&[MtuClass::Standard, MtuClass::Jumbo]),
        some(&[true, false]),
        some(&[Family::Ipv4, Family::Ipv6]),
        some(&[1_u32, 2]),
        some(&[GuestKind::Veth, GuestKind::Tap]),
    );
    let rest = (
        proptest::option::of(some(BACKENDS)),
        proptest::option::of(1_u32..4),
    );
    (workload, setting, rest).prop_map(|(workload, setting, (backends, samples))| {
        let mut group = Study::shipped("jumbo-vxlan")
            .unwrap()
            .quick
            .groups
            .remove(0);
        (group.tests, group.bytes, group.instances) = workload;
        (
            group.mtu,
            group.offload,
            group.inner,
            group.pairs,
            group.guests,
        ) = setting;
        (group.backends, group.samples) = (backends, samples);
        group
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn laws_of_every_plan(groups in proptest::collection::vec(group(), 1..4), against_itself: bool) {
        let mut matrix = Study::shipped("jumbo-vxlan").unwrap().quick;
        matrix.backends = vec![BackendName::Bridge, BackendName::KernelVxlan, BackendName::OverlaneVxlan];
        (matrix.groups, matrix.against_itself) = (groups, against_itself);
        let plan = Plan::new(&matrix);

        // No cell twice, and none but those that were asked for.
        let cells: Vec<_> = plan.cells().collect();
        let different: BTreeSet<_> = cells.iter().copied().collect();
        prop_assert_eq!(cells.len(), different.len());
        let mut wanted = BTreeSet::new();
        for group in &matrix.groups {
            for (setting, workload) in group.settings().into_iter().flat_map(|setting| group.workloads().into_iter().map(move |workload| (setting, workload))) {
                for &backend in group.backends.as_ref().unwrap_or(&matrix.backends) {
                    for copy in 0..=u8::from(against_itself) {
                        wanted.insert(CellKey { copy, ..GroupKey { workload, setting }.cell(backend) });
                    }
                }
            }
        }
        prop_assert_eq!(&different, &wanted);

        // The cells of a group take turns with each other and with those of the same test in the same place: both MTU classes,
        // all sizes and instances.
        let mut places: BTreeMap<(Test, Setting), BTreeSet<(usize, usize)>> = BTreeMap::new();
        for (block_at, block) in plan.blocks.iter().enumerate() {
            let networks: BTreeSet<_> = block.networks.iter().copied().collect();
            prop_assert_eq!(networks.len(), block.networks.len());
            prop_assert!(block.networks.len() <= MOST_NETWORKS);
            for (turn_at, turn) in block.turns().into_iter().enumerate() {
                for (work, cell) in turn.iter().flat_map(|work| work.cells.iter().map(move |cell| (work, cell))) {
                    prop_assert_eq!(cell.group.workload, work.workload);
                    // What a cell is measured on is up.
                    prop_assert!(networks.contains(&Network::from(*cell)));
                    let key = (work.workload.test, cell.group.setting.place());
                    places.entry(key).or_default().insert((block_at, turn_at));
                }
            }
            // Nothing is built for nobody.
            let used: BTreeSet<_> = block.workloads.iter().flat_map(|turn| &turn.cells).copied().map(Network::from).collect();
            prop_assert_eq!(used, networks);
        }
        prop_assert!(places.values().all(|places| places.len() == 1));
        prop_assert!(plan.expected() > Duration::ZERO);
        let turns: Vec<_> = plan.turns().concat();
        prop_assert_eq!(turns.len(), plan.cells().count());
        prop_assert_eq!(&turns.into_iter().collect::<BTreeSet<_>>(), &wanted);
    }
}
