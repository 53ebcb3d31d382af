//! Attacks: tables of hostile frames, and of what stops each (`tests/attacks/*.yaml`; the format stands in the README
//! there). Each of them becomes a [`Case`], so that every executor can run it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use overlane_ebpf::test_run::Action;
use overlane_model::{Fabric, Tables, Verdict};
use overlane_pipeline::{Entry, Outcome, Output};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::folder::{cases_folder, entries, known_rules, unknown_rules};
use super::reader::Reader;
use super::{Case, CaseError, Machine, Step, Unreadable, rules};
use crate::compare::{decided, place, with_case};
use crate::document::{self, Layers};
use crate::test_runner::{Device, Observed};

/// An attack, or a counter-example: what looks like one and must pass.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Its packets: those that come first, and at the end the attack itself.
    pub case: Case,
    /// What must become of each of them, besides its verdict.
    pub fates: Vec<Fate>,
}

/// What must become of a packet, besides its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Nothing leaves.
    Stopped,
    /// Nothing leaves but an answer, which goes back where the packet came from.
    Answered,
    /// Something leaves.
    Passes,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// What the attacks of this file have in common.
    title: String,
    fabric: String,
    /// Where packets enter, and how they begin.
    ways: BTreeMap<String, Way>,
    /// Packets that come before all others.
    before: Option<Vec<Spanned<Before>>>,
    table: Vec<Spanned<Group>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    from: String,
    begins: Option<Layers>,
}

/// Attacks that the same rules stop.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The verdict of an attack …
    stopped: Option<String>,
    /// … or of a counter-example.
    passes: Option<String>,
    answered: Option<bool>,
    rules: Spanned<Vec<Spanned<String>>>,
    /// Each packet by each of these ways.
    by: Vec<String>,
    at: Option<f64>,
    /// Packets that come before each.
    after: Option<Vec<Spanned<Before>>>,
    packets: BTreeMap<String, Spanned<Layers>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    at: Option<f64>,
    by: String,
    packet: Layers,
    passes: Option<String>,
    stopped: Option<String>,
}

/// Every attack in the tables of a folder; or all that is wrong with them.
pub fn load_attacks(folder: &Path) -> Result<Vec<Attack>, Unreadable> {
    let mut errors = Vec::new();
    let known = known_rules()?;
    let mut attacks: Vec<Attack> = Vec::new();
    for path in entries(folder, &mut errors) {
        if path.extension().is_some_and(|ending| ending == "yaml") {
            match Table::read(&path).and_then(|table| table.attacks()) {
                Ok(found) => attacks.extend(found),
                Err(error) => errors.push(error),
            }
        }
    }
    let mut names = BTreeSet::new();
    for Attack { case, .. } in &attacks {
        errors.extend(unknown_rules(case, &known));
        if !names.insert(&case.name) {
            let line = case.steps.last().map_or(0, |step| step.line);
            let message = format!("two attacks are called `{}`", case.name);
            errors.push(CaseError::at(&case.path, line, message));
        }
    }
    match errors.is_empty() {
        true => Ok(attacks),
        false => Err(Unreadable(errors)),
    }
}

/// A file, with its fabric.
struct Table {
    path: PathBuf,
    document: Document,
    fabric: Fabric,
    fabric_text: String,
    tables: Tables,
}

impl Table {
    fn read(path: &Path) -> Result<Self, CaseError> {
        let text = std::fs::read_to_string(path).map_err(|error| CaseError::file(path, &error))?;
        let document: Document = document::read(path, &text)?;
        let (fabric, fabric_text) =
            document::named_fabric(path, &cases_folder(), &document.fabric)?;
        let tables = fabric.compile("h1");
        Ok(Self {
            tables: tables.map_err(|error| CaseError::at(path, 1, error))?,
            path: path.to_owned(),
            document,
            fabric,
            fabric_text,
        })
    }

    fn attacks(&self) -> Result<Vec<Attack>, CaseError> {
        let mut attacks = Vec::new();
        for group in &self.document.table {
            for by in &group.value.by {
                let mut packets: Vec<_> = group.value.packets.iter().collect();
                packets.sort_by_key(|(_, packet)| packet.referenced.line());
                for (name, packet) in packets {
                    attacks.push(self.attack(group, by, name, packet)?);
                }
            }
        }
        Ok(attacks)
    }

