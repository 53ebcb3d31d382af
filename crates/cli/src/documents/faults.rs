//! Names of a page that are not there.

use std::fmt;
use std::path::{Path, PathBuf};

use overlane_model::Fabric;

use super::markdown::{Kind, Page};
use super::vocabulary::{Vocabulary, split};

/// Lines of prose have at most so many characters.
const LONGEST: usize = 160;

/// Names that belong to others, which no source of ours has.
const FOREIGN: [&str; 13] = [
    "cpu-clock",
    "first-last", // how a range of ports is written
    "fw-blue",    // what ovn-nbctl calls port groups
    "fw-red",
    "gro_cells",
    "ifdef",
    "lldpd",
    "migrate_set_capability",
    "nolearning",
    "perf",
    "stp_state",
    "tx-sctp-segmentation",
    "txqueuelen",
];

/// A name that is not there.
#[derive(Debug)]
pub(super) struct Fault {
    page: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page.display(), self.line, self.what)
    }
}

/// What is wrong with a page.
pub(super) fn faults(page: &Page, pages: &[Page], vocabulary: &Vocabulary) -> Vec<Fault> {
    // Decisions tell what was; only their links have to lead somewhere.
    let is_history = page.path.starts_with("docs/adr");
    let mut faults = Vec::new();
    let mut section = "";
    for part in &page.parts {
        let found = match &part.kind {
            Kind::Link(to) => link(page, to, pages, vocabulary),
            _ if is_history => None,
            Kind::Code(code) => inline(code, vocabulary),
            Kind::Cell(head, code) => cell(page, section, head, code, vocabulary),
            Kind::Fenced(word, line) => fenced(word, line, vocabulary),
            Kind::Anchor(anchor) => {
                section = anchor;
                None
            }
            Kind::Prose(_) => None,
        };
        faults.extend(found.map(|what| Fault {
            page: page.path.clone(),
            line: part.line,
            what,
        }));
    }
    faults
}

/// Lines of prose that are too long.
pub(super) fn long_lines(page: &Page) -> Vec<Fault> {
    let long = page.parts.iter().filter_map(|part| match part.kind {
        Kind::Prose(length) if length > LONGEST => Some((part.line, length)),
        _ => None,
    });
    long.map(|(line, length)| Fault {
        page: page.path.clone(),
        line,
        what: format!("{length} characters in a line"),
    })
    .collect()
}

/// Commands without a section in the manual of the command line, and options that their section does not name. A section may send
/// to another one for its options.
pub(super) fn undocumented(manual: &str, vocabulary: &Vocabulary) -> Vec<String> {
    let mut missing = Vec::new();
    for (path, known) in &vocabulary.commands {
        let is_help = path.split(' ').any(|word| word == "help");
        if path.is_empty() || known.is_group || known.hidden || is_help {
            continue;
        }
        let heading = format!("\n## overlane {path}\n");
        let Some((_, section)) = manual.split_once(&heading) else {
            missing.push(format!("overlane {path} has no section"));
            continue;
        };
        let section = section.split("\n## ").next().unwrap_or(section);
        let text = match section.contains("options of [") {
            true => manual,
            false => section,
        };
        let common = ["--help", "--version"];
        for names in &known.arguments {
            let is_common = names.iter().any(|name| common.contains(&name.as_str()));
            if !is_common && !split(text).any(|word| names.contains(word)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                missing.push(format!("overlane {path} {} is not named", names.join(", ")));
            }
        }
    }
    missing
}

fn link(page: &Page, to: &str, pages: &[Page], vocabulary: &Vocabulary) -> Option<String> {
    if to.contains("://") || to.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
    let folder = page.path.parent().unwrap_or(Path::new(""));
    let target = match file {
        "" => page.path.clone(),
        file => plain(&folder.join(file)),
    };
    if !file.is_empty() && !vocabulary.root.join(&target).exists() {
        return Some(format!("the link `{to}` leads nowhere"));
    }
    let of = pages.iter().find(|other| other.path == target);
    let of = of.or((target == page.path).then_some(page));
    let has = |page: &Page| page.anchors().any(|one| one == anchor);
    let is_missing = !anchor.is_empty() && of.is_some_and(|page| !has(page));
    is_missing.then(|| format!("the link `{to}` names no heading"))
}

