/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage nat: what a gateway translates between the overlay (inside) and the physical network (outside). A
 * translation is a connection of the router, whose local end is the inside: conntrack keeps it. Map translations finds
 * it from outside.
 *
 *          inside key                                 outside key
 *   | local: 198.18.1.10, port 5000 |  <--->  | local: 198.19.0.2, port 1024 |
 *   | peer:  198.19.9.7, port 80    |         | peer:  the same              |
 *
 * The peer's port is another one inside where two translations would have the same inside key.
 */
#pragma once

#include "lib/covered.h"
#include "lib/flows.h"
#include "lib/next_hop.h"
#include "lib/outside_ends.h"
#include "lib/quoted.h"
#include "lib/take.h" /* of translations too: the program take_connection has it from here */

/* The same as conntrack's, but no rule is asked about a SYN. */
INLINE enum verdict follow_translation(struct __sk_buff *ctx, const struct packet *p,
				       const struct tracking *t, struct connection *c, bool from_peer)
{
	if (!asks_for_another(c, &t->l4, from_peer))
		return follow_connection(ctx, p, c, from_peer);
	if (!is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	remember_syn(c, t, from_peer);
	return GO_ON;
}

INLINE void set_router_key(struct tracking *t, const struct packet *p, __u32 router, bool from_peer)
{
	set_connection_key(&t->key, p, &t->l4, ZONE_ROUTER | router, 0, from_peer);
}

/* Reads the packet into tracking, as one of the router's. */
INLINE enum verdict track(struct __sk_buff *ctx, const struct packet *p, struct tracking *t,
			  __u32 router, bool from_peer)
{
	enum verdict result;

	t->now = coarse_now_ns();
	t->has_begun = t->other_begins = false;
	t->key.switch_id = ZONE_ROUTER | router;
	t->key.key = 0;
	result = read_l4(ctx, p);
	if (t->l4.kind == L4_UNSEEN)
		result = see_behind(ctx, p, 0, from_peer);
	if (result != GO_ON)
		return result;
	if (t->l4.kind == L4_UNSEEN) /* without ports */
		t->l4 = (struct l4){ .protocol = p->protocol };
	set_router_key(t, p, router, from_peer);
	return GO_ON;
}

/* The live translation of tracking.key, if there is one, would give the packet another address than it can have. */
INLINE bool is_stuck(struct __sk_buff *ctx, const struct packet *p, const struct tracking *t,
		     const struct connection *c)
{
	return c && !is_untranslated(c, &t->key) && keeps_addresses(ctx, p);
}

/* From the leg, likewise. */
INLINE void translate_destination(struct destination *d, const struct connection_key *outside,
				  const struct connection_key *inside)
{
	if (same_addr(&inside->local, &outside->local) && inside->local_port == outside->local_port &&
	    inside->peer_port == outside->peer_port)
		return;
	translate(d, TRANSLATE_DESTINATION, &inside->local, inside->local_port);
	translate_peer(d, outside->peer_port, inside->peer_port);
}

/* No rule is for the packet. */
INLINE enum verdict untranslated(const struct router *r)
{
	return r->flags & ROUTER_NAT_ALL ? DROP(NAT_NO_RULE) : GO_ON;
}

/* The route of what is for the router itself, which nothing translates; NULL: it is not. */
INLINE struct route *find_own_route(struct scratch *w, const struct packet *p, __u32 router)
{
	struct route *to = find_route(w, has_ipv4(p), router, &p->flow.dest);

	return to && to->kind == ROUTE_OWN ? to : NULL;
}

/* The same from the leg, of what begins nothing. */
INLINE enum verdict untranslated_in(struct scratch *w, const struct packet *p, const struct router *r,
				    __u32 router)
{
	return find_own_route(w, p, router) ? GO_ON : untranslated(r);
}

/*
 * No rule is for a packet from the leg. It is remembered with one end on both sides, so that its answers leave as they
 * are, if it may begin a connection and there is a place. But a SYN to an address of the router that stands for others
 * too may be one of two that meet: whose sender hears nothing of it, keeps trying (RFC 5382 REQ-4).
 */
INLINE enum verdict begin_untranslated(struct __sk_buff *ctx, struct scratch *w, struct tracking *t,
				       const struct packet *p, const struct router *r, __u32 router,
				       __u32 version)
{
	struct route *own = find_own_route(w, p, router);

	if (own && own->is_outside && is_unknown_part(p, &t->l4))
		return DROP(FRAGMENT_UNKNOWN);
	if (own)
		return own->is_outside && is_syn(&t->l4) ? DROP(NAT_NO_RULE) : GO_ON;
	if (r->flags & ROUTER_NAT_ALL)
		return DROP(NAT_NO_RULE);
	if (p->fragment != LATER_FRAGMENT && !is_hidden(p) && is_sound(ctx, p))
		begin_by_some_port(t, p, version); /* it passes anyhow */
	return GO_ON;
}

/* Whether the rules of now make the same of a translation as those that it was begun by. */
INLINE bool still_fits(struct scratch *w, struct tracking *t, const struct connection *c,
		       const struct router *r, __u32 list)
{
	const struct nat_rule *rule = &w->rule;
	__be16 port = c->outside_port;
	bool found;

	if (is_untranslated(c, &t->key))
		return !(r->flags & ROUTER_NAT_ALL);
	/* What is for the one end keeps nothing that was made for the other. */
	if (c->flags & CONNECTION_MADE_BY_PEER) {
		t->other = t->key;
		outside_key_of(&t->key, &t->other, c);
		found = find_nat_rule(list, NAT_OUTSIDE);
		t->key = t->other;
		if (rule->kind == NAT_FORWARD)
			port = bpf_htons(rule->inside_port);
		return found && same_addr(&rule->inside, &t->key.local) &&
		       (port == t->key.local_port || is_icmp(t->key.protocol, t->key.family == 4));
	}
	if (!find_nat_rule(list, NAT_INSIDE) || !same_addr(&rule->outside, &c->outside))
		return false;
	if (rule->kind == NAT_FORWARD)
		return bpf_ntohs(port) == rule->outside_port;
	return port == t->key.local_port ||
	       (rule->kind == NAT_SOURCE && bpf_ntohs(port) >= rule->port_min &&
		bpf_ntohs(port) <= rule->port_max);
}

enum judgement {
	STANDS,
	REVOKED,   /* it waits for its time-out, and the packet belongs to nothing */
	FORGOTTEN, /* the packet may begin another */
};

/* What the rules of now say of the translation of tracking.key. Global, for the stack's sake. */
__noinline int judge_translation(__u32 router)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	struct connection *c;

	if (!r || !t || !w)
		return FORGOTTEN;
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (!c)
		return FORGOTTEN;
	if (still_fits(w, t, c, r, nat_list(r, router))) {
		c->version = r->nat_version;
		if (c->flags & CONNECTION_REVOKED)
			c->flags &= ~CONNECTION_REVOKED;
		return STANDS;
	}
	if (t->l4.part == LATER_FRAGMENT && t->l4.kind != L4_TCP)
		return REVOKED;
	/* Else the next packet of a busy TCP connection would be adopted, and have the same end again. */
	if (t->l4.kind == L4_TCP && !is_syn(&t->l4)) {
		pick_up(c);
		c->flags |= CONNECTION_REVOKED;
		return REVOKED;
	}
	forget_connection(&t->key, c);
	return FORGOTTEN;
}

