//! A set of maps that belong together: pinned in one folder, or just created and not yet pinned.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use aya::maps::{Map, MapData, MapError, RingBuf};
use zerocopy::FromBytes;

use crate::sys::{self, RawMap};
use crate::tables::{self, Contents, Entries, Table};
use crate::{EbpfError, Layout};

/// Layout of every map, by name.
pub type Layouts = BTreeMap<String, Layout>;

/// The reading end of a ring.
pub(crate) fn ring(data: Result<MapData, MapError>) -> Result<RingBuf<MapData>, MapError> {
    RingBuf::try_from(Map::from_map_data(data?)?)
}

/// The maps of one data path.
#[derive(Debug)]
pub struct MapSet {
    maps: BTreeMap<String, RawMap>,
    /// Somebody writes ([`change`](Self::change)).
    pub(crate) is_changing: AtomicBool,
}

impl MapSet {
    /// Opens the set pinned in `dir`. None when a map is missing or is not what `layouts` says: such a
    /// set cannot be used.
    pub fn open(dir: &Path, layouts: &Layouts) -> Result<Option<Self>, EbpfError> {
        let mut maps = BTreeMap::new();
        for (name, layout) in layouts {
            let path = dir.join(name);
            let fd = match sys::pinned(&path) {
                Ok(fd) => fd,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(EbpfError::path("BPF_OBJ_GET", &path)(error)),
            };
            let map = raw_map(name, fd)?;
            if map.layout != *layout {
                return Ok(None);
            }
            maps.insert(name.clone(), map);
        }
        Ok(Some(Self::of(maps)))
    }

