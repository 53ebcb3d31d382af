/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that keep a link going, in their exact form: what looks so and is not gets no exemption. Of a plain frame.
 */
#pragma once

#include "neighbour.h"

#define ND_ROUTER_SOLICITATION 133
#define ND_ROUTER_ADVERTISEMENT 134
#define ND_REDIRECT 137

#define MLD_QUERY 130
#define MLD_REPORT 131
#define MLD_DONE 132
#define MLDV2_REPORT 143

#define IGMP_V1_REPORT 0x12
#define IGMP_V2_REPORT 0x16
#define IGMP_LEAVE 0x17
#define IGMP_V3_REPORT 0x22

INLINE bool is_nd(__u8 type)
{
	return type >= ND_ROUTER_SOLICITATION && type <= ND_REDIRECT;
}

INLINE bool is_mld(__u8 type)
{
	return (type >= MLD_QUERY && type <= MLD_DONE) || type == MLDV2_REPORT;
}

/* Next header and hop limit of an IPv6 header. */
struct ipv6_middle {
	__u8 next;
	__u8 hop_limit;
};

INLINE bool read_ipv6_middle(struct __sk_buff *ctx, struct ipv6_middle *middle)
{
	return bpf_skb_load_bytes(ctx, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), middle,
				  sizeof(*middle)) == 0;
}

INLINE bool is_link_local_v6(const struct addr *addr)
{
	return addr->bytes[0] == 0xfe && (addr->bytes[1] & 0xc0) == 0x80;
}

/* A hop-by-hop header of 8 bytes with the router alert option for MLD (RFC 2711), alone or behind padding. */
INLINE bool has_router_alert(struct __sk_buff *ctx)
{
	__u8 h[8];

	if (bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(struct ipv6hdr), h, sizeof(h)) < 0)
		return false;
	if (h[2] == 5)
		return !((h[3] ^ 2) | h[4] | h[5]);
	return h[2] <= 1 && !(h[3] | (h[4] ^ 5) | (h[5] ^ 2) | h[6] | h[7]);
}

/* Whether a message has the bytes that one of its type has at least. */
INLINE bool is_whole_message(const struct packet *p, __u32 least)
{
	return p->l4_offset + least <= ETH_HLEN + p->ip_len;
}

/* MLD of this type, in the form that RFC 2710 section 3 and RFC 3810 section 5 ask for. */
INLINE bool is_proper_mld(struct __sk_buff *ctx, const struct packet *p, __u8 type)
{
	const struct addr *from = &p->flow.source;
	struct ipv6_middle ip;

	return p->l4_offset == ETH_HLEN + sizeof(struct ipv6hdr) + 8 && !p->fragment && !p->atomic &&
	       is_whole_message(p, type == MLDV2_REPORT ? 8 : 24) &&
	       (is_zero(from) ? type != MLD_QUERY : is_link_local_v6(from)) &&
	       p->flow.dest.bytes[0] == 0xff && is_group(p->eth.h_dest) &&
	       read_ipv6_middle(ctx, &ip) && ip.next == IPPROTO_HOPOPTS && ip.hop_limit == 1 &&
	       has_router_alert(ctx);
}

/* Length of the fixed part of a message, where its options begin; 0: none that are checked. */
INLINE __u32 nd_fixed_len(__u8 type)
{
	switch (type) {
	case ND_ROUTER_SOLICITATION:
		return 8;
	case ND_ROUTER_ADVERTISEMENT:
		return 16;
	case ND_SOLICITATION:
	case ND_ADVERTISEMENT:
		return 24;
	case ND_REDIRECT:
		return 40;
	}
	return 0;
}

/* They come from the router's link-local address (RFC 4861 sections 6.1.2 and 8.1). */
INLINE bool is_routers_message(__u8 type)
{
	return type == ND_ROUTER_ADVERTISEMENT || type == ND_REDIRECT;
}

/* Neighbour discovery that did not come over a router. */
INLINE bool is_proper_nd(struct __sk_buff *ctx, const struct packet *p)
{
	struct ipv6_middle ip;

	return !p->fragment && !p->atomic && read_ipv6_middle(ctx, &ip) &&
	       ip.hop_limit == ND_HOP_LIMIT;
}

/* The same of a type, in the form that RFC 4861 asks for before its options. */
INLINE bool is_proper_nd_of(struct __sk_buff *ctx, const struct packet *p, __u8 type)
{
	return is_proper_nd(ctx, p) && is_whole_message(p, nd_fixed_len(type)) &&
	       (!is_routers_message(type) || is_link_local_v6(&p->flow.source));
}

/* Who joins or leaves a group, before it has an address (RFC 3376 section 4.2.13). */
INLINE bool is_igmp_report(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 ttl, type;

	if (p->protocol != IPPROTO_IGMP || p->fragment || !is_group(p->eth.h_dest) ||
	    (p->flow.dest.bytes[12] & 0xf0) != 0xe0 ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN + IPV4_TTL, &ttl, sizeof(ttl)) < 0 || ttl != 1 ||
	    bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) < 0)
		return false;
	return type == IGMP_V1_REPORT || type == IGMP_V2_REPORT || type == IGMP_LEAVE ||
	       type == IGMP_V3_REPORT;
}
