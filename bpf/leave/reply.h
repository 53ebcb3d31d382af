/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to the sender of a packet that goes no further: ICMP errors (RFC 792, RFC 4443), TCP resets (RFC 9293), and
 * what somebody asked for. Stages say what the sender is told (destination.tell); the skb becomes the answer here, and
 * leave() sends it as any other packet. It is about the packet as it came, before routers and nat. reply_bytes.h
 * writes it, reply_destination.h finds its way.
 */
#pragma once

#include "ask.h"
#include "lib/counters.h"
#include "lib/hiding.h"
#include "lib/limit.h"
#include "lib/next_hop.h"
#include "lib/original.h"
#include "reply_bytes.h"
#include "reply_destination.h"
#include "reply_greeting.h"

#define ANSWER_LIMIT 100 /* in a tenth of a second */

#define ICMP_REDIRECT 5
#define ICMPV6_INFORMATIONAL 128
#define ICMPV6_REDIRECT 137
#define TCP_FLAGS 13 /* in its header */

/* The first or the last address of an IPv4 network, by the router of the packet's switch. */
INLINE bool is_for_network(struct scratch *w, const struct packet *p, const struct addr *addr)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	struct route *r;

	r = sw && sw->router && has_ipv4(p) ? find_route(w, true, sw->router, addr) : NULL;
	return r && is_end_of_network(addr, r);
}

/* Nobody is told what was for many, or from nobody; nor does anything come from an address that no host has. */
INLINE bool is_between_two_hosts(struct scratch *w, const struct packet *p)
{
	bool ipv4 = has_ipv4(p);

	return !is_group(p->eth.h_dest) && is_of_one_host(&p->flow.source, ipv4) &&
	       is_of_one_host(&p->flow.dest, ipv4) && !is_for_network(w, p, &p->flow.source) &&
	       !is_for_network(w, p, &p->flow.dest);
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

/* Its first address on the way in. */
INLINE void first_address(bool ipv4, const struct destination *d, struct addr *from)
{
	struct router_interface *interface;
	struct router *r;

	*from = (struct addr){};
	if (d->router_in == SWITCH_ID_LEG) {
		r = bpf_map_lookup_elem(&routers, &d->router);
		if (r)
			*from = ipv4 ? r->leg_v4 : r->leg_v6;
		return;
	}
	interface = interface_on(d->router, d->router_in);
	if (interface)
		*from = ipv4 ? interface->v4 : interface->v6;
}

/* Where an ICMP error of a router comes from: its address in the sender's network on the way in, else its first there. */
INLINE bool router_address(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			   const struct destination *d, struct addr *from)
{
	struct route *back = find_route(w, has_ipv4(p), d->router, &p->flow.source);

	if (back && back->kind == ROUTE_CONNECTED && back->switch_id == d->router_in)
		*from = back->own;
	else
		first_address(has_ipv4(p), d, from);
	return !is_zero(from) &&
	       (d->router_in == SWITCH_ID_LEG || !p->readdressed || seen_from_leg(ctx, p, from));
}

/* About a packet that was dropped, unless about such a packet nobody is told. */
INLINE bool write_refusal(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			  const struct destination *d)
{
	struct tcp_header tcp = {};
	struct limit_key sender;
	struct addr from;
	__u32 len;

	if (!p->l4_offset || !is_between_two_hosts(w, p) || is_error_or_reset(ctx, p))
		return false;
	/* A router speaks for itself; a firewall, a switch, and who was asked himself in the destination's name. */
	if (d->tell == TELL_RESET || d->tell == TELL_PROHIBITED || d->tell == TELL_NO_PORT ||
	    !d->router)
		from = p->flow.dest;
	else if (!router_address(ctx, w, p, d, &from))
		return false;
	if (d->tell == TELL_RESET && !read_tcp_about(ctx, p, &tcp))
		return false;
	sender = limit_of_sender(ctx, p, LIMIT_ANSWERS);
	if (!is_within_limit(&sender, 1, ANSWER_LIMIT, SECOND / 10, now_ns())) {
		if (p->source_counters)
			count_port(p, p->source_counters, PORT_UNTOLD);
		return false;
	}
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

	if (!p || !d || !w)
		return false;
	if (d->tell == TELL_ASK)
		return ask_all(ctx, w, p, d->router);
	if (p->translated && restore_original(ctx, p) < 0)
		return false;
	if (d->tell == TELL_ABILITIES)
		return write_abilities(ctx, w, d);
	if (d->tell == TELL_SIZE)
		return write_size(ctx, w, d);
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
