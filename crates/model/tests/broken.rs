//! What users see: every file in `tests/broken` and the exact text of its mistakes, in the `.txt`
//! beside it; and every file in `tests/accepted`, of which nothing is said. `OVERLANE_BLESS=1 cargo test -p overlane-model --test broken` writes the texts anew;
//! read the difference before you commit it.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use overlane_model::{Diagnostic, Fabric, Severity};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

/// What is said of a file, and its mistakes. One that is only warned of is a fabric nevertheless.
fn mistakes(name: &str, text: &str) -> (String, Vec<Diagnostic>) {
    let (said, found) = match Fabric::parse(name, text) {
        Ok(fabric) => {
            let report = fabric
                .warnings()
                .unwrap_or_else(|| panic!("{name}: no mistake"));
            let mut all = report.diagnostics.iter();
            assert!(all.all(|found| found.severity == Severity::Warning));
            (report.render(false), report.diagnostics.clone())
        }
        Err(errors) => {
            let mut all = errors.diagnostics().iter();
            assert!(all.any(|found| found.severity == Severity::Error));
            (errors.render(false), errors.diagnostics().to_vec())
        }
    };
    (said + "\n", found)
}

#[test]
fn texts() {
    let bless = std::env::var_os("OVERLANE_BLESS").is_some();
    let files = files("broken");
    assert!(files.len() >= 10);
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let (found, _) = mistakes(name, &text);
        let expected = path.with_extension("txt");
        if bless {
            std::fs::write(&expected, &found).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("{name} now reads:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mistake_has_a_help_and_a_place_in_order() {
    for path in files("broken") {
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, found) = mistakes("f", &text);
        assert!(!found.is_empty());
        assert!(found.is_sorted_by_key(|d| (d.line, d.column)));
        for diagnostic in found {
            assert!(diagnostic.help.is_some(), "{diagnostic:?}");
            let line = text.lines().nth(diagnostic.line as usize - 1);
            let within = line.map_or(0, |line| line.chars().count()) + 1;
            assert!(diagnostic.column as usize <= within, "{diagnostic:?}");
            let place = (diagnostic.line, diagnostic.column);
            if let Some(overlane_model::Related { line, column, .. }) = diagnostic.related {
                assert_ne!((line, column), place, "{diagnostic:?}");
            }
        }
    }
}

/// What looks like these mistakes, and is none.
#[test]
fn accepted() {
    let files = files("accepted");
    assert!(!files.is_empty());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let fabric = Fabric::parse(path.to_str().unwrap(), &text);
        let fabric = fabric.unwrap_or_else(|errors| panic!("{errors}"));
        if let Some(warnings) = fabric.warnings() {
            panic!("{}", warnings.render(false));
        }
    }
}
