/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage route: a packet to a router's MAC goes to the next hop of its destination, on the host where it enters. The
 * frame is plain. Then l2_lookup in the switch of the next hop, or nat. A next hop may be a router too: then once
 * more.
 */
#pragma once

#include "lib/found.h"
#include "lib/tell.h"
#include "lib/upkeep.h"
#include "lib/vlan.h"
#include "lib/vtep.h"

#define MOST_ROUTERS 4 /* that one packet passes on one host */

/* The link-local address made from the router's MAC, which its IPv6 interfaces have. */
INLINE bool is_own_link_local_of(const struct destination *d, const struct router *r,
				 const struct addr *addr)
{
	struct router_interface *i;

	if (!is_link_local_of(r->mac.bytes, addr))
		return false;
	i = interface_on(d->router, d->router_in);
	return i && !is_zero(&i->v6);
}

/* Whether one of a route's next hops is on a side: a switch, or the leg. */
struct side_search {
	struct next_hop_key key;
	__u32 side;
	bool found;
};

static long is_hop_on_side(__u32 number, struct side_search *search)
{
	struct next_hop *hop;

	search->key.number = number;
	hop = bpf_map_lookup_elem(&next_hops, &search->key);
	search->found = hop && hop->switch_id == search->side;
	return search->found;
}

INLINE bool leads_to(const struct route *r, __u32 side)
{
	struct side_search search = { .key = { .group = r->group }, .side = side };

	if (r->kind != ROUTE_VIA || r->switch_id != ROUTE_SIDES)
		return r->switch_id == side;
	bpf_loop(r->hops, is_hop_on_side, &search, 0);
	return search.found;
}

INLINE bool is_link_local(const struct packet *p, const struct addr *addr)
{
	return has_ipv4(p) ? addr->bytes[12] == 169 && addr->bytes[13] == 254 :
			     is_link_local_v6(addr);
}

/*
 * Whether a packet may come from its source: strict reverse path (RFC 3704 section 2.2). Global, for the stack's sake.
 */
__noinline enum verdict check_source(const struct packet *p, const struct destination *d,
				     const struct router *r, __u32 to_own)
{
	const struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	const struct addr *from;
	struct route *back;
	bool refused;

	if (!s || !w || !p || !d || !r)
		return DROP(NOT_CONFIGURED);
	from = &p->flow.source;
	if (is_about_vtep(s, p))
		return DROP(VTEP_ADDRESS);
	back = find_route(w, has_ipv4(p), d->router, from);
	refused = is_refused(has_ipv4(p), from, back);
	if (refused && !(to_own && is_link_local(p, from)))
		return DROP(NOT_ROUTABLE);
	if ((back && back->kind == ROUTE_OWN) || is_own_link_local_of(d, r, from))
		return DROP(REVERSE_PATH);
	if (refused || !(r->flags & ROUTER_REVERSE_PATH))
		return GO_ON;
	return back && leads_to(back, d->router_in) ? GO_ON : DROP(REVERSE_PATH);
}

#define ECHO_REQUEST 8
#define ECHO_REQUEST_V6 128

INLINE bool is_echo_request(struct __sk_buff *ctx, const struct packet *p)
{
	bool ipv4 = has_ipv4(p);
	__u8 type;

	return !p->fragment && is_icmp(p->protocol, ipv4) &&
	       p->l4_offset + ICMP_LEN <= ETH_HLEN + p->ip_len &&
	       bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) == 0 &&
	       type == (ipv4 ? ECHO_REQUEST : ECHO_REQUEST_V6) && !is_group(p->eth.h_dest) &&
	       is_of_one_host(&p->flow.source, ipv4);
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

/* Only the acting host sends to scratch.next. It gets the frame as it came here. */
INLINE enum verdict to_acting_host(const struct scratch *w, const struct packet *p,
				   struct destination *d, const struct router *r)
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
	d->cuts_udp = w->next.switch_id != SWITCH_ID_LEG;
	return GO_ON;
}

