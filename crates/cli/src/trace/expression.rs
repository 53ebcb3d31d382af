//! `eth.dst=b1, tcp.dport=80` → [`Wish`]: what a user said of a packet, each value right by itself, and
//! all of them possible together. Before it: the command line. After it: [`build`](super::build),
//! which fills in the rest.
//!
//! Fields are separated by commas, white space or `&&`; `==` is as good as `=`, as in `ovn-trace`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use overlane_model::Name;
use overlane_wire::Mac;

use super::error::PacketError;
use super::fields::{self, Field, Layer, Network, Takes, Transport, WORDS};

/// What a user said of a packet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    values: BTreeMap<&'static str, Value>,
    /// Every layer named, and by which word.
    layers: Vec<(Layer, &'static str)>,
}

/// A value. Which of them a field has follows from what it [takes](Takes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Station(Of<Mac>),
    Ip4(Of<Ipv4Addr>),
    Ip6(Of<Ipv6Addr>),
    Number(u32),
}

/// A value, or the port of the fabric whose value is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of<T> {
    Given(T),
    Port(Name),
}

impl Wish {
    /// Reads an expression.
    pub(crate) fn parse(text: &str) -> Result<Self, PacketError> {
        let mut wish = Self::default();
        let mut rest = text.trim_start_matches(is_separator);
        while !rest.is_empty() {
            let (item, after) = item(rest);
            wish.add(&item)?;
            rest = after.trim_start_matches(is_separator);
        }
        wish.check()?;
        Ok(wish)
    }

    fn add(&mut self, item: &Item<'_>) -> Result<(), PacketError> {
        if let Some((word, layer)) = WORDS.iter().find(|(word, _)| *word == item.name) {
            if item.value.is_some() {
                return Err(PacketError::TakesNoValue(word));
            }
            self.layers.push((*layer, word));
            return Ok(());
        }
        let field = fields::find(item.name)?;
        let text = item.value.ok_or(PacketError::NoValue(field.name))?;
        let value = value(field, text)?;
        self.layers.push((field.layer, field.name));
        match self.values.insert(field.name, value) {
            None => Ok(()),
            Some(_) => Err(PacketError::Twice(field.name)),
        }
    }

    /// Every two fields can be in one packet, and a super-packet has something to cut.
    fn check(&self) -> Result<(), PacketError> {
        for (index, (layer, name)) in self.layers.iter().enumerate() {
            let earlier = self.layers.iter().take(index);
            let clash = earlier
                .into_iter()
                .find(|(other, _)| !layer.goes_with(*other));
            if let Some((_, other)) = clash {
                return Err(PacketError::Conflict(other, name));
            }
        }
        if self.number("gso").is_some() && self.transport().is_none() {
            return Err(PacketError::Missing {
                field: "tcp, udp or sctp",
                why: "`gso` says how one of them is cut".to_owned(),
                help: "add one, like `tcp`".to_owned(),
            });
        }
        if self.number("gso").is_some() && self.number("size").is_none() {
            return Err(PacketError::Missing {
                field: "size",
                why: "`gso` cuts the payload".to_owned(),
                help: "say how much there is, like size=64000".to_owned(),
            });
        }
        Ok(())
    }

    /// The header behind Ethernet; [`Network::Ip`] if only the one behind it is known.
    pub(crate) fn network(&self) -> Option<Network> {
        let all = || self.layers.iter().filter_map(|(layer, _)| layer.network());
        all()
            .find(|network| *network != Network::Ip)
            .or(all().next())
    }

    /// The header behind IP.
    pub(crate) fn transport(&self) -> Option<Transport> {
        self.layers.iter().find_map(|(layer, _)| layer.transport())
    }

    /// Whether a layer was named.
    pub(crate) fn has(&self, layer: Layer) -> bool {
        self.layers.iter().any(|(named, _)| *named == layer)
    }

    pub(crate) fn number(&self, field: &str) -> Option<u32> {
        match self.values.get(field)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A number that the field's range keeps within 16 bits.
    pub(crate) fn short(&self, field: &str) -> Option<u16> {
        u16::try_from(self.number(field)?).ok()
    }

    /// A number that the field's range keeps within 8 bits.
    pub(crate) fn octet(&self, field: &str) -> Option<u8> {
        u8::try_from(self.number(field)?).ok()
    }

    pub(crate) fn station(&self, field: &str) -> Option<&Of<Mac>> {
        match self.values.get(field)? {
            Value::Station(station) => Some(station),
            _ => None,
        }
    }

    pub(crate) fn ip4(&self, field: &str) -> Option<&Of<Ipv4Addr>> {
        match self.values.get(field)? {
            Value::Ip4(address) => Some(address),
            _ => None,
        }
    }

    pub(crate) fn ip6(&self, field: &str) -> Option<&Of<Ipv6Addr>> {
        match self.values.get(field)? {
            Value::Ip6(address) => Some(address),
            _ => None,
        }
    }
}

/// A word, and a value if it has one.
struct Item<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | '&')
}

/// The first item of a text that does not begin with a separator, and what follows.
fn item(text: &str) -> (Item<'_>, &str) {
    let end = text
        .find(|c: char| is_separator(c) || c == '=')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(rest) = rest.trim_start().strip_prefix('=') else {
        let value = None;
        return (Item { name, value }, rest);
    };
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    if let Some((quoted, after)) = rest
        .strip_prefix('"')
        .and_then(|inside| inside.split_once('"'))
    {
        let value = Some(quoted);
        return (Item { name, value }, after);
    }
    let (value, rest) = rest.split_at(rest.find(is_separator).unwrap_or(rest.len()));
    let value = Some(value).filter(|value| !value.is_empty());
    (Item { name, value }, rest)
}

fn value(field: &'static Field, text: &str) -> Result<Value, PacketError> {
    let read = match field.takes {
        Takes::Station => station(text).map(Value::Station),
        Takes::Ip4 => ip4(text).map(Value::Ip4),
        Takes::Ip6 => ip6(text).map(Value::Ip6),
        Takes::Number(..) | Takes::Word(..) | Takes::Flags => {
            field.takes.number(text).map(Value::Number)
        }
    };
    read.ok_or_else(|| PacketError::value(field.name, text, field.takes.describe()))
}

fn station(text: &str) -> Option<Of<Mac>> {
    if text == "broadcast" {
        return Some(Of::Given(Mac::BROADCAST));
    }
    let port = || Name::new(text).ok().map(Of::Port);
    text.parse().ok().map(Of::Given).or_else(port)
}

fn ip4(text: &str) -> Option<Of<Ipv4Addr>> {
    // What looks like an address that is not whole is not looked for among the ports.
    let numeric = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let port = || Name::new(text).ok().filter(|_| !numeric).map(Of::Port);
    text.parse().ok().map(Of::Given).or_else(port)
}

fn ip6(text: &str) -> Option<Of<Ipv6Addr>> {
    let port = || {
        let name = Name::new(text).ok()?;
        // An IPv4 address is a name as well.
        let wrong_family = text.parse::<Ipv4Addr>().is_ok();
        (!wrong_family).then_some(Of::Port(name))
    };
    text.parse().ok().map(Of::Given).or_else(port)
}

#[cfg(test)]
#[path = "expression_test.rs"]
mod tests;
