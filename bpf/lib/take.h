/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that began elsewhere: on another host, from which their port moved here, or in a set of maps with another
 * layout. They get a place as those that begin here do.
 */
#pragma once

#include "outside_ends.h"

/* How a connection is taken. */
#define TAKE_NEWER                                                                                   \
	(1 << 0) /* of two with one key the one with the later last packet stays; else the one here */
#define TAKE_IN_PLACE (1 << 1) /* in the place that it had, if that is free */

/* The port of a connection. */
INLINE struct port *port_of(const struct connection_key *key)
{
	struct port_key id = { .switch_id = key->switch_id, .key = key->key };
	struct port_place *place = bpf_map_lookup_elem(&port_keys, &id);

	return place ? bpf_map_lookup_elem(&ports, &place->id) : NULL;
}

/* tracking.fresh belongs to the port or router of now, and uses its share. */
INLINE void give_owner(struct tracking *t)
{
	__u32 id = t->key.switch_id & ~ZONE_ROUTER;
	struct router *r;
	struct port *port;

	t->share = 0;
	if (t->key.switch_id & ZONE_ROUTER) {
		r = bpf_map_lookup_elem(&routers, &id);
		t->share = r ? r->connections : 0;
		return;
	}
	port = port_of(&t->key);
	t->share = port ? port->connections : 0;
	t->fresh.owner = port ? port->owner : 0;
}

/*
 * A translation becomes that of tracking.key, with the outside end that tracking.fresh has. KEPT_ANOTHER: another one
 * has that end by now. Global, for the stack's sake.
 */
__noinline int keep_translation(__u32 in_place)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict published;
	int kept;

	if (!t || !w)
		return KEPT_NONE;
	outside_key_of(&t->other, &t->key, &t->fresh);
	w->outside = t->other;
	published = publish();
	if (published != GO_ON)
		return published == DROP(NAT_EXHAUSTED) ? KEPT_ANOTHER : KEPT_NONE;
	kept = keep_connection(t, in_place);
	if (kept == KEPT)
		release_translation(&w->outside);
	else
		bpf_map_delete_elem(&translations, &w->outside); /* nobody else has claimed it */
	return kept;
}

/* What is here with the key of tracking.fresh makes room for it, which has its place then. Global, likewise. */
__noinline int replace_connection(__u32 in_place)
{
	struct tracking *t = get_tracking();
	struct connection *c;

	if (!t)
		return KEPT_NONE;
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (!c)
		return KEPT_ANOTHER;
	if (t->key.switch_id & ZONE_ROUTER) {
		outside_key_of(&t->other, &t->key, &t->fresh);
		if (!is_outside(c, &t->other)) {
			forget_connection(&t->key, c);
			return keep_translation(in_place);
		}
	}
	t->fresh.place = c->place;
	return bpf_map_update_elem(&connections, &t->key, &t->fresh, BPF_EXIST) ? KEPT_ANOTHER : KEPT;
}

/*
 * A connection from elsewhere, in the bytes of a test run (crates/ebpf/src/connections.rs): behind an Ethernet header
 * the key, the connection, and how it is taken. Without a time-out of its own it gets that of its state. enum keeping,
 * or -1.
 */
INLINE int take_over_connection(struct __sk_buff *ctx)
{
	struct tracking *t = get_tracking();
	struct connection *c;
	__u32 how;

	if (!t || bpf_skb_load_bytes(ctx, ETH_HLEN, &t->key, sizeof(t->key)) < 0 ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(t->key), &t->fresh, sizeof(t->fresh)) < 0 ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(t->key) + sizeof(t->fresh), &how, sizeof(how)) <
		    0)
		return -1;
	if (t->fresh.flags & CONNECTION_PICKED_UP)
		pick_up(&t->fresh);
	t->now = coarse_now_ns();
	give_owner(t);
	if (!t->fresh.life)
		t->fresh.life = life_of(&t->key, t->fresh.state);
	c = find_connection(&t->key, t->now);
	if (c)
		return how & TAKE_NEWER && c->seen <= t->fresh.seen ?
			       replace_connection(how & TAKE_IN_PLACE) :
			       KEPT_ANOTHER;
	return t->key.switch_id & ZONE_ROUTER ? keep_translation(how & TAKE_IN_PLACE) :
						keep_connection(t, how & TAKE_IN_PLACE);
}
