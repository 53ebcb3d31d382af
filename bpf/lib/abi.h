/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the eBPF programs and the Rust side (crates/ebpf/src/abi.rs): keys and values of every map. No
 * struct has padding the compiler chose. Addresses are bytes in network order (IPv4 as ::ffff:a.b.c.d); everything
 * else is a native integer. A test compares each struct with the object's BTF, so a change on one side only does not
 * pass.
 */
#pragma once

#include <linux/types.h>

#include "verdicts.h"

/* Newer than Debian 12's linux/bpf.h (6.1). */
#ifndef TCX_NEXT
#define TCX_NEXT (-1)
#define TCX_DROP 2
#endif
#ifndef BPF_F_ADJ_ROOM_DECAP_L3_IPV4
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)
#endif

#define MAX_PORTS 16384
#define MAX_DEVICES 32768 /* of ports and legs, and our own: a power of two */
#define MAX_SWITCHES 16384
#define MAX_FDB 65536
#define MAX_NEIGHBOURS 131072
#define MAX_ALLOWED_ADDRESSES 65536
#define MAX_ALLOWED_MACS 65536
#define MAX_REMOTES 1024
#define MAX_ORIGINS 1048576 /* pairs of switch and remote */
#define MAX_FLOOD 262144
#define MAX_FLOOD_MEMBERS 1024 /* of one switch */
#define MAX_LEARNED 262144
#define MAX_LEARNED_FROM_UNDERLAY 4096 /* of one switch */
#define EVENT_BYTES 1048576            /* of the ring of captured packets: a power of two */
#define MAX_SNAP 2048                  /* of one captured packet: a power of two */

/* Longest outer header we write: Ethernet 14, IPv6 40, UDP 8, Geneve 8 + OVN option 8. */
#define MAX_TEMPLATE 80

enum hook {
	HOOK_FROM_PORT = 0,       /* a port's device */
	HOOK_FROM_UNDERLAY = 1,   /* the uplink */
	HOOK_FROM_SEGMENTER = 2,  /* segments of a super-packet that could not travel whole */
	HOOK_FROM_GRO_DEVICE = 3, /* the kernel device that registers the tunnel port for GRO */
	HOOK_FROM_LEG = 4,        /* a gateway's device in the physical network */
	HOOK_FROM_UNMARKER = 5,   /* frames that the kernel took the tunnel's mark off */
	HOOK_FROM_COALESCER = 6,  /* tunnel packets that the coalescer joined */
	HOOK_COUNT = 7,
};

enum encapsulation {
	ENCAPSULATION_VXLAN = 0,
	ENCAPSULATION_GENEVE = 1,
};

/*
 * A logical switch inside the maps, `switch_id`: its VNI, or, when it is bound to a VLAN on the uplink instead, this
 * bit and the VLAN.
 */
#define SWITCH_ID_VLAN (1u << 24)

struct addr {
	__u8 bytes[16];
} __attribute__((aligned(4)));

struct mac {
	__u8 bytes[6];
} __attribute__((aligned(2)));

/* Map settings: one entry. */
struct settings {
	struct addr vtep;   /* our tunnel end point */
	__u64 netns_cookie; /* of our network namespace (SO_NETNS_COOKIE) */
	__u32 uplink_ifindex;
	__u32 segmenter_ifindex; /* the end that segments; 0: none. No other namespace has the index: lib/devices.h */
	__u32 segmenter_out_ifindex; /* the end where the segments come out */
	__u32 unmarker_ifindex;  /* the end that frames with a tunnel's mark are sent into; 0: none */
	__u32 coalescer_ifindex; /* the end that tunnel packets to be joined are sent into; 0: none */
	__u32 underlay_mtu;      /* largest outer IP packet */
	__u32 hash_seed;         /* of the flow hash: the same on every host */
	__u32 secret;            /* seed of what nobody outside may foresee: this host's own */
	__u32 cookie_key[2];     /* likewise: with it, of cookies */
	__u16 tunnel_port;
	__u16 source_port_min;
	__u16 source_port_max;
	__u8 encapsulation;  /* enum encapsulation */
	__u8 family;         /* of the underlay: 4 or 6 */
	__u8 strict;         /* 1: reserved bits must be zero */
	__u8 dscp;           /* of the outer header, 0..63 */
	__u8 copy_dscp;      /* 1: the inner one instead */
	__u8 port_shared;    /* 1: another device has the tunnel's port: what is not ours is its */
	__u32 rules_version; /* a hash over all that acl reads */
	__u32 connection_places; /* so many of the map with this name: a power of two */
	__u32 pad;
	struct addr vteps; /* the smallest network that has all VTEPs of the fabric, */
	struct addr vteps_mask;
};

