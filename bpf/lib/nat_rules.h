/* SPDX-License-Identifier: Apache-2.0 */
/* Which nat rule of a router is for a packet: the first that fits, found by its two ends. For nat. */
#pragma once

#include "hiding.h"
#include "l4.h"

/* The first rule with the local end of a connection, or with its address alone; NULL: none. */
INLINE const __u32 *find_end(__u32 list, enum nat_side side, const struct connection_key *of,
			     bool has_port)
{
	struct nat_end_key key = {
		.list = list,
		.side = side,
		.addr = of->local,
		.port = has_port ? bpf_ntohs(of->local_port) : 0,
		.protocol = has_port ? of->protocol : 0,
		.family = of->family,
	};

	return bpf_map_lookup_elem(&nat_ends, &key);
}

INLINE void keep_first(__u32 *first, const __u32 *number)
{
	if (number && *number < *first)
		*first = *number;
}

/*
 * The first rule of a list that is for tracking.key, in scratch.rule: three look-ups, whatever the list has. side:
 * which end of the rule the local one is. An ICMP message that begins nothing finds what hides its sender. Global: it
 * has a stack of its own.
 */
__noinline int find_nat_rule(__u32 list, enum nat_side side)
{
	struct nat_rule_key key = { .list = list, .number = ~0u };
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	const struct nat_rule *rule;

	if (!t || !w)
		return false;
	if (side == NAT_OUTSIDE)
		keep_first(&key.number, find_end(list, side, &t->key, false));
	else
		keep_first(&key.number, find_hiding(list, t->key.family, &t->key.local));
	if (t->l4.source | t->l4.dest)
		keep_first(&key.number, find_end(list, side, &t->key, true));
	rule = bpf_map_lookup_elem(&nat_rules, &key);
	if (!rule)
		return false;
	w->rule = *rule;
	return true;
}
