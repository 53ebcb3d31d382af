/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MSS clamping: the opening segment of a TCP connection gets a maximum segment size (RFC 9293 section 3.7.1) that fits
 * the way, where a switch or a router on it says so. Part of leave, of plain frames that go to one place.
 */
#pragma once

#include "lib/l4.h"
#include "lib/outer.h"
#include "lib/path_mtu.h"

#define TCP_OPTIONS_MAX 40
#define TCP_OPTION_MSS 2

/* Outer headers of any packet, with the longest tunnel header and the inner Ethernet header. */
INLINE __u32 longest_headers(const struct settings *s)
{
	return (s->family == 4 ? 20 : 40) + sizeof(struct udphdr) +
	       (s->encapsulation == ENCAPSULATION_GENEVE ? 16 : 8) + ETH_HLEN;
}

/* Of the largest IP packet that gets back to where this one came from; 0: no underlay is on that way. */
INLINE __u32 mtu_of_way_back(struct __sk_buff *ctx, const struct settings *s, const struct packet *p)
{
	__u32 device = device_of_hook(ctx), *router, mtu, headers;
	struct router *r;

	if (p->hook == HOOK_FROM_LEG) {
		router = bpf_map_lookup_elem(&legs, &device);
		r = router ? bpf_map_lookup_elem(&routers, router) : NULL;
		return r ? r->leg_mtu : 0;
	}
	if (!is_from_underlay(p))
		return 0;
	if (!p->sender_counters)
		return s->underlay_mtu;
	headers = longest_headers(s);
	mtu = path_mtu_of(s, p->sender_counters, p, headers);
	return mtu > headers ? mtu - headers : 1;
}

/* Where the MSS stands in options, of which `len` bytes are in scratch.bytes; 0: none, or nobody can say. */
INLINE __u32 find_mss(struct scratch *w, __u32 len)
{
	__u32 at = 0;

	for (int i = 0; i < TCP_OPTIONS_MAX; i++) {
		__u32 kind, size;

		KEEP_BOUNDS(at);
		if (at + 4 > len || at > TCP_OPTIONS_MAX - 4)
			return 0;
		KEEP_BOUNDS(at);
		if (at > TCP_OPTIONS_MAX - 4)
			return 0;
		kind = w->bytes[at];
		size = w->bytes[at + 1];
		if (kind == 0)
			return 0;
		if (kind == TCP_OPTION_MSS)
			return size == 4 ? at + 2 : 0;
		if (kind != 1 && size < 2)
			return 0;
		at += kind == 1 ? 1 : size;
		FORGET_BOUNDS(at);
	}
	return 0;
}

/*
 * The frame, plain at the start of the skb, goes where an IP packet may have `mtu` bytes; 0: any. Global, so that the
 * verifier checks it once.
 */
__noinline int clamp_mss(struct __sk_buff *ctx, const struct packet *p, __u32 mtu)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	__u32 back, at, len, headers, mss, most;
	struct tcp_header tcp;
	__u16 old, new;

	if (!p || !s || !w || !p->l4_offset || p->protocol != IPPROTO_TCP || p->fragment ||
	    p->gso_size)
		return 0;
	at = p->l4_offset;
	if (at + sizeof(tcp) > ETH_HLEN + p->ip_len ||
	    bpf_skb_load_bytes(ctx, at, &tcp, sizeof(tcp)) < 0 || !(tcp.flags & TCP_SYN))
		return 0;
	back = mtu_of_way_back(ctx, s, p);
	if (!mtu || (back && back < mtu))
		mtu = back;
	headers = sizeof(tcp) + (has_ipv4(p) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	if (mtu <= headers)
		return 0;
	most = mtu - headers;
	len = (tcp.offset >> 4) * 4;
	if (len <= sizeof(tcp) || at + len > ETH_HLEN + p->ip_len)
		return 0;
	len -= sizeof(tcp);
	KEEP_BOUNDS(len);
	if (!len || len > TCP_OPTIONS_MAX)
		return 0;
	at += sizeof(tcp);
	if (bpf_skb_load_bytes(ctx, at, w->bytes, len) < 0)
		return 0;
	mss = find_mss(w, len);
	KEEP_BOUNDS(mss);
	if (!mss || mss > TCP_OPTIONS_MAX - 2)
		return 0;
	old = *(__be16 *)(w->bytes + mss);
	if (bpf_ntohs(old) <= most)
		return 0;
	new = bpf_htons(most);
	if (bpf_skb_store_bytes(ctx, at + mss, &new, sizeof(new), 0) < 0)
		return 0;
	/* In words of the segment: one that begins at an odd byte is in two of them. */
	if (mss & 1) {
		old = __builtin_bswap16(old);
		new = __builtin_bswap16(new);
	}
	bpf_l4_csum_replace(ctx, at - sizeof(tcp) + offsetof(struct tcp_header, checksum), old, new,
			    sizeof(new));
	return 0;
}
