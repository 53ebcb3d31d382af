//! Runs with fixed figures for the tests: one of each shape of study, as on a small machine, with everything that goes wrong
//! in them: cells that are unavailable, failed or open, one with few samples, an outlier, names that need escaping.
//!
//! `fixture/studies.rs` says what is measured, `fixture/samples.rs` and `fixture/migrations.rs` make the samples,
//! `fixture/environment.rs` the machine.

mod environment;
mod migrations;
mod samples;
mod studies;

use crate::record::{
    Asymmetry, BackendName, Bound, Cell, CellKey, CellStatus, Encapsulation, Feature, GroupKey,
    GuestKind, Moving, PathSizes, Reference, Run, SCHEMA, Setting, Tuning, Warning, Workload,
};
use crate::study::{GroupAxes, Matrix, Study};
use std::collections::BTreeSet;

/// 2026-11-21 05:12 UTC.
pub const STARTED: u64 = 1_795_237_920_000;

/// A reason that breaks a page that does not escape.
pub const ODD: &str = "<script>alert(\"1\")</script> & | 'geneve' _module_ is not there";

/// Every shape: name → run.
pub fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("jumbo", run()),
        ("scenarios", scenarios()),
        ("guests", guests()),
        ("cost", cost()),
        ("frames", frames()),
        ("itself", itself()),
        ("migrations", migrations()),
        ("every-axis", every_axis()),
    ]
}

/// Study A: TCP streams over MTU, instances and offload; all backends.
pub fn run() -> Run {
    let mut run = build(studies::JUMBO);
    run.warnings = vec![Warning::NotUndone {
        what: "the namespace <others>".to_owned(),
    }];
    spoil(&mut run);
    run
}

/// Study B: streams and transactions in sets of 3, difference views; ovs-geneve unavailable.
pub fn scenarios() -> Run {
    let mut run = build(studies::SCENARIOS);
    // The first set of one cell is too restless, so that all took a second one.
    if let Some(cell) = run
        .cells
        .iter_mut()
        .find(|c| c.key.backend == BackendName::KernelVxlan)
    {
        for sample in cell.samples.iter_mut().filter(|s| s.round == 2) {
            sample.goodput_gbps = sample.goodput_gbps.map(|gbps| gbps * 0.8);
        }
    }
    make_unavailable(&mut run, BackendName::OvsGeneve);
    run
}

/// Study C: socket buffers of 1 MB, 1 and 10 streams, two MTUs, the CPU of the guests.
pub fn guests() -> Run {
    build(studies::GUESTS)
}

/// Study D: streams, transactions and searched UDP rates; what VXLAN costs over a VLAN.
pub fn cost() -> Run {
    build(studies::COST)
}

/// Study E: frames by size behind a tester and a host, rates and searches, 1 and 4 pairs, 1 to 4096 VNIs.
/// Broken off before its end.
pub fn frames() -> Run {
    let mut run = build(studies::FRAMES);
    run.interrupted = true;
    let last = run.cells.last().map(|cell| cell.key.group);
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| Some(cell.key.group) == last)
    {
        cell.status = CellStatus::Open;
        cell.samples.truncate(3);
    }
    if let Some(cell) = run.cells.last_mut() {
        cell.samples.clear();
    }
    for cell in run
        .cells
        .iter_mut()
        .filter(|c| c.key.backend == BackendName::OverlaneVlan)
    {
        cell.samples
            .iter_mut()
            .for_each(|sample| sample.bound = Bound::Tool);
    }
    // One packet that nobody counted.
    let ovs = run
        .cells
        .iter_mut()
        .find(|c| c.key.backend == BackendName::OvsVxlan);
    if let Some(accounting) = ovs
        .and_then(|cell| cell.samples.last_mut())
        .and_then(|sample| sample.accounting.as_mut())
    {
        accounting.received -= 1;
        accounting.unexplained = 1;
    }
    run
}

/// Every network against itself.
pub fn itself() -> Run {
    build(studies::ITSELF)
}

/// Study C whole: two machines that move at once over two MTUs, one link and two, wire offload on and off; and the
/// guests' own traffic.
pub fn migrations() -> Run {
    let mut run = build(studies::MIGRATIONS);
    for cell in &mut run.cells {
        migrations::take_turns(cell);
    }
    run
}

