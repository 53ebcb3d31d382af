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

#define MAX_PORTS 4096
#define MAX_SWITCHES 4096
#define MAX_FDB 65536
#define MAX_NEIGHBOURS 131072
#define MAX_REMOTES 1024
#define MAX_FLOOD 262144
#define MAX_FLOOD_MEMBERS 1024 /* of one switch: bounds the loop */

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
	__u8 pad[7];
};

/* Map ports: ifindex → port. */
#define PORT_PEER (1 << 0) /* a veth whose peer is in another namespace: bpf_redirect_peer works */

struct port {
	__u32 vni;
	__u16 key; /* logical port key: 1..32767, unique in the switch, the same on every host */
	struct mac mac;
	__u32 flags;
};

/* Map port_keys: (vni, key) → ifindex. */
struct port_key {
	__u32 vni;
	__u32 key;
};

/* Map switches: vni → switch. */
#define SWITCH_FLOOD_UNKNOWN (1 << 0)

struct lswitch {
	__u32 flood_members; /* entries 0..n of map flood */
	__u32 flags;
};

/* Map fdb: (vni, mac) → where the address lives. */
struct fdb_key {
	__u32 vni;
	struct mac mac;
	__u16 pad;
};

struct fdb_entry {
	__u32 ifindex;      /* local port, or 0 */
	__u32 key;          /* logical port key */
	struct addr remote; /* VTEP of the remote when ifindex is 0 */
};

/* Map neighbours: (vni, address) → MAC, for the ARP/ND responder. */
struct neighbour_key {
	__u32 vni;
	struct addr addr;
};

struct neighbour {
	struct mac mac;
	__u16 key; /* owning port: it never gets an answer about itself */
};

/* Map flood: (vni, index) → one receiver of a flooded frame. */
struct flood_key {
	__u32 vni;
	__u32 index;
};

struct flood_member {
	__u32 ifindex; /* local port, or 0 */
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

/* Map port_counters (per CPU): (vni, key) → counters of one logical port. */
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
