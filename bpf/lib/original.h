/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet from a gateway's leg before nat changed it. What nat writes is written at once, because route and the
 * firewall judge what it becomes; so what an answer is about has to be kept.
 */
#pragma once

#include "ip.h"

/* Before nat writes. */
INLINE long keep_original(struct __sk_buff *ctx, struct scratch *w, struct packet *p)
{
	__u32 len = ETH_HLEN + p->ip_len - p->l4_offset;
	struct original *o = &w->original;

	if (read_ip(ctx, w, p) < 0)
		return -1;
	p->translated = true;
	o->flow = p->flow;
	__builtin_memcpy(o->ip, w->ip, sizeof(o->ip));
	o->l4_len = 0;
	KEEP_BOUNDS(len);
	if (len > sizeof(o->l4))
		len = sizeof(o->l4);
	if (len && bpf_skb_load_bytes(ctx, p->l4_offset, o->l4, len) == 0)
		o->l4_len = len;
	return 0;
}

/* The packet as it came. Global, for there are several places that ask for it. */
__noinline int restore_original(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	struct original *o;
	__u32 len;

	if (!w || !p)
		return -1;
	o = &w->original;
	len = o->l4_len;
	KEEP_BOUNDS(len);
	if (len > sizeof(o->l4))
		return -1;
	if (len && bpf_skb_store_bytes(ctx, p->l4_offset, o->l4, len, BPF_F_RECOMPUTE_CSUM) < 0)
		return -1;
	p->flow = o->flow;
	__builtin_memcpy(w->ip, o->ip, sizeof(w->ip));
	return store_headers(ctx, w, &p->eth);
}
