//! A run with fixed figures for the tests: like the quick study on a small machine, with everything that goes
//! wrong in it: an unavailable cell, a failed one, one with few samples, an outlier, names that need escaping.

use std::collections::BTreeMap;

use crate::record::{
    BackendName, Cell, CellKey, CellStatus, Cpu, CpuPerGbps, CpuUse, Environment, GroupKey, Hop,
    MtuClass, NoiseProbe, Run, SCHEMA, Sample,
};
use crate::study::Study;

/// 2026-11-21 05:12 UTC.
pub(crate) const STARTED: u64 = 1_795_237_920_000;

/// A reason that breaks a page that does not escape.
pub(crate) const ODD: &str = "<script>alert(\"1\")</script> & | 'geneve' _module_ is not there";

const ROUNDS: u32 = 6;

/// Small steady noise by round, the same for all, and a smaller one of each network's own.
const DRIFT: [f64; 7] = [0.97, 1.01, 1.0, 0.985, 1.015, 0.99, 1.005];

/// The run.
pub(crate) fn run() -> Run {
    let mut study = Study::shipped("jumbo-vxlan").unwrap();
    study.quick.backends = BackendName::ALL.to_vec();
    let mut cells: Vec<Cell> = groups()
        .into_iter()
        .enumerate()
        .flat_map(|(g, group)| BackendName::ALL.map(|backend| cell(g as u64, group, backend)))
        .collect();
    spoil(&mut cells);
    Run {
        schema: SCHEMA.to_owned(),
        study,
        quick: true,
        interrupted: false,
        planned_samples: ROUNDS,
        planned_seconds: 1.5,
        env: environment(),
        cells,
        started_unix_ms: STARTED,
        finished_unix_ms: STARTED + 300_000,
        warnings: vec!["The machine is a virtual one; <others> may share it.".to_owned()],
    }
}

/// The groups of the quick study.
pub(crate) fn groups() -> [GroupKey; 3] {
    [
        (MtuClass::Standard, 4, true),
        (MtuClass::Standard, 1, false),
        (MtuClass::Jumbo, 1, false),
    ]
    .map(|(mtu_class, streams, offload)| GroupKey {
        mtu_class,
        streams,
        offload,
    })
}

fn spoil(cells: &mut [Cell]) {
    for cell in cells {
        let first = cell.key.group() == groups()[0];
        match cell.key.backend {
            BackendName::OvsGeneve => {
                let status = CellStatus::Unavailable {
                    reason: ODD.to_owned(),
                };
                *cell = Cell::empty(cell.key, status);
            }
            BackendName::OvsVxlan if cell.key.mtu > 1500 => {
                let reason = "iperf3 exited with status 1: unable to connect".to_owned();
                cell.status = CellStatus::Failed { reason };
                cell.path_proof = false;
                cell.samples.truncate(3);
            }
            BackendName::OvsVxlan => {
                cell.notes
                    .push("The guests’ checksum and segmentation offloads are off.".to_owned());
            }
            BackendName::Direct if !first => cell.samples.truncate(4),
            BackendName::Bridge if first => {
                if let Some(sample) = cell.samples.last_mut() {
                    sample.goodput_gbps *= 0.6;
                }
            }
            _ => {}
        }
    }
}

fn cell(block: u64, group: GroupKey, backend: BackendName) -> Cell {
    let key = group.cell(backend);
    let samples = (0..=ROUNDS)
        .map(|round| sample(block, key, round))
        .collect();
    Cell {
        key,
        status: CellStatus::Ok,
        path_proof: true,
        proof_detail: format!(
            "24 of 24 packets as declared: {:?}, VNI 5001 & no VLAN tag",
            backend.encapsulation()
        ),
        notes: Vec::new(),
        samples,
    }
}

