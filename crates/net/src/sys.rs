//! The system calls without a safe wrapper: the ethtool and TUN ioctls, the cookie of a namespace, device and
//! filter of a packet socket, options of sockets, and what happens between fork and exec. Nothing above this file is unsafe.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `_IO(0xb7, 3)` of linux/nsfs.h.
const NS_GET_NSTYPE: libc::c_ulong = 0xb703;

// Commands of linux/ethtool.h.
pub(crate) const GDRVINFO: u32 = 0x03;
pub(crate) const GPAUSEPARAM: u32 = 0x12;
pub(crate) const GSTRINGS: u32 = 0x1b;
pub(crate) const GSSET_INFO: u32 = 0x37;
pub(crate) const GFEATURES: u32 = 0x3a;
pub(crate) const SFEATURES: u32 = 0x3b;
/// `ETH_GSTRING_LEN`, in words.
pub(crate) const STRING_WORDS: usize = 8;

/// Longest device name, without the terminating zero.
pub(crate) const DEVICE_NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// An ioctl of the TUN driver that takes an `int` by value or by reference.
#[derive(Clone, Copy)]
pub(crate) enum TunSetting {
    /// `TUNSETPERSIST`: the device outlives its last file.
    Persist(bool),
    /// `TUNSETOFFLOAD`: what the reader can take.
    Offload(libc::c_uint),
    /// `TUNSETVNETHDRSZ`: length of the header before each frame.
    VnetHeaderLen(libc::c_int),
}

/// Lets `command` enter the namespace behind `netns` just before it executes.
pub(crate) fn enter_before_exec(command: &mut Command, netns: Arc<File>) {
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed; it
    // makes one system call on an open file and neither allocates nor locks.
    unsafe {
        command.pre_exec(move || setns(&*netns, CloneFlags::CLONE_NEWNET).map_err(io::Error::from));
    }
}

/// Lets `command` leave the session of its parent just before it executes, and keep none of its files but the three
/// that the command names.
pub(crate) fn detach_before_exec(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed; it
    // makes two system calls and neither allocates nor locks. No file is closed before the program is executed.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
            let code = libc::close_range(3, libc::c_uint::MAX, flags);
            Ok(Errno::result(code).map(drop)?)
        });
    }
}

/// Binds a packet socket to a device. It is given frames of this protocol (`ETH_P_`); with 0 it is given none.
pub(crate) fn bind_packet(socket: &impl AsRawFd, ifindex: u32, protocol: u16) -> Result<(), Errno> {
    // SAFETY: sockaddr_ll is a plain C structure of integers and an array, for all of which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_ifindex = ifindex as libc::c_int;
    address.sll_protocol = protocol.to_be();
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads the address on this stack frame, whose length is given.
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    Errno::result(code).map(drop)
}

/// `SO_ATTACH_FILTER`: the kernel drops what the program of classic BPF does not want. It refuses a wrong program.
pub(crate) fn attach_filter(
    socket: &impl AsRawFd,
    program: &mut [libc::sock_filter],
) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies `len` instructions of the slice, which outlives the call, and the structure itself.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    Errno::result(code).map(drop)
}

/// A socket option whose value is an int.
pub(crate) fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads one int from this stack frame, whose size is given.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            len,
        )
    };
    Errno::result(code).map(drop)
}

/// `NS_GET_NSTYPE` of linux/nsfs.h: whether a file of nsfs is that of a network namespace.
pub(crate) fn is_netns(file: &File) -> Result<bool, Errno> {
    // SAFETY: the request has no argument, no memory is touched.
    let code = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_NSTYPE as _) };
    Errno::result(code).map(|kind| kind == libc::CLONE_NEWNET)
}

/// `SO_NETNS_COOKIE` (net/core/sock.c): the number of the namespace that a socket belongs to.
pub(crate) fn netns_cookie(socket: &impl AsRawFd) -> Result<u64, Errno> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of the u64 on this stack frame.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    Errno::result(code).map(|_| cookie)
}

