/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage nat: what a gateway translates between the overlay (inside) and the physical network (outside). A
 * translation is a connection of the router, whose local end is the inside: conntrack keeps it. Map translations finds
 * it from outside.
 *
 *          inside key                                 outside key
 *   | local: 198.18.1.10, port 5000 |  <--->  | local: 198.19.0.2, port 1024 |
 *   | peer:  198.19.9.7, port 80    |         | peer:  the same              |
 */
#pragma once

#include "lib/begin.h"
#include "lib/next_hop.h"
#include "lib/tracking.h"

#define NAT_TRIES 32 /* outside ports that are looked at for one translation */

INLINE __u32 nat_list(const struct router *r, __u32 router)
{
	return r->flags & ROUTER_NAT_ODD ? router | NAT_RULES_ODD : router;
}

/* The first rule that hides the inside address of tracking.key; NULL: none. */
INLINE const __u32 *find_hiding(__u32 list, const struct tracking *t)
{
	struct nat_inside_key key = {
		.prefixlen = 64 + 128,
		.list = bpf_htonl(list),
		.family = bpf_htonl(t->key.family),
		.addr = t->key.local,
	};

	return bpf_map_lookup_elem(&nat_insides, &key);
}

/* The first rule with the local end of a connection, or with its address alone; NULL: none. */
INLINE const __u32 *find_end(__u32 list, enum nat_side side, const struct connection_key *of,
			     bool has_port)
{
	struct nat_end_key key = {
		.list = list,
		.side = side,
		.addr = of->local,
		.port = has_port ? bpf_ntohs(of->local_port) : 0,
		.protocol = has_port ? of->protocol : 0,
		.family = of->family,
	};

	return bpf_map_lookup_elem(&nat_ends, &key);
}

INLINE void keep_first(__u32 *first, const __u32 *number)
{
	if (number && *number < *first)
		*first = *number;
}

/*
 * The first rule of a list that is for tracking.key, in scratch.rule: three look-ups, whatever the list has. side: which
 * end of the rule the local one is. An ICMP message that begins nothing finds what hides its sender. Global: it has a
 * stack of its own.
 */
__noinline int find_nat_rule(__u32 list, enum nat_side side)
{
	struct nat_rule_key key = { .list = list, .number = ~0u };
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	const struct nat_rule *rule;

	if (!t || !w)
		return false;
	if (side == NAT_OUTSIDE)
		keep_first(&key.number, find_end(list, side, &t->key, false));
	else
		keep_first(&key.number, find_hiding(list, t));
	if (t->l4.source | t->l4.dest)
		keep_first(&key.number, find_end(list, side, &t->key, true));
	rule = bpf_map_lookup_elem(&nat_rules, &key);
	if (!rule)
		return false;
	w->rule = *rule;
	return true;
}

/* Whether nobody uses tracking.other outside; what has expired is forgotten. Global: it is asked in a loop. */
__noinline int is_free_outside(void)
{
	struct tracking *t = get_tracking();
	struct connection_key *inside;

	if (!t)
		return false;
	inside = bpf_map_lookup_elem(&translations, &t->other);
	if (!inside)
		return true;
	if (see_connection(inside, t->now))
		return false;
	/* In this order: the CPU that is just beginning the connection looks for its translation last. */
	t->search.holder = *inside;
	bpf_map_delete_elem(&translations, &t->other);
	bpf_map_delete_elem(&connections, &t->search.holder);
	return true;
}

/* Whether a source rule may use tracking.other: nobody does, and what comes there is not forwarded. Global, likewise. */
__noinline int is_free_to_share(__u32 list)
{
	struct tracking *t = get_tracking();

	return t && !find_end(list, NAT_OUTSIDE, &t->other, true) && is_free_outside();
}

/* A port of an address that others have too: its own if it is free with this peer. */
INLINE enum verdict share_address(struct scratch *w, struct tracking *t, const struct packet *p,
				  __u32 list)
{
	__u32 first = w->rule.port_min, count = w->rule.port_max - first + 1;
	const struct settings *s = get_settings();
	__u32 secret = s ? s->secret : 0;
	__u32 start = ((__u64)mix_hash(p->flow_hash ^ secret) * count) >> 32;

	if (!(t->key.local_port | t->key.peer_port) || t->key.protocol == IPPROTO_SCTP)
		return DROP(NAT_UNSUPPORTED);
	set_outside_key(&t->other, &t->key, &w->rule.outside, t->key.local_port);
	for (__u32 i = 0; i < NAT_TRIES; i++) {
		if (is_free_to_share(list))
			return GO_ON;
		t->other.local_port = bpf_htons(first + (start + i) % count);
	}
	return is_free_to_share(list) ? GO_ON : DROP(NAT_EXHAUSTED);
}

