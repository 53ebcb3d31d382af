//! Values as a case writes them: MAC addresses and bytes as text. Numbers and IP addresses are serde's own.

use overlane_wire::Mac;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A MAC address, written `"02:00:00:00:00:01"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MacText(pub Mac);

/// Bytes, written in hexadecimal; blanks between them do not count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hex(pub Vec<u8>);

impl Hex {
    /// Reads hexadecimal digits, two a byte.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let bytes = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
            _ => None,
        });
        bytes.collect::<Option<_>>().map(Self)
    }

    /// As [`parse`](Self::parse) reads it.
    pub fn text(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl<'de> Deserialize<'de> for MacText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for MacText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text)
            .ok_or_else(|| de::Error::custom(format!("`{text}` is not bytes in hexadecimal")))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&Self::text(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(Hex::parse("01 fF\n00"), Some(Hex(vec![1, 255, 0])));
        assert_eq!(Hex::parse("012"), None);
        assert_eq!(Hex::parse("0g"), None);
        assert_eq!(Hex::text(&[1, 255, 0]), "01ff00");
    }
}
