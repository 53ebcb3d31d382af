//! A golden case: a fabric, packets that enter one of its hosts, and what must become of each. Read
//! from `tests/cases/NAME/case.yaml` (its format stands in `tests/conformance/README.md`); every executor runs it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use overlane_model::{Attachment, DeviceName, Fabric, Name, Tables, Verdict};
use overlane_pipeline::{Entry, Packet};
use thiserror::Error;

use crate::compose::compose;
use crate::document::{self, Count};

/// What is wrong with a case, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}:{line}: {message}", path.display())]
pub struct CaseError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
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
    /// Name of its folder.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// What it shows.
    pub title: String,
    /// The network.
    pub fabric: Fabric,
    /// The fabric file as text.
    pub fabric_text: String,
    /// The fabric compiled for the host the packets enter.
    pub tables: Tables,
    /// Largest outer IP packet of its uplink.
    pub underlay_mtu: u32,
    /// The packets, which enter in this order on one state.
    pub steps: Vec<Step>,
}

/// A packet and what must become of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where the file says it.
    pub line: u64,
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
    /// Packets that must be counted, besides the verdict.
    pub counts: BTreeMap<Counted, Count>,
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
}

/// What has counters of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counted {
    /// A logical port.
    Port(Name),
    /// A VTEP.
    Remote(IpAddr),
}

/// The folder of all cases.
pub fn cases_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases")
}

/// Every case of a folder, by name; or all that is wrong with them.
pub fn load_all(folder: &Path) -> Result<Vec<Case>, Unreadable> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Unreadable(vec![CaseError::file(folder, &error)]))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("case.yaml")))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    let (cases, errors): (Vec<_>, Vec<_>) = files
        .iter()
        .map(|file| Case::load(file))
        .partition(Result::is_ok);
    if errors.is_empty() {
        Ok(cases.into_iter().filter_map(Result::ok).collect())
    } else {
        Err(Unreadable(
            errors.into_iter().filter_map(Result::err).collect(),
        ))
    }
}

fn lines(errors: &[CaseError]) -> String {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Every golden case whose name has what `OVERLANE_CASE` says; all without it.
pub fn wanted() -> Result<Vec<Case>, Unreadable> {
    let part = std::env::var("OVERLANE_CASE").unwrap_or_default();
    let mut cases = load_all(&cases_folder())?;
    cases.retain(|case| case.name.contains(&part));
    Ok(cases)
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
        let (fabric, fabric_text) = document::fabric(path, text, &document)?;
        let host = document.host.as_deref().unwrap_or("h1");
        let tables = fabric
            .compile(host)
            .map_err(|error| CaseError::at(path, 1, error))?;
        let reader = Reader {
            path,
            fabric: &fabric,
            tables: &tables,
        };
        let steps = document.packets.iter();
        let steps = steps
            .map(|packet| reader.step(packet.referenced.line(), &packet.value))
            .collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Err(CaseError::at(path, 1, "a case has at least one packet"));
        }
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Ok(Self {
            name: folder.to_string_lossy().into_owned(),
            path: path.to_owned(),
            title: document.title,
            underlay_mtu: document.underlay_mtu.unwrap_or(1500),
            fabric,
            fabric_text,
            tables,
            steps,
        })
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

/// What names in a case mean.
struct Reader<'a> {
    path: &'a Path,
    fabric: &'a Fabric,
    tables: &'a Tables,
}

