/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage l2_lookup: which port or remote has the destination address, by the fabric's FDB or by what was
 * learned. Then to_port, encap, vlan_out or flood.
 */
#pragma once

#include "flood.h"
#include "learn.h"

static __always_inline bool find_mac(const struct packet *p, const struct lswitch *sw,
				     struct fdb_entry *found)
{
	struct fdb_key key = { .switch_id = p->switch_id };
	struct fdb_entry *entry;

	__builtin_memcpy(key.mac.bytes, p->eth.h_dest, ETH_ALEN);
	entry = bpf_map_lookup_elem(&fdb, &key);
	if (entry) {
		*found = *entry;
		return true;
	}
	return sw->flags & SWITCH_LEARNING && find_learned(&key, found);
}

static __always_inline int unknown_from_port(struct __sk_buff *ctx, const struct settings *s,
					     struct packet *p, const struct lswitch *sw)
{
	if (sw->flags & SWITCH_FLOOD_UNKNOWN)
		return flood_from_port(ctx, s, p, sw);
	return is_on_vlan(p->switch_id) ? vlan_out(ctx, s, p) : DROP(UNKNOWN_UNICAST);
}

static __always_inline int l2_from_port(struct __sk_buff *ctx, const struct settings *s,
					struct packet *p, const struct lswitch *sw)
{
	struct fdb_entry entry;
	int result;

	if (is_group(p->eth.h_dest))
		return flood_from_port(ctx, s, p, sw);
	if (!find_mac(p, sw, &entry))
		return unknown_from_port(ctx, s, p, sw);
	if (same_port(&entry.port, &p->source))
		return DROP(HAIRPIN);
	if (entry.port.ifindex)
		return to_port(ctx, p, entry.port);
	p->dest_key = entry.key;
	if (is_on_vlan(p->switch_id))
		return vlan_out(ctx, s, p);

	result = encap(ctx, s, p, &entry.remote, entry.key);
	if (result != VERDICT_SEGMENT)
		count_remote(p, &entry.remote, result < 0 ? REMOTE_DROPPED : REMOTE_TO);
	return result;
}

#define FLOOD_HERE 1

/* A frame that came plain or out of a tunnel, which never goes back to the underlay. */
static __always_inline int local_port(const struct packet *p, const struct lswitch *sw,
				      struct port_id *id)
{
	struct fdb_entry entry;

	if (!find_mac(p, sw, &entry))
		return sw->flags & SWITCH_FLOOD_UNKNOWN ? FLOOD_HERE : DROP(UNKNOWN_UNICAST);
	if (!entry.port.ifindex)
		return DROP(UNKNOWN_UNICAST);
	*id = entry.port;
	return 0;
}
