/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of VTEPs, which belong to nobody in a switch or behind a leg. */
#pragma once

#include "packet.h"

/* Most addresses are outside the network that has all VTEPs, and cost no look-up. */
INLINE bool is_vtep(const struct settings *s, const struct addr *addr)
{
	const __u32 *a = (const __u32 *)addr, *network = (const __u32 *)&s->vteps,
		    *mask = (const __u32 *)&s->vteps_mask;

	if (((a[0] ^ network[0]) & mask[0]) | ((a[1] ^ network[1]) & mask[1]) |
	    ((a[2] ^ network[2]) & mask[2]) | ((a[3] ^ network[3]) & mask[3]))
		return false;
	return same_addr(addr, &s->vtep) || bpf_map_lookup_elem(&remotes, addr);
}

/* To or from one. */
INLINE bool is_about_vtep(const struct settings *s, const struct packet *p)
{
	return is_vtep(s, &p->flow.source) || is_vtep(s, &p->flow.dest);
}
