//! Memory that is written to at a rate, page after page: what makes a live migration long.

use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PAGE_WORDS: usize = 4096 / 8;
const PAGES_PER_MIB: u64 = 256;
/// Between two steps of writing.
const STEP: Duration = Duration::from_millis(5);
/// What could not be written in time, for instance while the machine stood, is not made up for beyond this.
const ARREARS: Duration = Duration::from_millis(100);
/// What is left for the kernel and for packets.
const SPARE_MIB: u64 = 32;
/// Any number but 0.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The writer's side and the orders' side.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<(Mutex<Work>, Condvar)>);

/// What is being written.
#[derive(Default)]
struct Work {
    words: Vec<u64>,
    next_page: usize,
    pages_per_second: u64,
    /// Since when the rate holds, and the pages written since.
    since: Option<Instant>,
    written: u64,
    /// The pages written before.
    before: u64,
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) mib: u64,
    pub(crate) wanted_mib_per_second: u64,
    pub(crate) reached_mib_per_second: f64,
    pub(crate) dirtied_mib: f64,
}

impl Memory {
    /// Starts the writer, which waits for an order.
    pub(crate) fn start() -> Result<Self, String> {
        let memory = Self::default();
        let writer = memory.clone();
        thread::Builder::new()
            .spawn(move || writer.write())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(memory)
    }

    /// Writes to so much memory at this rate from now on; 0 and 0 let go of it.
    pub(crate) fn dirty(&self, mib: u64, mib_per_second: u64) -> Result<(), String> {
        let has = {
            let mut work = self.lock();
            work.stop();
            if work.mib() != mib {
                // Given back before more is asked for.
                work.words = Vec::new();
            }
            work.mib()
        };
        if has != mib {
            let words = random_words(mib)?;
            let mut work = self.lock();
            (work.words, work.next_page) = (words, 0);
        }
        self.lock().begin(mib_per_second, Instant::now());
        self.0.1.notify_one();
        Ok(())
    }

    pub(crate) fn figures(&self) -> Figures {
        self.lock().figures(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        loop {
            let mut work = self.lock();
            while !work.is_on() {
                work = self.0.1.wait(work).unwrap_or_else(PoisonError::into_inner);
            }
            work.step(Instant::now());
            drop(work);
            thread::sleep(STEP);
        }
    }
}

impl Work {
    fn mib(&self) -> u64 {
        (self.words.len() / PAGE_WORDS) as u64 / PAGES_PER_MIB
    }

    fn is_on(&self) -> bool {
        self.pages_per_second > 0 && !self.words.is_empty()
    }

    fn stop(&mut self) {
        self.begin(0, Instant::now());
    }

    fn begin(&mut self, mib_per_second: u64, now: Instant) {
        self.before += std::mem::take(&mut self.written);
        self.pages_per_second = mib_per_second * PAGES_PER_MIB;
        self.since = self.is_on().then_some(now);
    }

    /// Writes the pages that are due.
    fn step(&mut self, now: Instant) {
        let Some(since) = self.since else {
            return;
        };
        let due = |time: Duration| (time.as_secs_f64() * self.pages_per_second as f64) as u64;
        let elapsed = now.saturating_duration_since(since);
        let behind = due(elapsed).saturating_sub(self.written);
        let most = due(ARREARS).max(1);
        let pages = self.words.len() / PAGE_WORDS;
        for _ in 0..behind.min(most) {
            let word = &mut self.words[self.next_page * PAGE_WORDS];
            // Nobody reads it, which the compiler must not know.
            *std::hint::black_box(&mut *word) = word.wrapping_add(1);
            self.next_page = (self.next_page + 1) % pages;
            self.written += 1;
        }
    }

