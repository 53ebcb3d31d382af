/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unmarker: devices that apply creates, through which the kernel takes a tunnel's mark off a frame
 * (iptunnel_pull_offloads() in vxlan_rcv(); skb->encapsulation and SKB_GSO_UDP_TUNNEL stay after
 * bpf_skb_adjust_room()). They are no part of the fabric's tunnel:
 *
 *     host's namespace                          a namespace of the unmarker's own
 *     port, leg_out ──── redirect_peer(ovl-unm0) ──► ovl-unm1 ── IP ── UDP ─┐
 *     from_unmarker ◄── ovl-unm4, ovl-unm6 (VXLAN) ◄────────────────────┘
 *
 * No firewall, no route and no socket of the host is on the way. The frame gets a VXLAN header that no wire sees. Its
 * group policy (which becomes skb->mark) is the number of the port it goes to. skb->tc_index says that the frame is
 * ours and how it is handed over (lib/detour.h). Part of leave.
 *
 * A device that does not know the mark gets segments, and UDP would be cut wrongly. So such a frame goes here.
 */
#pragma once

#include "encap.h"
#include "lib/detour.h"
#include "send.h"

#define UNMARK_VNI 1
#define TUNNEL_LEN (sizeof(struct udphdr) + 8)

#define UNMARK_V4_LEN (ETH_HLEN + 20 + TUNNEL_LEN)
#define UNMARK_V6_LEN (ETH_HLEN + 40 + TUNNEL_LEN)

/* Ethernet type and IP: from 198.19.0.1 to .2, and 2001:2::c613:1 to :2. */
/* clang-format off */
static const __u8 unmark_v4[UNMARK_V4_LEN] = {
	[12] = 8, [14] = 0x45, [20] = 0x40, [22] = 1, IPPROTO_UDP, [26] = 198, 19, 0, 1, 198, 19, 0, 2 };
static const __u8 unmark_v6[UNMARK_V6_LEN] = {
	[12] = 0x86, 0xdd, 0x60, [20] = IPPROTO_UDP, 1, 0x20, 1, 0, 2, [34] = 198, 19, 0, 1,
	0x20, 1, 0, 2, [50] = 198, 19, 0, 2 };
/* clang-format on */

INLINE void fill_unmark(__u8 *h, bool ipv4, __u32 inner_len, __u32 number)
{
	__u8 *ip = h + ETH_HLEN, *udp = h + (ipv4 ? IPV4_UDP : IPV6_UDP);
	__u32 udp_len = TUNNEL_LEN + inner_len;

	if (ipv4) {
		copy_words(h, unmark_v4, sizeof(unmark_v4));
		*(__be16 *)(ip + 2) = bpf_htons(20 + udp_len);
		*(__u16 *)(ip + IPV4_CHECKSUM) = ~csum_ipv4_header(ip);
	} else {
		copy_words(h, unmark_v6, sizeof(unmark_v6));
		*(__be16 *)(ip + 4) = bpf_htons(udp_len);
	}
	*(__be16 *)(udp + 0) = *(__be16 *)(udp + 2) = bpf_htons(UNMARK_PORT);
	*(__be16 *)(udp + 4) = bpf_htons(udp_len);
	udp[8] = 0x88; /* group policy, and the VNI is valid */
	*(__be16 *)(udp + 10) = bpf_htons(number);
	udp[14] = UNMARK_VNI;
}

/*
 * A sum of the whole packet that the NIC made (CHECKSUM_COMPLETE) covers all behind the Ethernet header: now the
 * header too, and what was the Ethernet header. Bytes that are not there are zero.
 */
INLINE void add_to_csum(struct __sk_buff *ctx, const struct outer *o)
{
	if ((__s64)bpf_csum_update(ctx, 0) >= 0)
		bpf_csum_update(ctx, bpf_csum_diff(NULL, 0, (__be32 *)(o->bytes + ETH_HLEN),
						   sizeof(o->bytes) - ETH_HLEN, 0));
}

/* A guest's tag on the way, or the leg: in skb->priority. In the bytes GRO would not read behind a tag. */
#define TAG_IS_THERE 0x80000000u
#define TAG_IS_SERVICE 0x40000000u

INLINE __u32 tag_in_word(const struct tag *tag)
{
	return TAG_IS_THERE | (tag->proto == ETHERTYPE_SERVICE_VLAN ? TAG_IS_SERVICE : 0) | tag->tci;
}

INLINE struct tag tag_of_word(__u32 word)
{
	struct tag tag = { .tci = word };

	if (word & TAG_IS_THERE)
		tag.proto = word & TAG_IS_SERVICE ? ETHERTYPE_SERVICE_VLAN : ETHERTYPE_VLAN;
	return tag;
}

/*
 * Whether a frame behind decap takes the way through the unmarker: a super-packet with the tunnel's mark, or what
 * follows one. Global: big, and for few packets.
 */
