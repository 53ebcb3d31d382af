/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage ids: the logical destination of a frame in a tunnel. The Geneve option names it; without one
 * (VXLAN, or a peer that does not send it) the FDB does. After learn; then decap, and to_port or flood.
 */
#pragma once

#include "decap.h"
#include "l2_lookup.h"
#include "tunnel.h"

static __always_inline int port_of_key(const struct packet *p, __u32 dest_key, struct port_id *id)
{
	struct port_key key = { .switch_id = p->switch_id, .key = dest_key };
	struct port_id *found = bpf_map_lookup_elem(&port_keys, &key);

	if (!found)
		return DROP(UNKNOWN_PORT_KEY);
	*id = *found;
	return 0;
}

static __always_inline int ids(struct __sk_buff *ctx, struct packet *p, const struct outer_view *o,
			       const struct lswitch *sw)
{
	struct port_id id = {};
	int result;
	bool group;

	/* The tunnel's mark stays on it, and the guest's UDP would lose it without a trace. */
	if (p->gso_size && p->l4_proto == IPPROTO_UDP)
		return DROP(GSO_UNSUPPORTED);
	group = o->dest_key >= GENEVE_FLOOD_GROUP || (!o->dest_key && is_group(p->eth.h_dest));
	if (!group) {
		result = o->dest_key ? port_of_key(p, o->dest_key, &id) : local_port(p, sw, &id);
		if (result < 0)
			return result;
		group = result == FLOOD_HERE;
	}
	result = decap(ctx, p);
	if (result < 0)
		return result;
	return group ? flood_from_underlay(ctx, p, sw) : to_port(ctx, p, id);
}
