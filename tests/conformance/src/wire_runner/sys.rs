//! The system calls without a safe wrapper: packet sockets with what the kernel keeps beside a packet, the length of a
//! TAP's header, and a clock. Nothing above this file is unsafe.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A tag as `struct tpacket_auxdata` has it: protocol identifier and tag control information.
pub(super) type RawTag = (u16, u16);

/// An option of a packet socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketOption {
    /// The tag is told beside the packet.
    Auxdata,
    /// A `struct virtio_net_hdr` stands before each packet, both ways.
    VnetHeader,
    /// What the device sends is not received.
    IgnoreOutgoing,
    /// The mark of what is sent.
    Mark(u32),
}

/// A packet socket that receives nothing yet and does not block.
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is touched; the descriptor is checked below.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave it to us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives from, and sends to, one device from now on. `protocol` as on the wire; 0: receives nothing.
pub(super) fn bind(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is a plain C structure of integers, for which zero is valid.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = protocol.to_be();
    addr.sll_ifindex = ifindex as i32;
    let len = size_of_val(&addr) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `addr`, which outlives the call.
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) };
    answer(code)
}

/// Sets an option.
pub(super) fn set(socket: &OwnedFd, option: PacketOption) -> io::Result<()> {
    let (level, name, value) = match option {
        PacketOption::Auxdata => (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1),
        PacketOption::VnetHeader => (libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1),
        PacketOption::IgnoreOutgoing => (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
        PacketOption::Mark(mark) => (libc::SOL_SOCKET, libc::SO_MARK, mark),
    };
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, which outlives the call.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            len,
        )
    };
    answer(code)
}

/// One packet, cut off at the buffer's end: its length, and the tag beside it.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<RawTag>)> {
    let mut control = [0u64; 16]; // aligned as the kernel's cmsghdr
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is a plain C structure of integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the kernel writes at most `iov_len` and `msg_controllen` bytes through pointers to `buffer` and
    // `control`, which outlive the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((len as usize, tag(&message)))
}

fn tag(message: &libc::msghdr) -> Option<RawTag> {
    // SAFETY: `message` is as recvmsg left it, and the control buffer behind it is alive; the macros stay in it.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    let size = size_of::<libc::tpacket_auxdata>();
    let is_auxdata = header.cmsg_level == libc::SOL_PACKET
        && header.cmsg_type == libc::PACKET_AUXDATA
        && header.cmsg_len >= size + size_of::<libc::cmsghdr>();
    if !is_auxdata {
        return None;
    }
    // SAFETY: the length was checked above; the kernel does not promise the alignment, so it is copied.
    let data: libc::tpacket_auxdata =
        unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
    let is_tagged = data.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
    is_tagged.then_some((data.tp_vlan_tpid, data.tp_vlan_tci))
}

/// Waits until one of the files can be read; after `timeout`, in whole milliseconds, no longer.
pub(super) fn wait(files: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = files
        .iter()
        .map(|file| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = timeout.as_millis() as libc::c_int;
    // SAFETY: the kernel reads and writes as many pollfds as it is told, which outlive the call.
    let code = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    answer(code)?;
    Ok(polled
        .iter()
        .map(|file| file.revents & libc::POLLIN != 0)
        .collect())
}

/// Length of the header before each frame of a TAP.
pub(super) fn set_tap_header_len(tap: &File, len: usize) -> io::Result<()> {
    let len = len as libc::c_int;
    // SAFETY: the kernel reads one int from the reference.
    let code = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const len) };
    answer(code)
}

/// The clock of the programs (`bpf_ktime_get_ns`).
pub(super) fn now_ns() -> io::Result<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec to the reference, which outlives the call.
    answer(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) })?;
    Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn answer(code: libc::c_int) -> io::Result<()> {
    if code < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
