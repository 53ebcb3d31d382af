use super::*;
use overlane_analysis::record::{CpuUse, SampledTicks};

fn reading(at_ms: u64, cpu_ms: u64, counters: Counters) -> Reading {
    Reading {
        at_ns: at_ms * 1_000_000,
        cpu_ns: cpu_ms * 1_000_000,
        counters,
        ..Reading::default()
    }
}

fn bytes(received_bytes: u64) -> Counters {
    Counters {
        received_bytes,
        ..Counters::default()
    }
}

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-9 * expected.abs().max(1.0),
        "{found} {expected}"
    );
}

#[test]
fn goodput_is_of_received_bytes_over_the_agents_own_time() {
    let first = Readings {
        senders: vec![reading(0, 0, bytes(0)); 2],
        receivers: vec![reading(1000, 0, bytes(5)), reading(0, 0, bytes(0))],
    };
    let last = Readings {
        senders: vec![
            reading(1000, 0, bytes(0)),
            reading(1000, 0, bytes(250_000_000)),
        ],
        receivers: vec![
            reading(3000, 0, bytes(1_000_000_005)),
            reading(1000, 0, bytes(125_000_000)),
        ],
    };
    let rates = Rates::of(Test::TcpBidirec, &first, &last);
    // 4 and 1 Gbit/s one way, 2 Gbit/s the other.
    close(rates.goodput_gbps.unwrap(), 7.0);
    assert_eq!(
        (rates.transactions_per_second, rates.rate_pps),
        (None, None)
    );
    close(rates.primary(Test::TcpBidirec), 7.0);
    assert_eq!(
        rise_of_all(&first, &last, |of| of.received_bytes),
        1_375_000_000
    );
    // A reading without time between says nothing.
    close(
        rate(&first.senders, &first.senders, |of| of.received_bytes),
        0.0,
    );
}

#[test]
fn each_test_has_its_figures() {
    let at = |at_ms, transactions, received_packets| {
        let counters = Counters {
            transactions,
            received_packets,
            received_bytes: received_packets * 18,
            ..Counters::default()
        };
        Readings {
            senders: vec![reading(at_ms, 0, counters)],
            receivers: vec![reading(at_ms, 0, counters)],
        }
    };
    let (first, last) = (at(0, 0, 0), at(2000, 80_000, 0));
    let rates = Rates::of(Test::UdpRr, &first, &last);
    close(rates.transactions_per_second.unwrap(), 40_000.0);
    assert_eq!((rates.goodput_gbps, rates.rate_pps), (None, None));
    let rates = Rates::of(Test::FrameStream, &first, &at(500, 0, 100_000));
    close(rates.primary(Test::FrameStream), 200_000.0);
    assert_eq!(rates.transactions_per_second, None);
    // Super-packets: by goodput, with the rate beside it.
    let rates = Rates::of(Test::UdpGsoStream, &first, &at(500, 0, 100_000));
    // Both sides of this reading have received.
    close(rates.primary(Test::UdpGsoStream), 2.0 * 2e5 * 18.0 * 8e-9);
    close(rates.rate_pps.unwrap(), 200_000.0);
}

#[test]
fn a_rate_that_was_asked_for_is_told_in_the_unit_of_the_figure() {
    let workload = |test| Workload {
        test,
        bytes: 1400,
        instances: 4,
        buffer_bytes: None,
        rate_pps: Some(100_000),
        search: None,
        migration: None,
        rate_mbps: None,
    };
    close(at_rate(workload(Test::UdpStream), 1e5), 1e5);
    close(at_rate(workload(Test::UdpGsoStream), 1e5), 1.12);
}

#[test]
fn paced_streams_count_every_pair_and_way() {
    let workload = |test| Workload {
        test,
        bytes: 16384,
        instances: 8,
        buffer_bytes: None,
        rate_pps: None,
        rate_mbps: Some(2000),
        search: None,
        migration: None,
    };
    close(paced_gbps(workload(Test::TcpStream), 3).unwrap(), 6.0);
    close(paced_gbps(workload(Test::TcpBidirec), 1).unwrap(), 4.0);
    let free = Workload {
        rate_mbps: None,
        ..workload(Test::TcpStream)
    };
    assert_eq!(paced_gbps(free, 1), None);
}

#[test]
fn guests_cpu_is_a_sum_and_never_invented() {
    let first = [reading(0, 100, bytes(0)), reading(0, 0, bytes(0))];
    let last = [reading(2000, 1100, bytes(0)), reading(1000, 250, bytes(0))];
    close(guest_percent(&first, &last).unwrap(), 75.0);
    assert_eq!(guest_percent(&[], &[]), None);
    assert_eq!(guest_percent(&first, &first), None);
}

fn totals(due: u64, sent: u64, refused: u64, received: u64) -> Totals {
    let sender = Counters {
        due_packets: due,
        sent_packets: sent,
        refused_packets: refused,
        ..Counters::default()
    };
    let receiver = Counters {
        received_packets: received,
        ..Counters::default()
    };
    Totals {
        readings: Readings {
            senders: vec![reading(0, 0, sender)],
            receivers: vec![reading(0, 0, receiver)],
        },
        tcp: Vec::new(),
    }
}

