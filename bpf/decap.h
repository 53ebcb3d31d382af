/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage decap: removes the outer header, leaving the inner frame as if it had arrived plain.
 *
 *   | Eth | outer IP UDP tunnel inner-Eth | payload      the middle goes, the inner Ethernet header
 *     14    <------- p->offset ---------->               is written over the outer one
 *
 * After ids; then to_port, route or flood.
 */
#pragma once

#include "ecn.h"

/* bpf_skb_adjust_room() leaves at least an IPv4 header's length behind the Ethernet header. */
#define DECAP_MIN_PAYLOAD 20

/* What this host tells its remotes (greeting.h). */
static __always_inline bool takes_whole_udp(const struct settings *s)
{
	return s->unmarker_ifindex;
}

static __always_inline int decap(struct __sk_buff *ctx, struct packet *p)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	__u32 min_len = p->offset + ETH_HLEN + DECAP_MIN_PAYLOAD + 1;

	/* Also sets skb->protocol when the inner family is another one; for any other type of frame
	 * it stays wrong until a transmit sets it anew. skb->csum does not cover the MAC header here. */
	flags |= p->eth.h_proto == ETHERTYPE_IPV6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 :
						    BPF_F_ADJ_ROOM_DECAP_L3_IPV4;
	/* Ethernet pads short frames; so do we, no further than the kernel demands. */
	if (ctx->len < min_len && bpf_skb_change_tail(ctx, min_len, 0) < 0)
		return DROP(DECAP_FAILED);
	if (bpf_skb_adjust_room(ctx, -(int)p->offset, BPF_ADJ_ROOM_MAC, flags) < 0)
		return DROP(DECAP_FAILED);
	if (bpf_skb_store_bytes(ctx, 0, &p->eth, ETH_HLEN, 0) < 0)
		return DROP(DECAP_FAILED);
	if (store_ecn(ctx, p) < 0)
		return DROP(DECAP_FAILED);
	p->tos = (p->tos & ~ECN_MASK) | p->ecn;
	return 0;
}
