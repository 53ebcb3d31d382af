/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of answers (leave/reply.h): an echo reply (RFC 792, RFC 4443 section 4), the answers of ARP and ND, and
 * that to a greeting are written over the question; ICMP errors and resets are written into the scratch.
 *
 *   | Ethernet: the packet's | IP: TTL 64 | ICMP: 8 | the packet from its IP header on: |
 *   | addresses, exchanged   |            |         | at most 548, IPv6 1232            |
 */
#pragma once

#include "lib/detour.h"
#include "lib/l4.h"
#include "lib/neighbour.h"
#include "lib/outer.h"
#include "lib/tell.h"

#define REPLY_TTL 64

/* The answer as a packet: from whom to whom. from: an address of the packet's family. */
INLINE void begin_reply(struct packet *r, const struct packet *about, const struct addr *from)
{
	*r = (struct packet){ .hook = about->hook,
			      .segments = 1,
			      .changes = about->changes,
			      .source = about->source,
			      .in_tag = about->in_tag,
			      .tag = about->tag,
			      .switch_id = about->switch_id,
			      .action = TCX_DROP };
	copy_mac(r->eth.h_dest, about->eth.h_source);
	copy_mac(r->eth.h_source, about->eth.h_dest);
	r->eth.h_proto = about->eth.h_proto;
	if (from)
		r->flow.source = *from;
	r->flow.dest = about->flow.source;
}

#define ECHO_REPLY 0
#define ECHO_REPLY_V6 129

/* Both addresses of an IP header. */
INLINE void put_addresses(__u8 *ip, const struct packet *r)
{
	if (has_ipv4(r)) {
		*(__be32 *)(ip + 12) = v4_of(&r->flow.source);
		*(__be32 *)(ip + 16) = v4_of(&r->flow.dest);
	} else {
		copy_words(ip + 8, &r->flow.source, 2 * sizeof(struct addr));
	}
}

INLINE bool write_echo_reply(struct __sk_buff *ctx, struct scratch *w, const struct packet *p)
{
	struct packet *r = &w->reply;
	struct icmp_header h;
	__u16 old, new;

	if (read_ip(ctx, w, p) < 0 || bpf_skb_load_bytes(ctx, p->l4_offset, &h, sizeof(h)) < 0)
		return false;
	begin_reply(r, p, &p->flow.dest);
	r->tos = p->tos;
	r->len = r->segment_len = p->len;
	r->l4_offset = p->l4_offset;
	r->flow.protocol = p->flow.protocol;
	set_ttl(has_ipv4(r), w->ip, REPLY_TTL);
	put_addresses(w->ip, r);
	old = *(__u16 *)&h;
	h.type = has_ipv4(r) ? ECHO_REPLY : ECHO_REPLY_V6;
	new = *(__u16 *)&h;
	h.checksum = csum_update(h.checksum, old, new);
	/* The words that change and their checksum add up to what they did before. */
	if (bpf_skb_store_bytes(ctx, p->l4_offset, &h, sizeof(h), 0) < 0 ||
	    store_headers(ctx, w, &r->eth) < 0)
		return false;
	return true;
}

INLINE bool write_arp_reply(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			    const struct destination *d)
{
	struct arp_frame *f = (struct arp_frame *)(w->bytes + FRAME_AT);
	struct packet *r = &w->reply;
	__be32 ip;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &f->arp, sizeof(f->arp)) < 0)
		return false;
	ip = f->arp.target_ip;
	copy_mac(f->eth.h_dest, f->arp.sender_mac);
	copy_mac(f->eth.h_source, d->owner.bytes);
	f->eth.h_proto = p->eth.h_proto;
	f->arp.operation = bpf_htons(ARP_REPLY);
	copy_mac(f->arp.target_mac, f->arp.sender_mac);
	f->arp.target_ip = f->arp.sender_ip;
	copy_mac(f->arp.sender_mac, d->owner.bytes);
	f->arp.sender_ip = ip;
	if (bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return false;
	begin_reply(r, p, NULL);
	r->eth = f->eth;
	r->len = r->segment_len = p->len;
	r->flow = (union flow){}; /* of a frame that is not IP: its header */
	__builtin_memcpy(&r->flow, &f->eth, ETH_HLEN);
	return true;
}

