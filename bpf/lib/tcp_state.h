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
#define TCP_MAX_WINDOW 65535   /* without scale */
#define ADVANCE_TRIES 4        /* each is lost to a CPU that has advanced it */
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

INLINE bool is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/*
 * *newest becomes `value` if that is later, whatever other CPUs make of it meanwhile; whether it did. Where the older
 * one stayed, all that acknowledges the newer would be refused.
 */
INLINE bool advance(__u32 *newest, __u32 value)
{
	int tries;

	for (tries = 0; tries < ADVANCE_TRIES; tries++) {
		__u32 seen = *(volatile __u32 *)newest;

		if (!is_after(value, seen))
			return false;
		if (__sync_val_compare_and_swap(newest, seen, value) == seen)
			return true;
	}
	return false;
}

/* An end that had not been seen before this packet. */
INLINE void tcp_first_sight(struct tcp_end *end, const struct tcp_segment *t)
{
	bool has_scale = t->scale >= 0;

	end->end = end->max_end = t->seq_end;
	end->acked = t->seq + !!(t->flags & TCP_SYN);
	end->max_window = t->window ? t->window : 1;
	end->scale = has_scale ? t->scale : 0;
	end->flags = TCP_END_SEEN | (t->flags & TCP_FIN ? TCP_END_FIN : 0) |
		     (has_scale ? TCP_END_SCALE : 0);
}

INLINE __u32 tcp_scaled(const struct tcp_end *s, const struct tcp_end *r, __u32 window)
{
	return s->flags & r->flags & TCP_END_SCALE ? window << (s->scale & 15) : window;
}

/*
 * The same in a connection of which packets were missed: this one may repeat an old one, and both ends may have offered
 * any window that their scales can express. A keep-alive ends one before what is acknowledged.
 */
INLINE void tcp_pick_up(struct tcp_end *s, const struct tcp_end *r, const struct tcp_segment *t)
{
	s->end = t->seq_end;
	s->max_end = t->seq_end + tcp_scaled(r, s, TCP_MAX_WINDOW) + 1;
	s->max_window = tcp_scaled(s, r, TCP_MAX_WINDOW);
	s->acked = t->seq;
	if (t->flags & TCP_SYN) {
		s->scale = t->scale >= 0 ? t->scale : 0;
		s->flags = t->scale >= 0 ? TCP_END_SCALE : 0;
	}
	s->flags = (s->flags & TCP_END_SCALE) | TCP_END_SEEN | (t->flags & TCP_FIN ? TCP_END_FIN : 0);
}

/* What it sent, and was allowed to: a packet may end behind that, though it begins before it. */
INLINE __u32 tcp_allowed_end(const struct tcp_end *s)
{
	return is_after(s->end, s->max_end) ? s->max_end : s->end;
}

INLINE bool tcp_in_window(const struct tcp_end *s, const struct tcp_end *r,
			  const struct tcp_segment *t)
{
	return !is_after(t->seq, s->max_end) &&
	       !is_after(tcp_allowed_end(s) - r->max_window, t->seq_end);
}

INLINE bool tcp_right_ack(const struct tcp_end *s, const struct tcp_end *r,
			  const struct tcp_segment *t, bool opening, bool missed)
{
	__u32 span = s->max_window > TCP_MIN_ACK_SPAN ? s->max_window : TCP_MIN_ACK_SPAN;
	__u32 newest = missed ? r->max_end : r->end,
	      oldest = opening ? r->acked : tcp_allowed_end(r) - span;

	return !(t->flags & TCP_ACK) || (!is_after(t->ack, newest) && !is_after(oldest, t->ack));
}

/* What an end sends first is in its window. */
INLINE bool tcp_fits(const struct tcp_end *s, const struct tcp_end *r, const struct tcp_segment *t,
		     bool opening, bool missed)
{
	if (!(r->flags & TCP_END_SEEN))
		return true;
	return (!(s->flags & TCP_END_SEEN) || tcp_in_window(s, r, t)) &&
	       tcp_right_ack(s, r, t, opening, missed);
}

