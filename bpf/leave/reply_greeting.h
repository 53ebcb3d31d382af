/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a greeting: the same packet the other way, with our abilities. Part of reply. */
#pragma once

#include "lib/detour.h"
#include "lib/greeting.h"
#include "lib/outer.h"
#include "lib/tell.h"

static __always_inline long swap_addresses(struct __sk_buff *ctx, const struct settings *s,
					   const struct addr *sender)
{
	/* The sums of both stay: that of the IPv4 header too. */
	if (s->family == 4)
		return bpf_skb_store_bytes(ctx, ETH_HLEN + 12, &s->vtep.bytes[12], 4, 0) ||
		       bpf_skb_store_bytes(ctx, ETH_HLEN + 16, &sender->bytes[12], 4, 0);
	return bpf_skb_store_bytes(ctx, ETH_HLEN + 8, &s->vtep, 16, 0) ||
	       bpf_skb_store_bytes(ctx, ETH_HLEN + 24, sender, 16, 0);
}

/* d->tell_rest: where the greeting is, behind a tunnel header without options. */
static __always_inline enum verdict write_abilities(struct __sk_buff *ctx, struct scratch *w,
						    const struct destination *d)
{
	const struct ethhdr eth = { .h_proto = ctx->protocol };
	struct settings *s = get_settings();
	const __be16 no_csum = 0;
	__u32 at = d->tell_rest;
	__u8 said[2] = { GREETING_ANSWER, 0 };

	if (!s)
		return DROP(NOT_CONFIGURED);
	if (takes_whole_udp(s))
		said[1] = ABILITY_WHOLE_UDP | ABILITY_ROUTES_WHOLE_UDP;
	if (bpf_skb_store_bytes(ctx, 0, &eth, sizeof(eth), 0) < 0 ||
	    swap_addresses(ctx, s, &d->remote) ||
	    bpf_skb_store_bytes(ctx, at - sizeof(struct vxlan_header) - 2, &no_csum, sizeof(no_csum),
				0) ||
	    bpf_skb_store_bytes(ctx, at + offsetof(struct greeting, kind), said, sizeof(said), 0))
		return DROP(ENCAP_FAILED);
	w->reply = (struct packet){ .action = TCX_DROP };
	w->reply_to = (struct destination){ .kind = TO_REMOTE, .is_whole = true, .is_reply = true };
	return GO_ON;
}
