//! The record: what `apply` switched on that nothing of the kernel shows to be ours. The state file has it too, but a
//! state file may be cut, gone, or of a newer version. So it stands a second time beside the pins, as empty folders
//! whose names say it, each made before what it tells of is done:
//!
//! ```text
//!   /sys/fs/bpf/overlane/h1/ours/netns 4 4026532281 5       where the host is applied
//!                               /promiscuous eth1
//!                               /managed eth1 198%2e18%2e0%2e2
//!                               /group phys0 2001:2::1
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::groups::Group;
use crate::state::{NetnsId, NextHop, State};
use crate::{HostError, current, files, paths};

/// What is ours in the namespace of a host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ours {
    /// Next hops that the kernel keeps resolved for us.
    pub(crate) neighbours: BTreeSet<NextHop>,
    /// Devices that we made promiscuous.
    pub(crate) promiscuous: BTreeSet<String>,
    /// Multicast groups that we joined.
    pub(crate) groups: BTreeSet<Group>,
}

/// The record of a host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) netns_id: NetnsId,
    pub(crate) ours: Ours,
    /// What another version wrote, word by word.
    pub(crate) unclear: BTreeSet<String>,
}

impl Ours {
    /// And what the other one has.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.neighbours.extend(other.neighbours.iter().cloned());
        self.promiscuous.extend(other.promiscuous.iter().cloned());
        self.groups.extend(other.groups.iter().cloned());
        self
    }
}

impl Record {
    /// What a state says.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            netns_id: state.netns_id,
            ours: Ours {
                neighbours: state.neighbours.clone(),
                promiscuous: state.promiscuous.clone(),
                groups: state.groups.clone(),
            },
            unclear: BTreeSet::new(),
        }
    }

    /// Whether it stands there already.
    pub(crate) fn is_in(&self, written: Option<&Self>) -> bool {
        written.is_some_and(|it| it.netns_id == self.netns_id && it.ours == self.ours)
    }

    /// The record of a host, if it has one.
    pub(crate) fn read(host: &str) -> Result<Option<Self>, HostError> {
        Ok(Self::from_texts(&texts_in(&paths::record(host))?))
    }

    /// What is ours by what the record and the state say, if both speak of this namespace.
    pub(crate) fn ours_in(here: NetnsId, record: Option<&Self>, state: Option<&State>) -> Ours {
        let state = state.map(Self::of);
        let both = record.into_iter().chain(&state);
        let here = both.filter(|one| one.netns_id == here);
        here.fold(Ours::default(), |ours, one| ours.and(&one.ours))
    }

    /// Writes it in place of what is there. What is new is written first, so that whoever is killed between leaves
    /// too much and never too little. What another version wrote stays.
    pub(crate) fn write(&self, host: &str) -> Result<(), HostError> {
        let folder = paths::record(host);
        files::pin_folder(&folder)?;
        let before = texts_in(&folder)?;
        let old = Self::from_texts(&before);
        let here = old.filter(|old| old.netns_id == self.netns_id);
        // Of another namespace nothing is ours here, and two would not say which entries are whose.
        if here.is_none() {
            take_away(&folder, &before)?;
        }
        let wanted = self.texts();
        for text in &wanted {
            files::pin_folder(&folder.join(paths::pin_name(text)))?;
        }
        let Some(old) = here else {
            return Ok(());
        };
        let is_over = |text: &&String| !wanted.contains(text) && !old.unclear.contains(*text);
        take_away(&folder, before.iter().filter(is_over))
    }

    /// The record of a host word by word, whoever wrote it.
    pub(crate) fn words(host: &str) -> Result<BTreeSet<String>, HostError> {
        texts_in(&paths::record(host))
    }

    /// Makes the record what it was.
    pub(crate) fn put_back(host: &str, words: &BTreeSet<String>) -> Result<(), HostError> {
        if words.is_empty() {
            return Self::remove(host);
        }
        let folder = paths::record(host);
        files::pin_folder(&folder)?;
        let now = texts_in(&folder)?;
        for text in words {
            files::pin_folder(&folder.join(paths::pin_name(text)))?;
        }
        take_away(&folder, now.difference(words))
    }

    /// Takes the record of a host away.
    pub(crate) fn remove(host: &str) -> Result<(), HostError> {
        let folder = paths::record(host);
        take_away(&folder, &texts_in(&folder)?)?;
        if files::is_there(&folder) {
            remove_dir(&folder)?;
        }
        Ok(())
    }

    /// First of all where: without that, nobody knows where the rest is.
    fn texts(&self) -> Vec<String> {
        let ours = &self.ours;
        let promiscuous = ours.promiscuous.iter();
        let promiscuous = promiscuous.map(|device| format!("promiscuous {device}"));
        let neighbours = ours.neighbours.iter();
        let neighbours = neighbours.map(|it| format!("managed {} {}", it.device, it.address));
        let groups = ours.groups.iter();
        let groups = groups.map(|group| format!("group {} {}", group.device, group.of));
        let netns = format!("netns {}", self.netns_id.words());
        let rest = promiscuous.chain(neighbours).chain(groups);
        std::iter::once(netns).chain(rest).collect()
    }

    /// None: it does not say where.
    fn from_texts(texts: &BTreeSet<String>) -> Option<Self> {
        let netns = texts.iter().find_map(|text| text.strip_prefix("netns "));
        let mut record = Self {
            netns_id: NetnsId::from_words(netns?)?,
            ours: Ours::default(),
            unclear: BTreeSet::new(),
        };
        for text in texts {
            if record.take(text).is_none() {
                record.unclear.insert(text.clone());
            }
        }
        Some(record)
    }

    fn take(&mut self, text: &str) -> Option<()> {
        let (kind, rest) = text.split_once(' ')?;
        let at = || {
            let (device, address) = rest.split_once(' ')?;
            Some((device.to_owned(), address.parse().ok()?))
        };
        match kind {
            "netns" => drop(NetnsId::from_words(rest).filter(|id| *id == self.netns_id)?),
            "promiscuous" => drop(self.ours.promiscuous.insert(rest.to_owned())),
            "managed" => {
                let (device, address) = at()?;
                self.ours.neighbours.insert(NextHop { device, address });
            }
            "group" => {
                let (device, of) = at()?;
                self.ours.groups.insert(Group { device, of });
            }
            _ => return None,
        }
        Some(())
    }
}

