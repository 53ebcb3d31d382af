//! Every rule of docs/semantics.md has a golden case, or a reason why it has none: tests/cases/uncovered.yaml.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use overlane_conformance::case::{cases_folder, load_all};
use overlane_conformance::rules::{faults, page, rules};
use overlane_conformance::say;

#[test]
fn every_rule_has_a_case_or_a_reason() {
    let rules = rules(&fs::read_to_string(page()).unwrap());
    assert!(rules.len() > 200, "{} rules are read", rules.len());
    let cases = load_all(&cases_folder()).unwrap_or_else(|error| panic!("{error}"));
    let shown: BTreeSet<_> = cases.iter().flat_map(|case| case.rules.clone()).collect();
    let reasons = fs::read_to_string(cases_folder().join("uncovered.yaml")).unwrap();
    let reasons: BTreeMap<String, String> = serde_saphyr::from_str(&reasons).unwrap();
    let faults = faults(&rules, &shown, &reasons);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    say(&format!(
        "{} rules: {} have a case, {} a reason",
        rules.len(),
        shown.len(),
        reasons.len()
    ));
}

/// Who reads a case sees first what it shows. Rows of docs/rfc.md come next, where it names some; the test of that page
/// finds them there.
#[test]
fn the_rules_stand_behind_the_title() {
    for case in load_all(&cases_folder()).unwrap_or_else(|error| panic!("{error}")) {
        let text = fs::read_to_string(&case.path).unwrap();
        let keys: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| line.split(':').next())
            .collect();
        let at = |key| keys.iter().position(|found| *found == key);
        let (title, rules, rfc) = (at("title"), at("rules"), at("rfc"));
        let name = case.path.display();
        assert_eq!((title, rules), (Some(0), Some(1)), "{name}");
        assert!(rfc.is_none_or(|rfc| rfc == 2), "{name}");
    }
}
