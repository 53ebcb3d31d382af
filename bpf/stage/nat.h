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
#include "lib/hiding.h"
#include "lib/next_hop.h"
#include "lib/quoted.h"
#include "lib/tracking.h"

#define NAT_TRIES                                                                                    \
	72 /* outside ports that are looked at: nine of ten taken, one translation in 2000 finds none free */

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
 * The first rule of a list that is for tracking.key, in scratch.rule: three look-ups, whatever the list has. side:
 * which end of the rule the local one is. An ICMP message that begins nothing finds what hides its sender. Global: it
 * has a stack of its own.
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
		keep_first(&key.number, find_hiding(list, t->key.family, &t->key.local));
	if (t->l4.source | t->l4.dest)
		keep_first(&key.number, find_end(list, side, &t->key, true));
	rule = bpf_map_lookup_elem(&nat_rules, &key);
	if (!rule)
		return false;
	w->rule = *rule;
	return true;
}

/* Whether the connection that an entry of tracking.other names lives there; its key is in search.holder. */
INLINE bool is_in_use(struct tracking *t, const struct translation_entry *entry)
{
	struct connection *c;

	t->search.holder = entry->inside;
	c = see_connection(&t->search.holder, t->now);
	return c && is_outside(c, &t->other);
}

/* An entry of tracking.other that was left behind becomes that of tracking.key. What has expired is forgotten. */
INLINE enum verdict take_over(struct tracking *t, struct translation_entry *entry)
{
	struct connection *c;

	if (is_in_use(t, entry))
		return DROP(NAT_EXHAUSTED);
	entry = claim_translation(&t->other);
	if (!entry)
		return DROP(NAT_EXHAUSTED);
	if (is_in_use(t, entry)) {
		unclaim(entry);
		return DROP(NAT_EXHAUSTED);
	}
	c = bpf_map_lookup_elem(&connections, &t->search.holder);
	if (c && is_outside(c, &t->other))
		bpf_map_delete_elem(&connections, &t->search.holder);
	entry->inside = t->key;
	return GO_ON;
}

/*
 * Makes tracking.other the outside key of tracking.key: claimed, so the caller begins the connection and releases it,
 * or takes it away. DROP(NAT_EXHAUSTED): another connection has it. Global: it is asked in a loop.
 */
__noinline enum verdict publish(void)
{
	struct tracking *t = get_tracking();
	struct translation_entry *entry;
	long failed;

	if (!t)
		return DROP(NOT_CONFIGURED);
	entry = bpf_map_lookup_elem(&translations, &t->other);
	if (entry)
		return take_over(t, entry);
	t->entry.inside = t->key;
	t->entry.claim = 1;
	failed = bpf_map_update_elem(&translations, &t->other, &t->entry, BPF_NOEXIST);
	if (!failed)
		return GO_ON;
	return failed == -EEXIST ? DROP(NAT_EXHAUSTED) : DROP(CONNECTIONS_FULL);
}

/* The same for a source rule, which takes no port that is forwarded. Global, likewise. */
__noinline enum verdict publish_shared(__u32 list)
{
	struct tracking *t = get_tracking();

	if (!t || find_end(list, NAT_OUTSIDE, &t->other, true))
		return DROP(NAT_EXHAUSTED);
	return publish();
}

/* The port of a try, of so many from `first` on: where there are few, one after the other. */
INLINE __u32 port_of_try(__u32 attempt, __u32 hash, __u32 first, __u32 count)
{
	bool each = count <= NAT_TRIES;
	__u32 mixed = mix_hash(each ? hash : hash + attempt * 0x9e3779b9);
	__u32 number = ((__u64)mixed * count) >> 32;

	return first + (each ? (number + attempt) % count : number);
}

/* Nothing tells two flows of a peer apart, or nobody may write what does: SCTP's CRC is over its ports. */
INLINE bool keeps_port(const struct connection_key *key)
{
	return !(key->local_port | key->peer_port) || key->protocol == IPPROTO_SCTP;
}

/* Its ports cannot be seen: it is in a fragment, or behind what parse does not read. */
INLINE bool hides_ports(const struct packet *p, const struct connection_key *key)
{
	return !(key->local_port | key->peer_port) &&
	       (p->fragment || is_hidden(p) || has_ports(p->protocol));
}

/* A port of an address that others have too: its own if it is free with this peer. */
INLINE enum verdict share_address(struct scratch *w, struct tracking *t, const struct packet *p,
				  __u32 list)
{
	__u32 first = w->rule.port_min, count = w->rule.port_max - first + 1;
	const struct settings *s = get_settings();
	__u32 hash = p->flow_hash ^ (s ? s->secret : 0);
	enum verdict result;

	if (hides_ports(p, &t->key))
		return DROP(NAT_UNSUPPORTED);
	set_outside_key(&t->other, &t->key, &w->rule.outside, t->key.local_port);
	result = publish_shared(list);
	if (keeps_port(&t->key))
		return result;
	for (__u32 i = 0; i < NAT_TRIES && i < count && result == DROP(NAT_EXHAUSTED); i++) {
		t->other.local_port = bpf_htons(port_of_try(i, hash, first, count));
		result = publish_shared(list);
	}
	return result;
}

