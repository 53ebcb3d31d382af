//! Files and folders of ours: in `/run/overlane`, and the folders in the BPF file system. Only root reads and writes
//! them, whatever the umask is and whatever an earlier version left. What somebody else owns, and a symbolic link, is
//! refused by name: who owns a file of ours would decide what root does.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::Uid;

use super::distrust::Distrust;
use super::error::HostError;
use super::paths;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Without the kind of file.
const MODE_BITS: u32 = 0o7777;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Two hosts make and take away the folder that they share at once; one of them is done after so many tries.
const TRIES: usize = 16;

/// Who may write in a folder that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Whoever: each file in it is looked at by itself.
    Anybody,
    /// Root alone: what is pinned in it is taken as ours.
    Root,
}

/// Device and inode: which file it is, whatever its name.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether there is anything of this name, be it a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Makes `/run/overlane`, or takes it as it is. What an earlier version left open to others is closed.
pub(crate) fn run_folder() -> Result<(), HostError> {
    let folder = Path::new(paths::RUN);
    let looked = again_while_missing(|| make_or_check(folder, Before::Anybody))?;
    if !looked.was_open {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(HostError::file("read", folder))?;
    for entry in entries.flatten() {
        // Who uses a file that is not ours says so.
        let _ = open(&entry.path(), OpenOptions::new().read(true));
    }
    Ok(())
}

/// Makes a folder in the BPF file system, or takes the one that is there, if nobody but root wrote in it.
pub(crate) fn pin_folder(folder: &Path) -> Result<(), HostError> {
    make_or_check(folder, Before::Root).map(drop)
}

/// The same for a folder in the one that all hosts of the machine share: another host's `apply` may make that, or its
/// `remove` take it away, at the same moment.
pub(crate) fn host_folder(folder: &Path) -> Result<(), HostError> {
    let make = || pin_folder(Path::new(paths::PINS)).and_then(|()| pin_folder(folder));
    again_while_missing(make)
}

/// Whether this folder in the BPF file system is there. Somebody else's is refused.
pub(crate) fn check_pin_folder(folder: &Path) -> Result<bool, HostError> {
    match check(folder, Before::Root) {
        Err(error) if error.is_missing_file() => Ok(false),
        other => other.map(|_| true),
    }
}

/// The folders of a host in the BPF file system: the shared one, its own, those in it. Those that are missing are no
/// error.
pub(crate) fn check_pins(host: &str) -> Result<(), HostError> {
    let own = paths::pins(host);
    if !check_pin_folder(Path::new(paths::PINS))? || !check_pin_folder(&own)? {
        return Ok(());
    }
    let entries = fs::read_dir(&own).map_err(HostError::file("read", &own))?;
    for entry in entries {
        let entry = entry.map_err(HostError::file("read", &own))?;
        check_pin_folder(&entry.path())?;
    }
    Ok(())
}

/// What a file says; none if it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, HostError> {
    let mut file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.is_missing_file() => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::new();
    let done = file.read_to_end(&mut bytes);
    done.map_err(HostError::file("read", path))?;
    Ok(Some(bytes))
}

/// Writes a file so that a reader sees all of the old or all of the new. After an error the old one is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    replace(path, bytes, |_| Ok(()))
}

/// The same, and on the disk when this returns.
pub(crate) fn write_to_disk(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let sync = |path: &Path| {
        let file = File::open(path).and_then(|file| file.sync_all());
        file.map_err(HostError::file("write", path))
    };
    replace(path, bytes, sync).and_then(|()| path.parent().map_or(Ok(()), sync))
}

/// `finish` has the new file before it takes the place of the old one.
fn replace(
    path: &Path,
    bytes: &[u8],
    finish: impl FnOnce(&Path) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let new = unfinished(path);
    let written = write_new(&new, bytes)
        .and_then(|()| finish(&new))
        .and_then(|()| fs::rename(&new, path).map_err(HostError::file("write", path)));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Makes a folder that outlives a reboot, or takes the one that is there.
pub(crate) fn folder_on_disk(folder: &Path) -> Result<(), HostError> {
    make_or_check(folder, Before::Root).map(drop)
}

/// What `write` makes first.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

/// Opens a file to lock it; an empty one is made where there is none.
pub(crate) fn open_lock(path: &Path) -> Result<File, HostError> {
    let mut options = OpenOptions::new();
    open(path, options.read(true).write(true).create(true))
}

/// Removes a file, or what an attempt to write it left. True: it was there.
pub(crate) fn remove(path: &Path) -> Result<bool, HostError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(HostError::file("remove", path)(error)),
    }
}