/// One `SIOCETHTOOL` request. `buffer` is the structure of the command in its first word, and is overwritten
/// with the answer; one too short for its command is refused, as is a command this file does not know.
pub(crate) fn ethtool(
    socket: &impl AsRawFd,
    device: &str,
    buffer: &mut [u32],
) -> Result<(), Errno> {
    if ethtool_words(buffer).is_none_or(|words| buffer.len() < words) {
        return Err(Errno::EINVAL);
    }
    let mut request = interface_request(device)?;
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: the kernel reads the name from `request` and reads and writes through `ifru_data`, at most the
    // length of the command's structure, which was checked above; both outlive the call.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    Errno::result(code).map(drop)
}

/// `TUNSETIFF`: makes `file` a queue of the TAP device `name`.
pub(crate) fn tun_attach(file: &File, name: &str, flags: libc::c_int) -> Result<(), Errno> {
    let mut request = interface_request(name)?;
    // The kernel's field is a short whose bits are the IFF_ constants.
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes exactly one ifreq, which lives on this stack frame.
    let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    Errno::result(code).map(drop)
}

/// Sets one property of a TAP device.
pub(crate) fn tun_set(file: &File, setting: TunSetting) -> Result<(), Errno> {
    let fd = file.as_raw_fd();
    let code = match setting {
        // SAFETY: the argument is a number, no memory is touched.
        TunSetting::Persist(on) => unsafe {
            libc::ioctl(fd, libc::TUNSETPERSIST as _, libc::c_ulong::from(on))
        },
        // SAFETY: the argument is a number, no memory is touched.
        TunSetting::Offload(flags) => unsafe {
            libc::ioctl(fd, libc::TUNSETOFFLOAD as _, libc::c_ulong::from(flags))
        },
        // SAFETY: the kernel reads one int from the reference.
        TunSetting::VnetHeaderLen(length) => unsafe {
            libc::ioctl(fd, libc::TUNSETVNETHDRSZ as _, &raw const length)
        },
    };
    Errno::result(code).map(drop)
}

/// How many words the kernel may read or write for the request in `buffer` (linux/ethtool.h).
///
/// For `GSTRINGS` the kernel goes by its own count and not by the caller's; both are the same, because the
/// caller has it from `GSSET_INFO` and the sets in use here are fixed when the kernel is built.
fn ethtool_words(buffer: &[u32]) -> Option<usize> {
    Some(match *buffer {
        // Command, five strings of 32 bytes, 12 reserved bytes, five words.
        [GDRVINFO, ..] => 1 + 5 * 8 + 3 + 5,
        [GPAUSEPARAM, ..] => 4,
        // Command, reserved, mask of sets (64 bit), a count for each set.
        [GSSET_INFO, _, low, high, ..] => 4 + (low.count_ones() + high.count_ones()) as usize,
        // Command, set, count, strings.
        [GSTRINGS, _, count, ..] => 3 + count as usize * STRING_WORDS,
        // Command, blocks of 32 features, per block the bits available, requested, active, never changed.
        [GFEATURES, blocks, ..] => 2 + blocks as usize * 4,
        // Command, blocks of 32 features, per block the bits valid, requested.
        [SFEATURES, blocks, ..] => 2 + blocks as usize * 2,
        _ => return None,
    })
}

fn interface_request(device: &str) -> Result<libc::ifreq, Errno> {
    if device.is_empty() || device.len() > DEVICE_NAME_MAX {
        return Err(Errno::ENODEV);
    }
    // SAFETY: ifreq is a plain C structure of integers, arrays and a union of those and one pointer, for
    // all of which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *slot = byte as libc::c_char;
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_too_short_for_their_command_are_refused() {
        let socket = io::stdin();
        for mut buffer in [
            vec![],
            vec![0xffff; 64],
            vec![GDRVINFO; 48],
            vec![GPAUSEPARAM; 3],
            vec![GSSET_INFO, 0, 1 << 4, 0],
            vec![GSTRINGS, 4, 1, 0],
            vec![GFEATURES, 2, 0, 0, 0, 0],
            vec![SFEATURES, u32::MAX, 0, 0],
        ] {
            let answer = ethtool(&socket, "lo", &mut buffer);
            assert_eq!(answer, Err(Errno::EINVAL), "{buffer:?}");
        }
    }
}
