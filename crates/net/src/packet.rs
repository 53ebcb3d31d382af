//! Frames of a device, byte for byte: sending them, and reading what comes.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socket};

use crate::error::{NetError, Place};
use crate::link::Link;
use crate::{netns, sys};

/// `ETH_P_ALL`: before any hook of the device sees a frame, and may take it.
const ALL: u16 = libc::ETH_P_ALL as u16;
/// Of many senders that answer at once, and a reader that waits for a CPU.
const BUFFER: libc::c_int = 4 << 20;

/// A packet socket that sends by one device.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    device: String,
}

/// A packet socket that reads what comes in by one device, of that what a filter wants.
#[derive(Debug)]
pub struct PacketReader {
    socket: OwnedFd,
    device: String,
}

/// One instruction of a filter, in classic BPF (linux/filter.h). The program returns how many bytes of a frame it
/// wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Of a jump: how many instructions it skips when it is true,
    pub when_true: u8,
    /// and when it is false.
    pub when_false: u8,
    /// Its number.
    pub k: u32,
}

impl PacketSocket {
    /// Opens one in the namespace of this thread.
    pub fn open(link: &Link) -> Result<Self, NetError> {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .and_then(|socket| sys::bind_packet(&socket, link.index, 0).map(|()| socket))
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

impl PacketReader {
    /// Opens one in the namespace of this thread. It does not see what the device sends.
    pub fn open(link: &Link, filter: &[Instruction]) -> Result<Self, NetError> {
        Self::listen(link, filter)
            .map(|socket| Self {
                socket,
                device: link.name.clone(),
            })
            .map_err(|errno| NetError::refused("open a packet socket", place(&link.name), errno))
    }

    fn listen(link: &Link, filter: &[Instruction]) -> Result<OwnedFd, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // It asks for no protocol until the filter is there.
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        let instruction = |it: &Instruction| libc::sock_filter {
            code: it.code,
            jt: it.when_true,
            jf: it.when_false,
            k: it.k,
        };
        let mut program: Vec<_> = filter.iter().map(instruction).collect();
        sys::attach_filter(&socket, &mut program)?;
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
        sys::bind_packet(&socket, link.index, ALL)?;
        Ok(socket)
    }

    /// The next frame that waits, as far as the filter and the buffer take it.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>, NetError> {
        match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(len) => Ok(buffer.get(..len)),
            // The device went down: it may come up again.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
            Err(errno) => Err(NetError::refused(
                "read a frame",
                place(&self.device),
                errno,
            )),
        }
    }
}

impl AsFd for PacketReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn place(device: &str) -> Place {
    Place::new(Some(device), netns::current_name())
}