#[test]
fn loss_is_of_what_was_due() {
    let paced = Offered::of(&totals(1000, 900, 40, 800), true);
    assert_eq!(paced.missed, 60);
    close(paced.loss_percent().unwrap(), 20.0);
    let free = Offered::of(&totals(0, 900, 40, 800), false);
    assert_eq!((free.due, free.missed), (900, 0));
    close(free.loss_percent().unwrap(), 100.0 / 9.0);
    assert_eq!(Offered::of(&totals(0, 0, 0, 0), true).loss_percent(), None);
    // More than was due came: duplicates are counted elsewhere, and are no negative loss.
    close(
        Offered::of(&totals(10, 10, 0, 11), true)
            .loss_percent()
            .unwrap(),
        0.0,
    );
}

#[test]
fn the_bound_is_named() {
    let offered = |due, missed| {
        Some(Offered {
            due,
            missed,
            sent: due - missed,
            received: due - missed,
        })
    };
    let cpus = Cpus {
        host1: vec![0, 1],
        host2: vec![2, 3],
    };
    let time = |cpu, busy_percent: f64, user| CpuTime {
        cpu,
        wall_seconds: 1.0,
        idle_seconds: 1.0 - busy_percent / 100.0,
        sampled: SampledTicks {
            user,
            softirq: 100,
            ..SampledTicks::default()
        },
        ..CpuTime::default()
    };
    let cpu = |busy: [f64; 4]| Cpu {
        cpus: (0..4).map(|cpu| time(cpu, busy[cpu], 20)).collect(),
        ..Cpu::default()
    };
    let free = cpu([50.0, 90.0, 60.0, 94.0]);
    for (busy, expected) in [
        ([50.0, 90.0, 60.0, 94.0], Bound::Nothing),
        // One CPU of several is enough: a flow has no more.
        ([10.0, 99.0, 60.0, 10.0], Bound::SenderCpu),
        ([10.0, 60.0, 95.0, 10.0], Bound::ReceiverCpu),
        ([99.0, 60.0, 10.0, 99.0], Bound::BothCpus),
    ] {
        assert_eq!(bound(9.0, None, None, &cpu(busy), &cpus, false), expected);
    }
    // The programs' own code filled the CPU; a full CPU with few ticks says nothing of whose it was.
    let mut own = cpu([99.0, 0.0, 0.0, 0.0]);
    own.cpus[0] = time(0, 99.0, 150);
    assert_eq!(bound(9.0, None, None, &own, &cpus, false), Bound::Tool);
    assert_eq!(bound(9.0, None, None, &own, &cpus, true), Bound::SenderCpu);
    own.cpus[0].sampled.softirq = 0;
    own.cpus[0].sampled.user = 49;
    assert_eq!(bound(9.0, None, None, &own, &cpus, false), Bound::SenderCpu);
    // A rate that was met is the bound, whatever the CPUs did; one that the tool did not send is the tool's.
    let full = cpu([99.0; 4]);
    let at = |figure, missed| {
        bound(
            figure,
            Some(100.0),
            offered(1000, missed),
            &full,
            &cpus,
            false,
        )
    };
    assert_eq!(at(99.5, 0), Bound::Rate);
    assert_eq!(at(90.0, 10), Bound::BothCpus);
    assert_eq!(at(90.0, 11), Bound::Tool);
    assert_eq!(
        bound(90.0, Some(100.0), None, &free, &cpus, false),
        Bound::Nothing
    );
}

#[test]
fn costs_are_none_without_a_rate() {
    let of = |busy_percent| CpuUse {
        busy_percent,
        steal_percent: 0.0,
    };
    let cpu = Cpu {
        sender: Some(of(80.0)),
        receiver: None,
        total: of(180.0),
        ..Cpu::default()
    };
    let cost = cpu_per_gbps(&cpu, Some(20.0));
    assert_eq!(
        (cost.sender, cost.receiver, cost.sum),
        (Some(4.0), None, Some(9.0))
    );
    assert_eq!(cpu_per_gbps(&cpu, Some(0.0)), CpuPerGbps::default());
    assert_eq!(cpu_per_gbps(&cpu, None), CpuPerGbps::default());
    // 1.8 CPUs over 90 000 transactions a second.
    close(cpu_us_per(&cpu, Some(90_000.0)).unwrap(), 20.0);
    assert_eq!(cpu_us_per(&cpu, Some(0.0)), None);
    assert_eq!(cpu_us_per(&cpu, None), None);
}

#[test]
fn connections_are_told_by_their_medians() {
    let state = |rtt_us, send_mss_bytes| TcpState {
        rtt_us,
        send_mss_bytes,
        ..TcpState::default()
    };
    let summary = tcp_summary(&[state(90, 1448), state(10, 1448), state(30, 1448)]).unwrap();
    assert_eq!((summary.connections, summary.send_mss_bytes), (3, 1448));
    close(summary.rtt_us, 30.0);
    close(
        tcp_summary(&[state(10, 1), state(20, 1)]).unwrap().rtt_us,
        15.0,
    );
    assert_eq!(tcp_summary(&[]), None);
}

#[test]
fn the_largest_losses_come_first() {
    let mut accounting = Accounting::default();
    assert!(lost_in_words(&accounting).contains("no counter"));
    accounting.lost = [("a", 1), ("b", 5), ("c", 3), ("d", 2)]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    assert_eq!(lost_in_words(&accounting), "b 5, c 3, d 2");
}
