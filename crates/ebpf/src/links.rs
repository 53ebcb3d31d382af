//! tcx links: what holds a program on a device. Pinned, they live on without any process.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::object::Loaded;
use crate::sys::{self, Hooked, LinkInfo};
use crate::{EbpfError, Program};

/// A link, open. Dropping it detaches the program unless the link is pinned.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// A loaded program, held so that it cannot vanish.
#[derive(Debug)]
pub struct HeldProgram {
    fd: OwnedFd,
    id: u32,
}

impl HeldProgram {
    /// Takes hold of a program that any process loaded.
    pub fn by_id(id: u32) -> Result<Self, EbpfError> {
        let fd = sys::program_by_id(id).map_err(EbpfError::call(
            "BPF_PROG_GET_FD_BY_ID",
            format!("program {id}"),
        ))?;
        Ok(Self { fd, id })
    }

    pub(crate) fn new(fd: OwnedFd, name: &str) -> Result<Self, EbpfError> {
        let id = sys::program_id(&fd).map_err(EbpfError::call("BPF_OBJ_GET_INFO_BY_FD", name))?;
        Ok(Self { fd, id })
    }

    pub(crate) const fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Its name in C.
    pub fn name(&self) -> Result<String, EbpfError> {
        sys::program_name(&self.fd).map_err(EbpfError::call(
            "BPF_OBJ_GET_INFO_BY_FD",
            format!("program {}", self.id),
        ))
    }

    /// The kernel's number of it.
    pub const fn id(&self) -> u32 {
        self.id
    }
}

impl Link {
    /// Opens a pinned link. None when nothing is pinned there.
    pub fn open(path: &Path) -> Result<Option<Self>, EbpfError> {
        match sys::pinned(path) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(EbpfError::path("BPF_OBJ_GET", path)(error)),
        }
    }

    /// Attaches a program to the ingress of a device in the namespace of this thread.
    pub fn attach(
        loaded: &Loaded,
        program: Program,
        device: &str,
        ifindex: u32,
    ) -> Result<Self, EbpfError> {
        let held = loaded.program(program)?;
        let fd = sys::tcx_attach(held.fd.as_fd(), ifindex).map_err(EbpfError::call(
            "BPF_LINK_CREATE",
            format!("{} on {device}", program.name()),
        ))?;
        Ok(Self(fd))
    }

    /// What is attached where. None when the object is no tcx link.
    pub fn info(&self) -> Result<Option<LinkInfo>, EbpfError> {
        sys::link_info(&self.0).map_err(EbpfError::call("BPF_OBJ_GET_INFO_BY_FD", "a link"))
    }

    /// Swaps the program; every packet meets the old or the new one.
    pub fn replace(&self, program: &HeldProgram) -> Result<(), EbpfError> {
        sys::link_update(&self.0, program.fd.as_fd()).map_err(EbpfError::call(
            "BPF_LINK_UPDATE",
            format!("program {}", program.id),
        ))
    }

    /// Pins the link: from now on it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), EbpfError> {
        sys::pin(self.0.as_fd(), path).map_err(EbpfError::path("BPF_OBJ_PIN", path))
    }
}

/// The programs at the ingress of a device in the namespace of this thread, in the order in which they run.
pub fn hooked(device: &str, ifindex: u32) -> Result<Vec<Hooked>, EbpfError> {
    sys::tcx_query(ifindex).map_err(EbpfError::call("BPF_PROG_QUERY", device))
}

/// Takes a pin away; the link itself lives as long as somebody holds it.
pub fn unpin(path: &Path) -> Result<(), EbpfError> {
    fs::remove_file(path).map_err(EbpfError::path("unpin", path))
}
