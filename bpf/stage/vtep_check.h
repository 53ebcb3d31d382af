/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage vtep_check: is this packet a tunnel packet for us, whole, from a VTEP of the fabric? What is not addressed to
 * our tunnel port stays with the host (VERDICT_TO_HOST), and so does all where the uplink is gone.
 */
#pragma once

#include "lib/devices.h"
#include "lib/ip.h"
#include "lib/outer.h"

/* The UDP header behind an IP header. */
INLINE bool is_to_tunnel(struct __sk_buff *ctx, const struct outer_view *o, __u32 at,
			 struct udphdr *udp)
{
	return load_bytes(ctx, at, udp, sizeof(*udp)) == 0 && udp->dest == o->port;
}

INLINE enum verdict check_lengths(struct __sk_buff *ctx, struct outer_view *o, __u32 udp_at,
				  const struct udphdr *udp, __u32 ip_payload_len)
{
	__u32 udp_len = bpf_ntohs(udp->len);

	o->tunnel = udp_at + sizeof(*udp);
	o->source_port = udp->source;
	o->end = udp_at + udp_len;
	if (udp_len != ip_payload_len || udp_len < sizeof(*udp) || o->end > ctx->len)
		return DROP(OUTER_LENGTH);
	return GO_ON;
}

INLINE enum verdict check_ipv4(struct __sk_buff *ctx, const struct settings *s, struct outer_view *o)
{
	__u32 header_len, udp_at;
	struct udphdr udp;
	struct iphdr ip;

	if (load_bytes(ctx, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return VERDICT_TO_HOST;
	header_len = ip.ihl * 4;
	o->source = mapped_v4(ip.saddr);
	o->tos = ip.tos;
	o->is_icmp = ip.protocol == IPPROTO_ICMP;
	if (ip.version != 4 || header_len < sizeof(ip) || ip.protocol != IPPROTO_UDP ||
	    ip.frag_off & bpf_htons(IP_FRAGMENT_OFFSET) ||
	    __builtin_memcmp(&ip.daddr, &s->vtep.bytes[12], sizeof(ip.daddr)))
		return VERDICT_TO_HOST;
	udp_at = ETH_HLEN + header_len;
	if (!is_to_tunnel(ctx, o, udp_at, &udp))
		return VERDICT_TO_HOST;

	if (ip.frag_off & bpf_htons(IP_MORE_FRAGMENTS))
		return DROP(OUTER_FRAGMENT);
	if (header_len == sizeof(ip) && csum_ipv4_header(&ip) != 0xffff)
		return DROP(OUTER_IP_CSUM);
	/* One that is shorter than its own header leaves a length that UDP cannot have. */
	return check_lengths(ctx, o, udp_at, &udp, bpf_ntohs(ip.tot_len) - header_len);
}

INLINE enum verdict check_ipv6(struct __sk_buff *ctx, const struct settings *s, struct outer_view *o)
{
	__u32 udp_at = ETH_HLEN + sizeof(struct ipv6hdr);
	struct ipv6_fragment fragment = {};
	struct udphdr udp;
	struct ipv6hdr ip;

	if (load_bytes(ctx, ETH_HLEN, &ip, sizeof(ip)) < 0)
		return VERDICT_TO_HOST;
	__builtin_memcpy(&o->source, &ip.saddr, sizeof(o->source));
	o->tos = ip.priority << 4 | ip.flow_lbl[0] >> 4;
	o->is_icmp = ip.nexthdr == IPPROTO_ICMPV6;
	if (ip.version != 6 || __builtin_memcmp(&ip.daddr, &s->vtep, sizeof(ip.daddr)))
		return VERDICT_TO_HOST;
	if (ip.nexthdr == IPPROTO_FRAGMENT) {
		if (load_bytes(ctx, udp_at, &fragment, sizeof(fragment)) < 0 ||
		    fragment.next != IPPROTO_UDP || fragment.offset & bpf_htons(0xfff8))
			return VERDICT_TO_HOST;
		udp_at += sizeof(fragment);
	} else if (ip.nexthdr != IPPROTO_UDP) {
		return VERDICT_TO_HOST;
	}
	if (!is_to_tunnel(ctx, o, udp_at, &udp))
		return VERDICT_TO_HOST;

	if (ip.nexthdr == IPPROTO_FRAGMENT)
		return DROP(OUTER_FRAGMENT);
	return check_lengths(ctx, o, udp_at, &udp, bpf_ntohs(ip.payload_len));
}

/*
 * What is no tunnel packet of ours stays with the host. Who sent it, from_remote() says. Global, so that the verifier
 * checks it once.
 */
__noinline enum verdict vtep_check(struct __sk_buff *ctx, struct outer_view *o)
{
	struct settings *s = get_settings();
	enum verdict result;

	if (!s || !o)
		return VERDICT_TO_HOST;
	if (ctx->protocol != (s->family == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6))
		return VERDICT_TO_HOST;
	result = s->family == 4 ? check_ipv4(ctx, s, o) : check_ipv6(ctx, s, o);
	return hook_is_there(ctx, &o->changes) ? result : VERDICT_TO_HOST;
}

/* Of a packet to the tunnel's port, which vtep_check() has seen. */
INLINE enum verdict from_remote(const struct settings *s, struct outer_view *o)
{
	struct remote *r = bpf_map_lookup_elem(&remotes, &o->source);

	if (!r && s->port_shared)
		return VERDICT_TO_HOST;
	if (o->checked != GO_ON)
		return o->checked;
	if (!r)
		return DROP(UNKNOWN_VTEP);
	o->counters = r->counters;
	return GO_ON;
}
