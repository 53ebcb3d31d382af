/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage nat: what a gateway translates between the overlay (inside) and the physical network (outside). Out by
 * the leg between route and leg_out, from it between parse and route. A translation is a connection of the
 * router, whose local end is the inside: conntrack keeps it. Map translations finds it from outside.
 *
 *          inside key                                 outside key
 *   | local: 198.18.1.10, port 5000 |  <--->  | local: 198.19.0.2, port 1024 |
 *   | peer:  198.19.9.7, port 80    |         | peer:  the same              |
 */
#pragma once

#include "nat_rewrite.h"
#include "nat_rules.h"

#define NAT_TRIES 32 /* outside ports that are looked at for one translation */

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
	bpf_map_delete_elem(&connections, inside);
	bpf_map_delete_elem(&translations, &t->other);
	return true;
}

/* A port of an address that others have too: its own if it is free with this peer. */
static __always_inline int share_address(struct scratch *w, struct tracking *t,
					 const struct packet *p)
{
	__u32 first = w->rule.port_min, count = w->rule.port_max - first + 1;
	__u32 start = ((__u64)p->flow_hash * count) >> 32;

	if (!(t->key.local_port | t->key.peer_port) || t->key.protocol == IPPROTO_SCTP)
		return DROP(NAT_UNSUPPORTED);
	w->to.port = t->key.local_port;
	set_outside_key(&t->other, &t->key, &w->to.addr, w->to.port);
	for (__u32 i = 0; i < NAT_TRIES; i++) {
		if (is_free_outside())
			return 0;
		t->other.local_port = bpf_htons(first + (start + i) % count);
		w->to.port = t->other.local_port;
	}
	return is_free_outside() ? 0 : DROP(NAT_EXHAUSTED);
}

/* SCTP's CRC is over its ports, and is not written anew. */
static __always_inline bool moves_sctp(const struct nat_rule *rule)
{
	return rule->kind == NAT_FORWARD && rule->protocol == IPPROTO_SCTP &&
	       rule->inside_port != rule->outside_port;
}

/* The outside end of a new connection, scratch.to. */
static __always_inline int choose_outside(struct scratch *w, struct tracking *t,
					  const struct packet *p)
{
	const struct nat_rule *rule = &w->rule;

	w->to.addr = rule->outside;
	if (rule->kind == NAT_SOURCE)
		return share_address(w, t, p);
	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	w->to.port = rule->kind == NAT_FORWARD ? bpf_htons(rule->outside_port) : t->key.local_port;
	set_outside_key(&t->other, &t->key, &w->to.addr, w->to.port);
	return is_free_outside() ? 0 : DROP(NAT_EXHAUSTED);
}

/*
 * Begins the translation of tracking.key; tracking.other is its outside key. It must be found from outside
 * before anybody can answer.
 */
static __always_inline int begin_translation(struct scratch *w, struct tracking *t, __u32 how)
{
	const struct settings *s = get_settings();
	long failed;
	int result;

	t->fresh.outside = t->other.local;
	t->fresh.outside_port = t->other.local_port;
	w->outside = t->other;
	failed = bpf_map_update_elem(&translations, &w->outside, &t->key, BPF_NOEXIST);
	if (failed || !s)
		return failed == -EEXIST ? DROP(NAT_EXHAUSTED) : DROP(CONNECTIONS_FULL);
	result = begin_connection(how, RULE_DEFAULT, s->rules_version);
	if (result < 0)
		bpf_map_delete_elem(&translations, &w->outside);
	return result < 0 ? result : 0;
}

/* Reads the packet into tracking, as one of the router's. */
static __always_inline int track(struct __sk_buff *ctx, const struct packet *p, struct tracking *t,
				 bool from_peer)
{
	t->now = coarse_now_ns();
	if (read_l4(ctx, p) < 0)
		return DROP(CONNECTION_INVALID);
	set_connection_key(&t->key, p, &t->l4, ZONE_ROUTER | p->router, 0, from_peer);
	return 0;
}

