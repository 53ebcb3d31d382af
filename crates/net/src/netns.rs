//! Named network namespaces, laid out as `ip netns` does: a bind mount per name under `/run/netns`.
//!
//! The caller's thread never changes namespace: [`Netns::run`] enters on a thread of its own. Only the
//! network namespace is entered; mounts stay, because inside `ip netns exec` `/sys/fs/bpf` is an empty
//! folder and pinned objects would be out of reach.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, fstatfs};

use crate::error::{NetError, Place, errno_of};
use crate::{Netlink, sys};

/// The folder of the names.
pub const RUN_DIR: &str = "/run/netns";
const OWN_NS: &str = "/proc/thread-self/ns/net";
/// `NSFS_MAGIC` of linux/magic.h: tells a mounted namespace from the empty file below it.
const NSFS: FsType = FsType(0x6e73_6673);

/// A network namespace, held open.
#[derive(Debug, Clone)]
pub struct Netns {
    name: String,
    file: Arc<File>,
}

/// What tells two namespaces apart: device and inode of their nsfs file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetnsId(u64, u64);

impl Netns {
    /// Creates a namespace with its loopback up, visible to `ip netns`.
    pub fn create(name: &str) -> Result<Self, NetError> {
        let path = path_of(name)?;
        let refused = |errno| refused("create the namespace", name, errno);
        let _lock = prepare_run_dir().map_err(refused)?;
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&path)
            .map_err(|error| refused(errno_of(&error)))?;
        let made = on_new_thread(name, || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            bind(Path::new(OWN_NS), &path, MsFlags::MS_BIND)
        })
        .and_then(|result| result.map_err(refused))
        .and_then(|()| Self::open(name))
        .and_then(|netns| Netlink::in_netns(&netns)?.set_up("lo").map(|()| netns));
        if made.is_err() {
            // The first error is the one to tell; what cannot be undone here, delete() will.
            let _ = unmount_and_unlink(&path);
        }
        made
    }

    /// Opens an existing namespace by name.
    pub fn open(name: &str) -> Result<Self, NetError> {
        let path = path_of(name)?;
        let refused = |errno| refused("open the namespace", name, errno);
        let file = File::open(path).map_err(|error| refused(errno_of(&error)))?;
        if fstatfs(&file).map_err(refused)?.filesystem_type() != NSFS {
            return Err(NetError::HalfMade {
                name: name.to_owned(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            file: Arc::new(file),
        })
    }

    /// Opens the network namespace of this file: a name of `ip netns`, a file in `/proc`, or a bind mount of one. The
    /// file may be any: nobody waits for the other end of a pipe.
    pub fn at(path: &Path) -> Result<Self, NetError> {
        let name = path.to_string_lossy().into_owned();
        let refused = |errno| refused("open the namespace", &name, errno);
        let not_one = || NetError::NotANamespace {
            path: path.to_owned(),
        };
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) => {
                return Err(match errno_of(&error) {
                    // A socket, a device without a driver, a file that is taken for a folder.
                    Errno::ENXIO | Errno::ENODEV | Errno::ENOTDIR => not_one(),
                    errno => refused(errno),
                });
            }
        };
        if fstatfs(&file).map_err(refused)?.filesystem_type() != NSFS
            || !sys::is_netns(&file).map_err(refused)?
        {
            return Err(not_one());
        }
        Ok(Self {
            name,
            file: Arc::new(file),
        })
    }

    /// The namespace of the calling thread. Its name is the one under `/run/netns`, else `net:[inode]`.
    pub fn current() -> Result<Self, NetError> {
        let file = File::open(OWN_NS).map_err(|error| {
            refused(
                "open the namespace of this thread",
                "of this thread",
                errno_of(&error),
            )
        })?;
        let name = file
            .metadata()
            .map_or_else(|_| String::from("?"), |m| name_of(id_of(&m)));
        Ok(Self {
            name,
            file: Arc::new(file),
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are the same namespace, under whatever names.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.file.metadata(), other.file.metadata()) {
            (Ok(a), Ok(b)) => id_of(&a) == id_of(&b),
            _ => false,
        }
    }

    /// Runs `task` on a fresh thread inside the namespace and waits for it.
    ///
    /// A panic of the task comes back as [`NetError::Panicked`].
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, NetError> {
        on_new_thread(&self.name, || self.enter().map(|()| task()))?
            .map_err(|errno| refused("enter the namespace", &self.name, errno))
    }

    /// A command that will run inside the namespace, with the mounts of this process.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        sys::enter_before_exec(&mut command, Arc::clone(&self.file));
        command
    }

    /// Moves the calling thread; only for threads this crate made for the purpose.
    fn enter(&self) -> Result<(), Errno> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Deletes a namespace, also one whose creation was interrupted. The kernel frees it, with its devices,
