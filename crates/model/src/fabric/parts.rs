//! A fabric in parts: one file, or the files of a folder, which together say what one file would.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Fabric, MAX_FILE_BYTES};
use crate::diagnostic::{FabricErrors, Sink, Span};
use crate::render::{Report, lines};
use crate::yaml::{Entry, Node, Value};
use crate::{check, decode, yaml};

/// One file of a fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What messages call it.
    pub name: String,
    /// What it says.
    pub text: String,
}

impl Fabric {
    /// Reads and validates a file, or a folder of files that say together what one would: each section of the fabric is
    /// in as many of them as one likes.
    pub fn load(path: &Path) -> Result<Self, FabricErrors> {
        let parts = Self::read(path)?;
        if parts.is_empty() {
            let source = io::Error::new(io::ErrorKind::NotFound, "the folder has no file *.yaml");
            return Err(unreadable(path)(source));
        }
        Self::of_parts(&path.display().to_string(), &parts)
    }

    /// Validates the text of a file that messages call `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, FabricErrors> {
        let part = Part {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        Self::of_parts(name, &[part])
    }

    /// The files of a fabric: this one, or those of this folder whose names end in `.yaml` or `.yml`, in the order of
    /// their names. Hidden ones do not count.
    pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
        if !fs::metadata(path)?.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(path)? {
            let file = entry?.path();
            let ending = file.extension().and_then(|ending| ending.to_str());
            let is_hidden = file
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if matches!(ending, Some("yaml" | "yml")) && !is_hidden {
                files.push(file);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Reads the files of a fabric, without a look at what they say. None: the folder has none.
    pub fn read(path: &Path) -> Result<Vec<Part>, FabricErrors> {
        let mut left = MAX_FILE_BYTES;
        let mut parts = Vec::new();
        for file in Self::files(path).map_err(unreadable(path))? {
            let bytes = read(&file, left)?;
            left = left.saturating_sub(bytes.len() as u64);
            let name = file.display().to_string();
            match String::from_utf8(bytes) {
                Ok(text) => parts.push(Part { name, text }),
                Err(error) => {
                    let valid = error.utf8_error().valid_up_to();
                    return Err(not_utf8(&name, error.as_bytes(), valid));
                }
            }
        }
        Ok(parts)
    }

    /// Validates the parts of a fabric that messages call `name`.
    pub fn of_parts(name: &str, parts: &[Part]) -> Result<Self, FabricErrors> {
        let mut sink = Sink::default();
        let mut roots = Vec::new();
        for (number, part) in (0u16..).zip(parts) {
            roots.push(yaml::read(&part.text, number, &mut sink));
        }
        // Of one that cannot be read nobody knows what is missing therefore.
        let roots: Option<Vec<Node>> = roots.into_iter().collect();
        let fabric = roots.and_then(together).and_then(|root| {
            let draft = decode::decode(&root, &mut sink);
            check::fabric(&draft, &mut sink)
        });
        match fabric {
            Some(mut fabric) if !sink.has_errors() => {
                let warned = !sink.warnings.list.is_empty();
                fabric.warnings = warned.then(|| Box::new(Report::new(name, parts, sink)));
                Ok(fabric)
            }
            _ => {
                if !sink.has_errors() {
                    let message = "this file is refused, but without a reason".into();
                    sink.error(
                        Span::START,
                        message,
                        "this is a fault of Overlane: please report it",
                    );
                }
                Err(FabricErrors::Invalid(Box::new(Report::new(
                    name, parts, sink,
                ))))
            }
        }
    }
}

/// One tree of all parts. A section has the entries of all of them. `version` may be in each; whatever else is twice is
/// a duplicate, as it would be in one file.
fn together(mut roots: Vec<Node>) -> Option<Node> {
    if roots.len() <= 1
        || !roots
            .iter()
            .all(|root| matches!(root.value, Value::Mapping(_)))
    {
        // A part that is no mapping is refused by itself.
        let wrong = roots
            .iter()
            .position(|root| !matches!(root.value, Value::Mapping(_)));
        let wrong = wrong.unwrap_or_default();
        return (wrong < roots.len()).then(|| roots.swap_remove(wrong));
    }
    let at = roots.first()?.at;
    let mut all: Vec<Entry> = Vec::new();
    for root in roots {
        let Value::Mapping(entries) = root.value else {
            continue;
        };
        for mut entry in entries {
            let before = all
                .iter_mut()
                .find(|it| it.key == entry.key && it.key_at.part != entry.key_at.part);
            match (before, entry.value.value) {
                (None, value) => {
                    entry.value.value = value;
                    all.push(entry);
                }
                (
                    Some(Entry {
                        value:
                            Node {
                                value: Value::Mapping(list),
                                ..
                            },
                        ..
                    }),
                    Value::Mapping(more),
                ) if entry.key != "tunnel" => {
                    list.extend(more);
                }
                (Some(before), Value::Plain(text))
                    if entry.key == "version"
                        && matches!(&before.value.value, Value::Plain(first) if *first == text) => {
                }
                (Some(before), value) => {
                    entry.duplicate_of = Some(before.key_at);
                    entry.value.value = value;
                    all.push(entry);
                }
            }
        }
    }
    for entry in &mut all {
        if let Value::Mapping(list) = &mut entry.value.value {
            mark_duplicates(list);
        }
    }
    let value = Value::Mapping(all);
    Some(Node { at, value })
}

fn mark_duplicates(list: &mut [Entry]) {
    let mut first: HashMap<String, Span> = HashMap::new();
    for entry in list {
        match first.get(&entry.key) {
            Some(at) => entry.duplicate_of = Some(*at),
            None => drop(first.insert(entry.key.clone(), entry.key_at)),
        }
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> FabricErrors {
    let path = path.to_owned();
    move |source| FabricErrors::Read { path, source }
}

/// Reads at most the limit: the path may be a device without end.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FabricErrors> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable(path))?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable(path))?;
    if bytes.len() as u64 > limit {
        return Err(FabricErrors::TooLarge {
            path: path.to_owned(),
            limit: MAX_FILE_BYTES,
        });
    }
    Ok(bytes)
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> FabricErrors {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    // With the place itself, so that its line has something.
    let until = format!("{before}\u{fffd}");
    let (number, line) = lines(&until).enumerate().last().unwrap_or_default();
    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let at = Span {
        part: 0,
        line: narrow(number + 1),
        column: narrow(line.chars().count()),
        length: 1,
    };
    let mut sink = Sink::default();
    let byte = bytes.get(valid).copied().unwrap_or_default();
    let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}");
    sink.error(at, message, "save it as UTF-8");
    let text = String::from_utf8_lossy(bytes);
    let part = Part {
        name: name.to_owned(),
        text: text.into_owned(),
    };
    FabricErrors::Invalid(Box::new(Report::new(name, &[part], sink)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files() {
        let error = Fabric::load(Path::new("/nonexistent/f.yaml")).unwrap_err();
        assert!(
            error
                .render(false)
                .starts_with("error: cannot read /nonexistent/f.yaml: ")
        );
        assert!(error.diagnostics().is_empty());
        let error = Fabric::load(Path::new("/dev/zero")).unwrap_err();
        assert!(matches!(error, FabricErrors::TooLarge { .. }), "{error}");
        assert!(Fabric::load(Path::new("/")).is_err());
    }

    #[test]
    fn place_of_a_byte_that_is_no_text() {
        for (bytes, line, column) in [
            (&b"\xff"[..], 1, 1),
            (b"a\xff", 1, 2),
            (b"a\n\xff", 2, 1),
            (b"a\n\xc3\xa4b\xff\n", 2, 3),
            (b"a\n\n\nx\xff", 4, 2),
            (b"a\rb\r\n\xc2\x85x\xff", 3, 3),
            (b"a\r\xff", 2, 1),
        ] {
            let valid = std::str::from_utf8(bytes).unwrap_err().valid_up_to();
            let error = not_utf8("f", bytes, valid);
            let found = &error.diagnostics()[0];
            assert_eq!((found.line, found.column), (line, column), "{bytes:?}");
        }
    }

    const HOSTS: &str = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }\n";
    const BLUE: &str = "version: 1\nswitches: { blue: { vni: 5001 } }\nports:\n  web1: { switch: blue, host: h1, device: web1, mac: \"02:00:00:00:00:01\" }\n";
    const RED: &str =
        "ports:\n  db1: { switch: blue, host: h1, device: db1, mac: \"02:00:00:00:00:02\" }\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn the_files_of_a_folder_say_together_what_one_would() {
        let all = folder(&[
            ("10-hosts.yaml", HOSTS),
            ("20-blue.yml", BLUE),
            ("30-red.yaml", RED),
            ("README", "no fabric"),
            (".30-red.yaml.swp", "half an edit"),
        ]);
        let fabric = Fabric::load(all.path()).unwrap();
        let one = format!("{HOSTS}{}{}", &BLUE[11..], &RED[7..]);
        let one = Fabric::parse("one", &one).unwrap();
        let names = |fabric: &Fabric| fabric.ports().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&fabric), names(&one));
        assert_eq!(
            fabric.compile("h1").unwrap().ports,
            one.compile("h1").unwrap().ports
        );
    }

    #[test]
    fn a_mistake_names_the_file_and_its_line() {
        let all = folder(&[
            ("1.yaml", HOSTS),
            ("2.yaml", BLUE),
            (
                "3.yaml",
                &BLUE
                    .replace("vni: 5001", "vni: 5002")
                    .replace("blue:", "red:"),
            ),
            ("4.yaml", "ports: { x: { swich: blue } }\n"),
        ]);
        let error = Fabric::load(all.path()).unwrap_err();
        let text = error.render(false);
        let at = |name: &str| all.path().join(name).display().to_string();
        assert!(text.contains(&format!("{}:4:3", at("3.yaml"))), "{text}");
        assert!(
            text.contains(&format!("({}, line 4, column 3)", at("2.yaml"))),
            "{text}"
        );
        assert!(text.contains(&format!("{}:1:15", at("4.yaml"))), "{text}");
        assert!(
            text.contains(&format!("in {}", all.path().display())),
            "{text}"
        );
    }

    #[test]
    fn settings_stand_once_and_an_empty_folder_is_no_fabric() {
        let tunnel = "tunnel: { port: 4000 }\n";
        let twice = folder(&[("1.yaml", &format!("{HOSTS}{tunnel}")), ("2.yaml", tunnel)]);
        let text = Fabric::load(twice.path()).unwrap_err().render(false);
        assert!(text.contains("2.yaml:1:1"), "{text}");
        let other = folder(&[("1.yaml", HOSTS), ("2.yaml", "version: 2\n")]);
        Fabric::load(other.path()).unwrap_err();
        let text = Fabric::load(folder(&[]).path()).unwrap_err().render(false);
        assert!(text.contains("no file *.yaml"), "{text}");
    }
}
