//! Where the desired state of a host comes from. Today a fabric file or folder, or whoever applies by hand; a store is one
//! more implementation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use overlane_model::{Fabric, Report as Warnings, Tables};

use super::kept::Origin;
use crate::HostError;
use crate::lib::paths;
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

/// Which file it is, and when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl FabricSource {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            stamps: None,
        }
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
        let fabric = Fabric::of_parts(&self.path.display().to_string(), &parts)?;
        let warnings = fabric.warnings().cloned();
        let tables = Box::new(fabric.compile(host)?);
        // What was written while it was read is read again.
        if self.stamps() == stamps {
            self.stamps = Some(stamps);
        }
        Ok(Reading::State {
            tables,
            origin,
            warnings,
        })
    }
}

impl Stamp {
    pub(super) fn of(file: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(file).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
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
