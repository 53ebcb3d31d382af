//! Where the desired state of a host comes from. Today a fabric file or folder, or whoever applies by hand; a store is one
//! more implementation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use overlane_model::{Fabric, Part, Report as Warnings, Tables};

use super::kept::Origin;
use crate::HostError;
use crate::lib::paths;
use crate::lib::stamp::Stamp;
use crate::state::State;

/// So many symbolic links may follow each other (path_resolution(7)).
const LINKS: usize = 40;

/// A source of desired states.
pub(super) trait Source: std::fmt::Debug {
    /// What people call it; none: nobody but who applies by hand.
    fn name(&self) -> Option<String>;

    /// The files that tell of a change.
    fn files(&self) -> BTreeSet<PathBuf>;

    /// What it says of a host now. An error is never an empty state.
    fn read(&mut self, host: &str) -> Result<Reading, HostError>;
}

/// What a source said.
#[derive(Debug)]
pub(super) enum Reading {
    /// The same as the last time.
    Same,
    /// The host should carry this.
    State {
        /// Its tables.
        tables: Box<Tables>,
        /// The parts that it was made of.
        origin: Origin,
        /// What may be not meant.
        warnings: Option<Warnings>,
    },
    /// It is there, and says nothing of any host.
    Nothing,
}

/// A fabric file, or a folder with the parts of one.
#[derive(Debug)]
pub(super) struct FabricSource {
    path: PathBuf,
    /// What was read last, and may not have changed since.
    stamps: Option<Stamps>,
}

/// Which files they were, and when they were written.
type Stamps = Vec<(PathBuf, Option<Stamp>)>;

impl FabricSource {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            // A relative one has no folder that can be watched.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            stamps: None,
        }
    }

    /// What the parts say of a host.
    fn state(
        &self,
        parts: &[Part],
        host: &str,
    ) -> Result<(Box<Tables>, Option<Warnings>), HostError> {
        let fabric = Fabric::of_parts(&self.path.display().to_string(), parts)?;
        let tables = Box::new(fabric.compile(host)?);
        Ok((tables, fabric.warnings().cloned()))
    }

    fn stamps(&self) -> Stamps {
        let files = Fabric::files(&self.path).unwrap_or_default();
        files
            .into_iter()
            .map(|file| {
                let stamp = Stamp::of(&file);
                (file, stamp)
            })
            .collect()
    }
}

impl Source for FabricSource {
    fn name(&self) -> Option<String> {
        Some(self.path.display().to_string())
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let parts = Fabric::files(&self.path).unwrap_or_default();
        let ways = parts.iter().flat_map(|part| way(part));
        way(&self.path).into_iter().chain(ways).collect()
    }

    fn read(&mut self, host: &str) -> Result<Reading, HostError> {
        let stamps = self.stamps();
        if !stamps.is_empty() && self.stamps.as_ref() == Some(&stamps) {
            return Ok(Reading::Same);
        }
        self.stamps = None;
        let parts = Fabric::read(&self.path)?;
        if parts.is_empty() {
            return Ok(Reading::Nothing);
        }
        let digests = parts.iter().map(|part| {
            (
                part.name.clone(),
                overlane_ebpf::digest(part.text.as_bytes()),
            )
        });
        let origin = digests.collect();
        let state = self.state(&parts, host);
        // What was written while it was read is read again. A mistake stays one until somebody writes.
        if self.stamps() == stamps {
            self.stamps = Some(stamps);
        }
        let (tables, warnings) = state?;
        Ok(Reading::State {
            tables,
            origin,
            warnings,
        })
    }
}

/// The file, and each symbolic link on the way to it: whoever swaps one of them has changed the file.
fn way(path: &Path) -> BTreeSet<PathBuf> {
    let mut way = BTreeSet::new();
    let mut rest: Vec<PathBuf> = vec![path.to_owned()];
    let mut followed = 0;
    let mut at = PathBuf::new();
    while let Some(next) = rest.pop() {
        for (count, part) in next.components().enumerate() {
            match part {
                Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
                Component::CurDir => {}
                Component::ParentDir => {
                    at.pop();
                }
                Component::Normal(name) => {
                    let here = at.join(name);
                    match fs::read_link(&here) {
                        Ok(target) if followed < LINKS => {
                            followed += 1;
                            way.insert(here);
                            let left: PathBuf = next.components().skip(count + 1).collect();
                            rest.push(target.join(left));
                            break;
                        }
                        _ => at = here,
                    }
                }
            }
        }
    }
    way.insert(at);
    way
}

/// What somebody applied last.
#[derive(Debug)]
pub(super) struct ByHand {
    host: String,
}

impl ByHand {
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
        }
    }
}

impl Source for ByHand {
    fn name(&self) -> Option<String> {
        None
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        BTreeSet::from([paths::state(&self.host)])
    }

    fn read(&mut self, host: &str) -> Result<Reading, HostError> {
        match State::read(host)? {
            // Of one that does not know its tables, or is at work, nobody knows what is meant.
            Some(state) if state.knows_tables && !state.in_progress => Ok(Reading::State {
                tables: Box::new(state.tables),
                origin: Origin::new(),
                warnings: None,
            }),
            _ => Ok(Reading::Same),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_read_once_also_with_a_mistake_and_by_a_relative_path() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = Path::new(folder.path().file_name().unwrap()).join("fabric.yaml");
        let mut source = FabricSource::new(&file);
        assert!(source.read("h1").is_err());
        assert!(
            source.read("h1").is_err(),
            "a file that is not there is asked for again"
        );
        fs::write(&file, "version: 1\nhosts: 5\n").unwrap();
        assert!(source.read("h1").is_err());
        assert!(matches!(source.read("h1"), Ok(Reading::Same)));
        let sound = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }\n";
        fs::write(&file, sound).unwrap();
        assert!(matches!(source.read("h1"), Ok(Reading::State { .. })));
        assert!(matches!(source.read("h1"), Ok(Reading::Same)));
        assert!(source.files().iter().all(|file| file.is_absolute()));
    }

    #[test]
    fn each_link_on_the_way_is_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("v1")).unwrap();
        fs::write(at("v1/fabric.yaml"), "").unwrap();
        // As a container platform projects its configuration.
        symlink("v1", at("..data")).unwrap();
        symlink("..data/fabric.yaml", at("fabric.yaml")).unwrap();
        let expected = ["fabric.yaml", "..data", "v1/fabric.yaml"].map(at);
        assert_eq!(way(&at("fabric.yaml")), BTreeSet::from(expected));
        symlink("loop", at("loop")).unwrap();
        assert!(way(&at("loop")).contains(&at("loop")));
        assert_eq!(way(&at("none/x")), BTreeSet::from([at("none/x")]));
    }
}
