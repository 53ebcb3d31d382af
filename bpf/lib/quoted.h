/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection that an ICMP error is about. What it quotes is a packet too, and is read as one: a frame of its own,
 * whose Ethernet header would begin before the quoted IP header. For conntrack and nat.
 *
 *   | Ethernet | IP | ICMP ...     | quoted IP, extension headers | first bytes behind them |
 *                  ^ tracking.quote.offset                       ^ and .l4_offset, from there
 */
#pragma once

#include "connection.h"
#include "extensions.h"
#include "fragments.h"

#define QUOTED_L4_LEN 8

/* A later fragment of an ICMP error is one too, but has other bytes. */
INLINE bool quotes(const struct l4 *l4)
{
	return l4->kind == L4_ERROR && l4->part != LATER_FRAGMENT;
}

/* Addresses, fragment, and what follows the IP header. */
INLINE bool read_quoted_ipv4(struct __sk_buff *ctx, struct tracking *t, struct packet *q)
{
	struct iphdr *ip = &t->header.quoted_ipv4;

	if (bpf_skb_load_bytes(ctx, q->offset + ETH_HLEN, ip, sizeof(*ip)) < 0 || ip->version != 4 ||
	    ip->ihl < 5)
		return false;
	q->flow.source = mapped_v4(ip->saddr);
	q->flow.dest = mapped_v4(ip->daddr);
	q->protocol = ip->protocol;
	q->fragment = fragment_of_ipv4(ip->frag_off);
	q->l4_offset = ETH_HLEN + ip->ihl * 4;
	return true;
}

INLINE bool read_quoted_ipv6(struct __sk_buff *ctx, struct tracking *t, struct packet *q)
{
	struct ipv6hdr *ip = &t->header.quoted_ipv6;

	if (bpf_skb_load_bytes(ctx, q->offset + ETH_HLEN, ip, sizeof(*ip)) < 0 || ip->version != 6)
		return false;
	__builtin_memcpy(&q->flow.source, &ip->saddr, sizeof(ip->saddr));
	__builtin_memcpy(&q->flow.dest, &ip->daddr, sizeof(ip->daddr));
	q->protocol = ip->nexthdr;
	q->l4_offset = ETH_HLEN + sizeof(*ip);
	skip_extensions(ctx, q);
	return true;
}

/* The quoted IP header, up to the transport header. False: its headers, or the 8 bytes behind them, are not there. */
INLINE bool read_quoted_ip(struct __sk_buff *ctx, struct tracking *t, const struct packet *p)
{
	struct packet *q = &t->quote;

	q->eth.h_proto = p->eth.h_proto;
	q->offset = p->l4_offset + ICMP_LEN - ETH_HLEN;
	q->ip_len = p->ip_len - q->offset;
	q->fragment = q->atomic = q->other_ends = 0;
	if (!(has_ipv4(q) ? read_quoted_ipv4(ctx, t, q) : read_quoted_ipv6(ctx, t, q)))
		return false;
	return !is_hidden(q) && q->l4_offset + QUOTED_L4_LEN <= ETH_HLEN + q->ip_len;
}

/*
 * A later fragment is known by its first one, as see_behind() says of a packet: by how that went on. from_peer: the
 * fragment came from there. To nat, an unknown one has its addresses to be known by.
 */
INLINE bool recall_quoted(struct __sk_buff *ctx, struct tracking *t, const struct packet *q,
			  bool from_peer)
{
	const struct first_fragment *first;
	int offset = identify(ctx, q, q->offset, t);

	first = offset < 0 ? NULL : recall_first(t, memory_of(from_peer, true));
	if (first) {
		take_after(&t->quoted, first);
		return first->next == t->first.next && offset >= first->l4_end &&
		       !is_loose(&t->quoted);
	}
	return t->key.switch_id & ZONE_ROUTER || !needs_first(q);
}

/* The quoted transport header, as far as a connection's key needs it. False: it belongs to none. */
INLINE bool read_quoted_l4(struct __sk_buff *ctx, struct tracking *t, bool from_peer)
{
	const struct packet *q = &t->quote;
	struct l4 *l4 = &t->quoted;
	__u8 h[QUOTED_L4_LEN];
	__be16 ports[2];

	*l4 = (struct l4){ .protocol = q->protocol, .part = q->fragment };
	if (q->fragment == LATER_FRAGMENT)
		return recall_quoted(ctx, t, q, from_peer);
	if (bpf_skb_load_bytes(ctx, q->offset + q->l4_offset, h, sizeof(h)) < 0)
		return false;
	if (is_icmp(q->protocol, has_ipv4(q))) {
		read_icmp_header(l4, h, has_ipv4(q));
		return !is_loose(l4);
	}
	if (has_ports(q->protocol)) {
		__builtin_memcpy(ports, h, sizeof(ports));
		l4->source = ports[0];
		l4->dest = ports[1];
	}
	return true;
}

/*
 * The packet that an ICMP error quotes, in tracking.quote and tracking.quoted and, as a key of the zone of
 * tracking.key, in tracking.other. It went the other way: what came from the peer is about a packet of the local end.
 * An error goes to the source of what it quotes. Global, so that the verifier checks it once.
 */
__noinline int read_quoted(struct __sk_buff *ctx, const struct packet *p, __u32 from_peer)
{
	struct tracking *t = get_tracking();

	if (!p || !t || !read_quoted_ip(ctx, t, p) || !read_quoted_l4(ctx, t, !from_peer))
		return false;
	if (!same_addr(&t->quote.flow.source, &p->flow.dest))
		return false;
	set_connection_key(&t->other, &t->quote, &t->quoted, t->key.switch_id, t->key.key,
			   !from_peer);
	return true;
}
