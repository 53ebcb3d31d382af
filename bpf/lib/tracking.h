/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a packet has to do with connections: the one it belongs to, what it does to that, and the one that an ICMP
 * error is about. For conntrack and nat.
 */
#pragma once

#include "connection.h"

/* Nothing comes any more that the windows could judge: a reset, or a FIN of both ends. */
INLINE bool is_over(const struct connection *c)
{
	if (c->state == CONNECTION_CLOSING)
		return c->flags & CONNECTION_ADOPTED || c->local.flags & c->peer.flags & TCP_END_FIN;
	return c->state == CONNECTION_CLOSED;
}

INLINE bool is_syn(const struct l4 *l4)
{
	return l4->kind == L4_TCP && opens(&l4->tcp);
}

/* A SYN that may begin another connection under the same key: this one is over, or nobody ever answered. */
INLINE bool begins_anew(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	const struct tcp_end *r = from_peer ? &c->local : &c->peer;

	return is_syn(l4) && (is_over(c) || !(r->flags & TCP_END_SEEN));
}

/*
 * A SYN into a connection that stands, from the end that began it: the other end answers with a challenge ACK (RFC
 * 5961 section 4), and a client that forgot the connection resets it.
 */
INLINE bool is_challenged(const struct connection *c, const struct l4 *l4, bool from_peer)
{
	return is_syn(l4) && c->state != CONNECTION_OPENING && !(c->flags & CONNECTION_ADOPTED) &&
	       from_peer == !!(c->flags & CONNECTION_FROM_PEER);
}

/* The live connection of tracking.key that this packet belongs to; NULL: none, it may begin one. */
INLINE struct connection *join_connection(const struct tracking *t, bool from_peer)
{
	struct connection *c = find_connection(&t->key, t->now);

	if (c && begins_anew(c, &t->l4, from_peer)) {
		forget_connection(&t->key, c);
		return NULL;
	}
	return c;
}

/* What the packet does to its connection: it fits, or DROP(OUT_OF_WINDOW). */
INLINE enum verdict follow_connection(const struct tracking *t, struct connection *c, bool from_peer)
{
	bool answers = from_peer != !!(c->flags & CONNECTION_FROM_PEER);
	__u8 old_state = *(volatile __u8 *)&c->state, state = old_state;
	__u8 old_flags = *(volatile __u8 *)&c->flags, flags = old_flags;

	if (t->l4.part == LATER_FRAGMENT) { /* its first one said what there is to say */
		if (t->now >= c->seen + SECOND)
			c->seen = t->now;
		return GO_ON;
	}
	if (is_challenged(c, &t->l4, from_peer))
		return GO_ON;
	if (answers)
		flags |= CONNECTION_ANSWERED;
	if (t->l4.kind == L4_TCP) {
		if (!tcp_follow(c, &t->l4.tcp, from_peer, &state))
			return DROP(OUT_OF_WINDOW);
		if (t->l4.part) /* nobody sees how long the datagram is */
			flags |= CONNECTION_ADOPTED;
	} else if (answers) {
		state = CONNECTION_ESTABLISHED;
	} else if (flags & CONNECTION_ANSWERED) {
		flags |= CONNECTION_ASSURED;
	}
	/* What this packet does not change, one on another CPU may be changing. */
	if (state != old_state)
		c->state = state;
	if (flags != old_flags)
		c->flags = flags;
	if (state != old_state || flags != old_flags || t->now >= c->seen + SECOND)
		c->seen = t->now;
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
