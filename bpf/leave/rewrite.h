/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into a plain frame what was decided to be written anew: the MACs and the TTL of what was routed, and what nat
 * translates: one end's address and port, and every checksum over them, by what changed (RFC 1624).
 *
 *   an ICMP error:   | IP, its own end | ICMP | quoted IP, the other end | first bytes behind it |
 */
#pragma once

#include "lib/quoted.h"

/* Where something behind an IP header is, and what of it counts. */
struct l4_place {
	__u32 at;       /* in the frame; 0: a later fragment has none */
	__u32 checksum; /* 0: none, or not inside the IP packet */
	__u32 port;     /* port or identifier; 0: none */
};

/* Of a port of that end; ICMP has one identifier. */
INLINE __u32 port_offset(const struct l4 *l4, bool source)
{
	return l4->kind == L4_REQUEST || l4->kind == L4_REPLY ? 4 : source ? 0 : 2;
}

INLINE bool has_mark(const struct l4 *l4)
{
	return l4->source | l4->dest || l4->kind == L4_REQUEST || l4->kind == L4_REPLY;
}

/* The packet's own transport header, of a first fragment too. */
INLINE struct l4_place find_l4(const struct packet *p, const struct l4 *l4, bool source)
{
	struct l4_place place = { .at = p->fragment == LATER_FRAGMENT ? 0 : p->l4_offset };
	__u32 offset = checksum_offset(l4->protocol, has_ipv4(p));

	if (!place.at)
		return place;
	if (offset && place.at + offset + 2 <= ETH_HLEN + p->ip_len)
		place.checksum = place.at + offset;
	if (has_mark(l4))
		place.port = place.at + port_offset(l4, source);
	return place;
}

/* The sum of a new address less that of the old one. */
INLINE __u32 address_diff(const struct addr *old, const struct addr *new)
{
	return bpf_csum_diff((__be32 *)(long)old, sizeof(*old), (__be32 *)(long)new, sizeof(*new), 0);
}

INLINE __u16 csum_add_diff(__u16 checksum, __u32 diff)
{
	return ~csum_fold((__u32)(__u16)~checksum + csum_fold(diff));
}

/* In an IP header. */
INLINE void put_address(__u8 *ip, bool ipv4, bool source, const struct addr *to, __u32 diff)
{
	if (!ipv4) {
		__builtin_memcpy(ip + (source ? 8 : 24), to, sizeof(*to));
		return;
	}
	__builtin_memcpy(ip + (source ? 12 : 16), &to->bytes[12], 4);
	*(__u16 *)(ip + IPV4_CHECKSUM) = csum_add_diff(*(__u16 *)(ip + IPV4_CHECKSUM), diff);
}

/*
 * A checksum over a pseudo header: the kernel's helper knows the one that a device is still to complete. diff is of
 * the address.
 */
INLINE long update_l4(struct __sk_buff *ctx, const struct l4_place *place, __u8 protocol, __u32 diff,
		      bool pseudo, __be16 old, __be16 new)
{
	__u64 udp = has_no_zero_sum(protocol) ? BPF_F_MARK_MANGLED_0 : 0;

	if (pseudo && bpf_l4_csum_replace(ctx, place->checksum, 0, diff, BPF_F_PSEUDO_HDR | udp) < 0)
		return -1;
	return place->port ? bpf_l4_csum_replace(ctx, place->checksum, old, new, udp | 2) : 0;
}

/* The port of the end that keeps its address. flags: as the other end's was stored with. */
INLINE long put_peer_port(struct __sk_buff *ctx, struct packet *p, const struct translation *to,
			  const struct l4 *l4, __u32 checksum, __u64 flags)
{
	bool source = to->end == TRANSLATE_DESTINATION;
	__be16 old = source ? l4->source : l4->dest;
	__u64 udp = has_no_zero_sum(l4->protocol) ? BPF_F_MARK_MANGLED_0 : 0;

	if (!flags && bpf_l4_csum_replace(ctx, checksum, old, to->peer_port, udp | 2) < 0)
		return -1;
	if (!p->fragment)
		*(source ? &p->flow.source_port : &p->flow.dest_port) = to->peer_port;
	return bpf_skb_store_bytes(ctx, p->l4_offset + port_offset(l4, source), &to->peer_port,
				   sizeof(to->peer_port), flags);
}

