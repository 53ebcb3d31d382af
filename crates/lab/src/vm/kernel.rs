//! The kernel that virtual machines boot, and those of its modules that they need.

use super::Missing;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names a folder with a kernel, where the machine has none of its own.
pub(crate) const KERNEL_VARIABLE: &str = "OVERLANE_GUEST_KERNEL";
/// What a virtual machine's network card needs.
const MODULES: [&str; 2] = ["virtio_pci", "virtio_net"];

/// A kernel with its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// What `uname -r` prints on it.
    pub(crate) release: String,
    pub(super) image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// The kernel of a folder; else that of the folder that the environment names; else the newest of this machine.
    pub(super) fn find(folder: Option<&Path>) -> Result<Self, Missing> {
        let named = std::env::var_os(KERNEL_VARIABLE).map(PathBuf::from);
        match folder.map(Path::to_owned).or(named) {
            Some(folder) => Self::in_folder(&folder),
            None => Self::newest(Path::new("/")).ok_or_else(Missing::no_kernel),
        }
    }

    /// `vmlinuz` and `lib/modules/RELEASE`, or as a package of Debian's unpacks: `boot/vmlinuz-RELEASE`.
    fn in_folder(folder: &Path) -> Result<Self, Missing> {
        let releases = releases(folder);
        let [(release, modules)] = releases.as_slice() else {
            let what = format!(
                "{}: it has {} folders lib/modules/RELEASE with a modules.dep, not one",
                folder.display(),
                releases.len()
            );
            return Err(Missing::wrong_folder(what, folder));
        };
        let images = [
            folder.join("vmlinuz"),
            folder.join(format!("boot/vmlinuz-{release}")),
            modules.join("vmlinuz"),
        ];
        let Some(image) = images.into_iter().find(|image| image.is_file()) else {
            let what = format!(
                "{}: it has neither vmlinuz nor boot/vmlinuz-{release}",
                folder.display()
            );
            return Err(Missing::wrong_folder(what, folder));
        };
        Ok(Self {
            release: release.clone(),
            image,
            modules: modules.clone(),
        })
    }

    /// The newest kernel of a machine that has its modules too.
    fn newest(root: &Path) -> Option<Self> {
        let installed = releases(root).into_iter().filter_map(|(release, modules)| {
            let image = root.join(format!("boot/vmlinuz-{release}"));
            image.is_file().then_some(Self {
                release,
                image,
                modules,
            })
        });
        installed.max_by_key(|kernel| version(&kernel.release))
    }

    /// The files of the modules that a guest loads, in this order.
    pub(super) fn modules_to_load(&self) -> Result<Vec<PathBuf>, Missing> {
        let read = |file: &str| {
            let path = self.modules.join(file);
            fs::read_to_string(&path).map_err(|error| Missing::unreadable(&path, &error))
        };
        let (dependencies, built_in) = (read("modules.dep")?, read("modules.builtin")?);
        let files = in_order(&dependencies, &built_in)
            .map_err(|name| Missing::no_module(name, &self.release))?;
        Ok(files.iter().map(|file| self.modules.join(file)).collect())
    }
}

fn releases(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = BTreeMap::new();
    for parent in ["lib/modules", "usr/lib/modules"] {
        let folders = fs::read_dir(root.join(parent))
            .into_iter()
            .flatten()
            .flatten();
        for folder in folders.map(|entry| entry.path()) {
            if folder.join("modules.dep").is_file()
                && let Some(release) = folder.file_name().and_then(|name| name.to_str())
            {
                found.entry(release.to_owned()).or_insert(folder);
            }
        }
    }
    found.into_iter().collect()
}

