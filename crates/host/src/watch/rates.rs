//! What happens on a host per second, for `overlane top`: the difference of two readings of its counters
//! and of the machine's CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::HostError;
use crate::observe::{self, Count, CounterMaps, Counters};

const STAT: &str = "/proc/stat";

/// Counters and CPUs at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    counters: Counters,
    cpus: BTreeMap<u32, Ticks>,
}

/// What happened between two readings, per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rates {
    /// The host.
    pub host: String,
    /// Between the readings of the drop reasons, and of the CPUs. Each port and remote has an interval of its own,
    /// which is about as long.
    pub interval_s: f64,
    /// Every logical port.
    pub ports: Vec<PortRates>,
    /// Every remote.
    pub remotes: Vec<RemoteRates>,
    /// The drop reasons that occurred.
    pub drops: Vec<DropRate>,
    /// Every CPU of the machine.
    pub cpus: Vec<CpuUse>,
}

/// Packets are what crossed the hook, segments what they are on a wire, bits those of the frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Packets per second.
    pub packets_pps: f64,
    /// Segments per second.
    pub segments_pps: f64,
    /// Bits per second.
    pub rate_bps: f64,
}

/// Rates of one logical port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortRates {
    /// Its name.
    pub port: String,
    /// Its logical switch.
    pub switch: String,
    /// Came from the port.
    pub from_port: Rate,
    /// Went to the port.
    pub to_port: Rate,
    /// Came from the port and was dropped.
    pub dropped: Rate,
}

/// Rates of one remote.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemoteRates {
    /// Its name.
    pub remote: String,
    /// Its VTEP.
    pub address: IpAddr,
    /// Went to it.
    pub to_remote: Rate,
    /// Came from it.
    pub from_remote: Rate,
    /// To or from it, and dropped.
    pub dropped: Rate,
}

/// How often one drop reason occurred at one hook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DropRate {
    /// The hook.
    pub hook: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// Per second.
    #[serde(flatten)]
    pub rate: Rate,
}

/// What one CPU did, in per cent of its time. The kernel samples this at its tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Receiving and sending packets, and interrupts.
    pub softirq_percent: f64,
    /// The rest of the kernel.
    pub system_percent: f64,
    /// Programs.
    pub user_percent: f64,
    /// Taken by the hypervisor.
    pub steal_percent: f64,
    /// Nothing.
    pub idle_percent: f64,
}

/// Columns of one CPU in `/proc/stat`, proc(5). Guest time is part of `user` there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    softirq: u64,
    steal: u64,
}

impl Reading {
    /// Reads the counters of `host` and the CPUs.
    pub fn now(host: &str) -> Result<Self, HostError> {
        // To open the maps takes long the first time: what is read at one moment is read after it.
        let maps = CounterMaps::open(host)?;
        let text = fs::read_to_string(STAT).map_err(HostError::file("read", Path::new(STAT)))?;
        let counters = maps.read()?;
        Ok(Self {
            counters,
            cpus: cpus(&text),
        })
    }

    /// What happened since `before`.
    pub fn since(&self, before: &Self) -> Rates {
        rates(&before.counters, &self.counters).with_cpus(&before.cpus, &self.cpus)
    }
}

impl Rates {
    fn with_cpus(mut self, before: &BTreeMap<u32, Ticks>, after: &BTreeMap<u32, Ticks>) -> Self {
        let pairs = after
            .iter()
            .filter_map(|(&cpu, now)| Some((cpu, before.get(&cpu)?, now)));
        self.cpus = pairs
            .map(|(cpu, then, now)| now.share_since(then, cpu))
            .collect();
        self
    }
}

impl Rate {
    fn between(before: Count, after: Count, interval: Duration) -> Self {
        let seconds = interval.as_secs_f64();
        // A counter that fell was started anew, and has counted from zero since.
        let rose = |before: u64, after: u64| after.checked_sub(before).unwrap_or(after);
        let per_second = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        Self {
            packets_pps: per_second(rose(before.packets, after.packets)),
            segments_pps: per_second(rose(before.segments, after.segments)),
            rate_bps: per_second(rose(before.bytes, after.bytes).saturating_mul(8)),
        }
    }

    /// The sum of two.
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets_pps: self.packets_pps + other.packets_pps,
            segments_pps: self.segments_pps + other.segments_pps,
            rate_bps: self.rate_bps + other.rate_bps,
        }
    }
}

