//! The keys of a study file and what each may hold, so that one look finds every mistake of form, each with its place:
//! the reader behind it stops at the first. A test keeps this table equal to the types.

use super::check::Found;
use super::near;
use super::tree::{self, Node, Value};
use crate::record::{BackendName, Feature, Test};
use crate::search::Preset;

/// What a value may be.
pub(super) enum Shape {
    Text,
    Flag,
    Whole,
    Number,
    /// One of these words.
    Word(fn() -> Vec<String>),
    List(&'static Self),
    /// A list of two.
    Pair(&'static Self),
    Map(&'static [Field]),
    /// A mapping whose other keys depend on the word under the first.
    Tagged(&'static str, &'static [(&'static str, &'static [Field])]),
}

/// A key of a mapping.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) need: Need,
    pub(super) shape: Shape,
}

/// Whether a key has to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Required,
    /// It may be left out, but not be empty.
    Default,
    /// It may be left out, or empty.
    Nullable,
}

use Need::{Default as Left, Nullable, Required};
use Shape::{Flag, List, Map, Number, Pair, Tagged, Text, Whole, Word};

const fn field(name: &'static str, need: Need, shape: Shape) -> Field {
    Field { name, need, shape }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const NETWORK: Shape = Word(|| words(&BackendName::ALL.map(BackendName::as_str)));
const TEST: Shape = Word(|| words(&Test::ALL.map(Test::as_str)));
const MTU: Shape = Word(|| words(&["standard", "jumbo"]));
const FAR_END: Shape = Word(|| words(&["host", "tester"]));
const GUESTS: Shape = Word(|| words(&["veth", "tap"]));
const FAMILY: Shape = Word(|| words(&["ipv4", "ipv6"]));
const TUNING: Shape = Word(|| words(&["alike", "best"]));
const FEATURE: Shape = Word(|| words(&Feature::ALL.map(Feature::as_str)));
const PRESET: Shape = Word(presets);

fn presets() -> Vec<String> {
    words(&Preset::ALL.map(Preset::name))
}

pub(super) const STUDY: Shape = Map(&[
    field("name", Required, Text),
    field("title", Required, Text),
    field("question", Required, Text),
    field("source", Nullable, Map(SOURCE)),
    field("method", Left, List(&Text)),
    field("matrix", Required, Map(MATRIX)),
    field("quick", Required, Map(MATRIX)),
    field("views", Left, List(&Tagged("view", VIEWS))),
    field("published", Left, Map(PUBLISHED)),
]);

const SOURCE: &[Field] = &[
    field("title", Required, Text),
    field("publisher", Required, Text),
    field("date", Required, Text),
    field("url", Required, Text),
    field("testbed", Required, Text),
];

const MATRIX: &[Field] = &[
    field("samples", Required, Whole),
    field("repeat", Nullable, Tagged("rule", RULES)),
    field("seconds", Required, Number),
    field("warm_up_seconds", Required, Number),
    field("networks", Required, List(&NETWORK)),
    field("against_itself", Left, Flag),
    field("busy_machine", Left, Flag),
    field("groups", Required, List(&Map(GROUP))),
];

const RULES: &[(&str, &[Field])] = &[
    (
        "within",
        &[
            field("set", Required, Whole),
            field("percent", Required, Number),
            field("attempts", Required, Whole),
        ],
    ),
    (
        "confidence",
        &[
            field("width_percent", Required, Number),
            field("most", Required, Whole),
        ],
    ),
];

const GROUP: &[Field] = &[
    field("tests", Required, List(&TEST)),
    field("bytes", Required, List(&Whole)),
    field("instances", Left, List(&Whole)),
    field("mtu", Left, List(&MTU)),
    field("offload", Left, List(&Flag)),
    field("far_end", Left, List(&FAR_END)),
    field("hosts", Left, List(&Whole)),
    field("pairs", Left, List(&Whole)),
    field("guests", Left, List(&GUESTS)),
    field("vnis", Left, List(&Whole)),
    field("inner", Left, List(&FAMILY)),
    field("underlay", Left, List(&FAMILY)),
    field("feature", Left, List(&FEATURE)),
    field("tuning", Left, List(&TUNING)),
    field("buffer_bytes", Nullable, Whole),
    field("rate_pps", Left, List(&Whole)),
    field("rate_mbps", Left, List(&Whole)),
    field("search", Nullable, PRESET),
    field("networks", Nullable, List(&NETWORK)),
    field("samples", Nullable, Whole),
    field("guest_memory_mib", Left, List(&Whole)),
    field("dirty_percent", Left, List(&Whole)),
    field("dirty_mib_per_second", Left, List(&Whole)),
    field("links", Left, List(&Whole)),
    field("postcopy", Left, List(&Flag)),
];

const PAIRS: Field = field("pairs", Required, List(&Pair(&NETWORK)));

const VIEWS: &[(&str, &[Field])] = &[
    ("packet-rate", &[]),
    ("difference", &[PAIRS]),
    ("guest-cpu", &[]),
    ("migrations", &[]),
    (
        "cpu-steps",
        &[
            field("baseline", Required, List(&NETWORK)),
            field("steps", Required, List(&NETWORK)),
            field("features", Left, List(&FEATURE)),
            field("at_gbps", Required, Number),
            field("cores", Required, Whole),
        ],
    ),
    ("frame-table", &[PAIRS]),
    ("vnis", &[]),
];

const PUBLISHED: &[Field] = &[
    field("tables", Left, List(&Map(TABLE))),
    field("ratios", Left, List(&Map(RATIO))),
    field("findings", Left, List(&Text)),
];

const TABLE: &[Field] = &[
    field("title", Required, Text),
    field("columns", Required, List(&Text)),
    field("rows", Required, List(&Map(ROW))),
];

const ROW: &[Field] = &[
    field("name", Required, Text),
    // Numbers and nulls: the reader behind this table looks at them.
    field("values", Required, List(&Number)),
    field("readings", Left, List(&Number)),
];

const RATIO: &[Field] = &[
    field("name", Required, Text),
    field("published", Required, Pair(&Number)),
    field("metric", Required, Text),
    field("a", Required, Map(SELECTOR)),
    field("b", Required, Map(SELECTOR)),
];

const SELECTOR: &[Field] = &[
    field("networks", Required, List(&NETWORK)),
    field("test", Nullable, TEST),
    field("bytes", Nullable, Whole),
    field("instances", Nullable, Whole),
    field("mtu", Nullable, MTU),
    field("offload", Nullable, Flag),
    field("vnis", Nullable, Whole),
    field("pairs", Nullable, Whole),
    field("links", Nullable, Whole),
    field("far_end", Nullable, FAR_END),
    field("feature", Nullable, FEATURE),
];

/// All mistakes of form.
pub(super) fn mistakes(root: &Node) -> Vec<Found> {
    let mut found = Vec::new();
    look(root, &STUDY, "", &mut found);
    found
}

fn look(node: &Node, shape: &Shape, path: &str, found: &mut Vec<Found>) {
    let expected = match (shape, &node.value) {
        (Text, Value::Text(_))
        | (Flag, Value::Flag(_))
        | (Number, Value::Number(_) | Value::Whole(_)) => return,
        // The one list with gaps: a published table's values.
        (Number, Value::Nothing) if path.contains(".values[") => return,
        (Text, _) => "a text; put it in quotes if it looks like a number",
        (Flag, _) => "true or false",
        (Number, _) => "a number",
        (Whole, Value::Whole(value)) if u32::try_from(*value).is_ok() => return,
        (Whole, _) => "a whole number from 0 to 4294967295",
        (Word(known), Value::Text(word)) => {
            return word_is_known(node, word, &known(), path, found);
        }
        (Word(_), _) => "one word",
        (List(of), Value::List(items)) => return look_at_items(items, of, path, found),
        (List(_), _) => "a list, such as [a, b]",
        (Pair(of), Value::List(items)) if items.len() == 2 => {
            return look_at_items(items, of, path, found);
        }
        (Pair(_), _) => "a list of two, such as [a, b]",
        (Map(fields), Value::Map(_)) => return look_at_map(node, fields, None, path, found),
        (Tagged(tag, variants), Value::Map(entries)) => {
            let named = entries.iter().find(|(key, _)| key.name == *tag);
            return match named {
                Some((_, word)) => look_at_tagged(node, word, (tag, variants), path, found),
                None => {
                    let known: Vec<_> = variants.iter().map(|(name, _)| *name).collect();
                    let message = format!("the key `{tag}` is missing");
                    let help = format!("known: {}", known.join(", "));
                    found.push(Found::at(node.at, path, message, help));
                }
            };
        }
        (Map(_) | Tagged(..), _) => "a mapping, such as { key: value }",
    };
    let message = format!("{} stands where another kind of value belongs", node.value);
    found.push(Found::at(
        node.at,
        path,
        message,
        format!("write {expected}"),
    ));
}

fn look_at_items(items: &[Node], of: &Shape, path: &str, found: &mut Vec<Found>) {
    for (index, item) in items.iter().enumerate() {
        look(item, of, &format!("{path}[{index}]"), found);
    }
}

fn word_is_known(node: &Node, word: &str, known: &[String], path: &str, found: &mut Vec<Found>) {
    if known.iter().any(|known| known == word) {
        return;
    }
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let message = format!("there is no {}", node.value);
    found.push(Found::at(node.at, path, message, near::help(word, &known)));
}

fn look_at_tagged(
    node: &Node,
    word: &Node,
    (tag, variants): (&'static str, &'static [(&'static str, &'static [Field])]),
    path: &str,
    found: &mut Vec<Found>,
) {
    let variant = match &word.value {
        Value::Text(text) => variants.iter().find(|(name, _)| name == text),
        _ => None,
    };
    match variant {
        Some((_, fields)) => look_at_map(node, fields, Some(tag), path, found),
        None => {
            let known: Vec<_> = variants.iter().map(|(name, _)| *name).collect();
            let help = match &word.value {
                Value::Text(text) => near::help(text, &known),
                _ => format!("known: {}", known.join(", ")),
            };
            let message = format!("there is no {}", word.value);
            found.push(Found::at(word.at, &below(path, tag), message, help));
        }
    }
}

fn look_at_map(
    node: &Node,
    fields: &'static [Field],
    tag: Option<&str>,
    path: &str,
    found: &mut Vec<Found>,
) {
    let Value::Map(entries) = &node.value else {
        return;
    };
    for (key, value) in entries {
        if tag == Some(key.name.as_str()) {
            continue;
        }
        let name = tree::shown(&key.name);
        let path = below(path, &name);
        match fields.iter().find(|field| key.is(field.name)) {
            Some(field) if field.need == Nullable && matches!(value.value, Value::Nothing) => {}
            Some(field) => look(value, &field.shape, &path, found),
            None => {
                let known: Vec<_> = fields.iter().map(|field| field.name).collect();
                let message = format!("there is no key `{name}` here");
                let help = if known.is_empty() {
                    "remove it".to_owned()
                } else {
                    near::help(&key.name, &known)
                };
                found.push(Found::at(key.at, &path, message, help));
            }
        }
    }
    let required = fields.iter().filter(|field| field.need == Required);
    for field in required {
        if !entries.iter().any(|(key, _)| key.is(field.name)) {
            let message = format!("the key `{}` is missing", field.name);
            let help = "docs/studies.md shows every key".to_owned();
            found.push(Found::at(node.at, path, message, help));
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
