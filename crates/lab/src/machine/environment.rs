//! The record of the machine: what a reader has to know to judge or to repeat a run.

use crate::machine::cpus::Cpus;
use overlane_analysis::record::Environment;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings that bear on TCP and on the receive path.
const SYSCTLS: [&str; 24] = [
    "net.core.bpf_jit_enable",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.gro_normal_batch",
    "net.core.high_order_alloc_disable",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// Programs on the measured path: how each tells its version, and its package.
const TOOLS: [(&str, &[&str], &str); 4] = [
    ("ip", &["-Version"], "iproute2"),
    ("ethtool", &["--version"], "ethtool"),
    ("ovs-vswitchd", &["--version"], "openvswitch-switch"),
    ("clang-19", &["--version"], "clang-19"),
];

/// Records the machine.
pub(crate) fn record(cpus: &Cpus, overlane_version: &str) -> Environment {
    let cpuinfo = text("/proc/cpuinfo");
    Environment {
        kernel: format!("{} {}", kernel_release(), text("/proc/sys/kernel/version")),
        os: value(&text("/etc/os-release"), "PRETTY_NAME", '=')
            .trim_matches('"')
            .to_owned(),
        cmdline: text("/proc/cmdline"),
        cpu_model: value(&cpuinfo, "model name", ':'),
        cpu_mhz: value(&cpuinfo, "cpu MHz", ':').parse().ok(),
        cpus: std::thread::available_parallelism().map_or(1, Into::into),
        memory_mib: memory_mib(&text("/proc/meminfo")),
        governor: optional("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        smt: optional("/sys/devices/system/cpu/smt/control"),
        virtualised: value(&cpuinfo, "flags", ':')
            .split(' ')
            .any(|flag| flag == "hypervisor"),
        mitigations: mitigations(),
        sysctl: sysctls(),
        tools: TOOLS
            .iter()
            .filter_map(|(tool, ask, package)| {
                Some(((*tool).to_owned(), told(tool, ask, package)?))
            })
            .collect(),
        cpu_accounting: cpu_accounting(),
        host1_cpus: cpus.host1.clone(),
        host2_cpus: cpus.host2.clone(),
        shared_cpus: cpus.shared(),
        hops: Vec::new(),
        noise: Vec::new(),
        overlane_version: overlane_version.to_owned(),
        command: command(),
    }
}

/// `uname -r`.
pub(crate) fn kernel_release() -> String {
    text("/proc/sys/kernel/osrelease")
}

/// `6.18` of `6.18.44-something`.
pub(crate) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where a program is, as the shell would find it.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let executable = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(executable)
}

/// The first line that a program says about its version.
pub(crate) fn version(program: &str, ask: &[&str]) -> Option<String> {
    let output = Command::new(find_program(program)?)
        .args(ask)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(said.lines().next()?.trim().to_owned())
}

/// What a program says of its version, and which package it came in: distributions mend without changing the
/// number.
fn told(tool: &str, ask: &[&str], package: &str) -> Option<String> {
    let said = version(tool, ask)?;
    let of_package = version("dpkg-query", &["-W", "-f=${Package} ${Version}", package]);
    Some(
        match of_package.filter(|of_package| !of_package.is_empty()) {
            Some(of_package) => format!("{said} ({of_package})"),
            None => said,
        },
    )
}

/// Whether user, system and softirq time is measured or guessed at each tick; the kernel's configuration tells.
pub(crate) fn cpu_accounting() -> String {
    match kernel_config() {
        Some(config) => accounting_of(&config),
        None => "unknown: the kernel does not show its configuration".to_owned(),
    }
}

fn accounting_of(config: &str) -> String {
    let has = |option: &str| config.lines().any(|line| line == format!("{option}=y"));
    let hz = value(config, "CONFIG_HZ", '=');
    let mut mode =
        if has("CONFIG_VIRT_CPU_ACCOUNTING_GEN") || has("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE") {
            "measured at each change of context".to_owned()
        } else {
            format!("sampled by a tick of {hz} Hz")
        };
    mode += if has("CONFIG_IRQ_TIME_ACCOUNTING") {
        ", interrupt time measured"
    } else {
        ", interrupt time sampled too"
    };
    mode
}

fn kernel_config() -> Option<String> {
    let boot = format!("/boot/config-{}", kernel_release());
    if let Ok(text) = fs::read_to_string(boot) {
        return Some(text);
    }
    if !Path::new("/proc/config.gz").exists() {
        return None;
    }
    let output = Command::new("gzip")
        .args(["-dc", "/proc/config.gz"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    let named = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        Some((
            entry.file_name().to_string_lossy().into_owned(),
            text.trim().to_owned(),
        ))
    };
    entries.flatten().filter_map(named).collect()
}

fn sysctls() -> BTreeMap<String, String> {
    let read = |key: &&str| {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let value = fs::read_to_string(path).ok()?;
        Some((
            (*key).to_owned(),
            value.split_whitespace().collect::<Vec<_>>().join(" "),
        ))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

fn command() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    // The folder that the program happens to lie in says nothing to others.
    let program = Path::new(&program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let quoted = words.map(|word| {
        if word.contains([' ', '\'', '"']) {
            format!("{word:?}")
        } else {
            word
        }
    });
    std::iter::once(program)
        .chain(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

fn memory_mib(meminfo: &str) -> u64 {
    let kib = value(meminfo, "MemTotal", ':');
    kib.split(' ')
        .next()
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

/// The value of `key` in lines of `key SEPARATOR value`; empty without one.
fn value(text: &str, key: &str, separator: char) -> String {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    let found = pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(name, _)| *name == key);
    found.map_or(String::new(), |(_, value)| value.to_owned())
}

fn text(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn optional(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounting_is_read_from_the_configuration() {
        let ticks = "CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n";
        assert_eq!(
            accounting_of(ticks),
            "sampled by a tick of 250 Hz, interrupt time sampled too"
        );
        let full = "CONFIG_VIRT_CPU_ACCOUNTING_GEN=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n";
        assert_eq!(
            accounting_of(full),
            "measured at each change of context, interrupt time measured"
        );
    }

    #[test]
    fn versions_and_values() {
        assert_eq!(version_of("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version_of("rolling"), None);
        assert_eq!(value("a b\t: 1\nMemTotal:  2048 kB\n", "a b", ':'), "1");
        assert_eq!(memory_mib("MemTotal:  2048 kB\n"), 2);
        assert!(find_program("sh").is_some() && find_program("no-such-program").is_none());
    }

    #[test]
    fn the_record_of_this_machine_is_filled() {
        let env = record(
            &Cpus {
                host1: vec![0],
                host2: vec![0],
            },
            "1.2.3",
        );
        assert!(
            !env.kernel.is_empty() && env.memory_mib > 0 && env.shared_cpus,
            "{env:?}"
        );
    }
}
