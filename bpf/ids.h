/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage ids: the logical destination of a decapsulated frame. The Geneve option names it; without one
 * (VXLAN, or a peer that does not send it) the FDB does. Then to_port or flood.
 */
#pragma once

#include "decap.h"
#include "l2_lookup.h"
#include "tunnel.h"

/* The local port of a unicast frame. */
static __always_inline int find_port(const struct packet *p, __u32 dest_key, __u32 *ifindex)
{
	struct port_key key = { .vni = p->vni, .key = dest_key };
	struct fdb_entry *entry;
	__u32 *found;

	if (dest_key) {
		found = bpf_map_lookup_elem(&port_keys, &key);
		if (!found)
			return DROP(UNKNOWN_PORT_KEY);
		*ifindex = *found;
		return 0;
	}
	entry = find_mac(p);
	if (!entry || !entry->ifindex)
		return DROP(UNKNOWN_UNICAST);
	*ifindex = entry->ifindex;
	return 0;
}

static __always_inline int ids(struct __sk_buff *ctx, struct packet *p, const struct outer_view *o)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &p->vni);
	__u32 ifindex = 0;
	int result;
	bool group;

	if (!sw)
		return DROP(UNKNOWN_VNI);
	/* The tunnel's mark stays on it, and the guest's UDP would lose it without a trace. */
	if (p->gso_size && p->l4_proto == IPPROTO_UDP)
		return DROP(GSO_UNSUPPORTED);
	group = o->dest_key >= GENEVE_FLOOD_GROUP || (!o->dest_key && is_group(p->eth.h_dest));
	if (!group) {
		result = find_port(p, o->dest_key, &ifindex);
		if (result < 0 && (o->dest_key || !(sw->flags & SWITCH_FLOOD_UNKNOWN)))
			return result;
		group = result < 0;
	}
	result = decap(ctx, p);
	if (result < 0)
		return result;
	return group ? flood_from_underlay(ctx, p, sw) : to_port(ctx, p, ifindex);
}