/* The packet itself. */
INLINE enum verdict rewrite_packet(struct __sk_buff *ctx, struct scratch *w, struct packet *p,
				   const struct translation *to, const struct l4 *l4)
{
	bool source = to->end == TRANSLATE_SOURCE;
	struct addr *addr = source ? &p->flow.source : &p->flow.dest;
	struct l4_place place = find_l4(p, l4, source);
	__u32 diff = address_diff(addr, &to->addr);
	__be16 *port = source ? &p->flow.source_port : &p->flow.dest_port, old = 0, sum = 0;
	__u64 flags = 0;

	put_address(w->ip, has_ipv4(p), source, &to->addr, diff);
	*addr = to->addr;
	if (place.port && bpf_skb_load_bytes(ctx, place.port, &old, sizeof(old)) < 0)
		return DROP(NAT_UNSUPPORTED);
	if (place.checksum && bpf_skb_load_bytes(ctx, place.checksum, &sum, sizeof(sum)) < 0)
		return DROP(NAT_UNSUPPORTED);
	if (!place.checksum || (has_no_zero_sum(l4->protocol) && !sum))
		flags = BPF_F_RECOMPUTE_CSUM; /* nothing makes up for the port */
	else if (update_l4(ctx, &place, l4->protocol, diff, l4->protocol != IPPROTO_ICMP, old,
			   to->port) < 0)
		return DROP(NAT_UNSUPPORTED);
	if (!place.port)
		return GO_ON;
	if (!p->fragment && l4->source | l4->dest) /* fragments of one datagram are one flow */
		*port = to->port;
	if (bpf_skb_store_bytes(ctx, place.port, &to->port, sizeof(to->port), flags) < 0)
		return DROP(NAT_UNSUPPORTED);
	if (to->moves_peer && put_peer_port(ctx, p, to, l4, place.checksum, flags) < 0)
		return DROP(NAT_UNSUPPORTED);
	return GO_ON;
}

#define QUOTED_MOST 20 /* bytes of a quoted transport header, with the checksum of TCP */

/* What an ICMP error quotes, before and after, and where its marks are in the transport header; in scratch.bytes. */
struct quoted_bytes {
	__u8 ip[40];
	__u8 new_ip[40];
	__u8 l4[QUOTED_MOST];
	__u8 new_l4[QUOTED_MOST];
	__u32 checksum; /* 0: none */
	__u32 port;
	__u32 peer_port;
};

/* Where the marks are. Global: what it says is unknown to the verifier, which would else go every way on for each. */
__noinline int find_quoted_marks(const struct l4 *l4, __u32 ipv4, __u32 source)
{
	struct scratch *w = get_scratch();
	struct quoted_bytes *q;

	if (!l4 || !w)
		return 0;
	q = (struct quoted_bytes *)w->bytes;
	q->checksum = checksum_offset(l4->protocol, ipv4);
	q->port = port_offset(l4, source);
	q->peer_port = port_offset(l4, !source);
	return 0;
}

/* Ports and checksum of the quoted transport header; len bytes of it are there. */
INLINE void rewrite_quoted_l4(struct quoted_bytes *q, const struct translation *to,
			      const struct l4 *l4, bool ipv4, __u32 len, __u32 diff)
{
	__u32 checksum = q->checksum, port = q->port & 6, peer_port = q->peer_port & 6;
	__u16 sum;

	if (has_mark(l4))
		*(__u16 *)(q->new_l4 + port) = to->port;
	if (to->moves_peer)
		*(__u16 *)(q->new_l4 + peer_port) = to->peer_port;
	if (!checksum || checksum + 2 > len)
		return;
	sum = *(__u16 *)(q->l4 + (checksum & 31));
	if (has_no_zero_sum(l4->protocol) && !sum)
		return;
	if (!(ipv4 && l4->protocol == IPPROTO_ICMP))
		sum = csum_add_diff(sum, diff);
	if (has_mark(l4))
		sum = csum_update(sum, *(__u16 *)(q->l4 + port), to->port);
	if (to->moves_peer)
		sum = csum_update(sum, *(__u16 *)(q->l4 + peer_port), to->peer_port);
	if (has_no_zero_sum(l4->protocol) && !sum)
		sum = 0xffff;
	*(__u16 *)(q->new_l4 + (checksum & 31)) = sum;
}

