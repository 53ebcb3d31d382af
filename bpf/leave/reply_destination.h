/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an answer goes: back to the device that the packet came by, from the underlay into the switch, as if the
 * packet's destination had sent it. It is no packet of its own: it counts nowhere and no firewall sees it. Part of
 * reply.
 */
#pragma once

#include "lib/fdb.h"
#include "lib/found.h"

/* To where a MAC is; NULL: nobody knows, and only a VLAN may. */
INLINE void send_to_place(struct destination *d, const struct fdb_entry *place)
{
	if (place && place->port.ifindex) {
		d->kind = TO_PORT;
		d->port = place->port;
	} else if (is_on_vlan(d->switch_id)) {
		d->kind = TO_VLAN;
	} else if (place) {
		d->kind = TO_REMOTE;
		d->dest_key = place->key;
		d->remote = place->remote;
	}
}

/* As it is, to the router's acting host. Says where, in scratch.found. */
INLINE bool find_acting_host(struct scratch *w, const struct destination *d,
			     const struct router *router, __u32 id)
{
	struct router_interface *i = interface_on(id, d->switch_id);

	if (!i || !(router->flags & ROUTER_GATEWAY_ELSEWHERE))
		return false;
	w->found = (struct fdb_entry){ .key = i->key, .remote = router->gateway };
	return true;
}

/*
 * Its receiver is behind a router, which sent the packet here: the answer goes its way back, as route would send it, to
 * the router's acting host where only that one sends there, or has to ask. Says where, in scratch.found. Global: it has
 * a stack of its own.
 */
__noinline int find_behind_router(struct __sk_buff *ctx, struct packet *r, struct destination *d,
				  __u32 id)
{
	struct scratch *w = get_scratch();
	struct router *router;
	struct router_interface *i;
	struct lswitch *sw;
	__u32 kind;

	if (!w || !r || !d)
		return false;
	router = bpf_map_lookup_elem(&routers, &id);
	kind = find_next_hop(w, r, id);
	if (!router || (kind != ROUTE_CONNECTED && kind != ROUTE_VIA))
		return false;
	if (is_for_acting_host(w, router, has_ipv4(r)))
		return find_acting_host(w, d, router, id);
	i = interface_on(id, w->next.switch_id);
	sw = bpf_map_lookup_elem(&switches, &w->next.switch_id);
	if (!i || !sw)
		return false;
	if (!know_neighbour(w, has_ipv4(r), d->eth.h_dest))
		return sw->flags & SWITCH_ASKS && find_acting_host(w, d, router, id);
	send_from_router(d, router, i, w->next.switch_id);
	if (bpf_skb_store_bytes(ctx, 0, &d->eth, ETH_HLEN, 0) < 0)
		return false;
	w->found = (struct fdb_entry){};
	return find_mac(d->switch_id, d->eth.h_dest, sw, &w->found) ? !w->found.router :
								      is_on_vlan(d->switch_id);
}

/* l2_lookup of the answer in the switch that the packet came from. Who is not found leaves it TO_NOWHERE. */
INLINE void find_in_switch(struct __sk_buff *ctx, struct scratch *w, struct packet *r,
			   struct destination *d)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &d->switch_id);
	struct settings *s = get_settings();
	struct fdb_entry *to = &w->found;
	bool known;

	if (!sw || !s)
		return;
	/* Its sender, for the tunnel. */
	d->source_key = find_mac(d->switch_id, r->eth.h_source, sw, to) ? to->key : 0;
	known = find_mac(d->switch_id, r->eth.h_dest, sw, to);
	hash_flow(s, r);
	if (known && to->router && !find_behind_router(ctx, r, d, to->router))
		return;
	send_to_place(d, known ? to : NULL);
}

INLINE void find_reply_destination(struct __sk_buff *ctx, struct scratch *w, struct packet *r,
				   struct destination *d)
{
	clear_destination(d);
	d->is_reply = true;
	d->switch_id = r->switch_id;
	leave_as_it_came(d, r);
	if (is_from_underlay(r)) {
		find_in_switch(ctx, w, r, d);
		return;
	}
	d->kind = TO_SENDER;
	d->port = r->source;
	/* A leg takes a priority only, which is none of the answer. */
	d->tag = r->hook == HOOK_FROM_LEG ? (struct tag){} : r->in_tag;
}
