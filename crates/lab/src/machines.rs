//! The machines of one topology: one in the place of the sender of each pair, all on the same host.
//! [`vm`](crate::vm) runs them; [`migration`](crate::measure::migration) moves them. Between samples they stand still, so that
//! they take no CPU from others.

use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Guest, Topology};
use crate::vm::{Images, Machine, Spec};
use overlane_analysis::record::Family;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Until a machine has said that it is up; several start at once, and under emulation.
const BOOT: Duration = Duration::from_secs(120);

/// The machines of one topology.
pub(crate) struct Machines {
    /// In the order of the topology's pairs.
    pub(crate) all: Vec<Machine>,
    /// The host that they are on, counted from 0.
    pub(crate) host: usize,
}

impl Machines {
    /// Starts all on the first host, and stops them when they are up.
    pub(crate) fn start(
        session: &Session,
        images: &Images,
        topology: &Topology,
    ) -> Result<Self, LabError> {
        let start =
            |guest| Machine::boot(session, images, &spec(topology, guest), &topology.hosts[0]);
        let guests = topology.pairs.iter().map(|pair| &pair.sender);
        let all: Vec<Machine> = guests.map(start).collect::<Result<_, _>>()?;
        for machine in &all {
            machine.wait_up(session, BOOT)?;
        }
        Ok(Self { all, host: 0 })
    }

    /// Before any was started.
    pub(crate) fn none() -> Self {
        let all = Vec::new();
        Self { all, host: 0 }
    }

    /// Those that they move to, which wait on the other host.
    pub(crate) fn destinations(
        &self,
        session: &Session,
        images: &Images,
        topology: &Topology,
    ) -> Result<Vec<Machine>, LabError> {
        let host = &topology.hosts[1 - self.host];
        let guests = topology.pairs.iter().map(|pair| &pair.sender);
        guests
            .map(|guest| Machine::incoming(session, images, &spec(topology, guest), host))
            .collect()
    }

    /// They stand still.
    pub(crate) fn pause(&self, session: &Session) -> Result<(), LabError> {
        self.all
            .iter()
            .try_for_each(|machine| machine.pause(session))
    }

    /// They go on.
    pub(crate) fn resume(&self, session: &Session) -> Result<(), LabError> {
        self.all
            .iter()
            .try_for_each(|machine| machine.resume(session))
    }
}

fn spec(topology: &Topology, guest: &Guest) -> Spec {
    let address = match guest.address {
        IpAddr::V4(address) => address,
        // No machine has one: `possible` says so.
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    Spec {
        name: format!("{}-{}", topology.label(), guest.node.place),
        memory_mib: topology.setting.guest_memory_mib.unwrap_or_default(),
        mac: guest.mac,
        address,
        prefix: crate::topology::layout::prefix(Family::Ipv4),
        mtu: topology.guest_mtu(),
        tap: guest
            .ports
            .first()
            .map(|port| port.host_device.clone())
            .unwrap_or_default(),
    }
}
