//! Whether tables fit into their maps. The classifier's own maps are looked at where it is built.

use overlane_model::{SwitchTable, Tables, Way};

use crate::EbpfError;
use crate::abi::{self, firewall, router};
use crate::tables::Table;

/// Whether all tables fit; needs no device, so it can be the first check of all.
pub fn check_capacity(tables: &Tables) -> Result<(), EbpfError> {
    let switches = tables.switches.iter();
    let flood: Vec<_> = switches
        .map(|switch| (switch.id, flood_members(tables, switch)))
        .collect();
    let in_all = flood.iter().map(|(_, count)| count).sum();
    let all = ports(tables, in_all).into_iter().chain(routers(tables));
    for (table, count, limit, shrink) in all {
        if count > limit {
            return Err(EbpfError::TooMany {
                table: table.name(),
                count,
                limit,
                shrink,
            });
        }
    }
    for (switch, count) in flood {
        let limit = abi::MAX_FLOOD_MEMBERS;
        if count > limit {
            return Err(EbpfError::FloodList {
                switch,
                count,
                limit,
            });
        }
    }
    Ok(())
}

/// With those that only hear what is said to routers.
fn flood_members(tables: &Tables, switch: &SwitchTable) -> usize {
    switch.flood.len() + tables.routing_remotes(switch).len()
}

/// A table, its entries, how many fit, and what in the fabric makes them.
type Count = (Table, usize, usize, &'static str);

fn ports(tables: &Tables, flood_members: usize) -> [Count; 10] {
    let ports = || tables.ports.iter();
    [
        (
            Table::Ports,
            tables.ports.len(),
            abi::MAX_PORTS,
            "fewer ports on this host",
        ),
        (
            Table::Switches,
            tables.switches.len(),
            abi::MAX_SWITCHES,
            "fewer switches with a port on this host, or joined with one by a router",
        ),
        (
            Table::Fdb,
            tables.fdb.len() + tables.floating_macs.len(),
            abi::MAX_FDB,
            "fewer ports in the switches of this host",
        ),
        (
            Table::Neighbours,
            tables.neighbours.len() + tables.floating_addresses.len(),
            abi::MAX_NEIGHBOURS,
            "fewer addresses on the ports of this host's switches",
        ),
        (
            Table::AllowedAddresses,
            ports().map(|port| port.allowed_addresses.len()).sum(),
            abi::MAX_ALLOWED_ADDRESSES,
            "fewer `allowed_addresses` at the ports of this host",
        ),
        (
            Table::AllowedMacs,
            ports().map(|port| port.allowed_macs.len()).sum(),
            abi::MAX_ALLOWED_MACS,
            "fewer `allowed_macs` at the ports of this host",
        ),
        (
            Table::Flood,
            flood_members,
            abi::MAX_FLOOD,
            "fewer ports on this host, or fewer hosts per switch",
        ),
        (
            Table::Origins,
            tables.origins.len(),
            abi::MAX_ORIGINS,
            "fewer hosts per switch, or fewer switches that routers join",
        ),
        (
            Table::Remotes,
            tables.remotes.len(),
            abi::MAX_REMOTES,
            "fewer hosts",
        ),
        (
            Table::Rules,
            tables.firewall.rules.len(),
            firewall::MAX_RULES,
            "fewer rules that name ports of this host",
        ),
    ]
}

fn routers(tables: &Tables) -> [Count; 6] {
    let routers = &tables.routers;
    let gateways = || routers.iter().filter_map(|router| router.gateway.as_ref());
    let here = routers
        .iter()
        .filter(|router| router.leg().is_some())
        .filter_map(|router| router.gateway.as_ref())
        .map(|gateway| gateway.addresses.len() + gateway.nat.len());
    let hops = routers.iter().flat_map(|router| &router.routes);
    let hops = hops.map(|route| match &route.way {
        Way::Via(hops) => hops.len(),
        Way::Own | Way::Connected(_) => 0,
    });
    [
        (
            Table::Routers,
            routers.len(),
            router::MAX_ROUTERS,
            "fewer routers that this host knows",
        ),
        (
            Table::RouterInterfaces,
            routers.iter().map(|router| router.interfaces.len()).sum(),
            router::MAX_ROUTER_INTERFACES,
            "fewer interfaces of the routers that this host knows",
        ),
        (
            Table::LegAddresses,
            here.sum(),
            router::MAX_ROUTER_INTERFACES,
            "fewer addresses on the legs of this host, or fewer nat rules",
        ),
        (
            Table::Routes,
            routers.iter().map(|router| router.routes.len()).sum(),
            router::MAX_ROUTES,
            "fewer routes in the routers that this host knows",
        ),
        (
            Table::NextHops,
            hops.sum(),
            router::MAX_NEXT_HOPS,
            "fewer next hops in the routes of the routers that this host knows",
        ),
        (
            Table::NatRules,
            gateways().map(|gateway| gateway.nat.len()).sum(),
            router::MAX_NAT_RULES,
            "fewer nat rules at the gateways on this host",
        ),
    ]
}
