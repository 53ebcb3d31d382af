//! A small network of our own for each test: one or two hosts, each with a guest, on one cable.
//!
//! ```text
//!   guest1 ── web1 [host1] eth1 ═══════ eth1 [host2] web2 ── guest2
//! ```
//!
//! All names carry the process id and a number, so tests run side by side and touch nothing else.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests that each use a part"
)]

use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use overlane_ebpf::links::Link;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use overlane_ebpf::{DataPath, Program, abi};
use overlane_host::report::lines;
use overlane_host::{
    ApplyRequest, HostError, RemoveRequest, Report, Testing, apply, paths, remove,
};
use overlane_model::{Fabric, Tables};
use overlane_net::netns::{self, Netns};
use overlane_net::nftables::{Family, Nftables};
use overlane_net::{Netlink, sysctl};
use zerocopy::FromBytes as _;

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub const BPFFS_HELP: &str = "mount -t bpf bpf /sys/fs/bpf";

/// True when the test can run; else says why it does not.
pub fn can_run(test: &str) -> bool {
    if overlane_ebpf::preflight::check_rights().is_err() {
        skipped(test, "needs root");
        return false;
    }
    if overlane_ebpf::preflight::check_bpffs(Path::new(paths::BPFFS)).is_err() {
        skipped(test, &format!("no BPF file system ({BPFFS_HELP})"));
        return false;
    }
    true
}

/// Past the capture of the test harness: a skipped test must be seen.
fn skipped(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// The data path, built from sources in which `old` is replaced by `new`.
pub fn build_with(old: &str, new: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut replaced = false;
    for floor in ["", "stage", "leave", "lib"] {
        std::fs::create_dir_all(folder.path().join(floor)).unwrap();
        for entry in std::fs::read_dir(sources().join(floor)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            replaced |= text.contains(old);
            let file = folder.path().join(floor).join(path.file_name().unwrap());
            std::fs::write(file, text.replace(old, new)).unwrap();
        }
    }
    assert!(replaced, "bpf/ has no {old}");
    compile(&folder.path().join("tc.bpf.c"), folder.path())
}

/// A data path with the same maps, whose programs let every packet pass. The verifier is done with it at once: for
/// tests of what `apply` does with programs, again and again.
pub fn build_without_stages() -> Vec<u8> {
    let object = build_of_maps("");
    let signature = DataPath::new(&object).unwrap().signature().to_owned();
    assert_eq!(signature, DataPath::embedded().unwrap().signature());
    object
}

/// Another build with the same maps.
pub fn same_maps_without_stages() -> Vec<u8> {
    build_of_maps("const volatile int another;\n")
}

/// The same with one map more: what another release may bring.
pub fn other_build_without_stages() -> Vec<u8> {
    build_of_maps("ARRAY(one_more, BPF_MAP_TYPE_ARRAY, __u32, 1);\n")
}

/// An apply of another build of the data path.
pub fn with_object(object: &[u8]) -> Testing<'_> {
    Testing {
        object: Some(object),
        ..Testing::default()
    }
}