/*
 * Whether an ICMP error about a packet of tracking.quoted, of the live translation of tracking.key, is translated: as
 * that packet would be by the rules of now. It decides nothing about the translation. Global, for the stack's sake.
 */
__noinline int covers_error(__u32 version, __u32 router)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	struct connection *c;
	bool fits;

	if (!r || !t || !w)
		return false;
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (!c || c->version == version)
		return !!c;
	t->l4.source = t->quoted.source; /* an error has no ports of its own */
	t->l4.dest = t->quoted.dest;
	fits = still_fits(w, t, c, r, nat_list(r, router));
	t->l4.source = t->l4.dest = 0;
	return fits;
}

/* Of the live translation of tracking.key: STANDS where the rules are still those that it was begun by. */
INLINE int ask_again(const struct connection *c, __u32 version, __u32 router)
{
	bool is_known = c->version == version && !(c->flags & CONNECTION_REVOKED);

	return is_known ? STANDS : judge_translation(router);
}

/*
 * An ICMP error out by the leg, about a packet of the translation of tracking.other. Of the guest that the packet was
 * for, its end outside stands for it; a router on the way has an address of its own there, or the gateway's (RFC 5508
 * REQ-5). Global, for the stack's sake.
 */
__noinline enum verdict translate_error_out(struct __sk_buff *ctx, const struct packet *p,
					    struct destination *d)
{
	struct tracking *t = get_tracking();
	const struct connection *c;
	const struct router *r;

