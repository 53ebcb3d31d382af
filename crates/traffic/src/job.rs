//! One job of an agent: the trait that TCP, UDP and raw-frame jobs fulfil, and the choice between them.
//!
//! A job lives from `prepare` to `stop`. Its threads count into atomics, so that a reading costs the
//! traffic nothing.

use crate::error::TrafficError;
use crate::latency::Histogram;
use crate::message::{Counters, Role, TcpState, Work};
use crate::{frames, tcp, udp};

/// A job that is set up.
pub(crate) trait Job: Send {
    /// Where it listens; empty for drivers.
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    /// A driver begins; a server has since it was set up.
    fn go(&mut self) -> Result<(), TrafficError>;

    /// Totals so far; for servers of transactions too.
    fn counters(&self) -> Counters;

    /// The latencies since the last call; `None` where this side measures none.
    fn take_latencies(&mut self) -> Option<Histogram> {
        None
    }

    /// The first error of a thread of its, once there is one.
    fn failure(&self) -> Option<String>;

    /// Ends all threads. A sender stops at once; a receiver goes on until nothing has come for a moment.
    /// Returns TCP_INFO of a driver's connections. The counters are final then.
    fn stop(&mut self) -> Vec<TcpState>;
}

/// Sets a job up.
pub(crate) fn prepare(
    instances: u32,
    work: &Work,
    role: &Role,
) -> Result<Box<dyn Job>, TrafficError> {
    match work {
        Work::TcpStream { .. } | Work::TcpRr { .. } | Work::TcpCrr { .. } => {
            tcp::prepare(instances, work, role)
        }
        Work::UdpRr { .. } | Work::Udp { .. } => udp::prepare(instances, work, role),
        Work::Frames { .. } => frames::prepare(instances, work, role),
    }
}