/* Checksum of an advertisement: pseudo header (RFC 8200 section 8.1) and message. */
INLINE __sum16 nd_checksum(const struct nd_frame *f)
{
	__u32 fixed = bpf_htons(sizeof(f->nd)) + bpf_htons(IPPROTO_ICMPV6);
	const __u16 *words = (const void *)&f->ip.saddr; /* both addresses, then the message */
	__u32 sum = fixed;

	for (unsigned long i = 0; i < (2 * sizeof(struct addr) + sizeof(f->nd)) / 2; i++)
		sum += words[i];
	return (__sum16)~csum_fold(sum);
}

/* The advertisement, written over the solicitation. */
INLINE void turn_nd(struct nd_frame *f, const struct packet *p, const struct destination *d)
{
	const __u32 *asker = f->ip.saddr.in6_u.u6_addr32;
	bool duplicate_detection = !(asker[0] | asker[1] | asker[2] | asker[3]);

	if (duplicate_detection) { /* to all nodes, not solicited: RFC 4861 section 7.2.4 */
		f->ip.daddr = (struct in6_addr){ .in6_u.u6_addr8 = { 0xff, 2, [15] = 1 } };
		__builtin_memcpy(f->eth.h_dest, "\x33\x33\0\0\0\x01", ETH_ALEN);
	} else {
		f->ip.daddr = f->ip.saddr;
		copy_mac(f->eth.h_dest, p->eth.h_source);
	}
	__builtin_memcpy(&f->ip.saddr, &f->nd.target, sizeof(f->ip.saddr));
	copy_mac(f->eth.h_source, d->owner.bytes);
	f->ip.payload_len = bpf_htons(sizeof(f->nd));
	f->nd.type = ND_ADVERTISEMENT;
	f->nd.checksum = 0;
	f->nd.flags = ND_OVERRIDE | (duplicate_detection ? 0 : ND_SOLICITED) |
		      (d->owner_routes ? ND_ROUTER : 0);
	__builtin_memset(f->nd.reserved, 0, sizeof(f->nd.reserved));
	f->nd.option_type = ND_TARGET_MAC;
	f->nd.option_len = 1;
	copy_mac(f->nd.option_mac, d->owner.bytes);
	f->nd.checksum = nd_checksum(f);
}

/* change_tail refuses what came out of a tunnel over a virtual wire; every byte is written anew anyway. */
INLINE long resize_to_nd(struct __sk_buff *ctx)
{
	const int len = sizeof(struct nd_frame);

	if ((int)ctx->len == len || bpf_skb_change_tail(ctx, len, 0) == 0)
		return 0;
	return bpf_skb_adjust_room(ctx, len - (int)ctx->len, BPF_ADJ_ROOM_MAC, 0);
}

