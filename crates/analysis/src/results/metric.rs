//! The quantities of a sample by name: the one list that figures, comparisons, tables and files share.

use crate::record::{Cell, Latency, Migration, Moved, Sample, Test};
use crate::stats::{Better, mean};

/// One quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Payload that reached the receivers.
    Goodput,
    /// Completed transactions.
    Transactions,
    /// Numbered packets that reached the receivers.
    Rate,
    /// Share of the due packets that did not arrive.
    Loss,
    /// Transactions that timed out, in one sample.
    Timeouts,
    /// Mean latency.
    LatencyMean,
    /// Half of the latencies are below.
    LatencyP50,
    /// 90 % of the latencies are below.
    LatencyP90,
    /// 99 % of the latencies are below.
    LatencyP99,
    /// 99.9 % of the latencies are below.
    LatencyP999,
    /// CPU % per Gbit/s, all hosts together.
    CpuPerGbps,
    /// CPU % per Gbit/s of the sending host.
    CpuPerGbpsSender,
    /// CPU % per Gbit/s of the receiving hosts.
    CpuPerGbpsReceiver,
    /// CPU time of all hosts for one transaction.
    CpuPerTransaction,
    /// CPU time of all hosts for one packet that arrived.
    CpuPerPacket,
    /// Busy CPU % of the sending host.
    CpuSender,
    /// Busy CPU % of the receiving hosts.
    CpuReceiver,
    /// Busy CPU % of all hosts.
    CpuTotal,
    /// Busy share of all CPUs of the hosts: study B's "CPU %, mean of both hosts".
    CpuMean,
    /// CPU % of the sending guests' own programs.
    GuestSender,
    /// CPU % of the receiving guests' own programs.
    GuestReceiver,
    /// CPU % of the relays of the sending guests; virtual machines alone.
    RelaySender,
    /// CPU % of the relays of the receiving guests; virtual machines alone.
    RelayReceiver,
    /// Packets per second on the underlay.
    UnderlayRate,
    /// Mean size of a packet on the underlay.
    UnderlayPacket,
    /// Packets that one transaction puts on the underlay.
    UnderlayPackets,
    /// Bytes that one transaction puts on the underlay.
    UnderlayBytes,
    /// TCP segments sent again, in one sample.
    Retransmits,
    /// Smoothed round-trip time of the sending connections.
    TcpRtt,
    /// From the beginning of a migration until the last machine runs at the other host.
    MigrationTime,
    /// The longest time that a machine stood still.
    Downtime,
    /// How much of that the network took to switch over.
    Switching,
    /// How often the memory was gone through for what had changed.
    DirtyRounds,
    /// Memory and state that was sent.
    Transferred,
    /// How fast the program of a machine really wrote memory meanwhile, mean over the machines.
    Dirtied,
    /// The longest time in which a flow to a machine that moved got no answer.
    FlowGap,
    /// The same of the datagrams alone.
    UdpGap,
    /// The same of the TCP connections alone.
    TcpGap,
    /// Datagrams to machines that moved which did not come back, in one sample.
    FlowLost,
    /// Used memory of the machine.
    Memory,
    /// Resident memory of the sending guests' programs.
    GuestSenderMemory,
    /// Resident memory of the receiving guests' programs.
    GuestReceiverMemory,
}