/* SCTP's CRC is over its ports, and is not written anew. */
INLINE bool moves_sctp(const struct nat_rule *rule)
{
	return rule->kind == NAT_FORWARD && rule->protocol == IPPROTO_SCTP &&
	       rule->inside_port != rule->outside_port;
}

/* The outside key of a new connection, tracking.other. */
INLINE enum verdict choose_outside(struct scratch *w, struct tracking *t, const struct packet *p,
				   __u32 list)
{
	const struct nat_rule *rule = &w->rule;
	__be16 port = t->key.local_port;

	if (rule->kind == NAT_SOURCE)
		return share_address(w, t, p, list);
	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	if (rule->kind == NAT_FORWARD)
		port = bpf_htons(rule->outside_port);
	set_outside_key(&t->other, &t->key, &rule->outside, port);
	return is_free_outside() ? GO_ON : DROP(NAT_EXHAUSTED);
}

/*
 * Another CPU may have begun the same connection meanwhile, with another end outside; or taken our end for one that was
 * left, because the connection was not there yet. Nothing is left of what is not in both maps. Global, for the stack's
 * sake.
 */
__noinline enum verdict settle_translation(void)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	struct connection *c;

	if (!t || !w)
		return DROP(NOT_CONFIGURED);
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (c && same_addr(&c->outside, &w->outside.local) &&
	    c->outside_port == w->outside.local_port) {
		if (is_outside_of(&w->outside, &t->key))
			return GO_ON;
		forget_connection(&t->key, c);
		return DROP(NAT_EXHAUSTED);
	}
	if (is_outside_of(&w->outside, &t->key))
		bpf_map_delete_elem(&translations, &w->outside);
	if (!c)
		return DROP(NAT_EXHAUSTED);
	w->outside.local = c->outside;
	w->outside.local_port = c->outside_port;
	return GO_ON;
}

/*
 * Begins the translation of tracking.key; tracking.other is its outside key. It must be found from outside before
 * anybody can answer.
 */
INLINE enum verdict begin_translation(struct __sk_buff *ctx, const struct packet *p,
				      struct scratch *w, struct tracking *t, __u32 how)
{
	const struct settings *s = get_settings();
	enum verdict result;
	long failed;

