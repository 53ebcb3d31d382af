//! How much the tables of one host hold. The maps of the data path are as large (`bpf/lib/abi*.h`): a test of the crate
//! `ebpf` compares them. `check` counts what a fabric needs at each host, `apply` what the tables of its host need.

use thiserror::Error;

use crate::tables::{SwitchTable, Tables, Way};

/// Logical ports of a host.
pub const MAX_PORTS: usize = 16_384;
/// Logical switches that a host knows.
pub const MAX_SWITCHES: usize = 16_384;
/// MACs of these switches.
pub const MAX_FDB: usize = 65_536;
/// Addresses of these switches.
pub const MAX_NEIGHBOURS: usize = 131_072;
/// Networks that a host's ports may use beside their own addresses.
pub const MAX_ALLOWED_ADDRESSES: usize = 65_536;
/// MACs that a host's ports may use beside their own.
pub const MAX_ALLOWED_MACS: usize = 65_536;
/// Receivers of flooded frames, of all switches.
pub const MAX_FLOOD: usize = 262_144;
/// Receivers of the flooded frames of one switch.
pub const MAX_FLOOD_MEMBERS: usize = 1024;
/// Other hosts.
pub const MAX_REMOTES: usize = 1024;
/// Pairs of a switch in tunnels and another host that may send into it.
pub const MAX_ORIGINS: usize = 1 << 20;
/// Routers that a host knows.
pub const MAX_ROUTERS: usize = 4096;
/// Their interfaces; and likewise the addresses on the legs of a host.
pub const MAX_ROUTER_INTERFACES: usize = 16_384;
/// Their routes.
pub const MAX_ROUTES: usize = 65_536;
/// The next hops of their routes.
pub const MAX_NEXT_HOPS: usize = 65_536;
/// What the gateways on a host translate.
pub const MAX_NAT_RULES: usize = 4096;
/// Rules that name a port of a host.
pub const MAX_RULES: usize = 10_240;
/// Distinct sets of these rules, by port, peer and service.
pub const MAX_RULE_SETS: usize = 65_536;
/// Prefixes of peers, and likewise of services.
pub const MAX_RULE_PREFIXES: usize = 262_144;

/// A table of a host that holds so much and no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the limits above say what each holds")]
pub enum Size {
    Ports,
    Switches,
    Fdb,
    Neighbours,
    AllowedAddresses,
    AllowedMacs,
    Flood,
    Origins,
    Remotes,
    Routers,
    RouterInterfaces,
    LegAddresses,
    Routes,
    NextHops,
    NatRules,
    Rules,
    RuleSets,
    RulePeers,
    RuleServices,
}

/// What is to be known of a table: its name, how much it holds of what, and what there should be less of.
type Known = (&'static str, usize, &'static str, &'static str);

impl Size {
    /// Those that are counted without a look into the rules, in order.
    pub const COUNTED: [Self; 15] = [
        Self::Ports,
        Self::Switches,
        Self::Fdb,
        Self::Neighbours,
        Self::AllowedAddresses,
        Self::AllowedMacs,
        Self::Flood,
        Self::Origins,
        Self::Remotes,
        Self::Routers,
        Self::RouterInterfaces,
        Self::LegAddresses,
        Self::Routes,
        Self::NextHops,
        Self::NatRules,
    ];

    const fn known(self) -> Known {
        match self {
            Self::Ports => ("ports", MAX_PORTS, "ports", "ports on this host"),
            Self::Switches => (
                "switches",
                MAX_SWITCHES,
                "switches",
                "switches with a port on this host, or joined with one by a router",
            ),
            Self::Fdb => (
                "fdb",
                MAX_FDB,
                "MACs of its switches",
                "ports in the switches of this host",
            ),
            Self::Neighbours => (
                "neighbours",
                MAX_NEIGHBOURS,
                "addresses of its switches",
                "addresses on the ports of this host's switches",
            ),
            Self::AllowedAddresses => (
                "allowed_addresses",
                MAX_ALLOWED_ADDRESSES,
                "`allowed_addresses` of its ports",
                "`allowed_addresses` at the ports of this host",
            ),
            Self::AllowedMacs => (
                "allowed_macs",
                MAX_ALLOWED_MACS,
                "`allowed_macs` of its ports",
                "`allowed_macs` at the ports of this host",
            ),
            Self::Flood => (
                "flood",
                MAX_FLOOD,
                "receivers of flooded frames",
                "ports on this host, or fewer hosts per switch",
            ),
            Self::Origins => (
                "origins",
                MAX_ORIGINS,
                "pairs of a switch and another host",
                "hosts per switch, or fewer switches that routers join",
            ),
            Self::Remotes => ("remotes", MAX_REMOTES, "other hosts", "hosts"),
            Self::Routers => (
                "routers",
                MAX_ROUTERS,
                "routers",
                "routers that this host knows",
            ),
            Self::RouterInterfaces => (
                "router_interfaces",
                MAX_ROUTER_INTERFACES,
                "interfaces of routers",
                "interfaces of the routers that this host knows",
            ),
            Self::LegAddresses => (
                "leg_addresses",
                MAX_ROUTER_INTERFACES,
                "addresses on its legs",
                "addresses on the legs of this host, or fewer `nat` entries",
            ),
            Self::Routes => (
                "routes",
                MAX_ROUTES,
                "routes",
                "routes in the routers that this host knows",
            ),
            Self::NextHops => (
                "next_hops",
                MAX_NEXT_HOPS,
                "next hops of routes",
                "next hops in the routes of the routers that this host knows",
            ),
            Self::NatRules => (
                "nat_rules",
                MAX_NAT_RULES,
                "`nat` entries",
                "`nat` entries at the gateways on this host",
            ),
            Self::Rules => (
                "rules",
                MAX_RULES,
                "rules",
                "rules that name ports of this host",
            ),
            Self::RuleSets => (
                "rule_sets",
                MAX_RULE_SETS,
                "sets of rules",
                "different combinations of ports, peers and services in the rules of this host",
            ),
            Self::RulePeers => (
                "rule_peers",
                MAX_RULE_PREFIXES,
                "networks of peers",
                "different peers in the rules of this host",
            ),
            Self::RuleServices => (
                "rule_services",
                MAX_RULE_PREFIXES,
                "ranges of services",
                "different ranges of ports in the rules of this host",
            ),
        }
    }

    /// The name of its map.
    pub const fn table(self) -> &'static str {
        self.known().0
    }

    /// How much it holds.
    pub const fn most(self) -> usize {
        self.known().1
    }

    /// What it holds.
    pub const fn what(self) -> &'static str {
        self.known().2
    }

    /// How to need less.
    pub fn help(self) -> String {
        format!("shrink the fabric: fewer {}", self.known().3)
    }

    /// Whether so much fits.
    pub const fn check(self, count: usize) -> Result<(), TooMany> {
        if count <= self.most() {
            return Ok(());
        }
        Err(TooMany { size: self, count })
    }
}

