/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage l2_lookup: which port, remote or router has the destination address, by the fabric's FDB or by what was
 * learned. A frame from the underlay never goes back to it, unless it is routed; a routed one is never flooded.
 */
#pragma once

#include "lib/fdb.h"

INLINE enum verdict l2_unknown(const struct packet *p, struct destination *d,
			       const struct lswitch *sw)
{
	if (sw->flags & SWITCH_LEARNING) /* at any time it may be learned */
		d->once = true;
	if (!d->routed && sw->flags & SWITCH_FLOOD_UNKNOWN)
		d->kind = TO_FLOOD;
	else if (is_on_vlan(d->switch_id) && (d->routed || !is_from_underlay(p)))
		d->kind = TO_VLAN;
	else
		return DROP(UNKNOWN_UNICAST);
	return GO_ON;
}

/* Of d->eth in d->switch_id, which is sw. */
INLINE enum verdict l2_lookup(const struct packet *p, struct destination *d, const struct lswitch *sw)
{
	struct fdb_entry entry;

	if (is_group(d->eth.h_dest) && !d->routed) {
		d->kind = TO_FLOOD;
		return GO_ON;
	}
	if (!find_mac(d->switch_id, d->eth.h_dest, sw, &entry))
		return l2_unknown(p, d, sw);
	if (entry.flags & FDB_LEARNED)
		d->once = true;
	if (entry.router) {
		d->kind = TO_ROUTER;
		d->router = entry.router;
		d->router_in = d->switch_id;
		return GO_ON;
	}
	if (entry.port.ifindex) {
		if (!d->routed && same_port(&entry.port, &p->source))
			return DROP(HAIRPIN);
		d->kind = TO_PORT;
		d->port = entry.port;
		return GO_ON;
	}
	if (is_from_underlay(p) && !d->routed)
		return DROP(UNKNOWN_UNICAST);
	d->dest_key = entry.key;
	d->kind = is_on_vlan(d->switch_id) ? TO_VLAN : TO_REMOTE;
	d->remote = entry.remote;
	return GO_ON;
}