fn again_while_missing<T>(make: impl Fn() -> Result<T, HostError>) -> Result<T, HostError> {
    let mut made = make();
    for _ in 1..TRIES {
        match &made {
            Err(error) if error.is_missing_file() => made = make(),
            _ => break,
        }
    }
    made
}

/// What was found of a folder.
struct Looked {
    /// Others could look in it, or write.
    was_open: bool,
}

fn make_or_check(folder: &Path, before: Before) -> Result<Looked, HostError> {
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(HostError::file("create", folder)(error))
        }
        // The umask may have taken bits away.
        _ => check(folder, before),
    }
}

fn check(folder: &Path, before: Before) -> Result<Looked, HostError> {
    let mut options = OpenOptions::new();
    let file = open_own(folder, options.read(true), OFlag::O_DIRECTORY, "directory")?;
    let metadata = file
        .metadata()
        .map_err(HostError::file("look at", folder))?;
    check_owner(folder, &metadata)?;
    let mode = metadata.mode() & MODE_BITS;
    if before == Before::Root && mode & WRITABLE_BY_OTHERS != 0 {
        return Err(refused(folder, Distrust::Writable(mode)));
    }
    set_mode(&file, folder, &metadata, FOLDER_MODE)?;
    Ok(Looked {
        was_open: mode != FOLDER_MODE,
    })
}

/// Opens what is of the wanted kind, and no symbolic link.
fn open_own(
    path: &Path,
    options: &mut OpenOptions,
    flags: OFlag,
    wanted: &'static str,
) -> Result<File, HostError> {
    let flags = flags | OFlag::O_NOFOLLOW;
    let opened = options
        .mode(FILE_MODE)
        .custom_flags(flags.bits())
        .open(path);
    opened.map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
        // Of a link the kernel may say that it is no directory (fs/namei.c, `do_open`).
        let is_other = [Errno::ELOOP, Errno::ENOTDIR, Errno::EISDIR, Errno::ENXIO].contains(&errno);
        match fs::symlink_metadata(path) {
            Ok(found) if is_other && found.is_symlink() => refused(path, Distrust::Link),
            Ok(_) if is_other => refused(path, Distrust::Kind(wanted)),
            _ => HostError::file("open", path)(error),
        }
    })
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File, HostError> {
    // Whoever opens a pipe would wait for its other end.
    let file = open_own(path, options, OFlag::O_NONBLOCK, "regular file")?;
    let metadata = file.metadata().map_err(HostError::file("look at", path))?;
    if !metadata.is_file() {
        return Err(refused(path, Distrust::Kind("regular file")));
    }
    check_owner(path, &metadata)?;
    set_mode(&file, path, &metadata, FILE_MODE)?;
    Ok(file)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    remove(path)?;
    let mut options = OpenOptions::new();
    let mut file = open(path, options.write(true).create_new(true))?;
    file.write_all(bytes)
        .map_err(HostError::file("write", path))
}

/// Root's, or of the user that runs this program: whoever is not root has no other files of ours.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), HostError> {
    let owner = metadata.uid();
    if owner == 0 || owner == Uid::effective().as_raw() {
        Ok(())
    } else {
        Err(refused(path, Distrust::Owner(owner)))
    }
}

/// Whoever does not own it can only look.
fn set_mode(file: &File, path: &Path, metadata: &Metadata, mode: u32) -> Result<(), HostError> {
    let is_right = metadata.mode() & MODE_BITS == mode;
    if is_right || metadata.uid() != Uid::effective().as_raw() {
        return Ok(());
    }
    let done = file.set_permissions(Permissions::from_mode(mode));
    done.map_err(HostError::file("close to others", path))
}

