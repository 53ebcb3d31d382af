/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage leg_out: a routed packet leaves by the gateway's leg, into the physical network; the kernel's
 * neighbours write the Ethernet header. The end of route at the gateway; its other end is leg_in.
 */
#pragma once

#include "nat.h"
#include "vlan_out.h"

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

static __always_inline int send_by_leg(struct scratch *w, struct packet *p, __u32 ifindex)
{
	struct bpf_redir_neigh to = {};

	if (has_ipv4(p)) {
		to.nh_family = AF_INET;
		__builtin_memcpy(&to.ipv4_nh, &w->next.addr.bytes[12], sizeof(to.ipv4_nh));
	} else {
		to.nh_family = AF_INET6;
		__builtin_memcpy(to.ipv6_nh, &w->next.addr, sizeof(to.ipv6_nh));
	}
	report_device(ifindex);
	p->action = bpf_redirect_neigh(ifindex, &to, sizeof(to), 0);
	return VERDICT_LEG_OUT;
}

/* To scratch.next; its IP header is in scratch.ip. */
static __always_inline int leg_out(struct __sk_buff *ctx, struct scratch *w, struct packet *p,
				   const struct router *r)
{
	int result = 0;

	if (!r->leg_ifindex) {
		p->told = TELL_NO_ROUTE;
		return DROP(NO_ROUTE);
	}
	if (p->segment_len - ETH_HLEN > r->leg_mtu)
		return too_big(p, r->leg_mtu);
	if (r->flags & ROUTER_NAT)
		result = nat_out(ctx, p, r);
	if (result < 0)
		return result;
	__builtin_memset(p->eth.h_dest, 0, 2 * ETH_ALEN);
	p->routed++;
	set_ttl(has_ipv4(p), w->ip, get_ttl(p, w->ip) - 1);
	if (store_headers(ctx, p, w->ip) < 0)
		return DROP(ENCAP_FAILED);
	return send_by_leg(w, p, r->leg_ifindex);
}
