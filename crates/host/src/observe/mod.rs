//! What runs on this machine, for `overlane show`: numbers from the kernel, names from the state file.

mod connections;
mod counters;
mod devices;
mod fdb;
mod guard;
mod learned;
mod limits;
mod look;
mod neighbours;
mod ports;
mod remotes;
mod routes;
mod rules;
mod states;
mod switches;

pub use crate::state::Lost;
#[cfg(test)]
pub(crate) use connections::tests::key as connection_key;
pub use connections::{
    ConnectionRow, ConnectionState, Connections, End, Translation, Whose, connections,
};
pub(crate) use connections::{ends, known_owner};
pub(crate) use counters::CounterMaps;
pub use counters::{Counters, PortCount, RemoteCount, VerdictCount, counters};
pub use devices::{DeviceRow, Devices, Lacking, devices, lacking};
pub use fdb::{Fdb, FdbPlace, FdbRow, fdb};
pub use guard::{Guard, GuardRow, GuardState};
pub use learned::{Learned, LearnedRow, LearningPort, learned};
pub use limits::{LimitRow, UNTOLD, limit_help, limits};
pub use look::{Count, OnUnderlay, interrupted};
pub(crate) use look::{in_namespace, maps};
pub(crate) use neighbours::neighbours_in;
pub use neighbours::{NeighbourRow, NeighbourState, Neighbours, neighbours};
pub use ports::{OtherMac, OtherMtu, PortRow, Ports, SuperPackets, ports};
pub(crate) use remotes::PATH_MTU_SECONDS;
pub use remotes::{PathMtuRow, RemoteRow, Remotes, remotes};
pub use routes::{NextHopRow, RouteRow, RouterRow, Routes, WayRow, routes};
pub use rules::{RuleRow, Rules, rules};
pub use states::{OtherDevice, PortState};
pub use switches::{SwitchRow, Switches, switches};
