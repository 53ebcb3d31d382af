/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detours: ways of packets through devices of ours, because the kernel has to do something to them: the unmarker
 * (leave/unmarker.h) and the coalescer (stage/coalesce.h). What marks a packet on one, and which flows take one.
 *
 * A detour takes longer than the straight way. A flow changes to it at any time, and back only after it was silent for
 * FLOW_IDLE, so no packet overtakes another of its flow. What tells flows apart is the UDP source port of the tunnel;
 * flows that share one share the way.
 */
#pragma once

#include "ip.h"

#define UNMARK_PORT 4789 /* of the VXLAN devices in the unmarker's namespace */

/* skb->tc_index of a packet on a detour. Nobody without CAP_NET_ADMIN can set it. */
#define DETOUR 0xa000
#define DETOUR_MASK 0xf000
#define DETOUR_TO_PEER 0x0800 /* bpf_redirect_peer() */
#define DETOUR_TO_LEG 0x0400  /* no port: a gateway's leg */
#define DETOUR_CHECK                                                                                 \
	0x03ff /* of the device: another set of maps may give its number to another port */

INLINE bool is_on_detour(struct __sk_buff *ctx)
{
	return (ctx->tc_index & DETOUR_MASK) == DETOUR;
}

/* Whether the tunnel's mark can be taken off a UDP super-packet here: what this host tells its remotes. */
INLINE bool takes_whole_udp(const struct settings *s)
{
	return s->unmarker_ifindex;
}

#define FLOW_TIME_SHIFT 20 /* ns → units of struct flow_way */
#define FLOW_IDLE 1000     /* in these units: about a second */

INLINE __u32 flow_time(void)
{
	return coarse_now_ns() >> FLOW_TIME_SHIFT | 1; /* 0 is never */
}

INLINE bool is_lately(__u32 time, __u32 now)
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