INLINE __u32 tcp_window(const struct tcp_end *s, const struct tcp_end *r, const struct tcp_segment *t)
{
	return t->flags & TCP_SYN ? t->window : tcp_scaled(s, r, t->window);
}

/* The other end has acknowledged its FIN. */
INLINE bool tcp_end_closed(const struct tcp_end *end)
{
	return end->flags & TCP_END_FIN && !is_after(end->end, end->acked);
}

/*
 * What a packet that fits changes. The two directions run on different CPUs at the same moment, so each member has one
 * direction that writes it: s.max_end and s.acked are r's to write once s was seen, and the other way round. Packets of
 * one direction run on several, too: what they all advance goes only forward.
 */
INLINE void tcp_change(struct tcp_end *s, struct tcp_end *r, const struct tcp_segment *t, bool missed)
{
	bool s_seen = s->flags & TCP_END_SEEN, r_seen = r->flags & TCP_END_SEEN;
	__u32 window;

	if (!s_seen && missed) {
		__u32 acked = s->acked, reach = tcp_scaled(r, s, TCP_MAX_WINDOW) + 1;
		bool near = !is_after(t->seq, acked + reach) && !is_after(acked - reach, t->seq_end);

		tcp_pick_up(s, r, t);
		if (r_seen && near && tcp_right_ack(s, r, t, false, true)) {
			s->acked = acked;
		} else { /* this packet, or what was seen of the other end, was somebody else's */
			r->flags &= ~TCP_END_SEEN;
			r_seen = false;
		}
	} else if (!s_seen) {
		tcp_first_sight(s, t);
		if (r_seen) /* what the other SYN offered, the answer may use */
			s->max_end += r->max_window;
	}
	window = tcp_window(s, r, t);
	if (!window)
		window = 1;
	advance(&s->max_window, window);
	if (is_after(t->seq_end, s->end)) {
		bool had_fin = s->flags & TCP_END_FIN;

		if (!tcp_end_closed(s) && advance(&s->end, t->seq_end)) {
			if (t->flags & TCP_FIN)
				s->flags |= TCP_END_FIN;
			else if (had_fin)
				s->flags &= ~TCP_END_FIN;
		}
	} else if (t->flags & TCP_FIN && t->seq_end == s->end && is_after(s->end, s->acked)) {
		s->flags |=
			TCP_END_FIN; /* its place was known before it, from what was sent behind it */
	}
	if (!(t->flags & TCP_ACK))
		return;
	if (r_seen) {
		advance(&r->max_end, t->ack + window);
		advance(&r->acked, t->ack);
	} else {
		r->max_end = t->ack + window;
		r->acked = t->ack;
	}
}

/* An end whose SYN nobody has answered: whether this is the answer. */
INLINE bool tcp_awaits(const struct tcp_end *r, const struct tcp_segment *t)
{
	return t->flags & TCP_ACK && !is_after(t->ack, r->end) && !is_after(r->acked, t->ack);
}

/* What a packet is to its connection. */
enum passed {
	TCP_FOLLOWS,  /* it goes on with it */
	TCP_UNHEEDED, /* it passes and changes nothing: the end that gets it knows what it is worth */
	TCP_REFUSED,  /* it cannot be */
};

/* How a connection looks at a packet of s to r. */
struct tcp_look {
	bool missed;  /* packets may have passed unseen */
	bool unknown; /* nobody knows how far both ends are */
	bool early;   /* the handshake is not over, */
	bool opening; /* and what is acknowledged is known exactly */
	bool awaits;  /* s has not been seen, only the SYN that it answers */
};

