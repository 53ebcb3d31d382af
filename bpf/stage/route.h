/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage route: a packet to a router's MAC goes to the next hop of its destination, on the host where it enters. The
 * frame is plain. Then l2_lookup in the switch of the next hop, or nat. A next hop may be a router too: then once
 * more.
 */
#pragma once

#include "lib/next_hop.h"
#include "lib/tell.h"
#include "lib/vlan.h"

#define MOST_ROUTERS 4 /* that one packet passes on one host */

/* Addresses that never leave their link, or mean nobody. */
INLINE bool is_routable(const struct packet *p)
{
	const __u32 *to = (const __u32 *)&p->flow.dest;
	const __u8 *bytes = (const __u8 *)to;

	if (has_ipv4(p))
		return to[3] && bytes[12] != 127 && bytes[12] < 224;
	if (bytes[0] == 0xff || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80))
		return false;
	return to[0] | to[1] | to[2] | (to[3] & ~bpf_htonl(1));
}

/* The link-local address made from the router's MAC, which its IPv6 interfaces have. */
INLINE bool is_own_link_local_of(const struct packet *p, const struct destination *d,
				 const struct router *r)
{
	struct router_interface *i;

	if (!is_link_local_of(r->mac.bytes, &p->flow.dest))
		return false;
	i = interface_on(d->router, d->router_in);
	return i && !is_zero(&i->v6);
}

#define ECHO_REQUEST 8
#define ECHO_REQUEST_V6 128

INLINE bool is_echo_request(struct __sk_buff *ctx, const struct packet *p)
{
	bool ipv4 = has_ipv4(p);
	__u8 type;

	return !p->fragment && p->flow.protocol == (ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) &&
	       p->l4_offset + ICMP_LEN <= ETH_HLEN + p->ip_len &&
	       bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) == 0 &&
	       type == (ipv4 ? ECHO_REQUEST : ECHO_REQUEST_V6) && !is_group(p->eth.h_dest) &&
	       is_from_somebody(p);
}

/* For the router itself. */
INLINE enum verdict to_own_address(struct __sk_buff *ctx, const struct packet *p,
				   struct destination *d)
{
	if (is_echo_request(ctx, p))
		return refuse(d, TELL_ECHO, VERDICT_ANSWER);
	if (!p->fragment && p->flow.protocol == IPPROTO_TCP)
		d->tell = TELL_RESET;
	if (!p->fragment && p->flow.protocol == IPPROTO_UDP)
		d->tell = TELL_NO_PORT;
	return DROP(ROUTER_ADDRESS);
}

/* Only the gateway host has the leg. It gets the frame as it came here. */
INLINE enum verdict to_gateway(const struct packet *p, struct destination *d, const struct router *r)
{
	struct router_interface *i = interface_on(d->router, d->router_in);

	if (!i)
		return DROP(NOT_CONFIGURED);
	/* Else two hosts on a VLAN could send it to and fro. */
	if (is_from_underlay(p) && !d->routed)
		return DROP(UNKNOWN_UNICAST);
	d->dest_key = i->key;
	d->kind = is_on_vlan(d->switch_id) ? TO_VLAN : TO_REMOTE;
	d->remote = r->gateway;
	d->for_router = true;
	return GO_ON;
}

/* The frame is for the neighbour scratch.next, in its switch. */
INLINE enum verdict into_switch(struct scratch *w, const struct packet *p, struct destination *d,
				const struct router *r)
{
	struct neighbour *n = find_neighbour(w, has_ipv4(p));
	struct router_interface *i = interface_on(d->router, w->next.switch_id);

	if (!n)
		return refuse(d, TELL_NO_NEIGHBOUR, DROP(NO_NEIGHBOUR));
	send_from_router(d, r, i, n, w->next.switch_id);
	d->routed++;
	d->kind = TO_NOWHERE; /* l2_lookup finds the neighbour */
	return GO_ON;
}

/* The frame is for the neighbour scratch.next in the physical network. The kernel writes its Ethernet header. */
INLINE enum verdict into_leg(struct scratch *w, const struct packet *p, struct destination *d,
			     const struct router *r, __u32 kind)
{
	if (!r->leg_ifindex)
		return refuse(d, TELL_NO_ROUTE, DROP(NO_ROUTE));
	if (p->segment_len - ETH_HLEN > r->leg_mtu)
		return too_big(d, r->leg_mtu);
	d->kind = TO_LEG;
	d->port = (struct port_id){ .ifindex = r->leg_ifindex };
	d->takes_no_mark = !!(r->flags & ROUTER_LEG_TAKES_NO_MARK);
	d->translates = !!(r->flags & ROUTER_NAT);
	d->remote = w->next.addr;
	d->route_kind = kind;
	d->hop = kind == ROUTE_VIA ? w->next_key : (struct next_hop_key){};
	__builtin_memset(&d->eth, 0, 2 * ETH_ALEN);
	d->routed++;
	return GO_ON;
}

/* One router, d->router. Global, so that the verifier checks it once. */
__noinline enum verdict route(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct scratch *w = get_scratch();
	struct router *r;
	__u32 kind;

	if (!p || !d || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r)
		return DROP(NOT_CONFIGURED);
	if (!p->l4_offset)
		return DROP(NOT_ROUTABLE);
	if (read_ip(ctx, w, p) < 0)
		return DROP(INNER_IP_HEADER);
	kind = ROUTE_OWN;
	if (!is_routable(p)) {
		if (has_ipv4(p) || !is_own_link_local_of(p, d, r))
			return DROP(NOT_ROUTABLE);
	} else {
		kind = find_next_hop(w, p, d->router);
	}
	if (has_ipv4(p) && w->ip[0] == 0x45 && csum_ipv4_header(w->ip) != 0xffff)
		return DROP(INNER_IP_HEADER);
	if (!kind)
		return refuse(d, TELL_NO_ROUTE, DROP(NO_ROUTE));
	if (kind == ROUTE_OWN)
		return to_own_address(ctx, p, d);
	if (w->next.switch_id == SWITCH_ID_LEG && r->flags & ROUTER_GATEWAY_ELSEWHERE)
		return to_gateway(p, d, r);
	if (get_ttl(has_ipv4(p), w->ip) <= d->routed + 1)
		return refuse(d, TELL_TTL_EXCEEDED, DROP(TTL_EXCEEDED));
	if (w->next.switch_id == SWITCH_ID_LEG)
		return into_leg(w, p, d, r, kind);
	return into_switch(w, p, d, r);
}
