/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage arp_nd: answers a broadcast ARP request (RFC 826) or a multicast neighbour solicitation
 * (RFC 4861 section 7.2) on the spot where the fabric knows the address, so that it never crosses the
 * underlay. Never for an address that the asking port owns (duplicate address detection, RFC 5227 and
 * RFC 4862); unicast probes go to the real owner, which may be gone, but those for a router. Between learn and
 * l2_lookup; from the underlay and on a leg for routers' addresses only.
 */
#pragma once

#include "answer_bytes.h"
#include "decap.h"

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

/* What the answer says. */
struct owner_found {
	struct mac mac;
	__u16 is_router;
};

static __always_inline bool find_owner_on_leg(const struct packet *p, const struct addr *addr,
					      struct owner_found *found)
{
	struct leg_address_key key = { .ifindex = p->source.ifindex, .addr = *addr };
	__u32 *id = bpf_map_lookup_elem(&leg_addresses, &key);
	struct router *r = id ? bpf_map_lookup_elem(&routers, id) : NULL;

	/* leg_in has seen that it is for everybody, or for the leg. */
	if (!r)
		return false;
	found->mac = r->leg_mac;
	found->is_router = true;
	return true;
}

/* Whose address it is, if this is to be answered here. */
static __always_inline bool find_owner(const struct packet *p, const struct addr *addr,
				       struct owner_found *found)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = *addr };
	struct neighbour *n;

	if (p->hook == HOOK_FROM_LEG)
		return find_owner_on_leg(p, addr, found);
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n)
		return false;
	/* A router is asked directly too: nobody else could answer. */
	if (!is_group(p->eth.h_dest) &&
	    !(n->flags & NEIGHBOUR_INTERFACE && same_mac(p->eth.h_dest, n->mac.bytes)))
		return false;
	if (is_from_underlay(p) ? !(n->flags & NEIGHBOUR_GATEWAY) : n->key == p->source_key)
		return false;
	found->mac = n->mac;
	found->is_router = !!(n->flags & (NEIGHBOUR_ROUTER | NEIGHBOUR_INTERFACE));
	return true;
}

static __always_inline bool is_arp_request(const struct arp_ipv4 *arp)
{
	return arp->hardware_type == bpf_htons(ARP_ETHERNET) &&
	       arp->protocol_type == ETHERTYPE_IPV4 && arp->hardware_len == ETH_ALEN &&
	       arp->protocol_len == 4 && arp->operation == bpf_htons(ARP_REQUEST);
}

struct arp_frame {
	struct ethhdr eth;
	struct arp_ipv4 arp;
};

