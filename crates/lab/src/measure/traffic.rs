//! One job of the agents of a topology: prepared on both sides, begun, read, ended.
//!
//! ```text
//! prepare receivers ─ prepare senders ─ go ─ mark … mark ─ stop senders ─ stop receivers (they drain)
//! ```
//!
//! All agents are told before the first is waited for, so that the pairs are alike.

use super::work;
use crate::agents::{Agent, Agents};
use crate::error::LabError;
use crate::session::Session;
use crate::topology::Topology;
use overlane_analysis::record::CellKey;
use overlane_traffic::message::{Answer, Counters, Order, Reading, TcpState};
use std::time::Duration;

/// Setting up: hundreds of connections over a slow network.
const PREPARE: Duration = Duration::from_secs(20);
/// A reading; the CPU is busy with the traffic.
const MARK: Duration = Duration::from_secs(10);
/// The last packets come, threads end.
const STOP: Duration = Duration::from_secs(20);

/// A job under way.
pub(super) struct Traffic<'a> {
    session: &'a Session,
    agents: &'a mut Agents,
    job: u32,
}

/// What the agents read at about one moment, in the order of the pairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    pub(super) senders: Vec<Reading>,
    pub(super) receivers: Vec<Reading>,
}

/// What a job came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) readings: Readings,
    /// Of all connections that sent.
    pub(super) tcp: Vec<TcpState>,
}

/// The last counters that each agent told by itself, and when it read them.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    pub(super) senders: Vec<Option<(u64, Counters)>>,
    pub(super) receivers: Vec<Option<(u64, Counters)>>,
}

impl<'a> Traffic<'a> {
    /// Sets the job of a cell up on both sides; `rate_pps` is for each pair.
    pub(super) fn prepare(
        session: &'a Session,
        topology: &Topology,
        agents: &'a mut Agents,
        cell: &CellKey,
        rate_pps: Option<f64>,
    ) -> Result<Self, LabError> {
        let work = work::work(cell, rate_pps)?;
        let workload = cell.group.workload;
        if agents.has_job {
            // One before did not come to its end; nobody knows what is left of it.
            *agents = Agents::start(session, topology)?;
        }
        agents.has_job = true;
        let job = agents.new_job();
        let order = |work, role| Order::Prepare {
            job,
            instances: workload.instances,
            work,
            role,
        };
        for (agent, pair) in agents.receivers().zip(&topology.pairs) {
            agent.forget();
            let served = work::served(cell, &work);
            agent.order(&order(served, work::serving(cell, pair)))?;
        }
        let mut ports = Vec::with_capacity(topology.pairs.len());
        for agent in agents.receivers() {
            ports.push(ready(session, agent, job)?);
        }
        for ((agent, pair), ports) in agents.senders().zip(&topology.pairs).zip(ports) {
            agent.forget();
            let ports = work::ports(cell, ports);
            agent.order(&order(
                work.clone(),
                work::driving(workload.test, pair, ports),
            ))?;
        }
        for agent in agents.senders() {
            ready(session, agent, job)?;
        }
        Ok(Self {
            session,
            agents,
            job,
        })
    }

    /// The senders begin.
    pub(super) fn go(&mut self) -> Result<(), LabError> {
        let order = Order::Go { job: self.job };
        let mut senders = self.agents.senders();
        senders.try_for_each(|agent| agent.order(&order))
    }

    /// Reads every agent.
    pub(super) fn mark(&mut self) -> Result<Readings, LabError> {
        let Self {
            session,
            agents,
            job,
        } = self;
        for agent in agents.all() {
            agent.order(&Order::Mark { job: *job })?;
        }
        let read = |agent: &mut Agent| match agent.answer(&session.interrupts, "a reading", MARK)? {
            Answer::Mark { job: of, reading } if of == *job => Ok(reading),
            other => Err(agent.unexpected(&other)),
        };
        Ok(Readings {
            senders: agents.senders().map(read).collect::<Result<_, _>>()?,
            receivers: agents.receivers().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// What the agents told by themselves; does not wait. Fails when one has died.
    pub(super) fn latest(&mut self) -> Result<Latest, LabError> {
        let interrupts = &self.session.interrupts;
        let senders = self.agents.senders().map(|agent| agent.latest(interrupts));
        let senders = senders.collect::<Result<_, _>>()?;
        let receivers = self.agents.receivers();
        let receivers = receivers.map(|agent| agent.latest(interrupts));
        Ok(Latest {
            senders,
            receivers: receivers.collect::<Result<_, _>>()?,
        })
    }

    /// Ends the job: the senders, then the receivers, which wait for what is under way.
    pub(super) fn stop(self) -> Result<Totals, LabError> {
        let Self {
            session,
            agents,
            job,
        } = self;
        let mut tcp = Vec::new();
        let mut end = |side: &mut dyn Iterator<Item = &mut Agent>| {
            let side: Vec<&mut Agent> = side.collect();
            end(session, side, job, &mut tcp)
        };
        let senders = end(&mut agents.senders())?;
        let receivers = end(&mut agents.receivers())?;
        agents.has_job = false;
        let readings = Readings { senders, receivers };
        Ok(Totals { readings, tcp })
    }
}

/// Ends a job on one side; what its connections were like is added to `tcp`.
fn end(
    session: &Session,
    mut side: Vec<&mut Agent>,
    job: u32,
    tcp: &mut Vec<TcpState>,
) -> Result<Vec<Reading>, LabError> {
    for agent in &mut side {
        agent.order(&Order::Stop { job })?;
    }
    let mut readings = Vec::with_capacity(side.len());
    for agent in side {
        match agent.answer(&session.interrupts, "the totals of a job", STOP)? {
            Answer::Done {
                job: of,
                reading,
                tcp: states,
            } if of == job => {
                readings.push(reading);
                tcp.extend(states);
            }
            other => return Err(agent.unexpected(&other)),
        }
    }
    Ok(readings)
}

/// Waits until an agent has set a job up; returns the ports that it listens on.
fn ready(session: &Session, agent: &mut Agent, job: u32) -> Result<Vec<u16>, LabError> {
    match agent.answer(&session.interrupts, "setting a job up", PREPARE)? {
        Answer::Ready { job: of, ports } if of == job => Ok(ports),
        other => Err(agent.unexpected(&other)),
    }
}