/* Where a port is: its device and, on a trunk, its VLAN tag (0: untagged). */
struct port_id {
	__u32 ifindex;
	__u32 vlan;
};

/*
 * Map devices (devmap): index of each device that packets come from or go to → the same. The kernel holds the device
 * itself, and takes the entry away when that goes or leaves the namespace. See lib/devices.h.
 *
 * Map devices_seen, by the index modulo its size: when a device was found there last (high half) and which (low half).
 */
#define SEEN_DEVICES 16384
struct device {
	__u32 ifindex;
	__u32 program; /* of XDP: none */
};

/* Map ports: port_id → port. */
#define PORT_PEER (1 << 0)            /* its peer is in another namespace: redirect_peer works */
#define PORT_CHECK_MAC (1 << 1)       /* port security: MAC, ARP and ND, DHCP servers, routers */
#define PORT_CHECK_ADDRESSES (1 << 2) /* port security: addresses too */
#define PORT_DHCP_SERVER (1 << 3)     /* may answer as a DHCP server */
#define PORT_ROUTER (1 << 4)          /* may send router advertisements and redirects */
#define PORT_LEARNING (1 << 5)        /* has MACs the fabric does not know */
#define PORT_FIREWALL (1 << 6)        /* conntrack and acl look at it */
#define PORT_DROP_FROM (1 << 7)       /* default policy from port: drop; else allow, statefully */
#define PORT_DROP_TO (1 << 8)         /* the same, to port */
#define PORT_ALLOW_WHEN_FULL (1 << 9) /* no place for a connection: pass without one */
#define PORT_RULES_ODD (1 << 10)      /* its rules are those of generation 1; else 0 */
#define PORT_TAKES_NO_MARK (1 << 11)  /* its device segments what has a tunnel's mark (a TAP does) */
#define PORT_DROP_NON_IP (1 << 12)    /* neither IP nor ARP: only what its switch lets pass */
#define PORT_ASKS_PROTOCOL_FROM (1 << 13) /* a rule from port asks for the protocol, */
#define PORT_ASKS_PROTOCOL_TO (1 << 14)
#define PORT_ASKS_PORTS_FROM (1 << 15) /* or for ports or types */
#define PORT_ASKS_PORTS_TO (1 << 16)
#define PORT_ALLOWED_ADDRESSES (1 << 17) /* has some in map allowed_addresses */
#define PORT_ALLOWED_MACS (1 << 18)      /* has some in map allowed_macs */

struct port {
	__u32 switch_id;
	__u16 key; /* logical port key: 1..32767, unique in the switch, the same on every host */
	struct mac mac;
	__u32 flags;
	__u32 learn_limit; /* most MACs at a time */
	__u32 learn_age;   /* seconds a MAC is remembered without a packet of it */
	__u32 rules_from;  /* rule set of what comes from the port; 0: no rule */
	__u32 rules_to;    /* the same of what goes to it */
	__u32 counters;    /* its number in map port_counters: 1.. */
	__u32 connections; /* its share: most connections at a time */
	__u32 flood;       /* most copies of its flooded frames in 100 ms */
	__u32 owner;       /* a hash over its device and MAC: whose its connections are */
	__u32 mtu;         /* of its device: the largest IP packet that it takes */
};

/* Map port_keys: (switch, key) → port_place. */
struct port_key {
	__u32 switch_id;
	__u32 key;
};

struct port_place {
	struct port_id id;
	__u32 counters; /* as in its port: here `apply` finds it, whatever else a port has in another build */
};

/* Map port_numbers (array): number of a port's counters → port_id. */

