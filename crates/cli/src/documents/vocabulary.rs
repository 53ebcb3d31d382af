//! The names that there are: commands with their options, the words of the sources, and files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use serde_json::Value;

use crate::args::Cli;

/// Folders whose files are no sources of ours, or that only plant wrong names.
const SKIPPED: [&str; 9] = [
    "target",
    "results",
    "corpus",
    "artifacts",
    "__pycache__",
    ".git",
    "adr",
    "documents",
    "node_modules",
];

/// Endings of the files whose words are names.
const SOURCES: [&str; 12] = [
    "rs", "c", "h", "py", "yaml", "toml", "sh", "json", "service", "css", "js", "cfg",
];

/// A command of the program.
pub(super) struct Known {
    /// Of each option its names: `--write`, `-w`.
    pub(super) arguments: Vec<BTreeSet<String>>,
    /// It has commands of its own.
    pub(super) is_group: bool,
    /// `--help` does not name it.
    pub(super) hidden: bool,
}

impl Known {
    pub(super) fn has(&self, option: &str) -> bool {
        self.arguments.iter().any(|names| names.contains(option))
    }
}

/// All names.
pub(super) struct Vocabulary {
    /// By their words: `lab run`. The program itself is the empty one.
    pub(super) commands: BTreeMap<String, Known>,
    /// Words of the sources; underscores and hyphens belong to a word.
    pub(super) words: HashSet<String>,
    /// Names of files and folders without their path: those of the tree, and those that the sources name.
    pub(super) files: HashSet<String>,
    /// Keys of the files that a page describes, by the page.
    pub(super) keys: BTreeMap<&'static str, BTreeSet<String>>,
    pub(super) makefile: String,
    pub(super) root: PathBuf,
}

impl Vocabulary {
    pub(super) fn of_the_tree(root: &Path) -> Self {
        let mut commands = BTreeMap::new();
        let mut program = Cli::command();
        program.build();
        add(&mut commands, "", &program);
        let (mut words, mut files) = (HashSet::new(), HashSet::new());
        values(&program, &mut words);
        for path in tree(root) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            let is_script = ending.is_empty() || name == "Makefile";
            if (SOURCES.contains(&ending) || is_script)
                && let Ok(text) = fs::read_to_string(&path)
            {
                words.extend(split(&text).map(str::to_owned));
                files.extend(file_names(&text).map(str::to_owned));
            }
            // A golden case is named without its ending.
            files.extend(name.strip_suffix(".yaml").map(str::to_owned));
            files.insert(name.into_owned());
            let folder = path.parent().and_then(Path::file_name);
            files.extend(folder.map(|name| name.to_string_lossy().into_owned()));
        }
        Self {
            commands,
            words,
            files,
            keys: keys(root),
            makefile: fs::read_to_string(root.join("Makefile")).unwrap_or_default(),
            root: root.to_owned(),
        }
    }

    pub(super) fn has_option(&self, option: &str) -> bool {
        let mut all = self.commands.values();
        all.any(|command| command.has(option))
    }
}

/// Of the pages with tables of keys: those that there are.
fn keys(root: &Path) -> BTreeMap<&'static str, BTreeSet<String>> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut fabric = BTreeSet::new();
    properties(&overlane_model::schema(), &mut fabric);
    let mut result = BTreeSet::new();
    let schema = serde_json::from_str(&read("docs/result.schema.json")).unwrap_or_default();
    properties(&schema, &mut result);
    let shape = read("crates/analysis/src/study/shape.rs");
    let fields = shape.split("field(").skip(1);
    let study = fields.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    BTreeMap::from([
        ("docs/fabric.md", fabric),
        ("docs/lab-method.md", result),
        ("docs/studies.md", study.map(str::to_owned).collect()),
    ])
}

/// Names of the properties in a JSON Schema.
fn properties(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                if let ("properties", Some(inner)) = (name.as_str(), value.as_object()) {
                    found.extend(inner.keys().cloned());
                }
                properties(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

/// Words of a text.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.split(move |c| !is_inside(c))
        .map(|word| word.trim_end_matches('-'))
        .filter(|word| !word.is_empty())
}

/// What looks like the name of a file.
fn file_names(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    text.split(move |c| !is_inside(c))
        .map(|word| word.trim_matches('.'))
        .filter(|word| word.contains('.'))
}

fn add(commands: &mut BTreeMap<String, Known>, path: &str, command: &Command) {
    let mut arguments = Vec::new();
    for argument in command.get_arguments() {
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        let hidden = argument.get_aliases().unwrap_or_default();
        let long = long.into_iter().chain(hidden);
        let mut names: BTreeSet<String> = long.map(|name| format!("--{name}")).collect();
        names.extend(argument.get_short().map(|short| format!("-{short}")));
        arguments.extend((!names.is_empty()).then_some(names));
    }
    let known = Known {
        arguments,
        is_group: command.has_subcommands(),
        hidden: command.is_hide_set(),
    };
    commands.insert(path.to_owned(), known);
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        add(commands, path.trim(), inner);
    }
}

/// What may stand behind the options of a command and of those inside of it.
fn values(command: &Command, words: &mut HashSet<String>) {
    for argument in command.get_arguments() {
        let values = argument.get_possible_values();
        words.extend(values.iter().map(|value| value.get_name().to_owned()));
    }
    command
        .get_subcommands()
        .for_each(|inner| values(inner, words));
}

/// Every file of the tree.
pub(super) fn tree(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if !path.is_dir() {
                files.push(path);
            } else if !SKIPPED.iter().any(|skipped| name == *skipped) {
                open.push(path);
            }
        }
    }
    files
}
