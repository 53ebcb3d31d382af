/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a router's nat rules is for a new connection: the first in the order of the file. Part of nat. */
#pragma once

#include "tracking.h"

enum nat_search {
	NAT_OUT,   /* rules for a new connection from inside */
	NAT_IN,    /* and from outside */
	NAT_HIDES, /* that would hide an inside address */
};

struct nat_walk {
	__u32 router; /* of the rules' keys */
	enum nat_search search;
	int found;
};

INLINE bool is_in_network(const struct addr *addr, const struct addr *network, __u32 bits)
{
	const __u32 *a = (const __u32 *)addr, *n = (const __u32 *)network;

	for (__u32 i = 0; i < 4; i++) {
		__u32 most = bits > 32 * i ? bits - 32 * i : 0;
		__u32 mask = ~0ull << (32 - (most < 32 ? most : 32));

		if ((a[i] ^ n[i]) & bpf_htonl(mask))
			return false;
	}
	return true;
}

/* Whether a rule is for the connection of tracking.key: from outside its local end is the outside one. */
INLINE bool is_for(const struct nat_rule *rule, const struct tracking *t, enum nat_search search)
{
	const struct connection_key *k = &t->key;
	bool in = search == NAT_IN;

	if (rule->family != k->family)
		return false;
	if (rule->kind == NAT_ONE_TO_ONE)
		return same_addr(in ? &rule->outside : &rule->inside, &k->local);
	if (rule->kind == NAT_SOURCE)
		return !in && is_in_network(&k->local, &rule->inside, rule->inside_bits);
	return search != NAT_HIDES && rule->protocol == k->protocol && t->l4.source | t->l4.dest &&
	       same_addr(in ? &rule->outside : &rule->inside, &k->local) &&
	       (in ? rule->outside_port : rule->inside_port) == bpf_ntohs(k->local_port);
}

static long try_rule(__u32 number, void *context)
{
	struct nat_walk *walk = context;
	struct nat_rule_key key = { .router = walk->router, .number = number };
	struct nat_rule *rule = bpf_map_lookup_elem(&nat_rules, &key);
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();

	if (!rule || !t || !w || !is_for(rule, t, walk->search))
		return 0;
	w->rule = *rule;
	walk->found = true;
	return 1;
}

/* The first rule of the router that is for tracking.key, in scratch.rule. */
INLINE bool find_nat_rule(__u32 router, enum nat_search search)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);
	struct nat_walk walk = { .router = router, .search = search };

	if (!r)
		return false;
	if (r->flags & ROUTER_NAT_ODD)
		walk.router |= NAT_RULES_ODD;
	bpf_loop(r->nat_rules, try_rule, &walk, 0);
	return walk.found;
}
