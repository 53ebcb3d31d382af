/* SPDX-License-Identifier: Apache-2.0 */
/* An echo request for a router's address becomes the reply (RFC 792, RFC 4443 section 4). Part of reply. */
#pragma once

#include "lib/ip.h"
#include "reply_begin.h"

#define ECHO_REPLY 0
#define ECHO_REPLY_V6 129

/* Addresses exchanged, TTL anew: scratch.ip. */
static __always_inline void turn_ip(struct scratch *w, const struct packet *r)
{
	struct ipv6hdr *ip6 = (struct ipv6hdr *)w->ip;
	struct iphdr *ip = (struct iphdr *)w->ip;

	set_ttl(has_ipv4(r), w->ip, REPLY_TTL);
	if (has_ipv4(r)) {
		ip->saddr = r->flow.words[3];
		ip->daddr = r->flow.words[7];
	} else {
		__builtin_memcpy(&ip6->saddr, &r->flow.words[0], sizeof(ip6->saddr));
		__builtin_memcpy(&ip6->daddr, &r->flow.words[4], sizeof(ip6->daddr));
	}
}

static __always_inline enum verdict write_echo_reply(struct __sk_buff *ctx, struct scratch *w,
						     const struct packet *p)
{
	struct packet *r = &w->reply;
	struct icmp_header h;
	struct addr from;
	__u16 old, new;

	if (read_ip(ctx, w, p) < 0 || bpf_skb_load_bytes(ctx, p->l4_offset, &h, sizeof(h)) < 0)
		return DROP(ENCAP_FAILED);
	__builtin_memcpy(&from, &p->flow.words[4], sizeof(from));
	begin_reply(r, p, &from);
	r->tos = p->tos;
	r->len = r->segment_len = p->len;
	r->l4_offset = p->l4_offset;
	r->flow.words[9] = l4_proto(p);
	turn_ip(w, r);
	old = *(__u16 *)&h;
	h.type = has_ipv4(r) ? ECHO_REPLY : ECHO_REPLY_V6;
	new = *(__u16 *)&h;
	h.checksum = csum_update(h.checksum, old, new);
	/* The words that change and their checksum add up to what they did before. */
	if (bpf_skb_store_bytes(ctx, p->l4_offset, &h, sizeof(h), 0) < 0 ||
	    store_headers(ctx, &r->eth, w->ip) < 0)
		return DROP(ENCAP_FAILED);
	return GO_ON;
}
