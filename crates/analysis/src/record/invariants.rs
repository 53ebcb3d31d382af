//! What holds in every sample. One that breaks a rule is no measurement: it is discarded with the reason.

use super::{Cpu, CpuTime, CpuUse, Environment, Sample};
use std::fmt;

/// How far the parts of a CPU's time may miss the wall clock, in per cent of it.
const PARTS_PERCENT: f64 = 1.0;

/// The grain of the kernel's counters (USER_HZ), once for each reading.
const GRAIN_SECONDS: f64 = 0.02;

/// How far a sum may miss its parts, in per cent of one CPU: rounding.
const ROUNDING_PERCENT: f64 = 0.01;

/// A rule that a sample breaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Broken {
    /// A CPU of the laboratory has no reading, or one of another length than the window.
    Window {
        /// The CPU.
        cpu: usize,
        /// How long its counters were watched.
        wall_seconds: f64,
        /// How long the window was.
        window_seconds: f64,
    },
    /// The parts of a CPU's time are more than its wall clock.
    Parts {
        /// The CPU.
        cpu: usize,
        /// Idle, waiting and stolen, in per cent of the wall clock.
        percent: f64,
    },
    /// What is said of a host is not the sum of its CPUs.
    Sum {
        /// `sender`, `receiver`, `total`.
        of: &'static str,
        /// What is said.
        said_percent: f64,
        /// The sum.
        sum_percent: f64,
    },
    /// Programs used more than the CPUs that they ran on.
    Guests {
        /// `sending`, `receiving`, or `two` for both.
        of: &'static str,
        /// What they used, relays included, in per cent of one CPU.
        guest_percent: f64,
        /// What their CPUs were busy.
        busy_percent: f64,
    },
    /// A quantity is negative, or no number.
    Negative {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window {
                cpu,
                wall_seconds,
                window_seconds,
            } => write!(
                f,
                "CPU {cpu} was watched for {wall_seconds:.3} s of a window of {window_seconds:.3} s"
            ),
            Self::Parts { cpu, percent } => write!(
                f,
                "CPU {cpu} was idle, waiting or stolen for {percent:.1} % of the wall clock"
            ),
            Self::Sum {
                of,
                said_percent,
                sum_percent,
            } => write!(
                f,
                "CPU of {of} is {said_percent:.1} %, the sum of its CPUs {sum_percent:.1} %"
            ),
            Self::Guests {
                of,
                guest_percent,
                busy_percent,
            } => write!(
                f,
                "the {of} guests' programs used {guest_percent:.1} % of a CPU, more than the {busy_percent:.1} % of their hosts"
            ),
            Self::Negative { what, value } => write!(f, "{what} is {value}"),
        }
    }
}

/// The first rule that the sample breaks.
pub fn broken(sample: &Sample, env: &Environment) -> Option<Broken> {
    window(sample, env)
        .or_else(|| sample.cpu.cpus.iter().find_map(parts))
        .or_else(|| sums(&sample.cpu, env))
        .or_else(|| guests(&sample.cpu, env, sample.window_seconds))
        .or_else(|| negative(sample))
}

/// Every CPU of the hosts has a reading as long as the window.
fn window(sample: &Sample, env: &Environment) -> Option<Broken> {
    let window_seconds = sample.window_seconds;
    let known = |cpu: usize| sample.cpu.cpus.iter().find(|time| time.cpu == cpu);
    let mut cpus = env.host1_cpus.iter().chain(&env.host2_cpus).copied();
    cpus.find_map(|cpu| {
        let wall_seconds = known(cpu).map_or(0.0, |time| time.wall_seconds);
        let far = (wall_seconds - window_seconds).abs() > window_seconds * PARTS_PERCENT / 100.0;
        (far || wall_seconds <= 0.0).then_some(Broken::Window {
            cpu,
            wall_seconds,
            window_seconds,
        })
    })
}

fn parts(time: &CpuTime) -> Option<Broken> {
    let parts = time.idle_seconds + time.iowait_seconds + time.steal_seconds;
    let most = time.wall_seconds * (1.0 + PARTS_PERCENT / 100.0) + GRAIN_SECONDS;
    let percent = 100.0 * parts / time.wall_seconds;
    let cpu = time.cpu;
    (parts > most || !percent.is_finite()).then_some(Broken::Parts { cpu, percent })
}

