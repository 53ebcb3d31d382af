//! What fits through the underlay, and where a machine is set otherwise: `overlane mtu`. The arithmetic itself is the
//! model's (`overlane_model::mtu`).

pub mod facts;
