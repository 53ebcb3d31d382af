//! Whatever stands in a file: it is a fabric, or there are mistakes with places in it; never a panic.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use overlane_model::Fabric;
use proptest::prelude::*;

const VALID: [&str; 3] = [
    include_str!("../../../examples/three-hosts-geneve.yaml"),
    include_str!("../../../examples/physical-segments.yaml"),
    include_str!("../../../examples/routers-and-firewall.yaml"),
];

/// What YAML and the fabric file give a meaning to.
const PIECES: [&str; 24] = [
    ": ", "- ", "{", "}", "[", "]", ", ", "\n", "\n  ", "\"", "'", "&a ", "*a", "!t ", "? ",
    "---\n", "...\n", "#", "|\n", "\t", "ports:", "h1", "null", "\u{feff}",
];

fn holds(text: &str) {
    match Fabric::parse("noise.yaml", text) {
        Ok(fabric) => {
            for host in fabric.hosts().keys() {
                assert!(fabric.compile(host.as_str()).is_ok());
            }
        }
        Err(errors) => {
            assert!(!errors.diagnostics().is_empty());
            assert!(
                errors
                    .diagnostics()
                    .iter()
                    .all(|d| d.line > 0 && d.column > 0 && d.length > 0)
            );
            let shown = errors.render(false);
            assert!(
                shown.chars().all(|c| c == '\n' || !c.is_control()),
                "{shown:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn pieces_of_yaml(pieces in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.iter().map(|&index| PIECES[index]).collect();
        holds(&text);
    }

    #[test]
    fn mutated_files(
        file in 0..VALID.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_usize, 0..PIECES.len()), 1..6)
    ) {
        let mut text = VALID[file].to_owned();
        for (at, cut, piece) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + cut).min(text.len());
            // A place inside a character: leave this one out.
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, PIECES[piece]);
            }
        }
        holds(&text);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = std::env::temp_dir().join(format!("overlane-noise-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("noise.yaml");
        std::fs::write(&path, &bytes).unwrap();
        let result = overlane_model::load(&path);
        std::fs::remove_dir_all(&folder).unwrap();
        if let Err(errors) = result {
            prop_assert!(!errors.diagnostics().is_empty());
        }
    }
}

#[test]
fn truncated_everywhere() {
    for file in VALID {
        for end in 0..file.len() {
            if let Some(text) = file.get(..end) {
                holds(text);
            }
        }
    }
}

#[test]
fn examples_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy();
        if name.ends_with(".yaml") && !name.ends_with(".statements.yaml") {
            let fabric = overlane_model::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(fabric.hosts().len() >= 2);
            found += 1;
        }
    }
    assert!(found >= 3);
}
