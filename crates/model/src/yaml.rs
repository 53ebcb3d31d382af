//! YAML text as a tree that remembers places. Comes before [`decode`](crate::decode).
//!
//! A fabric file is plain data. What YAML has beyond that (anchors, aliases, tags, several documents)
//! is refused here, and nesting is limited, so that a small file cannot become a large one.
//! Duplicate keys, which YAML forbids and most readers ignore, are marked.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::diagnostic::{Sink, Span};
use crate::render::printable;

/// A value and its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// A scalar as written, without quotes.
    Plain(String),
    /// A scalar in quotes, or a block of text.
    Quoted(String),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
    /// Something whose mistake has been reported.
    Refused,
}

/// A key of a mapping, and its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Written without quotes.
    pub(crate) key_plain: bool,
    pub(crate) key_at: Span,
    pub(crate) value: Node,
    /// Where the same key stood before in this mapping.
    pub(crate) duplicate_of: Option<Span>,
}

/// The deepest file in the manual has four levels.
const NESTING: usize = 16;

/// Reads the one document of a part of the fabric. `None`: what is wrong is in `sink`, and there is nothing more
/// to say about the file. A syntax error is always the last mistake of its file.
pub(crate) fn read(text: &str, part: u16, sink: &mut Sink) -> Option<Node> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: NESTING,
        block_nesting_limit: NESTING,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut events = Events { parser, part, sink };
    match events.document() {
        Ok(Some(root)) => Some(root),
        Ok(None) => {
            events.sink.error(
                Span {
                    part,
                    ..Span::START
                },
                "the file is empty".into(),
                "a fabric file begins with `version: 1`; examples/two-hosts.yaml is a small one",
            );
            None
        }
        Err(error) => {
            let mark = error.marker();
            let message = format!("not YAML: {}", printable(&error.kind().to_string()));
            let help =
                "check indentation, brackets and quotes at this place and on the line before";
            let at = span(part, mark, mark);
            events.sink.error(at, message, help);
            None
        }
    }
}

struct Events<'t, 's> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    part: u16,
    sink: &'s mut Sink,
}

impl<'t> Events<'t, '_> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, ScanError> {
        match self.parser.next() {
            Some(Ok((event, at))) => Ok(Some((event, span(self.part, &at.start, &at.end)))),
            Some(Err(error)) => Err(error),
            None => Ok(None),
        }
    }

    fn document(&mut self) -> Result<Option<Node>, ScanError> {
        let mut root = None;
        while let Some((event, at)) = self.next()? {
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                Event::DocumentStart(..) if root.is_some() => {
                    let help = "keep one document in the file";
                    self.sink
                        .error(at, "a second YAML document begins here".into(), help);
                    break;
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, at)?),
            }
        }
        // `---` alone: a document of nothing.
        let nothing = |node: &Node| matches!(&node.value, Value::Plain(text) if resolve(text) == Kind::Nothing);
        Ok(root.filter(|node| !nothing(node)))
    }

    /// The node that begins with `event`. Recursion is bounded by the nesting limits.
    fn node(&mut self, event: Event<'t>, at: Span) -> Result<Node, ScanError> {
        if let Event::Alias(_) = event {
            self.refuse(at, "an alias (`*…`)", "write the value out");
            let value = Value::Refused;
            return Ok(Node { at, value });
        }
        if event.anchor_id().is_some_and(|id| id != 0) {
            self.refuse(at, "an anchor (`&…`)", "remove it");
        }
        if event.tag().is_some() {
            self.refuse(at, "a tag (`!…`)", "remove it");
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Value::Plain(text.into_owned()),
            Event::Scalar(text, ..) => Value::Quoted(text.into_owned()),
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.mapping()?,
            // No other event begins a node.
            _ => Value::Refused,
        };
        Ok(Node { at, value })
    }

    fn list(&mut self) -> Result<Value, ScanError> {
        let mut nodes = Vec::new();
        while let Some((event, at)) = self.next()? {
            match event {
                Event::SequenceEnd => break,
                event => nodes.push(self.node(event, at)?),
            }
        }
        Ok(Value::List(nodes))
    }

    fn mapping(&mut self) -> Result<Value, ScanError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut first: HashMap<String, Span> = HashMap::new();
        while let Some((event, key_at)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, key_at)?;
            let Some((event, at)) = self.next()? else {
                break;
            };
            let value = self.node(event, at)?;
            let (key, key_plain) = match key.value {
                Value::Plain(text) => (text, true),
                Value::Quoted(text) => (text, false),
                Value::Refused => continue,
                Value::List(_) | Value::Mapping(_) => {
                    let help = "a key is one word; put text with `{`, `[` or `: ` in quotes";
                    self.sink
                        .error(key_at, "a list or mapping as a key".into(), help);
                    continue;
                }
            };
            let duplicate_of = first.get(&key).copied();
            if duplicate_of.is_none() {
                first.insert(key.clone(), key_at);
            }
            entries.push(Entry {
                key,
                key_plain,
                key_at,
                value,
                duplicate_of,
            });
        }
        Ok(Value::Mapping(entries))
    }

    fn refuse(&mut self, at: Span, what: &str, help: &str) {
        let message = format!("{what} has no place in a fabric file");
        self.sink.error(at, message, help);
    }
}