/// A few cells on each axis that the other shapes do not have; netperf's rule.
pub fn every_axis() -> Run {
    let mut run = build(studies::EVERY_AXIS);
    for cell in &mut run.cells {
        if cell.key.group.setting.guests == GuestKind::Tap {
            cell.asymmetries.push(Asymmetry::Relay { count: 2 });
        }
        if cell.key.group.setting.tuning == Tuning::Best {
            cell.asymmetries.push(Asymmetry::NoGro {
                encapsulation: Encapsulation::Vxlan,
            });
        }
    }
    run
}

/// The groups of a matrix, in the order of its lists.
pub fn groups(matrix: &Matrix) -> Vec<(GroupKey, Vec<BackendName>)> {
    let of = |axes: &GroupAxes| {
        let backends = axes
            .backends
            .clone()
            .unwrap_or_else(|| matrix.backends.clone());
        let with = |group| (group, backends.clone());
        product(axes).into_iter().map(with).collect::<Vec<_>>()
    };
    matrix.groups.iter().flat_map(of).collect()
}

/// The product of a group's axes, one axis after the other.
fn product(axes: &GroupAxes) -> Vec<GroupKey> {
    let mut out = vec![GroupKey {
        workload: Workload {
            test: axes.tests[0],
            bytes: 0,
            instances: 0,
            buffer_bytes: axes.buffer_bytes,
            rate_pps: None,
            rate_mbps: None,
            search: axes.search,
            migration: axes.moves().then_some(Moving {
                dirty_percent: 0,
                dirty_mib_per_second: 0,
                links: 1,
                postcopy: false,
            }),
        },
        setting: Setting::default(),
    }];
    spread(&mut out, &axes.tests, |g, v| g.workload.test = v);
    spread(&mut out, &axes.bytes, |g, v| g.workload.bytes = v);
    spread(&mut out, &axes.instances, |g, v| g.workload.instances = v);
    if !axes.rate_pps.is_empty() {
        spread(&mut out, &axes.rate_pps, |g, v| {
            g.workload.rate_pps = Some(v)
        });
    }
    spread(&mut out, &axes.mtu, |g, v| g.setting.mtu_class = v);
    spread(&mut out, &axes.offload, |g, v| g.setting.offload = v);
    spread(&mut out, &axes.far_end, |g, v| g.setting.far_end = v);
    spread(&mut out, &axes.hosts, |g, v| g.setting.hosts = v);
    spread(&mut out, &axes.pairs, |g, v| g.setting.pairs = v);
    if axes.moves() {
        spread_machines(&mut out, axes);
    } else {
        spread(&mut out, &axes.guests, |g, v| g.setting.guests = v);
    }
    spread(&mut out, &axes.vnis, |g, v| g.setting.vnis = v);
    spread(&mut out, &axes.inner, |g, v| g.setting.inner = v);
    spread(&mut out, &axes.underlay, |g, v| g.setting.underlay = v);
    spread(&mut out, &axes.feature, |g, v| g.setting.feature = v);
    spread(&mut out, &axes.tuning, |g, v| g.setting.tuning = v);
    out
}

fn spread_machines(groups: &mut Vec<GroupKey>, axes: &GroupAxes) {
    fn set(group: &mut GroupKey, set: impl FnOnce(&mut Moving)) {
        group.workload.migration.as_mut().map(set);
    }
    spread(groups, &axes.guest_memory_mib, |g, v| {
        g.setting.guests = GuestKind::Qemu;
        g.setting.guest_memory_mib = Some(v);
    });
    spread(groups, &axes.dirty_percent, |g, v| {
        set(g, |moving| moving.dirty_percent = v);
    });
    spread(groups, &axes.dirty_mib_per_second, |g, v| {
        set(g, |moving| moving.dirty_mib_per_second = v);
    });
    spread(groups, &axes.links, |g, v| {
        set(g, |moving| moving.links = v)
    });
    spread(groups, &axes.postcopy, |g, v| {
        set(g, |moving| moving.postcopy = v);
    });
}