/// Gbit/s, CPU %/Gbit/s of a backend in each group.
fn level(key: CellKey) -> (f64, f64) {
    let by_group: [(f64, f64); 3] = match key.backend {
        BackendName::Direct => [(45.2, 3.8), (16.8, 8.1), (21.0, 6.0)],
        BackendName::Bridge => [(31.4, 6.0), (8.4, 16.2), (17.4, 8.6)],
        BackendName::KernelVxlan => [(24.8, 7.8), (7.31, 19.4), (17.2, 9.1)],
        BackendName::OvsVlan => [(0.95, 188.0), (0.93, 190.0), (1.0, 183.0)],
        BackendName::OvsVxlan | BackendName::OvsGeneve => {
            [(0.86, 204.0), (0.84, 207.0), (0.9, 199.0)]
        }
        BackendName::OverlaneVlan => [(40.1, 4.3), (8.5, 15.7), (18.1, 8.2)],
        BackendName::OverlaneVxlan => [(39.6, 4.4), (8.42, 15.9), (17.8, 8.4)],
        BackendName::OverlaneGeneve => [(38.9, 4.5), (5.6, 22.1), (17.3, 8.8)],
    };
    let position = groups().iter().position(|g| *g == key.group()).unwrap();
    by_group[position]
}

fn sample(block: u64, key: CellKey, round: u32) -> Sample {
    let (gbps, cost) = level(key);
    let backend = key.backend as u32;
    let own = 1.0 + 0.0025 * f64::from((round * 5 + backend * 3) % 11) - 0.0125;
    let goodput = gbps * DRIFT[round as usize % 7] * own;
    let seconds = 1.5;
    let packet = if key.offload {
        41_000.0
    } else {
        f64::from(key.mtu) + 50.0
    };
    let bytes = goodput * 1e9 / 8.0 * seconds * 1.03;
    let busy = goodput * cost / own;
    let cpu = |share: f64| CpuUse {
        busy_percent: busy * share,
        steal_percent: 0.2,
        user_percent: None,
        system_percent: None,
        softirq_percent: None,
    };
    Sample {
        cell: key,
        round,
        started_unix_ms: STARTED
            + block * 100_000
            + u64::from(round) * 14_000
            + u64::from(backend) * 1_550,
        seconds,
        window_seconds: seconds,
        discarded: (round == 0).then(|| "warm-up".to_owned()),
        goodput_gbps: goodput,
        retransmits: Some(u64::from((round * backend) % 4)),
        underlay_packets: (bytes / packet) as u64,
        underlay_bytes: bytes as u64,
        underlay_rate_pps: bytes / packet / seconds,
        underlay_packet_bytes: Some(packet),
        cpu: Cpu {
            sender: Some(cpu(0.52)),
            receiver: Some(cpu(0.48)),
            total: cpu(1.0),
        },
        cpu_percent_per_gbps: CpuPerGbps {
            sender: Some(busy * 0.52 / goodput),
            receiver: Some(busy * 0.48 / goodput),
            sum: Some(busy / goodput),
        },
    }
}

fn environment() -> Environment {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let probe = |when: &str, spread_percent| NoiseProbe {
        when: when.to_owned(),
        cpu: 0,
        median_us: 1012.0,
        spread_percent,
        worst_percent: 14.5,
    };
    Environment {
        kernel: "6.18.1 #1 SMP PREEMPT_DYNAMIC".to_owned(),
        os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        cmdline: "console=ttyS0 root=/dev/vda1 ro".to_owned(),
        cpu_model: "Intel(R) Xeon(R) Processor @ 2.60GHz".to_owned(),
        cpus: 2,
        memory_mib: 7966,
        virtualised: true,
        mitigations: map(&[
            ("spectre_v2", "Mitigation: Enhanced IBRS"),
            ("mds", "Not affected"),
        ]),
        sysctl: map(&[
            ("net.ipv4.tcp_congestion_control", "cubic"),
            ("net.core.rmem_max", "212992"),
        ]),
        tools: map(&[
            ("iperf3", "3.12"),
            ("ethtool", "6.1"),
            ("ovs-vswitchd", "3.1.0"),
        ]),
        cpu_accounting: "tick sampled at 250 Hz".to_owned(),
        host1_cpus: vec![0],
        host2_cpus: vec![1],
        hops: vec![Hop {
            topology: "bridge offload off".to_owned(),
            place: "host1".to_owned(),
            device: "up0".to_owned(),
            mtu: 1600,
            rps_cpus: vec![0],
            features: BTreeMap::from([
                ("tx-tcp-segmentation".to_owned(), false),
                ("rx-gro".to_owned(), true),
            ]),
            pause: None,
        }],
        noise: vec![probe("before", 2.1), probe("after", 11.7)],
        overlane_version: "0.1.0".to_owned(),
        command: "overlane lab run jumbo-vxlan --quick --out 'results/a & b <1>'".to_owned(),
        ..Environment::default()
    }
}
