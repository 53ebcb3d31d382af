/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage ids: the logical destination of a frame in a tunnel. The Geneve option names it; without one
 * (VXLAN, or a peer that does not send it) the FDB does. After learn; then decap, and to_port, route or
 * flood.
 */
#pragma once

#include "decap.h"
#include "flow_way.h"
#include "l2_lookup.h"
#include "tunnel.h"

/* A router's interface has a key as ports have, and its MAC is on every host. */
static __always_inline int router_of_key(struct packet *p, __u32 dest_key)
{
	struct fdb_key key = { .switch_id = p->switch_id };
	struct fdb_entry *entry;

	__builtin_memcpy(key.mac.bytes, p->eth.h_dest, ETH_ALEN);
	entry = bpf_map_lookup_elem(&fdb, &key);
	return entry && entry->router && entry->key == dest_key ? to_router(p, entry) :
								  DROP(UNKNOWN_PORT_KEY);
}

static __always_inline int port_of_key(struct packet *p, __u32 dest_key, struct port_id *id)
{
	struct port_key key = { .switch_id = p->switch_id, .key = dest_key };
	struct port_place *found = bpf_map_lookup_elem(&port_keys, &key);

	if (!found)
		return router_of_key(p, dest_key);
	*id = found->id;
	return 0;
}

/* A routed packet is what its IP header says; what decap put behind it goes again. */
static __always_inline int decap_to_route(struct __sk_buff *ctx, struct packet *p)
{
	int result = decap(ctx, p);

	if (result < 0)
		return result;
	if (ctx->len > p->len && bpf_skb_change_tail(ctx, p->len, 0) < 0)
		return DROP(DECAP_FAILED);
	return TO_ROUTER;
}

static __always_inline int ids(struct __sk_buff *ctx, struct packet *p, const struct outer_view *o,
			       const struct lswitch *sw)
{
	struct settings *s = get_settings();
	/* With the tunnel's mark the kernel would segment it wrongly, and no flooded copy loses it. */
	bool is_whole_udp = p->gso_size && p->l4_proto == IPPROTO_UDP;
	struct port_id id = {};
	int result = 0;
	bool group;

	if (is_whole_udp && !(s && takes_whole_udp(s) && gro_reads(ctx, p, p->offset)))
		return DROP(GSO_UNSUPPORTED);
	group = o->dest_key >= GENEVE_FLOOD_GROUP || (!o->dest_key && is_group(p->eth.h_dest));
	if (!group) {
		result = o->dest_key ? port_of_key(p, o->dest_key, &id) : local_port(p, sw, &id);
		if (result < 0)
			return result;
		group = result == FLOOD_HERE;
	}
	if (is_whole_udp && group)
		return DROP(GSO_UNSUPPORTED);
	if (result == TO_ROUTER)
		return decap_to_route(ctx, p);
	result = decap(ctx, p);
	if (result < 0)
		return result;
	return group ? flood_from_underlay(ctx, p, sw) : to_port(ctx, p, id);
}
