//! Device settings that only sysfs has: which CPUs handle what a device receives (RPS).
//!
//! A sysfs mount shows the devices of the namespace that it was made in. So each access makes one on a thread inside
//! the namespace. The mount is attached nowhere: no other process sees it, `/sys` may be read-only or missing, and `/`
//! need not be a mount point (in a plain chroot it is none). It ends with its file descriptor.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::{NetError, Place, errno_of};
use crate::link::device_name;
use crate::netns::Netns;

/// Has `cpus` handle what each receive queue of the device gets; none: the CPU that received it.
pub fn set_rps(netns: &Netns, device: &str, cpus: &[usize]) -> Result<(), NetError> {
    let mask = mask_of(cpus);
    in_sysfs(netns, device, "set the receive CPUs", |queues| {
        queues.iter().try_for_each(|queue| {
            fs::write(queue.join("rps_cpus"), &mask).map_err(|error| errno_of(&error))
        })
    })
}

/// The CPUs that handle what each receive queue of the device gets, in the order of the queues.
pub fn rps(netns: &Netns, device: &str) -> Result<Vec<Vec<usize>>, NetError> {
    in_sysfs(netns, device, "read the receive CPUs", |queues| {
        queues
            .iter()
            .map(|queue| {
                let mask = fs::read_to_string(queue.join("rps_cpus"));
                mask.map(|mask| cpus_of(&mask))
                    .map_err(|error| errno_of(&error))
            })
            .collect()
    })
}

/// Gives `task` the folders of the device's receive queues.
fn in_sysfs<T: Send>(
    netns: &Netns,
    device: &str,
    operation: &'static str,
    task: impl FnOnce(&[PathBuf]) -> Result<T, Errno> + Send,
) -> Result<T, NetError> {
    let name = device_name(device)?;
    netns
        .run(|| {
            let sysfs = mount_sysfs()?;
            let root = PathBuf::from(format!("/proc/self/fd/{}", sysfs.as_raw_fd()));
            task(&receive_queues(&root, &name)?)
        })?
        .map_err(|errno| {
            NetError::refused(operation, Place::new(Some(device), netns.name()), errno)
        })
}

/// The devices of the calling thread's network namespace, mounted nowhere (fsopen(2), fsmount(2)).
fn mount_sysfs() -> Result<OwnedFd, Errno> {
    let made = || {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
    };
    made().map_err(|errno: rustix::io::Errno| Errno::from_raw(errno.raw_os_error()))
}

fn receive_queues(sysfs: &Path, device: &str) -> Result<Vec<PathBuf>, Errno> {
    let class = sysfs.join("class/net").join(device);
    if !class.exists() {
        return Err(Errno::ENODEV);
    }
    let entries = fs::read_dir(class.join("queues")).map_err(|error| errno_of(&error))?;
    let mut queues: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry
                .file_name()
                .to_str()?
                .strip_prefix("rx-")?
                .parse()
                .ok()?;
            Some((number, entry.path()))
        })
        .collect();
    queues.sort();
    Ok(queues.into_iter().map(|(_, path)| path).collect())
}

/// The kernel's notation of a CPU set: words of 32 bits in hexadecimal, highest first, with commas.
fn mask_of(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let mut mask = vec![0_u32; words];
    for cpu in cpus {
        mask[cpu / 32] |= 1 << (cpu % 32);
    }
    mask.iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn cpus_of(mask: &str) -> Vec<usize> {
    let words = mask
        .trim()
        .rsplit(',')
        .map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
    words
        .enumerate()
        .flat_map(|(index, word)| {
            (0..32)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index * 32 + bit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_back() {
        for (cpus, mask) in [
            (vec![], "00000000"),
            (vec![0], "00000001"),
            (vec![1, 3], "0000000a"),
            (vec![0, 31, 32, 65], "00000002,00000001,80000001"),
        ] {
            assert_eq!(mask_of(&cpus), mask);
            assert_eq!(cpus_of(mask), cpus);
        }
        assert_eq!(cpus_of("3\n"), [0, 1]);
    }
}
