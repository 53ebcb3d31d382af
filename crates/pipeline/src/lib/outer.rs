//! Outer headers that were accepted, as stages vtep_check and tunnel say.

use overlane_model::{Remote, SwitchTable};
use overlane_wire::Ecn;

/// Destination key of a flooded frame.
pub(crate) const GROUP_KEY: u16 = 0x8000;

/// An outer header that was accepted. Offsets are from the start of the packet.
pub(crate) struct Outer<'a> {
    pub(crate) remote: &'a Remote,
    pub(crate) ecn: Ecn,
    /// Of the VXLAN or Geneve header.
    pub(crate) tunnel_at: usize,
    /// Of the UDP payload's end: padding may follow.
    pub(crate) end: usize,
}

/// A tunnel header that was accepted.
pub(crate) struct Tunnel<'a> {
    pub(crate) switch: &'a SwitchTable,
    /// Of the inner frame in the packet.
    pub(crate) inner_at: usize,
    /// From OVN's option; 0: it did not say.
    pub(crate) source_key: u16,
    /// Likewise; 0x8000 and above: flood.
    pub(crate) dest_key: u16,
}
