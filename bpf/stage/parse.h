/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage parse: reads one Ethernet frame, at the start of the skb (from port) or inside a tunnel packet (from
 * underlay), and fills struct packet.
 */
#pragma once

#include "lib/extensions.h"
#include "lib/vlan.h"

#define MAX_LEN_WITH_JUMBO 65536 /* GRO_LEGACY_MAX_SIZE */

/* Ports of the flow and, for a super-packet, the length of the headers each segment repeats. */
INLINE void parse_l4(struct __sk_buff *ctx, struct packet *p)
{
	__u32 at = p->offset + p->l4_offset, header_len = sizeof(struct udphdr);

	if (p->fragment || !has_ports(p->protocol) ||
	    !has_ports_inside(p)) /* fragments of one datagram are one flow: without ports */
		return;
	load_bytes(ctx, at, &p->flow.source_port, sizeof(__u32));
	if (!p->gso_size)
		return;
	if (p->protocol == IPPROTO_TCP) {
		__u8 data_offset = 0;

		load_bytes(ctx, at + 12, &data_offset, sizeof(data_offset));
		header_len = (data_offset >> 4) * 4;
	}
	p->segment_len = p->l4_offset + header_len + p->gso_size;
}

/*
 * Several tunnel packets that a NIC or the kernel coalesced into one (rx-udp-gro-forwarding): a frame of ours with
 * others behind it, where a super-packet fills all there is.
 */
INLINE bool is_coalesced_batch(const struct packet *p, __u32 frame_len)
{
	return p->offset && p->gso_size && frame_len != p->len;
}

INLINE enum verdict parse_ipv4(struct __sk_buff *ctx, struct packet *p)
{
	__u32 at = p->offset + ETH_HLEN, total_len, header_len;
	struct iphdr ip;

	if (load_bytes(ctx, at, &ip, sizeof(ip)) < 0)
		return DROP(INNER_IP_HEADER);
	header_len = ip.ihl * 4;
	total_len = bpf_ntohs(ip.tot_len);
	if (!total_len && p->gso_size) /* BIG TCP: the length is the skb's */
		total_len = p->len - ETH_HLEN;
	if (ip.version != 4 || header_len < sizeof(ip) || total_len < header_len ||
	    total_len > p->len - ETH_HLEN)
		return DROP(INNER_IP_HEADER);
	if (is_coalesced_batch(p, total_len + ETH_HLEN))
		return DROP(GSO_UNSUPPORTED);

	/* In words, as they are read: the two addresses as ::ffff:a.b.c.d. */
	p->flow.words[0] = p->flow.words[1] = p->flow.words[4] = p->flow.words[5] = 0;
	p->flow.words[2] = p->flow.words[6] = bpf_htonl(0xffff);
	p->flow.words[3] = ip.saddr;
	p->flow.words[7] = ip.daddr;
	p->flow.protocol = p->protocol = ip.protocol;
	p->tos = ip.tos;
	p->fragment = fragment_of_ipv4(ip.frag_off);
	p->l4_offset = ETH_HLEN + header_len;
	p->ip_len = total_len;
	parse_l4(ctx, p);
	return GO_ON;
}

