//! Which of many networks an address is in: the longest match, without looking at each of them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

/// Networks, each with what is known of it.
#[derive(Debug)]
pub(crate) struct Prefixes<T> {
    networks: HashMap<IpNet, T>,
    /// The prefix lengths among them.
    lengths: BTreeSet<u8>,
}

impl<T> Prefixes<T> {
    pub(crate) fn new() -> Self {
        Self {
            networks: HashMap::new(),
            lengths: BTreeSet::new(),
        }
    }

    /// The first entry of a network counts.
    pub(crate) fn insert(&mut self, network: IpNet, value: T) {
        self.lengths.insert(network.prefix_len());
        self.networks.entry(network.trunc()).or_insert(value);
    }

    /// The longest network with this address.
    pub(crate) fn find(&self, addr: IpAddr) -> Option<&T> {
        let lengths = self.lengths.iter().rev();
        lengths
            .filter_map(|&length| IpNet::new(addr, length).ok())
            .find_map(|network| self.networks.get(&network.trunc()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_counts() {
        let mut prefixes = Prefixes::new();
        for (network, name) in [
            ("198.18.0.0/16", "wide"),
            ("198.18.1.7/24", "narrow"),
            ("198.18.1.0/24", "too late"),
            ("2001:2::/48", "six"),
        ] {
            prefixes.insert(network.parse().unwrap(), name);
        }
        for (addr, name) in [
            ("198.18.1.200", Some("narrow")),
            ("198.18.2.1", Some("wide")),
            ("198.19.0.1", None),
            ("2001:2:0:7::1", Some("six")),
            ("2001:2:1::", None),
            ("::", None),
        ] {
            let addr: IpAddr = addr.parse().unwrap();
            assert_eq!(prefixes.find(addr).copied(), name, "{addr}");
        }
    }
}