/// From the parser's columns (from 0) to ours (from 1). A stretch over several lines is drawn to the
/// end of its first one.
fn span(part: u16, start: &Marker, end: &Marker) -> Span {
    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let length = if start.line() == end.line() {
        end.col().saturating_sub(start.col()).max(1)
    } else {
        1
    };
    Span {
        part,
        line: narrow(start.line()).max(1),
        column: narrow(start.col()).saturating_add(1),
        length: narrow(length),
    }
}

/// What YAML 1.2 reads in a scalar without quotes (core schema, §10.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Nothing,
    Boolean(bool),
    Integer,
    Float,
    Text,
}

/// Resolves a scalar without quotes.
pub(crate) fn resolve(plain: &str) -> Kind {
    match plain {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Nothing,
        "true" | "True" | "TRUE" => return Kind::Boolean(true),
        "false" | "False" | "FALSE" => return Kind::Boolean(false),
        ".nan" | ".NaN" | ".NAN" => return Kind::Float,
        _ => {}
    }
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let all =
        |text: &str, digit: fn(&char) -> bool| !text.is_empty() && text.chars().all(|c| digit(&c));
    let radix = |prefix: &str, digit| {
        plain
            .strip_prefix(prefix)
            .is_some_and(|rest| all(rest, digit))
    };
    if all(unsigned, char::is_ascii_digit)
        || radix("0x", char::is_ascii_hexdigit)
        || radix("0o", |c| ('0'..='7').contains(c))
    {
        Kind::Integer
    } else if matches!(unsigned, ".inf" | ".Inf" | ".INF")
        // Rust also reads "inf" and "nan", which are text in YAML.
        || (unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && plain.parse::<f64>().is_ok())
    {
        Kind::Float
    } else {
        Kind::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema() {
        for (text, kind) in [
            ("", Kind::Nothing),
            ("~", Kind::Nothing),
            ("null", Kind::Nothing),
            ("True", Kind::Boolean(true)),
            ("yes", Kind::Text),
            ("12", Kind::Integer),
            ("-0x1f", Kind::Text),
            ("0x1f", Kind::Integer),
            ("0o17", Kind::Integer),
            ("1e3", Kind::Float),
            (".5", Kind::Float),
            ("-.inf", Kind::Float),
            ("inf", Kind::Text),
            ("02:00:00:00:00:01", Kind::Text),
            ("198.18.0.1", Kind::Text),
            ("49152-65535", Kind::Text),
            ("5_000", Kind::Text),
        ] {
            assert_eq!(resolve(text), kind, "{text}");
        }
    }

    #[test]
    fn places_and_duplicates() {
        let mut sink = Sink::default();
        let root = read("a: 1\nbä: {c: \"x y\", c: 2}\n", 0, &mut sink).unwrap();
        assert!(!sink.has_errors());
        let Value::Mapping(entries) = root.value else {
            panic!()
        };
        let at = |line, column, length| Span {
            part: 0,
            line,
            column,
            length,
        };
        assert_eq!(
            (entries[1].key_at, entries[1].value.at.column),
            (at(2, 1, 2), 5)
        );
        let Value::Mapping(inner) = &entries[1].value.value else {
            panic!()
        };
        assert_eq!(inner[0].value.at, at(2, 9, 5));
        assert_eq!(inner[0].duplicate_of, None);
        assert_eq!(inner[1].duplicate_of, Some(at(2, 6, 1)));
    }

    #[test]
    fn nothing_but_data() {
        for (text, part) in [
            ("a: &x 1\n", "an anchor"),
            ("a: &x 1\nb: *x\n", "an alias"),
            ("a: !!str 1\n", "a tag"),
            ("a: 1\n---\nb: 2\n", "second YAML document"),
            ("? [a]\n: 1\n", "as a key"),
            ("a: [\n", "not YAML"),
            ("", "empty"),
            ("# nothing\n", "empty"),
            ("---\n", "empty"),
            (&"[".repeat(1000), "not YAML"),
            (&"- ".repeat(1000), "not YAML"),
        ] {
            let shown = crate::Fabric::parse("f", text).unwrap_err().render(false);
            assert!(shown.contains(part), "{text:?}: {shown}");
        }
    }
}
