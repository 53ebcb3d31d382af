/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage arp_nd: answers a broadcast ARP request (RFC 826) or a multicast neighbour solicitation
 * (RFC 4861 section 7.2) on the spot where the fabric knows the address, so that it never crosses the
 * underlay. Never for an address that the asking port owns (duplicate address detection, RFC 5227 and
 * RFC 4862); unicast probes go to the real owner, which may be gone. Between learn and l2_lookup.
 */
#pragma once

#include "parse.h"

#define ARP_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct arp_ipv4 {
	__be16 hardware_type;
	__be16 protocol_type;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_mac[6];
	__u8 sender_ip[4];
	__u8 target_mac[6];
	__u8 target_ip[4];
};

/* A neighbour solicitation or advertisement with one link-layer address option. */
struct nd_message {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__u8 flags;
	__u8 reserved[3];
	struct addr target;
	__u8 option_type;
	__u8 option_len; /* in units of 8 bytes */
	__u8 option_mac[6];
};

#define ND_SOLICITATION 135
#define ND_ADVERTISEMENT 136
#define ND_ROUTER 0x80
#define ND_SOLICITED 0x40
#define ND_OVERRIDE 0x20
#define ND_TARGET_MAC 2
#define ND_SOLICITATION_LEN 24
#define ND_HOP_LIMIT 255

static __always_inline struct neighbour *known_neighbour(const struct packet *p, struct addr addr)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = addr };
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, &key);

	return n && n->key != p->source_key ? n : NULL;
}

static __always_inline int answer(struct __sk_buff *ctx, struct packet *p)
{
	if (put_tag(ctx, p->in_tag) < 0)
		return DROP(ENCAP_FAILED);
	p->dest_key = p->source_key;
	report_device(p->source.ifindex);
	p->action = bpf_redirect(p->source.ifindex, 0);
	return VERDICT_ANSWER;
}

static __always_inline int answer_arp(struct __sk_buff *ctx, struct packet *p)
{
	const __be16 ethernet = bpf_htons(ARP_ETHERNET);
	struct {
		struct ethhdr eth;
		struct arp_ipv4 arp;
	} reply;
	struct arp_ipv4 request;
	struct neighbour *n;
	__be32 target;

	if (!is_group(p->eth.h_dest) ||
	    bpf_skb_load_bytes(ctx, p->offset + ETH_HLEN, &request, sizeof(request)) < 0 ||
	    request.hardware_type != ethernet || request.protocol_type != ETHERTYPE_IPV4 ||
	    request.hardware_len != ETH_ALEN || request.protocol_len != 4 ||
	    request.operation != bpf_htons(ARP_REQUEST))
		return 0;
	__builtin_memcpy(&target, request.target_ip, sizeof(target));
	n = known_neighbour(p, mapped_v4(target));
	if (!n)
		return 0;

	__builtin_memcpy(reply.eth.h_dest, request.sender_mac, ETH_ALEN);
	__builtin_memcpy(reply.eth.h_source, n->mac.bytes, ETH_ALEN);
	reply.eth.h_proto = p->eth.h_proto;
	reply.arp = request;
	reply.arp.operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(reply.arp.sender_mac, n->mac.bytes, ETH_ALEN);
	__builtin_memcpy(reply.arp.sender_ip, request.target_ip, 4);
	__builtin_memcpy(reply.arp.target_mac, request.sender_mac, ETH_ALEN);
	__builtin_memcpy(reply.arp.target_ip, request.sender_ip, 4);
	if (bpf_skb_store_bytes(ctx, 0, &reply, sizeof(reply), 0) < 0)
		return 0;
	return answer(ctx, p);
}

struct nd_frame {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct nd_message nd;
} __attribute__((packed));

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

static __always_inline bool is_solicitation(struct __sk_buff *ctx, struct nd_frame *f)
{
	if (bpf_skb_load_bytes(ctx, 0, f, sizeof(*f) - 8) < 0)
		return false;
	return f->ip.nexthdr == IPPROTO_ICMPV6 && f->ip.hop_limit == ND_HOP_LIMIT &&
	       bpf_ntohs(f->ip.payload_len) >= ND_SOLICITATION_LEN && f->nd.type == ND_SOLICITATION &&
	       f->nd.code == 0 && f->nd.target.bytes[0] != 0xff && !is_mapped_v4(&f->nd.target);
}

static __always_inline int answer_nd(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	struct nd_frame *f;
	struct neighbour *n;
	bool duplicate_detection;

	if (!w || !is_group(p->eth.h_dest))
		return 0;
	_Static_assert(sizeof(*f) <= sizeof(w->answer), "an answer fits the scratch");
	f = (struct nd_frame *)w->answer;
	if (!is_solicitation(ctx, f))
		return 0;
	n = known_neighbour(p, f->nd.target);
	if (!n)
		return 0;

	duplicate_detection = !(f->ip.saddr.in6_u.u6_addr32[0] | f->ip.saddr.in6_u.u6_addr32[1] |
				f->ip.saddr.in6_u.u6_addr32[2] | f->ip.saddr.in6_u.u6_addr32[3]);
	if (duplicate_detection) { /* to all nodes, not solicited: RFC 4861 section 7.2.4 */
		f->ip.daddr = (struct in6_addr){ .in6_u.u6_addr8 = { 0xff, 2, [15] = 1 } };
		__builtin_memcpy(f->eth.h_dest, "\x33\x33\0\0\0\x01", ETH_ALEN);
	} else {
		f->ip.daddr = f->ip.saddr;
		__builtin_memcpy(f->eth.h_dest, p->eth.h_source, ETH_ALEN);
	}
	__builtin_memcpy(&f->ip.saddr, &f->nd.target, sizeof(f->ip.saddr));
	__builtin_memcpy(f->eth.h_source, n->mac.bytes, ETH_ALEN);
	f->ip.payload_len = bpf_htons(sizeof(f->nd));
	f->nd.type = ND_ADVERTISEMENT;
	f->nd.checksum = 0;
	f->nd.flags = ND_OVERRIDE | (duplicate_detection ? 0 : ND_SOLICITED) |
		      (n->flags & NEIGHBOUR_ROUTER ? ND_ROUTER : 0);
	__builtin_memset(f->nd.reserved, 0, sizeof(f->nd.reserved));
	f->nd.option_type = ND_TARGET_MAC;
	f->nd.option_len = 1;
	__builtin_memcpy(f->nd.option_mac, n->mac.bytes, ETH_ALEN);
	f->nd.checksum = nd_checksum(f);
	if (bpf_skb_change_tail(ctx, sizeof(*f), 0) < 0 ||
	    bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return 0;
	return answer(ctx, p);
}

/* VERDICT_ANSWER when answered, 0 to go on. */
static __always_inline int arp_nd(struct __sk_buff *ctx, struct packet *p)
{
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP))
		return answer_arp(ctx, p);
	if (p->l4_proto == IPPROTO_ICMPV6)
		return answer_nd(ctx, p);
	return 0;
}