impl Metric {
    /// Every metric, in the order of `result.json` and `cells.csv`.
    pub const ALL: [Self; 42] = [
        Self::Goodput,
        Self::Transactions,
        Self::Rate,
        Self::Loss,
        Self::Timeouts,
        Self::LatencyMean,
        Self::LatencyP50,
        Self::LatencyP90,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::CpuPerGbps,
        Self::CpuPerGbpsSender,
        Self::CpuPerGbpsReceiver,
        Self::CpuPerTransaction,
        Self::CpuPerPacket,
        Self::CpuSender,
        Self::CpuReceiver,
        Self::CpuTotal,
        Self::CpuMean,
        Self::GuestSender,
        Self::GuestReceiver,
        Self::RelaySender,
        Self::RelayReceiver,
        Self::UnderlayRate,
        Self::UnderlayPacket,
        Self::UnderlayPackets,
        Self::UnderlayBytes,
        Self::Retransmits,
        Self::TcpRtt,
        Self::MigrationTime,
        Self::Downtime,
        Self::Switching,
        Self::DirtyRounds,
        Self::Transferred,
        Self::Dirtied,
        Self::FlowGap,
        Self::UdpGap,
        Self::TcpGap,
        Self::FlowLost,
        Self::Memory,
        Self::GuestSenderMemory,
        Self::GuestReceiverMemory,
    ];

    /// The figure of a test: what its cells are compared by first.
    pub const fn primary(test: Test) -> Self {
        match test {
            Test::TcpStream | Test::TcpReverse | Test::TcpBidirec | Test::UdpGsoStream => {
                Self::Goodput
            }
            Test::TcpRr | Test::TcpCrr | Test::UdpRr => Self::Transactions,
            Test::UdpStream | Test::FrameStream => Self::Rate,
            Test::Migration => Self::MigrationTime,
        }
    }

    /// What the figure of a test costs in CPU.
    pub const fn cost(test: Test) -> Self {
        match test {
            Test::TcpStream
            | Test::TcpReverse
            | Test::TcpBidirec
            | Test::UdpGsoStream
            | Test::Migration => Self::CpuPerGbps,
            Test::TcpRr | Test::TcpCrr | Test::UdpRr => Self::CpuPerTransaction,
            Test::UdpStream | Test::FrameStream => Self::CpuPerPacket,
        }
    }

