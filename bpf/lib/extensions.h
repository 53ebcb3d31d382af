/* SPDX-License-Identifier: Apache-2.0 */
/* IPv6 extension headers, of a packet and of one that an ICMP error quotes. */
#pragma once

#include "ip.h"

#define MAX_EXTENSION_HEADERS 6

/*
 * Walks the headers behind an IPv6 header: packet.protocol is the next one, at packet.l4_offset. There the verifier
 * knows nothing of them, so it takes each round for the same.
 */
struct extension_walk {
	struct __sk_buff *ctx;
	struct packet *p;
};

/* A fragment header, which is 8 bytes long. */
INLINE long skip_fragment_header(struct __sk_buff *ctx, struct packet *p)
{
	struct ipv6_fragment header;

	/* Not load_bytes: Linux 6.18 has a bug with what a callback copies from a packet. */
	if (p->fragment ||
	    bpf_skb_load_bytes(ctx, p->offset + p->l4_offset, &header, sizeof(header)) < 0)
		return 1;
	if (header.offset & bpf_htons(IPV6_FRAGMENT_OFFSET))
		p->fragment = LATER_FRAGMENT;
	else if (header.offset & bpf_htons(IPV6_MORE_FRAGMENTS))
		p->fragment = FIRST_FRAGMENT;
	else
		p->atomic = true;
	p->fragment_at = p->l4_offset;
	p->protocol = header.next;
	p->l4_offset += sizeof(header);
	return p->fragment == LATER_FRAGMENT || !is_extension(p->protocol);
}

/*
 * A routing header with segments left: its last address is the destination that checksums cover (RFC 8200 section 8.1).
 * Or destination options with room for a home address, which stands for the source (RFC 6275 section 6.3).
 */
INLINE bool may_name_an_end(struct __sk_buff *ctx, const struct packet *p, __u8 words)
{
	__u8 segments_left = 0;

	if (p->protocol == IPPROTO_DSTOPTS)
		return words >= 2;
	if (p->protocol != IPPROTO_ROUTING)
		return false;
	bpf_skb_load_bytes(ctx, p->offset + p->l4_offset + 3, &segments_left, sizeof(segments_left));
	return segments_left;
}

static long skip_extension(__u32 number __attribute__((unused)), struct extension_walk *w)
{
	struct packet *p = w->p;
	__u8 extension[2];

	if (p->protocol == IPPROTO_FRAGMENT)
		return skip_fragment_header(w->ctx, p);
	if (load_bytes(w->ctx, p->offset + p->l4_offset, extension, sizeof(extension)) < 0)
		return 1;
	if (may_name_an_end(w->ctx, p, extension[1]))
		p->other_ends = true;
	p->protocol = extension[0];
	p->l4_offset += (extension[1] + 1) * 8;
	return !is_extension(p->protocol);
}

/* Walks them from packet.l4_offset on. */
INLINE void skip_extensions(struct __sk_buff *ctx, struct packet *p)
{
	struct extension_walk walk = { .ctx = ctx, .p = p };

	if (is_extension(p->protocol))
		bpf_loop(MAX_EXTENSION_HEADERS, skip_extension, &walk, 0);
}