/* SCTP's CRC is over its ports, and is not written anew. */
INLINE bool moves_sctp(const struct nat_rule *rule)
{
	return rule->kind == NAT_FORWARD && rule->protocol == IPPROTO_SCTP &&
	       rule->inside_port != rule->outside_port;
}

/* Publishes the outside key that the rule gives a new connection, tracking.other. */
INLINE enum verdict publish_by_rule(struct scratch *w, struct tracking *t, const struct packet *p,
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
	return publish();
}

/*
 * Begins the connection of tracking.key; its outside key, tracking.other, is published. DROP(NAT_EXHAUSTED): another
 * CPU has begun it meanwhile, with another outside end, which stands. Global, for the stack's sake.
 */
__noinline enum verdict begin_translation(__u32 how, __u32 version)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;

	if (!t || !w)
		return DROP(NOT_CONFIGURED);
	t->fresh.owner = 0;
	t->fresh.outside = t->other.local;
	t->fresh.outside_port = t->other.local_port;
	w->outside = t->other;
	result = begin_connection(how, RULE_DEFAULT, version);
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (result == GO_ON && c && is_outside(c, &w->outside)) {
		release_translation(&w->outside);
		return GO_ON;
	}
	bpf_map_delete_elem(&translations, &w->outside);
	return result == GO_ON ? DROP(NAT_EXHAUSTED) : result;
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

/* Out by the leg. What was opened untranslated has the same end on both sides. */
INLINE void translate_source(struct destination *d, const struct connection_key *inside,
			     const struct connection *c)
{
	if (!is_outside(c, inside))
		translate(d, TRANSLATE_SOURCE, &c->outside, c->outside_port);
}

/* From the leg, likewise. */
INLINE void translate_destination(struct destination *d, const struct connection_key *outside,
				  const struct connection_key *inside)
{
	if (!same_addr(&inside->local, &outside->local) || inside->local_port != outside->local_port)
		translate(d, TRANSLATE_DESTINATION, &inside->local, inside->local_port);
}

/* No rule is for the packet. */
INLINE enum verdict untranslated(const struct router *r)
{
	return r->flags & ROUTER_NAT_ALL ? DROP(NAT_NO_RULE) : GO_ON;
}

/* The route of what is for the router itself, which nothing translates; NULL: it is not. */
INLINE struct route *find_own_route(struct scratch *w, const struct packet *p, __u32 router)
{
	struct route *to = find_route(w, p, router, &p->flow.dest);

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
				       const struct packet *p, const struct router *r, __u32 router)
{
	struct route *own = find_own_route(w, p, router);

	if (own)
		return own->is_outside && is_syn(&t->l4) ? DROP(NAT_NO_RULE) : GO_ON;
	if (r->flags & ROUTER_NAT_ALL)
		return DROP(NAT_NO_RULE);
	if (p->fragment || is_hidden(p) || find_connection(&t->key, t->now) || !is_sound(ctx, p))
		return GO_ON;
	t->other = t->key;
	if (publish() == GO_ON)
		begin_translation(BEGIN_FROM_PEER, r->nat_version);
	return GO_ON;
}

