/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage vlan_in: a tagged frame on the uplink enters the switch that is bound to its VLAN. Anything else
 * with a tag stays with the host. First stage on the uplink; then parse and l2_lookup.
 */
#pragma once

#include "l2_lookup.h"

static __always_inline struct lswitch *vlan_in(struct packet *p)
{
	__u32 vlan = p->in_tag.tci & VLAN_ID_MASK;

	if (p->in_tag.proto != ETHERTYPE_VLAN || !vlan)
		return NULL;
	p->switch_id = SWITCH_ID_VLAN | vlan;
	return bpf_map_lookup_elem(&switches, &p->switch_id);
}

static __always_inline int l2_from_vlan(struct __sk_buff *ctx, struct packet *p,
					const struct lswitch *sw)
{
	struct port_id id = {};
	int result;

	if (is_group(p->eth.h_dest))
		return flood_from_underlay(ctx, p, sw);
	result = local_port(p, sw, &id);
	if (result < 0 || result == TO_ROUTER)
		return result;
	return result == FLOOD_HERE ? flood_from_underlay(ctx, p, sw) : to_port(ctx, p, id);
}
