//! A job of workers: each is a thread that counts into a tally of its own. Every UDP and raw-frame
//! job is one; what the threads do stands in `udp` and `frames`.

use std::sync::{Arc, Mutex, MutexGuard};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::crew::{Crew, lock};
use crate::error::TrafficError;
use crate::job::Job;
use crate::latency::Histogram;
use crate::message::{Counters, TcpState};
use crate::tally::{Tally, sum};

/// What one thread of a job does until the job ends.
pub(crate) trait Worker: Send {
    /// Works until [`Hand::stopping`].
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError>;
}

/// What a worker shares with its job.
pub(crate) struct Hand {
    crew: Arc<Crew>,
    /// What this worker counted.
    pub(crate) tally: Tally,
    latency: Option<Mutex<Histogram>>,
}

impl Hand {
    /// For tests of what a worker does between two moments.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Self {
            crew: Crew::new().unwrap(),
            tally: Tally::default(),
            latency: None,
        }
    }

    /// Whether the job is to end.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.crew.stopping()
    }

    /// The latencies of this worker, where the job measures them.
    #[inline]
    pub(crate) fn latency(&self) -> Option<MutexGuard<'_, Histogram>> {
        self.latency.as_ref().map(lock)
    }
}

/// Says how many packets the sockets of a receiver had no room for.
pub(crate) type Drops = Box<dyn Fn() -> u64 + Send>;

/// The job.
pub(crate) struct Workers {
    crew: Arc<Crew>,
    waiting: Vec<Box<dyn Worker>>,
    hands: Vec<Arc<Hand>>,
    measures_latency: bool,
    ports: Vec<u16>,
    drops: Option<Drops>,
}

impl Workers {
    /// Workers that wait for `go`.
    pub(crate) fn new(waiting: Vec<Box<dyn Worker>>) -> Result<Self, TrafficError> {
        Ok(Self {
            crew: Crew::new()?,
            waiting,
            hands: Vec::new(),
            measures_latency: false,
            ports: Vec::new(),
            drops: None,
        })
    }

    /// Gives each worker a histogram.
    pub(crate) fn measuring_latency(mut self, measures: bool) -> Self {
        self.measures_latency = measures;
        self
    }

    /// Makes a server of it: it begins at once.
    pub(crate) fn serving(mut self, ports: Vec<u16>, drops: Drops) -> Result<Self, TrafficError> {
        self.ports = ports;
        self.drops = Some(drops);
        self.go()?;
        Ok(self)
    }
}

impl Job for Workers {
    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn go(&mut self) -> Result<(), TrafficError> {
        for worker in self.waiting.drain(..) {
            let hand = Arc::new(Hand {
                crew: Arc::clone(&self.crew),
                tally: Tally::default(),
                latency: self.measures_latency.then(Mutex::default),
            });
            self.hands.push(Arc::clone(&hand));
            self.crew.spawn(move |_| worker.run(&hand))?;
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let mut counters = sum(self.hands.iter().map(|hand| &hand.tally));
        counters.receiver_dropped_packets = self.drops.as_ref().map_or(0, |drops| drops());
        counters
    }

    fn take_latencies(&mut self) -> Option<Histogram> {
        let mut all = self.measures_latency.then(Histogram::new)?;
        for hand in &self.hands {
            if let Some(mut latency) = hand.latency() {
                all.merge(&latency.take());
            }
        }
        Some(all)
    }

    fn failure(&self) -> Option<String> {
        self.crew.failure()
    }

    fn stop(&mut self) -> Vec<TcpState> {
        self.crew.ring();
        self.crew.join();
        Vec::new()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.crew.ring();
        self.crew.join();
    }
}

/// Divides what the instances need among as many threads as this process may use CPUs, at most one per
/// instance: more would only cost context switches.
pub(crate) fn shares<T>(instances: Vec<T>) -> Vec<Vec<T>> {
    let threads = allowed_cpus().min(instances.len()).max(1);
    let mut shares: Vec<Vec<T>> = (0..threads).map(|_| Vec::new()).collect();
    for (position, instance) in instances.into_iter().enumerate() {
        shares[position % threads].push(instance);
    }
    shares
}

fn allowed_cpus() -> usize {
    sched_getaffinity(Pid::from_raw(0)).map_or(1, |set| {
        (0..CpuSet::count())
            .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
            .count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_is_in_one_share() {
        let shares = shares((0..7).collect());
        assert!(shares.len() <= 7 && shares.iter().all(|share| !share.is_empty()));
        let mut all: Vec<i32> = shares.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
    }

    struct Broken;
    impl Worker for Broken {
        fn run(self: Box<Self>, _: &Hand) -> Result<(), TrafficError> {
            Err(TrafficError::NoJob(7))
        }
    }

    struct Patient;
    impl Worker for Patient {
        fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
            hand.tally.transactions.add(1);
            if let Some(mut latency) = hand.latency() {
                latency.record(5);
            }
            while !hand.stopping() {
                std::thread::yield_now();
            }
            Ok(())
        }
    }

    #[test]
    fn counters_and_latencies_of_all_workers_are_added() {
        let workers: Vec<Box<dyn Worker>> = vec![Box::new(Patient), Box::new(Patient)];
        let mut job = Workers::new(workers).unwrap().measuring_latency(true);
        assert_eq!(job.counters().transactions, 0);
        job.go().unwrap();
        while job.counters().transactions < 2 {
            std::thread::yield_now();
        }
        assert!(job.stop().is_empty());
        assert_eq!(job.take_latencies().unwrap().count(), 2);
        assert_eq!(job.take_latencies().unwrap().count(), 0);
        assert_eq!(job.failure(), None);
    }

    #[test]
    fn the_error_of_a_worker_is_the_jobs() {
        let mut job = Workers::new(vec![Box::new(Broken)]).unwrap();
        job.go().unwrap();
        while job.failure().is_none() {
            std::thread::yield_now();
        }
        assert!(job.failure().unwrap().contains("no job 7"));
        assert_eq!(job.take_latencies(), None);
    }
}
