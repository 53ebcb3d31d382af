/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a router sends what is for an address: the look-up of stage route, which an answer to somebody behind a router
 * needs too (leave/reply_destination.h).
 */
#pragma once

#include "fdb.h"
#include "special.h"

INLINE struct router_interface *interface_on(__u32 router, __u32 switch_id)
{
	struct router_interface_key key = { .router = router, .switch_id = switch_id };

	return bpf_map_lookup_elem(&router_interfaces, &key);
}

/* The route of a router to an address; NULL: none. */
INLINE struct route *find_route(struct scratch *w, bool ipv4, __u32 router, const struct addr *addr)
{
	struct route_key *key = &w->route;

	key->prefixlen = 64 + 128;
	key->router = bpf_htonl(router);
	key->family = bpf_htonl(ipv4 ? 4 : 6);
	key->addr = *addr;
	return bpf_map_lookup_elem(&routes, key);
}

/* The first or the last address of a connected IPv4 network of more than two, whose route this is. */
INLINE bool is_end_of_network(const struct addr *addr, const struct route *r)
{
	__u32 host = v4_of(addr) & r->host_mask;

	return r->host_mask && (!host || host == r->host_mask);
}

/* Whether a router forwards nothing from or to an address whose route this is; NULL: it has none. */
INLINE bool is_refused(bool ipv4, const struct addr *addr, const struct route *r)
{
	enum special special = special_of(addr, ipv4);

	if (special == SPECIAL_NEVER || (special == SPECIAL_UNLESS_NAMED && !(r && r->names_special)))
		return true;
	return r && is_end_of_network(addr, r);
}

/* What find_next_hop says beside enum route_kind. */
#define ROUTE_NONE 0
#define ROUTE_REFUSED 255

/* Finds the next hop to the packet's destination, scratch.next; says what kind of route leads there. */
INLINE __u32 find_next_hop(struct scratch *w, const struct packet *p, __u32 router)
{
	struct route *r = find_route(w, has_ipv4(p), router, &p->flow.dest);
	struct next_hop *hop;

	if (is_refused(has_ipv4(p), &p->flow.dest, r))
		return ROUTE_REFUSED;
	if (!r)
		return ROUTE_NONE;
	w->next.addr = p->flow.dest;
	w->next.switch_id = r->switch_id;
	if (r->kind != ROUTE_VIA)
		return r->kind;
	w->next_key.group = r->group;
	/* Not by the hash that chose the tunnel's source port, which the underlay spreads packets by. */
	w->next_key.number = ((__u64)mix_hash(p->flow_hash) * r->hops) >> 32;
	hop = bpf_map_lookup_elem(&next_hops, &w->next_key);
	if (!hop)
		return ROUTE_NONE;
	w->next = *hop;
	return ROUTE_VIA;
}

/* The frame is for a neighbour, whose MAC it has, from the router's interface in its switch. */
INLINE void send_from_router(struct destination *d, const struct router *r,
			     const struct router_interface *i, __u32 switch_id)
{
	copy_mac(d->eth.h_source, r->mac.bytes);
	d->tag = (struct tag){};
	d->switch_id = switch_id;
	d->source_key = i ? i->key : 0;
}

/* The MAC of scratch.next in its switch. NULL: nobody knows it, as where it floats. */
INLINE struct neighbour *find_neighbour(const struct scratch *w, bool ipv4)
{
	struct neighbour_key key = { .switch_id = w->next.switch_id, .addr = w->next.addr };
	struct neighbour *n;

	n = ipv4 || !is_mapped_v4(&key.addr) ? bpf_map_lookup_elem(&neighbours, &key) : NULL;
	return n && !(n->flags & NEIGHBOUR_FLOATING) ? n : NULL;
}

/*
 * Whether only the router's acting host, elsewhere, sends to scratch.next: by the leg, or onto a VLAN, where nobody else
 * may show the router's MAC.
 */
INLINE bool is_for_acting_host(const struct scratch *w, const struct router *r, bool ipv4)
{
	struct fdb_entry *entry;
	struct neighbour *n;

	if (!(r->flags & ROUTER_GATEWAY_ELSEWHERE))
		return false;
	if (!is_on_vlan(w->next.switch_id))
		return w->next.switch_id == SWITCH_ID_LEG;
	n = find_neighbour(w, ipv4);
	entry = n ? fdb_entry_of(w->next.switch_id, n->mac.bytes) : NULL;
	return !entry || !entry->port.ifindex;
}
