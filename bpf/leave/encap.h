/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the outer header before a frame and sends it to one remote. Part of leave.
 *
 *   room made by adjust_room                      room made by change_head
 *   | Eth | outer IP UDP tunnel | inner Eth | …   | Eth outer IP UDP tunnel | inner Eth | …
 *     kept  <---- header_len bytes ------->         <---- header_len ----->   kept
 *
 * adjust_room (net/core/filter.c, bpf_skb_net_grow) tells the kernel where the inner headers are, so that a
 * super-packet can be segmented later. It refuses frames that are neither IPv4 nor IPv6, and packets already marked as
 * encapsulated (-EALREADY): what a guest forwards after our decap keeps that mark and its inner header offsets, which
 * are still right, so change_head serves; what a guest put into a tunnel of its own (over UDP or not) has to be
 * segmented first.
 */
#pragma once

#include <linux/errno.h>

#include "lib/counters.h"
#include "lib/devices.h"
#include "lib/flows.h"
#include "lib/path_mtu.h"
#include "lib/tell.h"
#include "mss.h"
#include "segmenter.h"

#define OUTER_MAX_LEN 65535
#define IPV4_UDP (ETH_HLEN + 20)
#define IPV6_UDP (ETH_HLEN + 40)

#define ENCAP_FLAGS_L2(len)                                                                          \
	(BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2_ETH |      \
	 BPF_F_ADJ_ROOM_ENCAP_L2(len))
#define ENCAP_FLAGS ENCAP_FLAGS_L2(ETH_HLEN)
#define ENCAP_FLAGS_TAGGED ENCAP_FLAGS_L2(ETH_HLEN + VLAN_HLEN)

INLINE __u16 outer_ethertype(const struct settings *s)
{
	return s->family == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6;
}

INLINE __be16 source_port(const struct settings *s, const struct packet *p)
{
	__u32 span = s->source_port_max - s->source_port_min + 1;

	return bpf_htons(s->source_port_min + (((__u64)p->flow_hash * span) >> 32));
}

/* ECN as inside (RFC 6040, normal mode), DSCP too where it is copied (RFC 2983). */
INLINE __u8 outer_tos(const struct settings *s, const struct packet *p)
{
	__u8 dscp = s->copy_dscp ? p->tos & ~ECN_MASK : s->dscp << 2;

	return dscp | (p->tos & ECN_MASK);
}

/* UDP and tunnel header, behind an IP header that ends at `udp`, a constant in each call. */
INLINE void fill_tunnel(__u8 *udp, const struct settings *s, const struct packet *p,
			const struct destination *d, __u32 udp_len, __u32 dest_key)
{
	*(__be16 *)udp = source_port(s, p);
	*(__be16 *)(udp + 4) = bpf_htons(udp_len);
	udp[12] = d->switch_id >> 16;
	udp[13] = d->switch_id >> 8;
	udp[14] = d->switch_id;
	/* Where a remote gets no options, this lies behind the header: the inner frame is written over it. */
	if (s->encapsulation == ENCAPSULATION_GENEVE) {
		*(__be16 *)(udp + 20) = bpf_htons(d->source_key);
		*(__be16 *)(udp + 22) = bpf_htons(dest_key);
	}
}

/* The outer header of this packet from the template of the remote: length, checksum, port, VNI, keys. */
INLINE void fill_outer(struct outer *o, const struct settings *s, const struct remote *r,
		       const struct packet *p, const struct destination *d, __u32 dest_key)
{
	__u32 ip_len = r->header_len - ETH_HLEN + tag_len(d) + p->len;
	__u8 tos = outer_tos(s, p);

	copy_words(o->bytes, r->header, MAX_TEMPLATE);
	*(__be16 *)(o->bytes + 12) = outer_ethertype(s);
	if (s->family == 4) {
		o->bytes[ETH_HLEN + 1] = tos;
		*(__be16 *)(o->bytes + ETH_HLEN + 2) = bpf_htons(ip_len);
		*(__u16 *)(o->bytes + ETH_HLEN + 10) =
			~csum_fold((__u32)r->ip_csum + bpf_htons(tos) + bpf_htons(ip_len));
		fill_tunnel(o->bytes + IPV4_UDP, s, p, d, ip_len - 20, dest_key);
	} else {
		o->bytes[ETH_HLEN] = 0x60 | tos >> 4;
		o->bytes[ETH_HLEN + 1] = tos << 4;
		*(__be16 *)(o->bytes + ETH_HLEN + 4) = bpf_htons(ip_len - 40);
		fill_tunnel(o->bytes + IPV6_UDP, s, p, d, ip_len - 40, dest_key);
	}
}

