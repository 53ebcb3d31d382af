/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours that the fabric does not declare, on the sides of routers: a switch, or the leg of a gateway. stage/
 * neighbour.h notes who answers, route asks, leave/ask.h writes the questions.
 */
#pragma once

#include "counted.h"
#include "flows.h"
#include "limit.h"
#include "next_hop.h"
#include "tell.h"

#define REACHABLE_TIME (30 * SECOND) /* RFC 4861 section 10 */
#define SILENT_TIME (3 * SECOND)
#define MOST_TRIES 3 /* MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT */
#define MOST_ASKS 10 /* of one sender in a tenth of a second */

INLINE __u32 side_of(__u32 router, __u32 switch_id)
{
	return switch_id == SWITCH_ID_LEG ? ZONE_ROUTER | router : switch_id;
}

/* Under which key a found neighbour counts. Who speaks first takes no place of those that routers ask for. */
INLINE __u32 owner_of_found(const struct found_neighbour *f)
{
	return f->key | f->unasked * FOUND_UNASKED;
}

INLINE bool is_leg(__u32 side)
{
	return side & ZONE_ROUTER;
}

/* The router's network on a side that an address is in; NULL: nobody there can have the address. */
INLINE struct route *network_of(struct scratch *w, bool ipv4, __u32 router, __u32 side,
				const struct addr *addr)
{
	struct route *r = find_route(w, ipv4, router, addr);

	if (!r || r->kind != ROUTE_CONNECTED || r->switch_id != (is_leg(side) ? SWITCH_ID_LEG : side))
		return NULL;
	return is_refused(ipv4, addr, r) ? NULL : r;
}

/* The MAC of scratch.next in its switch, declared or found; nobody is asked. */
INLINE bool know_neighbour(struct scratch *w, bool ipv4, __u8 *mac)
{
	struct neighbour_key key = { .switch_id = w->next.switch_id, .addr = w->next.addr };
	struct neighbour *n = find_neighbour(w, ipv4);
	struct found_neighbour *f;

	if (n) {
		copy_mac(mac, n->mac.bytes);
		return true;
	}
	f = bpf_map_lookup_elem(&found, &key);
	if (f)
		copy_mac(mac, f->mac.bytes);
	return f;
}

/* The packet becomes a question to everybody on the side, unless one was lately. */
INLINE enum verdict ask(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			struct destination *d, const struct neighbour_key *key, __u64 now)
{
	struct route *network = network_of(w, has_ipv4(p), d->router, key->switch_id, &key->addr);
	struct asked *a = bpf_map_lookup_elem(&asked, key);
	struct limit_key sender;

	if (!network)
		return refuse(d, TELL_NO_NEIGHBOUR, DROP(NO_NEIGHBOUR));
	if (a && now < a->at + SECOND)
		return DROP(RESOLVING);
	if (a && a->tries >= MOST_TRIES && now < a->at + SECOND + SILENT_TIME)
		return refuse(d, TELL_NO_NEIGHBOUR, DROP(NO_NEIGHBOUR));
	sender = limit_of_sender(ctx, p, LIMIT_ASKS);
	if (!is_within_limit(&sender, 1, MOST_ASKS, SECOND / 10, now_ns()))
		return DROP(ASK_LIMIT);
	w->asker = network->own;
	return refuse(d, TELL_ASK, DROP(RESOLVING));
}

/* Whether nobody has the MAC in a switch, and a routed packet is not flooded. sw NULL: on a leg. */
INLINE bool is_nowhere(struct scratch *w, const struct lswitch *sw, __u32 side, const struct mac *mac)
{
	w->found.flags = 0;
	return sw && !is_on_vlan(side) && !find_mac(side, mac->bytes, sw, &w->found);
}

/* Whether a found neighbour is used. If nobody confirmed it for long, whether a copy of this packet asks it. */
INLINE bool is_still_used(const struct packet *p, struct destination *d,
			  const struct found_neighbour *f, __u64 now)
{
	bool may_ask = now >= f->asked + SECOND;

	if (now < f->confirmed + REACHABLE_TIME)
		return true;
	if (f->tries >= MOST_TRIES)
		return !may_ask;
	d->probes = may_ask && !p->gso_size;
	return true;
}

/*
 * The MAC of the neighbour scratch.next that nobody declares, into d->eth. Else TO_REMOTE: the acting host has
 * to ask; or what becomes of the packet. Global: few packets are for somebody that nobody declares.
 */
__noinline enum verdict find_or_ask(struct __sk_buff *ctx, const struct packet *p,
				    struct destination *d)
{
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	struct found_neighbour f, *found_one;
	__u64 now = coarse_now_ns();
	struct lswitch *sw = NULL;
	struct router *r;

	if (!p || !d || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r)
		return DROP(NOT_CONFIGURED);
	key.switch_id = side_of(d->router, w->next.switch_id);
	key.addr = w->next.addr;
	if (!is_leg(key.switch_id)) {
		sw = bpf_map_lookup_elem(&switches, &key.switch_id);
		if (!sw || !(sw->flags & SWITCH_ASKS))
			return refuse(d, TELL_NO_NEIGHBOUR, DROP(NO_NEIGHBOUR));
	}
	rest_on_side(&w->flow, d, key.switch_id);
	found_one = bpf_map_lookup_elem(&found, &key);
	if (found_one) {
		f = *found_one; /* the kernel gives the memory of a deleted entry to a new one */
		if (!is_nowhere(w, sw, key.switch_id, &f.mac) && is_still_used(p, d, &f, now)) {
			copy_mac(d->eth.h_dest, f.mac.bytes);
			rest_until(&w->flow, f.confirmed + REACHABLE_TIME);
			if (now >= f.confirmed + REACHABLE_TIME || w->found.flags & FDB_LEARNED)
				d->once = true;
			return GO_ON;
		}
		if (bpf_map_delete_elem(&found, &key) == 0)
			uncount(&found_counts, key.switch_id, owner_of_found(&f));
		change_side(key.switch_id);
	}
	if (!is_leg(key.switch_id) && r->flags & ROUTER_GATEWAY_ELSEWHERE) {
		d->kind = TO_REMOTE;
		return GO_ON;
	}
	return ask(ctx, w, p, d, &key, now);
}
