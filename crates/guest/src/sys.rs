//! The system calls that the standard library does not have, as the C library declares them. Nothing above this file is
//! unsafe.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

const AF_INET: u16 = 2;
const AF_PACKET: c_int = 17;
const SOCK_RAW: c_int = 3;
const SOCK_CLOEXEC: c_int = 0o2_000_000;
const ETH_P_ALL: u16 = 3;
const SOL_PACKET: c_int = 263;
const PACKET_ADD_MEMBERSHIP: c_int = 1;
const PACKET_MR_PROMISC: u16 = 1;
const PACKET_IGNORE_OUTGOING: c_int = 23;
/// A packet's whole length is told, also where the buffer was too short.
const MSG_TRUNC: c_int = 0x20;
const SIOCGIFFLAGS: c_ulong = 0x8913;
const SIOCSIFFLAGS: c_ulong = 0x8914;
const SIOCSIFADDR: c_ulong = 0x8916;
const SIOCSIFNETMASK: c_ulong = 0x891c;
const SIOCSIFMTU: c_ulong = 0x8922;
const IFF_UP: u8 = 1;
const TCSANOW: c_int = 0;
const RB_POWER_OFF: c_int = 0x4321_fedc;
#[cfg(target_arch = "x86_64")]
const SYS_FINIT_MODULE: c_long = 313;
/// Where numbers are common to all newer architectures (`asm-generic/unistd.h`).
#[cfg(not(target_arch = "x86_64"))]
const SYS_FINIT_MODULE: c_long = 273;

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn ioctl(descriptor: c_int, request: c_ulong, ...) -> c_int;
    fn bind(descriptor: c_int, address: *const c_void, length: u32) -> c_int;
    fn setsockopt(
        descriptor: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: u32,
    ) -> c_int;
    fn recv(descriptor: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    fn tcgetattr(descriptor: c_int, settings: *mut Termios) -> c_int;
    fn tcsetattr(descriptor: c_int, when: c_int, settings: *const Termios) -> c_int;
    fn cfmakeraw(settings: *mut Termios);
    fn reboot(how: c_int) -> c_int;
    fn sync();
}

/// `struct termios` of the C library (60 bytes), of which only the library knows the fields.
#[repr(C, align(8))]
struct Termios([u8; 128]);

/// `struct ifreq`.
#[repr(C)]
struct Ifreq {
    name: [u8; 16],
    value: [u8; 24],
}

/// `struct sockaddr_ll`.
#[repr(C)]
struct PacketAddress {
    family: u16,
    protocol: u16,
    index: c_int,
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; 8],
}

/// `struct packet_mreq`.
#[repr(C)]
struct Membership {
    index: c_int,
    kind: u16,
    length: u16,
    address: [u8; 8],
}

