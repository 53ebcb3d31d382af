//! The fields of a packet that a user can name, what each takes, and which cannot stand in one packet.
//! [`expression`](super::expression) reads them, [`build`](super::build) makes the packet.

use super::error::PacketError;

/// A field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) layer: Layer,
    pub(crate) takes: Takes,
}

/// The header a field belongs to, as far as it decides what else can be in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Ethernet addresses and the tag: any packet.
    Frame,
    /// The type, for what is neither ARP nor IP.
    Type,
    Arp,
    Ip4,
    Ip6,
    /// The number of a protocol that has no fields here.
    Protocol4,
    Protocol6,
    Tcp,
    Udp,
    Sctp,
    Icmp4,
    Icmp6,
    Nd,
    Payload,
    Gso,
}

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A MAC or the name of a port, whose MAC is meant.
    Station,
    /// An IPv4 address or the name of a port, whose first one is meant.
    Ip4,
    /// An IPv6 address or the name of a port, whose first one is meant.
    Ip6,
    /// A number within these bounds.
    Number(u32, u32),
    /// One of these words, or a number up to this.
    Word(&'static [(&'static str, u32)], u32),
    /// Letters of TCP flags.
    Flags,
}

const ECN: Takes = Takes::Word(&[("not_ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)], 3);
const OPERATION: Takes = Takes::Word(&[("request", 1), ("reply", 2)], 0xffff);
const ICMP4_TYPE: Takes = Takes::Word(&[("echo_reply", 0), ("echo_request", 8)], 255);
const ICMP6_TYPE: Takes = Takes::Word(&[("echo_request", 128), ("echo_reply", 129)], 255);
/// Types of ND messages by the word that names them (RFC 4861 section 4).
const ND_KIND: Takes = Takes::Word(
    &[
        ("rs", 133),
        ("ra", 134),
        ("ns", 135),
        ("na", 136),
        ("redirect", 137),
    ],
    0,
);
const PORT: Takes = Takes::Number(0, 0xffff);
const OCTET: Takes = Takes::Number(0, 255);
const DSCP: Takes = Takes::Number(0, 63);

const fn field(name: &'static str, layer: Layer, takes: Takes) -> Field {
    Field { name, layer, takes }
}

/// Every field, in the order of the manual (docs/trace.md).
pub(crate) const FIELDS: &[Field] = &[
    field("eth.src", Layer::Frame, Takes::Station),
    field("eth.dst", Layer::Frame, Takes::Station),
    field("eth.type", Layer::Type, Takes::Number(0, 0xffff)),
    field("vlan.id", Layer::Frame, Takes::Number(0, 4095)),
    field("vlan.pcp", Layer::Frame, Takes::Number(0, 7)),
    field("arp.op", Layer::Arp, OPERATION),
    field("arp.sha", Layer::Arp, Takes::Station),
    field("arp.spa", Layer::Arp, Takes::Ip4),
    field("arp.tha", Layer::Arp, Takes::Station),
    field("arp.tpa", Layer::Arp, Takes::Ip4),
    field("ip4.src", Layer::Ip4, Takes::Ip4),
    field("ip4.dst", Layer::Ip4, Takes::Ip4),
    field("ip4.ttl", Layer::Ip4, OCTET),
    field("ip4.dscp", Layer::Ip4, DSCP),
    field("ip4.ecn", Layer::Ip4, ECN),
    field("ip4.proto", Layer::Protocol4, OCTET),
    field("ip6.src", Layer::Ip6, Takes::Ip6),
    field("ip6.dst", Layer::Ip6, Takes::Ip6),
    field("ip6.hop_limit", Layer::Ip6, OCTET),
    field("ip6.dscp", Layer::Ip6, DSCP),
    field("ip6.ecn", Layer::Ip6, ECN),
    field("ip6.proto", Layer::Protocol6, OCTET),
    field("tcp.sport", Layer::Tcp, PORT),
    field("tcp.dport", Layer::Tcp, PORT),
    field("tcp.flags", Layer::Tcp, Takes::Flags),
    field("udp.sport", Layer::Udp, PORT),
    field("udp.dport", Layer::Udp, PORT),
    field("sctp.sport", Layer::Sctp, PORT),
    field("sctp.dport", Layer::Sctp, PORT),
    field("icmp4.type", Layer::Icmp4, ICMP4_TYPE),
    field("icmp4.code", Layer::Icmp4, OCTET),
    field("icmp6.type", Layer::Icmp6, ICMP6_TYPE),
    field("icmp6.code", Layer::Icmp6, OCTET),
    field("nd.kind", Layer::Nd, ND_KIND),
    field("nd.target", Layer::Nd, Takes::Ip6),
    field("nd.sll", Layer::Nd, Takes::Station),
    field("nd.tll", Layer::Nd, Takes::Station),
    field("size", Layer::Payload, Takes::Number(0, 0xffff)),
    field("gso", Layer::Gso, Takes::Number(1, 0xffff)),
];

/// Words that stand for a header whose fields are all left out.
pub(crate) const WORDS: &[(&str, Layer)] = &[
    ("arp", Layer::Arp),
    ("ip4", Layer::Ip4),
    ("ip6", Layer::Ip6),
    ("tcp", Layer::Tcp),
    ("udp", Layer::Udp),
    ("sctp", Layer::Sctp),
    ("icmp4", Layer::Icmp4),
    ("icmp6", Layer::Icmp6),
    ("nd", Layer::Nd),
];

/// Names that other tools have for the same fields (`ovn-trace`).
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("vlan.vid", "vlan.id"),
    ("ip6.ttl", "ip6.hop_limit"),
    ("tcp.src", "tcp.sport"),
    ("tcp.dst", "tcp.dport"),
    ("udp.src", "udp.sport"),
    ("udp.dst", "udp.dport"),
    ("sctp.src", "sctp.sport"),
    ("sctp.dst", "sctp.dport"),
];

/// The header behind Ethernet that a layer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Raw,
    Arp,
    Ip4,
    Ip6,
    /// One of the two.
    Ip,
}

/// The header behind IP that a layer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Sctp,
    Icmp4,
    Icmp6,
    Other,
}

