//! The rules of `docs/semantics.md`, by their IDs, and which of them have a case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// The ID of a rule: `PARSE-3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RuleId {
    section: String,
    number: u32,
}

impl RuleId {
    /// Reads an ID: capitals and digits, a hyphen, and a number from 1.
    pub fn parse(text: &str) -> Option<Self> {
        let (section, number) = text.split_once('-')?;
        let is_section = section.starts_with(|c: char| c.is_ascii_uppercase())
            && (section.chars()).all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        let is_number =
            number.starts_with(|c| c != '0') && number.chars().all(|c| c.is_ascii_digit());
        (is_section && is_number).then_some(())?;
        Some(Self {
            section: section.to_owned(),
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.section, self.number)
    }
}

/// The page that has the rules.
pub fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md")
}

/// The rules of a page, in its order: `**PARSE-3**` at the start of a line. An ID that stands twice does so here too.
pub fn rules(page: &str) -> Vec<RuleId> {
    let ids = page
        .lines()
        .filter_map(|line| line.strip_prefix("**")?.split("**").next());
    ids.filter_map(RuleId::parse).collect()
}

/// What is wrong with the rules that have no case, and with the list of reasons why.
pub fn faults(
    rules: &[RuleId],
    shown: &BTreeSet<RuleId>,
    reasons: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for rule in rules {
        if !seen.insert(rule) {
            faults.push(format!("{rule} stands twice in docs/semantics.md"));
        }
        match (shown.contains(rule), reasons.get(&rule.to_string())) {
            (false, None) => faults.push(format!("{rule} has neither a case nor a reason")),
            (true, Some(_)) => faults.push(format!("{rule} has a case: its reason is out of date")),
            _ => {}
        }
    }
    for (id, reason) in reasons {
        if !rules.iter().any(|rule| rule.to_string() == *id) {
            faults.push(format!("docs/semantics.md has no rule {id}"));
        }
        if !reason.ends_with('.') {
            faults.push(format!(
                "{id}: a reason is a sentence, and ends with a full stop"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RuleId {
        RuleId::parse(text).unwrap()
    }

    #[test]
    fn an_id_is_a_section_and_a_number() {
        for text in ["PARSE-3", "L2-10", "A-1"] {
            assert_eq!(id(text).to_string(), text);
        }
        for text in [
            "PARSE", "PARSE-", "PARSE-03", "PARSE-0", "parse-3", "2L-1", "-1", "A-1x", "A-1-2",
        ] {
            assert_eq!(RuleId::parse(text), None, "{text}");
        }
        assert!(id("L2-9") < id("L2-10"));
    }

    #[test]
    fn rules_begin_their_lines() {
        let page = "**HOOK-1** The first.\nIt is not **HOOK-2**, nor HOOK-3.\n\n**L2-4** Another.\n**Segments** are none.\n";
        assert_eq!(rules(page), [id("HOOK-1"), id("L2-4")]);
    }

    #[test]
    fn a_rule_has_a_case_or_a_reason() {
        let check = |rules: &[&str], shown: &[&str], reasons: &[(&str, &str)]| {
            let rules: Vec<RuleId> = rules.iter().map(|text| id(text)).collect();
            let shown = shown.iter().map(|text| id(text)).collect();
            let reasons = (reasons.iter()).map(|(id, why)| ((*id).to_owned(), (*why).to_owned()));
            faults(&rules, &shown, &reasons.collect()).join("\n")
        };
        let because = "It is so.";
        assert_eq!(check(&["A-1", "A-2"], &["A-1"], &[("A-2", because)]), "");
        for (found, words) in [
            (check(&["A-1"], &[], &[]), "A-1 has neither"),
            (
                check(&["A-1"], &["A-1"], &[("A-1", because)]),
                "A-1 has a case",
            ),
            (check(&[], &[], &[("A-1", because)]), "no rule A-1"),
            (check(&["A-1"], &[], &[("A-1", "why")]), "a full stop"),
            (check(&["A-1", "A-1"], &["A-1"], &[]), "A-1 stands twice"),
        ] {
            assert!(found.contains(words) && !found.contains('\n'), "{found}");
        }
    }
}