fn rates(before: &Counters, after: &Counters) -> Rates {
    // What was not there before counts from zero, since then.
    let interval = |then: Option<Instant>, now: Option<Instant>| {
        let then = then.unwrap_or(before.at);
        now.unwrap_or(after.at).saturating_duration_since(then)
    };
    let rate = |before: Option<Count>, after: Count, interval: Duration| {
        Rate::between(before.unwrap_or_default(), after, interval)
    };
    let all = interval(None, None);
    let port = |now: &observe::PortCount| {
        let then = (before.ports.iter())
            .find(|then| (&then.port, &then.switch) == (&now.port, &now.switch));
        let interval = interval(then.and_then(|then| then.at), now.at);
        PortRates {
            port: now.port.clone(),
            switch: now.switch.clone(),
            from_port: rate(then.map(|then| then.from_port), now.from_port, interval),
            to_port: rate(then.map(|then| then.to_port), now.to_port, interval),
            dropped: rate(then.map(|then| then.dropped), now.dropped, interval),
        }
    };
    let remote = |now: &observe::RemoteCount| {
        let then = (before.remotes.iter()).find(|then| then.address == now.address);
        let interval = interval(then.and_then(|then| then.at), now.at);
        RemoteRates {
            remote: now.remote.clone(),
            address: now.address,
            to_remote: rate(then.map(|then| then.to_remote), now.to_remote, interval),
            from_remote: rate(then.map(|then| then.from_remote), now.from_remote, interval),
            dropped: rate(then.map(|then| then.dropped), now.dropped, interval),
        }
    };
    let reason = |now: &observe::VerdictCount| {
        let same =
            |then: &&observe::VerdictCount| (then.hook, then.verdict) == (now.hook, now.verdict);
        let then = before.verdicts.iter().find(same);
        DropRate {
            hook: now.hook,
            reason: now.verdict,
            rate: rate(then.map(|then| then.count), now.count, all),
        }
    };
    let drops = after.verdicts.iter().filter(|verdict| verdict.drop);
    Rates {
        host: after.host.clone(),
        interval_s: all.as_secs_f64(),
        ports: after.ports.iter().map(port).collect(),
        remotes: after.remotes.iter().map(remote).collect(),
        drops: drops
            .map(reason)
            .filter(|drop| drop.rate.packets_pps > 0.0)
            .collect(),
        cpus: Vec::new(),
    }
}

impl Ticks {
    fn of(columns: &[u64]) -> Option<Self> {
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = columns else {
            return None;
        };
        Some(Self {
            user: user + nice,
            system,
            idle: idle + iowait,
            softirq: irq + softirq,
            steal,
        })
    }

    fn share_since(&self, before: &Self, cpu: u32) -> CpuUse {
        // The idle column may step back by one (proc(5)).
        let parts = [
            self.softirq.saturating_sub(before.softirq),
            self.system.saturating_sub(before.system),
            self.user.saturating_sub(before.user),
            self.steal.saturating_sub(before.steal),
            self.idle.saturating_sub(before.idle),
        ];
        let all: u64 = parts.iter().sum();
        let [softirq, system, user, steal, idle] =
            parts.map(|part| 100.0 * part as f64 / all.max(1) as f64);
        CpuUse {
            cpu,
            softirq_percent: softirq,
            system_percent: system,
            user_percent: user,
            steal_percent: steal,
            idle_percent: idle,
        }
    }
}

