//! Addresses that a router does not forward from or to, and the parts of them that it does: RFC 1812 section 5.3.7,
//! RFC 4291 section 2.5, and the registries of special-purpose addresses (RFC 6890, and RFC 9780 for 100:0:0:1::/64).
//! `docs/semantics.md`, ROUTE-19; `bpf/lib/special.h` says the same of one address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// How far an address travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// As any other: where routes lead.
    Not,
    /// Only by a route that lies inside the same block.
    UnlessNamed,
    /// Over no router.
    Never,
}

/// A block of addresses, the parts of it that are as any other address, and what the addresses are.
struct Block(IpNet, Special, &'static [IpNet], &'static str);

/// None contains another.
const BLOCKS: [Block; 17] = [
    Block(
        v4([0, 0, 0, 0], 8),
        Special::Never,
        &[],
        "an address of \"this network\"",
    ),
    Block(
        v4([127, 0, 0, 0], 8),
        Special::Never,
        &[],
        "a loopback address",
    ),
    Block(
        v4([169, 254, 0, 0], 16),
        Special::UnlessNamed,
        &[],
        "a link-local address",
    ),
    Block(
        v4([192, 0, 0, 0], 24),
        Special::UnlessNamed,
        &EXCEPTIONS_V4,
        "an address for protocols",
    ),
    Block(
        v4([192, 0, 2, 0], 24),
        Special::UnlessNamed,
        &[],
        "an address for documentation",
    ),
    Block(
        v4([198, 51, 100, 0], 24),
        Special::UnlessNamed,
        &[],
        "an address for documentation",
    ),
    Block(
        v4([203, 0, 113, 0], 24),
        Special::UnlessNamed,
        &[],
        "an address for documentation",
    ),
    Block(
        v4([224, 0, 0, 0], 4),
        Special::Never,
        &[],
        "a multicast address",
    ),
    Block(
        v4([240, 0, 0, 0], 4),
        Special::Never,
        &[],
        "a reserved address",
    ),
    Block(
        v6([0; 8], 96),
        Special::Never,
        &[],
        "a loopback, unspecified or IPv4-compatible address",
    ),
    Block(
        v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
        Special::Never,
        &[],
        "an IPv4-mapped address",
    ),
    Block(
        v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64),
        Special::UnlessNamed,
        &[],
        "a dummy address",
    ),
    Block(
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
        Special::UnlessNamed,
        &EXCEPTIONS_V6,
        "an address for protocols",
    ),
    Block(
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
        Special::UnlessNamed,
        &[],
        "an address for documentation",
    ),
    Block(
        v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
        Special::UnlessNamed,
        &[],
        "an address for documentation",
    ),
    Block(
        v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
        Special::Never,
        &[],
        "a link-local address",
    ),
    Block(
        v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
        Special::Never,
        &[],
        "a multicast address",
    ),
];

/// DS-Lite, and the anycast addresses of PCP and TURN.
const EXCEPTIONS_V4: [IpNet; 3] = [
    v4([192, 0, 0, 0], 29),
    v4([192, 0, 0, 9], 32),
    v4([192, 0, 0, 10], 32),
];

/// Teredo; PCP, TURN and DNS-SD anycast; benchmarking; AMT; AS112; ORCHIDv2; remote identification of drones.
const EXCEPTIONS_V6: [IpNet; 9] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48),
    v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28),
    v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28),
];

/// Of one address.
pub fn special(addr: IpAddr) -> Special {
    kind(addr.into())
}

/// What a special address is, with its block: `a multicast address (224.0.0.0/4)`.
pub fn special_described(addr: IpAddr) -> Option<String> {
    let Block(block, _, _, what) = BLOCKS
        .iter()
        .find(|Block(block, ..)| block.contains(&addr))?;
    Some(format!("{what} ({block})"))
}

/// The first or the last address of an IPv4 network that has such (RFC 3021): a router sends nothing to all of
/// a network.
pub fn is_end_of(network: IpNet, addr: IpAddr) -> bool {
    match (network, addr) {
        (IpNet::V4(network), IpAddr::V4(addr)) if network.prefix_len() < 31 => {
            addr == network.network() || addr == network.broadcast()
        }
        _ => false,
    }
}

/// Whether a network lies inside a block whose addresses travel only by routes inside it.
pub(crate) fn names_special(network: IpNet) -> bool {
    kind(network) == Special::UnlessNamed
}

/// Whether a network lies inside a block whose addresses never travel.
pub(crate) fn is_never_forwarded(network: IpNet) -> bool {
    kind(network) == Special::Never
}

/// Of all of a network that lies inside a block.
fn kind(network: IpNet) -> Special {
    let mut blocks = BLOCKS.iter();
    match blocks.find(|Block(block, ..)| block.contains(&network)) {
        Some(Block(_, kind, parts, _)) if !parts.iter().any(|part| part.contains(&network)) => {
            *kind
        }
        _ => Special::Not,
    }
}