INLINE enum verdict parse_ipv6(struct __sk_buff *ctx, struct packet *p)
{
	struct ipv6hdr ip;
	__u32 payload_len;

	if (load_bytes(ctx, p->offset + ETH_HLEN, &ip, sizeof(ip)) < 0)
		return DROP(INNER_IP_HEADER);
	payload_len = bpf_ntohs(ip.payload_len);
	if (ip.version != 6 || payload_len > p->len - ETH_HLEN - sizeof(ip))
		return DROP(INNER_IP_HEADER);
	if (payload_len && is_coalesced_batch(p, payload_len + sizeof(ip) + ETH_HLEN))
		return DROP(GSO_UNSUPPORTED);

	p->tos = ip.priority << 4 | ip.flow_lbl[0] >> 4;
	__builtin_memcpy(&p->flow.source, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(&p->flow.dest, &ip.daddr, sizeof(ip.daddr));
	p->protocol = ip.nexthdr;
	p->l4_offset = ETH_HLEN + sizeof(ip);
	skip_extensions(ctx, p);
	p->flow.protocol = p->fragment ? IPPROTO_FRAGMENT : p->protocol;
	p->ip_len = sizeof(ip) + payload_len;
	if (!payload_len && p->gso_size && ip.nexthdr == IPPROTO_HOPOPTS) /* BIG TCP */
		p->ip_len = p->len - ETH_HLEN;
	parse_l4(ctx, p);
	/* Segmentation removes the jumbo option, but from no shorter packet (include/net/ipv6.h). */
	if (!payload_len && p->gso_size && ip.nexthdr == IPPROTO_HOPOPTS &&
	    p->ip_len > MAX_LEN_WITH_JUMBO)
		p->segment_len -= 8;
	return GO_ON;
}

INLINE bool is_tag(__be16 ethertype)
{
	return ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_SERVICE_VLAN;
}

struct tag_in_bytes {
	__be16 tci;
	__be16 ethertype; /* of what follows */
};

/* A tag inside a tunnel, of a switch that carries it. What lies before p->offset is cut off later. */
INLINE enum verdict parse_inner_tag(struct __sk_buff *ctx, struct packet *p)
{
	struct tag_in_bytes tag;

	if (load_bytes(ctx, p->offset + ETH_HLEN, &tag, sizeof(tag)) < 0)
		return DROP(INNER_TOO_SMALL);
	p->tag.proto = p->eth.h_proto;
	p->tag.tci = bpf_ntohs(tag.tci);
	p->eth.h_proto = tag.ethertype;
	p->offset += VLAN_HLEN;
	p->len -= VLAN_HLEN;
	p->segment_len = p->len;
	return GO_ON;
}

/*
 * The tag beside the bytes (p->in_tag) and one in them, which inside a tunnel is the first. A switch that carries no tags
 * takes off one that only says a priority.
 */
INLINE enum verdict parse_tags(struct __sk_buff *ctx, struct packet *p, bool transparent)
{
	enum verdict result;

	if (is_tag(p->eth.h_proto)) {
		if (!p->offset)
			return DROP(VLAN_TAG);
		result = parse_inner_tag(ctx, p);
		if (result != GO_ON)
			return result;
		if (is_tag(p->eth.h_proto))
			return DROP(VLAN_TAG);
	}
	if (!transparent && has_vlan(&p->tag))
		return DROP(VLAN_TAG);
	if (!transparent)
		p->tag.proto = 0;
	if (p->in_tag.proto && take_tag(ctx) < 0)
		return DROP(VLAN_TAG);
	return GO_ON;
}

/* 01:80:c2:00:00:00 to 0f: for the next bridge only (IEEE 802.1Q table 8-1). */
INLINE bool is_reserved_group(const __u8 *mac)
{
	static const __u8 first[ETH_ALEN] = { 0x01, 0x80, 0xc2 };

	return !__builtin_memcmp(mac, first, ETH_ALEN - 1) && mac[ETH_ALEN - 1] <= 0x0f;
}

/*
 * p->offset and the tags are set by the caller. transparent: the switch carries tags of guests. Global, so that the
 * verifier checks it once and not for every hook.
 */
__noinline enum verdict parse(struct __sk_buff *ctx, struct packet *p, __u32 transparent)
{
	enum verdict result;

	if (!p)
		return DROP(NOT_CONFIGURED);
	p->len = ctx->len - p->offset;
	p->segment_len = p->len;
	p->gso_size = gso_size_of(ctx);
	if (ctx->len < p->offset + ETH_HLEN || load_bytes(ctx, p->offset, &p->eth, ETH_HLEN) < 0)
		return DROP(INNER_TOO_SMALL);
	result = parse_tags(ctx, p, transparent);
	if (result != GO_ON)
		return result;
	if (is_group(p->eth.h_source) ||
	    !(*(__u32 *)p->eth.h_source | *(__u16 *)(p->eth.h_source + 4)))
		return DROP(SOURCE_MAC);
	if (is_reserved_group(p->eth.h_dest))
		return DROP(RESERVED_GROUP);

	p->tos = p->fragment = p->atomic = p->other_ends = p->l4_offset = 0;
	p->flow.source_port = p->flow.dest_port = 0;
	if (p->eth.h_proto == ETHERTYPE_IPV4) {
		result = parse_ipv4(ctx, p);
	} else if (p->eth.h_proto == ETHERTYPE_IPV6) {
		result = parse_ipv6(ctx, p);
	} else {
		p->flow = (union flow){};
		__builtin_memcpy(&p->flow, &p->eth, ETH_HLEN);
	}
	if (p->gso_size && p->len > p->segment_len && p->segment_len > p->gso_size) {
		__u32 headers = p->segment_len - p->gso_size;

		p->segments = (p->len - headers + p->gso_size - 1) / p->gso_size;
	}
	return result;
}
