/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet before routers and nat changed it. What they write is written at once, so what an answer is about
 * and what the segmenter gets has to be kept: struct packet and the headers, in the per-CPU scratch. Used by
 * route.h, nat.h, answer.h and segmenter.h.
 */
#pragma once

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "vlan.h"

#define ETHERTYPE_IPV4 bpf_htons(ETH_P_IP)
#define ETHERTYPE_IPV6 bpf_htons(ETH_P_IPV6)

#define IPV4_TTL 8
#define IPV4_CHECKSUM 10
#define IPV6_HOP_LIMIT 7

/* What a sender is told, struct packet.told: an ICMP error by its types and codes, or one of these. */
#define ICMP_ERROR(type, code, type6, code6) ((type) << 24 | (code) << 16 | (type6) << 8 | (code6))
#define TELL_RESET 1
#define TELL_NO_ROUTE ICMP_ERROR(3, 0, 1, 0)
#define TELL_NO_NEIGHBOUR ICMP_ERROR(3, 1, 1, 3)
#define TELL_NO_PORT ICMP_ERROR(3, 3, 1, 4)
#define TELL_TOO_BIG ICMP_ERROR(3, 4, 2, 0)
#define TELL_PROHIBITED ICMP_ERROR(3, 13, 1, 1)
#define TELL_TTL_EXCEEDED ICMP_ERROR(11, 0, 3, 0)

static __always_inline bool has_ipv4(const struct packet *p)
{
	return p->eth.h_proto == ETHERTYPE_IPV4;
}

/* As it came, for whoever tells its sender about it. */
static __always_inline struct packet *as_it_came(struct scratch *w, struct packet *p)
{
	return p->kept ? &w->came : p;
}

/* The IP header as it is now, in scratch.ip; of a packet that nobody changed yet it is kept. */
static __always_inline long read_ip(struct __sk_buff *ctx, struct scratch *w, struct packet *p)
{
	long failed = has_ipv4(p) ? bpf_skb_load_bytes(ctx, ETH_HLEN, w->ip, sizeof(struct iphdr)) :
				    bpf_skb_load_bytes(ctx, ETH_HLEN, w->ip, sizeof(struct ipv6hdr));

	if (!p->kept) {
		w->came = *p;
		__builtin_memcpy(w->came_ip, w->ip, sizeof(w->came_ip));
		p->kept = true;
	}
	return failed;
}

/* A checksum over a word that changes (RFC 1624); whatever was wrong with it stays wrong. */
static __always_inline __u16 csum_update(__u16 checksum, __u16 old, __u16 new)
{
	return ~csum_fold((__u32)(__u16)~checksum + (__u16)~old + new);
}

static __always_inline __u8 get_ttl(const struct packet *p, const __u8 *ip)
{
	return has_ipv4(p) ? ip[IPV4_TTL] : ip[IPV6_HOP_LIMIT];
}

/* In a header that begins at ip. */
static __always_inline void set_ttl(bool ipv4, __u8 *ip, __u8 ttl)
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

/*
 * Writes an IP header and p->eth before it. skb->csum does not cover the Ethernet header, and the sum over an
 * IPv4 header is the same before and after; only IPv6 changes it.
 */
static __always_inline long store_headers(struct __sk_buff *ctx, const struct packet *p,
					  const __u8 *ip)
{
	if (bpf_skb_store_bytes(ctx, 0, &p->eth, ETH_HLEN, 0) < 0)
		return -1;
	if (has_ipv4(p))
		return bpf_skb_store_bytes(ctx, ETH_HLEN, ip, sizeof(struct iphdr), 0);
	return bpf_skb_store_bytes(ctx, ETH_HLEN, ip, sizeof(struct ipv6hdr), BPF_F_RECOMPUTE_CSUM);
}

/* What nat is going to change of a packet from the leg. */
static __always_inline long keep(struct __sk_buff *ctx, struct scratch *w, struct packet *p)
{
	__u32 len = ETH_HLEN + p->ip_len - p->l4_offset;

	if (read_ip(ctx, w, p) < 0)
		return -1;
	p->translated = true;
	KEEP_BOUNDS(len);
	if (len > sizeof(w->came_l4))
		len = sizeof(w->came_l4);
	if (!len || bpf_skb_load_bytes(ctx, p->l4_offset, w->came_l4, len) < 0)
		return 0;
	p->kept_l4 = len;
	return 0;
}

/* The bytes as they came. Global, for there are several places that ask for it. */
__noinline int restore(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	__u32 len;

	if (!w || !p || !p->kept)
		return 0;
	len = p->kept_l4;
	KEEP_BOUNDS(len);
	if (len > sizeof(w->came_l4))
		return -1;
	if (len &&
	    bpf_skb_store_bytes(ctx, w->came.l4_offset, w->came_l4, len, BPF_F_RECOMPUTE_CSUM) < 0)
		return -1;
	return p->routed || p->translated ? store_headers(ctx, &w->came, w->came_ip) : 0;
}

/* Only a router says so. mtu: of the largest IP packet that would pass. */
static __always_inline int too_big(struct packet *p, __u32 mtu)
{
	if (p->router) {
		p->told = TELL_TOO_BIG;
		p->told_rest = mtu < 0xffff ? mtu : 0xffff;
	}
	return DROP(PKT_TOO_BIG);
}
