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

use super::applied::State;
use super::netns_id::NetnsId;
use crate::HostError;
use crate::lib::{files, paths};

/// The record of a host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) netns_id: NetnsId,
    /// Things in the words of their kind, also those that only another version knows.
    pub(crate) ours: BTreeSet<String>,
}

impl Record {
    /// What a state says.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            netns_id: state.netns_id,
            ours: state.ours.clone(),
        }
    }

    /// The record of a host, if it has one.
    pub(crate) fn read(host: &str) -> Result<Option<Self>, HostError> {
        Ok(Self::from_texts(&texts_in(&paths::record(host))?))
    }

    /// What is ours by what the record and the state say, if both speak of this namespace.
    pub(crate) fn ours_in(
        here: NetnsId,
        record: Option<&Self>,
        state: Option<&State>,
    ) -> BTreeSet<String> {
        let state = state.map(Self::of);
        let both = record.into_iter().chain(&state);
        let here = both.filter(|one| one.netns_id == here);
        here.flat_map(|one| one.ours.iter().cloned()).collect()
    }

    /// Writes it in place of what is there. What is new is written first, so that whoever is killed between leaves
    /// too much and never too little.
    pub(crate) fn write(&self, host: &str) -> Result<(), HostError> {
        let folder = paths::record(host);
        files::pin_folder(&folder)?;
        let before = texts_in(&folder)?;
        // Of another namespace nothing is ours here, and two would not say which entries are whose.
        let is_here = Self::from_texts(&before).is_some_and(|old| old.netns_id == self.netns_id);
        if !is_here {
            take_away(&folder, &before)?;
        }
        let wanted = self.texts();
        for text in &wanted {
            files::pin_folder(&folder.join(paths::pin_name(text)))?;
        }
        let is_over = |text: &&String| is_here && !wanted.contains(text);
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
        let netns = format!("netns {}", self.netns_id.words());
        std::iter::once(netns).chain(self.ours.clone()).collect()
    }

    /// None: it does not say where.
    fn from_texts(texts: &BTreeSet<String>) -> Option<Self> {
        let mut namespaces = texts.iter().filter_map(|text| text.strip_prefix("netns "));
        let netns_id = NetnsId::from_words(namespaces.next()?)?;
        let is_netns = |text: &&String| {
            let words = text.strip_prefix("netns ");
            words.and_then(NetnsId::from_words) == Some(netns_id)
        };
        Some(Self {
            netns_id,
            ours: texts
                .iter()
                .filter(|text| !is_netns(text))
                .cloned()
                .collect(),
        })
    }
}

fn texts_in(folder: &Path) -> Result<BTreeSet<String>, HostError> {
    let names = files::names(folder)?.into_iter();
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
        let things = [
            "managed eth1.5 198.18.0.2",
            "promiscuous eth1",
            "group leg0 2001:2::1",
        ];
        Record {
            netns_id: NetnsId::from_words("4 5 6").unwrap(),
            ours: things.map(str::to_owned).into(),
        }
    }

    #[test]
    fn its_names_say_all_of_it() {
        let texts = record().texts();
        assert_eq!(texts[0], "netns 4 5 6");
        let pins = texts.iter().map(|text| paths::pin_name(text));
        let pins: Vec<String> = pins.collect();
        assert!(pins.iter().all(|pin| !pin.contains(['.', '/'])), "{pins:?}");
        let again: BTreeSet<_> = pins.iter().map(|pin| paths::unpin_name(pin)).collect();
        assert_eq!(Record::from_texts(&again), Some(record()));
        let nowhere = again.into_iter().filter(|text| text != "netns 4 5 6");
        assert_eq!(Record::from_texts(&nowhere.collect()), None);
    }

    #[test]
    fn what_is_ours_elsewhere_is_not_ours_here() {
        let record = record();
        let there = NetnsId::from_words("4 5 7").unwrap();
        let ours = |here| Record::ours_in(here, Some(&record), None);
        assert_eq!(ours(record.netns_id), record.ours);
        assert_eq!(ours(there), BTreeSet::new());
    }
}
