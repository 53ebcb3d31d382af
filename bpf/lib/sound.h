/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the end that a packet goes to would take it: what it would discard must not change what is known of a
 * connection. Asked only for packets that change it.
 *
 * A checksum that the kernel knows to be good is not computed again. One that a device is still to complete stands in
 * the packet as the sum of the pseudo header. That of UDP is not looked at: in a tunnel of a guest's own it may hold for
 * an inner packet that is still to be completed (net/core/skbuff.c, lco_csum()), and a datagram ends nothing.
 */
#pragma once

#include "csum.h"
#include "l4.h"

#define MAX_CHUNKS 129 /* an IP packet, in tracking.chunk */

/* Walks bytes of the packet. */
struct sum_walk {
	struct __sk_buff *ctx;
	__u32 at;
	__u32 left; /* so many bytes */
	__u32 sum;  /* folded */
};

/* The next chunk. For bpf_loop(): the verifier looks at it once, and not at every chunk. */
static long sum_next_chunk(__u32 number __attribute__((unused)), struct sum_walk *walk)
{
	__u32 len = walk->left < CHUNK ? walk->left : CHUNK;
	struct tracking *t = get_tracking();
	__u32 padded;

	KEEP_BOUNDS(len);
	if (!t || len > sizeof(t->chunk))
		return 1;
	KEEP_BOUNDS(len); /* in one comparison Linux 6.12 would not see both bounds */
	if (!len)         /* there is no more */
		return 1;
	padded = (len + 3) & ~3u;
	KEEP_BOUNDS(padded);
	if (padded > sizeof(t->chunk))
		return 1;
	*(__u32 *)&t->chunk[(padded - 4) & (sizeof(t->chunk) - 4)] = 0;
	if (bpf_skb_load_bytes(walk->ctx, walk->at, t->chunk, len) < 0) {
		walk->sum = 0;
		return 1;
	}
	walk->sum = csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)t->chunk, padded, walk->sum));
	walk->at += len;
	walk->left -= len;
	return 0;
}

/* The folded sum of bytes of the packet, added to `sum`; 0 if they are not all there. */
INLINE __u32 sum_bytes(struct __sk_buff *ctx, __u32 at, __u32 len, __u32 sum)
{
	struct sum_walk walk = { .ctx = ctx, .at = at, .left = len, .sum = sum };

	bpf_loop(MAX_CHUNKS, sum_next_chunk, &walk, 0);
	return walk.sum;
}

/* Of bytes behind a pseudo header, with their checksum field. One that a device is still to complete is the sum of that header. */
INLINE bool is_sum_right_or_begun(struct __sk_buff *ctx, __u32 at, __u32 len, __u16 field,
				  __u32 pseudo)
{
	return field == (__u16)pseudo || sum_bytes(ctx, at, len, pseudo) == 0xffff;
}

/* The pseudo header of TCP, UDP and ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1). */
INLINE __u32 pseudo_header(const struct packet *p, __u8 protocol, __u32 len)
{
	__u64 sum = bpf_htonl(len) + (__u64)bpf_htonl(protocol);
	int i = has_ipv4(p) ? 3 : 0;

	for (; i < 4; i++)
		sum += (__u64)p->flow.words[i] + p->flow.words[4 + i];
	sum = (__u32)sum + (sum >> 32);
	return csum_fold((__u32)sum + (sum >> 32));
}

/* The transport header's checksum over the `len` bytes that it speaks of. */
INLINE bool is_checksum_right(struct __sk_buff *ctx, const struct packet *p, __u8 protocol, __u32 len)
{
	__u32 pseudo = pseudo_header(p, protocol, len);
	__u32 at = checksum_offset(protocol, has_ipv4(p));
	__u16 field;

	if (load_bytes(ctx, p->l4_offset + at, &field, sizeof(field)) < 0)
		return false;
	if (protocol == IPPROTO_ICMP)
		return sum_bytes(ctx, p->l4_offset, len, 0) == 0xffff;
	return is_sum_right_or_begun(ctx, p->l4_offset, len, field, pseudo);
}

/*
 * The checksum of an IPv4 header, which nearly always has no options. It is not read onto the stack: the longest chain of
 * calls ends here.
 */
INLINE bool is_ipv4_header_right(struct __sk_buff *ctx, const struct packet *p)
{
	struct tracking *t = get_tracking();

	if (t && p->l4_offset == ETH_HLEN + sizeof(struct iphdr) &&
	    load_bytes(ctx, ETH_HLEN, t->chunk, sizeof(struct iphdr)) == 0)
		return csum_ipv4_header(t->chunk) == 0xffff;
	return sum_bytes(ctx, ETH_HLEN, p->l4_offset - ETH_HLEN, 0) == 0xffff;
}

/* Of a plain frame. Global, for the stack's sake. */
__noinline int is_sound(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 protocol;
	__be16 said;
	__u32 len;

	if (!p)
		return false;
	if (has_ipv4(p) && !is_ipv4_header_right(ctx, p))
		return false;
	/* An extension header may say another destination, which is summed then (RFC 8200 section 8.1). */
	if (!has_ipv4(p) && p->l4_offset != ETH_HLEN + sizeof(struct ipv6hdr))
		return true;
	protocol = p->protocol;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP && !is_icmp(protocol, has_ipv4(p)))
		return true;
	if (p->gso_size || p->fragment || is_hidden(p))
		return true;
	len = ETH_HLEN + p->ip_len - p->l4_offset;
	if (protocol == IPPROTO_UDP && load_bytes(ctx, p->l4_offset + 4, &said, sizeof(said)) == 0 &&
	    bpf_ntohs(said) >= 8 && bpf_ntohs(said) <= len)
		return true;
	if (bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) >= 0)
		return true;
	if (protocol == IPPROTO_UDP)
		return false;
	return is_checksum_right(ctx, p, protocol, len);
}
