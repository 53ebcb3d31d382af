/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to the sender of a packet that goes no further: ICMP errors (RFC 792, RFC 4443), TCP resets (RFC 9293), and
 * what somebody asked for. Stages say what the sender is told (destination.tell); the skb becomes the answer here, and
 * leave() sends it as any other packet. It is about the packet as it came, before routers and nat. reply_bytes.h
 * writes it, reply_destination.h finds its way.
 */
#pragma once

#include "lib/hiding.h"
#include "lib/limit.h"
#include "lib/original.h"
#include "reply_bytes.h"
#include "reply_destination.h"

#define ANSWER_LIMIT 100 /* in a tenth of a second */

#define ICMP_REDIRECT 5
#define ICMPV6_INFORMATIONAL 128
#define ICMPV6_REDIRECT 137
#define TCP_FLAGS 13 /* in its header */

/* Nobody is told what was for many, or from nobody; nor does anything come from an address that no host has. */
INLINE bool is_between_two_hosts(const struct packet *p)
{
	bool ipv4 = has_ipv4(p);

	return !is_group(p->eth.h_dest) && is_of_one_host(&p->flow.source, ipv4) &&
	       is_of_one_host(&p->flow.dest, ipv4);
}

/* Whether a byte of the packet is there; then it is *byte. */
INLINE bool read_byte(struct __sk_buff *ctx, const struct packet *p, __u32 at, __u8 *byte)
{
	return at < ETH_HLEN + p->ip_len && bpf_skb_load_bytes(ctx, at, byte, 1) == 0;
}

/* An ICMP error or redirect, a reset, a later fragment; or what may be one. */
INLINE bool is_error_or_reset(struct __sk_buff *ctx, const struct packet *p)
{
	bool ipv4 = has_ipv4(p);
	__u8 byte;

	if (p->fragment == LATER_FRAGMENT || is_hidden(p))
		return true;
	if (is_icmp(p->protocol, ipv4)) {
		if (!read_byte(ctx, p, p->l4_offset, &byte))
			return true;
		return ipv4 ? (byte >= 3 && byte <= ICMP_REDIRECT) || byte == 11 || byte == 12 :
			      byte < ICMPV6_INFORMATIONAL || byte == ICMPV6_REDIRECT;
	}
	return p->protocol == IPPROTO_TCP && read_byte(ctx, p, p->l4_offset + TCP_FLAGS, &byte) &&
	       byte & TCP_RST;
}

/* A router behind the gateway speaks about what the gateway translated: outside, it has no address of its own. */
INLINE bool seen_from_leg(struct __sk_buff *ctx, const struct packet *p, struct addr *from)
{
	__u32 device = device_of_hook(ctx), *gateway = bpf_map_lookup_elem(&legs, &device);
	struct router *r = gateway ? bpf_map_lookup_elem(&routers, gateway) : NULL;
	struct addr inside = *from;

	return r && find_teller(r, *gateway, has_ipv4(p) ? 4 : 6, &inside, from);
}

/* Where an ICMP error of a router comes from: its first address on the way in. */
INLINE bool router_address(struct __sk_buff *ctx, const struct packet *p, const struct destination *d,
			   struct addr *from)
{
	struct router_interface_key key = { .router = d->router, .switch_id = d->router_in };
	struct router_interface *interface;
	struct router *r;

	if (d->router_in == SWITCH_ID_LEG) {
		r = bpf_map_lookup_elem(&routers, &d->router);
		if (!r)
			return false;
		*from = has_ipv4(p) ? r->leg_v4 : r->leg_v6;
		return !is_zero(from);
	}
	interface = bpf_map_lookup_elem(&router_interfaces, &key);
	if (!interface)
		return false;
	*from = has_ipv4(p) ? interface->v4 : interface->v6;
	return !is_zero(from) && (!p->readdressed || seen_from_leg(ctx, p, from));
}

/*
 * The length of an skb that came out of a tunnel and keeps the kernel's mark of one, as it does on virtual wires:
 * change_tail refuses it. Its front goes, and comes back as long as it should be. So ends a checksum that a device
 * should fill in, if its place is in what goes; of a TCP or UDP packet too short for that nobody can tell whether it
 * has one, and its sender is told nothing.
 */
