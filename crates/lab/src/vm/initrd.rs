//! The initial RAM disk of the virtual machines: our program as `/init`, and the modules that it loads.

use super::Missing;
use super::kernel::Kernel;
use crate::error::LabError;
use crate::session::Session;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// `crates/guest`, compiled by this crate's `build.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/overlane-guest"));
/// A module is a few hundred KiB.
const DECOMPRESS: Duration = Duration::from_secs(30);

const FOLDER: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// Writes the RAM disk of a kernel.
pub(super) fn write(session: &Session, kernel: &Kernel, path: &Path) -> Result<(), LabError> {
    let mut archive = Archive::default();
    for folder in ["dev", "modules", "proc", "sys"] {
        archive.add(folder, FOLDER, (0, 0), &[]);
    }
    // The standard streams of the first process, before it has mounted /dev.
    archive.add("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
    archive.add("init", EXECUTABLE, (0, 0), PROGRAM);
    for (number, module) in kernel.modules_to_load()?.iter().enumerate() {
        let name = format!("modules/{number:02}");
        archive.add(&name, FILE, (0, 0), &read_module(session, module)?);
    }
    fs::write(path, archive.finish()).map_err(LabError::io("writing", path))
}

/// The program that decompresses a module, by its name's end.
pub(super) fn decompressor(module: &Path) -> Option<&'static str> {
    match module.extension()?.to_str()? {
        "xz" => Some("xz"),
        "zst" => Some("zstd"),
        "gz" => Some("gzip"),
        _ => None,
    }
}

fn read_module(session: &Session, module: &Path) -> Result<Vec<u8>, LabError> {
    let Some(program) = decompressor(module) else {
        return fs::read(module).map_err(LabError::io("reading", module));
    };
    if !super::is_installed(program) {
        return Err(Missing::no_decompressor(program).into());
    }
    let mut command = Command::new(program);
    command.arg("-dc").arg(module);
    Ok(session.run(command, DECOMPRESS)?.stdout)
}

/// An archive as the kernel unpacks it: cpio, format "newc" (the kernel's `buffer-format.rst`).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        // A name ends with a zero byte, which counts.
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let inode = self.entries;
        let fields = [
            inode,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            device.0,
            device.1,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_form_of_newc() {
        let mut archive = Archive::default();
        archive.add("init", EXECUTABLE, (0, 0), b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let header = std::str::from_utf8(&bytes[..110]).unwrap();
        assert_eq!(&header[..22], "07070100000001000081ED");
        assert_eq!(&header[54..62], "00000005", "size of the file");
        assert_eq!(&header[94..102], "00000005", "size of its name");
        assert_eq!(&bytes[110..115], b"init\0");
        // 115 is filled up to 116, 121 to 124.
        assert_eq!(&bytes[116..124], b"12345\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }

    #[test]
    fn our_program_is_a_static_one() {
        assert_eq!(PROGRAM[..4], *b"\x7fELF");
        // Without an interpreter in its program headers nothing else is needed to run it.
        let interpreter = b"/lib64/ld-linux";
        assert!(
            !PROGRAM
                .windows(interpreter.len())
                .any(|window| window == interpreter)
        );
    }

    #[test]
    fn compressed_modules_are_told_by_their_names() {
        for (name, program) in [
            ("a.ko.xz", Some("xz")),
            ("a.ko.zst", Some("zstd")),
            ("a.ko", None),
        ] {
            assert_eq!(decompressor(Path::new(name)), program);
        }
    }
}
