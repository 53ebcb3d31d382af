/* SPDX-License-Identifier: Apache-2.0 */
/* Outer headers: those of VXLAN and Geneve, and what is read of them. */
#pragma once

#include <linux/if_ether.h>
#include <linux/udp.h>

#include "bytes.h"
#include "maps.h"

/* An outer header, as far as it is read. Offsets are from the start of the skb. */
struct outer_view {
	struct addr source;
	__u32 counters; /* of the remote that this is */
	__u32 changes;  /* as packet.changes */
	__u32 tunnel;   /* of the VXLAN or Geneve header */
	__u32 frame;    /* of the inner frame */
	__u32 end;      /* of the UDP payload */
	__u32 vni;
	__u32 source_key; /* from the Geneve option; 0: none */
	__u32 dest_key;
	__be16 source_port;
	__be16 port; /* of the tunnel, that it must have */
	__u8 tos;
	__u8 is_icmp; /* it is no tunnel packet, and may be an error about one */
	__u8 pad[2];
	enum verdict checked; /* what vtep_check and */
	enum verdict read;    /* read_tunnel() say */
};

#define VXLAN_FLAG_VNI 0x08
#define OVN_CLASS bpf_htons(0x0102)
#define OVN_TYPE 0x80
#define GENEVE_FLOOD_GROUP 0x8000 /* as a destination key */

struct vxlan_header {
	__u8 flags;
	__u8 reserved[3];
	__u8 vni[3];
	__u8 reserved2;
};

struct geneve_header {
	__u8 version_len; /* version 2 bits, option length 6 bits in units of 4 bytes */
	__u8 flags;
	__be16 protocol;
	__u8 vni[3];
	__u8 reserved;
};

struct geneve_option {
	__be16 class;
	__u8 type;
	__u8 len; /* low 5 bits, in units of 4 bytes, without these 4 */
};

/* Whose option it is, whatever its length. */
INLINE bool is_ovns(const struct geneve_option *option)
{
	return option->class == OVN_CLASS && option->type == OVN_TYPE;
}

struct ovn_option {
	struct geneve_option option;
	__be16 source_key;
	__be16 dest_key;
};

INLINE __u32 vni_of(const __u8 *bytes)
{
	return bytes[0] << 16 | bytes[1] << 8 | bytes[2];
}

/* A Geneve packet with OVN's option in the coalescer, between UDP and the frame: VXLAN with the keys in reserved bits. */
struct vxlan_with_keys {
	struct udphdr udp;
	__u8 flags;
	__u8 keys[3];
	__u8 vni[3];
	__u8 last_key;
};

/*
 * Greetings: hosts tell each other what they can take. A tunnel packet with VNI 0, which no data ever has, and in it
 *
 *   | Ethernet: to 01:80:c2:00:00:0f, type 0x88b5 (local experiments) | "OVL" 1 | kind | abilities | 0 0 |
 *   | cookie of who asks | cookie of who answers |
 *
 * `apply` sends one of kind ask to each remote; it is answered on the spot, and the answer is confirmed. Each end
 * believes who shows it its own cookie (cookie.h). A peer that knows none of this drops it: no bridge forwards this group
 * address. Such a peer gets nothing that needs an ability. An older build's greeting has no cookies.
 */
#define GREETING_TYPE bpf_htons(0x88b5)
#define GREETING_MAGIC bpf_htonl(0x4f564c01) /* "OVL", version 1 */
#define GREETING_ASK 1
#define GREETING_ANSWER 2
#define GREETING_CONFIRM 5

struct cookie {
	__u32 half[2];
};

struct greeting {
	struct ethhdr eth;
	__be32 magic;
	__u8 kind;
	__u8 abilities; /* ABILITY_* */
	__u8 pad[2];
} __attribute__((packed));

/* Behind it. */
struct greeting_cookies {
	struct cookie asker;
	struct cookie answerer; /* in a question zeros */
};

/*
 * Probes of a size are greetings too, and say nothing of abilities: does a tunnel packet of this length get there, and
 * one of that length back? `overlane mtu` sends them and reads the answers; the data path only answers. Lengths are
 * those of whole outer IP packets. Each answer has a cookie behind it, if there is room, and only who shows that gets
 * answers that are longer than the question.
 */
#define GREETING_PROBE 3
#define GREETING_PROBE_ANSWER 4

struct size_probe {
	struct ethhdr eth;
	__be32 magic;
	__u8 kind;
	__u8 pad;
	__be16 answer_len; /* wanted of the answer; it is never shorter than a probe can be */
	__be32 id;         /* of who asks, comes back */
	__be16 came_len;   /* answer: of the probe, as it came */
	__be16 uplink_mtu; /* answer: of who answers, */
	__be16 path_mtu;   /* and what that knows of the way back: 0, nothing; */
	__be16 pad2;
	struct addr hop; /* who told it, by ICMP */
} __attribute__((packed));

/* The cookie behind it: of who answers, in a question too. */
struct proven_probe {
	struct size_probe probe;
	struct cookie cookie;
} __attribute__((packed));