fn build_of_maps(more: &str) -> Vec<u8> {
    // With those at no hook: an upgrade carries connections by them.
    let at_no_hook = [Program::TakeConnection, Program::ForgetTranslated];
    let programs = Program::ALL.into_iter().chain(at_no_hook).map(|program| {
        let name = program.name();
        format!("SEC(\"classifier\") int {name}(struct __sk_buff *ctx) {{ return TCX_NEXT; }}\n")
    });
    let programs: String = programs.collect();
    let headers = [
        "maps",
        "capture",
        "test_mode",
        "l4",
        "packet",
        "flows",
        "classifier",
    ];
    let headers = headers.map(|name| format!("#include \"lib/{name}.h\"\n"));
    let license = "char _license[] SEC(\"license\") = \"GPL\";\n";
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tc.bpf.c");
    let text = headers.concat() + more + &programs + license;
    std::fs::write(&source, text).unwrap();
    compile(&source, &sources())
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

fn compile(source: &Path, headers: &Path) -> Vec<u8> {
    let object = source.with_extension("o");
    let multiarch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let clang = if Command::new("clang-19").arg("--version").output().is_ok() {
        "clang-19"
    } else {
        "clang"
    };
    let status = Command::new(clang)
        .args([
            "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-I", &multiarch, "-c",
        ])
        .arg(source)
        .arg("-I")
        .arg(headers)
        .arg("-o")
        .arg(&object)
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read(object).unwrap()
}

/// Hosts and guests; removed with everything in them when dropped.
pub struct World {
    pub id: String,
    hosts: usize,
}

impl World {
    /// Builds namespaces and cables for `hosts` hosts.
    pub fn new(hosts: usize) -> Self {
        let id = format!(
            "ove{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let world = Self { id, hosts };
        for n in 1..=2 {
            Netns::create(&world.netns(n)).unwrap();
        }
        let (one, two) = (world.ns(1), world.ns(2));
        Netlink::in_netns(&one)
            .unwrap()
            .add_veth("eth1", "eth1", Some(&two))
            .unwrap();
        for n in 1..=2 {
            let netlink = world.netlink(n);
            netlink.add_address("eth1", underlay(n), 24).unwrap();
            netlink.set_mtu("eth1", 1600).unwrap();
            netlink.set_up("eth1").unwrap();
        }
        for n in 1..=hosts {
            Netns::create(&world.guest(n)).unwrap();
            world.add_port(n);
        }
        world
    }

    /// The port's cable to the guest; also after it was deleted. The guest says nothing unasked: IPv6 would
    /// announce itself for seconds, and tests count packets.
    pub fn add_port(&self, n: usize) {
        let guest = Netns::open(&self.guest(n)).unwrap();
        let host = self.netlink(n);
        host.add_veth(&format!("web{n}"), "eth0", Some(&guest))
            .unwrap();
        host.set_up(&format!("web{n}")).unwrap();
        let silent = "net.ipv6.conf.eth0.disable_ipv6";
        sysctl::set(&guest, silent, "1").unwrap();
        let netlink = Netlink::in_netns(&guest).unwrap();
        netlink.set_mac("eth0", [2, 0, 0, 0, 0, n as u8]).unwrap();
        netlink.add_address("eth0", inner(n), 24).unwrap();
        netlink.set_up("eth0").unwrap();
    }

    pub fn netns(&self, n: usize) -> String {
        format!("{}h{n}", self.id)
    }

    pub fn guest(&self, n: usize) -> String {
        format!("{}g{n}", self.id)
    }

    pub fn host(&self, n: usize) -> String {
        format!("{}.h{n}", self.id)
    }

    pub fn ns(&self, n: usize) -> Netns {
        Netns::open(&self.netns(n)).unwrap()
    }

    pub fn netlink(&self, n: usize) -> Netlink {
        Netlink::in_netns(&self.ns(n)).unwrap()
    }

    /// The fabric as text; `extra` is appended to the ports.
    pub fn fabric(&self, encapsulation: &str, port: u16, extra: &str) -> String {
        let (h1, h2) = (self.host(1), self.host(2));
        format!(
            r#"version: 1
tunnel: {{ encapsulation: {encapsulation}, port: {port} }}
hosts:
  {h1}: {{ underlay: 198.18.0.1, uplink: eth1 }}
  {h2}: {{ underlay: 198.18.0.2, uplink: eth1 }}
switches:
  blue: {{ vni: 5001 }}
  red: {{ vni: 5002, unknown_unicast: flood }}
ports:
  web1: {{ switch: blue, host: {h1}, device: web1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1], key: 7 }}
  web2: {{ switch: blue, host: {h2}, device: web2, mac: "02:00:00:00:00:02", addresses: [198.18.100.2] }}
{extra}"#
        )
    }

    pub fn tables(&self, text: &str, n: usize) -> Tables {
        let fabric = Fabric::parse("fabric.yaml", text)
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        fabric.compile(&self.host(n)).unwrap()
    }

    pub fn apply(&self, text: &str, n: usize) -> Result<Report, HostError> {
        self.apply_with(text, n, false, Testing::default())
    }

    pub fn apply_with(
        &self,
        text: &str,
        n: usize,
        dry_run: bool,
        testing: Testing<'_>,
    ) -> Result<Report, HostError> {
        let tables = self.tables(text, n);
        let netns = self.netns(n);
        let request = ApplyRequest {
            netns: Some(&netns),
            dry_run,
            testing,
            ..ApplyRequest::new(&tables)
        };
        apply(&request)
    }

    pub fn remove(&self, n: usize) -> Vec<String> {
        remove(&RemoveRequest::new(&self.host(n))).unwrap().removed
    }

    /// Whether guest `from` reaches guest `to`: `count` packets, all answered.
    pub fn ping(&self, from: usize, to: usize, count: u32) -> bool {
        let guest = Netns::open(&self.guest(from)).unwrap();
        // A question that an earlier ping asked in vain fails three seconds later, with all that waits for its answer.
        let _ = Netlink::in_netns(&guest)
            .unwrap()
            .delete_neighbour("eth0", inner(to));
        let output = guest
            .command("ping")
            .args([
                "-n",
                "-q",
                "-i",
                "0.05",
                "-W",
                "1",
                "-c",
                &count.to_string(),
                &inner(to).to_string(),
            ])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).contains(" 0% packet loss")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for n in 1..=2 {
            let _ = remove(&RemoveRequest::new(&self.host(n)));
        }
        for n in 1..=2 {
            let _ = netns::delete(&self.netns(n));
            let _ = netns::delete(&self.guest(n));
        }
    }
}