/* Whether the rules of now make the same of a translation as those that it was begun by. */
INLINE bool still_fits(struct scratch *w, struct tracking *t, const struct connection *c,
		       const struct router *r, __u32 list)
{
	const struct nat_rule *rule = &w->rule;
	__be16 port = c->outside_port;
	bool found;

	if (is_outside(c, &t->key))
		return !(r->flags & ROUTER_NAT_ALL);
	if (c->flags & CONNECTION_FROM_PEER) {
		t->other = t->key;
		set_outside_key(&t->key, &t->other, &c->outside, port);
		found = find_nat_rule(list, NAT_OUTSIDE);
		t->key = t->other;
		if (rule->kind == NAT_FORWARD)
			port = bpf_htons(rule->inside_port);
		if (found)
			return same_addr(&rule->inside, &t->key.local) && port == t->key.local_port;
		port = c->outside_port; /* a SYN from outside may have begun anew what began inside */
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
	/* Else the next packet of a busy TCP connection would be adopted, and have the same end again. */
	if (t->l4.kind == L4_TCP && !is_syn(&t->l4)) {
		pick_up(c);
		c->flags |= CONNECTION_REVOKED;
		return REVOKED;
	}
	forget_connection(&t->key, c);
	return FORGOTTEN;
}

/* Of the live translation of tracking.key: STANDS where the rules are still those that it was begun by. */
INLINE int ask_again(const struct connection *c, __u32 version, __u32 router)
{
	return c->version == version ? STANDS : judge_translation(router);
}

/*
 * An ICMP error out by the leg, about a packet of translation c. Of the guest that the packet was for, its end outside
 * stands for it; a router on the way has an address of its own there, or the gateway's (RFC 5508 REQ-5).
 */
INLINE enum verdict translate_error_out(const struct tracking *t, const struct packet *p,
					struct destination *d, const struct connection *c)
{
	const struct router *r;

	if (is_outside(c, &t->other)) /* opened untranslated */
		return GO_ON;
	translate(d, TRANSLATE_SOURCE, &c->outside, c->outside_port);
	d->translation.is_error = true;
	d->translation.teller = c->outside;
	if (same_addr(&p->flow.source, &t->other.local))
		return GO_ON;
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
	if (t->l4.kind == L4_ERROR && read_quoted(ctx, p, false)) {
		c = see_connection(&t->other, t->now);
		if (c)
			return translate_error_out(t, p, d, c);
	}
	c = is_loose(&t->l4) ? NULL : find_connection(&t->key, t->now);
	judgement = c ? ask_again(c, d->nat_version, d->router) : FORGOTTEN;
	if (judgement == REVOKED)
		return DROP(CONNECTION_INVALID);
	if (c && judgement == STANDS) {
		translate_source(d, &t->key, c);
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
	if (!is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	result = publish_by_rule(w, t, p, list);
	if (result == GO_ON)
		result = begin_translation(0, r->nat_version);
	if (result != GO_ON && result != DROP(NAT_EXHAUSTED))
		return result;
	c = see_connection(&t->key, t->now); /* it may be another CPU's */
	if (!c)
		return DROP(NAT_EXHAUSTED);
	translate_source(d, &t->key, c);
	return GO_ON;
}

/* What a rule says about a packet from outside: its inside end, in tracking.key, and a new translation. */
INLINE enum verdict begin_from_leg(struct __sk_buff *ctx, const struct packet *p, struct scratch *w,
				   struct tracking *t, __u32 version)
{
	const struct nat_rule *rule = &w->rule;
	enum verdict result;
	struct connection *c;

	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	w->outside = t->key;
	t->key.local = rule->inside;
	if (rule->kind == NAT_FORWARD)
		t->key.local_port = bpf_htons(rule->inside_port);
	if (!is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	if (!find_connection(&t->key, t->now)) {
		t->other = w->outside;
		result = publish();
		if (result == GO_ON)
			result = begin_translation(BEGIN_FROM_PEER, version);
		if (result != DROP(NAT_EXHAUSTED))
			return result;
	}
	c = see_connection(&t->key, t->now); /* another CPU may have begun it meanwhile */
	return c && is_outside(c, &w->outside) ? GO_ON : DROP(NAT_EXHAUSTED);
}

/* The live translation of a packet from outside, tracking.key then; NULL: there is none. */
INLINE struct connection *join_from_leg(struct scratch *w, struct tracking *t)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, &t->key);
	struct connection *c;

	if (!entry)
		return NULL;
	w->outside = t->key;
	t->key = entry->inside; /* half written, it is the key of none that has this outside end */
	c = find_connection(&t->key, t->now);
	if (c && is_outside(c, &w->outside))
		return c;
	t->key = w->outside;
	return NULL;
}

/* The inside key of the live translation that the quoted packet of an ICMP error was under; NULL: none. */
INLINE struct connection_key *find_quoted_inside(struct tracking *t)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, &t->other);

	return entry && is_in_use(t, entry) ? &t->search.holder : NULL;
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
	int judgement;

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
			translate_destination(d, &t->other, inside);
			d->translation.teller = inside->local;
			return GO_ON;
		}
	}
	if (is_loose(&t->l4))
		return untranslated_in(w, p, r, d->router);
	c = join_from_leg(w, t);
	judgement = c ? ask_again(c, r->nat_version, d->router) : FORGOTTEN;
	if (judgement == REVOKED)
		return DROP(CONNECTION_INVALID);
	if (c && judgement == STANDS) {
		translate_destination(d, &w->outside, &t->key);
		return follow_translation(ctx, p, t, c, true);
	}
	if (c) /* forgotten */
		t->key = w->outside;
	if (!find_nat_rule(nat_list(r, d->router), NAT_OUTSIDE))
		return begin_untranslated(ctx, w, t, p, r, d->router);
	result = begin_from_leg(ctx, p, w, t, r->nat_version);
	translate_destination(d, &w->outside, &t->key);
	return result;
}