	if (!p || !d || !t)
		return DROP(NOT_CONFIGURED);
	c = bpf_map_lookup_elem(&connections, &t->other);
	if (!c || is_outside(c, &t->other)) /* opened untranslated */
		return GO_ON;
	if (!is_untranslated(c, &t->other) && keeps_addresses(ctx, p))
		return DROP(NAT_UNSUPPORTED);
	translate_source(d, &t->other, c);
	d->translation.is_error = true;
	d->translation.teller = c->outside;
	if (same_addr(&p->flow.source, &t->other.local))
		return GO_ON;
	if (is_untranslated(c, &t->other)) {
		d->translation.teller = p->flow.source;
		return GO_ON;
	}
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r || !find_teller(r, d->router, t->key.family, &p->flow.source, &d->translation.teller))
		return DROP(NAT_UNSUPPORTED);
	return GO_ON;
}

/* Out by the leg: the source becomes the outside one. Global: it has a stack of its own. */
__noinline enum verdict nat_out(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;
	struct router *r;
	int judgement;
	__u32 list;

	if (!p || !d || !t || !w)
		return DROP(NOT_CONFIGURED);
	result = track(ctx, p, t, d->router, false);
	if (result != GO_ON)
		return result;
	if (quotes(&t->l4) && read_quoted(ctx, p, false)) {
		t->key = t->other;
		c = see_connection(&t->key, t->now);
		if (c && covers_error(d->nat_version, d->router))
			return translate_error_out(ctx, p, d);
		set_router_key(t, p, d->router, false);
	}
	c = is_loose(&t->l4) ? NULL : find_connection(&t->key, t->now);
	if (is_stuck(ctx, p, t, c))
		return DROP(NAT_UNSUPPORTED);
	judgement = c ? ask_again(c, d->nat_version, d->router) : FORGOTTEN;
	if (judgement == REVOKED)
		return DROP(CONNECTION_INVALID);
	if (!c || judgement != STANDS) {
		r = bpf_map_lookup_elem(&routers, &d->router);
		if (!r)
			return DROP(NOT_CONFIGURED);
		t->share = r->connections;
		list = nat_list(r, d->router);
		if (!find_nat_rule(list, NAT_INSIDE)) {
			d->once = true; /* what begins from outside may translate the next packet */
			return untranslated(r);
		}
		if (is_loose(&t->l4) || keeps_addresses(ctx, p))
			return DROP(NAT_UNSUPPORTED);
		if (t->l4.part == LATER_FRAGMENT || !is_sound(ctx, p) || !can_begin(&t->l4, 0))
			return DROP(CONNECTION_INVALID);
		result = publish_by_rule(p, list);
		if (result == GO_ON)
			result = begin_translation(0, d->nat_version); /* read before the rules */
		if (result != GO_ON && result != DROP(NAT_EXHAUSTED))
			return result;
		c = see_connection(&t->key, t->now); /* it may be another CPU's */
		if (!c)
			return DROP(NAT_EXHAUSTED);
	}
	translate_source(d, &t->key, c);
	rest_on_connection(&w->flow.far, ZONE_ROUTER | d->router, 0, false, true, d->nat_version);
	return t->has_begun ? GO_ON : follow_translation(ctx, p, t, c, false);
}

/* By the rule that is for the packet from outside, scratch.outside: it says the inside end. */
INLINE enum verdict begin_from_leg(struct __sk_buff *ctx, const struct packet *p, struct scratch *w,
				   struct tracking *t, __u32 version)
{
	const struct nat_rule *rule = &w->rule;