    fn figures(&self, now: Instant) -> Figures {
        let mib = |pages: u64| pages as f64 / PAGES_PER_MIB as f64;
        let seconds = self.since.map_or(0.0, |since| {
            now.saturating_duration_since(since).as_secs_f64()
        });
        Figures {
            mib: self.mib(),
            wanted_mib_per_second: self.pages_per_second / PAGES_PER_MIB,
            reached_mib_per_second: if seconds > 0.0 {
                mib(self.written) / seconds
            } else {
                0.0
            },
            dirtied_mib: mib(self.before + self.written),
        }
    }
}

/// Memory without a page that could be told in a few bytes.
fn random_words(mib: u64) -> Result<Vec<u64>, String> {
    let free = available_mib()?;
    if mib > free.saturating_sub(SPARE_MIB) && mib > 0 {
        return Err(format!(
            "{mib} MiB are too much: {free} MiB are free, of which {SPARE_MIB} stay so"
        ));
    }
    let count = usize::try_from(mib * PAGES_PER_MIB)
        .unwrap_or(usize::MAX)
        .saturating_mul(PAGE_WORDS);
    let mut words = Vec::new();
    words
        .try_reserve_exact(count)
        .map_err(|error| format!("no {mib} MiB: {error}"))?;
    let mut state = SEED;
    words.extend((0..count).map(|_| {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }));
    Ok(words)
}

/// Memory that can be had.
pub(crate) fn available_mib() -> Result<u64, String> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    available_in(&text).ok_or_else(|| format!("{path} has no MemAvailable"))
}

fn available_in(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(mib: u64) -> Work {
        Work {
            words: random_words(mib).unwrap(),
            ..Work::default()
        }
    }

    #[test]
    fn no_page_is_alike_and_none_is_zero() {
        let words = random_words(1).unwrap();
        let mut pages: Vec<_> = words.chunks(PAGE_WORDS).collect();
        assert_eq!(pages.len(), 256);
        assert!(pages.iter().all(|page| page.iter().all(|word| *word != 0)));
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 256);
    }

    #[test]
    fn pages_are_written_in_turn_at_the_rate() {
        let (mut work, start) = (work(1), Instant::now());
        let before = work.words.clone();
        work.begin(1, start);
        let mut at = |ms: u64| {
            work.step(start + Duration::from_millis(ms));
            let changed = |(old, new): (&[u64], &[u64])| old != new;
            let pages = before.chunks(PAGE_WORDS).zip(work.words.chunks(PAGE_WORDS));
            (work.written, pages.filter(|pair| changed(*pair)).count())
        };
        assert_eq!(at(0), (0, 0));
        assert_eq!(at(50), (12, 12));
        // A second that the machine stood is not made up for at once.
        assert_eq!(at(1050), (12 + 25, 12 + 25));
        for ms in 0..100 {
            at(1100 + 5 * ms);
        }
        let (written, changed) = at(1600);
        assert_eq!(
            (written, changed),
            ((1.6 * 256.0) as u64, 256),
            "round and round"
        );
    }

    #[test]
    fn figures_are_of_the_rate_and_of_all() {
        let (mut work, start) = (work(2), Instant::now());
        work.begin(10, start);
        for step in 1..=20 {
            work.step(start + STEP * step);
        }
        let figures = work.figures(start + Duration::from_millis(100));
        assert_eq!((figures.mib, figures.wanted_mib_per_second), (2, 10));
        assert!(
            (figures.reached_mib_per_second - 10.0).abs() < 0.05,
            "{figures:?}"
        );
        work.begin(0, start + Duration::from_secs(9));
        let figures = work.figures(start + Duration::from_secs(10));
        assert_eq!(figures.reached_mib_per_second, 0.0);
        assert_eq!(figures.dirtied_mib, 1.0);
    }

    #[test]
    fn orders_change_what_the_writer_does() {
        let memory = Memory::start().unwrap();
        memory.dirty(1, 50).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while memory.figures().dirtied_mib < 2.0 {
            assert!(Instant::now() < end, "{:?}", memory.figures());
            thread::sleep(STEP);
        }
        memory.dirty(0, 0).unwrap();
        let figures = memory.figures();
        assert_eq!((figures.mib, figures.wanted_mib_per_second), (0, 0));
        let error = memory.dirty(1 << 30, 1).unwrap_err();
        assert!(error.contains("too much"), "{error}");
        assert_eq!(
            available_in("MemTotal: 9 kB\nMemAvailable:   20480 kB\n"),
            Some(20)
        );
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
    }
}