	if (may_begin(&t->l4) && !is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	t->fresh.owner = 0;
	t->fresh.outside = t->other.local;
	t->fresh.outside_port = t->other.local_port;
	w->outside = t->other;
	failed = bpf_map_update_elem(&translations, &w->outside, &t->key, BPF_NOEXIST);
	if (failed || !s)
		return failed == -EEXIST ? DROP(NAT_EXHAUSTED) : DROP(CONNECTIONS_FULL);
	result = begin_connection(how, RULE_DEFAULT, s->rules_version);
	if (result == GO_ON)
		return settle_translation();
	if (is_outside_of(&w->outside, &t->key))
		bpf_map_delete_elem(&translations, &w->outside);
	return result;
}

/* The same as conntrack's, but no rule is asked about a SYN. */
INLINE enum verdict follow_translation(struct __sk_buff *ctx, const struct packet *p,
				       const struct tracking *t, struct connection *c, bool from_peer)
{
	if (!asks_for_another(c, &t->l4, from_peer))
		return follow_connection(ctx, p, t, c, from_peer);
	if (!is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	remember_syn(c, t, from_peer);
	return GO_ON;
}

/* Reads the packet into tracking, as one of the router's. */
INLINE enum verdict track(struct __sk_buff *ctx, const struct packet *p, struct tracking *t,
			  __u32 router, bool from_peer)
{
	t->now = coarse_now_ns();
	if (p->fragment || is_hidden(p)) /* without ports */
		t->l4 = (struct l4){ .protocol = p->protocol };
	else if (read_l4(ctx, p) != GO_ON)
		return DROP(CONNECTION_INVALID);
	set_connection_key(&t->key, p, &t->l4, ZONE_ROUTER | router, 0, from_peer);
	return GO_ON;
}

/* The packet gets the other side's address and port instead of its source or destination. */
INLINE void translate(struct destination *d, enum translated_end end, const struct addr *addr,
		      __be16 port)
{
	d->translation.end = end;
	d->translation.addr = *addr;
	d->translation.port = port;
}

/* No rule is for the packet. */
INLINE enum verdict untranslated(const struct router *r)
{
	return r->flags & ROUTER_NAT_ALL ? DROP(NAT_NO_RULE) : GO_ON;
}

/* The same from the leg, where some are for the router itself. */
INLINE enum verdict untranslated_in(struct scratch *w, const struct packet *p, const struct router *r,
				    __u32 router)
{
	struct route *to = find_route(w, p, router, &p->flow.dest);

	return to && to->kind == ROUTE_OWN ? GO_ON : untranslated(r);
}

/* Out by the leg: the source becomes the outside one. Global: it has a stack of its own. */
__noinline enum verdict nat_out(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;
	struct router *r;
	__u32 list;

	if (!p || !d || !t || !w)
		return DROP(NOT_CONFIGURED);
	result = track(ctx, p, t, d->router, false);
	if (result != GO_ON)
		return result;
	if (t->l4.kind == L4_ERROR && read_quoted(ctx, p, false)) {
		c = see_connection(&t->other, t->now);
		d->translation.is_error = !!c;
		if (c) {
			translate(d, TRANSLATE_SOURCE, &c->outside, c->outside_port);
			return GO_ON;
		}
	}
	c = is_loose(&t->l4) ? NULL : find_connection(&t->key, t->now);
	if (c) {
		translate(d, TRANSLATE_SOURCE, &c->outside, c->outside_port);
		return follow_translation(ctx, p, t, c, false);
	}
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r)
		return DROP(NOT_CONFIGURED);
	t->share = r->connections;
	list = nat_list(r, d->router);
	if (!find_nat_rule(list, NAT_INSIDE))
		return untranslated(r);
	if (is_loose(&t->l4))
		return DROP(NAT_UNSUPPORTED);
	result = choose_outside(w, t, p, list);
	if (result == GO_ON)
		result = begin_translation(ctx, p, w, t, 0);
	translate(d, TRANSLATE_SOURCE, &w->outside.local, w->outside.local_port);
	return result;
}

/* What a rule says about a packet from outside: its inside end, in tracking.key, and a new translation. */
INLINE enum verdict begin_from_leg(struct __sk_buff *ctx, const struct packet *p, struct scratch *w,
				   struct tracking *t)
{
	const struct nat_rule *rule = &w->rule;

	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	w->outside = t->key;
	t->key.local = rule->inside;
	if (rule->kind == NAT_FORWARD)
		t->key.local_port = bpf_htons(rule->inside_port);
	if (find_connection(&t->key, t->now))
		return DROP(NAT_EXHAUSTED);
	t->other = w->outside;
	return begin_translation(ctx, p, w, t, BEGIN_FROM_PEER);
}

/* The live translation of a packet from outside, tracking.key then; NULL: there is none. */
INLINE struct connection *join_from_leg(struct scratch *w, struct tracking *t)
{
	struct connection_key *inside = bpf_map_lookup_elem(&translations, &t->key);
	struct connection *c;

	if (!inside)
		return NULL;
	w->outside = t->key;
	t->key = *inside;
	c = find_connection(&t->key, t->now);
	if (!c)
		t->key = w->outside;
	return c;
}

/* The live translation that the quoted packet of an ICMP error was under; NULL: none. */
INLINE struct connection_key *find_quoted_inside(const struct tracking *t)
{
	struct connection_key *inside = bpf_map_lookup_elem(&translations, &t->other);

	return inside && see_connection(inside, t->now) ? inside : NULL;
}

/* From the leg: the destination becomes the inside one. Global: it has a stack of its own. */
__noinline enum verdict nat_in(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct tracking *t = get_tracking();
	struct connection_key *inside;
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;
	struct router *r;

	if (!p || !d || !t || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r || !(r->flags & ROUTER_NAT))
		return GO_ON;
	t->share = r->connections;
	result = track(ctx, p, t, d->router, true);
	if (result != GO_ON)
		return result;
	if (t->l4.kind == L4_ERROR && read_quoted(ctx, p, true)) {
		inside = find_quoted_inside(t);
		d->translation.is_error = !!inside;
		if (inside) {
			translate(d, TRANSLATE_DESTINATION, &inside->local, inside->local_port);
			return GO_ON;
		}
	}
	if (is_loose(&t->l4))
		return untranslated_in(w, p, r, d->router);
	c = join_from_leg(w, t);
	if (!c && !find_nat_rule(nat_list(r, d->router), NAT_OUTSIDE))
		return untranslated_in(w, p, r, d->router);
	result = c ? follow_translation(ctx, p, t, c, true) : begin_from_leg(ctx, p, w, t);
	translate(d, TRANSLATE_DESTINATION, &t->key.local, t->key.local_port);
	return result;
}