/// The lines `cpu0`, `cpu1` and so on; the line `cpu` is their sum.
fn cpus(stat: &str) -> BTreeMap<u32, Ticks> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words
            .next()
            .filter(|_| !line.starts_with("cpu "))?
            .parse()
            .ok()?;
        let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        Some((cpu, Ticks::of(&columns)?))
    };
    stat.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    use crate::observe::{OnUnderlay, PortCount, RemoteCount, VerdictCount};

    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    const LATER: Duration = Duration::from_millis(100);

    fn count(packets: u64) -> Count {
        Count {
            packets,
            segments: packets * 2,
            bytes: packets * 125,
        }
    }

    /// Read `ms` after some moment: the verdicts, then the port 100 ms later, then the remote 100 ms later.
    fn counters(ms: u64, from_port: u64, to_remote: u64, spoofed: u64) -> Counters {
        let at = *BEGIN + Duration::from_millis(ms);
        let verdict = |verdict, drop, packets| VerdictCount {
            hook: "from_port",
            verdict,
            drop,
            count: count(packets),
        };
        Counters {
            host: "h1".to_owned(),
            at,
            verdicts: vec![
                verdict("encap", false, to_remote),
                verdict("spoofed_ip", true, spoofed),
                verdict("spoofed_mac", true, 7),
            ],
            ports: vec![port_count(at, count(from_port), count(spoofed))],
            remotes: vec![RemoteCount {
                remote: "h2".to_owned(),
                address: IpAddr::from([198, 18, 0, 2]),
                at: Some(at + 2 * LATER),
                to_remote: count(to_remote),
                from_remote: count(0),
                dropped: count(0),
            }],
        }
    }

    fn port_count(at: Instant, from_port: Count, dropped: Count) -> PortCount {
        PortCount {
            port: "a1".to_owned(),
            switch: "blue".to_owned(),
            at: Some(at + LATER),
            on_underlay: OnUnderlay::of(5001),
            from_port,
            to_port: count(3),
            dropped,
            untold: count(0),
            longest: 1442,
            longest_segment: 0,
        }
    }

    #[test]
    fn rates_are_differences_by_the_second() {
        let rates = rates(&counters(0, 100, 90, 5), &counters(2000, 300, 190, 15));
        let port = &rates.ports[0];
        assert_eq!(port.from_port.packets_pps, 100.0);
        assert_eq!(port.from_port.segments_pps, 200.0);
        assert_eq!(port.from_port.rate_bps, 100_000.0);
        assert_eq!(port.to_port, Rate::default());
        assert_eq!(port.dropped.packets_pps, 5.0);
        assert_eq!(rates.remotes[0].to_remote.packets_pps, 50.0);
        // What was dropped before is no rate.
        let drops: Vec<_> = rates.drops.iter().map(|drop| drop.reason).collect();
        assert_eq!(drops, ["spoofed_ip"]);
        assert_eq!(rates.drops[0].rate.packets_pps, 5.0);
    }

    #[test]
    fn a_counter_that_started_anew_counts_from_zero() {
        let rates = rates(&counters(0, 1000, 0, 0), &counters(1000, 10, 0, 0));
        assert_eq!(rates.ports[0].from_port.packets_pps, 10.0);
    }

    #[test]
    fn a_new_port_counts_from_zero() {
        let mut before = counters(0, 0, 0, 0);
        before.ports.clear();
        before.remotes.clear();
        let rates = rates(&before, &counters(900, 10, 22, 0));
        assert_eq!(rates.ports[0].from_port.packets_pps, 10.0);
        assert_eq!(rates.remotes[0].to_remote.packets_pps, 20.0);
    }

    #[test]
    fn each_rate_is_over_its_own_interval() {
        let mut after = counters(1000, 150, 500, 20);
        after.ports[0].at = after.ports[0].at.map(|at| at + 5 * LATER);
        after.remotes[0].at = after.remotes[0].at.map(|at| at - 5 * LATER);
        let rates = rates(&counters(0, 0, 0, 0), &after);
        assert_eq!(rates.interval_s, 1.0);
        assert_eq!(rates.ports[0].from_port.packets_pps, 100.0);
        assert_eq!(rates.remotes[0].to_remote.packets_pps, 1000.0);
        assert_eq!(rates.drops[0].rate.packets_pps, 20.0);
    }

    #[test]
    fn cpus_are_shares_of_their_own_time() {
        let before = cpus(
            "cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 5 0 0 100 0 0 0 0\nintr 1\n",
        );
        let after =
            cpus("cpu  9 9 9 9 9 9 9 9\ncpu0 10 10 20 30 10 5 15 0 0 0\ncpu1 5 0 0 99 0 0 0 0\n");
        let shares = rates(&counters(0, 0, 0, 0), &counters(0, 0, 0, 0))
            .with_cpus(&before, &after)
            .cpus;
        assert_eq!(
            shares[0],
            CpuUse {
                cpu: 0,
                softirq_percent: 20.0,
                system_percent: 20.0,
                user_percent: 20.0,
                steal_percent: 0.0,
                idle_percent: 40.0,
            }
        );
        // Stepped back by one: nothing is known, and nothing is claimed.
        assert_eq!(
            shares[1],
            CpuUse {
                cpu: 1,
                ..CpuUse::default()
            }
        );
        assert_eq!(shares.len(), 2);
    }
}