/* The packet that an ICMP error quotes: it went the other way, so its other end is the one. */
INLINE long rewrite_quoted(struct __sk_buff *ctx, struct scratch *w, const struct packet *quote,
			   const struct translation *to, const struct l4 *l4, __u32 *sum)
{
	struct quoted_bytes *q = (struct quoted_bytes *)w->bytes;
	__u32 at = quote->offset + ETH_HLEN, l4_at = quote->offset + quote->l4_offset, len, diff;
	bool ipv4 = has_ipv4(quote), source = to->end == TRANSLATE_DESTINATION;

	*q = (struct quoted_bytes){};
	if ((ipv4 ? bpf_skb_load_bytes(ctx, at, q->ip, sizeof(struct iphdr)) :
		    bpf_skb_load_bytes(ctx, at, q->ip, sizeof(struct ipv6hdr))) < 0)
		return -1;
	diff = address_diff(source ? &quote->flow.source : &quote->flow.dest, &to->addr);
	__builtin_memcpy(q->new_ip, q->ip, sizeof(q->ip));
	put_address(q->new_ip, ipv4, source, &to->addr, diff);
	*sum = bpf_csum_diff((__be32 *)q->ip, sizeof(q->ip), (__be32 *)q->new_ip, sizeof(q->ip), 0);
	if ((ipv4 ? bpf_skb_store_bytes(ctx, at, q->new_ip, sizeof(struct iphdr), 0) :
		    bpf_skb_store_bytes(ctx, at, q->new_ip, sizeof(struct ipv6hdr), 0)) < 0)
		return -1;
	if (quote->fragment == LATER_FRAGMENT)
		return 0;
	len = quote->ip_len + ETH_HLEN - quote->l4_offset;
	KEEP_BOUNDS(len);
	if (len > QUOTED_MOST)
		len = QUOTED_MOST;
	if (len < QUOTED_L4_LEN || bpf_skb_load_bytes(ctx, l4_at, q->l4, len) < 0)
		return -1;
	__builtin_memcpy(q->new_l4, q->l4, sizeof(q->l4));
	find_quoted_marks(l4, ipv4, source);
	rewrite_quoted_l4(q, to, l4, ipv4, len, diff);
	*sum = bpf_csum_diff((__be32 *)q->l4, sizeof(q->l4), (__be32 *)q->new_l4, sizeof(q->l4),
			     *sum);
	return bpf_skb_store_bytes(ctx, l4_at, q->new_l4, len, 0);
}

/* An ICMP error: its own end, what it quotes, and its checksum over that. Global: few packets are that. */
__noinline enum verdict rewrite_error(struct __sk_buff *ctx, struct packet *p,
				      const struct translation *to)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	__u32 checksum, diff, sum = 0;
	struct addr *addr;
	bool source;

	if (!p || !to || !t || !w)
		return DROP(NOT_CONFIGURED);
	source = to->end == TRANSLATE_SOURCE;
	addr = source ? &p->flow.source : &p->flow.dest;
	checksum = p->l4_offset + 2;
	diff = address_diff(addr, &to->teller);
	if (rewrite_quoted(ctx, w, &t->quote, to, &t->quoted, &sum) < 0 ||
	    bpf_l4_csum_replace(ctx, checksum, 0, sum, 0) < 0)
		return DROP(NAT_UNSUPPORTED);
	if (!has_ipv4(p) && bpf_l4_csum_replace(ctx, checksum, 0, diff, BPF_F_PSEUDO_HDR) < 0)
		return DROP(NAT_UNSUPPORTED);
	put_address(w->ip, has_ipv4(p), source, &to->teller, diff);
	*addr = to->teller;
	return GO_ON;
}

/*
 * A plain frame. scratch.ip has its IP header since route or keep_original(), and tracking what nat read of it. Global,
 * so that the verifier checks it once and not for every way that leads here.
 */
__noinline enum verdict rewrite(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result = GO_ON;

	if (!p || !d || !w || !t)
		return DROP(NOT_CONFIGURED);
	if (d->translation.end && d->translation.is_error)
		result = rewrite_error(ctx, p, &d->translation);
	else if (d->translation.end)
		result = rewrite_packet(ctx, w, p, &d->translation, &t->l4);
	if (result != GO_ON)
		return result;
	if (d->routed)
		set_ttl(has_ipv4(p), w->ip, get_ttl(has_ipv4(p), w->ip) - d->routed);
	return store_headers(ctx, w, &d->eth) < 0 ? DROP(ENCAP_FAILED) : GO_ON;
}