    /// What the tables of cells show of a test, in this order.
    pub const fn columns(test: Test) -> &'static [Self] {
        match test {
            Test::TcpStream | Test::TcpReverse | Test::TcpBidirec => &[
                Self::Goodput,
                Self::CpuPerGbps,
                Self::CpuSender,
                Self::CpuReceiver,
                Self::UnderlayRate,
                Self::UnderlayPacket,
                Self::Retransmits,
            ],
            Test::TcpRr | Test::TcpCrr | Test::UdpRr => &[
                Self::Transactions,
                Self::CpuPerTransaction,
                Self::LatencyP50,
                Self::LatencyP99,
                Self::CpuSender,
                Self::CpuReceiver,
                Self::UnderlayPackets,
                Self::UnderlayBytes,
            ],
            Test::UdpGsoStream => &[
                Self::Goodput,
                Self::Rate,
                Self::Loss,
                Self::CpuPerGbps,
                Self::CpuSender,
                Self::CpuReceiver,
                Self::UnderlayRate,
                Self::UnderlayPacket,
            ],
            Test::UdpStream | Test::FrameStream => &[
                Self::Rate,
                Self::Goodput,
                Self::Loss,
                Self::CpuPerPacket,
                Self::CpuSender,
                Self::CpuReceiver,
                Self::LatencyP50,
                Self::LatencyP99,
            ],
            Test::Migration => &[
                Self::MigrationTime,
                Self::Downtime,
                Self::Goodput,
                Self::DirtyRounds,
                Self::Transferred,
                Self::FlowGap,
                Self::FlowLost,
                Self::CpuPerGbps,
                Self::CpuTotal,
                Self::UnderlayPacket,
            ],
        }
    }

    /// Its key in `result.json`, `cells.csv` and the `published.ratios` of a study file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_gbps",
            Self::Transactions => "transactions_per_second",
            Self::Rate => "rate_pps",
            Self::Loss => "loss_percent",
            Self::Timeouts => "timeouts",
            Self::LatencyMean => "latency_mean_us",
            Self::LatencyP50 => "latency_p50_us",
            Self::LatencyP90 => "latency_p90_us",
            Self::LatencyP99 => "latency_p99_us",
            Self::LatencyP999 => "latency_p999_us",
            Self::CpuPerGbps => "cpu_percent_per_gbps",
            Self::CpuPerGbpsSender => "cpu_percent_per_gbps_sender",
            Self::CpuPerGbpsReceiver => "cpu_percent_per_gbps_receiver",
            Self::CpuPerTransaction => "cpu_us_per_transaction",
            Self::CpuPerPacket => "cpu_us_per_packet",
            Self::CpuSender => "cpu_percent_sender",
            Self::CpuReceiver => "cpu_percent_receiver",
            Self::CpuTotal => "cpu_percent_total",
            Self::CpuMean => "cpu_percent_mean",
            Self::GuestSender => "guest_percent_sender",
            Self::GuestReceiver => "guest_percent_receiver",
            Self::RelaySender => "relay_percent_sender",
            Self::RelayReceiver => "relay_percent_receiver",
            Self::UnderlayRate => "underlay_rate_pps",
            Self::UnderlayPacket => "underlay_packet_bytes",
            Self::UnderlayPackets => "underlay_packets_per_transaction",
            Self::UnderlayBytes => "underlay_bytes_per_transaction",
            Self::Retransmits => "retransmits",
            Self::TcpRtt => "tcp_rtt_us",
            Self::MigrationTime => "migration_seconds",
            Self::Downtime => "migration_downtime_ms",
            Self::Switching => "migration_switch_ms",
            Self::DirtyRounds => "migration_dirty_rounds",
            Self::Transferred => "migration_transferred_mib",
            Self::Dirtied => "migration_dirtied_mib_per_second",
            Self::FlowGap => "flow_longest_gap_ms",
            Self::UdpGap => "udp_longest_gap_ms",
            Self::TcpGap => "tcp_longest_gap_ms",
            Self::FlowLost => "flow_lost_datagrams",
            Self::Memory => "memory_machine_mib",
            Self::GuestSenderMemory => "memory_guest_sender_mib",
            Self::GuestReceiverMemory => "memory_guest_receiver_mib",
        }
    }

    /// The metric of a key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.key() == key)
    }

    /// Its value in one sample; `None` when it was not measured.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let latency = |of: fn(&Latency) -> f64| sample.latency.as_ref().map(of);
        let moved = |of: fn(&Migration) -> f64| sample.migration.as_ref().map(of);
        let (cpu, per_gbps, memory) = (&sample.cpu, &sample.cpu_percent_per_gbps, &sample.memory);
        let per_transaction = |count: u64| {
            let transactions = sample.transactions_per_second? * sample.window_seconds;
            Some(count as f64 / transactions)
        };
        let value = match self {
            Self::Goodput => sample.goodput_gbps,
            Self::Transactions => sample.transactions_per_second,
            Self::Rate => sample.rate_pps,
            Self::Loss => sample.loss_percent,
            Self::Timeouts => sample.timeouts.map(|count| count as f64),
            Self::LatencyMean => latency(|l| l.mean_us),
            Self::LatencyP50 => latency(|l| l.p50_us),
            Self::LatencyP90 => latency(|l| l.p90_us),
            Self::LatencyP99 => latency(|l| l.p99_us),
            Self::LatencyP999 => latency(|l| l.p999_us),
            Self::CpuPerGbps => per_gbps.sum,
            Self::CpuPerGbpsSender => per_gbps.sender,
            Self::CpuPerGbpsReceiver => per_gbps.receiver,
            Self::CpuPerTransaction => sample.cpu_us_per_transaction,
            Self::CpuPerPacket => sample.cpu_us_per_packet,
            Self::CpuSender => cpu.sender.as_ref().map(|host| host.busy_percent),
            Self::CpuReceiver => cpu.receiver.as_ref().map(|hosts| hosts.busy_percent),
            Self::CpuTotal => Some(cpu.total.busy_percent),
            Self::CpuMean => Some(cpu.total.busy_percent / cpu.cpus.len() as f64),
            Self::GuestSender => cpu.guest_sender_percent,
            Self::GuestReceiver => cpu.guest_receiver_percent,
            Self::RelaySender => cpu.relay_sender_percent,
            Self::RelayReceiver => cpu.relay_receiver_percent,
            Self::UnderlayRate => Some(sample.underlay_rate_pps),
            Self::UnderlayPacket => sample.underlay_packet_bytes,
            Self::UnderlayPackets => per_transaction(sample.underlay_packets),
            Self::UnderlayBytes => per_transaction(sample.underlay_bytes),
            Self::Retransmits => sample.retransmits.map(|count| count as f64),
            Self::TcpRtt => sample.tcp.as_ref().map(|tcp| tcp.rtt_us),
            Self::MigrationTime => moved(|migration| migration.seconds),
            Self::Downtime => moved(Migration::downtime_ms),
            Self::Switching => moved(|one| most(one, |machine| machine.switch_ms)),
            Self::DirtyRounds => moved(|migration| migration.dirty_rounds() as f64),
            Self::Transferred => {
                moved(|migration| migration.transferred_bytes() as f64 / f64::from(1 << 20))
            }
            Self::Dirtied => {
                let machines = &sample.migration.as_ref()?.machines;
                let all = machines
                    .iter()
                    .map(|machine| machine.dirtied_mib_per_second);
                mean(&all.collect::<Vec<_>>())
            }
            Self::FlowGap => moved(|migration| migration.longest_gap_ms() as f64),
            Self::UdpGap => moved(|one| most(one, |machine| machine.udp.longest_gap_ms as f64)),
            Self::TcpGap => moved(|one| most(one, |machine| machine.tcp.longest_gap_ms as f64)),
            Self::FlowLost => moved(|migration| migration.lost() as f64),
            Self::Memory => Some(memory.machine_mib),
            Self::GuestSenderMemory => memory.guest_sender_mib,
            Self::GuestReceiverMemory => memory.guest_receiver_mib,
        };
        // A rate over nothing (no CPU was read, an empty window) was not measured.
        value.filter(|value| value.is_finite())
    }

    /// The values of a cell that count, each with its round, in the order of the rounds.
    pub fn row(self, cell: &Cell) -> Vec<(u32, f64)> {
        let mut row: Vec<(u32, f64)> = cell
            .counted()
            .filter_map(|sample| Some((sample.round, self.of(sample)?)))
            .collect();
        row.sort_by_key(|&(round, _)| round);
        row
    }

    /// Which way it is better.
    pub const fn better(self) -> Better {
        match self {
            Self::Goodput | Self::Transactions | Self::Rate => Better::Higher,
            _ => Better::Lower,
        }
    }
}

/// Of the machine that has the most.
fn most(migration: &Migration, of: fn(&Moved) -> f64) -> f64 {
    migration.machines.iter().map(of).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_are_read_back() {
        let keys: BTreeSet<_> = Metric::ALL.map(Metric::key).into();
        assert_eq!(keys.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            assert_eq!(Metric::from_key(metric.key()), Some(metric));
        }
        assert_eq!(Metric::from_key("goodput"), None);
    }

    #[test]
    fn the_figure_of_each_test_stands_first_in_its_columns() {
        for test in Test::ALL {
            let columns = Metric::columns(test);
            assert_eq!(columns.first(), Some(&Metric::primary(test)), "{test}");
            assert!(columns.contains(&Metric::cost(test)), "{test}");
            let is_time = test == Test::Migration;
            let better = if is_time {
                Better::Lower
            } else {
                Better::Higher
            };
            assert_eq!(Metric::primary(test).better(), better, "{test}");
            assert_eq!(Metric::cost(test).better(), Better::Lower);
        }
    }
}
