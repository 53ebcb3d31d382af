//! The threads of one job: they begin, fail and end together.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::TrafficError;

/// After how long without progress a job that ends is taken to have ended.
const IDLE: Duration = Duration::from_millis(200);
/// Longest wait for what is under way.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);

/// What the threads of a job share.
#[derive(Debug)]
pub(crate) struct Crew {
    stopping: AtomicBool,
    /// Readable from `stop` on: whoever waits in epoll or poll waits for it too.
    bell: EventFd,
    failure: Mutex<Option<String>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    pub(crate) fn new() -> Result<Arc<Self>, TrafficError> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|errno| TrafficError::refused("make an eventfd", "this agent", errno))?;
        Ok(Arc::new(Self {
            stopping: AtomicBool::new(false),
            bell,
            failure: Mutex::new(None),
            threads: Mutex::new(Vec::new()),
        }))
    }

    pub(crate) fn bell(&self) -> &EventFd {
        &self.bell
    }

    /// Whether the job is to end.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Runs `task` on a thread of its own; its error fails the job, unless the job is ending anyway.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        task: impl FnOnce(&Arc<Self>) -> Result<(), TrafficError> + Send + 'static,
    ) -> Result<(), TrafficError> {
        let crew = Arc::clone(self);
        let handle = thread::Builder::new()
            .spawn(move || {
                if let Err(error) = task(&crew) {
                    crew.fail(&error);
                }
            })
            .map_err(|error| TrafficError::refused("start a thread", "this agent", error))?;
        lock(&self.threads).push(handle);
        Ok(())
    }

    /// Notes the first error. What breaks while the job ends is no error.
    fn fail(&self, error: &TrafficError) {
        if !self.stopping() {
            lock(&self.failure).get_or_insert_with(|| error.to_string());
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Tells all threads to end; those that wait in the kernel for a peer may need more than that.
    pub(crate) fn ring(&self) {
        self.stopping.store(true, Relaxed);
        // It cannot be full: nobody writes but this, and once is enough.
        let _ = self.bell.write(1);
    }

    /// Waits until the threads have ended by themselves, or nothing has happened for a moment.
    pub(crate) fn wind_down(&self, progress: impl Fn() -> u64) {
        let begin = Instant::now();
        let (mut seen, mut seen_at) = (progress(), begin);
        while !lock(&self.threads).iter().all(JoinHandle::is_finished) {
            let now = Instant::now();
            let current = progress();
            if current != seen {
                (seen, seen_at) = (current, now);
            }
            if now - seen_at > IDLE || now - begin > LONGEST_DRAIN {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for all threads. They must have no reason left to stay.
    pub(crate) fn join(&self) {
        loop {
            // One by one: the acceptor, while it is still there, adds threads.
            let Some(handle) = lock(&self.threads).pop() else {
                return;
            };
            if handle.join().is_err() {
                lock(&self.failure)
                    .get_or_insert_with(|| "a thread of this job panicked".to_owned());
            }
        }
    }
}

/// Locks; a thread that panicked has left nothing half-written that matters here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
