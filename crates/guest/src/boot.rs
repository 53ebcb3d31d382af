//! From the kernel's first step to a network device that is up.

use crate::sys;
use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// The modules to load, in the order of their names.
pub(crate) const MODULES: &str = "/modules";
const DEVICES: &str = "/sys/class/net";
/// Until the driver has made its device.
const DEVICE_TRIES: u32 = 500;
const DEVICE_TICK: Duration = Duration::from_millis(10);

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

/// What the kernel's command line says about the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu: u32,
}

/// A device and its number.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) index: i32,
}

impl Mac {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut mac = [0; 6];
        let mut parts = text.trim().split(':');
        for byte in &mut mac {
            *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(mac))
    }

    pub(crate) fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Mounts, loads the modules, and reads what the command line says; `None`: this machine has no network.
pub(crate) fn boot() -> Result<Option<Network>, String> {
    for (kind, target) in [
        (c"proc", c"/proc"),
        (c"sysfs", c"/sys"),
        (c"devtmpfs", c"/dev"),
    ] {
        // Some kernels have mounted /dev by themselves.
        if let Err(error) = sys::mount_kernel(kind, target)
            && error.kind() != std::io::ErrorKind::ResourceBusy
        {
            return Err(format!(
                "cannot mount {}: {error}",
                target.to_string_lossy()
            ));
        }
    }
    let mut modules: Vec<_> = fs::read_dir(MODULES)
        .map_err(|error| format!("cannot read {MODULES}: {error}"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    modules.sort();
    for module in modules {
        File::open(&module)
            .and_then(|file| sys::load_module(&file))
            .map_err(|error| format!("cannot load {}: {error}", module.display()))?;
    }
    let line = fs::read_to_string("/proc/cmdline")
        .map_err(|error| format!("cannot read /proc/cmdline: {error}"))?;
    parse(&line)
}

/// `overlane.address=198.18.1.2/24 overlane.mac=… overlane.mtu=1500`: all of them or none.
fn parse(line: &str) -> Result<Option<Network>, String> {
    let value = |key: &str| {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|word| {
            word.strip_prefix("overlane.")?
                .strip_prefix(key)?
                .strip_prefix('=')
        })
    };
    let Some(address) = value("address") else {
        return Ok(None);
    };
    let wrong = |what: &str| format!("the command line has no good overlane.{what}: {line}");
    let (address, prefix) = address.split_once('/').ok_or_else(|| wrong("address"))?;
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32);
    Ok(Some(Network {
        address: address.parse().map_err(|_| wrong("address"))?,
        prefix: prefix.ok_or_else(|| wrong("address"))?,
        mac: value("mac")
            .and_then(Mac::parse)
            .ok_or_else(|| wrong("mac"))?,
        mtu: value("mtu")
            .and_then(|mtu| mtu.parse().ok())
            .ok_or_else(|| wrong("mtu"))?,
    }))
}

fn netmask(prefix: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - prefix).unwrap_or(0))
}

/// Gives the device with the network's MAC its address and takes it up.
pub(crate) fn raise_network(network: &Network) -> Result<Device, String> {
    let mut tries = 0;
    let device = loop {
        match device_with(Path::new(DEVICES), network.mac) {
            Some(device) => break device,
            None if tries < DEVICE_TRIES => std::thread::sleep(DEVICE_TICK),
            None => return Err(format!("no network device has the MAC {}", network.mac)),
        }
        tries += 1;
    };
    let failed = |what: &str| {
        let name = device.name.clone();
        let what = what.to_owned();
        move |error: std::io::Error| format!("cannot {what} {name}: {error}")
    };
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed("open a socket for"))?;
    let name = device.name.as_str();
    sys::set_up(socket.as_fd(), "lo").map_err(|error| format!("cannot take lo up: {error}"))?;
    sys::set_mtu(socket.as_fd(), name, network.mtu).map_err(failed("set the MTU of"))?;
    sys::set_address(
        socket.as_fd(),
        name,
        network.address,
        netmask(network.prefix),
    )
    .map_err(failed("give its address to"))?;
    sys::set_up(socket.as_fd(), name).map_err(failed("take up"))?;
    Ok(device)
}

fn device_with(devices: &Path, mac: Mac) -> Option<Device> {
    fs::read_dir(devices).ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        let read = |file: &str| fs::read_to_string(path.join(file)).ok();
        (Mac::parse(&read("address")?)? == mac).then_some(())?;
        Some(Device {
            name: path.file_name()?.to_str()?.to_owned(),
            index: read("ifindex")?.trim().parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_all_or_nothing() {
        let line = "console=ttyS0 overlane.address=198.18.1.2/24 overlane.mac=52:54:00:00:00:0a overlane.mtu=1450\n";
        let network = parse(line).unwrap().unwrap();
        assert_eq!(
            network,
            Network {
                address: Ipv4Addr::new(198, 18, 1, 2),
                prefix: 24,
                mac: Mac([0x52, 0x54, 0, 0, 0, 10]),
                mtu: 1450
            }
        );
        assert_eq!(network.mac.to_string(), "52:54:00:00:00:0a");
        assert_eq!(parse("console=ttyS0"), Ok(None));
        for (cut, named) in [
            (line.replace("/24", ""), "overlane.address"),
            (line.replace("/24", "/33"), "overlane.address"),
            (line.replace("overlane.mac", "mac"), "overlane.mac"),
            (line.replace(":0a", ""), "overlane.mac"),
            (line.replace("1450", "x"), "overlane.mtu"),
        ] {
            let error = parse(&cut).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn masks_of_all_lengths() {
        for (prefix, mask) in [
            (0, [0, 0, 0, 0]),
            (1, [128, 0, 0, 0]),
            (24, [255, 255, 255, 0]),
            (32, [255; 4]),
        ] {
            assert_eq!(netmask(prefix), Ipv4Addr::from(mask), "{prefix}");
        }
    }

    #[test]
    fn a_device_is_found_by_its_mac() {
        let devices = std::env::temp_dir().join(format!("overlane-guest-{}", std::process::id()));
        for (name, mac, index) in [
            ("lo", "00:00:00:00:00:00", 1),
            ("eth9", "52:54:00:00:00:0a", 7),
        ] {
            let device = devices.join(name);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("address"), format!("{mac}\n")).unwrap();
            fs::write(device.join("ifindex"), format!("{index}\n")).unwrap();
        }
        let found = device_with(&devices, Mac([0x52, 0x54, 0, 0, 0, 10])).unwrap();
        assert_eq!((found.name.as_str(), found.index), ("eth9", 7));
        assert!(device_with(&devices, Mac([2; 6])).is_none());
        fs::remove_dir_all(devices).unwrap();
    }
}
