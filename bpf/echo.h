/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers an echo request for a router's address in place (RFC 792, RFC 4443 section 4). Part of route; the
 * same about whom nobody answers is in answer.h.
 */
#pragma once

#include "answer.h"

#define ECHO_REQUEST 8
#define ECHO_REPLY 0
#define ECHO_REQUEST_V6 128
#define ECHO_REPLY_V6 129

static __always_inline bool is_echo_request(struct __sk_buff *ctx, const struct packet *p)
{
	bool ipv4 = has_ipv4(p);
	__u8 type;

	return !p->is_fragment && p->l4_proto == (ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) &&
	       p->l4_offset + ICMP_LEN <= ETH_HLEN + p->ip_len &&
	       bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) == 0 &&
	       type == (ipv4 ? ECHO_REQUEST : ECHO_REQUEST_V6) && !is_group(p->eth.h_dest) &&
	       is_from_somebody(p);
}

/* Addresses exchanged, TTL anew: scratch.ip. */
static __always_inline void turn_ip(struct scratch *w, const struct packet *r)
{
	struct ipv6hdr *ip6 = (struct ipv6hdr *)w->ip;
	struct iphdr *ip = (struct iphdr *)w->ip;

	__builtin_memcpy(w->ip, w->came_ip, sizeof(w->ip));
	set_ttl(has_ipv4(r), w->ip, ANSWER_TTL);
	if (has_ipv4(r)) {
		ip->saddr = r->flow.words[3];
		ip->daddr = r->flow.words[7];
	} else {
		__builtin_memcpy(&ip6->saddr, &r->flow.words[0], sizeof(ip6->saddr));
		__builtin_memcpy(&ip6->daddr, &r->flow.words[4], sizeof(ip6->daddr));
	}
}

/* Whether it is answered; main sends the answer back. Global like answer(). */
__noinline int echo(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	struct icmp_header h;
	struct packet *about, *r;
	struct addr from;
	__u16 old, new;

	if (!p || !w)
		return false;
	about = as_it_came(w, p);
	if (!is_echo_request(ctx, about))
		return false;
	__builtin_memcpy(&from, &about->flow.words[4], sizeof(from));
	begin_reply(w, about, &from);
	r = &w->reply;
	r->tos = about->tos;
	r->len = r->segment_len = about->len;
	r->l4_offset = about->l4_offset;
	r->l4_proto = about->l4_proto;
	r->flow.words[9] = about->l4_proto;
	turn_ip(w, r);
	if (restore(ctx, p) < 0 || bpf_skb_load_bytes(ctx, about->l4_offset, &h, sizeof(h)) < 0) {
		r->len = 0; /* not to be sent */
		return true;
	}
	old = *(__u16 *)&h;
	h.type = has_ipv4(r) ? ECHO_REPLY : ECHO_REPLY_V6;
	new = *(__u16 *)&h;
	h.checksum = csum_update(h.checksum, old, new);
	/* The words that change and their checksum add up to what they did before. */
	if (bpf_skb_store_bytes(ctx, about->l4_offset, &h, sizeof(h), 0) < 0 ||
	    store_headers(ctx, r, w->ip) < 0)
		r->len = 0;
	return true;
}
