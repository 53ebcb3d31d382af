/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage arp_nd: a broadcast ARP request (RFC 826) or a multicast neighbour solicitation (RFC 4861 section 7.2) is
 * answered on the spot where the fabric knows the address, so that it never crosses the underlay. Never for an address
 * that the asking port owns (duplicate address detection, RFC 5227 and RFC 4862); unicast probes go to the real owner,
 * which may be gone, but those for a router. From the underlay and on a leg for routers'
 * addresses only.
 */
#pragma once

#include "lib/neighbour.h"
#include "lib/tell.h"
#include "lib/vlan.h"

INLINE bool find_owner_on_leg(const struct packet *p, const struct addr *addr, struct destination *d)
{
	struct leg_address_key key = { .ifindex = p->source.ifindex, .addr = *addr };
	__u32 *id = bpf_map_lookup_elem(&leg_addresses, &key);
	struct router *r = id ? bpf_map_lookup_elem(&routers, id) : NULL;

	/* leg_in has seen that it is for everybody, or for the leg. */
	if (!r)
		return false;
	d->owner = r->leg_mac;
	d->owner_routes = true;
	return true;
}

/* Whose address it is, if this is to be answered here. */
INLINE bool find_owner(const struct packet *p, const struct addr *addr, struct destination *d)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = *addr };
	struct neighbour *n;

	if (p->hook == HOOK_FROM_LEG)
		return find_owner_on_leg(p, addr, d);
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n || n->flags & NEIGHBOUR_FLOATING)
		return false;
	/* A router is asked directly too: nobody else could answer. */
	if (!is_group(p->eth.h_dest) &&
	    !(n->flags & NEIGHBOUR_INTERFACE && same_mac(p->eth.h_dest, n->mac.bytes)))
		return false;
	if (is_from_underlay(p) ? !(n->flags & NEIGHBOUR_GATEWAY) : n->key == p->source_key)
		return false;
	d->owner = n->mac;
	d->owner_routes = !!(n->flags & (NEIGHBOUR_ROUTER | NEIGHBOUR_INTERFACE));
	return true;
}

/* Global: few packets are questions. */
__noinline enum verdict answer_question(struct __sk_buff *ctx, const struct packet *p,
					struct destination *d)
{
	struct addr target;

	if (!p || !d || !read_question(ctx, p->offset, !p->l4_offset, &target) ||
	    !find_owner(p, &target, d))
		return GO_ON;
	d->tell = TELL_OWNER;
	return VERDICT_ANSWER;
}

/* The stage: what may be a question. */
INLINE enum verdict arp_nd(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	if (has_vlan(&p->tag)) /* another network of the guests */
		return GO_ON;
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP) ||
	    (p->flow.protocol == IPPROTO_ICMPV6 && p->eth.h_proto == ETHERTYPE_IPV6))
		return answer_question(ctx, p, d);
	return GO_ON;
}