/// A table would not fit into its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("table {} needs {count} entries and holds {}", .size.table(), .size.most())]
pub struct TooMany {
    /// The table.
    pub size: Size,
    /// How much the fabric asks for.
    pub count: usize,
}

/// How much a host needs in each of the tables of [`Size::COUNTED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts([usize; Size::COUNTED.len()]);

impl Counts {
    /// Each with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Size, usize)> {
        Size::COUNTED.into_iter().zip(self.0)
    }

    /// Whether all fits.
    pub fn check(&self) -> Result<(), TooMany> {
        self.iter().try_for_each(|(size, count)| size.check(count))
    }

    pub(crate) fn add(&mut self, size: Size, count: usize) {
        if let Some(sum) = self.0.get_mut(size as usize) {
            *sum += count;
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

impl Tables {
    /// How much of it there is.
    pub fn counts(&self) -> Counts {
        let ports = || self.ports.iter();
        let switches = self.switches.iter();
        let interfaces = self.routers.iter().map(|it| it.interfaces.len());
        let gateways = || self.routers.iter().filter_map(|it| it.gateway.as_ref());
        let on_legs = self
            .legs()
            .filter_map(|(router, _)| router.gateway.as_ref());
        let on_legs = on_legs.map(|it| it.addresses.len() + it.nat.len());
        let routes = || self.routers.iter().flat_map(|router| &router.routes);
        let mut counts = Counts::default();
        for (size, count) in [
            (Size::Ports, self.ports.len()),
            (Size::Switches, self.switches.len()),
            (Size::Fdb, self.fdb.len() + self.floating_macs.len()),
            (
                Size::Neighbours,
                self.neighbours.len() + self.floating_addresses.len(),
            ),
            (
                Size::AllowedAddresses,
                ports().map(|it| it.allowed_addresses.len()).sum(),
            ),
            (
                Size::AllowedMacs,
                ports().map(|it| it.allowed_macs.len()).sum(),
            ),
            (Size::Flood, switches.map(|it| self.flood_members(it)).sum()),
            (Size::Origins, self.origins.len()),
            (Size::Remotes, self.remotes.len()),
            (Size::Routers, self.routers.len()),
            (Size::RouterInterfaces, interfaces.sum()),
            (Size::LegAddresses, on_legs.sum()),
            (Size::Routes, routes().count()),
            (Size::NextHops, routes().map(|route| hops(&route.way)).sum()),
            (Size::NatRules, gateways().map(|it| it.nat.len()).sum()),
        ] {
            counts.add(size, count);
        }
        counts
    }

    /// Receivers of the flooded frames of a switch, with those that only hear what is said to routers.
    pub fn flood_members(&self, switch: &SwitchTable) -> usize {
        switch.flood.len() + self.routing_remotes(switch).len()
    }
}

/// How many next hops a way has.
fn hops(way: &Way) -> usize {
    match way {
        Way::Via(hops) => hops.len(),
        Way::Own | Way::Connected(_) => 0,
    }
}
