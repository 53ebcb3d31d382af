//! The sockets of UDP jobs: one per instance, bound and, for drivers, connected.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::error::{TrafficError, in_range};
use crate::message::Role;
use crate::socket::set_buffers;
use crate::sys;
use crate::workers::Drops;

use super::PATIENCE;

/// A socket of one instance, with the number of it.
pub(super) struct Flow {
    pub(super) stream: u16,
    pub(super) socket: Arc<UdpSocket>,
}

impl Flow {
    fn new(position: usize, socket: UdpSocket) -> Self {
        Self {
            // There are at most MAX_INSTANCES.
            stream: position as u16,
            socket: Arc::new(socket),
        }
    }

    /// Where it is, for errors.
    pub(super) fn place(&self) -> String {
        let name = |address: std::io::Result<SocketAddr>| {
            address.map_or_else(|_| "?".to_owned(), |address| address.to_string())
        };
        format!(
            "from {} to {}",
            name(self.socket.local_addr()),
            name(self.socket.peer_addr())
        )
    }
}

/// The sockets of a side.
pub(super) enum Sockets {
    Serving(Vec<Flow>),
    Driving(Vec<Flow>),
}

/// Opens the sockets of a side.
pub(super) fn sockets(
    work: &'static str,
    instances: u32,
    role: &Role,
    buffer_bytes: Option<u32>,
) -> Result<Sockets, TrafficError> {
    if let Some(bytes) = buffer_bytes {
        in_range("buffer_bytes", bytes.into(), 1024, 1 << 30)?;
    }
    let wrong = |side| TrafficError::WrongRole {
        work,
        side,
        wanted: "serve or drive",
    };
    match role {
        Role::Serve { address } => (0..instances as usize)
            .map(|position| Ok(Flow::new(position, bound(*address, buffer_bytes)?)))
            .collect::<Result<_, _>>()
            .map(Sockets::Serving),
        Role::Drive { from, to, ports } => {
            check_peer(instances, *from, *to, ports)?;
            let sockets = ports.iter().enumerate().map(|(position, port)| {
                let socket = bound(*from, buffer_bytes)?;
                let peer = SocketAddr::new(*to, *port);
                socket
                    .connect(peer)
                    .map_err(|error| TrafficError::refused("connect", peer.to_string(), error))?;
                tell_errors(&socket, *to)?;
                Ok(Flow::new(position, socket))
            });
            sockets.collect::<Result<_, _>>().map(Sockets::Driving)
        }
        Role::ServeFrames { .. } => Err(wrong("serve_frames")),
        Role::DriveFrames { .. } => Err(wrong("drive_frames")),
    }
}

fn check_peer(instances: u32, from: IpAddr, to: IpAddr, ports: &[u16]) -> Result<(), TrafficError> {
    if from.is_ipv4() != to.is_ipv4() {
        return Err(TrafficError::Invalid {
            what: "from",
            value: from.to_string(),
            wanted: format!("of the same family as {to}").into(),
        });
    }
    if ports.len() != instances as usize || ports.contains(&0) {
        return Err(TrafficError::Invalid {
            what: "ports",
            value: format!("{ports:?}"),
            wanted: format!("the {instances} that the server's `ready` names").into(),
        });
    }
    Ok(())
}

/// A socket at a free port, whose sending ends after [`PATIENCE`].
fn bound(address: IpAddr, buffer_bytes: Option<u32>) -> Result<UdpSocket, TrafficError> {
    let refused = |operation: &'static str| {
        move |error| TrafficError::refused(operation, format!("UDP, {address}"), error)
    };
    let socket = UdpSocket::bind((address, 0)).map_err(refused("open a socket"))?;
    if let Some(bytes) = buffer_bytes {
        set_buffers(&socket, bytes)?;
    }
    socket
        .set_write_timeout(Some(PATIENCE))
        .map_err(refused("set the time-out of a socket"))?;
    Ok(socket)
}

/// Has the kernel say when it drops what it was given, and when the way to the peer is broken; otherwise
/// it keeps that from UDP sockets (IP_RECVERR, ip(7)).
fn tell_errors(socket: &UdpSocket, to: IpAddr) -> Result<(), TrafficError> {
    let (level, option) = match to {
        IpAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
        IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
    };
    sys::set_option(socket, level, option, 1)
        .map_err(|error| TrafficError::refused("learn of drops (IP_RECVERR)", "UDP", error))
}

/// Where a server listens.
pub(super) fn ports(flows: &[Flow]) -> Result<Vec<u16>, TrafficError> {
    flows
        .iter()
        .map(|flow| flow.socket.local_addr().map(|address| address.port()))
        .collect::<Result<_, _>>()
        .map_err(|error| TrafficError::refused("read the port of a socket", "UDP", error))
}

/// What the sockets of a receiver had no room for.
pub(super) fn drops(flows: &[Flow]) -> Drops {
    let sockets: Vec<_> = flows.iter().map(|flow| Arc::clone(&flow.socket)).collect();
    Box::new(move || {
        let drops = |socket| sys::socket_drops(socket).map_or(0, u64::from);
        sockets.iter().map(drops).sum()
    })
}
