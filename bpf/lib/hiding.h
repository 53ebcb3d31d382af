/* SPDX-License-Identifier: Apache-2.0 */
/* What stands outside for an address inside, by the nat rules alone: for nat, and for what routers tell outside. */
#pragma once

#include "ip.h"

INLINE __u32 nat_list(const struct router *r, __u32 router)
{
	return r->flags & ROUTER_NAT_ODD ? router | NAT_RULES_ODD : router;
}

/* The first rule that hides an inside address; NULL: none. */
INLINE const __u32 *find_hiding(__u32 list, __u32 family, const struct addr *inside)
{
	struct nat_inside_key key = {
		.prefixlen = 64 + 128,
		.list = bpf_htonl(list),
		.family = bpf_htonl(family),
		.addr = *inside,
	};

	return bpf_map_lookup_elem(&nat_insides, &key);
}

/*
 * Where an ICMP error of a router inside comes from, as seen outside: what hides the router, or the gateway r itself.
 * False: the gateway has no address of that family.
 */
INLINE bool find_teller(const struct router *r, __u32 router, __u32 family, const struct addr *inside,
			struct addr *teller)
{
	__u32 list = nat_list(r, router);
	const __u32 *number = find_hiding(list, family, inside);
	struct nat_rule_key key = { .list = list, .number = number ? *number : ~0u };
	const struct nat_rule *rule = bpf_map_lookup_elem(&nat_rules, &key);

	if (rule)
		*teller = rule->outside;
	else
		*teller = family == 4 ? r->leg_v4 : r->leg_v6;
	return !is_zero(teller);
}