fn sums(cpu: &Cpu, env: &Environment) -> Option<Broken> {
    let sum = |on: &dyn Fn(usize) -> bool| -> f64 {
        let of = cpu.cpus.iter().filter(|time| on(time.cpu));
        of.map(CpuTime::busy_percent).sum()
    };
    let differs = |of, said: Option<f64>, sum_percent: f64| {
        let said_percent = said?;
        ((said_percent - sum_percent).abs() > ROUNDING_PERCENT).then_some(Broken::Sum {
            of,
            said_percent,
            sum_percent,
        })
    };
    let busy = |host: &Option<CpuUse>| host.as_ref().map(|host| host.busy_percent);
    differs("total", Some(cpu.total.busy_percent), sum(&|_| true))
        .or_else(|| {
            let on = |cpu| env.host1_cpus.contains(&cpu);
            differs("sender", busy(&cpu.sender), sum(&on))
        })
        .or_else(|| {
            let on = |cpu| env.host2_cpus.contains(&cpu);
            differs("receiver", busy(&cpu.receiver), sum(&on))
        })
}

/// The programs run on their host's CPUs, so they use no more than these were busy. A kernel may count stolen time as theirs.
fn guests(cpu: &Cpu, env: &Environment, window_seconds: f64) -> Option<Broken> {
    let slack =
        |cpus: usize| cpus as f64 * (PARTS_PERCENT + 100.0 * GRAIN_SECONDS / window_seconds);
    let used = |guest: Option<f64>, relay: Option<f64>| guest.map(|g| g + relay.unwrap_or(0.0));
    let sender = used(cpu.guest_sender_percent, cpu.relay_sender_percent);
    let receiver = used(cpu.guest_receiver_percent, cpu.relay_receiver_percent);
    let more = |of, guest: Option<f64>, host: Option<&CpuUse>, cpus: usize| {
        let (guest_percent, host) = (guest?, host?);
        let busy_percent = host.busy_percent + host.steal_percent;
        (guest_percent > busy_percent + slack(cpus)).then_some(Broken::Guests {
            of,
            guest_percent,
            busy_percent,
        })
    };
    let both = sender.zip(receiver).map(|(one, other)| one + other);
    let (host1, host2) = (env.host1_cpus.len(), env.host2_cpus.len());
    more("sending", sender, cpu.sender.as_ref(), host1)
        .or_else(|| more("receiving", receiver, cpu.receiver.as_ref(), host2))
        .or_else(|| more("two", both, Some(&cpu.total), cpu.cpus.len()))
}

