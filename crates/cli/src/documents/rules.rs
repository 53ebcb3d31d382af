//! The rules of docs/semantics.md, each with an ID such as `PARSE-3`, and the places that name them: the rows of
//! docs/counters.md, and all other documents.

use std::collections::{BTreeMap, BTreeSet};

use overlane_model::Verdict;

/// Rules with the name of a drop reason that they do not give: it is also a key of the fabric file.
const OTHERS: [(&str, &str); 1] = [("ARP-7", "router_advertisement")];

/// A rule.
pub(super) struct Rule {
    pub(super) id: String,
    /// The heading that it stands under.
    section: String,
    /// Its paragraph, with the list behind it.
    text: String,
}

/// Every rule, in the order of the page.
pub(super) fn rules(page: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut section = "";
    let mut is_open = false;
    for paragraph in page.split("\n\n") {
        if is_open
            && paragraph.starts_with("- ")
            && let Some(rule) = rules.last_mut()
        {
            rule.text.push_str(paragraph);
            continue;
        }
        let named = paragraph
            .strip_prefix("**")
            .and_then(|rest| rest.split_once("** "))
            .filter(|(id, _)| prefix(id).is_some());
        rules.extend(named.map(|(id, text)| Rule {
            id: id.to_owned(),
            section: section.to_owned(),
            text: text.to_owned(),
        }));
        is_open = named.is_some();
        if paragraph.starts_with('#') {
            section = paragraph;
        }
    }
    rules
}

/// `PARSE-3` → `PARSE`
fn prefix(id: &str) -> Option<&str> {
    let (prefix, number) = id.rsplit_once('-')?;
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let is_id =
        prefix.starts_with(|c: char| c.is_ascii_uppercase()) && prefix.chars().all(is_capital);
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    (is_id && is_number).then_some(prefix)
}

/// IDs that two rules have, stages whose first number is not 1, and stages in more than one section.
pub(super) fn wrong_ids(rules: &[Rule]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    let mut sections = BTreeMap::new();
    for rule in rules {
        let (id, stage) = (rule.id.as_str(), prefix(&rule.id).unwrap_or_default());
        if !ids.insert(id) {
            wrong.push(format!("{id} is two rules"));
        }
        let section = sections.entry(stage).or_insert(&rule.section);
        if **section != rule.section {
            wrong.push(format!("{id} is not in section {section}"));
        }
    }
    let first = |stage: &&&str| !ids.contains(format!("{stage}-1").as_str());
    let without = sections.keys().filter(first);
    wrong.extend(without.map(|stage| format!("{stage}-1 is no rule")));
    wrong
}

/// Drop reasons whose row in the manual of the counters names other rules than those that give the reason.
pub(super) fn wrong_rows(manual: &str, rules: &[Rule]) -> Vec<String> {
    let rows: BTreeMap<&str, &str> = manual.lines().filter_map(row).collect();
    let drops = Verdict::ALL.iter().filter(|verdict| verdict.is_drop());
    drops
        .filter_map(|verdict| {
            let name = verdict.name();
            let Some(cell) = rows.get(name) else {
                return Some(format!("{name} has no row"));
            };
            let gives = |rule: &&Rule| {
                let is_other = OTHERS.contains(&(rule.id.as_str(), name));
                rule.text.contains(&format!("`{name}`")) && !is_other
            };
            let giving: Vec<&str> = rules
                .iter()
                .filter(gives)
                .map(|rule| rule.id.as_str())
                .collect();
            let is_right = match cell.strip_prefix("none: ") {
                Some(why) => giving.is_empty() && !why.is_empty(),
                None => !giving.is_empty() && cell.split(", ").eq(giving.iter().copied()),
            };
            (!is_right).then(|| format!("{name}: {cell}, but it is {}", giving.join(", ")))
        })
        .collect()
}

/// Of a row of the drop reasons, the reason and the cell with its rules.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let is_drop = cells.get(3) == Some(&"drop");
    let name = cells.get(2)?.trim_matches('`');
    is_drop.then_some((name, *cells.get(7)?))
}

/// IDs in a text that no rule has.
pub(super) fn unknown(text: &str, rules: &[Rule]) -> Vec<String> {
    let stages: BTreeSet<&str> = rules.iter().filter_map(|rule| prefix(&rule.id)).collect();
    let is_inside = |c: char| c.is_alphanumeric() || c == '-';
    let words = text.split(|c: char| !is_inside(c));
    words
        .filter(|word| prefix(word).is_some_and(|stage| stages.contains(stage)))
        .filter(|word| !rules.iter().any(|rule| rule.id == *word))
        .map(str::to_owned)
        .collect()
}
