//! Sending frames by a device, byte for byte.

use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};

use crate::error::{NetError, Place};
use crate::link::Link;
use crate::{netns, sys};

/// A packet socket that sends by one device.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    device: String,
}

impl PacketSocket {
    /// Opens one in the namespace of this thread.
    pub fn open(link: &Link) -> Result<Self, NetError> {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .and_then(|socket| sys::bind_packet(&socket, link.index).map(|()| socket))
            .map(|socket| Self {
                socket,
                device: link.name.clone(),
            })
            .map_err(|errno| NetError::refused("open a packet socket", place(&link.name), errno))
    }

    /// Sends a frame, from its Ethernet header on; a VLAN tag is part of it.
    pub fn send(&self, frame: &[u8]) -> Result<(), NetError> {
        send(self.socket.as_raw_fd(), frame, MsgFlags::empty())
            .map(drop)
            .map_err(|errno| NetError::refused("send a frame", place(&self.device), errno))
    }
}

fn place(device: &str) -> Place {
    Place::new(Some(device), netns::current_name())
}
