/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage flow: a packet of a flow that was decided a moment ago gets the same destination by one look-up, instead of all
 * other look-up stages (lib/flows.h). What each packet decides anew is asked here: its TTL, its length, and the connections
 * that let it, whose states it changes. In doubt it goes through the stages as if nothing was kept.
 *
 *   know()     looks up the flow and its connections; nothing has happened yet
 *   follow()   the packet goes on with its connections, the destination is filled in. From a leg nat is between both.
 */
#pragma once

#include "lib/counters.h"
#include "lib/flows.h"
#include "lib/outer.h"
#include "lib/tracking.h"

/* What know() found. */
struct known {
	struct kept_flow *kept; /* NULL: the stages decide */
	struct connection *near, *far;
};

/* TCP or UDP, of which nothing is hidden. */
INLINE bool may_be_kept(const struct packet *p)
{
	return is_plain_l4(p) && p->flow.source_port | p->flow.dest_port;
}

/* o: the outer headers that it came in; NULL: it came from a port. entrance: their VNI; the port's device. */
INLINE void set_flow_key(struct flow_key *key, const struct packet *p, const struct outer_view *o,
			 __u32 entrance)
{
	key->remote = o ? o->source : (struct addr){};
	key->entrance = entrance;
	key->source_key = o ? o->source_key : 0;
	key->dest_key = o ? o->dest_key : 0;
	key->eth = p->eth;
	key->from_underlay = !!o;
	key->flow = p->flow;
}

/* The key that conntrack and nat give a plain packet. */
INLINE void set_plain_key(struct connection_key *key, const struct packet *p,
			  const struct flow_connection *by)
{
	const struct l4 plain = { .protocol = p->protocol,
				  .source = p->flow.source_port,
				  .dest = p->flow.dest_port };

	set_connection_key(key, p, &plain, by->zone, by->key, by->from_peer);
}

/* The connection that lets the packet, if it is there and the rules are those that it was let by. */
INLINE struct connection *find_admitting(const struct settings *s, const struct packet *p,
					 const struct flow_connection *by, struct connection_key *key,
					 __u64 now)
{
	struct connection *c;

	set_plain_key(key, p, by);
	c = see_connection(key, now);
	if (!c)
		return NULL;
	if (by->translates)
		return c->version == by->holder && !(c->flags & CONNECTION_REVOKED) ? c : NULL;
	return c->owner == by->holder && c->version == s->rules_version ? c : NULL;
}

/* The same of a translation from the leg: the packet has the outside key, scratch.outside, and tracking.key is the inside one. */
INLINE struct connection *find_translation(struct scratch *w, struct tracking *t,
					   const struct packet *p, const struct flow_connection *by)
{
	struct translation_entry *entry;
	struct connection *c;

	set_plain_key(&w->outside, p, by);
	entry = bpf_map_lookup_elem(&translations, &w->outside);
	if (!entry)
		return NULL;
	t->key = entry->inside; /* it may become another's meanwhile */
	c = see_connection(&t->key, t->now);
	if (!c || !is_its_outside(&t->key, c, &w->outside))
		return NULL;
	return c->version == by->holder && !(c->flags & CONNECTION_REVOKED) ? c : NULL;
}

/* A SYN may ask for another connection. */
INLINE bool has_syn(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 flags = TCP_SYN;

	return p->protocol == IPPROTO_TCP &&
	       (load_bytes(ctx, p->offset + p->l4_offset + 13, &flags, sizeof(flags)) < 0 ||
		flags & TCP_SYN);
}

/*
 * Routers forward it: its header is right, and it does not end with the last of them, nor with one that another host is to
 * be for it. Reads it into scratch.ip.
 */
