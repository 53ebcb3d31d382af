//! The maps of logical routers: routes, next hops, interfaces, the gateway's leg and its translations.

#![allow(
    missing_docs,
    reason = "the meaning of each member stands in bpf/lib/abi_router.h, once"
)]

pub use overlane_model::sizes::{
    MAX_NAT_RULES, MAX_NEXT_HOPS, MAX_ROUTER_INTERFACES, MAX_ROUTERS, MAX_ROUTES,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Addr, MacBytes, StructLayout, Timeouts};

pub const MAX_NAT_ENDS: usize = 8192;

pub const ROUTER_GATEWAY_HERE: u32 = 1 << 0;
pub const ROUTER_GATEWAY_ELSEWHERE: u32 = 1 << 1;
pub const ROUTER_NAT: u32 = 1 << 2;
pub const ROUTER_NAT_ODD: u32 = 1 << 3;
pub const ROUTER_LEG_TAKES_NO_MARK: u32 = 1 << 4;
pub const ROUTER_REVERSE_PATH: u32 = 1 << 5;
pub const ROUTER_NAT_ALL: u32 = 1 << 6;
pub const ROUTER_MSS_CLAMP: u32 = 1 << 7;
pub const NAT_RULES_ODD: u32 = 1 << 24;
pub const SWITCH_ID_LEG: u32 = 0;

pub const ROUTE_OWN: u32 = 1;
pub const ROUTE_CONNECTED: u32 = 2;
pub const ROUTE_VIA: u32 = 3;
pub const ROUTE_SIDES: u32 = 0xffff_ffff;

pub const NAT_ONE_TO_ONE: u8 = 0;
pub const NAT_FORWARD: u8 = 1;
pub const NAT_SOURCE: u8 = 2;

pub const NAT_INSIDE: u32 = 0;
pub const NAT_OUTSIDE: u32 = 1;

abi! {
    #[derive(Default)]
    struct Router = "router" {
        mac: MacBytes,
        leg_mac: MacBytes,
        flags: u32,
        leg_ifindex: u32,
        leg_mtu: u32,
        gateway: Addr,
        leg_v4: Addr,
        leg_v6: Addr,
        connections: u32,
        nat_version: u32,
        timeouts: Timeouts,
    }
    struct RouterInterfaceKey = "router_interface_key" {
        router: u32,
        switch_id: u32,
    }
    struct RouterInterface = "router_interface" {
        key: u32,
        v4: Addr,
        v6: Addr,
    }
    struct RouteKey = "route_key" {
        prefixlen: u32,
        router: u32,
        family: u32,
        addr: Addr,
    }
    #[derive(Default)]
    struct Route = "route" {
        kind: u32,
        switch_id: u32,
        group: u32,
        hops: u32,
        host_mask: u32,
        names_special: u32,
        is_outside: u32,
        own: Addr,
    }
    struct NextHopKey = "next_hop_key" {
        group: u32,
        number: u32,
    }
    struct NextHop = "next_hop" {
        addr: Addr,
        switch_id: u32,
    }
    struct NatRuleKey = "nat_rule_key" {
        list: u32,
        number: u32,
    }
    #[derive(Default)]
    struct NatRule = "nat_rule" {
        inside: Addr,
        outside: Addr,
        kind: u8,
        protocol: u8,
        inside_port: u16,
        outside_port: u16,
        port_min: u16,
        port_max: u16,
        pad: u16,
    }
    struct NatInsideKey = "nat_inside_key" {
        prefixlen: u32,
        list: u32,
        family: u32,
        addr: Addr,
    }
    struct NatEndKey = "nat_end_key" {
        list: u32,
        side: u32,
        addr: Addr,
        port: u16,
        protocol: u8,
        family: u8,
    }
    struct LegAddressKey = "leg_address_key" {
        ifindex: u32,
        addr: Addr,
    }
}
