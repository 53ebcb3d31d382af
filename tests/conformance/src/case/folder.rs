//! The folder of the golden cases: a folder for each stage, and in it a file for each case.

use std::path::{Path, PathBuf};

use super::{Case, CaseError, Unreadable};
use crate::rules::{self, RuleId};

/// The folders, in the order of `docs/semantics.md`, and the headings there that they are named after.
pub const STAGES: [(&str, &str); 31] = [
    ("devices", "Devices that go"),
    ("port", "port"),
    ("parse", "parse"),
    ("port_security", "port_security"),
    ("learn", "learn"),
    ("arp_nd", "arp_nd"),
    ("neighbour", "neighbour"),
    ("conntrack", "conntrack"),
    ("acl", "acl"),
    ("moved", "A port that moves"),
    ("reply", "Answers"),
    ("l2_lookup", "l2_lookup"),
    ("route", "route"),
    ("leg_in", "leg_in"),
    ("nat", "nat"),
    ("leg_out", "leg_out"),
    ("vlan_out", "vlan_out"),
    ("vlan_in", "vlan_in"),
    ("mss", "mss"),
    ("encap", "encap"),
    ("flood", "flood"),
    ("coalesce", "coalesce"),
    ("vtep_check", "vtep_check"),
    ("path_mtu", "path_mtu"),
    ("tunnel", "tunnel"),
    ("greeting", "greeting"),
    ("ecn", "ecn"),
    ("origin", "origin"),
    ("ids", "ids"),
    ("decap", "decap"),
    ("to_port", "to_port"),
];

/// What stands beside the folders of the stages.
const BESIDE: [&str; 4] = ["README.md", "explanations.txt", "fabrics", "uncovered.yaml"];

/// The folder of all cases.
pub fn cases_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases")
}

/// Every case of a folder, by stage and name; or all that is wrong with them.
pub fn load_all(folder: &Path) -> Result<Vec<Case>, Unreadable> {
    let (files, mut errors) = files(folder);
    let known = known_rules()?;
    let mut cases = Vec::new();
    for file in &files {
        match Case::load(file) {
            Ok(case) => {
                errors.extend(unknown_rules(&case, &known));
                cases.push(case);
            }
            Err(error) => errors.push(error),
        }
    }
    match errors.is_empty() {
        true => Ok(cases),
        false => Err(Unreadable(errors)),
    }
}

/// The rules of `docs/semantics.md`.
pub(super) fn known_rules() -> Result<Vec<RuleId>, Unreadable> {
    let page = rules::page();
    let known = std::fs::read_to_string(&page).map(|text| rules::rules(&text));
    known.map_err(|error| Unreadable(vec![CaseError::file(&page, &error)]))
}

pub(super) fn unknown_rules(case: &Case, known: &[RuleId]) -> Vec<CaseError> {
    let unknown = case.rules.iter().filter(|rule| !known.contains(rule));
    unknown
        .map(|rule| {
            let message = format!("rules: docs/semantics.md has no {rule}");
            CaseError::at(&case.path, 0, message)
        })
        .collect()
}

/// Every golden case whose name has what `OVERLANE_CASE` says; all without it.
pub fn wanted() -> Result<Vec<Case>, Unreadable> {
    let part = std::env::var("OVERLANE_CASE").unwrap_or_default();
    let mut cases = load_all(&cases_folder())?;
    cases.retain(|case| case.name.contains(&part));
    Ok(cases)
}

/// `STAGE/NAME` of the file `STAGE/NAME.yaml`.
pub(super) fn name(path: &Path) -> String {
    let stage = path.parent().map(file_name).unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default();
    format!("{stage}/{}", stem.to_string_lossy())
}

/// The files of all cases, and what stands there that is none.
fn files(folder: &Path) -> (Vec<PathBuf>, Vec<CaseError>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in entries(folder, &mut errors) {
        let name = file_name(&path);
        if BESIDE.contains(&name.as_str()) {
            continue;
        }
        if !path.is_dir() {
            let message = "a case stands in the folder of its stage";
            errors.push(CaseError::at(&path, 0, message));
        } else if STAGES.iter().any(|(stage, _)| *stage == name) {
            of_stage(&path, &mut files, &mut errors);
        } else {
            let message = format!("no stage of docs/semantics.md is called `{name}`");
            errors.push(CaseError::at(&path, 0, message));
        }
    }
    (files, errors)
}