/* Seconds that a connection lives without a packet, by protocol and state: docs/semantics.md, conntrack. */
struct timeouts {
	__u32 tcp_opening;
	__u32 tcp_established;
	__u32 tcp_closing;
	__u32 tcp_closed;
	__u32 udp_unanswered;
	__u32 udp;
	__u32 icmp;
	__u32 other_unanswered;
	__u32 other;
};

/* Map switches: switch_id → switch. */
#define SWITCH_FLOOD_UNKNOWN (1 << 0)
#define SWITCH_TRANSPARENT (1 << 1)   /* carries VLAN tags of guests */
#define SWITCH_LEARNING (1 << 2)      /* has a learning port or floating MACs, here or elsewhere */
#define SWITCH_ASKS (1 << 3)          /* routers ask on it for neighbours that no port declares */
#define SWITCH_TELLS_TOO_BIG (1 << 4) /* who sends what does not fit */
#define SWITCH_MSS_CLAMP (1 << 5)     /* TCP that crosses the underlay gets an MSS that fits */
#define MAX_NON_IP 8

struct lswitch {
	__u32 flood_members; /* entries 0..n of map flood, */
	__u32 flood_routers; /* and so many behind them: remotes that only route into it */
	__u32 flags;
	__u32 learn_age;           /* seconds a MAC behind a remote is remembered */
	__u32 router;              /* with an interface there, the lowest number; 0: none */
	__be16 non_ip[MAX_NON_IP]; /* EtherTypes that pass where PORT_DROP_NON_IP is set; 0: none */
	struct timeouts timeouts;  /* of the connections of its ports */
};

/* Map fdb: (switch, mac) → where the address lives. */
struct fdb_key {
	__u32 switch_id;
	struct mac mac;
	__u16 pad;
};

#define FDB_ROAMS (1 << 0) /* frames with this source may come from any remote */
#define FDB_FLOATS                                                                                   \
	(1                                                                                           \
	 << 1) /* several ports may have the address: `learned` says where it is; the rest is zero */

#define FDB_LEARNED (1 << 2) /* only in the programs: it is not from map fdb, but from `learned` */

struct fdb_entry {
	struct port_id port; /* on this host; ifindex 0: elsewhere */
	__u32 key;           /* logical port key */
	struct addr remote;  /* VTEP of the remote; a switch on a VLAN has none */
	__u32 router;        /* the address is this router's; then the rest is zero but the key */
	__u32 flags;
};

/*
 * Map origins: (switch, remote) → __u32, flags: the remote may send into that switch. It has ports there, or routers
 * lead there from its ports or from a gateway on it.
 */
#define ORIGIN_HAS_PORTS (1 << 0) /* else it only routes into the switch */

struct origin_key {
	__u32 switch_id;
	struct addr remote;
};

/* Map learned: (switch, mac) → where the address was last seen. Written by the programs. Begins like fdb_entry. */
struct learned {
	struct port_id port;
	__u32 key;          /* of the port; 0: behind a remote that did not say */
	struct addr remote; /* zero on a VLAN */
	__u32 router;       /* 0 */
	__u32 flags;        /* FDB_FLOATS, or 0 */
	__u32 age;          /* seconds it is remembered */
	__u64 seen;         /* bpf_ktime_get_ns() */
};

/*
 * Map learning: (switch, key) → how many addresses are learned for a learning port, with key 0 from the underlay, or
 * with LEARNING_FLOATING of those that float. Switch 0, key 0 is the clock of the whole host. Written by the programs.
 */
#define LEARNING_FLOATING 0x8000 /* no port's key */

struct learning {
	__u32 macs;
	__u32 pad;
	__u64 next_sweep; /* of the host: not before then are old entries looked for again */
};

/* Map neighbours: (switch, address) → MAC, for the ARP/ND responder. */
struct neighbour_key {
	__u32 switch_id;
	struct addr addr;
};

#define NEIGHBOUR_ROUTER (1 << 0)    /* may advertise itself as a router */
#define NEIGHBOUR_INTERFACE (1 << 1) /* a logical router's interface: we are it */
#define NEIGHBOUR_GATEWAY (1 << 2)   /* and this is that router's acting host */
#define NEIGHBOUR_FLOATING (1 << 3)  /* several ports may have it: it is nobody's, the rest is zero */

