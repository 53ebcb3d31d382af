/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage vlan_in: a tagged frame on the uplink enters the switch that is bound to its VLAN. Anything else with a tag
 * stays with the host, and so does all where the uplink is gone.
 */
#pragma once

#include "lib/devices.h"
#include "lib/vlan.h"

INLINE enum verdict vlan_in(struct __sk_buff *ctx, struct packet *p, struct destination *d,
			    struct lswitch **sw)
{
	__u32 vlan = p->in_tag.tci & VLAN_ID_MASK;

	if (p->in_tag.proto != ETHERTYPE_VLAN || !vlan)
		return VERDICT_TO_HOST;
	enter_switch(p, d, SWITCH_ID_VLAN | vlan, 0);
	p->tag = priority_of(&p->in_tag);
	*sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	return *sw && hook_is_there(ctx, &p->changes) ? GO_ON : VERDICT_TO_HOST;
}
