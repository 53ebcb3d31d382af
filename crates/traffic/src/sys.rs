//! The system calls without a safe wrapper. Nothing above this file is unsafe.

use std::io;
use std::mem;
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

// ---- socket options ----

/// Sets a socket option whose value is an `int`.
pub(crate) fn set_option(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which lives on this stack frame.
    let code = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads a socket option whose value is an `int`.
pub(crate) fn option(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the int on this stack frame.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if code == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

// ---- TCP ----

/// Words of `struct tcp_info` (linux/tcp.h) up to and with `tcpi_min_rtt`.
pub(crate) const TCP_INFO_WORDS: usize = 38;

/// `TCP_INFO` of a connection, in words: libc's structure ends before the smallest round-trip time. What an
/// older kernel does not know stays 0.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<[u32; TCP_INFO_WORDS]> {
    option_words(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
}

/// An option that is a row of words; those that the kernel does not write stay 0.
fn option_words<const N: usize>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; N]> {
    let mut words = [0_u32; N];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the array on this stack frame.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    outcome(code).map(|()| words)
}

/// accept4(2), without asking who it is.
pub(crate) fn accept(listener: &TcpListener, flags: libc::c_int) -> io::Result<TcpStream> {
    // SAFETY: null pointers tell the kernel not to write the peer's address.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            ptr::null_mut(),
            ptr::null_mut(),
            flags | libc::SOCK_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

// ---- UDP and raw frames ----

/// Messages that one call sends. Each is the bytes of a slot of its own, and after them, where there is one,
/// a tail that all share.
pub(crate) struct SendBatch {
    slots: Vec<u8>,
    slot_bytes: usize,
    lengths: Vec<usize>,
    tail: Vec<u8>,
    devices: Vec<libc::sockaddr_ll>,
    vectors: Vec<[libc::iovec; 2]>,
    headers: Vec<libc::mmsghdr>,
}

impl SendBatch {
    /// Room for `messages` of at most `slot_bytes`, all zero, and `tail_bytes` of zeros behind each.
    pub(crate) fn new(messages: usize, slot_bytes: usize, tail_bytes: usize) -> Self {
        let empty = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            slots: vec![0; messages * slot_bytes],
            slot_bytes,
            lengths: vec![slot_bytes; messages],
            tail: vec![0; tail_bytes],
            devices: Vec::new(),
            vectors: vec![[empty; 2]; messages],
            // SAFETY: mmsghdr is a C structure of integers and pointers, for which all zero is a value.
            headers: vec![unsafe { mem::zeroed() }; messages],
        }
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// The bytes of a slot.
    #[inline]
    pub(crate) fn slot(&mut self, message: usize) -> &mut [u8] {
        &mut self.slots[message * self.slot_bytes..][..self.slot_bytes]
    }

    /// How much of a message is sent: of its slot, and of the tail what the slot has no room for.
    #[inline]
    pub(crate) fn set_length(&mut self, message: usize, bytes: usize) {
        self.lengths[message] = bytes.min(self.slot_bytes + self.tail.len());
    }

    /// For packet sockets: the device that each message leaves by.
    pub(crate) fn set_devices(&mut self, indexes: impl Iterator<Item = libc::c_int>) {
        self.devices = indexes.take(self.len()).map(device_address).collect();
    }

    /// Sends these messages. Returns how many the kernel took; fewer than asked: it refused the next one.
    pub(crate) fn send(&mut self, socket: &impl AsFd, messages: Range<usize>) -> io::Result<usize> {
        for message in messages.clone() {
            let length = self.lengths[message].min(self.slot_bytes);
            let tail = self.lengths[message] - length;
            let slot = &mut self.slots[message * self.slot_bytes..][..length];
            self.vectors[message][0].iov_base = slot.as_mut_ptr().cast();
            self.vectors[message][0].iov_len = length;
            self.vectors[message][1].iov_base = self.tail.as_mut_ptr().cast();
            self.vectors[message][1].iov_len = tail;
            let header = &mut self.headers[message].msg_hdr;
            header.msg_iov = self.vectors[message].as_mut_ptr();
            header.msg_iovlen = if tail == 0 { 1 } else { 2 };
            if let Some(device) = self.devices.get_mut(message) {
                header.msg_name = (&raw mut *device).cast();
                header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            }
        }
        let headers = &mut self.headers[messages];
        // SAFETY: Every header was just pointed at vectors, bytes and an address that `self` owns, with
        // their lengths; nothing of it moves during the call, and the kernel reads it only then.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// The address of a packet socket that means a device.
fn device_address(index: libc::c_int) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is a C structure of integers, for which all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_ifindex = index;
    address
}

/// Binds a packet socket to a device: from now on it receives what comes there.
pub(crate) fn bind_device(socket: &impl AsFd, index: libc::c_int) -> io::Result<()> {
    let mut address = device_address(index);
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the kernel reads the address on this stack frame, whose size is given.
    let code = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    outcome(code)
}

/// What one call receives.
pub(crate) struct ReceiveBatch {
    slots: Vec<u8>,
    slot_bytes: usize,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

/// Room for the control message of UDP_GRO, aligned as those are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

impl ReceiveBatch {
    /// Room for `messages` datagrams; what is longer than `slot_bytes` is cut.
    pub(crate) fn new(messages: usize, slot_bytes: usize) -> Self {
        let empty = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            slots: vec![0; messages * slot_bytes],
            slot_bytes,
            controls: vec![Control([0; 64]); messages],
            vectors: vec![empty; messages],
            // SAFETY: mmsghdr is a C structure of integers and pointers, for which all zero is a value.
            headers: vec![unsafe { mem::zeroed() }; messages],
        }
    }

    /// Waits for the first datagram (unless `flags` say MSG_DONTWAIT) and takes what else is there.
    pub(crate) fn receive(&mut self, socket: &impl AsFd, flags: libc::c_int) -> io::Result<usize> {
        for (message, header) in self.headers.iter_mut().enumerate() {
            let slot = &mut self.slots[message * self.slot_bytes..][..self.slot_bytes];
            self.vectors[message].iov_base = slot.as_mut_ptr().cast();
            self.vectors[message].iov_len = slot.len();
            header.msg_hdr.msg_iov = &raw mut self.vectors[message];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = self.controls[message].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: Every header was just pointed at a vector, bytes and control bytes that `self` owns, with
        // their lengths; nothing of it moves during the call, and the kernel writes only then.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// One of the datagrams that the last call received, and the size of the segments that it was made of
    /// (UDP_GRO), if the kernel put several together.
    pub(crate) fn datagram(&self, message: usize) -> (&[u8], Option<usize>) {
        let header = &self.headers[message];
        let length = (header.msg_len as usize).min(self.slot_bytes);
        let bytes = &self.slots[message * self.slot_bytes..][..length];
        (bytes, segment_bytes(&header.msg_hdr))
    }
}

/// What UDP_GRO says of a datagram.
fn segment_bytes(header: &libc::msghdr) -> Option<usize> {
    if header.msg_controllen == 0 {
        return None;
    }
    // SAFETY: The kernel filled the control bytes that the header points at and set their length;
    // CMSG_FIRSTHDR checks it, and a message of UDP_GRO holds an int.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let is_size = control.cmsg_level == libc::SOL_UDP && control.cmsg_type == libc::UDP_GRO;
        let data = libc::CMSG_DATA(control).cast::<libc::c_int>();
        is_size
            .then(|| data.read_unaligned())
            .and_then(|bytes| usize::try_from(bytes).ok())
    }
}

/// What a socket had no room for so far (SO_MEMINFO, SK_MEMINFO_DROPS).
pub(crate) fn socket_drops(socket: &impl AsFd) -> io::Result<u32> {
    let info: [u32; 9] = option_words(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(info[libc::SK_MEMINFO_DROPS as usize])
}

/// Gives a socket a classic filter program: it receives only what the program lets through, and of
/// that as many bytes as it says.
pub(crate) fn set_filter(socket: &impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads the program during the call, in the length given, and writes nothing.
    let code = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    outcome(code)
}

// ---- signals ----

extern "C" fn nothing(_: libc::c_int) {}

/// From now on this signal does nothing but end the call that its thread blocks in (`EINTR`).
pub(crate) fn interrupt_calls(signal: Signal) -> nix::Result<()> {
    // Without SA_RESTART: the call is not to go on.
    let action = SigAction::new(
        SigHandler::Handler(nothing),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler touches nothing, so it may run at any moment.
    unsafe { sigaction(signal, &action) }.map(drop)
}

fn outcome(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
