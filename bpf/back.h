/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a frame that the skb has become back to where the packet came from: to the port's device or the leg
 * straight, from the underlay into the switch, as if the packet's destination had sent it. It is an answer, no
 * packet of its own: it counts nowhere and no firewall sees it. After answer.h, arp_nd.h and route.h.
 */
#pragma once

#include "l2_lookup.h"
#include "way.h"

/* The tag and where to; nothing is asked any more. */
static __always_inline int send_plain(struct __sk_buff *ctx, struct packet *p, __u32 ifindex,
				      struct tag tag)
{
	if (put_tag(ctx, tag) < 0)
		return DROP(ENCAP_FAILED);
	report_device(ifindex);
	p->action = bpf_redirect(ifindex, 0);
	return 0;
}

/*
 * Its receiver is behind a router, which sent the packet here: the answer goes its way back, as route would send
 * it, by the router's leg only over the gateway's host. Says where.
 * Global: it has a stack of its own.
 */
__noinline int find_behind_router(struct __sk_buff *ctx, struct packet *r, struct fdb_entry *to)
{
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	struct router *router;
	struct router_interface *i;
	struct fdb_entry *found;
	struct fdb_key at = {};
	struct neighbour *n;
	__u32 kind;

	if (!w || !r || !to)
		return false;
	router = bpf_map_lookup_elem(&routers, &to->router);
	r->router = to->router;
	kind = find_way(w, r);
	if (!router || !kind || kind == ROUTE_OWN)
		return false;
	key.switch_id = w->next.switch_id;
	key.addr = w->next.addr;
	i = interface_on(r->router, key.switch_id == SWITCH_ID_LEG ? r->switch_id : key.switch_id);
	if (!i)
		return false;
	if (key.switch_id == SWITCH_ID_LEG) {
		if (!(router->flags & ROUTER_GATEWAY_ELSEWHERE))
			return false;
		*to = (struct fdb_entry){ .key = i->key, .remote = router->gateway };
		return true;
	}
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n || (!has_ipv4(r) && is_mapped_v4(&key.addr)))
		return false;
	__builtin_memcpy(r->eth.h_source, router->mac.bytes, ETH_ALEN);
	__builtin_memcpy(r->eth.h_dest, n->mac.bytes, ETH_ALEN);
	if (bpf_skb_store_bytes(ctx, 0, &r->eth, ETH_HLEN, 0) < 0)
		return false;
	r->switch_id = key.switch_id;
	r->source_key = i->key;
	r->tag = (struct tag){};
	at.switch_id = r->switch_id; /* what is a neighbour is in the FDB */
	at.mac = n->mac;
	found = bpf_map_lookup_elem(&fdb, &at);
	if (!found)
		return false;
	*to = *found;
	return !to->router;
}

/* l2_lookup of the answer in the switch that the packet came from. */
static __always_inline int send_into_switch(struct __sk_buff *ctx, const struct settings *s,
					    struct packet *p, struct packet *r)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &r->switch_id);
	struct scratch *w = get_scratch();
	struct fdb_entry *to;
	bool known;
	int result;

	if (!sw || !w)
		return DROP(UNKNOWN_SWITCH);
	to = &w->receiver;
	/* Its sender, for the tunnel. */
	r->source_key = find_mac(r->switch_id, r->eth.h_source, sw, to) ? to->key : 0;
	known = find_mac(r->switch_id, r->eth.h_dest, sw, to);
	r->flow_hash = flow_hash(r->flow.words, s->hash_seed);
	if (known && to->router && !find_behind_router(ctx, r, to))
		return DROP(UNKNOWN_UNICAST);
	if (known && to->port.ifindex)
		return send_plain(ctx, p, to->port.ifindex, tag_at(r, &to->port));
	if (is_on_vlan(r->switch_id)) {
		result = vlan_out(ctx, s, r);
	} else {
		if (!known)
			return DROP(UNKNOWN_UNICAST);
		result = encap(ctx, s, r, &to->remote, to->key);
	}
	if (result < 0)
		return result;
	p->action = r->action;
	return 0;
}

/* scratch.reply describes the frame. 0: it is sent; else it must not go anywhere. */
__noinline int send_back(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct packet *r;

	if (!p || !w || !s)
		return DROP(NOT_CONFIGURED);
	r = &w->reply;
	p->action = TCX_DROP;
	if (!r->len)
		return DROP(ENCAP_FAILED);
	p->dest_key = as_it_came(w, p)->source_key;
	if (is_from_underlay(p))
		return send_into_switch(ctx, s, p, r);
	return send_plain(ctx, p, r->source.ifindex, r->in_tag);
}
