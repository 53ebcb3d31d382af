//! A YAML file as a tree that remembers places: what a mistake is pointed out in.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

/// A value of YAML.
#[derive(Debug)]
pub(super) enum Value {
    Nothing,
    Flag(bool),
    Whole(i128),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) at: Place,
    pub(super) name: String,
}

/// The tree of a file.
pub(super) fn read(text: &str) -> Result<Node, serde_saphyr::Error> {
    serde_saphyr::from_str::<Spanned<Value>>(text).map(Node::from)
}

/// Keys that were called otherwise in an earlier version, and still may be.
const OLD_NAMES: [(&str, &str); 1] = [("backends", "networks")];

impl Key {
    /// It is the key of that name.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name || OLD_NAMES.contains(&(self.name.as_str(), name))
    }
}

impl Node {
    /// The value at `path`, such as `matrix.groups[0].bytes[2]`, or what comes nearest above it: a default is
    /// written nowhere.
    pub(super) fn find(&self, path: &str) -> &Self {
        let steps = path.split(['.', '[']).filter(|step| !step.is_empty());
        let mut node = self;
        for step in steps {
            let below = match &node.value {
                Value::Map(entries) => {
                    let mut entries = entries.iter();
                    let found = entries.find(|(key, _)| key.is(step));
                    found.map(|(_, below)| below)
                }
                Value::List(items) => {
                    let index = step.trim_end_matches(']').parse::<usize>();
                    index.ok().and_then(|index| items.get(index))
                }
                _ => None,
            };
            match below {
                Some(below) => node = below,
                None => break,
            }
        }
        node
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        // Where it is written, not where an alias repeats it.
        let at = place(&spanned.defined);
        let value = spanned.value;
        Self { at, value }
    }
}

/// The parser's place; the beginning of the file where it knows none.
pub(super) fn place(location: &serde_saphyr::Location) -> Place {
    Place {
        line: location.line().max(1),
        column: location.column().max(1),
    }
}

/// A word of the file for a message: its beginning, without what could move a terminal's cursor.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

/// As somebody would write it; lists and mappings are only named.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Flag(value) => write!(f, "`{value}`"),
            Self::Whole(value) => write!(f, "`{value}`"),
            Self::Number(value) => write!(f, "`{value}`"),
            Self::Text(text) => write!(f, "`{}`", shown(text)),
            Self::List(_) => write!(f, "a list"),
            Self::Map(_) => write!(f, "a mapping"),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain data")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Flag(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Value>>()? {
            items.push(item.into());
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let node = map.next_value::<Spanned<Value>>()?.into();
            let at = place(&key.defined);
            let name = key.value;
            entries.push((Key { at, name }, node));
        }
        Ok(Value::Map(entries))
    }
}