struct neighbour {
	struct mac mac;
	__u16 key; /* owning port: it never gets an answer about itself */
	__u32 flags;
};

/*
 * Map found: (side, address) → a neighbour that answered a router. A side is a switch, or ZONE_ROUTER | router: the
 * router's leg. Written by the programs.
 */
#define MAX_FOUND 65536
#define MAX_FOUND_AT_PORT 1024
#define MAX_FOUND_BEHIND 4096 /* the underlay of one switch, or one leg */

struct found_neighbour {
	struct mac mac;
	__u16 key;       /* of the port that counts it; 0: behind the underlay, or a leg */
	__u64 confirmed; /* when it last answered; 30 s later it is stale */
	__u64 asked;     /* when it was asked again last, */
	__u32 tries;     /* so many times */
	__u32 unasked;   /* 1: no router has asked for it, it spoke first */
};

/*
 * Map found_counts: (side, key) → struct learning: how many neighbours count there, those that spoke first with this bit
 * in the key. Side 0, key 0: the host's clock.
 */
#define FOUND_UNASKED 0x8000 /* no port's key */

/* Map asked (LRU): (side, address) → a router asked for it, and nobody has answered. Written by the programs. */
#define MAX_ASKED 16384

struct asked {
	__u64 at;    /* the last time, */
	__u32 tries; /* of so many */
	__u32 pad;
};

/*
 * Map probes (array): a copy of a packet goes through the segmenter and becomes a question to a neighbour. Which one,
 * stands under the number in its mark; 0 counts the numbers that were given. Written by the programs.
 */
#define MAX_PROBES 1024 /* a power of two */

struct probe {
	__u32 router;
	__u32 side;
	struct addr addr;
};

/*
 * Map allowed_addresses (longest prefix): what a port of this host may use beside its own addresses → __u32, 1: a
 * single address, which floats.
 */
struct allowed_address_key {
	__u32 prefixlen; /* 96 and that of the network (IPv4: 96 more) */
	__be32 switch_id;
	__be32 key;
	__be32 family; /* 4 or 6 */
	struct addr addr;
};

/* Map allowed_macs: (switch, key of a port of this host, MAC that it may use beside its own) → __u32, 1. */
struct allowed_mac_key {
	__u32 switch_id;
	struct mac mac;
	__u16 key;
};

/* Map flood: (switch, index) → one receiver of a flooded frame. */
struct flood_key {
	__u32 switch_id;
	__u32 index;
};

struct flood_member {
	struct port_id port; /* on this host; ifindex 0: a remote */
	struct addr remote;
};

/*
 * Map remotes: VTEP address → outer header template. The template starts with an empty Ethernet header; length,
 * checksum, source port, VNI and option data are written per packet.
 */
struct remote {
	__u16 header_len; /* with the Ethernet header */
	__u16 ip_csum;    /* IPv4: folded sum (not inverted) of the header with length 0; else 0 */
	__u32 counters;   /* its number in map remote_counters: 1.. */
	__u8 header[MAX_TEMPLATE];
};

/*
 * Map abilities: VTEP address of a remote → what it said that it can take, `enum ability`. Written by the programs
 * (greeting.h), where the remote shows this host's cookie; `apply` asks anew, and marks what it knew until the answer
 * comes.
 */
#define ABILITY_WHOLE_UDP (1 << 0) /* UDP super-packets that the sender did not segment, for ports */
#define ABILITY_ROUTES_WHOLE_UDP (1 << 1) /* the same, for routers */
#define ABILITY_DOUBTED (1u << 31)        /* by `apply`: not said again yet */

/*
 * Map path_mtus (array): number of a remote's counters → the largest outer IP packet that gets there, where that is
 * less than the uplink's MTU. Written by the programs (path_mtu.h), and by `overlane mtu --watch`.
 */
struct path_mtu {
	__u32 mtu;       /* 0: none is known */
	__u32 until;     /* bpf_ktime_get_ns(), in seconds: then it is forgotten */
	struct addr hop; /* who said so; zero: probes found it */
};

