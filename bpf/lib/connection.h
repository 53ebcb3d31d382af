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

/* Seconds that a connection lives without a packet. */
INLINE __u32 time_out(const struct connection_key *key, __u8 state)
{
	bool is_tcp = key->protocol == IPPROTO_TCP && (key->local_port | key->peer_port);

	switch (state) {
	case CONNECTION_ESTABLISHED:
		if (is_tcp)
			return 432000;
		return is_icmp(key->protocol, key->family == 4) ? 60 : 180;
	case CONNECTION_CLOSING:
		return 120;
	case CONNECTION_CLOSED:
		return 10;
	}
	return 30;
}

INLINE bool is_expired(const struct connection_key *key, const struct connection *c, __u64 now)
{
	__u64 seen = c->seen;

	/* Another CPU, whose clock was read later, may have written it. */
	return now > seen && now - seen > time_out(key, c->state) * SECOND;
}

/* With its translation, of a router's. */
INLINE void forget_connection(const struct connection_key *key, const struct connection *c)
{
	struct tracking *t = get_tracking();

	if (t && key->switch_id & ZONE_ROUTER) {
		set_outside_key(&t->other, key, &c->outside, c->outside_port);
		bpf_map_delete_elem(&connections, key);
		forget_translation(&t->other, key);
		return;
	}
	bpf_map_delete_elem(&connections, key);
}

/* The live connection with this key. */
INLINE struct connection *see_connection(const struct connection_key *key, __u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	return c && !is_expired(key, c, now) ? c : NULL;
}

/* The same; one that is too old is forgotten. */
INLINE struct connection *find_connection(const struct connection_key *key, __u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	if (c && is_expired(key, c, now)) {
		forget_connection(key, c);
		return NULL;
	}
	return c;
}
