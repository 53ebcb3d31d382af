/* SPDX-License-Identifier: Apache-2.0 */
/* Stage port: the device a packet came by, and on a trunk its tag, name the logical port. */
#pragma once

#include "lib/vlan.h"

INLINE struct port *find_port(struct packet *p, __u32 ifindex)
{
	struct port_id id = { .ifindex = ifindex, .vlan = p->in_tag.tci & VLAN_ID_MASK };
	struct port *port = NULL;

	if (p->in_tag.proto == ETHERTYPE_VLAN && id.vlan)
		port = bpf_map_lookup_elem(&ports, &id);
	p->tag = priority_of(&p->in_tag);
	if (!port) {
		p->tag = p->in_tag;
		id.vlan = 0;
		port = bpf_map_lookup_elem(&ports, &id);
	}
	p->source = id;
	return port;
}

INLINE enum verdict port(struct packet *p, struct destination *d, __u32 ifindex, struct port **found,
			 struct lswitch **sw)
{
	struct port *port = find_port(p, ifindex);

	if (!port)
		return DROP(NO_PORT);
	enter_switch(p, d, port->switch_id, port->key);
	*sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	if (!*sw)
		return DROP(UNKNOWN_SWITCH);
	p->source_counters = port->counters;
	*found = port;
	return GO_ON;
}