    fn attack(
        &self,
        group: &Spanned<Group>,
        by: &str,
        name: &str,
        packet: &Spanned<Layers>,
    ) -> Result<Attack, CaseError> {
        let line = packet.referenced.line();
        let mut steps = Vec::new();
        let mut fates = Vec::new();
        let first = self.document.before.iter().flatten();
        for before in first.chain(group.value.after.iter().flatten()) {
            let line = before.referenced.line();
            let before = &before.value;
            let (verdict, fate) = self.fate(line, &before.stopped, &before.passes)?;
            steps.push(self.step(line, &before.by, before.at, &before.packet, verdict)?);
            fates.push(fate);
        }
        let group = &group.value;
        let (verdict, fate) = self.fate(line, &group.stopped, &group.passes)?;
        let fate = match group.answered {
            Some(true) => Fate::Answered,
            _ => fate,
        };
        steps.push(self.step(line, by, group.at, &packet.value, verdict)?);
        fates.push(fate);
        let file = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let case = Case {
            name: format!("{file}, {by}: {name}"),
            path: self.path.clone(),
            title: self.document.title.clone(),
            rules: rules(&self.path, &group.rules)?,
            fabric: self.fabric.clone(),
            fabric_text: self.fabric_text.clone(),
            tables: self.tables.clone(),
            changed: None,
            moved: None,
            machine: Machine::default(),
            steps,
        };
        Ok(Attack { case, fates })
    }

    fn fate<'a>(
        &self,
        line: u64,
        stopped: &'a Option<String>,
        passes: &'a Option<String>,
    ) -> Result<(&'a str, Fate), CaseError> {
        match (stopped, passes) {
            (Some(verdict), None) => Ok((verdict, Fate::Stopped)),
            (None, Some(verdict)) => Ok((verdict, Fate::Passes)),
            _ => {
                let message = "give either `stopped` or `passes`";
                Err(CaseError::at(&self.path, line, message))
            }
        }
    }

    fn step(
        &self,
        line: u64,
        by: &str,
        at: Option<f64>,
        layers: &Layers,
        verdict: &str,
    ) -> Result<Step, CaseError> {
        let way = self.document.ways.get(by);
        let way =
            way.ok_or_else(|| CaseError::at(&self.path, line, format!("no way is called `{by}`")))?;
        let begins = way.begins.iter().flatten();
        let packet = document::Packet {
            at,
            from: way.from.clone(),
            packet: begins.chain(layers).cloned().collect(),
            verdict: verdict.to_owned(),
            // What is left to the host goes there as it came, as the reader knows.
            out: (verdict != Verdict::ToHost.name()).then(Vec::new),
            ..document::Packet::default()
        };
        let reader = Reader {
            path: &self.path,
            fabric: &self.fabric,
            tables: &self.tables,
        };
        reader.step(line, &packet)
    }
}

impl Attack {
    /// Whether it must not pass.
    pub fn is_one(&self) -> bool {
        self.fates.last() != Some(&Fate::Passes)
    }

    /// What the reference executor made of a packet, against what must become of it.
    pub fn of_reference(&self, index: usize, outcome: &Outcome) -> Differences {
        let (step, fate) = (&self.case.steps[index], self.fates[index]);
        let mut words = match fate {
            Fate::Stopped => with_case(step, outcome),
            Fate::Answered | Fate::Passes => decided(step, outcome),
        };
        if fate != Fate::Stopped && outcome.outputs.is_empty() {
            words.push("nothing leaves".into());
        }
        let wrong = outcome.outputs.iter().filter(|output| match fate {
            Fate::Stopped => !step.out.iter().any(|left| left.is(output)),
            Fate::Answered => !self.goes_back(&step.entry, output),
            Fate::Passes => false,
        });
        let through: Vec<_> = wrong.map(place).collect();
        Differences { words, through }
    }

    /// What the eBPF programs made of a packet, against the same.
    pub fn of_programs(&self, index: usize, observed: &Observed) -> Differences {
        let (step, fate) = (&self.case.steps[index], self.fates[index]);
        let mut words = Vec::new();
        if observed.verdict != Some(step.verdict) {
            let verdict = observed.verdict.map_or("none", Verdict::name);
            words.push(format!("eBPF: verdict {verdict} and not {}", step.verdict));
        }
        let is_for_host = observed.action == Action::Next;
        if is_for_host != (step.verdict == Verdict::ToHost) {
            words.push(format!("eBPF: action {:?}", observed.action));
        }
        if fate != Fate::Stopped && observed.left.is_empty() {
            words.push("eBPF: nothing leaves".into());
        }
        let wrong = observed.left.iter().filter(|left| match fate {
            Fate::Stopped => true,
            Fate::Answered => !is_back(&step.entry, &left.device),
            Fate::Passes => false,
        });
        let through: Vec<_> = wrong.map(|left| format!("{:?}", left.device)).collect();
        Differences { words, through }
    }

