//! A row: one thing of a host that differs, or deserves a look, as data. `apply`, `remove`, `show` and `status` tell with
//! rows; `sentence.rs` makes the words for people from them.

use serde::{Deserialize, Serialize, Serializer};

use super::remedy::Remedy;

/// What a row is about. The order is that of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// A logical port.
    Port,
    /// A logical switch.
    Switch,
    /// Another host of the fabric.
    Remote,
    /// A rule of the firewall.
    Rule,
    /// A router.
    Router,
    /// A MAC on a switch.
    FdbEntry,
    /// An address on a switch, with its MAC.
    Neighbour,
    /// A network that a port may send from.
    AllowedAddress,
    /// A MAC that a port may send from.
    AllowedMac,
    /// One of the values that hold for the whole host.
    Setting,
    /// The nftables table that closes ports' devices, in one family.
    Guard,
    /// The leg of a gateway.
    Leg,
    /// The uplink.
    Uplink,
    /// A network device.
    Device,
    /// Promiscuous mode of a device.
    Promiscuous,
    /// A neighbour that the kernel keeps resolved.
    NextHop,
    /// The multicast group of an address.
    MulticastGroup,
    /// The programs and maps as a whole.
    DataPath,
    /// A network namespace.
    Namespace,
    /// A pinned link of a program.
    Link,
    /// A pinned set of maps.
    Maps,
    /// What is announced to the physical network.
    Announcement,
    /// Connections that are followed.
    Connections,
    /// A file.
    File,
    /// The state file.
    State,
    /// The running kernel.
    Kernel,
    /// The host itself.
    Host,
    /// Where the agent has it from what the host should carry.
    Source,
    /// The agent that keeps the host.
    Agent,
}

/// Added, changed or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// `+`
    Add,
    /// `~`
    Modify,
    /// `-`
    Remove,
}

/// One property that is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The property.
    pub what: String,
    /// As declared.
    pub wanted: Option<String>,
    /// As found.
    pub have: Option<String>,
}

pub(super) const PROGRAM: &str = "program";
pub(super) const MISSING: &str = "missing";

/// One thing of a host that differs, or deserves a look. Displays as a sentence: `+ port web1 (device web1, key 7)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was done, or is to be done; none: the row tells of something that only its user can mend.
    pub change: Option<ChangeKind>,
    /// What it is about.
    pub object: Object,
    /// Which one.
    pub name: String,
    /// What it is on or of, by kind and name: the device of a next hop, the switch of a MAC.
    pub of: Option<(Object, String)>,
    /// What else tells it apart, for people: `device web1, key 7`.
    pub detail: Option<String>,
    /// What differs, where the thing itself is there.
    pub differs: Vec<Difference>,
    /// A word for programs: which finding it is.
    pub note: Option<&'static str>,
    /// It only tells of how the host is made: all is as declared.
    pub is_remark: bool,
    /// Seconds since the Epoch, where it is known since when.
    pub since: Option<u64>,
    /// What it means for the network.
    pub meaning: Option<String>,
    /// The command that helps, or what to do where no command does.
    pub remedy: Option<Remedy>,
}

impl Row {
    /// Of a change.
    pub(crate) fn new(change: ChangeKind, object: Object, name: impl ToString) -> Self {
        Self {
            change: Some(change),
            object,
            name: name.to_string(),
            of: None,
            detail: None,
            differs: Vec::new(),
            note: None,
            is_remark: false,
            since: None,
            meaning: None,
            remedy: None,
        }
    }

    pub(crate) fn add(object: Object, name: impl ToString) -> Self {
        Self::new(ChangeKind::Add, object, name)
    }

    pub(crate) fn modify(object: Object, name: impl ToString) -> Self {
        Self::new(ChangeKind::Modify, object, name)
    }

    pub(crate) fn remove(object: Object, name: impl ToString) -> Self {
        Self::new(ChangeKind::Remove, object, name)
    }

    /// Tells it from other rows, whatever its figures are.
    pub fn key(&self) -> String {
        let differs: Vec<&str> = self.differs.iter().map(|it| it.what.as_str()).collect();
        let (object, note) = (self.object.word(), self.note.unwrap_or_default());
        format!("{object} {} {note} {}", self.name, differs.join(","))
    }