/* The frame is for the neighbour scratch.next, in its switch. */
INLINE enum verdict into_switch(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
				struct destination *d, const struct router *r)
{
	struct neighbour *n = find_neighbour(w, has_ipv4(p));
	struct router_interface *i = interface_on(d->router, w->next.switch_id);
	enum verdict result = GO_ON;

	if (n)
		copy_mac(d->eth.h_dest, n->mac.bytes);
	else
		result = find_or_ask(ctx, p, d);
	if (result != GO_ON)
		return result;
	if (d->kind == TO_REMOTE) /* which asks */
		return to_acting_host(w, p, d, r);
	send_from_router(d, r, i, w->next.switch_id);
	d->routed++;
	d->kind = TO_NOWHERE; /* l2_lookup finds the neighbour */
	return GO_ON;
}

/* The frame is for the neighbour scratch.next in the physical network. */
INLINE enum verdict into_leg(struct __sk_buff *ctx, struct scratch *w, const struct packet *p,
			     struct destination *d, const struct router *r)
{
	enum verdict result;

	if (!r->leg_ifindex)
		return refuse(d, TELL_NO_ROUTE, DROP(NO_ROUTE));
	if (p->segment_len - ETH_HLEN > r->leg_mtu)
		return too_big(d, r->leg_mtu);
	w->flow.longest = r->leg_mtu;
	result = find_or_ask(ctx, p, d);
	if (result != GO_ON)
		return result;
	d->kind = TO_LEG;
	d->port = (struct port_id){ .ifindex = r->leg_ifindex };
	d->takes_no_mark = !!(r->flags & ROUTER_LEG_TAKES_NO_MARK);
	d->translates = !!(r->flags & ROUTER_NAT);
	d->nat_version = r->nat_version;
	d->tag = (struct tag){};
	copy_mac(d->eth.h_source, r->leg_mac.bytes);
	d->routed++;
	return GO_ON;
}

/* One router, d->router. Global, so that the verifier checks it once. */
__noinline enum verdict route(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct scratch *w = get_scratch();
	enum verdict result;
	struct router *r;
	__u32 kind;

	if (!p || !d || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &d->router);
	if (!r)
		return DROP(NOT_CONFIGURED);
	if (r->flags & ROUTER_MSS_CLAMP)
		d->clamps_mss = true;
	/* The physical switch floods it: the acting host has it too. */
	if (r->flags & ROUTER_GATEWAY_ELSEWHERE && is_from_underlay(p) && !d->routed &&
	    is_on_vlan(d->router_in))
		return DROP(UNKNOWN_UNICAST);
	/* The router's addresses are those of the network without a tag. */
	if (has_vlan(&p->tag))
		return DROP(VLAN_TAG);
	if (!p->l4_offset)
		return DROP(NOT_ROUTABLE);
	if (read_ip(ctx, w, p) < 0)
		return DROP(INNER_IP_HEADER);
	kind = find_next_hop(w, p, d->router);
	if (kind == ROUTE_REFUSED) {
		if (!is_own_link_local_of(d, r, &p->flow.dest))
			return DROP(NOT_ROUTABLE);
		kind = ROUTE_OWN;
	}
	if (has_ipv4(p) && w->ip[0] == 0x45 && csum_ipv4_header(w->ip) != 0xffff)
		return DROP(INNER_IP_HEADER);
	result = check_source(p, d, r, kind == ROUTE_OWN);
	if (result != GO_ON)
		return result;
	if (kind == ROUTE_NONE)
		return refuse(d, TELL_NO_ROUTE, DROP(NO_ROUTE));
	if (kind == ROUTE_OWN)
		return to_own_address(ctx, p, d);
	if (is_for_acting_host(w, r, has_ipv4(p)))
		return to_acting_host(w, p, d, r);
	if (get_ttl(has_ipv4(p), w->ip) <= d->routed + 1)
		return refuse(d, TELL_TTL_EXCEEDED, DROP(TTL_EXCEEDED));
	if (w->next.switch_id == SWITCH_ID_LEG)
		return into_leg(ctx, w, p, d, r);
	return into_switch(ctx, w, p, d, r);
}