	if (moves_sctp(rule) || keeps_addresses(ctx, p))
		return DROP(NAT_UNSUPPORTED);
	t->key.local = rule->inside;
	if (rule->kind == NAT_FORWARD)
		t->key.local_port = bpf_htons(rule->inside_port);
	if (t->l4.part == LATER_FRAGMENT || !is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	return begin_by_some_port(t, p, version);
}

/* The live translation of a packet from outside, scratch.outside; its key is tracking.key then. NULL: there is none. */
INLINE struct connection *join_from_leg(struct scratch *w, struct tracking *t)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, &w->outside);
	struct connection *c;

	if (!entry)
		return NULL;
	t->key = entry->inside; /* it may become another's meanwhile */
	c = find_connection(&t->key, t->now);
	return c && is_its_outside(&t->key, c, &w->outside) ? c : NULL;
}

#define NAT_WAITS 64 /* looks, while another CPU begins the connection: some microseconds */

/* For bpf_loop(): the verifier looks at it once, and not at every look. */
static long look_again(__u32 number __attribute__((unused)), void *none __attribute__((unused)))
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();

	return !t || !w || join_from_leg(w, t);
}

/* The same of one that another CPU begins. */
INLINE struct connection *await_from_leg(struct scratch *w, struct tracking *t)
{
	bpf_loop(NAT_WAITS, look_again, NULL, 0);
	return join_from_leg(w, t);
}

/* The same for an ICMP error and the packet that it quotes. */
INLINE bool join_quoted(struct scratch *w, struct tracking *t, __u32 version, __u32 router)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, &t->other);

	if (!entry || !is_in_use(t, entry))
		return false;
	w->outside = t->other;
	t->key = t->search.holder;
	return covers_error(version, router);
}

/* From the leg: the destination becomes the inside one. Global: it has a stack of its own. */
__noinline enum verdict nat_in(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;
	struct router *r;
	int judgement, has_rule;
	__u32 version;
	bool once;

	if (!p || !d || !t || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r || !(r->flags & ROUTER_NAT))
		return GO_ON;
	once = d->once;
	d->once = true;           /* without a translation that stands */
	version = r->nat_version; /* before the rules: what older ones began is judged again */
	t->share = r->connections;
	result = track(ctx, p, t, d->router, true);
	if (result != GO_ON)
		return result;
	if (quotes(&t->l4) && read_quoted(ctx, p, true) && join_quoted(w, t, version, d->router)) {
		if (!same_addr(&w->outside.local, &t->key.local) && keeps_addresses(ctx, p))
			return DROP(NAT_UNSUPPORTED);
		translate_destination(d, &w->outside, &t->key);
		d->translation.is_error = true;
		d->translation.teller = t->key.local;
		return GO_ON;
	}
	if (is_loose(&t->l4))
		return untranslated_in(w, p, r, d->router);
	w->outside = t->key;
	c = join_from_leg(w, t);
	if (is_stuck(ctx, p, t, c))
		return DROP(NAT_UNSUPPORTED);
	judgement = c ? ask_again(c, version, d->router) : FORGOTTEN;
	if (judgement == REVOKED)
		return DROP(CONNECTION_INVALID);
	if (!c || judgement != STANDS) {
		t->key = w->outside;
		has_rule = find_nat_rule(nat_list(r, d->router), NAT_OUTSIDE);
		result = has_rule ? begin_from_leg(ctx, p, w, t, version) :
				    begin_untranslated(ctx, w, t, p, r, d->router, version);
		if (result != GO_ON)
			return result;
		c = t->other_begins ? await_from_leg(w, t) : NULL;
		if (!c && !t->has_begun)
			return has_rule ? DROP(NAT_EXHAUSTED) : GO_ON;
	}
	translate_destination(d, &w->outside, &t->key);
	if (!c)
		return GO_ON;
	d->once = once;
	rest_on_connection(&w->flow.near, ZONE_ROUTER | d->router, 0, true, true, version);
	return follow_translation(ctx, p, t, c, true);
}