/* Of the lengths that nearly all have, without the helper's call: VXLAN and Geneve over IPv4 and IPv6. */
INLINE bool put_outer(struct __sk_buff *ctx, const struct outer *o, __u32 len)
{
	switch (len) {
	case 64:
		return put_front(ctx, o->bytes, 64);
	case 72:
		return put_front(ctx, o->bytes, 72);
	case 84:
		return put_front(ctx, o->bytes, 84);
	case 92:
		return put_front(ctx, o->bytes, 92);
	}
	return false;
}

INLINE enum verdict store_outer(struct __sk_buff *ctx, const struct outer *o, __u32 len)
{
	KEEP_BOUNDS(len);
	if (len < ETH_HLEN)
		return DROP(ENCAP_FAILED);
	KEEP_BOUNDS(len);
	if (len > sizeof(o->bytes))
		return DROP(ENCAP_FAILED);
	if (put_outer(ctx, o, len))
		return GO_ON;
	return bpf_skb_store_bytes(ctx, 0, o->bytes, len, 0) < 0 ? DROP(ENCAP_FAILED) : GO_ON;
}

/* The inner Ethernet header, with the tag of a transparent switch in it. */
INLINE void fill_inner(__u8 *at, const struct destination *d)
{
	copy_words(at, &d->eth, ETH_HLEN);
	if (!d->tag.proto)
		return;
	*(__be16 *)(at + 12) = d->tag.proto;
	*(__be16 *)(at + 14) = bpf_htons(d->tag.tci);
	*(__be16 *)(at + 16) = d->eth.h_proto;
}

/* The TTL of what was routed. The inner IP header begins at `at`; scratch.ip has it since route. */
INLINE long store_ttl(struct __sk_buff *ctx, struct scratch *w, const struct packet *p, __u8 less,
		      __u32 at)
{
	set_ttl(has_ipv4(p), w->ip, get_ttl(has_ipv4(p), w->ip) - less);
	return bpf_skb_store_bytes(ctx, at, w->ip, IPV4_CHECKSUM + 2,
				   has_ipv4(p) ? 0 : BPF_F_RECOMPUTE_CSUM);
}

/* The outer header and the inner Ethernet header at once; behind them what a router changes. */
INLINE enum verdict store_both(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			       const struct destination *d, __u32 len)
{
	enum verdict result;

	if (len > MAX_TEMPLATE)
		return DROP(ENCAP_FAILED);
	fill_inner(w->outer.bytes + len, d);
	result = store_outer(ctx, &w->outer, len + ETH_HLEN + tag_len(d));
	if (result == GO_ON && d->routed &&
	    store_ttl(ctx, w, p, d->routed, len + ETH_HLEN + tag_len(d)) < 0)
		return DROP(ENCAP_FAILED);
	return result;
}

/* The kernel fills in the outer Ethernet header, and queues while it resolves the next hop. */
INLINE enum verdict send_by_neighbour(const struct settings *s, struct packet *p)
{
	report_device(s->uplink_ifindex);
	p->action = bpf_redirect_neigh(s->uplink_ifindex, NULL, 0, 0);
	return VERDICT_ENCAP;
}

INLINE enum verdict encap_by_head(struct __sk_buff *ctx, const struct settings *s, struct scratch *w,
				  const struct remote *r, struct packet *p,
				  const struct destination *d)
{
	bool same_family = ctx->protocol == outer_ethertype(s);
	enum verdict result;

	if (p->gso_size && (d->tag.proto || !(same_family && p->flow.protocol == IPPROTO_TCP)))
		return segment(ctx, s, p);
	if (bpf_skb_change_head(ctx, r->header_len + tag_len(d), 0) < 0)
		return DROP(ENCAP_FAILED);
	result = store_both(ctx, w, p, d, r->header_len);
	if (result != GO_ON)
		return result;
	return same_family ? send_by_neighbour(s, p) : retype(ctx, s, p);
}