    fn goes_back(&self, entry: &Entry, output: &Output) -> bool {
        match (entry, output) {
            (Entry::Port(device), Output::Port { port, .. }) => {
                let mut ports = self.case.tables.ports.iter();
                ports.any(|known| known.name == *port && known.attachment.device == *device)
            }
            (
                Entry::Leg(leg),
                Output::Leg {
                    device, next_hop, ..
                },
            ) => device == leg && next_hop.is_none(),
            (Entry::Underlay, Output::Underlay { .. }) => true,
            _ => false,
        }
    }
}

/// How what became of a packet differs from what must become of it.
#[derive(Debug)]
pub struct Differences {
    /// In words; none of a packet that is as it must be.
    pub words: Vec<String>,
    /// Where it went, though it must not have.
    pub through: Vec<String>,
}

impl Differences {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.words.is_empty() || !self.through.is_empty()
    }
}

fn is_back(entry: &Entry, device: &Device) -> bool {
    match (entry, device) {
        (Entry::Port(from), Device::Port(to)) | (Entry::Leg(from), Device::Leg(to)) => from == to,
        (Entry::Underlay, Device::Uplink | Device::Segmenter) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::reference;

    const TABLE: &str = r#"title: a guest with the MAC of another
fabric: vxlan4
ways:
  a1: { from: port a1, begins: [eth: { src: "02:00:00:00:00:02", dst: "02:00:00:00:00:11" }] }
  honest: { from: port a1, begins: [eth: { src: "02:00:00:00:00:01", dst: "02:00:00:00:00:11" }] }
table:
  - stopped: spoofed_mac
    rules: [PSEC-2]
    by: [a1]
    after:
      - { by: honest, packet: [payload: { size: 46 }], passes: encap }
    packets:
      of any kind: [payload: { size: 46 }]
"#;

    fn load(text: &str) -> Result<Vec<Attack>, Unreadable> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("table.yaml"), text).unwrap();
        load_attacks(folder.path())
    }

    #[test]
    fn a_table_means_what_it_says() {
        let attacks = load(TABLE).unwrap();
        let [attack] = &attacks[..] else {
            panic!("one attack");
        };
        assert_eq!(attack.case.name, "table, a1: of any kind");
        assert_eq!(attack.fates, [Fate::Passes, Fate::Stopped]);
        assert!(attack.is_one());
        for (index, outcome) in reference::run(&attack.case).iter().enumerate() {
            assert!(!attack.of_reference(index, outcome).any());
        }
    }

    /// What gets through is found, with where it went; so is another verdict, and an answer to somebody else.
    #[test]
    fn what_gets_through_is_found() {
        for (right, wrong, words, through) in [
            (
                "by: [a1]",
                "by: [honest]",
                "verdict encap and not spoofed_mac",
                1,
            ),
            (
                "stopped: spoofed_mac",
                "stopped: spoofed_ip",
                "verdict spoofed_mac and not spoofed_ip",
                0,
            ),
            (
                "stopped: spoofed_mac",
                "passes: spoofed_mac",
                "nothing leaves",
                0,
            ),
            (
                "    by: [a1]",
                "    answered: true\n    by: [honest]",
                "verdict encap",
                1,
            ),
        ] {
            let attacks = load(&TABLE.replacen(right, wrong, 1)).unwrap();
            let outcomes = reference::run(&attacks[0].case);
            let found = attacks[0].of_reference(1, &outcomes[1]);
            assert!(found.words.join("\n").contains(words), "{found:?}");
            assert_eq!(found.through.len(), through, "{found:?}");
        }
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        let again = "      of any kind: [payload: { size: 46 }]\n";
        let second = TABLE.split_once("table:\n").unwrap().1;
        for (text, message) in [
            (
                TABLE.replace("by: [a1]", "by: [b1]"),
                "no way is called `b1`",
            ),
            (
                TABLE.replace("stopped: spoofed_mac", "passes: encap\n    stopped: encap"),
                "give either",
            ),
            (TABLE.replace("PSEC-2", "PSEC-999"), "has no PSEC-999"),
            (
                TABLE.replace("spoofed_mac", "spoofed"),
                "no verdict is called `spoofed`",
            ),
            (TABLE.replace("fabric: vxlan4", "fabric: nil"), "nil.yaml"),
            (format!("{TABLE}{second}"), "two attacks are called"),
            (format!("{TABLE}{again}"), "duplicate"),
        ] {
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
        }
    }
}
