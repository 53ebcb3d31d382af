//! Namespaces, links, addresses, routes, neighbours, device settings, frames and tables of nftables, synchronously; and
//! what changes of them.
//!
//! This crate is the only place that speaks to the kernel's network configuration. `host` uses it to
//! lay tables onto a machine, `lab` to build topologies. It knows nothing of overlays.
//!
//! Everything acts in the network namespace of the calling thread. To act in another one, enter it
//! with [`netns::Netns::run`] (a thread of its own; the caller's thread never changes namespace) or
//! open a handle there with [`Netlink::in_netns`]. `tests/links.rs` has examples.

pub mod address;
mod create;
pub mod datagram;
mod error;
pub mod ethtool;
pub mod events;
pub mod link;
pub mod neighbour;
mod netlink;
pub mod netns;
pub mod nftables;
pub mod packet;
pub mod process;
pub mod route;
#[expect(
    unsafe_code,
    reason = "ioctls and the hook between fork and exec have no safe wrapper"
)]
mod sys;
pub mod sysctl;
pub mod sysfs;
pub mod tap;

pub use create::{Geneve, Vxlan};
pub use error::{NetError, Place, RejectedFeature, Rejection};
pub use events::{Event, Events};
pub use link::{Link, LinkStats};
pub use neighbour::{NeighbourState, Nud};
pub use netlink::Netlink;
pub use packet::{Instruction, PacketReader, PacketSocket};
pub use route::RouteTo;
