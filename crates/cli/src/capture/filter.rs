//! Which of the captured packets are shown: `ip4.src=198.18.1.0/24, tcp.dport=80`. Fields are those of
//! `trace`, of the inner frame; all that are named must agree. `!=` shows the others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_host::capture::Packet;
use overlane_model::{Hook, Verdict};
use overlane_wire::ip::protocol;
use overlane_wire::packet::Header;
use overlane_wire::{Mac, nd};
use thiserror::Error;

use crate::trace::fields::{self, Takes, WORDS};
use crate::trace::{PacketError, did_you_mean, printable};

/// What is asked of a packet beside its headers.
const VERDICT: &str = "verdict";
const HOOK: &str = "hook";
/// The word that stands for every drop reason.
const DROP: &str = "drop";

/// A filter that cannot be understood.
#[derive(Debug, Error)]
pub(crate) enum FilterError {
    /// As `trace` says it.
    #[error(transparent)]
    Field(#[from] PacketError),
    /// A value that is none.
    #[error("{field}: `{value}` is not {allowed}")]
    Value {
        field: String,
        value: String,
        allowed: String,
        help: Option<String>,
    },
    /// A field that makes packets and cannot tell them apart.
    #[error("`{0}` says how a packet is made, not what it is")]
    NotInPackets(&'static str),
}

impl FilterError {
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Field(error) => error.help(),
            Self::Value { help, .. } => help.clone(),
            Self::NotInPackets(_) => Some("leave it out".to_owned()),
        }
    }
}

/// Conditions, all of which must hold.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    what: What,
    /// `!=` or `!`.
    not: bool,
}

#[derive(Debug)]
enum What {
    Drop,
    Verdict(Verdict),
    Hook(Hook),
    Header(&'static str),
    Field(&'static str, Wanted),
}

/// A value that a user typed.
#[derive(Debug)]
enum Wanted {
    Mac(Mac),
    /// An address or, with less than all bits, a prefix.
    Address(IpAddr, u8),
    Number(u32),
}

/// A value that a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Mac(Mac),
    Address(IpAddr),
    Number(u32),
}

impl Filter {
    /// Reads conditions that are separated by commas, white space or `&&`.
    pub(crate) fn parse(text: &str) -> Result<Self, FilterError> {
        let separators = |c: char| c.is_whitespace() || matches!(c, ',' | '&');
        let conditions = text
            .split(separators)
            .filter(|item| !item.is_empty())
            .map(Condition::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { conditions })
    }

    /// Whether it says something about verdicts: then nothing is left out unasked.
    pub(crate) fn names_verdict(&self) -> bool {
        let verdict =
            |condition: &Condition| matches!(condition.what, What::Verdict(_) | What::Drop);
        self.conditions.iter().any(verdict)
    }