    /// Opens whatever maps with the names of `layouts` are pinned in `dir`, of any build. None when there is none. Only
    /// to read from: one may be missing, and sizes may differ.
    pub fn open_any(dir: &Path, layouts: &Layouts) -> Result<Option<Self>, EbpfError> {
        let mut maps = BTreeMap::new();
        for name in layouts.keys() {
            let path = dir.join(name);
            match sys::pinned(&path) {
                Ok(fd) => drop(maps.insert(name.clone(), raw_map(name, fd)?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(EbpfError::path("BPF_OBJ_GET", &path)(error)),
            }
        }
        Ok((!maps.is_empty()).then(|| Self::of(maps)))
    }

    pub(crate) fn from_descriptors(fds: BTreeMap<String, OwnedFd>) -> Result<Self, EbpfError> {
        let maps = fds
            .into_iter()
            .map(|(name, fd)| Ok((name.clone(), raw_map(&name, fd)?)))
            .collect::<Result<_, EbpfError>>()?;
        Ok(Self::of(maps))
    }

    const fn of(maps: BTreeMap<String, RawMap>) -> Self {
        Self {
            maps,
            is_changing: AtomicBool::new(false),
        }
    }

    /// Pins every map in `dir`, which must exist. After an error some are pinned.
    pub fn pin(&self, dir: &Path) -> Result<(), EbpfError> {
        for (name, map) in &self.maps {
            let path = dir.join(name);
            sys::pin(map.fd().as_fd(), &path).map_err(EbpfError::path("BPF_OBJ_PIN", &path))?;
        }
        Ok(())
    }

    /// Everything `apply` wrote.
    pub fn contents(&self) -> Result<Contents, EbpfError> {
        Table::ALL
            .into_iter()
            .map(|table| Ok((table, self.entries(table)?)))
            .collect()
    }

    /// Writes one entry.
    pub fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EbpfError> {
        self.change()?;
        self.map(table.name())?
            .put(key, value)
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", table.name()))
    }

    /// Deletes one entry, if it is there.
    pub fn delete(&self, table: Table, key: &[u8]) -> Result<(), EbpfError> {
        self.change()?;
        self.map(table.name())?
            .delete(key)
            .map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", table.name()))
    }

    /// One map for somebody else to hold.
    pub(crate) fn duplicate(&self, name: &str) -> Result<OwnedFd, EbpfError> {
        let fd = self.map(name)?.fd();
        fd.try_clone().map_err(EbpfError::call("dup", name))
    }

    pub(crate) fn map(&self, name: &str) -> Result<&RawMap, EbpfError> {
        self.maps.get(name).ok_or_else(|| EbpfError::Missing {
            kind: "map",
            name: name.to_owned(),
        })
    }

    /// Deletes all entries of a hash map.
    pub(crate) fn clear(&self, name: &str) -> Result<(), EbpfError> {
        let mut keys = Vec::new();
        self.walk(name, |key, _| keys.push(key.to_vec()))?;
        self.delete_all(name, &keys)
    }

    /// Deletes these entries, those that are there.
    pub(crate) fn delete_all(&self, name: &str, keys: &[Vec<u8>]) -> Result<(), EbpfError> {
        let map = self.map(name)?;
        for key in keys {
            map.delete(key)
                .map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", name))?;
        }
        Ok(())
    }

    /// Every entry of a map, in no order. One that comes or goes meanwhile may be missed.
    pub(crate) fn all<K: FromBytes, V: FromBytes>(
        &self,
        name: &str,
    ) -> Result<Vec<(K, V)>, EbpfError> {
        let mut entries = Vec::new();
        self.walk(name, |key, value| {
            if let (Ok(key), Ok(value)) = (K::read_from_bytes(key), V::read_from_bytes(value)) {
                entries.push((key, value));
            }
        })?;
        Ok(entries)
    }

    /// Shows all entries of a hash map that programs may write meanwhile.
    pub(crate) fn walk(&self, name: &str, each: impl FnMut(&[u8], &[u8])) -> Result<(), EbpfError> {
        self.map(name)?
            .walk(each)
            .map_err(EbpfError::call("BPF_MAP_LOOKUP_BATCH", name))
    }

    /// Entries of one map. Of an array those that are not zero: it has thousands that nobody ever wrote.
    pub fn entries(&self, table: Table) -> Result<Entries, EbpfError> {
        let mut entries = Entries::new();
        if table.is_array() {
            let map = self.map(table.name())?;
            let values = map
                .array()
                .map_err(EbpfError::call("BPF_MAP_LOOKUP_BATCH", table.name()))?;
            const BLOCK: usize = 256;
            let blocks = values
                .chunks(map.stride * BLOCK)
                .zip((0u32..).step_by(BLOCK));
            // Most are all zero.
            for (block, first) in blocks.filter(|(block, _)| !tables::is_zero(block)) {
                for (index, value) in (first..).zip(block.chunks(map.stride)) {
                    if !tables::is_zero(value) {
                        entries.insert(index.to_ne_bytes().to_vec(), value.to_vec());
                    }
                }
            }
            return Ok(entries);
        }
        self.walk(table.name(), |key, value| {
            entries.insert(key.to_vec(), value.to_vec());
        })?;
        Ok(entries)
    }
}

/// Waits until no packet is at work that may have read an entry before this call. A kernel with CPUs that tick for
/// nobody (`nohz_full`) does not offer it; there a pause is longer than any packet takes.
pub fn settle() {
    const PAUSE: Duration = Duration::from_millis(100);
    if sys::wait_for_programs().is_err() {
        thread::sleep(PAUSE);
    }
}

/// Unpins every object in `dir` and removes it. Returns what was there, open: dropping it lets go of it
/// for good, [`Unpinned::restore`] puts it back.
pub fn unpin_folder(dir: &Path) -> Result<Unpinned, EbpfError> {
    let mut unpinned = Unpinned {
        dir: dir.to_owned(),
        objects: Vec::new(),
    };
    let result = unpinned.take(dir);
    match result {
        Ok(()) => Ok(unpinned),
        Err(error) => {
            unpinned.restore()?;
            Err(error)
        }
    }
}

/// Objects that were pinned in one folder.
#[derive(Debug)]
pub struct Unpinned {
    dir: PathBuf,
    objects: Vec<(PathBuf, OwnedFd)>,
}

impl Unpinned {
    fn take(&mut self, dir: &Path) -> Result<(), EbpfError> {
        for entry in fs::read_dir(dir).map_err(EbpfError::path("read", dir))? {
            let path = entry.map_err(EbpfError::path("read", dir))?.path();
            let fd = sys::pinned(&path).map_err(EbpfError::path("BPF_OBJ_GET", &path))?;
            fs::remove_file(&path).map_err(EbpfError::path("unpin", &path))?;
            self.objects.push((path, fd));
        }
        fs::remove_dir(dir).map_err(EbpfError::path("rmdir", dir))
    }

    /// Pins everything where it was.
    pub fn restore(self) -> Result<(), EbpfError> {
        // Others could pin something of theirs in it.
        let mut folder = fs::DirBuilder::new();
        let made = folder.recursive(true).mode(0o700).create(&self.dir);
        made.map_err(EbpfError::path("mkdir", &self.dir))?;
        for (path, fd) in self.objects {
            sys::pin(fd.as_fd(), &path).map_err(EbpfError::path("BPF_OBJ_PIN", &path))?;
        }
        Ok(())
    }
}

fn raw_map(name: &str, fd: OwnedFd) -> Result<RawMap, EbpfError> {
    let cpus = aya::util::nr_cpus().map_err(|(path, source)| EbpfError::Call {
        call: "read",
        what: path.to_owned(),
        source,
    })?;
    RawMap::new(fd, cpus).map_err(EbpfError::call("BPF_OBJ_GET_INFO_BY_FD", name))
}
