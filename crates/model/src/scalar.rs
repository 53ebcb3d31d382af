//! Typed reading of one YAML value. Each reader reports its own mistake, with what was expected and
//! how to write it, and answers `None`; the caller goes on, so that later mistakes are found too.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::diagnostic::{Sink, Span};
use crate::render::printable;
use crate::yaml::{Kind, Node, Value, resolve};

/// A value and the place it was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) at: Span,
}

impl<T> Spanned<T> {
    pub(crate) fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }
}

/// What stands there, in words.
pub(crate) fn described(node: &Node) -> &'static str {
    match &node.value {
        Value::Quoted(_) => "text",
        Value::List(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Refused => "something else",
        Value::Plain(text) => match resolve(text) {
            Kind::Nothing => "nothing",
            Kind::Boolean(_) => "true or false",
            Kind::Integer => "a number",
            Kind::Float => "a number with a fraction or exponent",
            Kind::Text => "text",
        },
    }
}

/// Reports "`key` must be …, not …"; says nothing of what has been reported before.
pub(crate) fn wrong_type(node: &Node, what: &str, expected: &str, help: &str, sink: &mut Sink) {
    if !matches!(node.value, Value::Refused) {
        let message = format!("{what} must be {expected}, not {}", described(node));
        sink.error(node.at, message, help);
    }
}

/// Text. A scalar that other YAML readers would take for a number is refused, not guessed at.
pub(crate) fn text<'n>(
    node: &'n Node,
    what: &str,
    help: &str,
    sink: &mut Sink,
) -> Option<Spanned<&'n str>> {
    match &node.value {
        Value::Quoted(text) => return Some(Spanned::new(text, node.at)),
        Value::Plain(text) if resolve(text) == Kind::Text => {
            return Some(Spanned::new(text, node.at));
        }
        Value::Plain(_) | Value::List(_) | Value::Mapping(_) | Value::Refused => {}
    }
    wrong_type(node, what, "text", help, sink);
    None
}

/// A whole number in a range.
pub(crate) fn integer(
    node: &Node,
    what: &str,
    range: RangeInclusive<u32>,
    sink: &mut Sink,
) -> Option<Spanned<u32>> {
    let (low, high) = (range.start(), range.end());
    let help = if low == high {
        format!("write {low}")
    } else {
        format!("write a whole number from {low} to {high}")
    };
    if let Value::Plain(written) = &node.value
        && let Some(number) = capital_radix(written)
    {
        let message = format!(
            "{what} must be a number: YAML takes `{}` for text because of the capital letter",
            printable(written)
        );
        sink.error(node.at, message, &format!("write {number}"));
        return None;
    }
    let Value::Plain(written) = &node.value else {
        let quoted_number =
            matches!(&node.value, Value::Quoted(text) if resolve(text) == Kind::Integer);
        let help = if quoted_number {
            "remove the quotes"
        } else {
            &help
        };
        wrong_type(node, what, "a number", help, sink);
        return None;
    };
    if resolve(written) != Kind::Integer {
        wrong_type(node, what, "a whole number", &help, sink);
        return None;
    }
    let digits = written.trim_start_matches(['+', '-']);
    if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        let message = format!("{what} has a leading zero, which some YAML readers take for octal");
        sink.error(node.at, message, "remove the zero");
        return None;
    }
    let number = if let Some(hex) = written.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if let Some(octal) = written.strip_prefix("0o") {
        i64::from_str_radix(octal, 8)
    } else {
        written.parse()
    };
    // What does not even fit i64 is out of range as well.
    match number.ok().and_then(|number| u32::try_from(number).ok()) {
        Some(number) if range.contains(&number) => Some(Spanned::new(number, node.at)),
        _ => {
            let message = format!("{what} is out of range: {}", printable(written));
            sink.error(node.at, message, &help);
            None
        }
    }
}

/// `0x88cc`, of `0X88CC`: YAML knows hexadecimal and octal numbers by a small letter only.
fn capital_radix(written: &str) -> Option<String> {
    let number = written.to_lowercase();
    let is_capital = written.starts_with("0X") || written.starts_with("0O");
    (is_capital && resolve(&number) == Kind::Integer).then_some(number)
}

/// `true` or `false`.
pub(crate) fn boolean(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<bool>> {
    if let Value::Plain(text) = &node.value
        && let Kind::Boolean(value) = resolve(text)
    {
        return Some(Spanned::new(value, node.at));
    }
    wrong_type(
        node,
        what,
        "true or false",
        "write `true` or `false`, without quotes",
        sink,
    );
    None
}

/// One of a few words.
pub(crate) fn choice<T: Copy + Display>(
    node: &Node,
    what: &str,
    choices: &[T],
    sink: &mut Sink,
) -> Option<Spanned<T>> {
    let names: Vec<String> = choices.iter().map(T::to_string).collect();
    // a` or `b; a`, `b` or `c
    let all = match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{}` or `{last}", others.join("`, `")),
        None => String::new(),
    };
    let written = text(node, what, &format!("write `{all}`"), sink)?;
    let found = names.iter().position(|name| name == written.value);
    if let Some(&value) = found.and_then(|index| choices.get(index)) {
        return Some(Spanned::new(value, node.at));
    }
    let message = format!("{what} must be `{all}`, not `{}`", printable(written.value));
    let names = names.iter().map(String::as_str);
    let help = sink.suggest(written.value, names, || Some(format!("write `{all}`")));
    sink.report(node.at, message, help);
    None
}
