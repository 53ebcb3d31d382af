/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way a frame that came out of a tunnel takes to the port's device. Not a stage: to_port asks.
 *
 *   straight    as it is.
 *   unmarked    The kernel keeps a tunnel's mark on a super-packet after decap, and no helper takes it off.
 *               A device that does not know the mark gets segments, and UDP would be cut wrongly. So the
 *               frame goes through the kernel's own VXLAN device, which takes the mark off (unmark.h).
 *   coalesced   Segments that nobody coalesced before decap go through a pair of devices that does
 *               (coalesce.h).
 *
 * The two detours take longer than the straight way. A flow changes to a detour at any time, and back only
 * after it was silent for FLOW_IDLE, so no packet overtakes another of its flow. What tells flows apart is
 * the UDP source port of the tunnel; flows that share one share the way.
 */
#pragma once

#include "parse.h"

enum flow_way_kind {
	WAY_STRAIGHT = 0,
	WAY_UNMARKED = 1,
	WAY_COALESCED = 2,
};

#define FLOW_TIME_SHIFT 20 /* ns → units of struct flow_way */
#define FLOW_IDLE 1000     /* in these units: about a second */
#define SINGLES_OF_A_STREAM 16
#define SINGLE_MIN_LEN 576 /* of a frame: less is no full segment */
#define TCP_NOT_MIDST 0x2f /* FIN, SYN, RST, PSH, URG */

static __always_inline bool is_lately(__u32 time, __u32 now)
{
	return time && now - time < FLOW_IDLE;
}

static __always_inline bool is_first_header_whole(const struct packet *p)
{
	return p->l4_offset && !p->is_fragment;
}

/* A full TCP segment from the midst of a stream. */
static __always_inline bool is_single(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 flags = TCP_NOT_MIDST;

	if (p->len < SINGLE_MIN_LEN || load_bytes(ctx, p->l4_offset + 13, &flags, 1) < 0)
		return false;
	return !(flags & TCP_NOT_MIDST);
}

/* Many segments and no super-packet among them: neither the wire nor the kernel coalesces this stream. */
static __always_inline bool is_coalesced(struct __sk_buff *ctx, const struct packet *p,
					 struct flow_way *flow, __u32 now)
{
	if (p->gso_size)
		flow->single = 0;
	else if (flow->single < SINGLES_OF_A_STREAM && is_single(ctx, p))
		flow->single++;
	if (!is_lately(flow->coalesced, now) && flow->single < SINGLES_OF_A_STREAM)
		return false;
	flow->single = 0;
	if (flow->coalesced != now)
		flow->coalesced = now;
	return true;
}

static __always_inline bool is_unmarked(const struct packet *p, struct flow_way *flow, __u32 now)
{
	if (!p->gso_size && !is_lately(flow->unmarked, now))
		return false;
	if (flow->unmarked != now)
		flow->unmarked = now;
	return true;
}

/* A frame behind decap, for a port; one that carries a tag is not coalesced. */
static __always_inline enum flow_way_kind flow_way(struct __sk_buff *ctx, const struct settings *s,
						   const struct packet *p, const struct port *port,
						   bool tagged)
{
	bool no_mark = port->flags & PORT_TAKES_NO_MARK || p->l4_proto == IPPROTO_UDP;
	bool may_unmark = s->unmarker_ifindex && no_mark && p->l4_offset;
	bool may_coalesce = s->coalescer_ifindex && p->l4_proto == IPPROTO_TCP &&
			    is_first_header_whole(p) && !tagged;
	__u32 slot = p->tunnel_source_port, now;
	struct flow_way *flow;

	if (!may_unmark && !may_coalesce)
		return WAY_STRAIGHT;
	flow = bpf_map_lookup_elem(&flow_ways, &slot);
	if (!flow)
		return WAY_STRAIGHT;
	now = coarse_now_ns() >> FLOW_TIME_SHIFT | 1;
	if (may_coalesce && is_coalesced(ctx, p, flow, now))
		return WAY_COALESCED;
	return may_unmark && is_unmarked(p, flow, now) ? WAY_UNMARKED : WAY_STRAIGHT;
}
