//! The agent: reads orders, keeps jobs, answers.
//!
//! One thread reads orders and carries them out one after the other; another says four times a second how the
//! jobs go, and which broke. Jobs have threads of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::crew::lock;
use crate::error::{TrafficError, in_range};
use crate::job::{Job, prepare};
use crate::message::{Answer, MAX_INSTANCES, Order, Reading, Role, VERSION, Work};

/// Longest line of input. The longest order, with lanes and tags for hundreds of devices, is far shorter.
const LONGEST_LINE_BYTES: u64 = 1 << 20;
/// Between two [`Answer::Interval`].
const INTERVAL: Duration = Duration::from_millis(250);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MEMORY: &str = "/proc/self/status";

/// Carries out the orders of `input` until it ends or says [`Order::Quit`], and answers on `output`. What goes
/// wrong with a job is an answer; an error is returned when input or output break, or this is no Linux with /proc.
pub fn run(input: impl BufRead, output: impl Write + Send) -> Result<(), TrafficError> {
    let agent = Agent {
        jobs: Mutex::new(BTreeMap::new()),
        output: Mutex::new(output),
    };
    agent.answer(&Answer::Hello {
        version: VERSION,
        pid: std::process::id(),
        boot_id: read(BOOT_ID)?.trim().to_owned(),
    })?;
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel();
        let agent = &agent;
        scope.spawn(move || agent.report(&ended));
        let result = agent.obey(input);
        drop(end);
        result
    })
}

/// A job and where it is.
struct Entry {
    job: Box<dyn Job>,
    /// A driver that was not told to begin.
    waiting: bool,
    /// Its failure was said without being asked.
    reported: bool,
}

impl Entry {
    fn check(&self) -> Result<(), String> {
        self.job.failure().map_or(Ok(()), Err)
    }

    /// What a quarter of a second changed.
    fn news(&mut self, job: u32) -> Option<Answer> {
        match self.job.failure() {
            Some(_) if self.reported => None,
            Some(reason) => {
                self.reported = true;
                Some(failed(Some(job), reason))
            }
            None if self.waiting => None,
            None => Some(Answer::Interval {
                job,
                at_ns: now_ns(ClockId::CLOCK_MONOTONIC).ok()?,
                counters: self.job.counters(),
            }),
        }
    }
}

/// Locks: `jobs` before `output`.
struct Agent<W> {
    jobs: Mutex<BTreeMap<u32, Entry>>,
    output: Mutex<W>,
}