/*
 * Map flow_ways (array): UDP source port of the tunnel, which is the flow's hash → which way its packets take, so that
 * none overtakes another. Times are in units of 2^20 ns and wrap. Written by the programs.
 */
#define MAX_FLOW_WAYS 65536

struct flow_way {
	__u32 unmarked;  /* when one last went through the unmarker; 0: never */
	__u32 coalesced; /* the same of the coalescer */
	__u32 single;    /* full segments that came one by one since the last super-packet, */
	__u32 whole;     /* which came then */
};

struct counter {
	__u64 packets;
	__u64 segments;
	__u64 bytes;
};

/*
 * Map port_counters (per CPU): number → counters of one logical port. 0 is nobody's. A port keeps its number while it
 * exists; a new one's counters begin at zero.
 */
struct port_counters {
	__u64 longest; /* bytes of the longest IP packet that came from it, segments counted, */
	__u64 longest_segment; /* and of the longest segment of a super-packet */
	struct counter from_port;
	struct counter to_port;
	struct counter dropped; /* of what came from the port, */
	struct counter
		untold; /* and of that what its guest was not told of: it had been told enough */
};

/* Map remote_counters (per CPU): number → counters of one remote, likewise. */
struct remote_counters {
	struct counter to_remote;
	struct counter from_remote;
	struct counter dropped; /* packets or flooded copies for it, and packets from it */
};

/* Map verdict_counters (per CPU array): hook * VERDICT_SLOTS + verdict → struct counter. */

/*
 * Map capture: one entry, what `overlane capture` asks for. Packets go to the ring `events`, each as it entered the
 * hook and, when it went on as something else, as it left.
 */
enum capture_mode {
	CAPTURE_OFF = 0,
	CAPTURE_ALL = 1,
	CAPTURE_DROPS = 2,
	CAPTURE_PORT = 3, /* to and from one port, and what its switch floods */
};

struct capture {
	__u32 mode; /* enum capture_mode */
	__u32 switch_id;
	__u32 key;
	__u32 snap; /* bytes of each packet, at most MAX_SNAP */
	__u64 lost; /* events that the ring had no room for; written by the programs */
};

enum event_phase {
	EVENT_ENTERED = 0,
	EVENT_LEFT = 1,
};

/* Ring events: a header, then `captured` bytes of the packet. */
struct event {
	__u64 time;      /* bpf_ktime_get_ns() */
	__u32 switch_id; /* 0: not known */
	__u32 ifindex;   /* of the hook's device */
	__u32 len;       /* of the packet */
	__u32 captured;  /* bytes that follow */
	__u32 segments;
	__u16 source_key; /* 0: not known */
	__u16 dest_key;   /* 0: not known or not one port */
	__u16 vlan_proto; /* of a tag beside the bytes, network order; 0: none */
	__u16 vlan_tci;   /* host order */
	__u8 hook;        /* enum hook */
	__u8 verdict;     /* enum verdict */
	__u8 phase;       /* enum event_phase */
	__u8 pad;
};

/*
 * Map test_io: one entry, used only by programs loaded with test_mode set (BPF_PROG_TEST_RUN says neither where a
 * packet would go nor takes a tag, a clock or all that makes a super-packet).
 */
#define MAX_GONE 4

struct test_io {
	__u64 now;            /* in: instead of bpf_ktime_get_ns() */
	__u32 ifindex;        /* in: the device the packet enters by */
	__u32 mark;           /* in: skb->mark */
	__u16 vlan_proto;     /* in: tag beside the bytes, network order; 0: none */
	__u16 vlan_tci;       /* in */
	__u16 out_proto;      /* out: tag beside the bytes */
	__u16 out_tci;        /* out */
	__u32 verdict;        /* out */
	__u32 out_ifindex;    /* out: the device it was sent to; 0: none */
	__u32 gso_size;       /* in: payload of a segment; 0: no super-packet */
	__u32 gso_segs;       /* in */
	__u32 gone[MAX_GONE]; /* in: devices that are no longer there; 0: none */
};
