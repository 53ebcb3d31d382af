/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a packet has to do with connections: the one it belongs to, what it does to that, and the one that an ICMP
 * error is about. For conntrack and nat.
 */
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

/* Whether the other end of a SYN that asked for another connection acknowledges it. */
INLINE bool acknowledges_syn(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	const struct syn_seen *syn = &c->again;

	return syn->flags & SYN_SEEN && !!(syn->flags & SYN_FROM_PEER) != from_peer &&
	       l4->tcp.flags & TCP_ACK && l4->tcp.ack == syn->end;
}

/* The other end has taken a SYN for a new connection. Which rule lets it, the next packet asks. */
INLINE void begin_again(const struct tracking *t, struct connection *c)
{
	const struct syn_seen syn = c->again;
	struct tcp_end *s = syn.flags & SYN_FROM_PEER ? &c->peer : &c->local;

	c->begun = t->now;
	c->rule = RULE_DEFAULT;
	c->version = NO_VERSION;
	c->state = CONNECTION_OPENING;
	c->flags = syn.flags & SYN_FROM_PEER ? CONNECTION_FROM_PEER : 0;
	c->again = (struct syn_seen){};
	c->local = c->peer = (struct tcp_end){};
	s->end = s->max_end = s->acked = syn.end;
	s->max_window = syn.window ? syn.window : 1;
	s->scale = syn.scale;
	s->flags = TCP_END_SEEN | (syn.flags & SYN_SCALE ? TCP_END_SCALE : 0);
	keep_alive(t, c);
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
 * DROP(CONNECTION_INVALID).
 */
INLINE enum verdict follow_connection(struct __sk_buff *ctx, const struct packet *p,
				      const struct tracking *t, struct connection *c, bool from_peer)
{
	bool is_tcp = t->l4.kind == L4_TCP, refused, answers;
	__u8 old_state, old_flags, state, flags;

	if (t->l4.part == LATER_FRAGMENT) { /* its first one said what there is to say */
		if (t->now >= c->seen + SECOND)
			keep_alive(t, c);
		return GO_ON;
	}
	if (may_change(c, &t->l4, from_peer) && !is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	refused = is_tcp && acknowledges_syn(c, &t->l4, from_peer) && t->l4.tcp.flags & TCP_RST;
	if (is_tcp && acknowledges_syn(c, &t->l4, from_peer) && t->l4.tcp.flags & TCP_SYN)
		begin_again(t, c);
	old_state = state = *(volatile __u8 *)&c->state;
	old_flags = flags = *(volatile __u8 *)&c->flags;
	answers = from_peer != !!(flags & CONNECTION_FROM_PEER);
	if (refused) {
		state = CONNECTION_CLOSED;
	} else if (is_tcp) {
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

#define QUOTED_L4_LEN 8

/* The L4 header of a quoted packet, as far as a connection's key needs it. False: it belongs to none. */
INLINE bool read_quoted_l4(struct __sk_buff *ctx, struct l4 *l4, __u32 at, bool is_ipv4)
{
	__u8 h[QUOTED_L4_LEN];
	__be16 ports[2];

	if (bpf_skb_load_bytes(ctx, at, h, sizeof(h)) < 0)
		return false;
	if (is_icmp(l4->protocol, is_ipv4)) {
		read_icmp_header(l4, h, is_ipv4);
		return l4->kind == L4_REQUEST || l4->kind == L4_REPLY;
	}
	if (has_ports(l4->protocol)) {
		__builtin_memcpy(ports, h, sizeof(ports));
		l4->source = ports[0];
		l4->dest = ports[1];
	}
	return true;
}

/* Whether a first fragment is known by its ports: nat takes it for portless. */
INLINE bool shows_first(const struct tracking *t)
{
	return !(t->key.switch_id & ZONE_ROUTER);
}

/* Reads source and destination of the quoted packet into the key as its local and peer end. */
INLINE bool read_quoted_ipv4(struct __sk_buff *ctx, struct tracking *t, __u32 at, __u32 end)
{
	struct iphdr *ip = &t->header.quoted_ipv4;
	__u16 portless = shows_first(t) ? IP_FRAGMENT_OFFSET : IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET;

	if (bpf_skb_load_bytes(ctx, at, ip, sizeof(*ip)) < 0 || ip->version != 4 || ip->ihl < 5 ||
	    at + ip->ihl * 4 + QUOTED_L4_LEN > end)
		return false;
	t->other.local = mapped_v4(ip->saddr);
	t->other.peer = mapped_v4(ip->daddr);
	t->quoted = (struct l4){ .protocol = ip->protocol };
	if (ip->frag_off & bpf_htons(portless))
		return true;
	return read_quoted_l4(ctx, &t->quoted, at + ip->ihl * 4, true);
}

INLINE bool read_quoted_ipv6(struct __sk_buff *ctx, struct tracking *t, __u32 at, __u32 end)
{
	struct ipv6hdr *ip = &t->header.quoted_ipv6;
	struct ipv6_fragment fragment;
	__u32 l4_at = at + sizeof(*ip);

	if (at + sizeof(*ip) + QUOTED_L4_LEN > end ||
	    bpf_skb_load_bytes(ctx, at, ip, sizeof(*ip)) < 0 || ip->version != 6)
		return false;
	t->quoted = (struct l4){ .protocol = ip->nexthdr };
	if (ip->nexthdr == IPPROTO_FRAGMENT && shows_first(t)) {
		if (bpf_skb_load_bytes(ctx, l4_at, &fragment, sizeof(fragment)) < 0 ||
		    fragment.offset & bpf_htons(IPV6_FRAGMENT_OFFSET))
			return false;
		t->quoted.protocol = fragment.next;
		l4_at += sizeof(fragment);
	}
	if (is_extension(t->quoted.protocol) || l4_at + QUOTED_L4_LEN > end)
		return false;
	__builtin_memcpy(&t->other.local, &ip->saddr, sizeof(t->other.local));
	__builtin_memcpy(&t->other.peer, &ip->daddr, sizeof(t->other.peer));
	return read_quoted_l4(ctx, &t->quoted, l4_at, false);
}

/*
 * The packet that an ICMP error quotes, in tracking.quoted and, as a key of the zone of tracking.key, in
 * tracking.other. It went the other way: what came from the peer is about a packet of the local end. An error goes to
 * the source of what it quotes. Global, so that the verifier checks it once.
 */
__noinline int read_quoted(struct __sk_buff *ctx, const struct packet *p, __u32 from_peer)
{
	struct tracking *t = get_tracking();
	struct connection_key *k;
	struct addr source;
	__u32 at, end;

	if (!p || !t)
		return false;
	k = &t->other;
	at = p->l4_offset + ICMP_LEN;
	end = ETH_HLEN + p->ip_len;
	k->switch_id = t->key.switch_id;
	k->key = t->key.key;
	k->family = t->key.family;
	if (!(k->family == 4 ? read_quoted_ipv4(ctx, t, at, end) : read_quoted_ipv6(ctx, t, at, end)))
		return false;
	if (!same_addr(&k->local, &p->flow.dest))
		return false;
	k->protocol = t->quoted.protocol;
	if (!from_peer) { /* quoted from the peer */
		source = k->local;
		k->local = k->peer;
		k->peer = source;
	}
	set_connection_ports(k, &t->quoted, !from_peer);
	return true;
}