fn spread<T: Copy>(groups: &mut Vec<GroupKey>, values: &[T], set: impl Fn(&mut GroupKey, T)) {
    let each = |group: &GroupKey| {
        values
            .iter()
            .map(|&value| {
                let mut group = *group;
                set(&mut group, value);
                group
            })
            .collect::<Vec<_>>()
    };
    *groups = groups.iter().flat_map(each).collect();
}

/// As the laboratory builds the networks; Overlane's Geneve has OVN's option.
fn path_sizes(key: CellKey) -> Option<PathSizes> {
    let setting = key.group.setting;
    let header_bytes = match (key.backend.is_overlay(), key.backend) {
        (false, BackendName::Direct) => return None,
        (false, _) => 0,
        (true, BackendName::OverlaneGeneve) => 58,
        (true, _) => 50,
    };
    Some(PathSizes {
        underlay_mtu: setting.mtu_class.underlay_mtu(),
        header_bytes,
        guest_mtu: key.mtu(),
        between_mtu: Some(key.mtu()),
    })
}

fn build(study: &str) -> Run {
    let study: Study = serde_saphyr::from_str(study).unwrap();
    let matrix = study.quick.clone();
    let groups = groups(&matrix);
    let copies = if matrix.against_itself { 2 } else { 1 };
    let cell = |place: usize, key: CellKey| {
        let rounds = 0..=matrix.samples;
        Cell {
            key,
            status: CellStatus::Ok,
            path_proof: true,
            proof_detail: format!(
                "24 of 24 packets as declared: {:?}, VNI 5001 & no VLAN tag",
                key.backend.encapsulation()
            ),
            notes: Vec::new(),
            asymmetries: Vec::new(),
            path_sizes: path_sizes(key),
            samples: rounds
                .map(|round| samples::sample(place as u64, key, round))
                .collect(),
        }
    };
    let mut cells = Vec::new();
    for (group, backends) in &groups {
        // What differs in the feature alone takes turns.
        let plain = group.with_feature(Feature::Default);
        let turn = |other: &GroupKey| other.with_feature(Feature::Default) == plain;
        let place = groups.iter().position(|(other, _)| turn(other)).unwrap();
        for &backend in backends {
            for copy in 0..copies {
                cells.push(cell(
                    place,
                    CellKey {
                        copy,
                        ..group.cell(backend)
                    },
                ));
            }
        }
    }
    let with_traffic = groups
        .iter()
        .filter(|(group, _)| group.workload.migration.is_none());
    let references = with_traffic
        .map(|(group, _)| Reference {
            group: *group,
            value: 1.12 * samples::figure(group.cell(BackendName::Direct)),
        })
        .collect();
    let places: BTreeSet<Setting> = groups.iter().map(|(g, _)| g.setting.place()).collect();
    let idle = places.into_iter().map(samples::idle).collect();
    Run {
        schema: SCHEMA.to_owned(),
        quick: true,
        interrupted: false,
        env: environment::environment(&study.name),
        study,
        idle,
        references,
        cells,
        started_unix_ms: STARTED,
        finished_unix_ms: STARTED + 300_000,
        warnings: Vec::new(),
    }
}

fn make_unavailable(run: &mut Run, backend: BackendName) {
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| cell.key.backend == backend)
    {
        let reason = ODD.to_owned();
        *cell = Cell::empty(cell.key, CellStatus::Unavailable { reason });
    }
}

fn spoil(run: &mut Run) {
    make_unavailable(run, BackendName::OvsGeneve);
    let first = run.cells[0].key.group;
    for cell in &mut run.cells {
        let is_first = cell.key.group == first;
        match cell.key.backend {
            BackendName::OvsVxlan if cell.key.mtu() > 1500 => {
                let reason =
                    "`overlane traffic` exited with status 1: unable to connect".to_owned();
                cell.status = CellStatus::Failed { reason };
                cell.path_proof = false;
                cell.samples.truncate(3);
            }
            BackendName::OvsVxlan => {
                let note = "The guests’ checksum and segmentation offloads are off.";
                cell.notes.push(note.to_owned());
            }
            BackendName::Direct if !is_first => cell.samples.truncate(4),
            BackendName::Bridge if is_first => {
                if let Some(sample) = cell.samples.last_mut() {
                    sample.goodput_gbps = sample.goodput_gbps.map(|gbps| gbps * 0.6);
                }
            }
            _ => {}
        }
    }
}
