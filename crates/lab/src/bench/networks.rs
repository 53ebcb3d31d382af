//! The networks of a block: built, proven, taken down.

use super::{Bench, Missing};
use crate::agents::Agents;
use crate::backends::{self, Backend};
use crate::error::LabError;
use crate::machines::Machines;
use crate::proof;
use crate::topology::Topology;
use crate::watch::Event;
use overlane_analysis::plan::{Block, Network};
use overlane_analysis::record::{CellStatus, GuestKind, Hop, Warning};
use overlane_analysis::study::possible;

/// A network that is up.
pub(super) struct Up {
    pub(super) network: Network,
    pub(super) topology: Topology,
    pub(super) backend: Box<dyn Backend>,
    pub(super) load: Load,
}

/// What is measured on a network.
pub(super) enum Load {
    /// Traffic between guests, which agents send.
    Traffic(Agents),
    /// Machines that move.
    Machines(Machines),
}

impl Bench<'_> {
    /// Builds and proves all networks of a block, those that can be.
    pub(super) fn raise_block(
        &mut self,
        block: &Block,
        missing: &Missing,
        up: &mut Vec<Up>,
    ) -> Result<(), LabError> {
        for network in &block.networks {
            if !self.is_needed(network) {
                continue;
            }
            let unsupported = || possible::unsupported(network.backend, &network.setting);
            let lacks_guests = || match network.setting.guests {
                GuestKind::Veth => None,
                GuestKind::Tap => missing.taps.clone(),
                GuestKind::Qemu => missing.machines.clone(),
            };
            let reason = missing.backends.get(&network.backend).cloned();
            if let Some(reason) = reason.or_else(unsupported).or_else(lacks_guests) {
                self.close(network, &CellStatus::Unavailable { reason });
                continue;
            }
            let raised = self.raise(network);
            self.check_interrupt(&raised)?;
            match raised {
                Ok(raised) => up.push(raised),
                Err(error) => self.close(
                    network,
                    &CellStatus::Failed {
                        reason: error.to_string(),
                    },
                ),
            }
        }
        Ok(())
    }

    pub(super) fn raise(&mut self, network: &Network) -> Result<Up, LabError> {
        let Network {
            backend: name,
            copy,
            setting,
        } = *network;
        self.watch
            .event(Event::Doing(&format!("building {name}, {setting}")));
        let mut topology = Topology::build(self.session, name, copy, setting)?;
        let mut backend = backends::new(name);
        topology.devices = backend.devices(&topology);
        let built = backend.build(self.session, &topology).and_then(|()| {
            let hops = topology.hops()?;
            self.record_hops(&hops);
            self.watch.event(Event::Doing(&format!(
                "proving the path of {name}, {setting}"
            )));
            // Machines have to run to answer; agents would only be in the way.
            let machines = self.start_machines(&topology)?;
            let proof = proof::prove(self.session, &topology, backend.as_ref())?;
            let asymmetries = topology.asymmetries(&hops, proof.outer_checksum)?;
            let load = match machines {
                Some(machines) => {
                    machines.pause(self.session)?;
                    Load::Machines(machines)
                }
                None => Load::Traffic(Agents::start(self.session, &topology)?),
            };
            let sizes = topology.sizes(&hops, proof.around);
            Ok((proof, asymmetries, sizes, load))
        });
        match built {
            Ok((proof, asymmetries, sizes, load)) => {
                let mut notes = backend.notes();
                if let (Load::Machines(_), Some(images)) = (&load, &self.images) {
                    notes.push(images.words());
                }
                for cell in self
                    .run
                    .cells
                    .iter_mut()
                    .filter(|cell| *network == Network::from(cell.key))
                {
                    cell.notes.clone_from(&notes);
                    cell.asymmetries.clone_from(&asymmetries);
                    cell.path_sizes = sizes;
                    cell.path_proof = proof.holds;
                    cell.proof_detail.clone_from(&proof.detail);
                }
                Ok(Up {
                    network: *network,
                    topology,
                    backend,
                    load,
                })
            }
            Err(error) => {
                self.take_apart(network, topology, backend);
                Err(error)
            }
        }
    }

    /// The machines of a topology, up and running; `None` where its guests are none.
    fn start_machines(&mut self, topology: &Topology) -> Result<Option<Machines>, LabError> {
        if topology.setting.guests != GuestKind::Qemu {
            return Ok(None);
        }
        self.watch.event(Event::Doing("starting virtual machines"));
        let images = self.images.as_ref().ok_or_else(no_images)?;
        Machines::start(self.session, images, topology).map(Some)
    }

    /// Whatever state it is in: what is new has none.
    pub(super) fn start_load_again(&mut self, up: &mut Up) -> Result<(), LabError> {
        if let Load::Traffic(agents) = &mut up.load {
            *agents = Agents::start(self.session, &up.topology)?;
            return Ok(());
        }
        // The old machines first: they hold the devices.
        up.load = Load::Machines(Machines::none());
        up.backend.bring_home(self.session, &up.topology)?;
        if let Some(machines) = self.start_machines(&up.topology)? {
            machines.pause(self.session)?;
            up.load = Load::Machines(machines);
        }
        Ok(())
    }

    /// The same devices serve several cells: each set is recorded once.
    pub(super) fn record_hops(&mut self, hops: &[Hop]) {
        let known = |name: &str| self.run.env.hops.iter().any(|hop| hop.topology == name);
        if !hops.first().is_some_and(|hop| known(&hop.topology)) {
            self.run.env.hops.extend_from_slice(hops);
        }
    }

    /// Some cell of the network is still to be measured.
    pub(super) fn is_needed(&self, network: &Network) -> bool {
        let mut cells = self.run.cells.iter();
        cells.any(|cell| *network == Network::from(cell.key) && cell.status == CellStatus::Open)
    }

    /// None of the network's open cells will be measured.
    pub(super) fn close(&mut self, network: &Network, status: &CellStatus) {
        if let CellStatus::Failed { reason } = status {
            self.note(&format!(
                "{}, {} failed: {reason}",
                network.backend, network.setting
            ));
        }
        let mut closed = 0;
        for cell in &mut self.run.cells {
            if *network == Network::from(cell.key) && cell.status == CellStatus::Open {
                cell.status = status.clone();
                closed += u64::from(self.plan.samples_of(&cell.key) + 1);
            }
        }
        self.watch.event(Event::Advanced(closed));
    }

    pub(super) fn take_down(&mut self, up: Up) {
        // Agents and machines first: they are in the namespaces.
        drop(up.load);
        self.take_apart(&up.network, up.topology, up.backend);
    }

    /// What stays behind here is undone by the journal; that it stayed is worth knowing.
    pub(super) fn take_apart(
        &mut self,
        network: &Network,
        topology: Topology,
        mut backend: Box<dyn Backend>,
    ) {
        if self.session.interrupts.raised() {
            // Or the signal would cut the orderly way down short as well.
            self.session.interrupts.shield();
        }
        if let Err(error) = backend.tear_down(self.session, &topology) {
            self.run.warnings.push(Warning::NotTakenDown {
                network: format!("{}, {}", network.backend, network.setting),
                reason: error.to_string(),
            });
        }
        topology.delete();
    }
}

/// A plan with machines prepares them first.
pub(super) fn no_images() -> LabError {
    LabError::Migration {
        reason: "there is nothing that a machine could boot from".to_owned(),
    }
}