/// `docs/../README.md` → `README.md`
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The text between two backquotes.
fn inline(code: &str, vocabulary: &Vocabulary) -> Option<String> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let first = *words.first()?;
    if first == "overlane" && words.len() > 1 {
        return command(&words[1..], vocabulary);
    }
    if first == "make" && words.len() == 2 {
        return target(words[1], vocabulary);
    }
    if words.len() > 1 && vocabulary.commands.contains_key(first) {
        return command(&words, vocabulary);
    }
    if first.starts_with("--") {
        let option = first.split(['=', '[']).next().unwrap_or(first);
        let known = vocabulary.has_option(option) || FOREIGN.contains(&option);
        return (!known).then(|| format!("there is no option `{option}`"));
    }
    if words.len() == 1 && (first.contains('/') || looks_like_file(first)) {
        return file(first, vocabulary);
    }
    unknown_word(code, vocabulary)
}

/// Code in the first cell of a table: a key of the file that the page describes, or an option of the command of the section.
fn cell(
    page: &Page,
    section: &str,
    head: &str,
    code: &str,
    vocabulary: &Vocabulary,
) -> Option<String> {
    let keys = page
        .path
        .to_str()
        .and_then(|page| vocabulary.keys.get(page));
    if let Some(keys) = keys.filter(|_| head == "key") {
        let name = code.trim_end_matches("[]");
        return (!keys.contains(name)).then(|| format!("there is no key `{name}`"));
    }
    let path = section
        .strip_prefix("overlane-")
        .unwrap_or_default()
        .replace('-', " ");
    let known = vocabulary
        .commands
        .get(&path)
        .filter(|_| head == "option" && !path.is_empty());
    let option = code.split(' ').next().unwrap_or(code);
    match known {
        Some(known) if !known.has(option) => {
            Some(format!("`overlane {path}` has no option `{option}`"))
        }
        _ => inline(code, vocabulary),
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The first word that no source has. Numbers and words in capitals or with other signs are no names of ours.
fn unknown_word(code: &str, vocabulary: &Vocabulary) -> Option<String> {
    let is_name = |word: &&str| {
        word.len() > 2
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
    };
    // `parse-` is how names begin.
    let begins = |word: &str| {
        let mut files = vocabulary.files.iter();
        code.ends_with('-') && files.any(|name| name.starts_with(&format!("{word}-")))
    };
    let known = |word: &&str| {
        let named = vocabulary.words.contains(*word) || vocabulary.files.contains(*word);
        named || FOREIGN.contains(word) || begins(word)
    };
    let code = without_forms(code);
    let mut words = split(&code).filter(is_name);
    words
        .find(|word| !known(word))
        .map(|word| format!("no source has the name `{word}`"))
}

/// Keys in the fabric files of a page, whole ones and parts, that no fabric file has at their place.
pub(super) fn fabric_faults(page: &Page) -> Vec<Fault> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for part in &page.parts {
        let Kind::Fenced(word, line) = &part.kind else {
            continue;
        };
        if word != "yaml" {
            continue;
        }
        match blocks.last_mut().filter(|_| part.line == last + 1) {
            Some((_, text)) => *text += &format!("{line}\n"),
            None => blocks.push((part.line, format!("{line}\n"))),
        }
        last = part.line;
    }
    let of_fabric = |line: &str| {
        let key = line.split(':').next().unwrap_or_default();
        ["tunnel", "hosts", "switches", "ports", "rules", "routers"].contains(&key)
    };
    // A golden case has rules too: those that it shows.
    let of_case = |line: &str| line.starts_with("packets:");
    blocks.retain(|(_, text)| text.lines().any(of_fabric) && !text.lines().any(of_case));
    let mut faults = Vec::new();
    for (first, text) in blocks {
        let Err(errors) = Fabric::parse("block", &text) else {
            continue;
        };
        let all = errors.diagnostics().iter();
        for found in all.filter(|found| found.message.starts_with("unknown key")) {
            faults.push(Fault {
                page: page.path.clone(),
                line: first + found.line as usize - 1,
                what: found.message.clone(),
            });
        }
    }
    faults
}

/// What is left when words that stand for others are gone: `<host>`, `lab…`, `*_rr`.
fn without_forms(code: &str) -> String {
    let is_form = |word: &str| word.contains(['…', '*', '<', '>', '%']);
    let words = code.split(|c: char| !is_of_word(c) && !"…*<>%".contains(c));
    let kept: Vec<&str> = words.filter(|word| !is_form(word)).collect();
    kept.join(" ")
}

/// A line of a block of code.
fn fenced(word: &str, line: &str, vocabulary: &Vocabulary) -> Option<String> {
    match word {
        "console" | "sh" | "bash" => {
            let text = line
                .strip_prefix("$ ")
                .or_else(|| line.strip_prefix("# "))?;
            let text = text.split(" # ").next().unwrap_or(text);
            let parts = text.split(['|', ';', '&', '>', '<']);
            parts.map(str::trim).find_map(|part| {
                let part = part.strip_prefix("sudo ").unwrap_or(part);
                let words: Vec<&str> = part.split_whitespace().collect();
                match words.split_first() {
                    Some((&"overlane", rest)) if !rest.is_empty() => command(rest, vocabulary),
                    Some((&"make", [name])) => target(name, vocabulary),
                    _ => None,
                }
            })
        }
        "yaml" => {
            let line = line.split(" #").next().unwrap_or(line);
            keys(line).find_map(|key| unknown_word(key, vocabulary))
        }
        "json" => quoted_keys(line).find_map(|key| unknown_word(key, vocabulary)),
        _ => None,
    }
}

/// Words before a colon.
fn keys(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices(':').map(|(at, _)| &line[..at]);
    ends.map(|before| {
        let tail = before.rfind(|c| !is_of_word(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        &before[tail..]
    })
}

/// `"key":`
fn quoted_keys(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices("\":").map(|(at, _)| &line[..at]);
    ends.filter_map(|before| before.rsplit('"').next())
}

fn target(name: &str, vocabulary: &Vocabulary) -> Option<String> {
    let is_there = vocabulary.makefile.contains(&format!("\n{name}:"));
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    (is_name && !is_there).then(|| format!("there is no `make {name}`"))
}

/// The words behind `overlane`.
fn command(words: &[&str], vocabulary: &Vocabulary) -> Option<String> {
    let mut path = String::new();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        let longer = format!("{path} {word}").trim().to_owned();
        if !vocabulary.commands.contains_key(&longer) {
            break;
        }
        (path, rest) = (longer, behind);
    }
    let known = vocabulary.commands.get(&path)?;
    let next = rest.iter().find(|word| !word.starts_with('-'));
    if let Some(next) = next.filter(|_| known.is_group) {
        let is_name = next.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        if is_name {
            return Some(format!("there is no command `overlane {path} {next}`"));
        }
    }
    let mut quoted = false;
    for word in rest {
        let was_quoted = quoted;
        if word.matches('\'').count() % 2 == 1 {
            quoted = !quoted;
        }
        let option = word
            .split(['=', '['])
            .next()
            .unwrap_or(word)
            .trim_end_matches([',', ']']);
        let option = option.trim_start_matches('[');
        let is_option = option.len() > 1 && option.starts_with('-') && !was_quoted;
        if is_option && option != "--" && !known.has(option) {
            return Some(format!("`overlane {path}` has no option `{option}`"));
        }
    }
    unknown_word(&rest.join(" "), vocabulary)
}

fn looks_like_file(word: &str) -> bool {
    let endings = [
        ".md", ".rs", ".py", ".yaml", ".toml", ".json", ".ndjson", ".html", ".csv", ".svg", ".sh",
        ".service",
    ];
    let stem = word.split("::").next().unwrap_or(word);
    endings.iter().any(|ending| stem.ends_with(ending)) && !stem.contains(['…', '*', '<'])
}

fn file(word: &str, vocabulary: &Vocabulary) -> Option<String> {
    let path = word.split("::").next().unwrap_or(word);
    let path = path.split(':').next().unwrap_or(path).trim_end_matches('/');
    let is_ending = path.starts_with('.') && !path.contains('/');
    if path.is_empty() || is_ending || path.contains(['…', '*', '<', '{', '$', '(']) {
        return unknown_word(word, vocabulary);
    }
    let Some((first, _)) = path.split_once('/') else {
        let is_there = vocabulary.files.contains(path) || vocabulary.root.join(path).is_dir();
        return (!is_there).then(|| format!("there is no file `{path}`"));
    };
    // What begins in none of our folders is somebody else's.
    let is_made = first == "target" || first == "results";
    let is_ours = !first.is_empty() && vocabulary.root.join(first).is_dir();
    let is_there = vocabulary.root.join(path).exists();
    if !is_ours {
        return unknown_word(word, vocabulary);
    }
    let is_missing = !is_made && !is_there;
    is_missing.then(|| format!("there is no `{path}`"))
}
