//! Kernel parameters of a namespace, as sysctl(8) names them.
//!
//! `/proc/sys/net` shows the namespace of the thread that opens a file in it, whatever the mount.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{NetError, Place, errno_of};
use crate::netns::Netns;

/// Sets a parameter below `net`, e.g. `net.ipv6.conf.all.disable_ipv6`. As with sysctl(8), a key that has
/// slashes keeps its dots, for device names that have some: `net/ipv4/conf/eth0.1/forwarding`.
pub fn set(netns: &Netns, key: &str, value: &str) -> Result<(), NetError> {
    let path = path_of(key)?;
    netns.run(|| fs::write(&path, value))?.map_err(|error| {
        let place = Place::new(None, netns.name());
        NetError::refused(format!("set {key} to {value}"), place, errno_of(&error))
    })
}

/// Reads a parameter below `net`.
pub fn get(netns: &Netns, key: &str) -> Result<String, NetError> {
    let path = path_of(key)?;
    let text = netns.run(|| fs::read_to_string(&path))?.map_err(|error| {
        let place = Place::new(None, netns.name());
        NetError::refused(format!("read {key}"), place, errno_of(&error))
    })?;
    Ok(text.trim_end().to_owned())
}

/// Only keys below `net` belong to a namespace; another one would change the whole machine.
fn path_of(key: &str) -> Result<PathBuf, NetError> {
    let separator = if key.contains('/') { '/' } else { '.' };
    let mut parts = key.split(separator);
    let inside = parts.next() == Some("net")
        && parts.clone().next().is_some()
        && parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'));
    if !inside {
        return Err(NetError::BadName {
            name: key.to_owned(),
            what: "a parameter below net",
        });
    }
    Ok(key
        .split(separator)
        .fold(Path::new("/proc/sys").to_owned(), |path, part| {
            path.join(part)
        }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paths_below_net_or_nothing() {
        let path = |key| path_of(key).ok();
        assert_eq!(
            path("net.ipv4.ip_forward"),
            Some("/proc/sys/net/ipv4/ip_forward".into())
        );
        assert_eq!(
            path("net/ipv4/conf/eth0.1/forwarding"),
            Some("/proc/sys/net/ipv4/conf/eth0.1/forwarding".into())
        );
        for bad in [
            "kernel.panic",
            "net",
            "net/../kernel/panic",
            "net..x",
            "/net/x",
            "",
        ] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
