//! Files that are written, replaced or removed (inotify(7)). The folder of each is watched, so that a file is heard of
//! that is not there yet. A folder changes when anything in it does.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::HostError;

/// How often a file counts as changed that cannot be watched.
const LOOK: Duration = Duration::from_secs(1);

/// Files to hear of.
#[derive(Debug)]
pub(super) struct Files {
    /// None: the kernel has no more of them for this user (`fs.inotify.max_user_instances`).
    inotify: Option<Inotify>,
    folders: BTreeMap<PathBuf, WatchDescriptor>,
    /// What was asked for last, as long as nothing has happened to it.
    asked: Option<BTreeSet<PathBuf>>,
    watched: BTreeSet<PathBuf>,
    /// Their folders are not there, or the kernel watches no more.
    unwatched: BTreeSet<PathBuf>,
    look_at: Instant,
    changed: BTreeSet<PathBuf>,
}

impl Files {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok(),
            folders: BTreeMap::new(),
            asked: None,
            watched: BTreeSet::new(),
            unwatched: BTreeSet::new(),
            look_at: now + LOOK,
            changed: BTreeSet::new(),
        }
    }

    /// Has something to read when a file has changed.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(Inotify::as_fd)
    }

    /// Watches these files. Returns when to ask for changes, if not before.
    pub(super) fn watch(&mut self, files: &BTreeSet<PathBuf>, now: Instant) -> Option<Instant> {
        // A storm of other events asks again and again.
        let is_same = self.asked.as_ref() == Some(files);
        if is_same && self.changed.is_empty() && self.unwatched.is_empty() {
            return None;
        }
        self.asked = Some(files.clone());
        let all = files.iter().cloned();
        let (watched, unwatched) = all.partition(|file| self.is_watched(file));
        let before = std::mem::replace(&mut self.watched, watched);
        self.unwatched = unwatched;
        // Nobody knows what became of it before.
        self.changed
            .extend(self.watched.difference(&before).cloned());
        match (self.changed.is_empty(), self.unwatched.is_empty()) {
            (false, _) => Some(now),
            (true, false) => Some(self.look_at),
            (true, true) => None,
        }
    }

    fn is_watched(&mut self, file: &Path) -> bool {
        let is_inside_watched = !file.is_dir() || self.is_folder_watched(file);
        match file.parent() {
            Some(folder) => self.is_folder_watched(folder) && is_inside_watched,
            None => is_inside_watched,
        }
    }

    fn is_folder_watched(&mut self, folder: &Path) -> bool {
        if self.folders.contains_key(folder) {
            return true;
        }
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ONLYDIR;
        let watch = |inotify: &Inotify| inotify.add_watch(folder, flags).ok();
        let number = self.inotify.as_ref().and_then(watch);
        self.folders
            .extend(number.map(|number| (folder.to_owned(), number)));
        number.is_some()
    }

    /// What has changed since the last time.
    pub(super) fn changed(&mut self, now: Instant) -> Result<BTreeSet<PathBuf>, HostError> {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.changed.extend(self.unwatched.iter().cloned());
        }
        while let Some(inotify) = &self.inotify {
            let events = match inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(HostError::system("watch files")(errno)),
            };
            for event in events {
                self.asked = None;
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.changed.extend(self.watched.iter().cloned());
                }
                let mut folders = self.folders.iter();
                let folder = folders.find(|(_, number)| **number == event.wd);
                let Some(folder) = folder.map(|(folder, _)| folder.clone()) else {
                    continue;
                };
                // One of the same name will be another one.
                let is_gone = event.mask.contains(AddWatchFlags::IN_IGNORED);
                if is_gone {
                    self.folders.remove(&folder);
                }
                let file = event.name.map(|name| folder.join(name));
                let is_it = |it: &&PathBuf| match &file {
                    Some(file) => *it == file || **it == folder,
                    None => is_gone && (it.parent() == Some(&folder) || **it == folder),
                };
                self.changed
                    .extend(self.watched.iter().filter(is_it).cloned());
            }
        }
        Ok(std::mem::take(&mut self.changed))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn set(file: &Path) -> BTreeSet<PathBuf> {
        BTreeSet::from([file.to_owned()])
    }

    #[test]
    fn files_are_heard_of_as_they_come_change_and_go() {
        let now = Instant::now();
        let folder = tempfile::tempdir().unwrap();
        let [one, other, new] = ["one", "other", "new"].map(|name| folder.path().join(name));
        let (one_alone, nothing) = (set(&one), BTreeSet::new());
        let mut files = Files::new(now);
        // From the beginning.
        assert_eq!(files.watch(&one_alone, now), Some(now));
        assert_eq!(files.changed(now).unwrap(), one_alone);
        assert_eq!(files.watch(&one_alone, now), None);
        let mut changed = || files.changed(now).unwrap();
        fs::write(&one, "1").unwrap();
        assert_eq!(changed(), one_alone);
        fs::write(&other, "1").unwrap();
        assert_eq!(changed(), nothing);
        fs::write(&new, "2").unwrap();
        fs::rename(&new, &one).unwrap();
        assert_eq!(changed(), one_alone);
        fs::remove_file(&one).unwrap();
        assert_eq!(changed(), one_alone);
        assert_eq!(changed(), nothing);
    }

    #[test]
    fn a_folder_that_is_not_there_is_looked_for() {
        let mut now = Instant::now();
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        let file = folder.join("file");
        let (watched, nothing) = (set(&file), BTreeSet::new());
        let mut files = Files::new(now);
        for _ in 0..2 {
            let look = files.watch(&watched, now).unwrap();
            assert!(look > now && look <= now + LOOK);
            assert_eq!(files.changed(now).unwrap(), nothing);
            now = look;
            assert_eq!(files.changed(now).unwrap(), watched);
            // It may have been written before it could be watched.
            fs::create_dir(&folder).unwrap();
            assert_eq!(files.watch(&watched, now), Some(now));
            assert_eq!(files.changed(now).unwrap(), watched);
            assert_eq!(files.watch(&watched, now), None);
            fs::write(&file, "1").unwrap();
            assert_eq!(files.changed(now).unwrap(), watched);
            fs::remove_dir_all(&folder).unwrap();
            assert_eq!(files.changed(now).unwrap(), watched);
        }
    }

    #[test]
    fn a_folder_changes_with_what_is_in_it() {
        let now = Instant::now();
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("fabric.d");
        fs::create_dir(&folder).unwrap();
        let (watched, nothing) = (set(&folder), BTreeSet::new());
        let mut files = Files::new(now);
        files.watch(&watched, now);
        assert_eq!(files.changed(now).unwrap(), watched);
        assert_eq!(files.changed(now).unwrap(), nothing);
        fs::write(folder.join("one.yaml"), "1").unwrap();
        assert_eq!(files.changed(now).unwrap(), watched);
        fs::remove_file(folder.join("one.yaml")).unwrap();
        assert_eq!(files.changed(now).unwrap(), watched);
        // Another one takes its place: a volume that is mounted anew.
        fs::remove_dir(&folder).unwrap();
        assert_eq!(files.changed(now).unwrap(), watched);
        fs::create_dir(&folder).unwrap();
        assert_eq!(files.changed(now).unwrap(), watched);
        files.watch(&watched, now);
        fs::write(folder.join("two.yaml"), "2").unwrap();
        assert_eq!(files.changed(now).unwrap(), watched);
    }
}