pub fn underlay(n: usize) -> IpAddr {
    [198, 18, 0, n as u8].into()
}

pub fn underlay6(n: usize) -> IpAddr {
    [0x2001, 2, 0, 0, 0, 0, 0, n as u16].into()
}

pub fn inner(n: usize) -> IpAddr {
    [198, 18, 100, n as u8].into()
}

pub fn changes(report: &Report) -> Vec<String> {
    lines(&report.changes)
}

/// Everything `apply` may touch, as text: pins, links with program and device, what they lead to, maps' contents (not
/// what is counted), devices with all settings, managed and proxy neighbours, state and lock.
pub fn snapshot(world: &World, n: usize) -> String {
    let netns = world.ns(n);
    let mut text = String::new();
    let mut run = |command: &mut Command| {
        let output = command.output().unwrap();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        text.push('\n');
    };
    // Carrier comes a moment after a cable is plugged in.
    let still = "s/NO-CARRIER,//; s/,LOWER_UP//; s/ state [A-Z]*//";
    run(netns
        .command("bash")
        .args(["-c", &format!("ip -d link | sed '{still}'")]));
    run(netns.command("bash").args([
        "-c",
        // Of a neighbour entry, not how fresh it is.
        "ip neigh show dev eth1 | sed -e 's/lladdr.*\\(managed\\)/\\1/' -e 's/ [A-Z]* *$//' | grep managed",
    ]));
    run(netns.command("ip").args(["neigh", "show", "proxy"]));
    let pins = paths::pins(&world.host(n));
    run(Command::new("find").arg(&pins).args(["-printf", "%P %y\n"]));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for path in pinned(&pins.join("links")) {
        let info = Link::open(&path).unwrap().unwrap().info().unwrap();
        lines.push(format!("{} {info:?}", path.display()));
    }
    let layouts = DataPath::embedded().unwrap();
    for set in sets(&pins) {
        let maps = MapSet::open_any(&set, layouts.layouts()).unwrap().unwrap();
        lines.push(format!("data path {:?}", maps.data_path().unwrap()));
        for (table, entries) in maps.contents().unwrap() {
            // An array has all its entries from the start: the empty ones say nothing.
            let written = (entries.iter())
                .filter(|(_, value)| !table.is_array() || value.iter().any(|&byte| byte != 0));
            lines.extend(
                written.map(|(key, value)| format!("{}: {key:?} = {value:?}", table.name())),
            );
        }
    }
    lines.extend(guards(&netns, &paths::guard_table(&world.host(n))));
    lines.push(std::fs::read_to_string(paths::state(&world.host(n))).unwrap_or_default());
    lines.push(
        if paths::lock(&world.host(n)).exists() {
            "locked"
        } else {
            "no lock"
        }
        .to_owned(),
    );
    lines.sort();
    lines.join("\n")
}

/// The tables of nftables with this name, without what they counted.
fn guards(netns: &Netns, name: &str) -> Vec<String> {
    let table = |tables: &Nftables, family: Family| {
        let mut table = tables.read(family, name).unwrap()?;
        (table.incoming, table.outgoing) = Default::default();
        Some(format!("{} {table:?}", family.name()))
    };
    let all = || {
        let tables = Nftables::new().unwrap();
        let tables = Family::ALL.map(|family| table(&tables, family));
        tables.into_iter().flatten().collect()
    };
    netns.run(all).unwrap()
}

/// Compares two snapshots and shows only what differs.
pub fn assert_same(before: &str, after: &str, what: &str) {
    let lines = |text: &str| {
        text.lines()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (old, new) = (lines(before), lines(after));
    let gone: Vec<_> = old.difference(&new).collect();
    let come: Vec<_> = new.difference(&old).collect();
    assert!(before == after, "{what}: gone {gone:#?}\ncome {come:#?}");
}

fn sets(pins: &Path) -> Vec<PathBuf> {
    pinned(pins)
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("/maps-"))
        .collect()
}

fn pinned(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths
}

/// Where host `n` sends super-packets with a tunnel's mark: what its settings say.
pub fn unmarker_of(world: &World, n: usize) -> u32 {
    let layouts = DataPath::embedded().unwrap();
    let set = sets(&paths::pins(&world.host(n))).pop().unwrap();
    let maps = MapSet::open_any(&set, layouts.layouts()).unwrap().unwrap();
    let settings = maps.entries(Table::Settings).unwrap();
    let settings = settings.values().next().unwrap();
    abi::Settings::read_from_bytes(settings)
        .unwrap()
        .unmarker_ifindex
}