fn negative(sample: &Sample) -> Option<Broken> {
    let cpu = &sample.cpu;
    let cost = &sample.cpu_percent_per_gbps;
    let quantities = [
        ("window_seconds", Some(sample.window_seconds)),
        ("goodput_gbps", sample.goodput_gbps),
        ("transactions_per_second", sample.transactions_per_second),
        ("rate_pps", sample.rate_pps),
        ("loss_percent", sample.loss_percent),
        ("underlay_rate_pps", Some(sample.underlay_rate_pps)),
        ("cpu_percent_per_gbps", cost.sum),
        ("cpu_us_per_transaction", sample.cpu_us_per_transaction),
        ("cpu_us_per_packet", sample.cpu_us_per_packet),
        ("guest_sender_percent", cpu.guest_sender_percent),
        ("guest_receiver_percent", cpu.guest_receiver_percent),
        ("relay_sender_percent", cpu.relay_sender_percent),
        ("relay_receiver_percent", cpu.relay_receiver_percent),
    ];
    let seconds = cpu.cpus.iter().flat_map(|time| {
        [
            ("idle_seconds", Some(time.idle_seconds)),
            ("iowait_seconds", Some(time.iowait_seconds)),
            ("steal_seconds", Some(time.steal_seconds)),
        ]
    });
    quantities
        .into_iter()
        .chain(seconds)
        .find_map(|(what, value)| {
            let value = value?;
            // The kernel's counters may step back by one (proc(5)).
            let least = if what.ends_with("_seconds") {
                -GRAIN_SECONDS
            } else {
                0.0
            };
            (value < least || !value.is_finite()).then_some(Broken::Negative { what, value })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    /// A sample of the fixtures, and its machine.
    fn measured() -> (Sample, Environment) {
        let run = fixture::run();
        let samples = run.cells.iter().flat_map(|cell| &cell.samples);
        let mut whole = samples.filter(|sample| sample.discarded.is_none());
        (whole.next_back().unwrap().clone(), run.env.clone())
    }

    fn use_of(busy_percent: f64) -> CpuUse {
        CpuUse {
            busy_percent,
            steal_percent: 0.0,
        }
    }

    #[test]
    fn every_sample_of_every_fixture_is_whole() {
        for (_, run) in fixture::all() {
            for sample in run.cells.iter().flat_map(|cell| &cell.samples) {
                assert_eq!(broken(sample, &run.env), None, "{}", sample.cell);
            }
        }
    }

    #[test]
    fn a_wrong_divisor_is_found() {
        let (mut sample, env) = measured();
        // Busy ticks over all ticks, in place of the clock.
        sample.cpu.total.busy_percent *= 0.9;
        let found = broken(&sample, &env);
        assert!(
            matches!(found, Some(Broken::Sum { of: "total", .. })),
            "{found:?}"
        );
    }

    #[test]
    fn swapped_columns_are_found() {
        let (mut sample, env) = measured();
        for time in &mut sample.cpu.cpus {
            // Idle, where busy belongs: the programs ran on an idle CPU.
            time.idle_seconds = time.busy_seconds();
            time.iowait_seconds = 0.0;
            time.steal_seconds = 0.0;
        }
        let of = |cpus: &[usize], all: &[CpuTime]| {
            CpuUse::of(all.iter().filter(|time| cpus.contains(&time.cpu)))
        };
        let cpus = sample.cpu.cpus.clone();
        sample.cpu.sender = Some(of(&env.host1_cpus, &cpus));
        sample.cpu.receiver = Some(of(&env.host2_cpus, &cpus));
        sample.cpu.total = CpuUse::of(cpus.iter());
        sample.cpu.guest_sender_percent = Some(70.0);
        let found = broken(&sample, &env);
        assert!(matches!(found, Some(Broken::Guests { .. })), "{found:?}");
    }

    #[test]
    fn a_lost_cpu_is_found() {
        let (mut sample, env) = measured();
        sample.cpu.cpus.pop();
        sample.cpu.total = CpuUse::of(sample.cpu.cpus.iter());
        let found = broken(&sample, &env);
        assert!(matches!(found, Some(Broken::Window { .. })), "{found:?}");
    }

    #[test]
    fn a_guests_time_counted_twice_is_found() {
        let (mut sample, env) = measured();
        let busy = sample.cpu.sender.as_ref().unwrap().busy_percent;
        sample.cpu.guest_sender_percent = Some(0.6 * busy);
        assert_eq!(broken(&sample, &env), None);
        sample.cpu.guest_sender_percent = Some(1.2 * busy);
        let found = broken(&sample, &env);
        assert!(
            matches!(found, Some(Broken::Guests { of: "sending", .. })),
            "{found:?}"
        );
    }

    #[test]
    fn parts_beyond_the_wall_clock_and_negative_times_are_found() {
        let (mut sample, env) = measured();
        let time = &mut sample.cpu.cpus[0];
        time.idle_seconds = time.wall_seconds * 1.05;
        let found = broken(&sample, &env);
        assert!(
            matches!(found, Some(Broken::Parts { cpu: 0, .. })),
            "{found:?}"
        );

        let (mut sample, env) = measured();
        sample.underlay_rate_pps = -1.0;
        let found = broken(&sample, &env);
        assert!(matches!(found, Some(Broken::Negative { .. })), "{found:?}");
    }

    #[test]
    fn where_hosts_share_a_cpu_the_sum_of_the_guests_is_held() {
        let (mut sample, mut env) = measured();
        env.shared_cpus = true;
        sample.cpu.sender = None;
        sample.cpu.receiver = None;
        let busy = sample.cpu.total.busy_percent;
        sample.cpu.guest_sender_percent = Some(0.7 * busy);
        sample.cpu.guest_receiver_percent = Some(0.7 * busy);
        let found = broken(&sample, &env);
        assert!(
            matches!(found, Some(Broken::Guests { of: "two", .. })),
            "{found:?}"
        );
        assert!(found.unwrap().to_string().starts_with("the two guests'"));
        sample.cpu.total = use_of(busy);
    }
}
