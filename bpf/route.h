/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage route: a packet to a router's MAC goes to the next hop of its destination, on the host where it
 * enters. After l2_lookup, ids or leg_in, with p->router and p->router_in set and the frame plain; then
 * l2_lookup in the switch of the next hop, or nat and leg_out. A next hop may be a router too: then once more.
 */
#pragma once

#include "echo.h"
#include "leg_out.h"

#define MOST_ROUTERS 4 /* that one packet passes on one host */
#define FORWARDED 257  /* the packet is the next hop's now */

static __always_inline int refuse(struct packet *p, __u32 told, int result)
{
	p->told = told;
	return result;
}

/* Addresses that never leave their link, or mean nobody. */
static __always_inline bool is_routable(const struct packet *p)
{
	const __u32 *to = &p->flow.words[4];
	const __u8 *bytes = (const __u8 *)to;

	if (has_ipv4(p))
		return to[3] && bytes[12] != 127 && bytes[12] < 224;
	if (bytes[0] == 0xff || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80))
		return false;
	return to[0] | to[1] | to[2] | (to[3] & ~bpf_htonl(1));
}

/* The link-local address made from the router's MAC, which its IPv6 interfaces have. */
static __always_inline bool is_own_link_local_of(const struct packet *p, const struct router *r)
{
	struct router_interface *i;

	if (!is_link_local_of(r->mac.bytes, &p->flow.words[4]))
		return false;
	i = interface_on(p->router, p->router_in);
	return i && !is_zero(&i->v6);
}

/* For the router itself. */
static __always_inline int to_own_address(struct __sk_buff *ctx, struct packet *p)
{
	if (echo(ctx, p))
		return VERDICT_ANSWER;
	if (!p->is_fragment && p->l4_proto == IPPROTO_TCP)
		p->told = TELL_RESET;
	if (!p->is_fragment && p->l4_proto == IPPROTO_UDP)
		p->told = TELL_NO_PORT;
	return DROP(ROUTER_ADDRESS);
}

/* Only the gateway host has the leg. It gets the frame as it came here. */
static __always_inline int to_gateway(struct __sk_buff *ctx, struct packet *p, struct router *r)
{
	struct settings *s = get_settings();
	struct router_interface *i = interface_on(p->router, p->router_in);

	if (!s || !i)
		return DROP(NOT_CONFIGURED);
	/* Else two hosts on a VLAN could send it to and fro. */
	if (is_from_underlay(p) && !p->routed)
		return DROP(UNKNOWN_UNICAST);
	p->dest_key = i->key;
	if (is_on_vlan(p->switch_id))
		return vlan_out(ctx, s, p);
	p->for_router = 1;
	return to_remote(ctx, s, p, &r->gateway, i->key);
}

/* The frame becomes the neighbour's, in its switch. */
static __always_inline int into_switch(struct __sk_buff *ctx, struct scratch *w, struct packet *p,
				       const struct router *r)
{
	struct neighbour_key key = { .switch_id = w->next.switch_id, .addr = w->next.addr };
	struct neighbour *n = NULL;
	struct router_interface *i;

	if (has_ipv4(p) || !is_mapped_v4(&key.addr))
		n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n)
		return refuse(p, TELL_NO_NEIGHBOUR, DROP(NO_NEIGHBOUR));
	i = interface_on(p->router, key.switch_id);
	__builtin_memcpy(p->eth.h_dest, n->mac.bytes, ETH_ALEN);
	__builtin_memcpy(p->eth.h_source, r->mac.bytes, ETH_ALEN);
	p->routed++;
	set_ttl(has_ipv4(p), w->ip, get_ttl(p, w->ip) - 1);
	if (store_headers(ctx, p, w->ip) < 0)
		return DROP(ENCAP_FAILED);
	p->switch_id = key.switch_id;
	p->source_key = i ? i->key : 0;
	p->tag = (struct tag){};
	return FORWARDED;
}

/* One router. Global, so that the verifier checks it once: a verdict, a drop reason, or FORWARDED. */
__noinline int route_here(struct __sk_buff *ctx, struct packet *p)
{
	struct scratch *w = get_scratch();
	struct router *r;
	__u32 kind;

	if (!p || !w)
		return DROP(NOT_CONFIGURED);
	r = bpf_map_lookup_elem(&routers, &p->router);
	if (!r)
		return DROP(NOT_CONFIGURED);
	if (!p->l4_offset)
		return DROP(NOT_ROUTABLE);
	if (read_ip(ctx, w, p) < 0)
		return DROP(INNER_IP_HEADER);
	kind = ROUTE_OWN;
	if (!is_routable(p)) {
		if (has_ipv4(p) || !is_own_link_local_of(p, r))
			return DROP(NOT_ROUTABLE);
	} else {
		kind = find_way(w, p);
	}
	if (has_ipv4(p) && w->ip[0] == 0x45 && csum_ipv4_header(w->ip) != 0xffff)
		return DROP(INNER_IP_HEADER);
	if (!kind)
		return refuse(p, TELL_NO_ROUTE, DROP(NO_ROUTE));
	if (kind == ROUTE_OWN)
		return to_own_address(ctx, p);
	if (w->next.switch_id == SWITCH_ID_LEG && r->flags & ROUTER_GATEWAY_ELSEWHERE)
		return to_gateway(ctx, p, r);
	if (get_ttl(p, w->ip) <= 1)
		return refuse(p, TELL_TTL_EXCEEDED, DROP(TTL_EXCEEDED));
	if (w->next.switch_id == SWITCH_ID_LEG)
		return leg_out(ctx, w, p, r, kind);
	return into_switch(ctx, w, p, r);
}

/* l2_lookup of what was routed: it may go anywhere, and is never flooded. Global like route_here(). */
__noinline int leave(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct fdb_entry entry;
	struct lswitch *sw;

	if (!p || !s)
		return DROP(NOT_CONFIGURED);
	sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	if (!sw)
		return DROP(UNKNOWN_SWITCH);
	if (!find_mac(p->switch_id, p->eth.h_dest, sw, &entry))
		return is_on_vlan(p->switch_id) ? vlan_out(ctx, s, p) : DROP(UNKNOWN_UNICAST);
	if (entry.router)
		return to_router(p, &entry);
	if (entry.port.ifindex)
		return to_port(ctx, p, entry.port);
	p->dest_key = entry.key;
	if (is_on_vlan(p->switch_id))
		return vlan_out(ctx, s, p);
	return to_remote(ctx, s, p, &entry.remote, entry.key);
}

/* The stage. Global, for each hook has packets for routers. */
__noinline int route(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	int result = TO_ROUTER;

	if (!p || !s)
		return DROP(NOT_CONFIGURED);
	if (is_from_underlay(p)) /* most packets from there need none */
		hash_flow(s, p);
	for (int i = 0; i < MOST_ROUTERS; i++) {
		result = route_here(ctx, p);
		if (result != FORWARDED)
			return result;
		result = leave(ctx, p);
		if (result != TO_ROUTER)
			return result;
	}
	return refuse(p, TELL_TTL_EXCEEDED, DROP(TTL_EXCEEDED));
}
