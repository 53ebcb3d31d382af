/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of routers: their interfaces and routes, their translations and their legs. Part of abi.h. */
#pragma once

#include "abi_firewall.h"

#define MAX_ROUTERS 4096
#define MAX_ROUTER_INTERFACES 16384
#define MAX_ROUTES 65536
#define MAX_NEXT_HOPS 65536
#define MAX_NAT_RULES 4096 /* of one host */
#define MAX_NAT_ENDS 8192  /* two of each rule */

/* Map routers: router_id (1..0xffffff) → router. */
#define ROUTER_GATEWAY_HERE (1 << 0) /* this is its acting host */
#define ROUTER_GATEWAY_ELSEWHERE (1 << 1)
#define ROUTER_NAT (1 << 2)               /* it translates; only where it is the gateway */
#define ROUTER_NAT_ODD (1 << 3)           /* its nat rules are those of router_id | NAT_RULES_ODD */
#define ROUTER_LEG_TAKES_NO_MARK (1 << 4) /* as PORT_TAKES_NO_MARK, of the leg's device */
#define ROUTER_REVERSE_PATH (1 << 5)      /* a packet's source must be where the packet came from */
#define ROUTER_NAT_ALL (1 << 6)           /* what no nat rule translates is dropped */
#define ROUTER_MSS_CLAMP (1 << 7)         /* TCP that it routes gets an MSS that fits */

struct router {
	struct mac mac;
	struct mac leg_mac; /* of the leg's device */
	__u32 flags;
	__u32 leg_ifindex;   /* 0: no leg, or on another host */
	__u32 leg_mtu;       /* largest IP packet */
	struct addr gateway; /* VTEP of the acting host; zero: here, or none */
	struct addr leg_v4;  /* sources of ICMP errors into the physical network; zero: none */
	struct addr leg_v6;
	__u32 connections;        /* its share: most translations at a time */
	__u32 nat_version;        /* a hash over all that decides what is translated */
	struct timeouts timeouts; /* of its translations */
};

/* Map legs: ifindex → router_id. */

/* Map router_interfaces: (router, switch) → interface. */
struct router_interface_key {
	__u32 router;
	__u32 switch_id;
};

struct router_interface {
	__u32 key;      /* logical port key in that switch */
	struct addr v4; /* sources of ICMP errors; zero: none */
	struct addr v6;
};

/* Map routes (LPM trie): router, family and address → the way. The prefix counts router and family too. */
struct route_key {
	__u32 prefixlen; /* 64 + bits of the address (IPv4: 96 + its own) */
	__u32 router;    /* big endian, for the trie */
	__u32 family;    /* 4 or 6, big endian */
	struct addr addr;
};

enum route_kind {
	ROUTE_OWN = 1,       /* the router's own address */
	ROUTE_CONNECTED = 2, /* the destination itself is on switch_id; 0: on the leg's network */
	ROUTE_VIA = 3,       /* by one of the next hops */
};

struct route {
	__u32 kind;      /* enum route_kind */
	__u32 switch_id; /* of a connected network; SWITCH_ID_LEG: the leg's. ROUTE_VIA: of all its next hops, or ROUTE_SIDES */
	__u32 group;     /* of next hops */
	__u32 hops;      /* how many */
	__be32 host_mask;    /* of a connected IPv4 network with more than two addresses */
	__u32 names_special; /* 1: it lies inside a block of special addresses (special.h) */
	__u32 is_outside; /* 1: ROUTE_OWN, and a nat rule of the router has it as its outside address */
	struct addr own; /* of a connected network: the router's address in it */
};

#define SWITCH_ID_LEG 0
#define ROUTE_SIDES 0xffffffffu /* the next hops are on several sides */

/* Map next_hops: (group, number) → where a static route leads. */
struct next_hop_key {
	__u32 group;
	__u32 number;
};

struct next_hop {
	struct addr addr;
	__u32 switch_id; /* SWITCH_ID_LEG: by the leg */
};

enum nat_kind {
	NAT_ONE_TO_ONE = 0,
	NAT_FORWARD = 1,
	NAT_SOURCE = 2,
};

/*
 * A list of nat rules: router_id, and with this bit the other list of the router, so that `apply` can change one while
 * packets use the other.
 */
#define NAT_RULES_ODD (1u << 24)

/* Map nat_rules: (list, number) → rule, in the order of the file. Two more maps find the first that fits. */
struct nat_rule_key {
	__u32 list;
	__u32 number;
};

struct nat_rule {
	struct addr inside; /* zero: NAT_SOURCE */
	struct addr outside;
	__u8 kind;          /* enum nat_kind */
	__u8 protocol;      /* NAT_FORWARD */
	__u16 inside_port;  /* NAT_FORWARD; native */
	__u16 outside_port; /* NAT_FORWARD; native */
	__u16 port_min;     /* NAT_SOURCE; native */
	__u16 port_max;
	__u16 pad;
};

/*
 * Map nat_insides (LPM trie): list, family and inside address → number of the first NAT_ONE_TO_ONE or NAT_SOURCE that
 * is for it. The longest prefix has the number of a wider one if that comes first.
 */
struct nat_inside_key {
	__u32 prefixlen; /* 64 + bits of the address (IPv4: 96 + its own) */
	__u32 list;      /* big endian, for the trie */
	__u32 family;    /* 4 or 6, big endian */
	struct addr addr;
};

enum nat_side {
	NAT_INSIDE = 0,
	NAT_OUTSIDE = 1,
};

/* Map nat_ends: an end of NAT_FORWARD, or the outside address of NAT_ONE_TO_ONE → number of the first rule with it. */
struct nat_end_key {
	__u32 list;
	__u32 side; /* enum nat_side */
	struct addr addr;
	__u16 port;    /* native; NAT_ONE_TO_ONE: 0 */
	__u8 protocol; /* NAT_ONE_TO_ONE: 0 */
	__u8 family;
};

/* Map leg_addresses: (leg's ifindex, address) → router_id: addresses we answer for on the leg. */
struct leg_address_key {
	__u32 ifindex;
	struct addr addr;
};
