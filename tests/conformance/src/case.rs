//! A golden case: a fabric, packets that enter one of its hosts, and what must become of each. Read
//! from `tests/cases/STAGE/NAME.yaml` (its format stands in `tests/cases/README.md`); every executor runs it.

mod attacks;
mod folder;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use overlane_model::{
    DeviceName, Fabric, MovedConnection, MovedConnections, Name, SwitchId, Tables, Verdict,
};
use overlane_pipeline::{Entry, Packet};
use overlane_wire::{Mac, PortKey};
use serde_saphyr::Spanned;
use thiserror::Error;

use crate::document::{self, Count};
use crate::rules::RuleId;

pub use attacks::{Attack, Differences, Fate, load_attacks};
pub use folder::{STAGES, cases_folder, load_all, wanted};
use reader::Reader;

/// What is wrong with a case, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}: {message}", place(path, *line))]
pub struct CaseError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 where it is about the whole file.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// Every mistake in the cases of a folder.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{} cases cannot be read:\n{}", .0.len(), lines(.0))]
pub struct Unreadable(pub Vec<CaseError>);

/// A case, checked.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its stage and its own name: `encap/vxlan-over-ip4`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// What it shows.
    pub title: String,
    /// The rules of `docs/semantics.md` that it shows.
    pub rules: Vec<RuleId>,
    /// The network.
    pub fabric: Fabric,
    /// The fabric file as text.
    pub fabric_text: String,
    /// The fabric compiled for the host the packets enter.
    pub tables: Tables,
    /// The same of the fabric that the case's first one changes to, if it does.
    pub changed: Option<Tables>,
    /// Connections that come from another host when the first packet enters.
    pub moved: Option<Moved>,
    /// What that host is like besides.
    pub machine: Machine,
    /// The packets, which enter in this order on one state.
    pub steps: Vec<Step>,
}

/// What the fabric does not say of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Largest outer IP packet of its uplink.
    pub underlay_mtu: u32,
    /// Another device has the tunnel's port.
    pub port_shared: bool,
    /// It can take the tunnel's mark off a UDP super-packet.
    pub whole_udp: bool,
    /// Seed of what nobody outside may foresee.
    pub secret: u32,
    /// The devices of its gateways' legs.
    pub leg: LegDevice,
    /// Largest IP packet that the devices of its ports take.
    pub port_mtu: u32,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            underlay_mtu: 1500,
            port_shared: false,
            whole_udp: true,
            secret: 0,
            leg: LegDevice::default(),
            port_mtu: u32::MAX,
        }
    }
}

/// What the device of a leg is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LegDevice {
    /// Its MAC.
    pub mac: Mac,
    /// Largest IP packet that it sends.
    pub mtu: u32,
}

impl Default for LegDevice {
    fn default() -> Self {
        Self {
            mac: Mac::new([2, 0, 0, 0, 0, 0xfd]),
            mtu: 1500,
        }
    }
}

/// Connections that come from another host.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The port that they are of.
    pub port: (SwitchId, PortKey),
    /// They.
    pub connections: Vec<MovedConnection>,
}

/// A packet and what must become of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where the file says it.
    pub line: u64,
    /// The fabric has changed before it.
    pub changed: bool,
    /// The devices that are gone by then.
    pub gone: BTreeSet<DeviceName>,
    /// Nanoseconds since the state was empty.
    pub now_ns: u64,
    /// Where it enters.
    pub entry: Entry,
    /// The packet.
    pub packet: Packet,
    /// Its verdict.
    pub verdict: Verdict,
    /// All that leaves, in order.
    pub out: Vec<Left>,
    /// What a copy of it becomes: a question to the neighbour that it goes to, or to everybody about it.
    pub probe: Vec<Left>,
    /// Packets that must be counted, besides the verdict.
    pub counts: BTreeMap<Counted, Count>,
    /// Rules that must have written a record of it, in order, where the case says.
    pub log: Option<Vec<Name>>,
}

/// A packet that must leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Where to.
    pub to: Destination,
    /// Exactly this packet.
    pub packet: Packet,
}

/// Where a packet leaves to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The uplink; the VTEP, where the case names one.
    Underlay(Option<IpAddr>),
    /// A port of the host.
    Port(Name),
    /// The segmenter.
    Segmenter,
    /// The host's own stack.
    Host,
    /// A gateway's leg: by way of this address, or (an answer) straight back.
    Leg(DeviceName, Option<IpAddr>),
}

