//! Device settings that only sysfs has: which CPUs handle what a device receives (RPS).
//!
//! A sysfs mount shows the devices of the namespace it was mounted in. So each access happens on a thread
//! with a mount namespace of its own, inside the network namespace, on a fresh sysfs that ends with it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::error::{NetError, Place, errno_of};
use crate::link::device_name;
use crate::netns::{self, Netns};

const MOUNT_POINT: &str = "/sys";

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
    netns::on_new_thread(netns.name(), || {
        mount_sysfs(netns)?;
        task(&receive_queues(&name)?)
    })?
    .map_err(|errno| NetError::refused(operation, Place::new(Some(device), netns.name()), errno))
}

/// Covers `/sys` for this thread alone. Private first, or the mount would spread to the machine.
fn mount_sysfs(netns: &Netns) -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    netns.enter()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("sysfs"), MOUNT_POINT, Some("sysfs"), flags, none)
}

fn receive_queues(device: &str) -> Result<Vec<PathBuf>, Errno> {
    let class = Path::new(MOUNT_POINT).join("class/net").join(device);
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
