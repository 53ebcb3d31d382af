//! What `overlane trace` says of the golden cases' packets, on the reference executor: tests/cases/explanations.txt has
//! one example of each sentence.
//!
//! `OVERLANE_WRITE=explanations` writes the file anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use overlane_conformance::case::{cases_folder, load_all};
use overlane_conformance::{Written, reference};
use overlane_pipeline::{By, Step};

/// Behind these stands a name.
const NAMED: [&str; 6] = ["port", "switch", "host", "router", "rule", "device"];

/// A sentence without names, and without the words that have a digit: numbers and addresses.
fn shape(text: &str) -> String {
    let mut before = "";
    let words = text.split(' ').map(|word| {
        let named = NAMED.contains(&before.trim_start_matches('['));
        before = word;
        if named || word.contains(|c: char| c.is_ascii_digit()) {
            "#"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn shown(step: &Step) -> String {
    let by = match &step.by {
        Some(By::Port(name)) => format!(" [port {name}]"),
        Some(By::Switch(name)) => format!(" [switch {name}]"),
        Some(By::Host(name)) => format!(" [host {name}]"),
        Some(By::Router(name)) => format!(" [router {name}]"),
        Some(By::Rule(name)) => format!(" [rule {name}]"),
        Some(By::Tunnel) => " [tunnel]".to_owned(),
        None => String::new(),
    };
    format!("{}: {}{by}", step.stage, step.found)
}

#[test]
fn every_sentence_has_an_example() {
    let file = cases_folder().join("explanations.txt");
    let mut examples = BTreeMap::new();
    for case in load_all(&cases_folder()).unwrap_or_else(|error| panic!("{error}")) {
        for step in reference::run(&case)
            .iter()
            .flat_map(|outcome| &outcome.steps)
        {
            let text = shown(step);
            examples.entry(shape(&text)).or_insert(text);
        }
    }
    let text: String = examples.values().map(|line| format!("{line}\n")).collect();
    let written = Written::asked().unwrap_or_else(|error| panic!("{error}"));
    if written == Some(Written::Explanations) {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), text.lines().collect());
    let gone = kept
        .iter()
        .filter(|line| !now.contains(line))
        .map(|line| format!("- {line}"));
    let new = now
        .iter()
        .filter(|line| !kept.contains(line))
        .map(|line| format!("+ {line}"));
    let changed: Vec<String> = gone.chain(new).collect();
    assert!(
        changed.is_empty(),
        "trace says something else than tests/cases/explanations.txt (OVERLANE_WRITE=explanations writes it anew):\n{}",
        changed.join("\n")
    );
}