INLINE bool write_advertisement(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
				const struct destination *d)
{
	struct nd_frame *f = (struct nd_frame *)(w->bytes + FRAME_AT);
	struct packet *r = &w->reply;

	_Static_assert(sizeof(*f) + FRAME_AT <= sizeof(w->bytes), "an answer fits the scratch");
	if (!is_solicitation(ctx, f, 0))
		return false;
	turn_nd(f, p, d);
	if (resize_to_nd(ctx) < 0 || bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return false;
	begin_reply(r, p, NULL);
	r->eth = f->eth;
	r->tos = p->tos;
	r->len = r->segment_len = sizeof(*f);
	r->l4_offset = ETH_HLEN + sizeof(f->ip);
	__builtin_memcpy(&r->flow.source, &f->ip.saddr, sizeof(f->ip.saddr));
	__builtin_memcpy(&r->flow.dest, &f->ip.daddr, sizeof(f->ip.daddr));
	r->flow.protocol = IPPROTO_ICMPV6;
	return true;
}

#define QUOTE_V4 548 /* what makes it as long as every host takes at least: 576, 1280 */
#define QUOTE_V6 1232
#define REPLY_MOST (ETH_HLEN + 40 + ICMP_LEN + QUOTE_V6)

/*
 * The length of an skb that came out of a tunnel and keeps the kernel's mark of one, as it does on virtual wires:
 * change_tail refuses it. Its front goes, and comes back as long as it should be. So ends a checksum that a device
 * should fill in; the sender of what may keep it is told nothing.
 */
INLINE long resize_marked(struct __sk_buff *ctx, const struct packet *p, __u32 len)
{
	__u32 cut = ctx->len - LEAST_FRAME;

	if (p->gso_size || ctx->len <= LEAST_FRAME || cut > 0xfff || len < LEAST_FRAME ||
	    may_keep_checksum(ctx, p, ctx->len))
		return -1;
	if (bpf_skb_adjust_room(ctx, -(int)cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_DECAP_L3_IPV4) < 0)
		return -1;
	return bpf_skb_adjust_room(ctx, len - LEAST_FRAME, BPF_ADJ_ROOM_MAC, 0);
}

/* The frame of the answer takes the place of the skb's, and none of its offloads. */
INLINE long replace_frame(struct __sk_buff *ctx, const struct packet *p, const __u8 *frame, __u32 len)
{
	/*
	 * Segmentation ends with change_tail. A checksum that a device should fill in (CHECKSUM_PARTIAL) ends only
	 * when its place is cut off (skb_postpull_rcsum), so these bytes go from the front.
	 */
	const __u32 cut = 256;

	if (len < ETH_HLEN || len > REPLY_MOST)
		return -1;
	if (bpf_skb_change_tail(ctx, len + cut, 0) < 0) {
		if (resize_marked(ctx, p, len) < 0)
			return -1;
	} else if (bpf_skb_adjust_room(ctx, -(int)cut, BPF_ADJ_ROOM_MAC, 0) < 0) {
		return -1;
	}
	return bpf_skb_store_bytes(ctx, 0, frame, len, 0);
}

/* Ethernet and IP header of the reply; `len` bytes follow. Returns where. */
INLINE __u32 write_ip(struct scratch *w, __u8 protocol, __u32 len)
{
	__u8 *frame = w->bytes + FRAME_AT;
	struct packet *r = &w->reply;
	struct ipv6hdr *ip6 = (struct ipv6hdr *)(frame + ETH_HLEN);
	struct iphdr *ip = (struct iphdr *)(frame + ETH_HLEN);

	r->flow.protocol = protocol;
	__builtin_memcpy(frame, &r->eth, ETH_HLEN);
	if (!has_ipv4(r)) {
		*(__be32 *)ip6 = bpf_htonl(6u << 28); /* version; no traffic class or flow label */
		ip6->payload_len = bpf_htons(len);
		ip6->nexthdr = protocol;
		ip6->hop_limit = REPLY_TTL;
		put_addresses(frame + ETH_HLEN, r);
		r->l4_offset = ETH_HLEN + sizeof(*ip6);
		return r->l4_offset;
	}
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(sizeof(*ip) + len);
	ip->ttl = REPLY_TTL;
	ip->protocol = protocol;
	put_addresses(frame + ETH_HLEN, r);
	ip->check = ~csum_ipv4_header(ip);
	r->l4_offset = ETH_HLEN + sizeof(*ip);
	return r->l4_offset;
}

/* Sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1). */
INLINE __u32 pseudo_sum(struct packet *r, __u32 len)
{
	__u32 sum = bpf_htons(len) + bpf_htons(r->flow.protocol);

	if (!has_ipv4(r))
		return bpf_csum_diff(NULL, 0, r->flow.words, 2 * sizeof(struct addr), sum);
	sum = bpf_csum_diff(NULL, 0, &r->flow.words[3], sizeof(__be32), sum);
	return bpf_csum_diff(NULL, 0, &r->flow.words[7], sizeof(__be32), sum);
}

/* ipv4: a constant in each call. Returns the length of the frame; 0: it failed. */
INLINE __u32 write_error_of(struct __sk_buff *ctx, struct scratch *w, const struct packet *about,
			    const struct destination *d, bool ipv4)
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

INLINE __u32 write_error(struct __sk_buff *ctx, struct scratch *w, const struct packet *about,
			 const struct destination *d)
{
	return has_ipv4(about) ? write_error_of(ctx, w, about, d, true) :
				 write_error_of(ctx, w, about, d, false);
}

/* The TCP header that a reset is about; false: it is not whole. */
INLINE bool read_tcp_about(struct __sk_buff *ctx, const struct packet *about, struct tcp_header *tcp)
{
	return about->l4_offset + sizeof(*tcp) <= ETH_HLEN + about->ip_len &&
	       bpf_skb_load_bytes(ctx, about->l4_offset, tcp, sizeof(*tcp)) == 0;
}

/* RFC 9293 section 3.10.7.1. */
INLINE __u32 write_reset(struct scratch *w, const struct packet *about, const struct tcp_header *tcp)
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
	w->reply.flow.source_port = reset.source;
	w->reply.flow.dest_port = reset.dest;
	at = write_ip(w, IPPROTO_TCP, sizeof(reset));
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&reset, sizeof(reset),
			    pseudo_sum(&w->reply, sizeof(reset)));
	reset.checksum = ~csum_fold(sum);
	__builtin_memcpy(w->bytes + FRAME_AT + at, &reset, sizeof(reset));
	return at + sizeof(reset);
}
