/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one packet carries from stage to stage, and the verbs stages use on an skb. Every stage returns
 * >= 0 to go on (a verdict, in the last stage) or the negated drop reason; tc.bpf.c turns that into
 * one counted verdict.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "csum.h"
#include "maps.h"
#include "test_mode.h"

#define SECOND 1000000000ull /* in the unit of now_ns() */
#define VLAN_HLEN 4
#define VLAN_ID_MASK 0x0fff
#define ETHERTYPE_VLAN bpf_htons(ETH_P_8021Q)
#define ETHERTYPE_SERVICE_VLAN bpf_htons(ETH_P_8021AD)

#define DROP(reason) (-(int)VERDICT_##reason)

/* A VLAN tag; proto 0: none. */
struct tag {
	__be16 proto;
	__u16 tci;
};

/*
 * What the flow hash is computed over, and what conntrack, acl and route read instead of the headers:
 * source address (words 0 to 3; IPv4 as ::ffff:a.b.c.d), destination address (4 to 7), ports as they stand
 * on the wire (8), protocol (9).
 */
struct flow {
	__u32 words[FLOW_WORDS];
};

/* An Ethernet frame as the stages see it: the packet itself from a port, the inner one of a tunnel. */
struct packet {
	struct ethhdr eth;
	struct tag
		tag; /* a guest's, that goes with the frame; beside the bytes only at the hook's end */
	struct tag in_tag; /* beside the bytes when it came */
	__u32 offset;      /* of the frame in the skb; a tag in the bytes lies before it */
	__u32 len;         /* of the frame without its tag; of a super-packet, all of it */
	__u32 segment_len; /* longest frame once segmented */
	__u32 gso_size;
	__u32 segments;
	__u32 flow_hash;
	__u32 l4_offset; /* in the frame; 0: no IP */
	__u8 l4_proto;
	__u8 tos;         /* DSCP and ECN of the inner header */
	__u8 ecn;         /* what the inner ECN becomes on decap */
	__u8 hook;        /* enum hook */
	__u16 source_key; /* logical port it came from; 0: unknown */
	__u16 dest_key;   /* logical port it goes to; 0: unknown, or several */
	__u8 captured;    /* somebody looks: the packet as it came is in the event buffer */
	__u8 fragment;    /* an IPv4 fragment but the first */
	struct port_id source;
	__u32 switch_id;
	int action;       /* what the hook returns */
	__u8 is_fragment; /* of either family, the first too */
	__u8 routed; /* routers that forwarded it here; its headers are no longer those it came with */
	__u8 translated;          /* nat changed it on its way in from the leg */
	__u8 kept;                /* scratch.came has it as it was before routers */
	__u8 kept_l4;             /* bytes in scratch.came_l4 */
	__u8 for_router;          /* it goes to a remote for a router there */
	__u16 tunnel_source_port; /* of the tunnel packet it came in, as on the wire */
	__u32 source_counters;    /* of the port it came from, */
	__u32 sender_counters;    /* of the remote whose tunnel brought it; 0: none did */
	__u32 remote_counters;    /* of the remote it goes to */
	__u32 ip_len;             /* of the IP packet; what the frame has behind it is padding */
	__u32 router;             /* the last router it came to; 0: none */
	__u32 router_in;          /* on this switch; SWITCH_ID_LEG: by the leg */
	__u32 told; /* the ICMP error that says why it was dropped, or TELL_RESET; 0: nobody is told */
	__u32 told_rest; /* bytes 4 to 8 of that error */
	__u32 wrapped;   /* bytes of the unmarker's header before the frame */
	struct flow flow;
};

/* An outer header being written, with the inner Ethernet header behind it. */
struct outer {
	__u8 bytes[MAX_TEMPLATE + ETH_HLEN + VLAN_HLEN];
};

/* What nat gives a packet instead of its source or destination. */
struct nat_end {
	struct addr addr;
	__be16 port; /* or ICMP identifier */
	__u16 pad;
};

/* Ethernet, IPv6, ICMPv6 and 1232 bytes of the packet it is about; checksums are computed over whole chunks. */
#define ANSWER_ROOM 1664

/*
 * What would burst the 512-byte stack, one per CPU: a hook runs to its end before another starts on
 * the same CPU (what it transmits is queued, never delivered inside it).
 */