fn done(code: impl Into<i64>) -> io::Result<()> {
    if code.into() < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Mounts a file system of the kernel's own.
pub(crate) fn mount_kernel(kind: &CStr, target: &CStr) -> io::Result<()> {
    let kind = kind.as_ptr();
    // SAFETY: All three strings end with a zero byte and outlive the call; no data is given.
    done(unsafe { mount(kind, target.as_ptr(), kind, 0, std::ptr::null()) })
}

/// Loads a kernel module.
pub(crate) fn load_module(file: &File) -> io::Result<()> {
    let none: c_int = 0;
    // SAFETY: finit_module(2) takes an open descriptor, a string that outlives the call, and flags.
    done(unsafe { syscall(SYS_FINIT_MODULE, file.as_raw_fd(), c"".as_ptr(), none) })
}

fn device_call(
    socket: BorrowedFd<'_>,
    request: c_ulong,
    device: &str,
    value: [u8; 24],
) -> io::Result<[u8; 24]> {
    let mut name = [0; 16];
    if device.len() >= name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name[..device.len()].copy_from_slice(device.as_bytes());
    let mut call = Ifreq { name, value };
    // SAFETY: These requests read and write one `struct ifreq`, which is a value of this function.
    done(unsafe { ioctl(socket.as_raw_fd(), request, &raw mut call) })?;
    Ok(call.value)
}

fn with_address(address: Ipv4Addr) -> [u8; 24] {
    // A `struct sockaddr_in`: family, port, address.
    let mut value = [0; 24];
    value[..2].copy_from_slice(&AF_INET.to_ne_bytes());
    value[4..8].copy_from_slice(&address.octets());
    value
}

/// Gives a device an address and the netmask of its network.
pub(crate) fn set_address(
    socket: BorrowedFd<'_>,
    device: &str,
    address: Ipv4Addr,
    netmask: Ipv4Addr,
) -> io::Result<()> {
    device_call(socket, SIOCSIFADDR, device, with_address(address))?;
    device_call(socket, SIOCSIFNETMASK, device, with_address(netmask)).map(drop)
}

/// Sets the MTU of a device.
pub(crate) fn set_mtu(socket: BorrowedFd<'_>, device: &str, mtu: u32) -> io::Result<()> {
    let mut value = [0; 24];
    value[..4].copy_from_slice(&mtu.to_ne_bytes());
    device_call(socket, SIOCSIFMTU, device, value).map(drop)
}

/// Takes a device up.
pub(crate) fn set_up(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    let mut flags = device_call(socket, SIOCGIFFLAGS, device, [0; 24])?;
    flags[if cfg!(target_endian = "little") { 0 } else { 1 }] |= IFF_UP;
    device_call(socket, SIOCSIFFLAGS, device, flags).map(drop)
}

/// Hears every frame that a device receives, whoever it is for, and none that it sends.
pub(crate) fn hear_frames(index: i32) -> io::Result<OwnedFd> {
    let protocol = ETH_P_ALL.to_be();
    // SAFETY: A call without pointers.
    let code = unsafe { socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) };
    done(code)?;
    // SAFETY: The call succeeded: the descriptor is open, and nobody else has it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(code) };
    let on: c_int = 1;
    set_packet_option(&descriptor, PACKET_IGNORE_OUTGOING, &on)?;
    let membership = Membership {
        index,
        kind: PACKET_MR_PROMISC,
        length: 0,
        address: [0; 8],
    };
    set_packet_option(&descriptor, PACKET_ADD_MEMBERSHIP, &membership)?;
    let address = PacketAddress {
        family: AF_PACKET as u16,
        protocol,
        index,
        hardware: 0,
        kind: 0,
        length: 0,
        address: [0; 8],
    };
    let size = size_of_val(&address) as u32;
    // SAFETY: Address and size are those of one value, which outlives the call.
    done(unsafe { bind(descriptor.as_raw_fd(), (&raw const address).cast(), size) })?;
    Ok(descriptor)
}

fn set_packet_option<T>(descriptor: &OwnedFd, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: Address and size are those of one value of plain numbers, which outlives the call.
    done(unsafe {
        setsockopt(
            descriptor.as_raw_fd(),
            SOL_PACKET,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    })
}

/// The next frame: its length, which may be more than what the buffer takes of it.
pub(crate) fn receive_frame(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: The kernel writes at most `length` bytes into the borrowed buffer.
    let count = unsafe { recv(socket.as_raw_fd(), start, length, MSG_TRUNC) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Has a terminal hand over bytes as they come, and echo nothing.
pub(crate) fn make_raw(terminal: &File) -> io::Result<()> {
    let mut settings = Termios([0; 128]);
    let descriptor = terminal.as_raw_fd();
    // SAFETY: The value is larger than any C library's `struct termios` (60 bytes in glibc and musl) and aligned for it.
    done(unsafe { tcgetattr(descriptor, &raw mut settings) })?;
    // SAFETY: As above, and the library has filled it in.
    unsafe { cfmakeraw(&raw mut settings) };
    // SAFETY: As above.
    done(unsafe { tcsetattr(descriptor, TCSANOW, &raw const settings) })
}

/// Ends the machine.
pub(crate) fn power_off() -> ExitCode {
    // SAFETY: A call without arguments.
    unsafe { sync() };
    // SAFETY: A call without pointers.
    unsafe { reboot(RB_POWER_OFF) };
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let failed = set_mtu(socket.as_fd(), "no-such-device0", 1500).unwrap_err();
        assert!(failed.raw_os_error().is_some(), "{failed}");
        let long = set_up(socket.as_fd(), "a-name-of-16-byt").unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
        // Up it is already; this asks for nothing more.
        let flags = device_call(socket.as_fd(), SIOCGIFFLAGS, "lo", [0; 24]).unwrap();
        assert_ne!(flags, [0; 24]);
        assert!(make_raw(&File::open("/dev/null").unwrap()).is_err());
        assert!(load_module(&File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn an_address_lies_where_the_kernel_reads_it() {
        let value = with_address(Ipv4Addr::new(198, 18, 1, 2));
        assert_eq!(value[..8], [2, 0, 0, 0, 198, 18, 1, 2]);
    }
}