    /// Whether a packet with these inner headers is shown.
    pub(crate) fn matches(&self, packet: &Packet, inner: &[Header<'_>]) -> bool {
        (self.conditions.iter())
            .all(|condition| condition.what.holds(packet, inner) != condition.not)
    }
}

impl Condition {
    fn parse(item: &str) -> Result<Self, FilterError> {
        let (name, value, not) = split(item);
        let what = match (name, value) {
            (VERDICT, Some(value)) => verdict(value)?,
            (HOOK, Some(value)) => hook(value)?,
            (DROP, None) => What::Drop,
            _ => header_or_field(name, value)?,
        };
        Ok(Self { what, not })
    }
}

/// Name, value, and whether the opposite is meant.
fn split(item: &str) -> (&str, Option<&str>, bool) {
    if let Some((name, value)) = item.split_once("!=") {
        return (name, Some(value), true);
    }
    match item.split_once('=') {
        Some((name, value)) => (name, Some(value.strip_prefix('=').unwrap_or(value)), false),
        None => match item.strip_prefix('!') {
            Some(name) => (name, None, true),
            None => (item, None, false),
        },
    }
}

fn header_or_field(name: &str, value: Option<&str>) -> Result<What, FilterError> {
    if let Some((word, _)) = WORDS.iter().find(|(word, _)| *word == name) {
        return match value {
            None => Ok(What::Header(word)),
            Some(_) => Err(PacketError::TakesNoValue(word).into()),
        };
    }
    let field = fields::find(name)?;
    if matches!(field.name, "size" | "gso" | "nd.sll" | "nd.tll") || field.name.starts_with("sctp")
    {
        return Err(FilterError::NotInPackets(field.name));
    }
    let value = value.ok_or(PacketError::NoValue(field.name))?;
    let wanted = match field.takes {
        Takes::Station if value == "broadcast" => Some(Wanted::Mac(Mac::BROADCAST)),
        Takes::Station => value.parse().ok().map(Wanted::Mac),
        Takes::Ip4 => prefix(value)
            .filter(|(address, _)| address.is_ipv4())
            .map(address),
        Takes::Ip6 => prefix(value)
            .filter(|(address, _)| address.is_ipv6())
            .map(address),
        Takes::Number(..) | Takes::Word(..) | Takes::Flags => {
            field.takes.number(value).map(Wanted::Number)
        }
    };
    let allowed = match field.takes {
        Takes::Station => "a MAC address, or broadcast".to_owned(),
        Takes::Ip4 => "an IPv4 address or prefix, like 198.18.1.0/24".to_owned(),
        Takes::Ip6 => "an IPv6 address or prefix, like 2001:2::/64".to_owned(),
        other => other.describe(),
    };
    let wanted = wanted.ok_or_else(|| wrong(field.name, value, allowed, None))?;
    Ok(What::Field(field.name, wanted))
}

fn address((address, bits): (IpAddr, u8)) -> Wanted {
    Wanted::Address(address, bits)
}

fn wrong(field: &str, value: &str, allowed: String, help: Option<String>) -> FilterError {
    FilterError::Value {
        field: field.to_owned(),
        value: printable(value),
        allowed,
        help,
    }
}

fn verdict(value: &str) -> Result<What, FilterError> {
    if value == DROP {
        return Ok(What::Drop);
    }
    let names = Verdict::ALL.iter().map(|verdict| verdict.name());
    let found = Verdict::ALL.iter().find(|verdict| verdict.name() == value);
    found.copied().map(What::Verdict).ok_or_else(|| {
        let help = did_you_mean(value, names.chain([DROP]));
        wrong(VERDICT, value, "a verdict or `drop`".to_owned(), help)
    })
}

fn hook(value: &str) -> Result<What, FilterError> {
    let found = Hook::ALL.into_iter().find(|hook| hook.name() == value);
    found.map(What::Hook).ok_or_else(|| {
        let names: Vec<&str> = Hook::ALL.iter().map(|hook| hook.name()).collect();
        wrong(HOOK, value, format!("one of {}", names.join(", ")), None)
    })
}

/// An address, and how many of its bits count.
fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((address, bits))
}

impl What {
    fn holds(&self, packet: &Packet, inner: &[Header<'_>]) -> bool {
        match self {
            Self::Drop => packet.verdict.is_drop(),
            Self::Verdict(verdict) => packet.verdict == *verdict,
            Self::Hook(hook) => packet.hook == *hook,
            Self::Header(word) => inner.iter().any(|header| is(header, word)),
            Self::Field(name, wanted) => (inner.iter().find_map(|header| value(header, name)))
                .is_some_and(|found| wanted.agrees(found)),
        }
    }
}

impl Wanted {
    fn agrees(&self, found: Found) -> bool {
        match (self, found) {
            (Self::Mac(wanted), Found::Mac(found)) => *wanted == found,
            (Self::Number(wanted), Found::Number(found)) => *wanted == found,
            (Self::Address(IpAddr::V4(wanted), bits), Found::Address(IpAddr::V4(found))) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                u32::from(*wanted) & mask == u32::from(found) & mask
            }
            (Self::Address(IpAddr::V6(wanted), bits), Found::Address(IpAddr::V6(found))) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                u128::from(*wanted) & mask == u128::from(found) & mask
            }
            _ => false,
        }
    }
}

/// Whether a header is the one that a word names.
fn is(header: &Header<'_>, word: &str) -> bool {
    match header {
        Header::Arp(_) => word == "arp",
        Header::Ipv4(view) => {
            word == "ip4" || (word == "sctp" && view.protocol() == protocol::SCTP)
        }
        Header::Ipv6(view) => {
            word == "ip6" || (word == "sctp" && view.protocol() == protocol::SCTP)
        }
        Header::Tcp(_) => word == "tcp",
        Header::Udp(_) => word == "udp",
        Header::Icmp(view) => match view.version() {
            overlane_wire::IpVersion::V4 => word == "icmp4",
            overlane_wire::IpVersion::V6 => word == "icmp6",
        },
        Header::Nd(_) => word == "nd" || word == "icmp6",
        Header::Ethernet(_) | Header::Vxlan(_) | Header::Geneve(_) => false,
    }
}