impl Reader<'_> {
    fn step(&self, line: u64, packet: &document::Packet) -> Result<Step, CaseError> {
        let fail = |message: String| CaseError::at(self.path, line, message);
        let at = packet.at.unwrap_or(0.0);
        if !(0.0..1e9).contains(&at) {
            return Err(fail(format!("at: {at} is no time in seconds")));
        }
        let verdict = Verdict::ALL
            .iter()
            .find(|verdict| verdict.name() == packet.verdict);
        let verdict =
            *verdict.ok_or_else(|| fail(format!("no verdict is called `{}`", packet.verdict)))?;
        let entered = self.packet(line, &packet.packet)?;
        let out = match &packet.out {
            Some(out) => out
                .iter()
                .map(|left| self.left(left.referenced.line(), &left.value, &entered))
                .collect::<Result<_, _>>()?,
            None if verdict.is_drop() => Vec::new(),
            None if verdict == Verdict::ToHost => vec![Left {
                to: Destination::Host,
                packet: entered.clone(),
            }],
            None => {
                return Err(fail(format!(
                    "`out` is missing: what leaves with verdict {verdict}"
                )));
            }
        };
        let counts = packet.counters.iter().flatten();
        Ok(Step {
            line,
            now_ns: (at * 1e9).round() as u64,
            entry: self.entry(&packet.from).map_err(fail)?,
            packet: entered,
            verdict,
            out,
            counts: counts
                .map(|(what, count)| Ok((self.counted(what)?, *count)))
                .collect::<Result<_, _>>()
                .map_err(fail)?,
        })
    }

    fn packet(&self, line: u64, layers: &document::Layers) -> Result<Packet, CaseError> {
        let plain: Vec<_> = layers.iter().map(|layer| layer.value.clone()).collect();
        compose(&plain).map_err(|error| {
            let line = layers
                .get(error.index)
                .map_or(line, |layer| layer.referenced.line());
            CaseError::at(self.path, line, error)
        })
    }

    fn left(&self, line: u64, left: &document::Left, entered: &Packet) -> Result<Left, CaseError> {
        let packet = match (&left.packet, left.same.unwrap_or(false)) {
            (Some(layers), false) => self.packet(line, layers)?,
            (None, true) => entered.clone(),
            _ => {
                return Err(CaseError::at(
                    self.path,
                    line,
                    "give either `packet` or `same: true`",
                ));
            }
        };
        let to = self.destination(&left.to);
        let to = to.map_err(|message| CaseError::at(self.path, line, message))?;
        Ok(Left { to, packet })
    }

    fn entry(&self, from: &str) -> Result<Entry, String> {
        let words: Vec<&str> = from.split_whitespace().collect();
        match words[..] {
            ["underlay"] => Ok(Entry::Underlay),
            ["port", port] => Ok(Entry::Port(self.attachment(port)?.device.clone())),
            ["segmenter", port] => Ok(Entry::Segmenter(self.attachment(port)?.device.clone())),
            ["device", device] => DeviceName::new(device)
                .map(Entry::Port)
                .map_err(|error| error.to_string()),
            _ => Err(format!(
                "from: `{from}` is none of `port NAME`, `device NAME`, `segmenter NAME`, `underlay`"
            )),
        }
    }

    fn destination(&self, to: &str) -> Result<Destination, String> {
        let words: Vec<&str> = to.split_whitespace().collect();
        match words[..] {
            ["underlay"] => Ok(Destination::Underlay(None)),
            ["underlay", host] => Ok(Destination::Underlay(Some(self.vtep(host)?))),
            ["port", port] => self
                .attachment(port)
                .and_then(|_| name(port))
                .map(Destination::Port),
            ["segmenter"] => Ok(Destination::Segmenter),
            ["host"] => Ok(Destination::Host),
            _ => Err(format!(
                "to: `{to}` is none of `port NAME`, `underlay`, `underlay HOST`, `segmenter`, `host`"
            )),
        }
    }

    fn counted(&self, what: &str) -> Result<Counted, String> {
        let words: Vec<&str> = what.split_whitespace().collect();
        match words[..] {
            ["port", port] => self
                .attachment(port)
                .and_then(|_| name(port))
                .map(Counted::Port),
            ["remote", host] => self.vtep(host).map(Counted::Remote),
            _ => Err(format!(
                "counters: `{what}` is neither `port NAME` nor `remote HOST`"
            )),
        }
    }

    fn attachment(&self, port: &str) -> Result<&Attachment, String> {
        let found = self
            .tables
            .ports
            .iter()
            .find(|known| known.name.as_str() == port);
        found
            .map(|port| &port.attachment)
            .ok_or_else(|| format!("host {} has no port `{port}`", self.tables.host))
    }

    fn vtep(&self, host: &str) -> Result<IpAddr, String> {
        let found = self.fabric.hosts().get(host);
        found
            .map(|host| host.underlay)
            .ok_or_else(|| format!("the fabric has no host `{host}`"))
    }
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"title: a broadcast reaches the other port
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
        Case::parse(Path::new("cases/some-case/case.yaml"), text)
    }

    #[test]
    fn a_case_means_what_it_says() {
        let case = parse(CASE).unwrap();
        assert_eq!((case.name.as_str(), case.underlay_mtu), ("some-case", 1500));
        let [flood, host] = &case.steps[..] else {
            panic!("two packets");
        };
        assert_eq!(
            (flood.line, flood.now_ns, flood.verdict),
            (10, 500_000_000, Verdict::Flood)
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

    #[test]
    fn mistakes_have_a_line() {
        for (right, wrong, line, found) in [
            ("title:", "titel:", 1, "titel"),
            ("vni: 5001", "vni: 0", 5, "out of range"),
            ("from: port a1", "from: port a9", 10, "no port `a9`"),
            ("{ id: 10 }", "{ id: 5000 }", 13, "5000"),
            ("verdict: flood", "verdict: floods", 10, "`floods`"),
            ("to: port b1\n", "to: port c1\n", 18, "no port `c1`"),
            ("{ pad: 60 }", "{ pad: 3 }", 26, "longer"),
            ("remote h2", "remote h3", 10, "no host `h3`"),
            (
                "verdict: to_host",
                "verdict: to_port",
                25,
                "`out` is missing",
            ),
        ] {
            assert!(CASE.contains(right), "{right}");
            let error = parse(&CASE.replacen(right, wrong, 1)).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("cases/some-case/case.yaml:") && text.contains(found),
                "{text}"
            );
        }
    }
}
