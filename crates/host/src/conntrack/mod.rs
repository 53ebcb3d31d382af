//! Connections that ports and gateways follow, by hand: forgotten, and handed over to another host.

pub mod forget;
pub mod handover;
