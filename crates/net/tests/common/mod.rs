//! Namespaces of a test's own, and what iproute2 and ethtool say of them, to compare with.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use overlane_net::netns::{self, Netns};
use overlane_net::{Link, Netlink};
use serde_json::Value;

/// A namespace that is deleted when dropped, however the test ends.
pub struct TestNetns(pub Netns);

impl TestNetns {
    /// Creates a namespace with a name no other test has.
    pub fn new() -> Self {
        Self(Netns::create(&unique_name()).expect("creates a namespace"))
    }

    pub fn netlink(&self) -> Netlink {
        Netlink::in_netns(&self.0).expect("opens netlink in the namespace")
    }

    /// Runs a tool inside and returns what it prints.
    pub fn output(&self, program: &str, args: &[&str]) -> String {
        let output = self
            .0
            .command(program)
            .args(args)
            .output()
            .expect("starts the tool");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs `ip -json …` inside.
    pub fn ip(&self, args: &[&str]) -> Value {
        let text = self.output("ip", &[&["-json", "-details"], args].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("ip {args:?}: {error}: {text}"))
    }

    /// A device as `ip link show` sees it.
    pub fn ip_link(&self, device: &str) -> Value {
        self.ip(&["link", "show", "dev", device])[0].clone()
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        if netns::exists(self.0.name()) {
            netns::delete(self.0.name()).ok();
        }
    }
}

/// Two namespaces with a cable between them: `eth0` in both, up.
pub fn cable() -> (TestNetns, TestNetns) {
    let (a, b) = (TestNetns::new(), TestNetns::new());
    a.netlink().add_veth("eth0", "eth0", Some(&b.0)).unwrap();
    for end in [&a, &b] {
        end.netlink().set_addr_gen_none("eth0").unwrap();
        end.netlink().set_up("eth0").unwrap();
    }
    (a, b)
}

pub fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("ovnet{}-{number}", std::process::id())
}

pub fn link(netlink: &Netlink, name: &str) -> Link {
    netlink.link(name).unwrap()
}

pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

pub fn host_output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .expect("starts the tool");
    assert!(output.status.success(), "{program} {args:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Ends the test with a line that names it, where there are no rights to change a network.
#[macro_export]
macro_rules! need_root {
    () => {
        if !common::is_root() {
            let thread = std::thread::current();
            // Past the capture of the test harness: a skipped test must be seen.
            let name = thread.name().unwrap_or("test");
            std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED {name}: needs root\n"),
            )
            .ok();
            return;
        }
    };
}