impl Layer {
    pub(crate) fn network(self) -> Option<Network> {
        Some(match self {
            Self::Type => Network::Raw,
            Self::Arp => Network::Arp,
            Self::Ip4 | Self::Protocol4 | Self::Icmp4 => Network::Ip4,
            Self::Ip6 | Self::Protocol6 | Self::Icmp6 | Self::Nd => Network::Ip6,
            Self::Tcp | Self::Udp | Self::Sctp | Self::Gso => Network::Ip,
            Self::Frame | Self::Payload => return None,
        })
    }

    pub(crate) fn transport(self) -> Option<Transport> {
        Some(match self {
            Self::Tcp => Transport::Tcp,
            Self::Udp => Transport::Udp,
            Self::Sctp => Transport::Sctp,
            Self::Icmp4 => Transport::Icmp4,
            Self::Icmp6 | Self::Nd => Transport::Icmp6,
            Self::Protocol4 | Self::Protocol6 => Transport::Other,
            Self::Frame | Self::Type | Self::Arp | Self::Ip4 | Self::Ip6 => return None,
            Self::Payload | Self::Gso => return None,
        })
    }

    /// Whether both can be in one packet.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        let networks = match (self.network(), other.network()) {
            (Some(Network::Ip), Some(one)) | (Some(one), Some(Network::Ip)) => {
                matches!(one, Network::Ip | Network::Ip4 | Network::Ip6)
            }
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        let transports = match (self.transport(), other.transport()) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        // ARP and ND end with their own fields; only what has segments is cut into segments.
        let whole = |layer: Self| matches!(layer, Self::Arp | Self::Nd);
        let uncut = |layer: Self| {
            matches!(
                layer.transport(),
                Some(Transport::Icmp4 | Transport::Icmp6 | Transport::Other)
            )
        };
        let payload = |one: Self, other: Self| one == Self::Payload && whole(other);
        let gso = |one: Self, other: Self| one == Self::Gso && uncut(other);
        networks
            && transports
            && !payload(self, other)
            && !payload(other, self)
            && !gso(self, other)
            && !gso(other, self)
    }
}

impl Takes {
    /// The number that a text stands for; none where it stands for none that is taken here.
    pub(crate) fn number(self, text: &str) -> Option<u32> {
        match self {
            Self::Number(low, high) => number(text).filter(|number| (low..=high).contains(number)),
            Self::Word(words, high) => {
                let mut words = words.iter();
                match words.find(|(word, _)| word.eq_ignore_ascii_case(text)) {
                    Some((_, number)) => Some(*number),
                    None => number(text).filter(|number| high > 0 && *number <= high),
                }
            }
            Self::Flags => flags(text),
            Self::Station | Self::Ip4 | Self::Ip6 => None,
        }
    }

    /// For people: `a number from 0 to 63`.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Station => "a MAC address, the name of a port, or broadcast".to_owned(),
            Self::Ip4 => "an IPv4 address or the name of a port".to_owned(),
            Self::Ip6 => "an IPv6 address or the name of a port".to_owned(),
            Self::Number(low, high) => format!("a number from {low} to {high}"),
            Self::Word(words, 0) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                words.join(", ")
            }
            Self::Word(words, high) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("{}, or a number up to {high}", words.join(", "))
            }
            Self::Flags => "letters of F S R P A U E C, like SA".to_owned(),
        }
    }
}

/// Decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // from_str_radix alone would take a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u32::from_str_radix(digits, radix).ok().filter(|_| plain)
}

/// Letters as in packet captures, in any order: `SA` is a SYN that acknowledges.
fn flags(text: &str) -> Option<u32> {
    text.chars().try_fold(0, |flags, letter| {
        let bit = "FSRPAUEC".find(letter.to_ascii_uppercase())?;
        Some(flags | 1 << bit)
    })
}

/// The field that a user calls `name`.
pub(crate) fn find(name: &str) -> Result<&'static Field, PacketError> {
    let alias = ALIASES.iter().find(|(other, _)| *other == name);
    let name = alias.map_or(name, |(_, ours)| ours);
    FIELDS
        .iter()
        .find(|field| field.name == name)
        .ok_or_else(|| PacketError::unknown_field(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_in_one_packet() {
        use Layer::*;
        for (one, other, together) in [
            (Frame, Arp, true),
            (Arp, Ip4, false),
            (Ip4, Ip6, false),
            (Type, Tcp, false),
            (Tcp, Ip6, true),
            (Tcp, Ip4, true),
            (Tcp, Udp, false),
            (Tcp, Arp, false),
            (Nd, Icmp6, true),
            (Nd, Ip4, false),
            (Icmp4, Ip6, false),
            (Icmp4, Protocol4, false),
            (Payload, Tcp, true),
            (Payload, Type, true),
            (Payload, Nd, false),
            (Gso, Sctp, true),
            (Gso, Icmp4, false),
            (Gso, Type, false),
        ] {
            assert_eq!(one.goes_with(other), together, "{one:?} {other:?}");
            assert_eq!(other.goes_with(one), together, "{other:?} {one:?}");
        }
    }

    #[test]
    fn aliases_name_fields_and_are_none() {
        for (alias, ours) in ALIASES {
            assert_eq!(find(alias).unwrap().name, *ours);
            assert!(FIELDS.iter().all(|field| field.name != *alias));
        }
    }
}
