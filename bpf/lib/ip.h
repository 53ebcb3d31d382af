/* SPDX-License-Identifier: Apache-2.0 */
/* IP headers, and what changes in them. */
#pragma once

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "packet.h"

#define ETHERTYPE_IPV4 bpf_htons(ETH_P_IP)
#define ETHERTYPE_IPV6 bpf_htons(ETH_P_IPV6)

#define IP_DONT_FRAGMENT 0x4000
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_OFFSET 0xfff8
#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV4_ID 4
#define IPV4_TTL 8
#define IPV4_CHECKSUM 10
#define IPV6_HOP_LIMIT 7

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif

#define ECN_MASK 3

#define IPPROTO_OSPF 89 /* not in linux/in.h */

struct ipv6_fragment {
	__u8 next;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

#define ICMP_LEN 8

struct icmp_header {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 rest;
};

INLINE bool has_ipv4(const struct packet *p)
{
	return p->eth.h_proto == ETHERTYPE_IPV4;
}

INLINE bool is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_DSTOPTS;
}

/* Its extension headers do not end where they can be read: nobody knows what it carries. */
INLINE bool is_hidden(const struct packet *p)
{
	return !has_ipv4(p) && (p->l4_offset > ETH_HLEN + p->ip_len ||
				(p->fragment != LATER_FRAGMENT && is_extension(p->protocol)));
}

INLINE enum fragment fragment_of_ipv4(__be16 frag_off)
{
	if (frag_off & bpf_htons(IP_FRAGMENT_OFFSET))
		return LATER_FRAGMENT;
	return frag_off & bpf_htons(IP_MORE_FRAGMENTS) ? FIRST_FRAGMENT : NO_FRAGMENT;
}

INLINE bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

INLINE bool is_icmp(__u8 protocol, bool is_ipv4)
{
	return protocol == (is_ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

/* Of the checksum in a transport header, where that may change with an address or a port; 0: it has none that does. */
INLINE __u32 checksum_offset(__u8 protocol, bool ipv4)
{
	if (protocol == IPPROTO_TCP)
		return 16;
	if (protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE || protocol == IPPROTO_DCCP)
		return 6;
	if (!ipv4 && protocol == IPPROTO_PIM)
		return 2;
	if (!ipv4 && protocol == IPPROTO_OSPF)
		return 12;
	return is_icmp(protocol, ipv4) ? 2 : 0;
}

/* A checksum of 0 says that there is none (RFC 768), or is wrong (RFC 3828): no sum is written so. */
INLINE bool has_no_zero_sum(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
}

/* What a transport header has at least. */
INLINE __u32 least_len(__u8 protocol, bool is_ipv4)
{
	if (protocol == IPPROTO_TCP)
		return sizeof(struct tcphdr);
	if (protocol == IPPROTO_SCTP)
		return 12;
	return protocol == IPPROTO_UDP || is_icmp(protocol, is_ipv4) ? 8 : 0;
}

/* TCP or UDP right behind an IP header without options, no fragment. */
INLINE bool is_plain_l4(const struct packet *p)
{
	__u32 ip_len = has_ipv4(p) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	return (p->flow.protocol == IPPROTO_TCP || p->flow.protocol == IPPROTO_UDP) &&
	       p->l4_offset == ETH_HLEN + ip_len && !p->fragment;
}

/*
 * Longer than the port's device takes, if that can be said: nobody here knows the segments of super-packets other than
 * TCP and UDP.
 */
INLINE bool is_too_long_for(const struct packet *p, const struct port *port)
{
	return p->segment_len - ETH_HLEN > port->mtu &&
	       (!p->gso_size || p->flow.protocol == IPPROTO_TCP || p->flow.protocol == IPPROTO_UDP);
}

/* The IP header of a plain frame, into scratch.ip. */
INLINE long read_ip(struct __sk_buff *ctx, struct scratch *w, const struct packet *p)
{
	return has_ipv4(p) ? bpf_skb_load_bytes(ctx, ETH_HLEN, w->ip, sizeof(struct iphdr)) :
			     bpf_skb_load_bytes(ctx, ETH_HLEN, w->ip, sizeof(struct ipv6hdr));
}

/*
 * Writes scratch.ip and the Ethernet header before it. skb->csum does not cover the Ethernet header, and the sum over
 * an IPv4 header is the same before and after; only IPv6 changes it.
 */
INLINE long store_headers(struct __sk_buff *ctx, struct scratch *w, const struct ethhdr *eth)
{
	const __u32 ipv4_len = ETH_HLEN + sizeof(struct iphdr);

	_Static_assert(offsetof(struct scratch, ip) == offsetof(struct scratch, eth) + ETH_HLEN,
		       "one store writes both headers");
	copy_words(&w->eth, eth, ETH_HLEN);
	if (eth->h_proto == ETHERTYPE_IPV4)
		return bpf_skb_store_bytes(ctx, 0, &w->eth, ipv4_len, 0);
	if (bpf_skb_store_bytes(ctx, 0, &w->eth, ETH_HLEN, 0) < 0)
		return -1;
	return bpf_skb_store_bytes(ctx, ETH_HLEN, w->ip, sizeof(struct ipv6hdr),
				   BPF_F_RECOMPUTE_CSUM);
}

/* A checksum over a word that changes (RFC 1624); whatever was wrong with it stays wrong. */
INLINE __u16 csum_update(__u16 checksum, __u16 old, __u16 new)
{
	return ~csum_fold((__u32)(__u16)~checksum + (__u16)~old + new);
}

INLINE __u8 get_ttl(bool ipv4, const __u8 *ip)
{
	return ipv4 ? ip[IPV4_TTL] : ip[IPV6_HOP_LIMIT];
}

/* In a header that begins at ip. */
INLINE void set_ttl(bool ipv4, __u8 *ip, __u8 ttl)
{
	__u16 old, new;

	if (!ipv4) {
		ip[IPV6_HOP_LIMIT] = ttl;
		return;
	}
	old = *(__u16 *)(ip + IPV4_TTL);
	ip[IPV4_TTL] = ttl;
	new = *(__u16 *)(ip + IPV4_TTL);
	*(__u16 *)(ip + IPV4_CHECKSUM) = csum_update(*(__u16 *)(ip + IPV4_CHECKSUM), old, new);
}

/* The hash of the flow that parse found: for the source port of the tunnel and for next hops. */
INLINE void hash_flow(const struct settings *s, struct packet *p)
{
	p->flow_hash = flow_hash(p->flow.words, s->hash_seed);
}

/* What stands behind the IP packet is padding; a super-packet has its headers. */
INLINE bool has_ports_inside(const struct packet *p)
{
	return p->gso_size || p->l4_offset + sizeof(__be32) <= ETH_HLEN + p->ip_len;
}

/* An address that one host has (RFC 1122 section 3.2.2, RFC 4443 section 2.4). */
INLINE bool is_of_one_host(const struct addr *addr, bool ipv4)
{
	const __u32 *words = (const __u32 *)addr;
	__u8 first = addr->bytes[12];

	if (ipv4)
		return first && first != 127 && first < 224;
	return addr->bytes[0] != 0xff && !is_mapped_v4(addr) &&
	       (words[0] | words[1] | words[2] | (words[3] & ~bpf_htonl(1)));
}
