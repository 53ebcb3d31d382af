//! TAP devices: a device whose other end is a file, as a virtual machine has it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;

use crate::error::{NetError, Place, errno_of};
use crate::link::device_name;
use crate::netns;
use crate::sys::{self, TunSetting};

const CLONE_DEVICE: &str = "/dev/net/tun";

/// `TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN`: what a virtio guest takes by default.
const GUEST_OFFLOAD: libc::c_uint = 0x01 | 0x02 | 0x04 | 0x08;
/// `TUN_F_USO4 | TUN_F_USO6`, since Linux 6.2: a virtio guest on a current QEMU takes UDP super-packets too.
const UDP_OFFLOAD: libc::c_uint = 0x20 | 0x40;

/// A queue of a TAP device. The device goes when this is dropped, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
    vnet_header_len: usize,
}

impl Tap {
    /// Creates the device in the namespace of the calling thread.
    ///
    /// With `vnet_hdr`, each frame has a virtio header of [`Tap::vnet_header_len`] bytes before it, and
    /// the device is set to hand out super-packets and partial checksums as it would to a guest.
    pub fn create(name: &str, vnet_hdr: bool) -> Result<Self, NetError> {
        // With IFF_TUN_EXCL, EBUSY says that the device exists.
        Self::open(name, vnet_hdr, libc::IFF_TUN_EXCL).map_err(|errno| match errno {
            Errno::EBUSY => refused("create the TAP device", name, Errno::EEXIST),
            errno => refused("create the TAP device", name, errno),
        })
    }

    /// Creates the device with several queues, as vhost has it for a virtual machine: with a virtio header, and with
    /// super-packets of TCP and, where the kernel knows them, of UDP.
    pub fn create_queues(name: &str, queues: usize) -> Result<Vec<Self>, NetError> {
        let open = |queue: usize| {
            let first = if queue == 0 { libc::IFF_TUN_EXCL } else { 0 };
            Self::open(name, true, libc::IFF_MULTI_QUEUE | first)
        };
        let taps: Result<Vec<_>, Errno> = (0..queues.max(1)).map(open).collect();
        let taps = taps.map_err(|errno| match errno {
            Errno::EBUSY => refused("create the TAP device", name, Errno::EEXIST),
            errno => refused("create the TAP device", name, errno),
        })?;
        if let Some(tap) = taps.first() {
            // One setting for all queues. A kernel that does not know UDP's changes nothing and says EINVAL.
            let all = TunSetting::Offload(GUEST_OFFLOAD | UDP_OFFLOAD);
            match sys::tun_set(&tap.file, all) {
                Ok(()) | Err(Errno::EINVAL) => {}
                Err(errno) => {
                    return Err(refused("set the offload of the TAP device", name, errno));
                }
            }
        }
        Ok(taps)
    }

    /// Attaches to an existing persistent device, created with the same `vnet_hdr`.
    pub fn attach(name: &str, vnet_hdr: bool) -> Result<Self, NetError> {
        // Without this the kernel would create a device that is missing.
        crate::Netlink::new()?.link(name)?;
        Self::open(name, vnet_hdr, 0)
            .map_err(|errno| refused("attach to the TAP device", name, errno))
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length of the virtio header before each frame: 12, or 0 without `vnet_hdr`.
    #[must_use]
    pub fn vnet_header_len(&self) -> usize {
        self.vnet_header_len
    }

    /// Whether the device outlives this handle.
    pub fn set_persist(&self, on: bool) -> Result<(), NetError> {
        sys::tun_set(&self.file, TunSetting::Persist(on))
            .map_err(|errno| refused("make the TAP device persistent", &self.name, errno))
    }

    /// Whether this reader takes super-packets and partial checksums (needs `vnet_hdr`).
    pub fn set_offload(&self, on: bool) -> Result<(), NetError> {
        sys::tun_set(
            &self.file,
            TunSetting::Offload(if on { GUEST_OFFLOAD } else { 0 }),
        )
        .map_err(|errno| refused("set the offload of the TAP device", &self.name, errno))
    }

    /// The file behind it, for poll or for handing to another process.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn open(name: &str, vnet_hdr: bool, extra: libc::c_int) -> Result<Self, Errno> {
        device_name(name).map_err(|_| Errno::EINVAL)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(CLONE_DEVICE)
            .map_err(|error| errno_of(&error))?;
        let vnet_flag = if vnet_hdr { libc::IFF_VNET_HDR } else { 0 };
        sys::tun_attach(
            &file,
            name,
            libc::IFF_TAP | libc::IFF_NO_PI | vnet_flag | extra,
        )?;
        let tap = Self {
            name: name.to_owned(),
            file,
            vnet_header_len: if vnet_hdr { 12 } else { 0 },
        };
        if vnet_hdr {
            // struct virtio_net_hdr_v1, what QEMU and vhost use.
            sys::tun_set(&tap.file, TunSetting::VnetHeaderLen(12))?;
            sys::tun_set(&tap.file, TunSetting::Offload(GUEST_OFFLOAD))?;
        }
        Ok(tap)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// One read is one frame that the host sent to the device.
impl Read for &Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }
}

/// One write is one frame that the host receives from the device.
impl Write for &Tap {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        (&self.file).write(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refused(operation: &'static str, name: &str, errno: Errno) -> NetError {
    NetError::refused(
        operation,
        Place::new(Some(name), netns::current_name()),
        errno,
    )
}
