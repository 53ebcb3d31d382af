/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection begins: with a packet that the rules, or a rule of nat, let begin one. How one comes from elsewhere is
 * in take.h.
 */
#pragma once

#include <linux/errno.h>

#include "places.h"
#include "tracking.h"

enum keeping {
	KEPT = 0,
	KEPT_ANOTHER = 1, /* there is one with its key; the place that it would have had stays free */
	KEPT_NONE = 2,    /* no place */
};

/* Gives tracking.fresh a place, its own where it is to stay there, and makes it the connection of tracking.key. */
INLINE int keep_connection(struct tracking *t, bool in_place)
{
	struct connection *c = &t->fresh;
	struct connection_place *place = take_place(t, in_place);
	long failed;

	if (!place)
		return KEPT_NONE;
	c->place = t->search.place;
	failed = bpf_map_update_elem(&connections, &t->key, c, BPF_NOEXIST);
	if (!failed)
		place->key = t->key;
	release(place);
	if (failed)
		return failed == -EEXIST ? KEPT_ANOTHER : KEPT_NONE;
	return KEPT;
}

#define BEGIN_FROM_PEER CONNECTION_FROM_PEER
#define BEGIN_NOT_ADOPTED (1 << 7) /* TCP must begin with a SYN */

/* TCP of a connection that is older than the firewall. */
INLINE bool is_adoptable(const struct tcp_segment *t)
{
	return (t->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_ACK;
}

/* Whether a connection can begin with a packet that is not loose. */
INLINE bool can_begin(const struct l4 *l4, __u32 how)
{
	if (l4->kind != L4_TCP)
		return l4->kind != L4_REPLY;
	return opens(&l4->tcp) || (is_adoptable(&l4->tcp) && !(how & BEGIN_NOT_ADOPTED));
}

/* What the first packet makes of tracking.fresh: its flags, state and ends. */
INLINE enum verdict first_packet(struct tracking *tracking, __u32 how)
{
	const struct tcp_segment *t = &tracking->l4.tcp;
	struct connection *c = &tracking->fresh;

	c->flags = how & BEGIN_FROM_PEER ? CONNECTION_FROM_PEER | CONNECTION_MADE_BY_PEER : 0;
	c->state = CONNECTION_OPENING;
	c->again = (struct syn_seen){};
	c->local = c->peer = (struct tcp_end){};
	if (!can_begin(&tracking->l4, how))
		return DROP(CONNECTION_INVALID);
	if (tracking->l4.kind != L4_TCP)
		return GO_ON;
	/* Nobody sees how long a datagram in fragments is. */
	if (is_adoptable(t) || tracking->l4.part)
		c->flags |= CONNECTION_ADOPTED;
	if (how & BEGIN_FROM_PEER)
		tcp_change(&c->peer, &c->local, t, false);
	else
		tcp_change(&c->local, &c->peer, t, false);
	return GO_ON;
}

/* Not what has none to belong to. The caller asks is_sound() about what may. */
INLINE bool may_begin(const struct l4 *l4)
{
	return !is_loose(l4) && l4->part != LATER_FRAGMENT;
}

/*
 * Begins the connection of tracking.key with the packet of tracking.l4; tracking.fresh has its outside address and
 * port. What has none to belong to passes without one; a SYN into one that is there is remembered in it.
 * DROP(CONNECTION_INVALID) or DROP(CONNECTIONS_FULL). Global, so that the verifier checks it once.
 */
__noinline enum verdict begin_connection(__u32 how, __u32 rule, __u32 version)
{
	struct tracking *t = get_tracking();
	enum verdict result;
	struct connection *c;
	int kept;

	if (!t)
		return DROP(CONNECTIONS_FULL);
	if (!may_begin(&t->l4))
		return GO_ON;
	c = t->may_be_there && is_syn(&t->l4) ? see_connection(&t->key, t->now) : NULL;
	if (c) {
		remember_syn(c, t, how & BEGIN_FROM_PEER);
		return GO_ON;
	}
	c = &t->fresh;
	result = first_packet(t, how);
	if (result != GO_ON)
		return result;
	c->begun = t->now;
	keep_alive(t, c);
	c->rule = rule;
	c->version = version;
	kept = keep_connection(t, false);
	t->has_begun = kept == KEPT;
	return kept == KEPT_NONE ? DROP(CONNECTIONS_FULL) : GO_ON;
}
