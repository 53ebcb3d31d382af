/* SPDX-License-Identifier: Apache-2.0 */
/* What a packet has to do with connections: the one it belongs to, and what it does to that. For conntrack and nat. */
#pragma once

#include "connection.h"
#include "sound.h"

INLINE bool is_syn(const struct l4 *l4)
{
	return l4->kind == L4_TCP && opens(&l4->tcp);
}

/* A SYN that asks for a connection of its own, and is no half of a simultaneous open (RFC 9293 section 3.5). */
INLINE bool asks_for_another(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	const struct tcp_end *s = from_peer ? &c->peer : &c->local;
	const struct tcp_end *r = from_peer ? &c->local : &c->peer;

	return is_syn(l4) && !tcp_look(c, s, r).awaits;
}

/*
 * A SYN passed that asks for another connection with the same ends: the other end decides. One that repeats its own
 * keeps it alive.
 */
INLINE void remember_syn(struct connection *c, const struct tracking *t, bool from_peer)
{
	const struct tcp_end *s = from_peer ? &c->peer : &c->local;
	const struct tcp_segment *syn = &t->l4.tcp;
	bool has_scale = syn->scale >= 0;

	keep_alive(t, c);
	if (c->state == CONNECTION_OPENING && s->flags & TCP_END_SEEN && s->end == syn->seq_end)
		return;
	c->again = (struct syn_seen){
		.acked = syn->seq + 1,
		.end = syn->seq_end,
		.window = syn->window,
		.scale = has_scale ? syn->scale : 0,
		.flags = SYN_SEEN | (from_peer ? SYN_FROM_PEER : 0) | (has_scale ? SYN_SCALE : 0),
	};
}

/* Packets of an end may pass unseen. Where nobody has seen its SYN, that may have any scale. */
INLINE void pick_up_end(struct tcp_end *end)
{
	end->flags &= ~TCP_END_SEEN;
	if (!end->max_window) {
		end->scale = TCP_MAX_SCALE;
		end->flags |= TCP_END_SCALE;
	}
}

/* The ends have to be seen anew. */
INLINE void pick_up(struct connection *c)
{
	c->flags |= CONNECTION_PICKED_UP;
	pick_up_end(&c->local);
	pick_up_end(&c->peer);
}

/*
 * Whether the other end of a SYN that asked for another connection acknowledges it: who takes it some of its data, or
 * none (RFC 7413), and who refuses it all.
 */
INLINE bool acknowledges_syn(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	const struct syn_seen *syn = &c->again;
	const struct tcp_segment *t = &l4->tcp;
	__u32 least = t->flags & TCP_SYN ? syn->acked : syn->end;

	return syn->flags & SYN_SEEN && !!(syn->flags & SYN_FROM_PEER) != from_peer &&
	       t->flags & TCP_ACK && t->ack - least <= syn->end - least;
}

/*
 * The other end has taken a SYN for a new connection. Which rule lets it, the next packet asks. Global, for the stack's
 * sake.
 */
__noinline int begin_again(struct connection *c)
{
	const struct tracking *t = get_tracking();
	struct syn_seen syn;
	struct tcp_end *s;

	if (!t || !c)
		return 0;
	syn = c->again;
	s = syn.flags & SYN_FROM_PEER ? &c->peer : &c->local;
	c->begun = t->now;
	c->rule = RULE_DEFAULT;
	c->version = NO_VERSION;
	c->state = CONNECTION_OPENING;
	c->flags = (c->flags & CONNECTION_MADE_BY_PEER) |
		   (syn.flags & SYN_FROM_PEER ? CONNECTION_FROM_PEER : 0);
	c->again = (struct syn_seen){};
	c->local = c->peer = (struct tcp_end){};
	s->end = s->max_end = syn.end;
	s->acked = syn.acked;
	s->max_window = syn.window ? syn.window : 1;
	s->scale = syn.scale;
	s->flags = TCP_END_SEEN | (syn.flags & SYN_SCALE ? TCP_END_SCALE : 0);
	keep_alive(t, c);
	return 0;
}

/* Whether the packet may change more of the connection than its windows and its time. */
INLINE bool may_change(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	const struct tcp_end *r = from_peer ? &c->local : &c->peer;
	bool answers = from_peer != !!(c->flags & CONNECTION_FROM_PEER);

	if (l4->kind != L4_TCP)
		return answers ? c->state == CONNECTION_OPENING :
				 (c->flags & (CONNECTION_ANSWERED | CONNECTION_ASSURED)) ==
					 CONNECTION_ANSWERED;
	return l4->tcp.flags & (TCP_SYN | TCP_FIN | TCP_RST) || c->state == CONNECTION_OPENING ||
	       !(c->local.flags & c->peer.flags & TCP_END_SEEN) ||
	       (r->flags & TCP_END_FIN && c->state == CONNECTION_ESTABLISHED);
}

/*
 * What the packet does to its connection: it fits, or DROP(OUT_OF_WINDOW); what the other end would not take is
 * DROP(CONNECTION_INVALID). Global, so that the verifier checks it once.
 */
__noinline enum verdict follow_connection(struct __sk_buff *ctx, const struct packet *p,
					  struct connection *c, __u32 by_peer)
{
	const struct tracking *t = get_tracking();
	__u8 old_state, old_flags, state, flags;
	bool is_tcp, answers_syn, answers, from_peer = by_peer;

	if (!p || !c || !t)
		return DROP(NOT_CONFIGURED);
	is_tcp = t->l4.kind == L4_TCP;
	if (t->l4.part == LATER_FRAGMENT) { /* its first one said what there is to say */
		if (t->now >= c->seen + SECOND)
			keep_alive(t, c);
		return GO_ON;
	}
	if (may_change(c, &t->l4, from_peer) && !is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	answers_syn = is_tcp && acknowledges_syn(c, &t->l4, from_peer);
	if (answers_syn &&
	    t->l4.tcp.flags & TCP_RST) { /* it refuses the SYN, and not the connection */
		c->again = (struct syn_seen){};
		return GO_ON;
	}
	if (answers_syn && t->l4.tcp.flags & TCP_SYN)
		begin_again(c);
	old_state = state = *(volatile __u8 *)&c->state;
	old_flags = flags = *(volatile __u8 *)&c->flags;
	answers = from_peer != !!(flags & CONNECTION_FROM_PEER);
	if (is_tcp) {
		enum passed passed = tcp_follow(c, &t->l4.tcp, from_peer, &state, &flags);

		if (passed != TCP_FOLLOWS)
			return passed == TCP_REFUSED ? DROP(OUT_OF_WINDOW) : GO_ON;
		if (t->l4.part) /* nobody sees how long the datagram is */
			flags |= CONNECTION_ADOPTED;
	} else if (answers) {
		state = CONNECTION_ESTABLISHED;
	} else if (flags & CONNECTION_ANSWERED) {
		flags |= CONNECTION_ASSURED;
	}
	if (answers)
		flags |= CONNECTION_ANSWERED;
	/* What this packet does not change, one on another CPU may be changing. */
	if (state != old_state)
		c->state = state;
	if (flags != old_flags)
		c->flags = flags;
	if (state != old_state || flags != old_flags || t->now >= c->seen + SECOND)
		keep_alive(t, c);
	return GO_ON;
}
