//! The arrows between the modules of one crate, read from its sources.

use std::collections::BTreeMap;

/// From a module to those that it uses, each with a path that leads there.
pub(super) type Arrows = BTreeMap<String, BTreeMap<String, String>>;
type Path = Vec<String>;

/// A source file, read.
#[derive(Default)]
struct Module {
    /// Without what is under `cfg(test)`, and without its `use`.
    code: Vec<String>,
    uses: Vec<Use>,
    /// Files and modules that are only for tests.
    tests: Vec<String>,
}

/// One name that a `use` brings in.
struct Use {
    /// `None`: all of them (`*`).
    name: Option<String>,
    path: Path,
    is_passed_on: bool,
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and other characters; of a text its `"` and what stands in it. No comments, no lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let is_raw = ["r\"", "r#", "br\"", "br#"]
            .iter()
            .any(|it| rest.starts_with(it));
        rest = if rest.starts_with("//") {
            rest.find('\n').map_or("", |end| &rest[end..])
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or("", |end| &rest[end + 2..])
        } else if is_raw && let Some((text, behind)) = raw_text(rest) {
            tokens.push(format!("\"{text}"));
            behind
        } else if first == '"' {
            let end = end_of_text(after, '"');
            tokens.push(format!("\"{}", &after[..end]));
            after.get(end + 1..).unwrap_or_default()
        } else if first == '\'' {
            let is_lifetime =
                after.starts_with(is_of_name) && after.chars().nth(1).is_none_or(|c| c != '\'');
            match is_lifetime {
                true => after.trim_start_matches(is_of_name),
                false => after
                    .get(end_of_text(after, '\'') + 1..)
                    .unwrap_or_default(),
            }
        } else if is_of_name(first) {
            let behind = rest.trim_start_matches(is_of_name);
            tokens.push(rest[..rest.len() - behind.len()].to_owned());
            behind
        } else if let Some(behind) = rest.strip_prefix("::") {
            tokens.push("::".to_owned());
            behind
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            after
        };
    }
    tokens
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where a text or character ends, behind its first quote.
fn end_of_text(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at,
            _ => {}
        }
    }
    text.len()
}

/// What stands in `r"…"` or `r#"…"#`, and what follows.
fn raw_text(rest: &str) -> Option<(&str, &str)> {
    let marks = rest.trim_start_matches('b').strip_prefix('r')?;
    let text = marks.trim_start_matches('#');
    let end = format!("\"{}", &marks[..marks.len() - text.len()]);
    text.strip_prefix('"')?.split_once(&end)
}

/// Behind the bracket that closes the one at `at`.
fn behind_group(tokens: &[String], at: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Behind the item at `at`, with its attributes.
fn behind_item(tokens: &[String], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        at = match token.as_str() {
            ";" => return at + 1,
            "{" => return behind_group(tokens, at),
            "(" | "[" => behind_group(tokens, at),
            _ => at + 1,
        };
    }
    at
}

/// A file of the crate whose path below `src/` is `file`.
fn read(file: &str, text: &str) -> Module {
    let tokens = tokens(text);
    let mut module = Module::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let starts = |words: &[&str]| {
            tokens[at..]
                .iter()
                .map(String::as_str)
                .take(words.len())
                .eq(words.iter().copied())
        };
        if starts(&["#", "[", "cfg", "(", "test", ")"]) {
            let end = behind_item(&tokens, behind_group(&tokens, at + 1));
            module.tests.extend(test_module(file, &tokens[at..end]));
            at = end;
        } else if token == "use" && !starts(&["use", "<"]) {
            let end = at + tokens[at..].iter().position(|it| it == ";").unwrap_or(0);
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            let is_passed_on = before.is_some_and(|it| it == "pub" || it == ")");
            for (name, path) in leaves(&[], &tokens[at + 1..end]) {
                module.uses.push(Use {
                    name,
                    path,
                    is_passed_on,
                });
            }
            at = end.max(at + 1);
        } else {
            module.code.push(token.clone());
            at += 1;
        }
    }
    module
}

/// `mod x;` under `cfg(test)`: the module that has no file, or the file of another name.
fn test_module(file: &str, item: &[String]) -> Option<String> {
    let [.., mod_, name, end] = item else {
        return None;
    };
    if mod_ != "mod" || end != ";" {
        return None;
    }
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    match item.iter().find_map(|token| token.strip_prefix('"')) {
        Some(other) => Some(module_of(
            format!("{folder}/{other}").trim_start_matches('/'),
        )),
        None => Some(join(&module_of(file), name)),
    }
}

/// The names of a `use` and their paths: `a::{b, c as d, self, *}`.
fn leaves(before: &[String], tree: &[String]) -> Vec<(Option<String>, Path)> {
    let mut path = before.to_vec();
    let words = tree
        .iter()
        .take_while(|token| *token != "{" && *token != "as");
    path.extend(words.filter(|token| *token != "::").cloned());
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let is_all = path.pop_if(|last| last == "*").is_some();
        if !before.is_empty() {
            path.pop_if(|last| last == "self");
        }
        let alias = tree.iter().skip_while(|token| *token != "as").nth(1);
        let name = alias.or(path.last()).filter(|_| !is_all).cloned();
        return vec![(name, path)];
    };
    let (mut found, mut depth, mut part) = (Vec::new(), 0, Vec::new());
    for token in &tree[open + 1..] {
        depth += i32::from(token == "{") - i32::from(token == "}");
        if depth >= 0 && !(depth == 0 && token == ",") {
            part.push(token.clone());
        } else if !part.is_empty() {
            found.extend(leaves(&path, &std::mem::take(&mut part)));
        }
    }
    found
}