impl<W: Write + Send> Agent<W> {
    /// Reads orders until there are no more.
    fn obey(&self, mut input: impl BufRead) -> Result<(), TrafficError> {
        let mut line = Vec::new();
        loop {
            let order = match read_line(&mut input, &mut line) {
                Ok(true) if line.trim_ascii().is_empty() => continue,
                Ok(true) => serde_json::from_slice(&line).map_err(TrafficError::Malformed),
                Ok(false) => return Ok(()),
                Err(error @ TrafficError::LineTooLong { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            let answer = match order {
                Ok(Order::Quit) => return Ok(()),
                Ok(order) => self.carry_out(&order),
                Err(error) => Some(failed(None, error)),
            };
            if let Some(answer) = answer {
                self.answer(&answer)?;
            }
        }
    }

    fn carry_out(&self, order: &Order) -> Option<Answer> {
        match *order {
            Order::Prepare {
                job,
                instances,
                ref work,
                ref role,
            } => Some(match self.prepare(job, instances, work, role) {
                Ok(ports) => Answer::Ready { job, ports },
                Err(error) => failed(Some(job), error),
            }),
            Order::Go { job } => self.go(job).err().map(|reason| failed(Some(job), reason)),
            Order::Mark { job } => Some(match self.mark(job) {
                Ok(reading) => Answer::Mark { job, reading },
                Err(reason) => failed(Some(job), reason),
            }),
            Order::Stop { job } => Some(match self.stop(job) {
                Ok(answer) => answer,
                Err(error) => failed(Some(job), error),
            }),
            Order::Quit => None,
        }
    }

    fn prepare(
        &self,
        job: u32,
        instances: u32,
        work: &Work,
        role: &Role,
    ) -> Result<Vec<u16>, TrafficError> {
        in_range("instances", instances.into(), 1, MAX_INSTANCES.into())?;
        if lock(&self.jobs).contains_key(&job) {
            return Err(TrafficError::JobTaken(job));
        }
        // Only this thread adds jobs, and it may take a while to connect: without the lock.
        let made = prepare(instances, work, role)?;
        let ports = made.ports();
        let entry = Entry {
            job: made,
            waiting: matches!(role, Role::Drive { .. } | Role::DriveFrames { .. }),
            reported: false,
        };
        lock(&self.jobs).insert(job, entry);
        Ok(ports)
    }

    fn go(&self, job: u32) -> Result<(), String> {
        let mut jobs = lock(&self.jobs);
        let entry = jobs.get_mut(&job).ok_or(TrafficError::NoJob(job));
        let entry = entry.map_err(|error| error.to_string())?;
        entry.check()?;
        if !std::mem::take(&mut entry.waiting) {
            return Err(TrafficError::NotWaiting(job).to_string());
        }
        entry.job.go().map_err(|error| error.to_string())
    }

    fn mark(&self, job: u32) -> Result<Reading, String> {
        let mut jobs = lock(&self.jobs);
        let entry = jobs.get_mut(&job).ok_or(TrafficError::NoJob(job));
        let entry = entry.map_err(|error| error.to_string())?;
        entry.check()?;
        reading(entry.job.as_mut()).map_err(|error| error.to_string())
    }

    fn stop(&self, job: u32) -> Result<Answer, TrafficError> {
        // Off the list first: what is under way may take two seconds, and others go on meanwhile.
        let entry = lock(&self.jobs).remove(&job);
        let mut entry = entry.ok_or(TrafficError::NoJob(job))?;
        let tcp = entry.job.stop();
        let reading = reading(entry.job.as_mut())?;
        Ok(Answer::Done { job, reading, tcp })
    }

    /// Says how jobs go until the agent ends.
    fn report(&self, ended: &Receiver<()>) {
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            for (&job, entry) in lock(&self.jobs).iter_mut() {
                // The thread that reads orders meets an error of the output with its next answer.
                let Ok(()) = entry.news(job).map_or(Ok(()), |news| self.answer(&news)) else {
                    return;
                };
            }
        }
    }

    fn answer(&self, answer: &Answer) -> Result<(), TrafficError> {
        let mut line = serde_json::to_vec(answer)
            .map_err(|error| TrafficError::Output(io::Error::from(error)))?;
        line.push(b'\n');
        let mut output = lock(&self.output);
        output
            .write_all(&line)
            .and_then(|()| output.flush())
            .map_err(TrafficError::Output)
    }
}

fn failed(job: Option<u32>, reason: impl ToString) -> Answer {
    Answer::Failed {
        job,
        reason: reason.to_string(),
    }
}

/// Reads a line; false: there is none. One that is too long is skipped.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, TrafficError> {
    let mut too_long = false;
    loop {
        line.clear();
        let mut part = input.by_ref().take(LONGEST_LINE_BYTES);
        let length = part.read_until(b'\n', line).map_err(TrafficError::Input)?;
        if length as u64 == LONGEST_LINE_BYTES && line.last() != Some(&b'\n') {
            too_long = true;
        } else if too_long {
            return Err(TrafficError::LineTooLong {
                most_bytes: LONGEST_LINE_BYTES,
            });
        } else {
            return Ok(length > 0);
        }
    }
}

/// What is known of a job now.
fn reading(job: &mut dyn Job) -> Result<Reading, TrafficError> {
    Ok(Reading {
        at_ns: now_ns(ClockId::CLOCK_MONOTONIC)?,
        counters: job.counters(),
        latency: job.take_latencies().map(|latency| latency.to_latencies()),
        cpu_ns: now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)?,
        memory_kib: memory_kib()?,
    })
}

fn now_ns(clock: ClockId) -> Result<u64, TrafficError> {
    let time = clock_gettime(clock)
        .map_err(|errno| TrafficError::refused("read the clock", "this agent", errno))?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

fn memory_kib() -> Result<u64, TrafficError> {
    let status = read(MEMORY)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
    kib.ok_or_else(|| TrafficError::Invalid {
        what: MEMORY,
        value: format!("{status:?}"),
        wanted: "as in proc(5), with a VmRSS".into(),
    })
}

fn read(path: &'static str) -> Result<String, TrafficError> {
    fs::read_to_string(path).map_err(|error| TrafficError::refused("read", path, error))
}
