//! A page of Markdown as the names in it: inline code, links, headings, and the lines of its code blocks.

use std::path::{Path, PathBuf};

/// A page.
pub(super) struct Page {
    /// Where it lies, from the root of the tree.
    pub(super) path: PathBuf,
    /// What is in it, in order.
    pub(super) parts: Vec<Part>,
}

/// A part of a page, with the number of its line.
pub(super) struct Part {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

/// What a part is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The text between two backquotes.
    Code(String),
    /// The same in the first cell of a table, with the first word of the table's head.
    Cell(String, String),
    /// Where a link or a picture leads.
    Link(String),
    /// The anchor of a heading.
    Anchor(String),
    /// A line of a block, with the word behind its fence.
    Fenced(String, String),
    /// A line that is neither table nor block: so many characters.
    Prose(usize),
}

impl Page {
    pub(super) fn read(path: &Path, text: &str) -> Self {
        let mut parts = Vec::new();
        let mut fence: Option<String> = None;
        let mut head: Option<String> = None;
        for (at, text) in text.lines().enumerate() {
            let mut add = |kind| parts.push(Part { line: at + 1, kind });
            if let Some(word) = text.trim_start().strip_prefix("```") {
                fence = match fence {
                    Some(_) => None,
                    None => Some(word.to_owned()),
                };
                continue;
            }
            if let Some(word) = &fence {
                add(Kind::Fenced(word.clone(), text.to_owned()));
                continue;
            }
            if let Some(heading) = text.strip_prefix('#') {
                add(Kind::Anchor(anchor(heading)));
            }
            let (mut text, whole) = (text, text);
            match text.trim_start().strip_prefix('|') {
                None => {
                    head = None;
                    add(Kind::Prose(text.chars().count()));
                }
                Some(row) => {
                    let (first, others) = row.split_once(" | ").unwrap_or((row, ""));
                    match &head {
                        None => head = first.split_whitespace().next().map(str::to_owned),
                        Some(head) => {
                            let cell = |code| Kind::Cell(head.clone(), code);
                            codes(first).0.into_iter().for_each(|code| add(cell(code)));
                            text = others;
                        }
                    }
                }
            }
            codes(text)
                .0
                .into_iter()
                .for_each(|code| add(Kind::Code(code)));
            let (_, rest) = codes(whole);
            links(&rest).into_iter().for_each(|to| add(Kind::Link(to)));
        }
        Self {
            path: path.to_owned(),
            parts,
        }
    }

    pub(super) fn anchors(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.kind {
            Kind::Anchor(anchor) => Some(anchor.as_str()),
            _ => None,
        })
    }
}

/// The inline code of a line, and the line without it.
fn codes(line: &str) -> (Vec<String>, String) {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut open = line;
    while let Some((before, after)) = open.split_once('`') {
        let ticks = 1 + after.chars().take_while(|c| *c == '`').count();
        let end = "`".repeat(ticks);
        let Some((code, behind)) = after[ticks - 1..].split_once(&end) else {
            break;
        };
        rest.push_str(before);
        found.push(code.trim().replace("\\|", "|"));
        open = behind;
    }
    rest.push_str(open);
    (found, rest)
}

fn links(line: &str) -> Vec<String> {
    let ends = line.split("](").skip(1);
    ends.filter_map(|rest| rest.split(')').next())
        .map(str::to_owned)
        .collect()
}

/// As the sites that show Markdown make it: small letters, no punctuation, `-` for a space.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_names() {
        let text = "## The `vlan` key: two\nSee [a](b.md#c) and `x` or ``y`z``.\n| `t` |\n| `u` | `v` |\n```yaml\nk: 1\n```\n";
        let page = Page::read(Path::new("p.md"), text);
        let kinds: Vec<_> = page.parts.into_iter().map(|p| (p.line, p.kind)).collect();
        let code = |text: &str| Kind::Code(text.to_owned());
        assert_eq!(
            kinds,
            [
                (1, Kind::Anchor("the-vlan-key-two".to_owned())),
                (1, Kind::Prose(22)),
                (1, code("vlan")),
                (2, Kind::Prose(35)),
                (2, code("x")),
                (2, code("y`z")),
                (2, Kind::Link("b.md#c".to_owned())),
                (3, code("t")),
                (4, Kind::Cell("`t`".to_owned(), "u".to_owned())),
                (4, code("v")),
                (6, Kind::Fenced("yaml".to_owned(), "k: 1".to_owned())),
            ]
        );
    }
}
