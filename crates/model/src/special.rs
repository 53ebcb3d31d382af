//! Addresses that a router does not forward from or to, and the parts of them that it does: RFC 1812 section 5.3.7,
//! RFC 4291 section 2.5, and the registries of special-purpose addresses (RFC 6890, as of RFC 9780). `docs/semantics.md`,
//! ROUTE-19.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A block of addresses.
pub(crate) struct Block {
    pub(crate) network: IpNet,
    /// A route inside the block counts; else none does.
    pub(crate) may_be_named: bool,
    /// Parts that are as any other address.
    pub(crate) exceptions: &'static [IpNet],
}

const NEVER: bool = false;
const UNLESS_NAMED: bool = true;

/// Every block; none contains another.
pub(crate) const BLOCKS: [Block; 17] = [
    block(v4([0, 0, 0, 0], 8), NEVER, &[]),
    block(v4([127, 0, 0, 0], 8), NEVER, &[]),
    block(v4([169, 254, 0, 0], 16), UNLESS_NAMED, &[]),
    block(v4([192, 0, 0, 0], 24), UNLESS_NAMED, &EXCEPTIONS_V4),
    block(v4([192, 0, 2, 0], 24), UNLESS_NAMED, &[]),
    block(v4([198, 51, 100, 0], 24), UNLESS_NAMED, &[]),
    block(v4([203, 0, 113, 0], 24), UNLESS_NAMED, &[]),
    block(v4([224, 0, 0, 0], 4), NEVER, &[]),
    block(v4([240, 0, 0, 0], 4), NEVER, &[]),
    block(v6([0; 8], 96), NEVER, &[]),
    block(v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), NEVER, &[]),
    block(v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64), UNLESS_NAMED, &[]),
    block(
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
        UNLESS_NAMED,
        &EXCEPTIONS_V6,
    ),
    block(v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), UNLESS_NAMED, &[]),
    block(v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), UNLESS_NAMED, &[]),
    block(v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), NEVER, &[]),
    block(v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), NEVER, &[]),
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

/// Whether a network is a part of a block that is as any other address: it has the route around the block.
pub fn is_exception(network: IpNet) -> bool {
    let mut blocks = BLOCKS.iter();
    blocks.any(|block| block.exceptions.contains(&network))
}

/// The block that a network lies in, of those that no route may name.
pub(crate) fn never_forwarded(network: IpNet) -> Option<IpNet> {
    let mut blocks = BLOCKS.iter().filter(|block| !block.may_be_named);
    let found = blocks.find(|block| block.network.contains(&network));
    found.map(|block| block.network)
}

/// The first and the last address of an IPv4 network that has a broadcast address (RFC 3021).
pub(crate) fn ends(network: IpNet) -> Option<[IpAddr; 2]> {
    match network {
        IpNet::V4(network) if network.prefix_len() < 31 => {
            Some([network.network().into(), network.broadcast().into()])
        }
        _ => None,
    }
}

const fn block(network: IpNet, may_be_named: bool, exceptions: &'static [IpNet]) -> Block {
    Block {
        network,
        may_be_named,
        exceptions,
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
        for (at, block) in BLOCKS.iter().enumerate() {
            let others = BLOCKS.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others {
                assert!(!other.network.contains(&block.network), "{}", block.network);
            }
            for exception in block.exceptions {
                assert!(block.network.contains(exception), "{exception}");
                assert_eq!(exception.trunc(), *exception);
            }
            assert_eq!(block.network.trunc(), block.network);
        }
    }

    #[test]
    fn a_route_may_name_metadata_but_no_group() {
        let never = |text: &str| never_forwarded(text.parse().unwrap()).is_some();
        assert!(never("224.1.0.0/16") && never("0.0.0.0/8") && never("fe80::1/128"));
        assert!(!never("169.254.169.254/32") && !never("2001:db8::/32") && !never("0.0.0.0/0"));
    }

    #[test]
    fn networks_of_two_addresses_have_none_to_spare() {
        let ends = |text: &str| ends(text.parse().unwrap());
        let [first, last] = ends("198.18.1.0/30").unwrap();
        assert_eq!(first.to_string(), "198.18.1.0");
        assert_eq!(last.to_string(), "198.18.1.3");
        assert!(ends("198.18.1.0/31").is_none() && ends("2001:2::/64").is_none());
    }
}