fn texts_in(folder: &Path) -> Result<BTreeSet<String>, HostError> {
    let names = current::names(folder)?.into_iter();
    Ok(names.map(|name| paths::unpin_name(&name)).collect())
}

fn take_away<'n>(
    folder: &Path,
    texts: impl IntoIterator<Item = &'n String>,
) -> Result<(), HostError> {
    for text in texts {
        remove_dir(&folder.join(paths::pin_name(text)))?;
    }
    Ok(())
}

fn remove_dir(folder: &Path) -> Result<(), HostError> {
    fs::remove_dir(folder).map_err(HostError::file("remove", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let of = |text: &str| text.parse().unwrap();
        let hop = |device: &str, address: &str| NextHop {
            device: device.into(),
            address: of(address),
        };
        Record {
            netns_id: NetnsId::from_words("4 5 6").unwrap(),
            ours: Ours {
                neighbours: [hop("eth1.5", "198.18.0.2"), hop("eth1.5", "2001:2::2")].into(),
                promiscuous: ["eth1".into()].into(),
                groups: [Group {
                    device: "leg0".into(),
                    of: of("2001:2::1"),
                }]
                .into(),
            },
            unclear: BTreeSet::new(),
        }
    }

    #[test]
    fn its_names_say_all_of_it() {
        let texts = record().texts();
        assert_eq!(texts[0], "netns 4 5 6");
        let pins = texts.iter().map(|text| paths::pin_name(text));
        let pins: Vec<String> = pins.collect();
        assert!(pins.iter().all(|pin| !pin.contains(['.', '/'])), "{pins:?}");
        let again = pins.iter().map(|pin| paths::unpin_name(pin)).collect();
        assert_eq!(Record::from_texts(&again), Some(record()));
    }

    #[test]
    fn what_another_version_wrote_is_kept_apart() {
        let mut texts: BTreeSet<String> = record().texts().into_iter().collect();
        let unclear = ["altname eth1", "managed eth1", "group x 1.2.3", "x"].map(str::to_owned);
        texts.extend(unclear.clone());
        let found = Record::from_texts(&texts).unwrap();
        assert_eq!(found.ours, record().ours);
        assert_eq!(found.unclear, unclear.into());
        texts.remove("netns 4 5 6");
        assert_eq!(Record::from_texts(&texts), None);
    }

    #[test]
    fn what_is_ours_elsewhere_is_not_ours_here() {
        let record = record();
        let there = NetnsId::from_words("4 5 7").unwrap();
        let ours = |here| Record::ours_in(here, Some(&record), None);
        assert_eq!(ours(record.netns_id), record.ours);
        assert_eq!(ours(there), Ours::default());
    }
}