    /// Of something that its user should know.
    pub(crate) fn finding(note: &'static str, object: Object, name: impl ToString) -> Self {
        Self {
            change: None,
            note: Some(note),
            ..Self::add(object, name)
        }
    }

    /// Of how the host is made. Nothing differs.
    pub(crate) fn remark(note: &'static str, object: Object, name: impl ToString) -> Self {
        Self {
            is_remark: true,
            ..Self::finding(note, object, name)
        }
    }

    pub(crate) fn of(self, object: Object, name: impl ToString) -> Self {
        Self {
            of: Some((object, name.to_string())),
            ..self
        }
    }

    pub(crate) fn detail(self, detail: impl ToString) -> Self {
        Self {
            detail: Some(detail.to_string()),
            ..self
        }
    }

    /// A property differs, and nobody needs its values.
    pub(crate) fn differs(mut self, what: impl ToString) -> Self {
        self.differs.push(Difference {
            what: what.to_string(),
            wanted: None,
            have: None,
        });
        self
    }

    /// A property has one value and should have another one.
    pub(crate) fn has(
        mut self,
        what: impl ToString,
        have: impl ToString,
        wanted: impl ToString,
    ) -> Self {
        self.differs.push(Difference {
            what: what.to_string(),
            wanted: Some(wanted.to_string()),
            have: Some(have.to_string()),
        });
        self
    }

    /// Since when, in seconds since the Epoch.
    pub(crate) fn since(self, since: Option<u64>) -> Self {
        Self { since, ..self }
    }

    pub(crate) fn means(self, meaning: impl ToString) -> Self {
        Self {
            meaning: Some(meaning.to_string()),
            ..self
        }
    }

    pub(crate) fn remedy(self, remedy: Remedy) -> Self {
        Self {
            remedy: Some(remedy),
            ..self
        }
    }

    /// `ip` with these words helps.
    pub(crate) fn ip(self, words: impl ToString) -> Self {
        self.remedy(Remedy::Ip(None, words.to_string()))
    }

    /// No command helps; this does.
    pub(crate) fn advice(self, advice: impl ToString) -> Self {
        self.remedy(Remedy::Advice(advice.to_string()))
    }

    /// A device of the fabric is there without its program.
    pub(crate) fn lacks_program(&self) -> bool {
        self.differs.iter().any(|it| it.what == PROGRAM)
    }

    /// The program of the device has to be attached again.
    pub(crate) fn without_program(self) -> Self {
        self.has(PROGRAM, MISSING, "attached")
    }

    /// A command of the remedy is for this network namespace; none: for that of its reader.
    pub(crate) fn in_namespace(self, namespace: Option<&str>) -> Self {
        let remedy = self.remedy.map(|remedy| remedy.in_namespace(namespace));
        Self { remedy, ..self }
    }
}

impl Serialize for Row {
    /// With its sentence beside, as `what`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a> {
            object: Object,
            name: &'a str,
        }
        #[derive(Serialize)]
        struct Written<'a> {
            kind: Option<ChangeKind>,
            object: Object,
            name: &'a str,
            of: Option<Named<'a>>,
            differs: &'a [Difference],
            note: Option<&'static str>,
            since: Option<u64>,
            meaning: Option<&'a str>,
            remedy: Option<&'a Remedy>,
            what: String,
        }
        let of = self.of.as_ref();
        let written = Written {
            kind: self.change,
            object: self.object,
            name: &self.name,
            of: of.map(|(object, name)| Named {
                object: *object,
                name,
            }),
            differs: &self.differs,
            note: self.note,
            since: self.since,
            meaning: self.meaning.as_deref(),
            remedy: self.remedy.as_ref(),
            what: self.sentence(),
        };
        written.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_read_what_people_read() {
        let row = Row::modify(Object::Port, "web1")
            .detail("device web1, key 8")
            .has("key", 7, 8);
        let expected = serde_json::json!({
            "kind": "modify", "object": "port", "name": "web1", "of": null, "note": null, "since": null,
            "differs": [{ "what": "key", "wanted": "8", "have": "7" }], "meaning": null, "remedy": null,
            "what": "port web1 (device web1, key 8): key 7 → 8",
        });
        assert_eq!(serde_json::to_value(&row).unwrap(), expected);
    }
}