/// What has counters of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counted {
    /// A logical port.
    Port(Name),
    /// A VTEP.
    Remote(IpAddr),
    /// A rule of the firewall.
    Rule(Name),
}

fn place(path: &Path, line: u64) -> String {
    match line {
        0 => path.display().to_string(),
        line => format!("{}:{line}", path.display()),
    }
}

fn lines(errors: &[CaseError]) -> String {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl Case {
    /// Reads one file. A fabric it names is `../fabrics/NAME.yaml`, seen from the case's folder.
    pub fn load(path: &Path) -> Result<Self, CaseError> {
        let text = std::fs::read_to_string(path).map_err(|error| CaseError::file(path, &error))?;
        Self::parse(path, &text)
    }

    /// Reads a case from its text, as if it stood in `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CaseError> {
        let document = document::parse(path, text)?;
        let (fabric, fabric_text) = document::fabric(path, text, "fabric", &document.fabric)?;
        let host = document.host.as_deref().unwrap_or("h1");
        let tables = fabric
            .compile(host)
            .map_err(|error| CaseError::at(path, 1, error))?;
        let changed = match &document.changed {
            None => None,
            Some(place) => {
                let (fabric, _) = document::fabric(path, text, "changed", place)?;
                let tables = fabric.compile(host);
                let mut tables = tables.map_err(|error| CaseError::at(path, 1, error))?;
                tables.firewall.version += 1;
                Some(tables)
            }
        };
        let reader = Reader {
            path,
            fabric: &fabric,
            tables: &tables,
        };
        let mut steps: Vec<Step> = Vec::new();
        for packet in &document.packets {
            let line = packet.referenced.line();
            let mut step = reader.step(line, &packet.value)?;
            if let Some(before) = steps.last() {
                step.changed |= before.changed;
                step.gone.extend(before.gone.iter().cloned());
            }
            if step.changed && changed.is_none() {
                return Err(CaseError::at(path, line, "`changed` names no fabric"));
            }
            steps.extend(std::iter::repeat_n(step, packet.value.times.unwrap_or(1)));
        }
        if steps.is_empty() {
            return Err(CaseError::at(path, 1, "a case has at least one packet"));
        }
        check_rfc(path, &document.rfc)?;
        Ok(Self {
            name: folder::name(path),
            path: path.to_owned(),
            title: document.title.clone(),
            rules: rules(path, &document.rules)?,
            machine: machine(&document),
            moved: moved(path, &document, &tables)?,
            fabric,
            fabric_text,
            tables,
            changed,
            steps,
        })
    }

    /// The tables that the host has when a packet enters.
    pub fn tables_of(&self, step: &Step) -> &Tables {
        let changed = self.changed.as_ref().filter(|_| step.changed);
        changed.unwrap_or(&self.tables)
    }
}

fn rules(path: &Path, given: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<RuleId>, CaseError> {
    let mut rules = Vec::new();
    for rule in &given.value {
        let fail = |message| CaseError::at(path, rule.referenced.line(), message);
        let id = RuleId::parse(&rule.value);
        let id = id.ok_or_else(|| fail(format!("rules: `{}` is no ID of a rule", rule.value)))?;
        if rules.contains(&id) {
            return Err(fail(format!("rules: {id} stands twice")));
        }
        rules.push(id);
    }
    if rules.is_empty() {
        let line = given.referenced.line();
        let message = "rules: which rules of docs/semantics.md does the case show?";
        return Err(CaseError::at(path, line, message));
    }
    Ok(rules)
}

/// Names of rows of `docs/rfc.md`: `RFC 5382 REQ-4`, `RFC 4861 7.2.4`. Which rows there are, a test of that page knows.
fn check_rfc(path: &Path, given: &[Spanned<String>]) -> Result<(), CaseError> {
    let mut seen = BTreeSet::new();
    for row in given {
        let fail = |message| CaseError::at(path, row.referenced.line(), message);
        let name = &row.value;
        if !is_row(name) {
            return Err(fail(format!(
                "rfc: `{name}` is no name of a row of docs/rfc.md"
            )));
        }
        if !seen.insert(name) {
            return Err(fail(format!("rfc: {name} stands twice")));
        }
    }
    Ok(())
}

fn is_row(name: &str) -> bool {
    let parts: Vec<&str> = name.split(' ').collect();
    match parts.as_slice() {
        ["RFC", number, place] => number.parse::<u16>().is_ok() && !place.is_empty(),
        _ => false,
    }
}

fn moved(
    path: &Path,
    document: &document::Document,
    tables: &Tables,
) -> Result<Option<Moved>, CaseError> {
    let Some(file) = &document.moved else {
        return Ok(None);
    };
    let line = file.referenced.line();
    let read = MovedConnections::parse(file.value.to_string().as_bytes());
    let read = read.map_err(|error| CaseError::at(path, line, error))?;
    let port = tables.ports.iter().find(|port| port.name == read.port);
    let port = port
        .ok_or_else(|| CaseError::at(path, line, format!("moved: no port `{}` here", read.port)))?;
    Ok(Some(Moved {
        port: (port.switch, port.key),
        connections: read.connections,
    }))
}

fn machine(document: &document::Document) -> Machine {
    let default = Machine::default();
    Machine {
        underlay_mtu: document.underlay_mtu.unwrap_or(default.underlay_mtu),
        port_shared: document.port_shared.unwrap_or(default.port_shared),
        whole_udp: document.whole_udp.unwrap_or(default.whole_udp),
        leg: leg_device(document.leg.as_ref()),
        port_mtu: document.port_mtu.unwrap_or(default.port_mtu),
        ..default
    }
}

fn leg_device(given: Option<&document::Leg>) -> LegDevice {
    let default = LegDevice::default();
    LegDevice {
        mac: given
            .and_then(|leg| leg.mac)
            .map_or(default.mac, |mac| mac.0),
        mtu: given.and_then(|leg| leg.mtu).unwrap_or(default.mtu),
    }
}

impl CaseError {
    pub(crate) fn at(path: &Path, line: u64, message: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.to_string(),
        }
    }

    fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::at(path, 0, error)
    }
}