INLINE bool can_be_routed(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			  const struct destination *d)
{
	__u32 at = p->offset + ETH_HLEN, hops = d->routed + d->for_router;

	if (!d->router)
		return true;
	if (!has_ipv4(p))
		return load_bytes(ctx, at, w->ip, sizeof(struct ipv6hdr)) == 0 &&
		       w->ip[IPV6_HOP_LIMIT] > hops;
	return load_bytes(ctx, at, w->ip, sizeof(struct iphdr)) == 0 &&
	       csum_ipv4_header(w->ip) == 0xffff && w->ip[IPV4_TTL] > hops;
}

/* The flow of scratch.flow.key, parsed by whoever asks; no bytes have changed yet. */
INLINE struct known know(struct __sk_buff *ctx, const struct settings *s, struct scratch *w,
			 const struct packet *p)
{
	struct tracking *t = get_tracking();
	const struct destination *d;
	struct kept_flow *kept;
	struct known known = {};

	kept = find_flow(s, &w->flow);
	if (!kept || !t)
		return known;
	d = (const struct destination *)kept->destination;
	if (kept->side && kept->side_epoch != epoch_of(kept->side))
		return known;
	if (kept->until && coarse_now_ns() >= kept->until)
		return known;
	if (p->segment_len - ETH_HLEN > kept->longest || !can_be_routed(ctx, w, p, d))
		return known;
	if (kept->near.zone | kept->far.zone) {
		if (has_syn(ctx, p))
			return known;
		t->now = coarse_now_ns();
	}
	if (kept->near.zone) {
		known.near = kept->near.translates ?
				     find_translation(w, t, p, &kept->near) :
				     find_admitting(s, p, &kept->near, &t->key, t->now);
		if (!known.near)
			return known;
	}
	if (kept->far.zone) {
		known.far = find_admitting(s, p, &kept->far, &t->other, t->now);
		if (!known.far)
			return known;
	}
	known.kept = kept;
	return known;
}

/* The packet belongs where the last one of its flow did. */
INLINE void enter_known(struct packet *p, struct destination *d, const struct kept_flow *kept)
{
	enter_switch(p, d, kept->switch_id, kept->source_key);
	p->source_counters = kept->source_counters;
	p->sender_counters = kept->sender_counters;
	p->flow_hash = kept->flow_hash;
	p->claims_key = kept->claims_key;
	p->is_known = true;
}

/* Of tracking.l4, which belongs to tracking.key. */
INLINE enum verdict go_on_with(struct __sk_buff *ctx, const struct packet *p, struct connection *c,
			       const struct flow_connection *by)
{
	enum verdict result = follow_connection(ctx, p, c, by->from_peer);

	if (result == GO_ON && !by->translates)
		count_rule(p, c->rule);
	return result;
}

/* A plain frame goes on with the connection of the place that it came from, */
INLINE enum verdict follow_near(struct __sk_buff *ctx, const struct packet *p,
				const struct known *known)
{
	enum verdict result;

	if (!known->near)
		return GO_ON;
	result = read_l4(ctx, p);
	return result == GO_ON ? go_on_with(ctx, p, known->near, &known->kept->near) : result;
}

/* gets its destination, and goes on with the connection of the place that it goes to. */
INLINE enum verdict follow_far(struct __sk_buff *ctx, const struct packet *p, struct destination *d,
			       const struct known *known)
{
	const struct kept_flow *kept = known->kept;
	struct tracking *t = get_tracking();
	enum verdict result = GO_ON;

	if (!t)
		return DROP(NOT_CONFIGURED);
	copy_words(d, kept->destination, KEPT_DESTINATION);
	if (!known->far)
		return GO_ON;
	if (!known->near)
		result = read_l4(ctx, p);
	if (result != GO_ON)
		return result;
	t->key = t->other;
	if (kept->far.translates)
		translate_source(d, &t->key, known->far);
	return go_on_with(ctx, p, known->far, &kept->far);
}

INLINE enum verdict follow(struct __sk_buff *ctx, const struct packet *p, struct destination *d,
			   const struct known *known)
{
	enum verdict result = follow_near(ctx, p, known);

	return result == GO_ON ? follow_far(ctx, p, d, known) : result;
}