fn refused(path: &Path, why: Distrust) -> HostError {
    HostError::NotOurs {
        path: path.to_owned(),
        why,
    }
}

/// Sorted names in a folder; none when it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, HostError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HostError::file("read", folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names
        .collect::<Result<Vec<_>, _>>()
        .map_err(HostError::file("read", folder))?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::{Mode, umask};
    use nix::unistd::mkfifo;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & MODE_BITS
    }

    fn why(error: HostError) -> Distrust {
        match error {
            HostError::NotOurs { why, .. } => why,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn others_can_neither_read_nor_write_whatever_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"old");
        assert_eq!(mode_of(&path), FILE_MODE);
        write(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"new");
        assert_eq!(mode_of(&path), FILE_MODE);
        let lock = folder.path().join("h1.lock");
        fs::write(&lock, "").unwrap();
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        open_lock(&lock).unwrap();
        assert_eq!(mode_of(&lock), FILE_MODE);
        let inner = folder.path().join("pins");
        pin_folder(&inner).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        assert!(check_pin_folder(&inner).unwrap());
        assert_eq!(mode_of(&inner), FOLDER_MODE);
    }

    /// Both umasks in one test: all threads of a process share it.
    #[test]
    fn the_umask_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for mask in [0o000, 0o777] {
            let before = umask(Mode::from_bits_truncate(mask));
            let (file, inner) = (folder.path().join("file"), folder.path().join("inner"));
            let made = write(&file, b"x").and_then(|()| pin_folder(&inner));
            umask(before);
            made.unwrap();
            assert_eq!([mode_of(&file), mode_of(&inner)], [FILE_MODE, FOLDER_MODE]);
            fs::remove_dir(inner).unwrap();
        }
    }

    #[test]
    fn what_is_no_plain_file_of_ours_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "root's").unwrap();
        symlink(at("target"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["link", "dangling"] {
            assert_eq!(why(read(&at(name)).unwrap_err()), Distrust::Link);
            assert_eq!(why(open_lock(&at(name)).unwrap_err()), Distrust::Link);
            assert_eq!(why(pin_folder(&at(name)).unwrap_err()), Distrust::Link);
        }
        assert!(!is_there(&at("nowhere")) && is_there(&at("dangling")));
        for name in ["pipe", "folder"] {
            let no_file = Distrust::Kind("regular file");
            assert_eq!(why(open_lock(&at(name)).unwrap_err()), no_file, "{name}");
        }
        let no_folder = Distrust::Kind("directory");
        assert_eq!(why(pin_folder(&at("target")).unwrap_err()), no_folder);
        assert_eq!(fs::read(at("target")).unwrap(), b"root's");
    }

    #[test]
    fn a_folder_of_pins_that_others_can_write_in_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pins = folder.path().join("pins");
        fs::create_dir(&pins).unwrap();
        for mode in [0o1777, 0o777, 0o720] {
            fs::set_permissions(&pins, Permissions::from_mode(mode)).unwrap();
            let error = pin_folder(&pins).unwrap_err();
            assert_eq!(why(error), Distrust::Writable(mode));
            assert_eq!(mode_of(&pins), mode);
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.json");
        // A directory with something in it cannot be replaced.
        fs::create_dir_all(path.join("inner")).unwrap();
        write(&path, b"new").unwrap_err();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn somebody_elses_is_refused() {
        if !Uid::effective().is_root() {
            // Past the capture of the test harness: a skipped test must be seen.
            let _ = writeln!(io::stderr(), "SKIPPED files: needs root to give files away");
            return;
        }
        const NOBODY: u32 = 65534;
        let folder = tempfile::tempdir().unwrap();
        let (file, pins) = (folder.path().join("h1.lock"), folder.path().join("pins"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&pins).unwrap();
        for path in [&file, &pins] {
            std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
        }
        assert_eq!(why(read(&file).unwrap_err()), Distrust::Owner(NOBODY));
        assert_eq!(why(open_lock(&file).unwrap_err()), Distrust::Owner(NOBODY));
        assert_eq!(why(pin_folder(&pins).unwrap_err()), Distrust::Owner(NOBODY));
    }
}
