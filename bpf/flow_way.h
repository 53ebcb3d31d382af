/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way a frame that came out of a tunnel takes to the device of a port or a leg. Not a stage: to_port and
 * leg_out ask.
 *
 * The kernel keeps a tunnel's mark on a super-packet after decap, and no helper takes it off. A device that does
 * not know the mark gets segments, and UDP would be cut wrongly. So such a frame goes through the kernel's own
 * VXLAN device, which takes the mark off (unmark.h).
 *
 * That takes longer than the straight way. A flow changes to it at any time, and back only after it was silent
 * for FLOW_IDLE, so no packet overtakes another of its flow. What tells flows apart is the UDP source port of the
 * tunnel; flows that share one share the way.
 */
#pragma once

#include "parse.h"

#define FLOW_TIME_SHIFT 20 /* ns → units of struct flow_way */
#define FLOW_IDLE 1000     /* in these units: about a second */

static __always_inline __u32 flow_time(void)
{
	return coarse_now_ns() >> FLOW_TIME_SHIFT | 1; /* 0 is never */
}

static __always_inline bool is_lately(__u32 time, __u32 now)
{
	return time && now - time < FLOW_IDLE;
}

/*
 * Behind the kernel's VXLAN device skb->transport_header still points at the outer header, until GRO sets it anew; a
 * kernel that looks there before it sends a super-packet crashes (net/core/dev.c, qdisc_pkt_len_segs_init()). So
 * nothing goes that way which GRO would pass over (net/ipv4/af_inet.c, inet_gro_receive()): it may be a hostile
 * guest's. The frame begins at `offset`. Global: its stack is its own.
 */
__noinline int gro_reads(struct __sk_buff *ctx, const struct packet *p, __u32 offset)
{
	struct iphdr ip;

	if (!p || !is_plain_l4(p))
		return false;
	return !has_ipv4(p) || (bpf_skb_load_bytes(ctx, offset + ETH_HLEN, &ip, sizeof(ip)) == 0 &&
				csum_ipv4_header(&ip) == 0xffff);
}

/* A frame behind decap, for a device. */
static __always_inline bool goes_through_unmarker(struct __sk_buff *ctx, const struct settings *s,
						  const struct packet *p, bool takes_no_mark)
{
	__u32 slot = p->tunnel_source_port, now;
	struct flow_way *flow;

	if (!s->unmarker_ifindex || !p->l4_offset || !(takes_no_mark || p->l4_proto == IPPROTO_UDP))
		return false;
	flow = bpf_map_lookup_elem(&flow_ways, &slot);
	if (!flow || (!p->gso_size && !flow->unmarked))
		return false;
	now = flow_time();
	if (!p->gso_size && !is_lately(flow->unmarked, now))
		return false;
	if (!gro_reads(ctx, p, 0))
		return false;
	if (flow->unmarked != now)
		flow->unmarked = now;
	return true;
}