#[cfg(test)]
mod tests {
    use super::reader::name;
    use super::*;

    const CASE: &str = r#"title: a broadcast reaches the other port
rules: [FLOOD-1]
fabric:
  version: 1
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 }, h2: { underlay: 198.18.0.2, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: v0, mac: "02:00:00:00:00:01", vlan: 10 }
    b1: { switch: blue, host: h1, device: v1, mac: "02:00:00:00:00:02" }
packets:
  - at: 0.5
    from: port a1
    packet:
      - tag: { id: 10 }
      - eth: { src: "02:00:00:00:00:01", dst: "ff:ff:ff:ff:ff:ff" }
      - payload: { text: hello }
    verdict: flood
    out:
      - to: port b1
        packet:
          - eth: { src: "02:00:00:00:00:01", dst: "ff:ff:ff:ff:ff:ff", type: 0x88b5 }
          - payload: { text: hello }
    counters:
      port b1: { to: 1 }
      remote h2: { to: 0 }
  - from: underlay
    packet: [ { eth: {} }, { pad: 60 } ]
    verdict: to_host
"#;

    fn parse(text: &str) -> Result<Case, CaseError> {
        Case::parse(Path::new("cases/flood/some-case.yaml"), text)
    }

    #[test]
    fn a_case_means_what_it_says() {
        let case = parse(CASE).unwrap();
        assert_eq!(
            (case.name.as_str(), case.machine),
            ("flood/some-case", Machine::default())
        );
        let [flood, host] = &case.steps[..] else {
            panic!("two packets");
        };
        assert_eq!(
            (flood.line, flood.now_ns, flood.verdict),
            (11, 500_000_000, Verdict::Flood)
        );
        assert_eq!(flood.packet.tag.map(|tag| tag.tag.vid()), Some(10));
        assert_eq!(flood.out[0].to, Destination::Port(name("b1").unwrap()));
        assert_eq!(flood.out[0].packet.bytes, flood.packet.bytes);
        assert_eq!(flood.counts.len(), 2);
        assert_eq!(host.packet.bytes.len(), 60);
        // A packet for the host's stack leaves as it came, without being written down twice.
        assert_eq!(
            (&host.out[0].to, &host.out[0].packet),
            (&Destination::Host, &host.packet)
        );
        let outcomes = crate::reference::run(&case);
        for (step, outcome) in case.steps.iter().zip(&outcomes) {
            assert_eq!(
                crate::compare::with_case(step, outcome),
                Vec::<String>::new()
            );
        }
    }

    /// Every part of what a case demands is compared: each change alone is found.
    #[test]
    fn a_wrong_case_fails() {
        for (right, wrong, found) in [
            (
                "verdict: flood",
                "verdict: encap",
                "verdict flood and not encap",
            ),
            (
                "to: port b1\n",
                "to: underlay\n",
                "leaves to port b1 and not to underlay",
            ),
            (
                "{ text: hello }\n    counters",
                "{ text: hallo }\n    counters",
                "leaves otherwise",
            ),
            ("type: 0x88b5", "type: 0x88b6", "leaves otherwise"),
            ("port b1: { to: 1 }", "port b1: { to: 2 }", "1 and not 2"),
            (
                "remote h2: { to: 0 }",
                "remote h2: { dropped: 1 }",
                "0 and not 1",
            ),
        ] {
            assert!(CASE.contains(right), "{right}");
            let case = parse(&CASE.replacen(right, wrong, 1)).unwrap();
            let outcomes = crate::reference::run(&case);
            let words = crate::compare::with_case(&case.steps[0], &outcomes[0]).join("\n");
            assert!(words.contains(found), "{wrong}: {words}");
        }
    }

    const FIREWALL: &str = r#"title: a rule drops, counts and logs
