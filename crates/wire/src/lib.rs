//! Headers of the overlay and its underlay, as checked views and small values, and the value types
//! the whole program speaks in. Nothing here does IO or knows the time.
//!
//! One file per header, each with the same two types:
//!
//! - `View::new_checked(bytes)` checks every length and flag rule once; after it getters cannot
//!   fail. A view borrows the bytes and also gives the payload.
//! - `Header` is the value: `Header::parse(&view)` takes it from the wire, [`Emit`] writes it.
//!   Reserved bits are written as zero; what the view saw of them is asked from the view.
//!
//! Options areas are checked types of their own (`geneve_option::Options` and so on): a value that
//! exists can be walked without errors, and is emitted byte for byte.
//!
//! [`packet`] walks a whole frame through all of them; [`outer`] recognises a tunnel packet the way
//! a tunnel end point does.

#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
mod emit;
mod error;
pub mod ethernet;
pub mod geneve;
pub mod geneve_option;
pub mod hash;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
mod layout;
pub mod nd;
pub mod nd_option;
pub mod outer;
pub mod packet;
pub mod tcp;
pub mod tcp_option;
mod types;
pub mod udp;
pub mod vxlan;

pub use emit::Emit;
pub use error::{Layer, WireError};
pub use geneve_option::{Egress, OvnOption};
pub use ip::{Ecn, IpVersion};
pub use types::{EtherType, Mac, PortKey, ValueError, VlanTag, Vni};

/// What a receiver does about reserved bits of VXLAN and Geneve that are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReservedBits {
    /// As RFC 7348 §5 and RFC 8926 §3.4 ask.
    #[default]
    Ignore,
    /// A strict tunnel drops the packet.
    Refuse,
}
