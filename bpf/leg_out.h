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

/*
 * Which way a frame takes behind the unmarker. It stands in the place of the Ethernet header's addresses, which the
 * kernel's neighbours write later. No group address.
 */
struct leg_way {
	__u8 zero;
	__u8 kind;    /* enum route_kind */
	__u16 number; /* of the next hop, */
	__u32 group;  /* of this group */
	__u32 router;
} __attribute__((packed));

/* Of the device; it may be another one before the frame is there. */
static __always_inline __u32 check_of_leg(const struct router *r)
{
	return r->leg_ifindex & DETOUR_CHECK;
}

/*
 * Whether a super-packet with the tunnel's mark, or what follows one, takes the unmarker. Negative: it needs it, and
 * there is none.
 */
static __always_inline int leg_needs_unmarker(struct __sk_buff *ctx, const struct packet *p,
					      const struct router *r)
{
	struct settings *s = get_settings();

	if (!s)
		return DROP(NOT_CONFIGURED);
	if (!p->offset)
		return 0;
	if (goes_through_unmarker(ctx, s, p, r->flags & ROUTER_LEG_TAKES_NO_MARK))
		return !test_mode;
	return p->gso_size && p->l4_proto == IPPROTO_UDP ? DROP(GSO_UNSUPPORTED) : 0;
}

/* To scratch.next; its IP header is in scratch.ip. */
static __always_inline int leg_out(struct __sk_buff *ctx, struct scratch *w, struct packet *p,
				   const struct router *r, __u32 kind)
{
	struct leg_way way = { .kind = kind, .router = p->router };
	int unmarked, result = 0;

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
	unmarked = leg_needs_unmarker(ctx, p, r);
	if (unmarked < 0)
		return unmarked;
	way.number = w->next_key.number;
	way.group = w->next_key.group;
	if (unmarked)
		__builtin_memcpy(p->eth.h_dest, &way, sizeof(way));
	else
		__builtin_memset(p->eth.h_dest, 0, 2 * ETH_ALEN);
	p->routed++;
	set_ttl(has_ipv4(p), w->ip, get_ttl(p, w->ip) - 1);
	if (store_headers(ctx, p, w->ip) < 0)
		return DROP(ENCAP_FAILED);
	if (!unmarked)
		return send_by_leg(w, p, r->leg_ifindex);
	result = unmark(ctx, p, 0, DETOUR_TO_LEG | check_of_leg(r));
	return result < 0 ? result : VERDICT_LEG_OUT;
}

/* The end of a detour. leg_out has decided all there is to decide. */
static __always_inline int hand_to_leg(struct __sk_buff *ctx, struct packet *p, __u32 how)
{
	__u32 at = ETH_HLEN + (ctx->protocol == ETHERTYPE_IPV4 ? offsetof(struct iphdr, daddr) :
								 offsetof(struct ipv6hdr, daddr));
	struct scratch *w = get_scratch();
	struct next_hop_key key;
	struct next_hop *hop;
	struct leg_way way;
	struct router *r;
	__u32 router;
	__be32 v4;

	if (!w || bpf_skb_load_bytes(ctx, 0, &way, sizeof(way)) < 0)
		return DROP(NOT_CONFIGURED);
	router = way.router;
	r = bpf_map_lookup_elem(&routers, &router);
	if (!r || !r->leg_ifindex || check_of_leg(r) != (how & DETOUR_CHECK))
		return DROP(NO_ROUTE);
	p->eth.h_proto = ctx->protocol;
	if (way.kind == ROUTE_VIA) {
		key = (struct next_hop_key){ .group = way.group, .number = way.number };
		hop = bpf_map_lookup_elem(&next_hops, &key);
		if (!hop || hop->switch_id != SWITCH_ID_LEG)
			return DROP(NO_ROUTE);
		w->next = *hop;
	} else if (has_ipv4(p)) {
		if (bpf_skb_load_bytes(ctx, at, &v4, sizeof(v4)) < 0)
			return DROP(INNER_IP_HEADER);
		w->next.addr = mapped_v4(v4);
	} else if (bpf_skb_load_bytes(ctx, at, &w->next.addr, sizeof(w->next.addr)) < 0) {
		return DROP(INNER_IP_HEADER);
	}
	return send_by_leg(w, p, r->leg_ifindex);
}