rules: [ACL-8, ACL-10, ACL-11]
fabric:
  version: 1
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: v0, mac: "02:00:00:00:00:01" }
    a2: { switch: blue, host: h1, device: v1, mac: "02:00:00:00:00:02" }
  rules:
    no: { ports: [a2], direction: to_port, action: drop, log: true }
packets:
  - from: port a1
    times: 2
    packet:
      - eth: { src: "02:00:00:00:00:01", dst: "02:00:00:00:00:02" }
      - ip4: { src: 198.18.100.1, dst: 198.18.100.2 }
    verdict: firewall_drop
    counters:
      rule no: { packets: 1 }
    log: [no]
"#;

    #[test]
    fn rules_count_and_log_each_time() {
        let case = parse(FIREWALL).unwrap();
        assert_eq!(case.steps.len(), 2);
        for (step, outcome) in case.steps.iter().zip(crate::reference::run(&case)) {
            assert!(crate::compare::with_case(step, &outcome).is_empty());
        }
        for (right, wrong, found) in [
            ("packets: 1 }", "packets: 0 }", "1 and not 0"),
            ("log: [no]", "log: []", "into the log"),
        ] {
            let case = parse(&FIREWALL.replacen(right, wrong, 1)).unwrap();
            let outcomes = crate::reference::run(&case);
            let words = crate::compare::with_case(&case.steps[0], &outcomes[0]).join("\n");
            assert!(words.contains(found), "{wrong}: {words}");
        }
        for (right, wrong, found) in [
            ("rule no:", "rule yes:", "no rule `yes`"),
            ("log: [no]", "log: [yes]", "no rule `yes`"),
            ("from: port a1", "from: leg phys0", "no leg `phys0`"),
        ] {
            let error = parse(&FIREWALL.replacen(right, wrong, 1)).unwrap_err();
            assert!(error.to_string().contains(found), "{error}");
        }
    }

    #[test]
    fn mistakes_have_a_line() {
        for (right, wrong, line, found) in [
            ("title:", "titel:", 1, "titel"),
            ("rules: [FLOOD-1]", "host: h1", 10, "rules"),
            ("[FLOOD-1]", "[]", 2, "which rules"),
            ("[FLOOD-1]", "[FLOOD-1, flood]", 2, "`flood` is no ID"),
            ("[FLOOD-1]", "[L2-1, L2-1]", 2, "L2-1 stands twice"),
            ("fabric:", "rfc: [REQ-4]\nfabric:", 3, "`REQ-4` is no name"),
            (
                "fabric:",
                "rfc: [RFC 826 1, RFC 826 1]\nfabric:",
                3,
                "RFC 826 1 stands twice",
            ),
            ("vni: 5001", "vni: 0", 6, "out of range"),
            ("from: port a1", "from: port a9", 11, "no port `a9`"),
            ("{ id: 10 }", "{ id: 5000 }", 14, "5000"),
            ("verdict: flood", "verdict: floods", 11, "`floods`"),
            ("to: port b1\n", "to: port c1\n", 19, "no port `c1`"),
            ("{ pad: 60 }", "{ pad: 3 }", 27, "longer"),
            ("remote h2", "remote h3", 11, "no host `h3`"),
            (
                "verdict: to_host",
                "verdict: to_port",
                26,
                "`out` is missing",
            ),
        ] {
            assert!(CASE.contains(right), "{right}");
            let error = parse(&CASE.replacen(right, wrong, 1)).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("cases/flood/some-case.yaml:") && text.contains(found),
                "{text}"
            );
        }
    }
}