INLINE struct tcp_look tcp_look(const struct connection *c, const struct tcp_end *s,
				const struct tcp_end *r)
{
	bool both = s->flags & r->flags & TCP_END_SEEN;
	struct tcp_look look = { .missed = c->flags & CONNECTION_PICKED_UP };

	look.unknown = c->flags & CONNECTION_ADOPTED || (look.missed && !both);
	look.early = c->state == CONNECTION_OPENING;
	look.opening =
		c->state == CONNECTION_OPENING && !(c->flags & CONNECTION_ADOPTED) && !look.missed;
	look.awaits = look.opening && !(s->flags & TCP_END_SEEN) && r->flags & TCP_END_SEEN;
	return look;
}

/*
 * A RST ends the connection if it has the number that its receiver waits for (RFC 5961 section 3.2). What is only in
 * the window the receiver questions. Where anybody may have sent what was seen of an end, only what the other end has
 * acknowledged counts. Of an end that was not seen it must answer the SYN (RFC 9293 section 3.10.7.3).
 * Who began the connection may refuse an answer that it does not know (section 3.5.1).
 */
INLINE enum passed tcp_reset(const struct tcp_end *s, const struct tcp_end *r,
			     const struct tcp_segment *t, bool has_begun, const struct tcp_look *look)
{
	bool seen = s->flags & TCP_END_SEEN, is_checked = !look->unknown && !look->missed;
	bool acked = look->missed ? !look->unknown : r->flags & TCP_END_SEEN;

	if (look->awaits)
		return tcp_awaits(r, t) ? TCP_FOLLOWS : TCP_REFUSED;
	if ((is_checked && seen && t->seq == s->end) || (acked && !look->early && t->seq == s->acked))
		return TCP_FOLLOWS;
	if ((look->opening && has_begun) || look->unknown || tcp_fits(s, r, t, false, look->missed))
		return TCP_UNHEEDED;
	return TCP_REFUSED;
}

/* The state after a packet that follows. */
INLINE __u8 tcp_next_state(const struct connection *c, const struct tcp_segment *t,
			   bool both_seen_before)
{
	if (t->flags & TCP_RST || c->state == CONNECTION_CLOSED)
		return CONNECTION_CLOSED;
	if (tcp_end_closed(&c->local) || tcp_end_closed(&c->peer))
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

/* Of a packet that belongs to a connection. What does not follow has changed nothing. */
INLINE enum passed tcp_follow(struct connection *c, const struct tcp_segment *t, bool from_peer,
			      __u8 *state, __u8 *flags)
{
	struct tcp_end *s = from_peer ? &c->peer : &c->local;
	struct tcp_end *r = from_peer ? &c->local : &c->peer;
	bool s_seen = s->flags & TCP_END_SEEN, r_seen = r->flags & TCP_END_SEEN;
	bool is_answer = (t->flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
	struct tcp_look look = tcp_look(c, s, r);
	enum passed passed;

	if (t->flags & TCP_RST) {
		passed = tcp_reset(s, r, t, from_peer == !!(c->flags & CONNECTION_FROM_PEER), &look);
		if (passed == TCP_FOLLOWS)
			*state = CONNECTION_CLOSED;
		return passed;
	}
	if (look.awaits && t->flags & TCP_ACK && !(is_answer && tcp_awaits(r, t)))
		return is_answer ? TCP_REFUSED : TCP_UNHEEDED;
	if (look.opening && s_seen &&
	    !r_seen) /* before it has an answer, who began has nothing to say */
		return TCP_UNHEEDED;
	if (!look.unknown && !tcp_fits(s, r, t, look.opening, look.missed)) {
		if (c->state != CONNECTION_OPENING || !is_answer || !s_seen ||
		    is_after(r->acked, t->ack) || is_after(t->ack, r->end))
			return TCP_REFUSED;
		/* Which of two answers it takes, the other end says with its acknowledgment. */
		*s = (struct tcp_end){ .acked = s->acked };
		*flags |= CONNECTION_ADOPTED;
		return TCP_FOLLOWS;
	}
	if (is_answer && c->state != CONNECTION_OPENING)
		return TCP_UNHEEDED;
	tcp_change(s, r, t, look.missed);
	*state = tcp_next_state(c, t, s_seen && r_seen);
	return TCP_FOLLOWS;
}
