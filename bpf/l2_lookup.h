/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage l2_lookup: which port or remote has the destination address, by the fabric's FDB or by what was
 * learned. Then to_port, encap, vlan_out, route or flood.
 */
#pragma once

#include "flood.h"
#include "learn.h"

/* What a stage returns of a packet for a router, p->router: main goes on with route. */
#define TO_ROUTER 256

static __always_inline bool find_mac(__u32 switch_id, const __u8 *mac, const struct lswitch *sw,
				     struct fdb_entry *found)
{
	struct fdb_key key = { .switch_id = switch_id };
	struct fdb_entry *entry;

	__builtin_memcpy(key.mac.bytes, mac, ETH_ALEN);
	entry = bpf_map_lookup_elem(&fdb, &key);
	if (entry) {
		*found = *entry;
		return true;
	}
	return sw->flags & SWITCH_LEARNING && find_learned(&key, found);
}

static __always_inline int to_router(struct packet *p, const struct fdb_entry *entry)
{
	p->router = entry->router;
	p->router_in = p->switch_id;
	return TO_ROUTER;
}

/* In a tunnel to the host that has it. */
static __always_inline int to_remote(struct __sk_buff *ctx, const struct settings *s,
				     struct packet *p, const struct addr *remote, __u32 key)
{
	int result = encap(ctx, s, p, remote, key);

	if (result != VERDICT_SEGMENT)
		count_remote(p, p->remote_counters, result < 0 ? REMOTE_DROPPED : REMOTE_TO);
	return result;
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

	if (is_group(p->eth.h_dest))
		return flood_from_port(ctx, s, p, sw);
	if (!find_mac(p->switch_id, p->eth.h_dest, sw, &entry))
		return unknown_from_port(ctx, s, p, sw);
	if (entry.router)
		return to_router(p, &entry);
	if (same_port(&entry.port, &p->source))
		return DROP(HAIRPIN);
	if (entry.port.ifindex)
		return to_port(ctx, p, entry.port);
	p->dest_key = entry.key;
	if (is_on_vlan(p->switch_id))
		return vlan_out(ctx, s, p);
	return to_remote(ctx, s, p, &entry.remote, entry.key);
}

#define FLOOD_HERE 1

/* A frame that came plain or out of a tunnel, which never goes back to the underlay. */
static __always_inline int local_port(struct packet *p, const struct lswitch *sw, struct port_id *id)
{
	struct fdb_entry entry;

	if (!find_mac(p->switch_id, p->eth.h_dest, sw, &entry))
		return sw->flags & SWITCH_FLOOD_UNKNOWN ? FLOOD_HERE : DROP(UNKNOWN_UNICAST);
	if (entry.router)
		return to_router(p, &entry);
	if (!entry.port.ifindex)
		return DROP(UNKNOWN_UNICAST);
	*id = entry.port;
	return 0;
}
