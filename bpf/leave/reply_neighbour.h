/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a question for a neighbour, written over it: d->owner has the address. Part of reply. */
#pragma once

#include "lib/neighbour.h"
#include "reply_error.h"

static __always_inline enum verdict write_arp_reply(struct __sk_buff *ctx, struct scratch *w,
						    const struct packet *p,
						    const struct destination *d)
{
	struct arp_frame *f = (struct arp_frame *)(w->bytes + FRAME_AT);
	struct packet *r = &w->reply;
	__be32 ip;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &f->arp, sizeof(f->arp)) < 0)
		return DROP(ENCAP_FAILED);
	__builtin_memcpy(&ip, f->arp.target_ip, sizeof(ip));
	__builtin_memcpy(f->eth.h_dest, f->arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, d->owner.bytes, ETH_ALEN);
	f->eth.h_proto = p->eth.h_proto;
	f->arp.operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(f->arp.target_mac, f->arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(f->arp.target_ip, f->arp.sender_ip, 4);
	__builtin_memcpy(f->arp.sender_mac, d->owner.bytes, ETH_ALEN);
	__builtin_memcpy(f->arp.sender_ip, &ip, 4);
	if (bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return DROP(ENCAP_FAILED);
	begin_reply(r, p, NULL);
	r->eth = f->eth;
	r->len = r->segment_len = p->len;
	r->flow = (struct flow){}; /* of a frame that is not IP: its header */
	__builtin_memcpy(&r->flow, &f->eth, ETH_HLEN);
	return GO_ON;
}

/* Checksum of an advertisement: pseudo header (RFC 8200 section 8.1) and message. */
static __always_inline __sum16 nd_checksum(const struct nd_frame *f)
{
	__u32 fixed = bpf_htons(sizeof(f->nd)) + bpf_htons(IPPROTO_ICMPV6);
	const __u16 *words = (const void *)&f->ip.saddr; /* both addresses, then the message */
	__u32 sum = fixed;

	for (unsigned long i = 0; i < (2 * sizeof(struct addr) + sizeof(f->nd)) / 2; i++)
		sum += words[i];
	return (__sum16)~csum_fold(sum);
}

/* The advertisement, written over the solicitation. */
static __always_inline void turn_nd(struct nd_frame *f, const struct packet *p,
				    const struct destination *d)
{
	const __u32 *asker = f->ip.saddr.in6_u.u6_addr32;
	bool duplicate_detection = !(asker[0] | asker[1] | asker[2] | asker[3]);

	if (duplicate_detection) { /* to all nodes, not solicited: RFC 4861 section 7.2.4 */
		f->ip.daddr = (struct in6_addr){ .in6_u.u6_addr8 = { 0xff, 2, [15] = 1 } };
		__builtin_memcpy(f->eth.h_dest, "\x33\x33\0\0\0\x01", ETH_ALEN);
	} else {
		f->ip.daddr = f->ip.saddr;
		__builtin_memcpy(f->eth.h_dest, p->eth.h_source, ETH_ALEN);
	}
	__builtin_memcpy(&f->ip.saddr, &f->nd.target, sizeof(f->ip.saddr));
	__builtin_memcpy(f->eth.h_source, d->owner.bytes, ETH_ALEN);
	f->ip.payload_len = bpf_htons(sizeof(f->nd));
	f->nd.type = ND_ADVERTISEMENT;
	f->nd.checksum = 0;
	f->nd.flags = ND_OVERRIDE | (duplicate_detection ? 0 : ND_SOLICITED) |
		      (d->owner_routes ? ND_ROUTER : 0);
	__builtin_memset(f->nd.reserved, 0, sizeof(f->nd.reserved));
	f->nd.option_type = ND_TARGET_MAC;
	f->nd.option_len = 1;
	__builtin_memcpy(f->nd.option_mac, d->owner.bytes, ETH_ALEN);
	f->nd.checksum = nd_checksum(f);
}

/* change_tail refuses what came out of a tunnel over a virtual wire; every byte is written anew anyway. */
static __always_inline long resize_to_nd(struct __sk_buff *ctx)
{
	const int len = sizeof(struct nd_frame);

	if ((int)ctx->len == len || bpf_skb_change_tail(ctx, len, 0) == 0)
		return 0;
	return bpf_skb_adjust_room(ctx, len - (int)ctx->len, BPF_ADJ_ROOM_MAC, 0);
}

static __always_inline enum verdict write_advertisement(struct __sk_buff *ctx, struct scratch *w,
							const struct packet *p,
							const struct destination *d)
{
	struct nd_frame *f = (struct nd_frame *)(w->bytes + FRAME_AT);
	struct packet *r = &w->reply;

	_Static_assert(sizeof(*f) + FRAME_AT <= sizeof(w->bytes), "an answer fits the scratch");
	if (!is_solicitation(ctx, f, 0))
		return DROP(ENCAP_FAILED);
	turn_nd(f, p, d);
	if (resize_to_nd(ctx) < 0 || bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return DROP(ENCAP_FAILED);
	begin_reply(r, p, &f->nd.target);
	r->eth = f->eth;
	r->tos = p->tos;
	r->len = r->segment_len = sizeof(*f);
	r->l4_offset = ETH_HLEN + sizeof(f->ip);
	__builtin_memcpy(&r->flow.words[4], &f->ip.daddr, sizeof(f->ip.daddr));
	r->flow.words[9] = IPPROTO_ICMPV6;
	return GO_ON;
}