/// What a header says in this field, if it is one of its own.
fn value(header: &Header<'_>, field: &str) -> Option<Found> {
    let v4 = |address: Ipv4Addr| Found::Address(address.into());
    let v6 = |address: Ipv6Addr| Found::Address(address.into());
    let number = |number: u32| Some(Found::Number(number));
    match (header, field) {
        (Header::Ethernet(view), "eth.src") => Some(Found::Mac(view.source())),
        (Header::Ethernet(view), "eth.dst") => Some(Found::Mac(view.destination())),
        (Header::Ethernet(view), "eth.type") => number(view.ethertype().get().into()),
        (Header::Ethernet(view), "vlan.id" | "vlan.pcp") => {
            let tag = view.tags().as_slice().first()?.tag;
            number(if field == "vlan.id" {
                tag.vid().into()
            } else {
                tag.pcp().into()
            })
        }
        (Header::Arp(view), "arp.op") => number(view.operation().get().into()),
        (Header::Arp(view), "arp.sha") => Some(Found::Mac(view.sender_mac())),
        (Header::Arp(view), "arp.spa") => Some(v4(view.sender())),
        (Header::Arp(view), "arp.tha") => Some(Found::Mac(view.target_mac())),
        (Header::Arp(view), "arp.tpa") => Some(v4(view.target())),
        (Header::Ipv4(view), "ip4.src") => Some(v4(view.source())),
        (Header::Ipv4(view), "ip4.dst") => Some(v4(view.destination())),
        (Header::Ipv4(view), "ip4.ttl") => number(view.ttl().into()),
        (Header::Ipv4(view), "ip4.dscp") => number(view.dscp().into()),
        (Header::Ipv4(view), "ip4.ecn") => number(view.ecn().bits().into()),
        (Header::Ipv4(view), "ip4.proto") => number(view.protocol().into()),
        (Header::Ipv6(view), "ip6.src") => Some(v6(view.source())),
        (Header::Ipv6(view), "ip6.dst") => Some(v6(view.destination())),
        (Header::Ipv6(view), "ip6.hop_limit") => number(view.hop_limit().into()),
        (Header::Ipv6(view), "ip6.dscp") => number(view.dscp().into()),
        (Header::Ipv6(view), "ip6.ecn") => number(view.ecn().bits().into()),
        (Header::Ipv6(view), "ip6.proto") => number(view.protocol().into()),
        (Header::Tcp(view), "tcp.sport") => number(view.source().into()),
        (Header::Tcp(view), "tcp.dport") => number(view.destination().into()),
        (Header::Tcp(view), "tcp.flags") => number(view.flags().0.into()),
        (Header::Udp(view), "udp.sport") => number(view.source().into()),
        (Header::Udp(view), "udp.dport") => number(view.destination().into()),
        (Header::Icmp(view), _) => {
            let name = match view.version() {
                overlane_wire::IpVersion::V4 => "icmp4.",
                overlane_wire::IpVersion::V6 => "icmp6.",
            };
            match field.strip_prefix(name)? {
                "type" => number(view.kind().into()),
                "code" => number(view.code().into()),
                _ => None,
            }
        }
        (Header::Nd(view), _) => nd_value(view.message(), field),
        _ => None,
    }
}

fn nd_value(message: nd::Message, field: &str) -> Option<Found> {
    use nd::Message;
    let (kind, target) = match message {
        Message::RouterSolicitation => (nd::ROUTER_SOLICITATION, None),
        Message::RouterAdvertisement { .. } => (nd::ROUTER_ADVERTISEMENT, None),
        Message::NeighbourSolicitation { target } => (nd::NEIGHBOUR_SOLICITATION, Some(target)),
        Message::NeighbourAdvertisement { target, .. } => {
            (nd::NEIGHBOUR_ADVERTISEMENT, Some(target))
        }
    };
    match field {
        "nd.kind" | "icmp6.type" => Some(Found::Number(kind.into())),
        // RFC 4861 section 4: the code is 0, else it is no ND.
        "icmp6.code" => Some(Found::Number(0)),
        "nd.target" => Some(Found::Address(target?.into())),
        _ => None,
    }
}