const fn v4([a, b, c, d]: [u8; 4], prefix_len: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_len))
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix_len: u8) -> IpNet {
    let addr = Ipv6Addr::new(a, b, c, d, e, f, g, h);
    IpNet::V6(Ipv6Net::new_assert(addr, prefix_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_contains_another_and_each_exception_lies_in_its_own() {
        for (at, Block(network, _, parts, _)) in BLOCKS.iter().enumerate() {
            let others = BLOCKS.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, Block(other, ..)) in others {
                assert!(!other.contains(network), "{network}");
            }
            for part in *parts {
                assert!(network.contains(part) && part.trunc() == *part, "{part}");
            }
            assert_eq!(network.trunc(), *network);
        }
    }

    #[test]
    fn each_border_of_each_block() {
        let of = |text: &str| special(text.parse().unwrap());
        for never in [
            "0.0.0.0",
            "0.255.255.255",
            "127.0.0.0",
            "127.255.255.255",
            "224.0.0.0",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::255.255.255.255",
            "::ffff:0:0",
            "::ffff:198.18.1.1",
            "fe80::",
            "febf:ffff::",
            "ff00::",
            "ffff::",
        ] {
            assert_eq!(of(never), Special::Never, "{never}");
        }
        for unless_named in [
            "169.254.0.0",
            "169.254.255.255",
            "192.0.0.8",
            "192.0.0.11",
            "192.0.0.255",
            "192.0.2.0",
            "192.0.2.255",
            "198.51.100.0",
            "198.51.100.255",
            "203.0.113.0",
            "203.0.113.255",
            "100:0:0:1::",
            "100::1:ffff:ffff:ffff:ffff",
            "2001:1::",
            "2001:1::4",
            "2001:2:1::",
            "2001:4::",
            "2001:4:111::",
            "2001:4:113::",
            "2001:5::",
            "2001:1f::",
            "2001:40::",
            "2001:1ff:ffff::",
            "2001:db8::",
            "2001:db8:ffff::",
            "3fff::",
            "3fff:fff::",
        ] {
            assert_eq!(of(unless_named), Special::UnlessNamed, "{unless_named}");
        }
        for not in [
            "1.0.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "192.0.0.0",
            "192.0.0.7",
            "192.0.0.9",
            "192.0.0.10",
            "192.0.1.0",
            "192.0.3.0",
            "198.51.99.255",
            "203.0.114.0",
            "223.255.255.255",
            "0:0:0:0:1::",
            "::1:0:0",
            "::fffe:0:0",
            "0:0:0:1::",
            "100::",
            "100:0:0:2::",
            "2001::",
            "2001:0:ffff::",
            "2001:1::1",
            "2001:1::3",
            "2001:2::",
            "2001:2:0:ffff::",
            "2001:3:ffff::",
            "2001:4:112:ffff::",
            "2001:20::",
            "2001:2f::",
            "2001:3f:ffff::",
            "2001:200::",
            "2001:db7::",
            "2001:db9::",
            "3ffe::",
            "3fff:1000::",
            "fe7f::",
            "fec0::",
            "feff::",
            "fc00::",
            "64:ff9b::1",
        ] {
            assert_eq!(of(not), Special::Not, "{not}");
        }
    }

    #[test]
    fn each_is_described() {
        let of = |text: &str| special_described(text.parse().unwrap());
        assert_eq!(
            of("224.0.0.5").as_deref(),
            Some("a multicast address (224.0.0.0/4)")
        );
        assert_eq!(
            of("fe80::1").as_deref(),
            Some("a link-local address (fe80::/10)")
        );
        assert_eq!(of("198.18.1.1"), None);
    }

    #[test]
    fn a_route_may_name_metadata_but_no_group() {
        let net = |text: &str| text.parse().unwrap();
        assert!(is_never_forwarded(net("224.1.0.0/16")) && is_never_forwarded(net("fe80::1/128")));
        assert!(names_special(net("169.254.169.254/32")) && names_special(net("2001:db8::/32")));
        assert!(!names_special(net("0.0.0.0/0")) && !is_never_forwarded(net("0.0.0.0/0")));
    }

    #[test]
    fn networks_of_two_addresses_have_none_to_spare() {
        let is_end = |net: &str, addr: &str| is_end_of(net.parse().unwrap(), addr.parse().unwrap());
        assert!(is_end("198.18.1.4/30", "198.18.1.4") && is_end("198.18.1.4/30", "198.18.1.7"));
        assert!(!is_end("198.18.1.4/30", "198.18.1.5") && !is_end("198.18.1.4/31", "198.18.1.5"));
        assert!(!is_end("2001:2::/64", "2001:2::"));
    }
}
