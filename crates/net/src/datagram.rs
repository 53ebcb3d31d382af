//! UDP datagrams that are never fragmented, and are sent whatever the kernel believes of the path.

use std::net::{SocketAddr, UdpSocket};

use nix::errno::Errno;

use crate::error::{NetError, Place, errno_of};
use crate::{netns, sys};

/// `UDP_NO_CHECK6_TX` of linux/udp.h.
const UDP_NO_CHECK6_TX: libc::c_int = 101;

/// A socket that sends as tunnels do: with DF, up to the device's own MTU, and with a UDP checksum of zero. In the
/// namespace of this thread.
pub fn unfragmented(address: SocketAddr) -> Result<UdpSocket, NetError> {
    let refused = |errno: Errno| {
        let place = Place::new(None, netns::current_name());
        NetError::refused(format!("open a UDP socket on {address}"), place, errno)
    };
    let socket = UdpSocket::bind(address).map_err(|error| refused(errno_of(&error)))?;
    let options = match address {
        SocketAddr::V4(_) => [
            (
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_PROBE,
            ),
            (libc::SOL_SOCKET, libc::SO_NO_CHECK, 1),
        ],
        SocketAddr::V6(_) => [
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_PROBE,
            ),
            (libc::IPPROTO_UDP, UDP_NO_CHECK6_TX, 1),
        ],
    };
    for (level, name, value) in options {
        sys::set_option(&socket, level, name, value).map_err(refused)?;
    }
    Ok(socket)
}
