/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage leg_in: which frames on a gateway's leg are for the router. The device may have addresses of the host too;
 * what is not the router's stays with it.
 */
#pragma once

#include "lib/neighbour.h"
#include "lib/vlan.h"

INLINE bool has_leg_address(const struct packet *p, const struct addr *addr)
{
	struct leg_address_key key = { .ifindex = p->source.ifindex, .addr = *addr };

	return bpf_map_lookup_elem(&leg_addresses, &key);
}

/* Whether the router has a route to an address that does not lead out by the leg again. */
INLINE bool reaches(__u32 router, const struct addr *addr, bool ipv4)
{
	struct route_key key = { .prefixlen = 64 + 128,
				 .router = bpf_htonl(router),
				 .family = bpf_htonl(ipv4 ? 4 : 6),
				 .addr = *addr };
	struct next_hop_key first = {};
	struct next_hop *hop;
	struct route *r = bpf_map_lookup_elem(&routes, &key);

	if (!r)
		return false;
	if (r->kind == ROUTE_OWN)
		return true;
	if (r->kind != ROUTE_VIA)
		return r->switch_id != SWITCH_ID_LEG;
	first.group = r->group;
	hop = bpf_map_lookup_elem(&next_hops, &first);
	return hop && hop->switch_id != SWITCH_ID_LEG;
}

INLINE bool is_ipv4_for_router(struct __sk_buff *ctx, const struct packet *p, __u32 router)
{
	struct addr to;
	__be32 ip;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN + offsetof(struct iphdr, daddr), &ip, sizeof(ip)) < 0)
		return false;
	to = mapped_v4(ip);
	return has_leg_address(p, &to) || reaches(router, &to, true);
}

/* Other neighbour discovery is the host's. */
INLINE bool is_ipv6_for_router(struct __sk_buff *ctx, const struct packet *p, __u32 router)
{
	struct ipv6hdr ip;
	struct addr to;
	__u8 type;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return false;
	if (ip.nexthdr == IPPROTO_ICMPV6 &&
	    bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(ip), &type, sizeof(type)) == 0 && type >= 133 &&
	    type <= 137)
		return false;
	__builtin_memcpy(&to, &ip.daddr, sizeof(to));
	/* Our own IPv4 addresses have the form of a mapped one in the map. */
	return (!is_mapped_v4(&to) && has_leg_address(p, &to)) || reaches(router, &to, false);
}

/* Who answers a question of the router says so to one of its addresses. */
INLINE bool is_answer_for_router(struct __sk_buff *ctx, const struct packet *p, bool is_arp)
{
	struct scratch *w = get_scratch();
	struct arp_ipv4 arp;
	struct nd_frame *f;
	struct addr to;

	if (is_arp) {
		if (load_bytes(ctx, ETH_HLEN, &arp, sizeof(arp)) < 0 || !is_proper_arp(&arp) ||
		    arp.operation != bpf_htons(ARP_REPLY))
			return false;
		to = mapped_v4(arp.target_ip);
		return has_leg_address(p, &to);
	}
	if (!w)
		return false;
	f = (struct nd_frame *)(w->bytes + FRAME_AT);
	if (!read_nd(ctx, f, 0) || f->nd.type != ND_ADVERTISEMENT)
		return false;
	__builtin_memcpy(&to, &f->ip.daddr, sizeof(to));
	return !is_mapped_v4(&to) && has_leg_address(p, &to);
}

/* Whether a frame is for the router of its leg. Nothing is parsed yet. */
INLINE bool is_for_router(struct __sk_buff *ctx, struct packet *p, __u32 router)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);
	struct addr target;
	bool ours, is_arp;

	if (!r || has_vlan(&p->in_tag) || bpf_skb_load_bytes(ctx, 0, &p->eth, ETH_HLEN) < 0)
		return false;
	ours = same_mac(p->eth.h_dest, r->leg_mac.bytes);
	if (!ours && !is_group(p->eth.h_dest))
		return false;
	is_arp = p->eth.h_proto == bpf_htons(ETH_P_ARP);
	if ((is_arp || p->eth.h_proto == ETHERTYPE_IPV6) && read_question(ctx, 0, is_arp, &target))
		return has_leg_address(p, &target);
	if (ours && (is_arp || p->eth.h_proto == ETHERTYPE_IPV6) && !gso_size_of(ctx) &&
	    is_answer_for_router(ctx, p, is_arp))
		return true;
	if (p->eth.h_proto == ETHERTYPE_IPV4)
		return ours && is_ipv4_for_router(ctx, p, router);
	return p->eth.h_proto == ETHERTYPE_IPV6 && ours && is_ipv6_for_router(ctx, p, router);
}

/* Global: few programs have a leg. */
__noinline enum verdict leg_in(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	__u32 *router;

	if (!p || !d)
		return VERDICT_TO_HOST;
	p->source.ifindex = device_of_hook(ctx);
	router = bpf_map_lookup_elem(&legs, &p->source.ifindex);
	if (!router)
		return VERDICT_TO_HOST;
	d->router = *router;
	if (!is_for_router(ctx, p, *router))
		return VERDICT_TO_HOST;
	d->kind = TO_ROUTER;
	return GO_ON;
}
