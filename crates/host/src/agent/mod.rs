//! `overlane agent`: one process that keeps a host as it is declared.
//!
//! ```text
//!   source ──► what is wanted ──► kept on disk ──► apply ──► the kernel carries the packets
//!     ▲            │ takes much away, and nobody wrote it: held until `overlane agent accept`
//!     │
//!   files · network · nftables · mounts · calls · time ──► Keep (decides) ──► Keeper (acts)
//! ```
//!
//! Packets do not need it: when it ends they flow on, and `apply` works as without it.

mod config;
mod failing;
mod hold;
mod keep;
mod keeper;
mod kept;
mod memory;
mod server;
mod source;
mod voice;
mod watch;
mod ways;

use std::rc::Rc;
use std::time::Instant;

use overlane_ebpf::preflight;

pub use self::config::{CONFIG, Config};
use self::keep::Keep;
use self::keeper::Keeper;
use self::server::Server;
use self::source::{ByHand, FabricSource, Source};
pub use self::voice::{Rendered, Voice};
use crate::HostError;
use crate::lib::allocator;
use crate::lib::lock::Lock;
use crate::lib::signals::Signals;
use crate::live::announcer::Announcing;
use crate::live::{Job, Loop, Machine, Work};

/// Keeps a host until a signal comes.
pub fn run(config: &Config, voice: Voice<'_>) -> Result<(), HostError> {
    preflight::check_kernel()?;
    preflight::check_rights()?;
    allocator::be_frugal();
    let host = config.host()?;
    let netns = config.netns.as_deref();
    let lock = Lock::of_agent(&host)?;
    let signals = Rc::new(Signals::take_over()?);
    let server = Rc::new(Server::open(&host)?);
    let source: Box<dyn Source> = match &config.fabric {
        Some(path) => Box::new(FabricSource::new(path)),
        None => Box::new(ByHand::new(&host)),
    };
    let calls = Rc::clone(&server);
    let mut live = Loop::new(Machine::of_namespace(netns, Rc::clone(&signals), calls)?);
    let executor = Keeper::new((&host, netns), source, server, voice);
    // Twice in the time that it is given.
    let beat = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut keep = Job {
        duty: Keep::new(executor.interest(), beat, Instant::now()),
        executor,
    };
    let mut announcing: Vec<Announcing> = Vec::new();
    let ways = match config.watch_mtu {
        true => Some(ways::watch(&host)?),
        false => None,
    };
    while !keep.is_over() {
        let others = announcing.iter_mut().map(|job| job as &mut dyn Work);
        let mut jobs: Vec<&mut dyn Work> = vec![&mut keep];
        jobs.extend(others);
        live.turn(&mut jobs)?;
        for line in ways.iter().flat_map(|ways| ways.try_iter()) {
            voice.say(&line);
        }
        announcing.retain(|job| !job.is_over());
        for rest in keep.executor.announcements.drain(..) {
            announcing.extend(Announcing::of(&rest));
        }
    }
    voice.say(&format!("agent: ends; host {host} goes on as it is"));
    lock.remove_file();
    Ok(())
}
