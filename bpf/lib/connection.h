/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: what belongs together, of a port (stage/conntrack.h) or of a router that translates (stage/nat.h).
 * Their keys and time-outs; how they are found and forgotten. How they begin is in begin.h, where they are in places.h,
 * and what a packet does to its connection in tracking.h.
 *
 * Programs run on all CPUs at once and take no lock. Two that begin the same connection: one is first, the other finds
 * it there. The kernel gives the memory of a forgotten entry to the next new one at once, and a CPU that found the entry
 * before may still write a time, a sequence number or a rule into the new one: worth less than a lock on every packet.
 */
#pragma once

#include "translations.h"

#define PEER_ASKS 256 /* in the peer port of an ICMP connection, beside the type */

INLINE void set_connection_ports(struct connection_key *key, const struct l4 *l4, bool from_peer)
{
	if (l4->kind == L4_REQUEST || l4->kind == L4_REPLY) {
		bool peer_asks = (l4->kind == L4_REQUEST) == from_peer;

		key->local_port = l4->id;
		key->peer_port = bpf_htons(l4->request + (peer_asks ? PEER_ASKS : 0));
	} else if (l4->has_type) { /* belongs to none; for the log */
		key->local_port = 0;
		key->peer_port = bpf_htons(l4->type);
	} else {
		key->local_port = from_peer ? l4->dest : l4->source;
		key->peer_port = from_peer ? l4->source : l4->dest;
	}
}

/* The key of a packet in a zone: a port (switch and key), or ZONE_ROUTER | router and 0. */
INLINE void set_connection_key(struct connection_key *key, const struct packet *p,
			       const struct l4 *l4, __u32 zone, __u16 port, bool from_peer)
{
	key->switch_id = zone;
	key->key = port;
	key->protocol = l4->protocol;
	key->family = p->eth.h_proto == ETHERTYPE_IPV4 ? 4 : 6;
	key->local = from_peer ? p->flow.dest : p->flow.source;
	key->peer = from_peer ? p->flow.source : p->flow.dest;
	set_connection_ports(key, l4, from_peer);
}

INLINE __u32 tcp_life(const struct timeouts *t, __u8 state)
{
	switch (state) {
	case CONNECTION_OPENING:
		return t->tcp_opening;
	case CONNECTION_ESTABLISHED:
		return t->tcp_established;
	case CONNECTION_CLOSING:
		return t->tcp_closing;
	}
	return t->tcp_closed;
}

INLINE __u32 life_by(const struct timeouts *t, const struct connection_key *key, __u8 state)
{
	bool unanswered = state == CONNECTION_OPENING;

	if (key->protocol == IPPROTO_TCP && (key->local_port | key->peer_port))
		return tcp_life(t, state);
	if (is_icmp(key->protocol, key->family == 4))
		return t->icmp;
	if (key->protocol == IPPROTO_UDP)
		return unanswered ? t->udp_unanswered : t->udp;
	return unanswered ? t->other_unanswered : t->other;
}

/*
 * Seconds that a connection in this state lives without a packet, as its switch or router says now; 0: that is gone.
 * Global, so that the verifier checks it once.
 */
__noinline __u32 life_of(const struct connection_key *key, __u32 state)
{
	struct lswitch *s;
	struct router *r;
	__u32 id;

	if (!key)
		return 0;
	id = key->switch_id & ~ZONE_ROUTER;
	if (key->switch_id & ZONE_ROUTER) {
		r = bpf_map_lookup_elem(&routers, &id);
		return r ? life_by(&r->timeouts, key, state) : 0;
	}
	s = bpf_map_lookup_elem(&switches, &id);
	return s ? life_by(&s->timeouts, key, state) : 0;
}

/* Nothing comes any more that matters: a reset, or a FIN of both ends. */
INLINE bool is_over(const struct connection *c)
{
	return c->state == CONNECTION_CLOSED ||
	       (tcp_end_closed(&c->local) && tcp_end_closed(&c->peer));
}

/* A packet of tracking.key passed: so long does its connection live now without another. */
INLINE void keep_alive(const struct tracking *t, struct connection *c)
{
	c->seen = t->now;
	c->life = life_of(&t->key, c->state);
}

INLINE bool is_expired(const struct connection *c, __u64 now)
{
	__u64 seen = c->seen;

	/* Another CPU, whose clock was read later, may have written it. */
	return now > seen && now - seen > c->life * SECOND;
}

/* With its translation, of a router's. Global, for the stack's sake. */
__noinline int forget_connection(const struct connection_key *key, const struct connection *c)
{
	struct tracking *t = get_tracking();

	if (!key || !c || !t)
		return false;
	if (!(key->switch_id & ZONE_ROUTER))
		return bpf_map_delete_elem(&connections, key) == 0;
	outside_key_of(&t->other, key, c);
	bpf_map_delete_elem(&connections, key);
	forget_translation(&t->other);
	return true;
}

/* The live connection with this key. */
INLINE struct connection *see_connection(const struct connection_key *key, __u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	return c && !is_expired(c, now) ? c : NULL;
}

/* The same; one that is too old is forgotten. */
INLINE struct connection *find_connection(const struct connection_key *key, __u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	if (c && is_expired(c, now)) {
		forget_connection(key, c);
		return NULL;
	}
	return c;
}

/*
 * What user space forgets of a router, in the bytes of a test run (crates/ebpf/src/connections.rs): behind an Ethernet
 * header the key of a connection, and an outside key whose entry goes unless its connection is there; zeros: none.
 * Whether the connection was there, or -1.
 */
INLINE int forget_as_asked(struct __sk_buff *ctx)
{
	struct tracking *t = get_tracking();
	struct connection *c;

	if (!t || bpf_skb_load_bytes(ctx, ETH_HLEN, &t->key, sizeof(t->key)) < 0 ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(t->key), &t->entry.inside,
			       sizeof(t->entry.inside)) < 0)
		return -1;
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (c)
		forget_connection(&t->key, c);
	forget_translation(&t->entry.inside);
	return !!c;
}