/*
 * The far side has to take the tunnel's mark off a UDP super-packet before anybody segments it. It can, if it said so.
 * One that came out of a tunnel has the mark already.
 */
INLINE bool takes_whole_udp_of(const struct packet *p, const struct destination *d)
{
	__u32 needed = d->for_router ? ABILITY_ROUTES_WHOLE_UDP : ABILITY_WHOLE_UDP;
	__u32 *said = bpf_map_lookup_elem(&abilities, &d->remote);

	return said && *said & needed && !d->cuts_udp && d->dest_key && !d->tag.proto &&
	       is_plain_l4(p) && !p->offset;
}

INLINE enum verdict encap_to(struct __sk_buff *ctx, const struct settings *s, const struct remote *r,
			     struct packet *p, struct destination *d)
{
	__u32 overhead = r->header_len - ETH_HLEN + tag_len(d), headers = overhead + ETH_HLEN, mtu;
	struct scratch *w = get_scratch();
	enum verdict result;
	__u64 flags;
	long room;

	if (!w)
		return DROP(NOT_CONFIGURED);
	if (p->gso_size && p->flow.protocol == IPPROTO_SCTP)
		return DROP(GSO_UNSUPPORTED);
	/* Of a tunnel of the guest's own only the first header is known: its segments are measured. */
	if (p->gso_size && p->flow.protocol != IPPROTO_TCP && p->flow.protocol != IPPROTO_UDP)
		return segment(ctx, s, p);
	/* What is short fits everywhere. */
	mtu = overhead + p->segment_len <= LEAST_MTU_V4 && !d->clamps_mss ?
		      s->underlay_mtu :
		      path_mtu_of(s, r->counters, p, headers);
	if (overhead + p->segment_len > mtu)
		return too_big(d, mtu > headers ? mtu - headers : 0);
	if (overhead + p->len > OUTER_MAX_LEN || (is_whole_udp(p) && !takes_whole_udp_of(p, d)))
		return segment(ctx, s, p);
	if (!is_there(p->changes, s->uplink_ifindex))
		return DROP(DEVICE_GONE);
	flags = (d->tag.proto ? ENCAP_FLAGS_TAGGED : ENCAP_FLAGS) |
		(s->family == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6);
	if (d->clamps_mss && mtu > headers)
		clamp_mss(ctx, p, mtu - headers);
	fill_outer(&w->outer, s, r, p, d, d->dest_key);
	if (!p->l4_offset)
		return encap_by_head(ctx, s, w, r, p, d);

	room = bpf_skb_adjust_room(ctx, r->header_len + tag_len(d), BPF_ADJ_ROOM_MAC, flags);
	if (room == -EALREADY)
		return encap_by_head(ctx, s, w, r, p, d);
	/* Under a second header the kernel takes UDP_SEGMENT, but not UFO. */
	if (room < 0 && is_whole_udp(p))
		return segment(ctx, s, p);
	if (room < 0)
		return p->gso_size ? DROP(GSO_UNSUPPORTED) : DROP(ENCAP_FAILED);
	result = store_both(ctx, w, p, d, r->header_len);
	return result == GO_ON ? send_by_neighbour(s, p) : result;
}

/* To d->remote. */
INLINE enum verdict encap(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
			  struct destination *d)
{
	enum verdict result = DROP(UNKNOWN_REMOTE);
	struct scratch *w = get_scratch();
	struct remote *r;

	if (d->is_whole)
		return is_there(p->changes, s->uplink_ifindex) ? send_by_neighbour(s, p) :
								 DROP(DEVICE_GONE);
	r = w && p->is_known ? kept_remote(w) : bpf_map_lookup_elem(&remotes, &d->remote);
	if (r)
		result = encap_to(ctx, s, r, p, d);
	if (r && !d->is_reply && result != VERDICT_SEGMENT)
		count_remote(p, r->counters, is_drop(result) ? REMOTE_DROPPED : REMOTE_TO);
	return result;
}