static __always_inline int answer_arp(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	struct owner_found owner = {};
	struct addr target;
	struct arp_frame *f;
	__be32 ip;

	if (!w)
		return 0;
	f = (struct arp_frame *)(w->answer + ANSWER_AT);
	if (bpf_skb_load_bytes(ctx, p->offset + ETH_HLEN, &f->arp, sizeof(f->arp)) < 0 ||
	    !is_arp_request(&f->arp))
		return 0;
	__builtin_memcpy(&ip, f->arp.target_ip, sizeof(ip));
	target = mapped_v4(ip);
	if (!find_owner(p, &target, &owner))
		return 0;
	if (p->offset && decap(ctx, p) < 0)
		return DROP(DECAP_FAILED);

	__builtin_memcpy(f->eth.h_dest, f->arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, owner.mac.bytes, ETH_ALEN);
	f->eth.h_proto = p->eth.h_proto;
	f->arp.operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(f->arp.target_mac, f->arp.sender_mac, ETH_ALEN);
	__builtin_memcpy(f->arp.target_ip, f->arp.sender_ip, 4);
	__builtin_memcpy(f->arp.sender_mac, owner.mac.bytes, ETH_ALEN);
	__builtin_memcpy(f->arp.sender_ip, &ip, 4);
	if (bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return DROP(ENCAP_FAILED);
	begin_reply(w, p, &target);
	w->reply.eth = f->eth;
	w->reply.len = w->reply.segment_len = p->len;
	w->reply.flow = (struct flow){}; /* of a frame that is not IP: its header */
	__builtin_memcpy(&w->reply.flow, &f->eth, ETH_HLEN);
	return VERDICT_ANSWER;
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

static __always_inline bool is_solicitation(struct __sk_buff *ctx, struct nd_frame *f, __u32 at)
{
	if (bpf_skb_load_bytes(ctx, at, f, sizeof(*f) - 8) < 0)
		return false;
	return f->ip.nexthdr == IPPROTO_ICMPV6 && f->ip.hop_limit == ND_HOP_LIMIT &&
	       bpf_ntohs(f->ip.payload_len) >= ND_SOLICITATION_LEN && f->nd.type == ND_SOLICITATION &&
	       f->nd.code == 0 && f->nd.target.bytes[0] != 0xff && !is_mapped_v4(&f->nd.target);
}

/* The advertisement, written over the solicitation. */
static __always_inline void turn_nd(struct nd_frame *f, const struct packet *p,
				    const struct owner_found *owner)
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
	__builtin_memcpy(f->eth.h_source, owner->mac.bytes, ETH_ALEN);
	f->ip.payload_len = bpf_htons(sizeof(f->nd));
	f->nd.type = ND_ADVERTISEMENT;
	f->nd.checksum = 0;
	f->nd.flags = ND_OVERRIDE | (duplicate_detection ? 0 : ND_SOLICITED) |
		      (owner->is_router ? ND_ROUTER : 0);
	__builtin_memset(f->nd.reserved, 0, sizeof(f->nd.reserved));
	f->nd.option_type = ND_TARGET_MAC;
	f->nd.option_len = 1;
	__builtin_memcpy(f->nd.option_mac, owner->mac.bytes, ETH_ALEN);
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

static __always_inline int answer_nd(struct __sk_buff *ctx, struct packet *p)
{
	struct owner_found owner = {};
	struct scratch *w = get_scratch();
	struct nd_frame *f;
	struct packet *r;

	if (!w)
		return 0;
	_Static_assert(sizeof(*f) + ANSWER_AT <= sizeof(w->answer), "an answer fits the scratch");
	f = (struct nd_frame *)(w->answer + ANSWER_AT);
	if (!is_solicitation(ctx, f, p->offset) || !find_owner(p, &f->nd.target, &owner))
		return 0;
	/* decap may have changed its ECN. */
	if (p->offset && (decap(ctx, p) < 0 || !is_solicitation(ctx, f, 0)))
		return DROP(DECAP_FAILED);
	turn_nd(f, p, &owner);
	if (resize_to_nd(ctx) < 0 || bpf_skb_store_bytes(ctx, 0, f, sizeof(*f), 0) < 0)
		return DROP(ENCAP_FAILED);
	begin_reply(w, p, &f->nd.target);
	r = &w->reply;
	r->eth = f->eth;
	r->tos = p->tos;
	r->len = r->segment_len = sizeof(*f);
	r->l4_offset = ETH_HLEN + sizeof(f->ip);
	r->l4_proto = IPPROTO_ICMPV6;
	__builtin_memcpy(&r->flow.words[4], &f->ip.daddr, sizeof(f->ip.daddr));
	r->flow.words[9] = IPPROTO_ICMPV6;
	return VERDICT_ANSWER;
}

/* VERDICT_ANSWER when the skb is the answer, which main sends back; 0 to go on. Global: few packets are questions. */
__noinline int answer_question(struct __sk_buff *ctx, struct packet *p)
{
	if (!p)
		return 0;
	return p->l4_offset ? answer_nd(ctx, p) : answer_arp(ctx, p);
}

/* The stage: what may be a question. */
static __always_inline int arp_nd(struct __sk_buff *ctx, struct packet *p)
{
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP) ||
	    (p->l4_proto == IPPROTO_ICMPV6 && p->eth.h_proto == ETHERTYPE_IPV6))
		return answer_question(ctx, p);
	return 0;
}
