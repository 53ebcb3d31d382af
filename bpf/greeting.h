/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greetings: hosts tell each other what they can take. A tunnel packet with VNI 0, which no data ever has,
 * and in it
 *
 *   | Ethernet: to 01:80:c2:00:00:0f, type 0x88b5 (local experiments) | "OVL" 1 | kind | abilities | 0 0 |
 *
 * `apply` sends one of kind ask to each remote; it is answered on the spot. A peer that knows none of this
 * drops it: no bridge forwards this group address. Such a peer gets nothing that needs an ability.
 */
#pragma once

#include "decap.h"
#include "encap.h"
#include "tunnel.h"

#define GREETING_TYPE bpf_htons(0x88b5)
#define GREETING_MAGIC bpf_htonl(0x4f564c01) /* "OVL", version 1 */
#define GREETING_ASK 1
#define GREETING_ANSWER 2

struct greeting {
	struct ethhdr eth;
	__be32 magic;
	__u8 kind;
	__u8 abilities; /* ABILITY_* */
	__u8 pad[2];
} __attribute__((packed));

static __always_inline long swap_addresses(struct __sk_buff *ctx, const struct settings *s,
					   const struct outer_view *o)
{
	/* The sums of both stay: that of the IPv4 header too. */
	if (s->family == 4)
		return bpf_skb_store_bytes(ctx, ETH_HLEN + 12, &s->vtep.bytes[12], 4, 0) ||
		       bpf_skb_store_bytes(ctx, ETH_HLEN + 16, &o->source.bytes[12], 4, 0);
	return bpf_skb_store_bytes(ctx, ETH_HLEN + 8, &s->vtep, 16, 0) ||
	       bpf_skb_store_bytes(ctx, ETH_HLEN + 24, &o->source, 16, 0);
}

/* The same packet the other way, with our abilities. */
static __always_inline int answer_greeting(struct __sk_buff *ctx, const struct settings *s,
					   struct packet *p, const struct outer_view *o, __u32 at)
{
	__u8 said[2] = { GREETING_ANSWER,
			 takes_whole_udp(s) ? ABILITY_WHOLE_UDP | ABILITY_ROUTES_WHOLE_UDP : 0 };
	const __be16 no_csum = 0;

	const struct ethhdr eth = { .h_proto = ctx->protocol };

	if (bpf_skb_store_bytes(ctx, 0, &eth, sizeof(eth), 0) < 0 || swap_addresses(ctx, s, o) ||
	    bpf_skb_store_bytes(ctx, o->tunnel - 2, &no_csum, sizeof(no_csum), 0) ||
	    bpf_skb_store_bytes(ctx, at + offsetof(struct greeting, kind), said, sizeof(said), 0))
		return DROP(ENCAP_FAILED);
	send_by_neighbour(s, p);
	return VERDICT_GREETING;
}

/* A packet with VNI 0 from a VTEP of the fabric. */
static __always_inline int greeting(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
				    const struct outer_view *o)
{
	__u32 at = o->tunnel + sizeof(struct vxlan_header), said;
	struct greeting g;

	if (at + sizeof(g) > o->end || load_bytes(ctx, at, &g, sizeof(g)) < 0 ||
	    g.eth.h_proto != GREETING_TYPE || g.magic != GREETING_MAGIC)
		return DROP(VNI_ZERO);
	said = g.abilities;
	bpf_map_update_elem(&abilities, &o->source, &said, BPF_ANY);
	p->sender_counters = 0;
	p->action = TCX_DROP;
	return g.kind == GREETING_ASK ? answer_greeting(ctx, s, p, o, at) : VERDICT_GREETING;
}