INLINE long resize_marked(struct __sk_buff *ctx, const struct packet *p, __u32 len)
{
	const __u32 least = ETH_HLEN + 20; /* adjust_room leaves an IPv4 header */
	__u32 cut = ctx->len - least;

	if (p->gso_size || ctx->len <= least || cut > 0xfff || len < least)
		return -1;
	if ((p->flow.protocol == IPPROTO_TCP || p->flow.protocol == IPPROTO_UDP) && !p->fragment &&
	    ctx->len <= p->l4_offset + least && bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) < 0)
		return -1;
	if (bpf_skb_adjust_room(ctx, -(int)cut, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_DECAP_L3_IPV4) < 0)
		return -1;
	return bpf_skb_adjust_room(ctx, len - least, BPF_ADJ_ROOM_MAC, 0);
}

/* The frame of the answer takes the place of the skb's, and none of its offloads. */
INLINE long replace_frame(struct __sk_buff *ctx, const struct packet *p, const __u8 *frame, __u32 len)
{
	/*
	 * Segmentation ends with change_tail. A checksum that a device should fill in (CHECKSUM_PARTIAL) ends only
	 * when its place is cut off (skb_postpull_rcsum), so these bytes go from the front.
	 */
	const __u32 cut = 256;

	if (len < ETH_HLEN || len > REPLY_MOST)
		return -1;
	if (bpf_skb_change_tail(ctx, len + cut, 0) < 0) {
		if (resize_marked(ctx, p, len) < 0)
			return -1;
	} else if (bpf_skb_adjust_room(ctx, -(int)cut, BPF_ADJ_ROOM_MAC, 0) < 0) {
		return -1;
	}
	return bpf_skb_store_bytes(ctx, 0, frame, len, 0);
}

/* Whether whoever sent the packet may cause another answer. */
INLINE bool may_cause_answer(struct __sk_buff *ctx, const struct packet *p)
{
	struct limit_key limit = { .switch_id = p->switch_id,
				   .key = p->source_key,
				   .limit = LIMIT_ANSWERS };
	__u32 device = device_of_hook(ctx), *router;

	if (p->hook == HOOK_FROM_LEG) {
		router = bpf_map_lookup_elem(&legs, &device);
		limit.switch_id = ZONE_ROUTER | (router ? *router : 0);
	} else if (p->claims_key) {
		limit.switch_id = ZONE_REMOTE | p->sender_counters;
		limit.key = 0;
	}
	return is_within_limit(&limit, 1, ANSWER_LIMIT, SECOND / 10, now_ns());
}

/* About a packet that was dropped, unless about such a packet nobody is told. */
INLINE bool write_refusal(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			  const struct destination *d)
{
	struct tcp_header tcp = {};
	struct addr from;
	__u32 len;

	if (!p->l4_offset || !is_between_two_hosts(p) || is_error_or_reset(ctx, p))
		return false;
	/* A router speaks for itself; a firewall and a reset in the destination's name. */
	if (d->tell == TELL_RESET || d->tell == TELL_PROHIBITED)
		from = p->flow.dest;
	else if (!router_address(ctx, p, d, &from))
		return false;
	if (d->tell == TELL_RESET && !read_tcp_about(ctx, p, &tcp))
		return false;
	if (!may_cause_answer(ctx, p))
		return false;
	begin_reply(&w->reply, p, &from);
	len = d->tell == TELL_RESET ? write_reset(w, p, &tcp) : write_error(ctx, w, p, d);
	if (!len || replace_frame(ctx, p, w->bytes + FRAME_AT, len) < 0)
		return false;
	w->reply.len = w->reply.segment_len = len;
	return true;
}

/*
 * Whether the skb has become the answer that d->tell says: then it is scratch.reply, and goes to scratch.reply_to, if
 * there is a way. Global: it has a stack of its own.
 */
__noinline int reply(struct __sk_buff *ctx, struct packet *p, const struct destination *d)
{
	struct scratch *w = get_scratch();
	bool written;

	if (!p || !d || !w || (p->translated && restore_original(ctx, p) < 0))
		return false;
	if (d->tell == TELL_ABILITIES)
		return write_abilities(ctx, w, d);
	if (d->tell == TELL_OWNER)
		written = p->l4_offset ? write_advertisement(ctx, w, p, d) :
					 write_arp_reply(ctx, w, p, d);
	else if (d->tell == TELL_ECHO)
		written = write_echo_reply(ctx, w, p);
	else
		written = write_refusal(ctx, w, p, d);
	if (written)
		find_reply_destination(ctx, w, &w->reply, &w->reply_to);
	return written;
}
