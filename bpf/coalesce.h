/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coalescer: a veth pair that apply creates where the kernel cannot coalesce the packets of the tunnel
 * (it has no Geneve). Segments behind decap go in at one end; GRO joins them at the other, where hook
 * from_coalescer hands them over.
 *
 * GRO joins what has the same addresses, ports and VLAN tag. The tag that they have on the way is the
 * number of the port they go to: two switches may use the same addresses.
 */
#pragma once

#include "unmark.h"

static __always_inline int coalesce(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
				    __u32 number, __u32 how)
{
	if (bpf_skb_vlan_push(ctx, ETHERTYPE_VLAN, number) < 0)
		return DROP(DECAP_FAILED);
	ctx->tc_index = DETOUR | how;
	p->action = bpf_redirect(s->coalescer_ifindex, 0);
	return 0;
}

static __always_inline int from_coalescer_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	__u32 number = ctx->vlan_tci, how = ctx->tc_index & ~DETOUR_MASK;
	int result;

	if (!s || !is_on_detour(ctx) || !ctx->vlan_present)
		return DROP(OUTER_DEVICE);
	if (bpf_skb_vlan_pop(ctx) < 0)
		return DROP(DECAP_FAILED);
	if (!(how & DETOUR_TO_UNMARKER) || !s->unmarker_ifindex)
		return hand_over(ctx, p, number);
	if (load_bytes(ctx, 0, &p->eth, ETH_HLEN) < 0)
		return DROP(DECAP_FAILED);
	result = unmark(ctx, s, p, number, how & ~DETOUR_TO_UNMARKER);
	return result < 0 ? result : VERDICT_TO_PORT;
}
