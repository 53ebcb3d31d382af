//! The maps that `apply` writes: their names, sizes and order.

use crate::abi::{self, firewall, router};

/// The maps that `apply` writes, in the order in which entries can be added without a packet meeting a
/// half-made fabric: what is referred to comes before what refers to it. Deletion goes the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// VTEP address → outer header template.
    Remotes,
    /// (switch, key) → where the port is, and its counters.
    PortKeys,
    /// Number of a port's counters → where the port is.
    PortNumbers,
    /// (switch, index) → receiver of a flooded frame.
    Flood,
    /// Number → logical switch.
    Switches,
    /// Number → set of rules.
    RuleSets,
    /// Number → what a rule does.
    Rules,
    /// Network → number of a rule set.
    RulePeers,
    /// Service → number of a rule set.
    RuleServices,
    /// (router, switch) → interface.
    RouterInterfaces,
    /// (group, number) → next hop of a static route.
    NextHops,
    /// (list, number) → what a router's gateway translates.
    NatRules,
    /// List and inside network → number of a nat rule.
    NatInsides,
    /// (list, end) → number of a nat rule.
    NatEnds,
    /// Router and network → way.
    Routes,
    /// Number → router.
    Routers,
    /// (leg, address) → router.
    LegAddresses,
    /// Leg → router.
    Legs,
    /// (switch, VTEP address) → what the remote may send there.
    Origins,
    /// (switch, MAC) → place.
    Fdb,
    /// (switch, address) → MAC.
    Neighbours,
    /// Port and network → whether it is one address.
    AllowedAddresses,
    /// (switch, key, MAC) → the port may use it.
    AllowedMacs,
    /// Device and tag → logical port.
    Ports,
    /// What holds for the host.
    Settings,
}

impl Table {
    /// All, in the order of adding.
    pub const ALL: [Self; 25] = [
        Self::Remotes,
        Self::PortKeys,
        Self::PortNumbers,
        Self::Flood,
        Self::Switches,
        Self::RuleSets,
        Self::Rules,
        Self::RulePeers,
        Self::RuleServices,
        Self::RouterInterfaces,
        Self::NextHops,
        Self::NatRules,
        Self::NatInsides,
        Self::NatEnds,
        Self::Routes,
        Self::Routers,
        Self::LegAddresses,
        Self::Legs,
        Self::Origins,
        Self::Fdb,
        Self::Neighbours,
        Self::AllowedAddresses,
        Self::AllowedMacs,
        Self::Ports,
        Self::Settings,
    ];

    /// The map's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remotes => "remotes",
            Self::PortKeys => "port_keys",
            Self::PortNumbers => "port_numbers",
            Self::Flood => "flood",
            Self::Switches => "switches",
            Self::RuleSets => "rule_sets",
            Self::Rules => "rules",
            Self::RulePeers => "rule_peers",
            Self::RuleServices => "rule_services",
            Self::RouterInterfaces => "router_interfaces",
            Self::NextHops => "next_hops",
            Self::NatRules => "nat_rules",
            Self::NatInsides => "nat_insides",
            Self::NatEnds => "nat_ends",
            Self::Routes => "routes",
            Self::Routers => "routers",
            Self::LegAddresses => "leg_addresses",
            Self::Legs => "legs",
            Self::Origins => "origins",
            Self::Fdb => "fdb",
            Self::Neighbours => "neighbours",
            Self::AllowedAddresses => "allowed_addresses",
            Self::AllowedMacs => "allowed_macs",
            Self::Ports => "ports",
            Self::Settings => "settings",
        }
    }

    /// An array: every entry exists from the beginning, as zeros, and none can be deleted. Entries that the
    /// tables do not name are nobody's.
    pub const fn is_array(self) -> bool {
        matches!(self, Self::PortNumbers | Self::Rules | Self::Settings)
    }

    /// What is taken away from it only after no packet can be at work with it: what refers to it changed
    /// in one step, and a packet may have read that just before.
    pub const fn is_referred_to(self) -> bool {
        matches!(
            self,
            Self::RuleSets
                | Self::RulePeers
                | Self::RuleServices
                | Self::NextHops
                | Self::NatRules
                | Self::NatInsides
                | Self::NatEnds
        )
    }

    /// Bytes of a key and of a value.
    pub const fn sizes(self) -> (usize, usize) {
        const WORD: usize = size_of::<u32>();
        match self {
            Self::Remotes => (size_of::<abi::Addr>(), size_of::<abi::Remote>()),
            Self::PortKeys => (size_of::<abi::PortKey>(), size_of::<abi::PortPlace>()),
            Self::PortNumbers => (WORD, size_of::<abi::PortId>()),
            Self::Flood => (size_of::<abi::FloodKey>(), size_of::<abi::FloodMember>()),
            Self::Switches => (WORD, size_of::<abi::Switch>()),
            Self::RuleSets => (WORD, size_of::<firewall::RuleSet>()),
            Self::Rules => (WORD, size_of::<firewall::Rule>()),
            Self::RulePeers => (size_of::<firewall::RulePeerKey>(), WORD),
            Self::RuleServices => (size_of::<firewall::RuleServiceKey>(), WORD),
            Self::RouterInterfaces => (
                size_of::<router::RouterInterfaceKey>(),
                size_of::<router::RouterInterface>(),
            ),
            Self::NextHops => (
                size_of::<router::NextHopKey>(),
                size_of::<router::NextHop>(),
            ),
            Self::NatRules => (
                size_of::<router::NatRuleKey>(),
                size_of::<router::NatRule>(),
            ),
            Self::NatInsides => (size_of::<router::NatInsideKey>(), WORD),
            Self::NatEnds => (size_of::<router::NatEndKey>(), WORD),
            Self::Routes => (size_of::<router::RouteKey>(), size_of::<router::Route>()),
            Self::Routers => (WORD, size_of::<router::Router>()),
            Self::LegAddresses => (size_of::<router::LegAddressKey>(), WORD),
            Self::Legs => (WORD, WORD),
            Self::Origins => (size_of::<abi::OriginKey>(), WORD),
            Self::Fdb => (size_of::<abi::FdbKey>(), size_of::<abi::FdbEntry>()),
            Self::Neighbours => (size_of::<abi::NeighbourKey>(), size_of::<abi::Neighbour>()),
            Self::AllowedAddresses => (size_of::<abi::AllowedAddressKey>(), WORD),
            Self::AllowedMacs => (size_of::<abi::AllowedMacKey>(), WORD),
            Self::Ports => (size_of::<abi::PortId>(), size_of::<abi::Port>()),
            Self::Settings => (WORD, size_of::<abi::Settings>()),
        }
    }
}