/// when its last process and handle are gone.
pub fn delete(name: &str) -> Result<(), NetError> {
    unmount_and_unlink(&path_of(name)?)
        .map_err(|errno| refused("delete the namespace", name, errno))
}

/// Whether a namespace can have this name: 1 to 255 bytes without `/`, that do not begin with a dot.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(['/', '\0']) && !name.starts_with('.')
}

/// Whether a namespace of this name exists, be it only half made.
#[must_use]
pub fn exists(name: &str) -> bool {
    path_of(name).is_ok_and(|path| fs::symlink_metadata(path).is_ok())
}

/// The names of all namespaces, sorted.
pub fn list() -> Result<Vec<String>, NetError> {
    let entries = match fs::read_dir(RUN_DIR) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other,
    };
    let mut names = entries
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<std::io::Result<Vec<String>>>()
        })
        .map_err(|error| refused("list the namespaces", "any", errno_of(&error)))?;
    names.sort();
    Ok(names)
}

/// The cookie of the namespace of the calling thread: a number that no other namespace has, or gets before the
/// machine starts anew. An inode is given again as soon as its namespace is gone.
pub fn current_cookie() -> Result<u64, NetError> {
    UnixDatagram::unbound()
        .map_err(|error| errno_of(&error))
        .and_then(|socket| sys::netns_cookie(&socket))
        .map_err(|errno| {
            refused(
                "ask for the cookie of the namespace",
                "of this thread",
                errno,
            )
        })
}

/// The identity of the calling thread's namespace.
pub(crate) fn current_id() -> Result<NetnsId, NetError> {
    fs::metadata(OWN_NS)
        .map(|metadata| id_of(&metadata))
        .map_err(|error| refused("find the namespace", "of this thread", errno_of(&error)))
}

/// The name of a namespace, for errors: what `ip netns identify` would say, else the kernel's notation.
pub(crate) fn name_of(id: NetnsId) -> String {
    let named = fs::read_dir(RUN_DIR).ok().and_then(|entries| {
        entries
            .flatten()
            .find(|entry| fs::metadata(entry.path()).is_ok_and(|m| id_of(&m) == id))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
    });
    named.unwrap_or_else(|| format!("net:[{}]", id.1))
}

/// The name of the calling thread's namespace, for errors.
pub(crate) fn current_name() -> String {
    current_id().map_or_else(|_| String::from("?"), name_of)
}

/// Runs `task` on a thread of its own: what it does to its namespaces ends with it.
fn on_new_thread<T: Send>(namespace: &str, task: impl FnOnce() -> T + Send) -> Result<T, NetError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name(String::from("netns"))
            .spawn_scoped(scope, task)
            .map_err(|error| refused("start a thread", namespace, errno_of(&error)))?;
        thread.join().map_err(|payload| NetError::Panicked {
            namespace: namespace.to_owned(),
            message: payload
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| String::from("no message")),
        })
    })
}

fn refused(operation: &'static str, name: &str, errno: Errno) -> NetError {
    NetError::refused(operation, Place::new(None, name), errno)
}

fn path_of(name: &str) -> Result<PathBuf, NetError> {
    if !is_name(name) {
        return Err(NetError::BadName {
            name: name.to_owned(),
            what: "the name of a namespace",
        });
    }
    Ok(Path::new(RUN_DIR).join(name))
}

fn id_of(metadata: &fs::Metadata) -> NetnsId {
    NetnsId(metadata.dev(), metadata.ino())
}

/// Makes `/run/netns` a shared mount, so that namespaces created here are seen, and can be deleted, from
/// every mount namespace. The returned lock keeps two creators from stacking mounts; iproute2 takes the same.
fn prepare_run_dir() -> Result<File, Errno> {
    let run_dir = Path::new(RUN_DIR);
    let lock = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(run_dir)
        .and_then(|()| File::open(run_dir))
        .and_then(|dir| dir.lock().map(|()| dir))
        .map_err(|error| errno_of(&error))?;
    match share(run_dir) {
        // Not a mount point yet.
        Err(Errno::EINVAL) => {
            bind(run_dir, run_dir, MsFlags::MS_BIND | MsFlags::MS_REC)?;
            share(run_dir)?;
        }
        other => other?,
    }
    Ok(lock)
}

fn share(target: &Path) -> Result<(), Errno> {
    bind(Path::new(""), target, MsFlags::MS_SHARED | MsFlags::MS_REC)
}

fn bind(source: &Path, target: &Path, flags: MsFlags) -> Result<(), Errno> {
    mount(Some(source), target, None::<&str>, flags, None::<&str>)
}

/// A half-made namespace is a file without a mount, and unmounting it answers EINVAL.
fn unmount_and_unlink(path: &Path) -> Result<(), Errno> {
    match umount2(path, MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    fs::remove_file(path).map_err(|error| errno_of(&error))
}