/// Something to compare by: the numbers of a release, in their order.
fn version(release: &str) -> Vec<u64> {
    let words = release.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Files of `modules.dep` in the order to load them; the error is a module that the kernel does not have at all.
fn in_order<'a>(dependencies: &'a str, built_in: &str) -> Result<Vec<&'a str>, &'static str> {
    let mut lines = BTreeMap::new();
    for line in dependencies.lines() {
        if let Some((file, needs)) = line.split_once(':') {
            lines.insert(module_name(file), (file, needs));
        }
    }
    let built_in: Vec<_> = built_in.lines().map(module_name).collect();
    let mut ordered: Vec<&str> = Vec::new();
    for name in MODULES {
        let Some((file, needs)) = lines.get(name) else {
            if built_in.iter().any(|known| known == name) {
                continue;
            }
            return Err(name);
        };
        // What a module needs stands behind it, the last one to be loaded first.
        for file in needs.split_ascii_whitespace().rev().chain([*file]) {
            if !ordered.contains(&file) {
                ordered.push(file);
            }
        }
    }
    Ok(ordered)
}

/// `kernel/net/core/failover.ko.xz` is `failover`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_follow_what_they_need_and_built_in_ones_are_left_out() {
        let dependencies = "kernel/drivers/virtio/virtio.ko.xz:\n\
            kernel/drivers/virtio/virtio_ring.ko.xz: kernel/drivers/virtio/virtio.ko.xz\n\
            kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz\n\
            kernel/net/core/failover.ko.xz:\n\
            kernel/drivers/net/net_failover.ko.xz: kernel/net/core/failover.ko.xz\n\
            kernel/drivers/net/virtio_net.ko.xz: kernel/drivers/net/net_failover.ko.xz kernel/net/core/failover.ko.xz kernel/drivers/virtio/virtio.ko.xz\n";
        let names =
            |files: Vec<&str>| -> Vec<String> { files.into_iter().map(module_name).collect() };
        let ordered = in_order(dependencies, "").unwrap();
        assert_eq!(
            names(ordered),
            [
                "virtio",
                "virtio_ring",
                "virtio_pci",
                "failover",
                "net_failover",
                "virtio_net"
            ]
        );
        let without_pci = dependencies.replace("virtio_pci", "other");
        assert_eq!(in_order(&without_pci, ""), Err("virtio_pci"));
        let ordered = in_order(&without_pci, "kernel/drivers/virtio/virtio-pci.ko\n").unwrap();
        assert_eq!(names(ordered)[..2], ["virtio", "failover"]);
    }

    #[test]
    fn kernels_are_found_in_folders_and_the_newest_on_a_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let error = Kernel::in_folder(root).unwrap_err().to_string();
        assert!(error.contains("0 folders lib/modules/RELEASE"), "{error}");
        for release in ["6.12.9-amd64", "6.12.10-amd64", "7.0.0-amd64"] {
            let modules = root.join("lib/modules").join(release);
            fs::create_dir_all(&modules).unwrap();
            fs::write(modules.join("modules.dep"), "").unwrap();
        }
        assert_eq!(Kernel::newest(root), None, "none has an image");
        fs::create_dir(root.join("boot")).unwrap();
        for release in ["6.12.9-amd64", "6.12.10-amd64"] {
            fs::write(root.join(format!("boot/vmlinuz-{release}")), "").unwrap();
        }
        let newest = Kernel::newest(root).unwrap();
        assert_eq!(newest.release, "6.12.10-amd64");
        let error = Kernel::in_folder(root).unwrap_err().to_string();
        assert!(error.contains("3 folders"), "{error}");
        for release in ["6.12.9-amd64", "6.12.10-amd64"] {
            fs::remove_dir_all(root.join("lib/modules").join(release)).unwrap();
        }
        let error = Kernel::in_folder(root).unwrap_err().to_string();
        assert!(
            error.contains("neither vmlinuz nor boot/vmlinuz-7.0.0-amd64"),
            "{error}"
        );
        fs::write(root.join("vmlinuz"), "").unwrap();
        assert_eq!(Kernel::in_folder(root).unwrap().image, root.join("vmlinuz"));
    }
}