/* Out by the leg: the source becomes the outside one. The IP header is scratch.ip. 0 or a drop reason. */
__noinline int nat_out(struct __sk_buff *ctx, struct packet *p, const struct router *r)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	struct connection *c;
	int result;

	if (!p || !r || !t || !w)
		return DROP(NOT_CONFIGURED);
	result = track(ctx, p, t, false);
	if (result < 0)
		return result;
	if (t->l4.kind == L4_ERROR && read_quoted(ctx, p, false)) {
		c = see_connection(&t->other, t->now);
		if (c) {
			w->to.addr = c->outside;
			w->to.port = c->outside_port;
			return rewrite_error(ctx, w, p, &t->quoted, true);
		}
	}
	if (is_loose(&t->l4))
		return find_nat_rule(p, r, NAT_HIDES) ? DROP(NAT_UNSUPPORTED) : 0;
	c = conntrack_find(t, false);
	if (c) {
		w->to.addr = c->outside;
		w->to.port = c->outside_port;
		result = conntrack_follow(t, c, false);
	} else {
		if (!find_nat_rule(p, r, NAT_OUT))
			return 0;
		result = choose_outside(w, t, p);
		if (result >= 0)
			result = begin_translation(w, t, 0);
	}
	return result < 0 ? result : rewrite_packet(ctx, w, p, &t->l4, true);
}

/* What a rule says about a packet from outside: its inside end, scratch.to, and a new translation; or 0. */
static __always_inline int begin_from_leg(struct scratch *w, struct tracking *t)
{
	const struct nat_rule *rule = &w->rule;
	struct connection *c;

	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	w->to.addr = rule->inside;
	w->to.port = rule->kind == NAT_FORWARD ? bpf_htons(rule->inside_port) : t->key.local_port;
	w->outside = t->key;
	t->key.local = w->to.addr;
	t->key.local_port = w->to.port;
	c = find_connection(&t->key, t->now);
	if (c)
		return DROP(NAT_EXHAUSTED);
	t->other = w->outside;
	return begin_translation(w, t, BEGIN_FROM_PEER);
}

/* The end that a live translation gives to a packet from outside: 1; 0: there is none. */
static __always_inline int follow_from_leg(struct scratch *w, struct tracking *t)
{
	struct connection_key *inside = bpf_map_lookup_elem(&translations, &t->key);
	struct connection *c;
	int result;

	if (!inside)
		return 0;
	w->outside = t->key;
	t->key = *inside;
	c = conntrack_find(t, true);
	if (!c) {
		t->key = w->outside;
		return 0;
	}
	w->to.addr = t->key.local;
	w->to.port = t->key.local_port;
	result = conntrack_follow(t, c, true);
	return result < 0 ? result : 1;
}

/* The live translation that the quoted packet of an ICMP error was under: its inside end in scratch.to. */
static __always_inline bool find_quoted_inside(struct scratch *w, struct tracking *t)
{
	struct connection_key *inside = bpf_map_lookup_elem(&translations, &t->other);

	if (!inside || !see_connection(inside, t->now))
		return false;
	w->to.addr = inside->local;
	w->to.port = inside->local_port;
	return true;
}

/* From the leg: the destination becomes the inside one. 0 or a drop reason. */
__noinline int nat_in(struct __sk_buff *ctx, struct packet *p, const struct router *r)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	int result;

	if (!p || !r || !t || !w)
		return DROP(NOT_CONFIGURED);
	result = track(ctx, p, t, true);
	if (result < 0)
		return result;
	if (t->l4.kind == L4_ERROR && read_quoted(ctx, p, true) && find_quoted_inside(w, t)) {
		if (keep(ctx, w, p) < 0)
			return DROP(INNER_IP_HEADER);
		result = rewrite_error(ctx, w, p, &t->quoted, false);
		return result < 0 || store_headers(ctx, p, w->ip) == 0 ? result :
									 DROP(NAT_UNSUPPORTED);
	}
	if (is_loose(&t->l4))
		return 0;
	result = follow_from_leg(w, t);
	if (!result) {
		if (!find_nat_rule(p, r, NAT_IN))
			return 0;
		result = begin_from_leg(w, t);
	}
	if (result < 0)
		return result;
	if (keep(ctx, w, p) < 0)
		return DROP(INNER_IP_HEADER);
	result = rewrite_packet(ctx, w, p, &t->l4, false);
	return result < 0 || store_headers(ctx, p, w->ip) == 0 ? result : DROP(NAT_UNSUPPORTED);
}
