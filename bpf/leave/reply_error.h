/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an ICMP error or a reset, written into the scratch. Part of reply.
 *
 *   | Ethernet: the packet's | IP: TTL 64 | ICMP: 8 | the packet from its IP header on: |
 *   | addresses, exchanged   |            |         | at most 548, IPv6 1232            |
 */
#pragma once

#include "lib/l4.h"
#include "reply_begin.h"

#define QUOTE_V4 548 /* what makes it as long as every host takes at least: 576, 1280 */
#define QUOTE_V6 1232
#define ANSWER_MOST (ETH_HLEN + 40 + ICMP_LEN + QUOTE_V6)
#define CSUM_CHUNK 512 /* of bpf_csum_diff() */

/* Ethernet and IP header of the reply; `len` bytes follow. Returns where. */
static __always_inline __u32 write_ip(struct scratch *w, __u8 protocol, __u32 len)
{
	__u8 *frame = w->bytes + FRAME_AT;
	struct packet *r = &w->reply;
	struct ipv6hdr *ip6 = (struct ipv6hdr *)(frame + ETH_HLEN);
	struct iphdr *ip = (struct iphdr *)(frame + ETH_HLEN);

	r->flow.words[9] = protocol;
	__builtin_memcpy(frame, &r->eth, ETH_HLEN);
	if (!has_ipv4(r)) {
		*(__be32 *)ip6 = bpf_htonl(6u << 28); /* version; no traffic class or flow label */
		ip6->payload_len = bpf_htons(len);
		ip6->nexthdr = protocol;
		ip6->hop_limit = REPLY_TTL;
		__builtin_memcpy(&ip6->saddr, &r->flow.words[0], sizeof(ip6->saddr));
		__builtin_memcpy(&ip6->daddr, &r->flow.words[4], sizeof(ip6->daddr));
		r->l4_offset = ETH_HLEN + sizeof(*ip6);
		return r->l4_offset;
	}
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(sizeof(*ip) + len);
	ip->ttl = REPLY_TTL;
	ip->protocol = protocol;
	ip->saddr = r->flow.words[3];
	ip->daddr = r->flow.words[7];
	ip->check = ~csum_ipv4_header(ip);
	r->l4_offset = ETH_HLEN + sizeof(*ip);
	return r->l4_offset;
}

/* Sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1). */
static __always_inline __u32 pseudo_sum(struct packet *r, __u32 len)
{
	__u32 sum = bpf_htons(len) + bpf_htons(l4_proto(r));

	if (!has_ipv4(r))
		return bpf_csum_diff(NULL, 0, &r->flow.words[0], 2 * sizeof(struct addr), sum);
	sum = bpf_csum_diff(NULL, 0, &r->flow.words[3], sizeof(__be32), sum);
	return bpf_csum_diff(NULL, 0, &r->flow.words[7], sizeof(__be32), sum);
}

/* Goes on with a message, behind which there are zeros. */
static __always_inline __u32 message_sum(__u8 *message, __u32 len, __u32 sum)
{
	for (__u32 i = 0; i < 3; i++) {
		__u32 n = len - i * CSUM_CHUNK;

		if (len <= i * CSUM_CHUNK)
			break;
		if (n > CSUM_CHUNK)
			n = CSUM_CHUNK;
		n = (n + 3) & ~3u;
		sum = bpf_csum_diff(NULL, 0, (void *)(message + i * CSUM_CHUNK), n, sum);
	}
	return sum;
}

/* ipv4: a constant in each call. Returns the length of the frame; 0: it failed. */
static __always_inline __u32 write_error_of(struct __sk_buff *ctx, struct scratch *w,
					    const struct packet *about, const struct destination *d,
					    bool ipv4)
{
	const __u32 at = ETH_HLEN + (ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	__u8 *message = w->bytes + FRAME_AT + at, *quote = message + ICMP_LEN;
	struct icmp_header *h = (struct icmp_header *)message;
	__u32 len = about->ip_len, most = ipv4 ? QUOTE_V4 : QUOTE_V6, sum;

	KEEP_BOUNDS(len);
	if (len > most)
		len = most;
	if (len < sizeof(struct iphdr) || bpf_skb_load_bytes(ctx, ETH_HLEN, quote, len) < 0)
		return 0;
	if (d->routed)
		set_ttl(ipv4, quote, get_ttl(ipv4, quote) - d->routed);
	for (int i = 0; i < 4; i++)
		quote[len + i] = 0;
	len += ICMP_LEN;
	write_ip(w, ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, len);
	h->type = ipv4 ? d->tell >> 24 : d->tell >> 8;
	h->code = ipv4 ? d->tell >> 16 : d->tell;
	h->checksum = 0;
	h->rest = bpf_htonl(d->tell_rest);
	sum = message_sum(message, len, ipv4 ? 0 : pseudo_sum(&w->reply, len));
	h->checksum = ~csum_fold(sum);
	return at + len;
}

static __always_inline __u32 write_error(struct __sk_buff *ctx, struct scratch *w,
					 const struct packet *about, const struct destination *d)
{
	return has_ipv4(about) ? write_error_of(ctx, w, about, d, true) :
				 write_error_of(ctx, w, about, d, false);
}

/* The TCP header that a reset is about; false: it is not whole. */
static __always_inline bool read_tcp_about(struct __sk_buff *ctx, const struct packet *about,
					   struct tcp_header *tcp)
{
	return about->l4_offset + sizeof(*tcp) <= ETH_HLEN + about->ip_len &&
	       bpf_skb_load_bytes(ctx, about->l4_offset, tcp, sizeof(*tcp)) == 0;
}

/* RFC 9293 section 3.10.7.1. */
static __always_inline __u32 write_reset(struct scratch *w, const struct packet *about,
					 const struct tcp_header *tcp)
{
	__u32 end = ETH_HLEN + about->ip_len, at = about->l4_offset + (tcp->offset >> 4) * 4;
	__u32 len = (end > at ? end - at : 0) + !!(tcp->flags & TCP_SYN) + !!(tcp->flags & TCP_FIN);
	struct tcp_header reset = { .source = tcp->dest, .dest = tcp->source, .offset = 5 << 4 };
	__u32 sum;

	if (tcp->flags & TCP_ACK) {
		reset.flags = TCP_RST;
		reset.seq = tcp->ack;
	} else {
		reset.flags = TCP_RST | TCP_ACK;
		reset.ack = bpf_htonl(bpf_ntohl(tcp->seq) + len);
	}
	__builtin_memcpy(&w->reply.flow.words[8], &reset, sizeof(__u32));
	at = write_ip(w, IPPROTO_TCP, sizeof(reset));
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&reset, sizeof(reset),
			    pseudo_sum(&w->reply, sizeof(reset)));
	reset.checksum = ~csum_fold(sum);
	if (has_ipv4(about))
		__builtin_memcpy(w->bytes + FRAME_AT + ETH_HLEN + sizeof(struct iphdr), &reset,
				 sizeof(reset));
	else
		__builtin_memcpy(w->bytes + FRAME_AT + ETH_HLEN + sizeof(struct ipv6hdr), &reset,
				 sizeof(reset));
	return at + sizeof(reset);
}