__noinline int needs_unmarker(struct __sk_buff *ctx, const struct packet *p, __u32 takes_no_mark)
{
	struct settings *s = get_settings();
	struct flow_way *flow;
	__u32 slot, now;

	if (!p || !s)
		return false;
	slot = p->tunnel_source_port;
	if (!s->unmarker_ifindex || !p->l4_offset ||
	    !(takes_no_mark || p->flow.protocol == IPPROTO_UDP))
		return false;
	flow = bpf_map_lookup_elem(&flow_ways, &slot);
	if (!flow || (!p->gso_size && !flow->unmarked))
		return false;
	now = flow_time();
	if (!p->gso_size && !is_lately(flow->unmarked, now))
		return false;
	if (!gro_reads(ctx, p, 0))
		return false;
	if (flow->unmarked != now)
		flow->unmarked = now;
	return true;
}

/*
 * The kernel dispatches by skb->protocol, which after decap is the frame's own: so is the family of this header.
 * Nothing else depends on it. Global: big, and for few packets.
 */
__noinline enum verdict unmark(struct __sk_buff *ctx, struct packet *p, const struct destination *d,
			       __u32 number, __u32 how)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	__u32 inner_len, len;
	struct outer *o;
	bool is_ipv4;

	if (!s || !w || !p || !d)
		return DROP(NOT_CONFIGURED);
	if (!is_there(p->changes, s->unmarker_ifindex) || !is_there(p->changes, d->port.ifindex))
		return DROP(DEVICE_GONE);
	inner_len = ctx->len;
	is_ipv4 = d->eth.h_proto == ETHERTYPE_IPV4;
	len = is_ipv4 ? UNMARK_V4_LEN : UNMARK_V6_LEN;
	if (ctx->protocol != d->eth.h_proto || 20 + TUNNEL_LEN + inner_len > OUTER_MAX_LEN)
		return DROP(GSO_UNSUPPORTED);
	o = &w->outer;
	__builtin_memset(o, 0, sizeof(*o));
	fill_unmark(o->bytes, is_ipv4, inner_len, number);
	if (bpf_skb_adjust_room(ctx, len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO) < 0)
		return DROP(DECAP_FAILED);
	__builtin_memcpy(o->bytes + len, &d->eth, ETH_HLEN);
	if (store_outer(ctx, o, len + ETH_HLEN) != GO_ON)
		return DROP(DECAP_FAILED);
	add_to_csum(ctx, o);
	bpf_skb_change_type(ctx, PACKET_HOST);
	p->wrapped = len;
	ctx->tc_index = DETOUR | how;
	ctx->priority = how & DETOUR_TO_LEG ? d->port.ifindex :
			d->tag.proto        ? tag_in_word(&d->tag) :
					      0;
	/* GRO joins nothing that differs in it: the frames of two ports, or of two tags, may be alike. */
	bpf_set_hash(ctx, number << 16 ^ ctx->priority);
	p->action = bpf_redirect_peer(s->unmarker_ifindex, 0);
	return how & DETOUR_TO_LEG ? VERDICT_LEG_OUT : VERDICT_TO_PORT;
}

INLINE __u32 check_of(const struct port_id *id)
{
	return (id->ifindex ^ id->vlan << 4) & DETOUR_CHECK;
}

INLINE __u32 check_of_leg(__u32 ifindex)
{
	return ifindex & DETOUR_CHECK;
}

INLINE enum verdict end_at_port(struct __sk_buff *ctx, struct destination *d, __u32 number, __u32 how)
{
	struct port_id *id = bpf_map_lookup_elem(&port_numbers, &number);

	if (!id || check_of(id) != (how & DETOUR_CHECK) || !bpf_map_lookup_elem(&ports, id))
		return DROP(NO_PORT);
	d->kind = TO_PORT;
	d->port = *id;
	d->tag = tag_of_word(ctx->priority);
	d->is_peer = !!(how & DETOUR_TO_PEER);
	ctx->priority = 0;
	return GO_ON;
}

INLINE enum verdict end_at_leg(struct __sk_buff *ctx, struct destination *d, __u32 how)
{
	__u32 device = ctx->priority;

	if (check_of_leg(device) != (how & DETOUR_CHECK) || !bpf_map_lookup_elem(&legs, &device))
		return DROP(NO_ROUTE);
	d->kind = TO_LEG;
	d->port = (struct port_id){ .ifindex = device };
	ctx->priority = 0;
	return GO_ON;
}

/* Where a frame at the end of a detour goes. All there is to decide was decided before. */
INLINE enum verdict end_detour(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	__u32 how = ctx->tc_index, number = ctx->mark;

	if (!is_on_detour(ctx))
		return DROP(OUTER_DEVICE);
	ctx->tc_index = 0;
	ctx->mark = 0;
	bpf_set_hash_invalid(ctx);
	p->eth.h_proto = ctx->protocol;
	return how & DETOUR_TO_LEG ? end_at_leg(ctx, d, how) : end_at_port(ctx, d, number, how);
}
