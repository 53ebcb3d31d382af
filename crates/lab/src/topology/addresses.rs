//! The addresses and MACs of guests, hosts and routers.

use overlane_analysis::record::{Family, Feature, Setting};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The MAC of every router, on all its interfaces; above those of guests.
pub(crate) const ROUTER_MAC: [u8; 6] = [2, 0, 0, 1, 0, 1];
/// The MAC of a gateway's device in the physical network.
pub(crate) const LEG_MAC: [u8; 6] = [2, 0, 0, 1, 0, 2];
/// What a router's address ends in; above those of guests.
const ROUTER_NUMBER: u32 = 254;

/// The subnets that guests have addresses in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subnet {
    /// Of the senders, and of the receivers where nothing routes.
    Guests,
    /// Of the receivers behind a router.
    Far,
    /// Of the physical hosts behind a gateway.
    Physical,
}

impl Subnet {
    /// The subnet of the receiving guests.
    pub(crate) fn of_receivers(feature: Feature) -> Self {
        if feature.has_gateway() {
            Self::Physical
        } else if feature.is_routed() {
            Self::Far
        } else {
            Self::Guests
        }
    }

    /// The address in it that ends in a number, of the ranges for benchmarks (RFC 2544, RFC 5180).
    fn address(self, family: Family, number: u32) -> IpAddr {
        let [_, _, high, low] = number.to_be_bytes();
        let (octet, word) = match self {
            Self::Guests => (100_u8, 0x100),
            Self::Far => (110, 0x110),
            Self::Physical => (120, 0x120),
        };
        match family {
            Family::Ipv4 => Ipv4Addr::new(198, 18, octet.saturating_add(high), low).into(),
            Family::Ipv6 => {
                let number = u16::from_be_bytes([high, low]);
                Ipv6Addr::new(0x2001, 2, 0, word, 0, 0, 0, number).into()
            }
        }
    }

    /// The address of the router in it: that of its interface, or of its leg.
    pub(crate) fn router(self, family: Family) -> IpAddr {
        self.address(family, ROUTER_NUMBER)
    }

    /// The address that its prefix begins with.
    pub(crate) fn network(self, family: Family) -> IpAddr {
        self.address(family, 0)
    }
}

/// A guest's MAC.
pub(crate) fn guest_mac(number: u32) -> [u8; 6] {
    let [_, _, high, low] = number.to_be_bytes();
    [2, 0, 0, 0, high, low]
}

/// A guest's address; the odd ones are the senders'.
pub(crate) fn guest_address(setting: &Setting, number: u32) -> IpAddr {
    let subnet = match number % 2 {
        1 => Subnet::Guests,
        _ => Subnet::of_receivers(setting.feature),
    };
    subnet.address(setting.inner, number)
}

/// A host's underlay address, the end of its tunnels; hosts are counted from 0.
pub(crate) fn host_address(family: Family, host: usize) -> IpAddr {
    let number = u8::try_from(host + 1).unwrap_or(u8::MAX);
    match family {
        Family::Ipv4 => Ipv4Addr::new(198, 18, 0, number).into(),
        Family::Ipv6 => Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

/// A host's address on a cable that machines move over.
pub(crate) fn link_address(link: u32, host: usize) -> IpAddr {
    let [.., link] = link.to_be_bytes();
    let number = u8::try_from(host + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(198, 18, 64 + link, number).into()
}

/// The network that the hosts' underlay addresses are in.
pub(crate) fn underlay_network(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "198.18.0.0/24",
        Family::Ipv6 => "2001:2::/64",
    }
}

/// The prefix of all these addresses.
pub(crate) fn prefix(family: Family) -> u8 {
    match family {
        Family::Ipv4 => 24,
        Family::Ipv6 => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::guest_numbers;
    use super::*;
    use overlane_analysis::study::limits::MAX_PAIRS;

    #[test]
    fn addresses_stay_within_the_ranges_for_benchmarks() {
        let last = guest_numbers(MAX_PAIRS - 1)[1];
        let address = |inner, feature, number| {
            let setting = Setting {
                inner,
                feature,
                ..Setting::default()
            };
            guest_address(&setting, number).to_string()
        };
        let usual = Feature::Default;
        assert_eq!(address(Family::Ipv4, usual, last), "198.18.100.200");
        assert_eq!(address(Family::Ipv6, usual, 1), "2001:2:0:100::1");
        // Behind a router the receivers are elsewhere, and the senders are not.
        let routing = Feature::Routing;
        assert_eq!(address(Family::Ipv4, routing, 1), "198.18.100.1");
        assert_eq!(address(Family::Ipv4, routing, last), "198.18.110.200");
        assert_eq!(address(Family::Ipv6, routing, 2), "2001:2:0:110::2");
        assert_eq!(
            address(Family::Ipv4, Feature::GatewayNat, 2),
            "198.18.120.2"
        );
        assert_eq!(
            Subnet::Physical.router(Family::Ipv4).to_string(),
            "198.18.120.254"
        );
        assert_eq!(
            Subnet::Far.network(Family::Ipv6).to_string(),
            "2001:2:0:110::"
        );
        assert_eq!(host_address(Family::Ipv6, 1).to_string(), "2001:2::2");
        assert_eq!(host_address(Family::Ipv4, 0).to_string(), "198.18.0.1");
        assert_eq!(guest_mac(258), [2, 0, 0, 0, 1, 2]);
    }
}