struct scratch {
	struct packet packet; /* the hook's */
	struct outer outer;
	struct packet flooded;         /* the packet whose copies are being sent */
	__u32 members;                 /* length of its flood list */
	__u32 first_remote;            /* where the remotes begin in it */
	__u32 room;                    /* made for the outer header of its copies; 0: none yet */
	int dropped;                   /* reason of a copy that could not be sent */
	struct packet came;            /* before the first router: what an answer is about */
	__u8 came_ip[40];              /* its IP header, */
	__u8 came_l4[28];              /* and what follows, where nat changed it */
	__u8 ip[40];                   /* IP header as it is now */
	struct next_hop next;          /* where a router sends it, */
	struct next_hop_key next_key;  /* and which of a route's next hops that is */
	struct route_key way;          /* what routes is asked for */
	struct fdb_entry receiver;     /* of an answer */
	struct nat_rule rule;          /* that makes a translation, */
	struct nat_end to;             /* what it gives the packet, */
	struct connection_key outside; /* and how it is found from outside */
	struct packet reply;           /* an answer on its way */
	__u8 answer[ANSWER_ROOM] __attribute__((aligned(8)));
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

/*
 * The value stays in one register, and the compiler forgets what it knows of it. The verifier knows only the
 * bounds of the register that was compared, and the compiler may compare another one: it makes one comparison
 * of the two in `!len || len > 40`, of len - 1, from which the verifier of Linux 6.12 learns nothing about len.
 * So this stands before a comparison that the verifier needs, and between two of them.
 */
#define KEEP_BOUNDS(value) asm volatile("" : "+r"(value))

/*
 * Bytes of the packet, `len` a constant; negative: it is shorter. Headers are nearly always in the linear part,
 * where reading them is free of the helper's call and its copy.
 */
#define MAX_DIRECT 1024
static __always_inline long load_bytes(struct __sk_buff *ctx, __u32 at, void *to, __u32 len)
{
	void *end = (void *)(long)ctx->data_end;
	void *from = (void *)(long)ctx->data;

	KEEP_BOUNDS(at);
	if (at <= MAX_DIRECT) {
		from += at;
		KEEP_BOUNDS(from);
		if (from + len <= end) {
			__builtin_memcpy(to, from, len);
			return 0;
		}
	}
	return bpf_skb_load_bytes(ctx, at, to, len);
}

static __always_inline bool is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

static __always_inline bool same_mac(const __u8 *a, const __u8 *b)
{
	__u8 difference = 0;

	for (int i = 0; i < ETH_ALEN; i++)
		difference |= a[i] ^ b[i];
	return !difference;
}

static __always_inline bool same_port(const struct port_id *a, const struct port_id *b)
{
	return a->ifindex == b->ifindex && a->vlan == b->vlan;
}

/* It came by the uplink: straight, or by way of the coalescer. */
static __always_inline bool is_from_underlay(const struct packet *p)
{
	return p->hook == HOOK_FROM_UNDERLAY || p->hook == HOOK_FROM_COALESCER;
}

/* Bytes that the tag takes in an inner frame. */
static __always_inline __u32 tag_len(const struct packet *p)
{
	return p->tag.proto ? VLAN_HLEN : 0;
}

static __always_inline struct addr mapped_v4(__be32 v4)
{
	struct addr a = { .bytes = { [10] = 0xff, [11] = 0xff } };

	__builtin_memcpy(&a.bytes[12], &v4, sizeof(v4));
	return a;
}

/* The maps hold IPv4 in this form; as an IPv6 address it is nobody's. */
static __always_inline bool is_mapped_v4(const struct addr *a)
{
	const struct addr prefix = { .bytes = { [10] = 0xff, [11] = 0xff } };

	return !__builtin_memcmp(a, &prefix, 12);
}

/* fe80::/64 and the modified EUI-64 of a MAC (RFC 4291 appendix A). */
static __always_inline bool is_link_local_of(const __u8 *mac, const void *addr)
{
	struct addr own = { .bytes = { 0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe,
				       mac[3], mac[4], mac[5] } };

	return !__builtin_memcmp(&own, addr, sizeof(own));
}

static __always_inline struct settings *get_settings(void)
{
	__u32 zero = 0;
	struct settings *s = bpf_map_lookup_elem(&settings, &zero);

	return s && s->uplink_ifindex ? s : NULL;
}

static __always_inline void add(struct counter *c, const struct packet *p)
{
	c->packets++;
	c->segments += p->segments;
	c->bytes += p->len;
}

static __always_inline void count_verdict(const struct packet *p, __u32 verdict)
{
	__u32 slot = p->hook * VERDICT_SLOTS + verdict;
	struct counter *c = bpf_map_lookup_elem(&verdict_counters, &slot);

	if (!c)
		return;
	add(c, p);
	c->bytes += p->offset; /* from the underlay: the outer header too */
}

enum port_count { PORT_FROM, PORT_TO, PORT_DROPPED };

static __always_inline void count_port(const struct packet *p, __u32 number, enum port_count which)
{
	struct port_counters *c = bpf_map_lookup_elem(&port_counters, &number);

	if (!c)
		return;
	if (which == PORT_FROM)
		add(&c->from_port, p);
	else if (which == PORT_TO)
		add(&c->to_port, p);
	else
		add(&c->dropped, p);
}

enum remote_count { REMOTE_TO, REMOTE_FROM, REMOTE_DROPPED };

static __always_inline void count_remote(const struct packet *p, __u32 number,
					 enum remote_count which)
{
	struct remote_counters *c = bpf_map_lookup_elem(&remote_counters, &number);

	if (!c)
		return;
	if (which == REMOTE_TO)
		add(&c->to_remote, p);
	else if (which == REMOTE_FROM)
		add(&c->from_remote, p);
	else
		add(&c->dropped, p);
}
