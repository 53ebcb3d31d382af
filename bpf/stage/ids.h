/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage ids: the logical destination of a frame in a tunnel, where the Geneve option names it. Without one (VXLAN, a
 * peer that does not send it, the key of a group) l2_lookup goes by the MAC.
 */
#pragma once

#include "lib/detour.h"
#include "lib/fdb.h"
#include "lib/outer.h"

/* A router's interface has a key as ports have, and its MAC is on every host. */
INLINE enum verdict router_of_key(const struct packet *p, struct destination *d, __u32 dest_key)
{
	struct fdb_entry *entry = fdb_entry_of(p->switch_id, p->eth.h_dest);

	if (!entry || !entry->router || entry->key != dest_key)
		return DROP(UNKNOWN_PORT_KEY);
	d->kind = TO_ROUTER;
	d->router = entry->router;
	d->router_in = p->switch_id;
	return GO_ON;
}

INLINE enum verdict ids(struct __sk_buff *ctx, const struct packet *p, struct destination *d,
			const struct outer_view *o)
{
	struct port_key key = { .switch_id = p->switch_id, .key = o->dest_key };
	struct settings *s = get_settings();
	struct port_place *found;

	/* With the tunnel's mark the kernel would segment it wrongly. */
	if (is_whole_udp(p) && !(s && takes_whole_udp(s) && gro_reads(ctx, p, p->offset)))
		return DROP(GSO_UNSUPPORTED);
	if (!o->dest_key || o->dest_key >= GENEVE_FLOOD_GROUP)
		return GO_ON;
	found = bpf_map_lookup_elem(&port_keys, &key);
	if (!found)
		return router_of_key(p, d, o->dest_key);
	d->kind = TO_PORT;
	d->port = found->id;
	return GO_ON;
}