/// `a/b.rs` is `a::b`; `lib.rs` and `main.rs` are the root, "".
fn module_of(file: &str) -> String {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    match name {
        "lib" | "main" => String::new(),
        _ => name.strip_suffix("/mod").unwrap_or(name).replace('/', "::"),
    }
}

fn join(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        _ => format!("{module}::{name}"),
    }
}

/// The modules of one crate.
pub(super) struct Crate(BTreeMap<String, Module>);

impl Crate {
    /// From the paths below `src/` and the texts.
    pub(super) fn read<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let read = files.map(|(file, text)| (module_of(file), read(file, text)));
        let mut modules: BTreeMap<String, Module> = read.collect();
        let tests: Vec<String> = modules
            .values()
            .flat_map(|module| module.tests.clone())
            .collect();
        modules.retain(|name, _| {
            let is_below = |test: &String| {
                name.strip_prefix(test)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            };
            !tests.iter().any(is_below)
        });
        Self(modules)
    }

    /// A path as it stands in a module, from the root on. `None`: it leads out of the crate, or begins with a type.
    fn absolute(&self, module: &str, path: &[String]) -> Option<Path> {
        let mut here: Path = module
            .split("::")
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let [first, rest @ ..] = path else {
            return None;
        };
        match first.as_str() {
            "crate" => here.clear(),
            "self" => {}
            "super" => {
                here.pop()?;
                if rest.first().is_some_and(|next| next == "super") {
                    return self.absolute(&here.join("::"), rest);
                }
            }
            name => {
                let child = join(module, name);
                let is_below = |it: &String| *it == child || it.starts_with(&format!("{child}::"));
                if self.0.keys().any(is_below) {
                    here.push(child.rsplit("::").next()?.to_owned());
                } else {
                    let named = |it: &&Use| {
                        it.name.as_deref() == Some(name) && it.path.first() != Some(first)
                    };
                    let named = self.0.get(module)?.uses.iter().find(named)?;
                    here = self.absolute(module, &named.path)?;
                }
            }
        }
        here.extend(rest.iter().cloned());
        Some(here)
    }

    fn defines(&self, module: &str, name: &str) -> bool {
        const KINDS: [&str; 8] = [
            "fn", "struct", "enum", "union", "const", "static", "type", "trait",
        ];
        let code = &self.0[module].code;
        let is_item = |it: &[String]| KINDS.contains(&it[0].as_str()) && it[1] == name;
        let is_macro = |it: &[String]| it[0] == "macro_rules" && it[2] == name;
        code.windows(2).any(is_item) || code.windows(3).any(is_macro)
    }

    /// The module that defines what a path leads to, names that others pass on followed. `None`: the path leads to a
    /// module itself, or out of the crate.
    fn definition(&self, path: &[String]) -> Option<String> {
        let mut len = path.len();
        while len > 0 && !self.0.contains_key(&path[..len].join("::")) {
            len -= 1;
        }
        let (module, name) = (path[..len].join("::"), path.get(len)?);
        let uses = &self.0.get(&module)?.uses;
        if self.defines(&module, name) {
            return Some(module);
        }
        let onward = |taken: &Use, rest: usize| {
            let mut next = self.absolute(&module, &taken.path)?;
            next.extend_from_slice(&path[rest..]);
            self.definition(Some(&next).filter(|next| *next != path)?)
        };
        if let Some(taken) = uses.iter().find(|it| it.name.as_ref() == Some(name)) {
            return onward(taken, len + 1);
        }
        let all = uses.iter().filter(|it| it.name.is_none());
        let mut there = all.filter_map(|taken| onward(taken, len));
        let there = there.find(|there| self.defines(there, name));
        there.or(Some(module))
    }

    /// The paths by which a module uses others.
    fn paths(module: &Module) -> Vec<Path> {
        let says = |name: &String| module.code.contains(name);
        let needed = module
            .uses
            .iter()
            .filter(|it| !it.is_passed_on || it.name.as_ref().is_some_and(says));
        let path = |it: &Use| {
            let all = it.name.is_none().then(|| "*".to_owned());
            it.path.iter().cloned().chain(all).collect()
        };
        let mut paths: Vec<Path> = needed.map(path).collect();
        let code = &module.code;
        let in_bracket = ["pub", "(", "in"].map(str::to_owned);
        for at in 0..code.len() {
            let before = at.checked_sub(1).map_or("", |before| &code[before]);
            // `pub(in crate::x)` says who may use it.
            let is_visibility = code[..at].ends_with(&in_bracket);
            if !is_name(&code[at]) || is_visibility || ["::", "."].contains(&before) {
                continue;
            }
            let mut path = vec![code[at].clone()];
            let behind = code[at + 1..].chunks_exact(2);
            path.extend(
                behind
                    .take_while(|it| it[0] == "::" && is_name(&it[1]))
                    .map(|it| it[1].clone()),
            );
            if path.len() > 1 {
                paths.push(path);
            }
        }
        paths
    }

    /// Between modules that are so many names deep.
    pub(super) fn arrows(&self, depth: usize) -> Arrows {
        let folded = |module: &str| {
            module
                .split("::")
                .take(depth)
                .collect::<Vec<_>>()
                .join("::")
        };
        let mut arrows = Arrows::new();
        for (name, module) in &self.0 {
            let from = arrows.entry(folded(name)).or_default();
            for path in Self::paths(module) {
                let absolute = self.absolute(name, &path);
                if let Some(to) = absolute.and_then(|path| self.definition(&path))
                    && folded(&to) != folded(name)
                {
                    from.entry(folded(&to)).or_insert_with(|| path.join("::"));
                }
            }
        }
        arrows
    }
}
