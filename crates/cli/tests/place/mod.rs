//! A folder with a fabric in it, for the tests of `trace` and `flows`.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test uses its part

use std::fs;
use std::process::{Command, Output, Stdio};

/// Tests name lines of this file.
const FABRIC: &str = r#"version: 1
tunnel: { encapsulation: ENCAPSULATION }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
switches:
  blue: { vni: 5001 }
  green: { vni: 5002, unknown_unicast: flood, vlan: transparent }
  base: { uplink_vlan: 100 }
ports:
  a1: { switch: blue, host: h1, device: a1, key: 1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1, "2001:2:0:100::1"] }
  a2: { switch: blue, host: h1, device: a2, key: 2, mac: "02:00:00:00:00:02", addresses: [198.18.100.2] }
  b1: { switch: blue, host: h2, device: b1, key: 3, mac: "02:00:00:00:00:03", addresses: [198.18.100.3], allow: [router_advertisement] }
  c1: { switch: blue, host: h3, device: c1, key: 4, mac: "02:00:00:00:00:04", addresses: [198.18.100.4] }
  g1: { switch: green, host: h1, device: g1, key: 1, mac: "02:00:00:00:01:01", learning: { limit: 8, age: 60 } }
  g2: { switch: green, host: h2, device: g2, key: 2, mac: "02:00:00:00:01:02", security: off }
  p1: { switch: base, host: h1, device: t0, key: 1, mac: "02:00:00:00:02:01", addresses: [198.18.101.1], vlan: 10 }
  p2: { switch: base, host: h2, device: p2, key: 2, mac: "02:00:00:00:02:02", addresses: [198.18.101.2] }
"#;

/// A folder with the fabric in it, where commands run.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new(encapsulation: &str) -> Self {
        Self::of(&FABRIC.replace("ENCAPSULATION", encapsulation))
    }

    pub fn of(fabric: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("fabric.yaml"), fabric).unwrap();
        Self { folder }
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_overlane"))
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}
