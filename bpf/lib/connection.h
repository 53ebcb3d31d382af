/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: what belongs together, of a port (stage/conntrack.h) or of a router that translates (stage/nat.h).
 * Their keys, their places in the ring, their time-outs; how they begin and are forgotten. What a packet does to its
 * connection is in tracking.h.
 *
 * Programs run on all CPUs at once and take no lock. Two that begin the same connection: one is first, the other finds
 * it there. A place of the ring is given out by adding to the hand, so to one CPU a round. The kernel gives the memory
 * of a forgotten entry to the next new one at once, and a CPU that found the entry before may still write a time or a
 * sequence number into the new one: worth less than a lock on every packet.
 */
#pragma once

#include <linux/errno.h>

#include "l4.h"

/* Fewer only in tests, which want to see the ring full. */
const volatile __u32 ring_places = MAX_CONNECTIONS;

#define RING_PROBES 16
#define NO_PLACE MAX_CONNECTIONS
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

/* What a translation is found by from outside: its outside end in place of the local one. */
INLINE void set_outside_key(struct connection_key *outside, const struct connection_key *key,
			    const struct addr *addr, __be16 port)
{
	*outside = *key;
	outside->local = *addr;
	outside->local_port = port;
}

/* With its translation, of a router's. */
INLINE void forget_connection(const struct connection_key *key, const struct connection *c)
{
	struct tracking *t = get_tracking();

	if (t && key->switch_id & ZONE_ROUTER) {
		set_outside_key(&t->other, key, &c->outside, c->outside_port);
		bpf_map_delete_elem(&translations, &t->other);
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

/* Whether a place of the ring can be had; its expired connection is forgotten for it. */
INLINE bool vacate(__u32 place, __u64 now)
{
	struct connection_key *key = bpf_map_lookup_elem(&connection_ring, &place);
	struct connection *c;

	if (!key)
		return false;
	if (!key->switch_id)
		return true;
	c = bpf_map_lookup_elem(&connections, key);
	if (!c || c->place != place) /* gone, or begun again elsewhere */
		return true;
	if (!is_expired(key, c, now))
		return false;
	forget_connection(key, c);
	return true;
}

INLINE __u32 take_place(__u64 now)
{
	__u32 zero = 0, *hand = bpf_map_lookup_elem(&ring_hand, &zero);

	if (!hand)
		return NO_PLACE;
	for (int i = 0; i < RING_PROBES; i++) {
		__u32 place = __sync_fetch_and_add(hand, 1) % ring_places;

		if (vacate(place, now))
			return place;
	}
	return NO_PLACE;
}

enum keeping {
	KEPT = 0,
	KEPT_ANOTHER = 1, /* there is one with its key; the place that it would have had stays free */
	KEPT_NONE = 2,    /* no place */
	KEPT_UNSAFE = 3,  /* the ring did not take the key, so the place is not its own */
};

/* Gives tracking.fresh a place and makes it the connection of tracking.key. */
INLINE int keep_connection(struct tracking *t)
{
	struct connection *c = &t->fresh;
	long failed;

	c->place = take_place(t->now);
	if (c->place >= MAX_CONNECTIONS)
		return KEPT_NONE;
	failed = bpf_map_update_elem(&connections, &t->key, c, BPF_NOEXIST);
	if (failed)
		return failed == -EEXIST ? KEPT_ANOTHER : KEPT_NONE;
	return bpf_map_update_elem(&connection_ring, &c->place, &t->key, BPF_ANY) ? KEPT_UNSAFE :
										    KEPT;
}

#define BEGIN_FROM_PEER CONNECTION_FROM_PEER
#define BEGIN_NOT_ADOPTED (1 << 7) /* TCP must begin with a SYN */

/* What the first packet makes of tracking.fresh: its flags, state and ends. */
INLINE enum verdict first_packet(struct tracking *tracking, __u32 how)
{
	const struct tcp_segment *t = &tracking->l4.tcp;
	struct connection *c = &tracking->fresh;
	__u8 kind = tracking->l4.kind;

	c->flags = how & BEGIN_FROM_PEER;
	c->state = CONNECTION_OPENING;
	c->local = c->peer = (struct tcp_end){};
	if (kind == L4_REPLY)
		return DROP(CONNECTION_INVALID);
	if (kind != L4_TCP)
		return GO_ON;
	if ((t->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_ACK && !(how & BEGIN_NOT_ADOPTED))
		c->flags |= CONNECTION_ADOPTED;
	else if ((t->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return DROP(CONNECTION_INVALID);
	if (tracking->l4.part) /* nobody sees how long the datagram is */
		c->flags |= CONNECTION_ADOPTED;
	if (t->flags & TCP_FIN)
		c->state = CONNECTION_CLOSING;
	if (how & BEGIN_FROM_PEER)
		tcp_change(&c->peer, &c->local, t);
	else
		tcp_change(&c->local, &c->peer, t);
	return GO_ON;
}

/*
 * Begins the connection of tracking.key with the packet of tracking.l4; tracking.fresh has its outside address and
 * port. What has none to belong to passes without one. DROP(CONNECTION_INVALID) or DROP(CONNECTIONS_FULL). Global, so
 * that the verifier checks it once.
 */
__noinline enum verdict begin_connection(__u32 how, __u32 rule, __u32 version)
{
	struct tracking *t = get_tracking();
	enum verdict result;
	struct connection *c;

	if (!t)
		return DROP(CONNECTIONS_FULL);
	c = &t->fresh;
	if (is_loose(&t->l4) || t->l4.part == LATER_FRAGMENT)
		return GO_ON;
	result = first_packet(t, how);
	if (result != GO_ON)
		return result;
	c->begun = c->seen = t->now;
	c->rule = rule;
	c->version = version;
	return keep_connection(t) == KEPT_NONE ? DROP(CONNECTIONS_FULL) : GO_ON;
}

/*
 * A connection of a port that moved here, in the bytes of a test run (crates/ebpf/src/connections.rs): behind an
 * Ethernet header the key and the connection. One that is here already stays. enum keeping, or -1.
 */
INLINE int take_over_connection(struct __sk_buff *ctx)
{
	struct tracking *t = get_tracking();

	if (!t || bpf_skb_load_bytes(ctx, ETH_HLEN, &t->key, sizeof(t->key)) < 0 ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(t->key), &t->fresh, sizeof(t->fresh)) < 0)
		return -1;
	t->now = coarse_now_ns();
	return find_connection(&t->key, t->now) ? KEPT_ANOTHER : keep_connection(t);
}
