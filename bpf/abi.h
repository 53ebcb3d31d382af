/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the eBPF programs and the Rust side (crates/ebpf/src/abi.rs): keys and values
 * of every map. No struct has padding the compiler chose. Addresses are bytes in network order (IPv4
 * as ::ffff:a.b.c.d); everything else is a native integer. A test compares each struct with the
 * object's BTF, so a change on one side only does not pass.
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
#define MAX_SWITCHES 16384
#define MAX_FDB 65536
#define MAX_NEIGHBOURS 131072
#define MAX_REMOTES 1024
#define MAX_FLOOD 262144
#define MAX_FLOOD_MEMBERS 1024 /* of one switch: bounds the loop */
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
	HOOK_COUNT = 4,
};

enum encapsulation {
	ENCAPSULATION_VXLAN = 0,
	ENCAPSULATION_GENEVE = 1,
};

/*
 * A logical switch inside the maps, `switch_id`: its VNI, or, when it is bound to a VLAN on the uplink
 * instead, this bit and the VLAN.
 */
#define SWITCH_ID_VLAN (1u << 24)

struct addr {
	__u8 bytes[16];
};

struct mac {
	__u8 bytes[6];
};

/* Map settings: one entry. */
struct settings {
	struct addr vtep; /* our tunnel end point */
	__u32 uplink_ifindex;
	__u32 segmenter_ifindex; /* the end that segments; 0: none */
	__u32 underlay_mtu;      /* largest outer IP packet */
	__u32 hash_seed;
	__u16 tunnel_port;
	__u16 source_port_min;
	__u16 source_port_max;
	__u8 encapsulation; /* enum encapsulation */
	__u8 family;        /* of the underlay: 4 or 6 */
	__u8 strict;        /* 1: reserved bits must be zero */
	__u8 dscp;          /* of the outer header, 0..63 */
	__u8 copy_dscp;     /* 1: the inner one instead */
	__u8 pad[5];
};

/* Where a port is: its device and, on a trunk, its VLAN tag (0: untagged). */
struct port_id {
	__u32 ifindex;
	__u32 vlan;
};

/* Map ports: port_id → port. */
#define PORT_PEER (1 << 0)            /* a veth, its peer in another namespace: redirect_peer works */
#define PORT_CHECK_MAC (1 << 1)       /* port security: MAC, ARP and ND, DHCP servers, routers */
#define PORT_CHECK_ADDRESSES (1 << 2) /* port security: addresses too */
#define PORT_DHCP_SERVER (1 << 3)     /* may answer as a DHCP server */
#define PORT_ROUTER (1 << 4)          /* may send router advertisements and redirects */
#define PORT_LEARNING (1 << 5)        /* has MACs the fabric does not know */

struct port {
	__u32 switch_id;
	__u16 key; /* logical port key: 1..32767, unique in the switch, the same on every host */
	struct mac mac;
	__u32 flags;
	__u32 learn_limit; /* most MACs at a time */
	__u32 learn_age;   /* seconds a MAC is remembered without a packet of it */
};

/* Map port_keys: (switch, key) → port_id. */
struct port_key {
	__u32 switch_id;
	__u32 key;
};

/* Map switches: switch_id → switch. */
#define SWITCH_FLOOD_UNKNOWN (1 << 0)
#define SWITCH_TRANSPARENT (1 << 1) /* carries VLAN tags of guests */
#define SWITCH_LEARNING (1 << 2)    /* has a learning port, here or elsewhere */

struct lswitch {
	__u32 flood_members; /* entries 0..n of map flood */
	__u32 flags;
	__u32 learn_age; /* seconds a MAC behind a remote is remembered */
};

/* Map fdb: (switch, mac) → where the address lives. */
struct fdb_key {
	__u32 switch_id;
	struct mac mac;
	__u16 pad;
};

struct fdb_entry {
	struct port_id port; /* on this host; ifindex 0: elsewhere */
	__u32 key;           /* logical port key */
	struct addr remote;  /* VTEP of the remote; a switch on a VLAN has none */
};

/*
 * Map learned: (switch, mac) → where the address was last seen. Written by the programs. Begins like
 * fdb_entry.
 */
struct learned {
	struct port_id port;
	__u32 key;          /* of the port; 0: behind a remote that did not say */
	struct addr remote; /* zero on a VLAN */
	__u32 age;          /* seconds it is remembered */
	__u64 seen;         /* bpf_ktime_get_ns() */
};

/*
 * Map learning: (switch, key) → how many addresses are learned for a learning port, or with key 0 from the
 * underlay. Switch 0, key 0 is the clock of the whole host. Written by the programs.
 */
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

#define NEIGHBOUR_ROUTER (1 << 0) /* its port may advertise itself as a router */

struct neighbour {
	struct mac mac;
	__u16 key; /* owning port: it never gets an answer about itself */
	__u32 flags;
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
 * Map remotes: VTEP address → outer header template. The template starts with an empty Ethernet
 * header; length, checksum, source port, VNI and option data are written per packet.
 */
struct remote {
	__u16 header_len; /* with the Ethernet header */
	__u16 ip_csum;    /* IPv4: folded sum (not inverted) of the header with length 0; else 0 */
	__u32 pad;
	__u8 header[MAX_TEMPLATE];
};

struct counter {
	__u64 packets;
	__u64 segments;
	__u64 bytes;
};

/* Map port_counters (per CPU): (switch, key) → counters of one logical port. */
struct port_counters {
	struct counter from_port;
	struct counter to_port;
	struct counter dropped; /* of what came from the port */
};

/* Map remote_counters (per CPU): VTEP address → counters of one remote. */
struct remote_counters {
	struct counter to_remote;
	struct counter from_remote;
	struct counter dropped; /* packets or flooded copies for it, and packets from it */
};

/* Map verdict_counters (per CPU array): hook * VERDICT_SLOTS + verdict → struct counter. */

/*
 * Map capture: one entry, what `overlane capture` asks for. Packets go to the ring `events`, each as it
 * entered the hook and, when it went on as something else, as it left.
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
 * Map test_io: one entry, used only by programs loaded with test_mode set (BPF_PROG_TEST_RUN says
 * neither where a packet would go nor takes a tag or a clock).
 */
struct test_io {
	__u64 now;         /* in: instead of bpf_ktime_get_ns() */
	__u32 ifindex;     /* in: the device the packet enters by */
	__u32 mark;        /* in: skb->mark */
	__u16 vlan_proto;  /* in: tag beside the bytes, network order; 0: none */
	__u16 vlan_tci;    /* in */
	__u16 out_proto;   /* out: tag beside the bytes */
	__u16 out_tci;     /* out */
	__u32 verdict;     /* out */
	__u32 out_ifindex; /* out: the device it was sent to; 0: none */
	__u32 copies;      /* out: of a flooded frame, that could be sent */
	__u32 pad;
};
