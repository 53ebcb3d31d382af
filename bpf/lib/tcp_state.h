/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP as conntrack sees it: whether a packet fits what both ends said before (van Rooij; the kernel has the same in
 * net/netfilter/nf_conntrack_proto_tcp.c), and what it changes. Used by conntrack.h.
 *
 *        s.end - r.max_window           s.end        s.max_end
 *   -------------|------------------------|--------------|------> sequence numbers of s
 *    older: no   |      sent before       |   new: yes   | r never allowed: no
 */
#pragma once

#include "bytes.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_MAX_SCALE 14       /* RFC 7323 section 2.3 */
#define TCP_MIN_ACK_SPAN 66000 /* acknowledgements this old are good: the kernel's MAXACKWINCONST */

/* One packet; of a super-packet all of it. */
struct tcp_segment {
	__u32 seq;
	__u32 seq_end; /* behind the payload, SYN and FIN */
	__u32 ack;
	__u16 window;
	__u8 flags;
	__s8 scale; /* window scale option of a SYN; -1: none */
};

/* The first packet of a connection. */
INLINE bool opens(const struct tcp_segment *t)
{
	return (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

INLINE __u32 later(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0 ? a : b;
}

INLINE bool is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* An end that had not been seen before this packet. */
INLINE struct tcp_end tcp_first_sight(const struct tcp_segment *t)
{
	struct tcp_end end = { .end = t->seq_end, .max_end = t->seq_end, .flags = TCP_END_SEEN };

	end.max_window = t->window ? t->window : 1;
	if (t->scale >= 0) {
		end.scale = t->scale;
		end.flags |= TCP_END_SCALE;
	}
	return end;
}

INLINE bool tcp_fits(const struct tcp_end *s, const struct tcp_end *r, const struct tcp_segment *t)
{
	__u32 span = s->max_window > TCP_MIN_ACK_SPAN ? s->max_window : TCP_MIN_ACK_SPAN;

	if (!(r->flags & TCP_END_SEEN))
		return true;
	if (is_after(t->seq, s->max_end) || is_after(s->end - r->max_window, t->seq_end))
		return false;
	return !(t->flags & TCP_ACK) ||
	       (!is_after(t->ack, r->end) && !is_after(r->end - span, t->ack));
}

INLINE __u32 tcp_window(const struct tcp_end *s, const struct tcp_end *r, const struct tcp_segment *t)
{
	bool scaled = s->flags & r->flags & TCP_END_SCALE;

	return t->flags & TCP_SYN || !scaled ? t->window : (__u32)t->window << (s->scale & 15);
}

/*
 * What a packet that fits changes. The two directions run on different CPUs at the same moment, so each member has one
 * direction that writes it: s.max_end is r's to write once s was seen, and the other way round.
 */
INLINE void tcp_change(struct tcp_end *s, struct tcp_end *r, const struct tcp_segment *t)
{
	__u32 window;

	if (!(s->flags & TCP_END_SEEN))
		*s = tcp_first_sight(t);
	window = tcp_window(s, r, t);
	if (!window)
		window = 1;
	if (window > s->max_window)
		s->max_window = window;
	s->end = later(t->seq_end, s->end);
	if (t->flags & TCP_ACK)
		r->max_end = later(t->ack + window, r->max_end);
	if (t->flags & TCP_FIN)
		s->flags |= TCP_END_FIN;
}

/* The state after a packet that fits. */
INLINE __u8 tcp_next_state(const struct connection *c, const struct tcp_segment *t,
			   bool both_seen_before)
{
	if (t->flags & TCP_RST)
		return CONNECTION_CLOSED;
	if (c->state == CONNECTION_CLOSED)
		return CONNECTION_CLOSED;
	if ((c->local.flags | c->peer.flags) & TCP_END_FIN)
		return CONNECTION_CLOSING;
	if (c->state != CONNECTION_OPENING)
		return c->state;
	if (c->flags & CONNECTION_ADOPTED)
		return c->local.flags & c->peer.flags & TCP_END_SEEN ? CONNECTION_ESTABLISHED :
								       CONNECTION_OPENING;
	return both_seen_before && (t->flags & (TCP_ACK | TCP_SYN)) == TCP_ACK ?
		       CONNECTION_ESTABLISHED :
		       CONNECTION_OPENING;
}

/* Of a packet that belongs to a connection: false: it is outside of the windows, and changed nothing. */
INLINE bool tcp_follow(struct connection *c, const struct tcp_segment *t, bool from_peer, __u8 *state)
{
	struct tcp_end *s = from_peer ? &c->peer : &c->local;
	struct tcp_end *r = from_peer ? &c->local : &c->peer;
	bool adopted = c->flags & CONNECTION_ADOPTED;
	bool s_seen = s->flags & TCP_END_SEEN, r_seen = r->flags & TCP_END_SEEN;
	struct tcp_end sender = *s;

	if (!s_seen)
		sender = tcp_first_sight(t);
	/* A blind reset of a SYN does not know what to acknowledge (RFC 9293 section 3.10.7.3). */
	if (!adopted && !s_seen && (t->flags & (TCP_RST | TCP_ACK)) == TCP_RST)
		return false;
	if (!adopted && !tcp_fits(&sender, r, t))
		return false;
	tcp_change(s, r, t);
	*state = tcp_next_state(c, t, s_seen && r_seen);
	return true;
}