fn of_stage(folder: &Path, files: &mut Vec<PathBuf>, errors: &mut Vec<CaseError>) {
    let before = (files.len(), errors.len());
    for path in entries(folder, errors) {
        if path.is_dir() {
            let message = "a folder in the folder of a stage: cases have one level";
            errors.push(CaseError::at(&path, 0, message));
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        } else {
            errors.push(CaseError::at(&path, 0, "a case is a file NAME.yaml"));
        }
    }
    if before == (files.len(), errors.len()) {
        errors.push(CaseError::at(folder, 0, "a stage without a case"));
    }
}

/// What is in a folder, in order. What begins with a dot is an editor's.
pub(super) fn entries(folder: &Path, errors: &mut Vec<CaseError>) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder);
    let read = read.and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<Result<Vec<_>, _>>()
    });
    let mut paths = read.unwrap_or_else(|error| {
        errors.push(CaseError::file(folder, &error));
        Vec::new()
    });
    paths.retain(|path| !file_name(path).starts_with('.'));
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_folder_is_named_after_a_heading() {
        let page = fs::read_to_string(rules::page()).unwrap();
        let headings: BTreeSet<&str> = (page.lines())
            .filter_map(|line| line.strip_prefix("##"))
            .map(|heading| heading.trim_start_matches('#').trim())
            .collect();
        for (folder, heading) in STAGES {
            assert!(headings.contains(heading), "{folder}: no heading {heading}");
        }
    }

    /// What is wrong with a folder that has these files. A name with a slash at its end is a folder.
    fn wrong(names: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.ends_with('/') {
                true => fs::create_dir_all(path).unwrap(),
                false => fs::write(path, "title: nothing else\n").unwrap(),
            }
        }
        let Err(Unreadable(errors)) = load_all(folder.path()) else {
            return Vec::new();
        };
        let place = format!("{}/", folder.path().display());
        let errors = errors.iter().map(|error| error.to_string());
        errors.map(|error| error.replace(&place, "")).collect()
    }

    #[test]
    fn what_is_no_case_is_an_error() {
        let right = ["README.md", "explanations.txt", "fabrics/vxlan4.yaml"];
        assert_eq!(wrong(&right), [""; 0]);
        for (name, message) in [
            (
                "encaps/a.yaml",
                "encaps: no stage of docs/semantics.md is called `encaps`",
            ),
            ("a.yaml", "a.yaml: a case stands in the folder of its stage"),
            ("acl/a.yml", "acl/a.yml: a case is a file NAME.yaml"),
            ("acl/a.pcap", "acl/a.pcap: a case is a file NAME.yaml"),
            (
                "acl/a/case.yaml",
                "acl/a: a folder in the folder of a stage: cases have one level",
            ),
            ("acl/", "acl: a stage without a case"),
            ("acl/.a.yaml.swp", "acl: a stage without a case"),
        ] {
            assert_eq!(wrong(&[name]), [message]);
        }
        // All of it is told at once, and what is wrong in a file too.
        let found = wrong(&["acl/a.yaml", "acl/b.txt", "nil/"]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].starts_with("acl/a.yaml:1: "), "{found:?}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("acl/a.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let case = "title: of a rule that is gone\nrules: [ACL-1, GONE-1]\nfabric: { version: 1, hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } } }\npackets: [ { from: underlay, packet: [ { eth: {} } ], verdict: to_host } ]\n";
        fs::write(file, case).unwrap();
        let gone = load_all(folder.path()).unwrap_err().to_string();
        assert!(
            gone.ends_with("acl/a.yaml: rules: docs/semantics.md has no GONE-1"),
            "{gone}"
        );
        let nowhere = load_all(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(
            nowhere.to_string().contains("/nowhere/at/all: "),
            "{nowhere}"
        );
    }
}
