/* SPDX-License-Identifier: Apache-2.0 */
/* Stage l2_lookup: which port or remote has the destination address. Then to_port, encap or flood. */
#pragma once

#include "flood.h"

static __always_inline struct fdb_entry *find_mac(const struct packet *p)
{
	struct fdb_key key = { .vni = p->vni };

	__builtin_memcpy(key.mac.bytes, p->eth.h_dest, ETH_ALEN);
	return bpf_map_lookup_elem(&fdb, &key);
}

static __always_inline int l2_from_port(struct __sk_buff *ctx, const struct settings *s,
					struct packet *p)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &p->vni);
	struct fdb_entry *entry;
	struct addr remote;
	int result;

	if (!sw)
		return DROP(UNKNOWN_SWITCH);
	if (is_group(p->eth.h_dest))
		return flood_from_port(ctx, s, p, sw);
	entry = find_mac(p);
	if (!entry)
		return sw->flags & SWITCH_FLOOD_UNKNOWN ? flood_from_port(ctx, s, p, sw) :
							  DROP(UNKNOWN_UNICAST);
	if (entry->key == p->source_key)
		return DROP(HAIRPIN);
	if (entry->ifindex)
		return to_port(ctx, p, entry->ifindex);

	remote = entry->remote;
	result = encap(ctx, s, p, &remote, entry->key);
	if (result != VERDICT_SEGMENT)
		count_remote(p, &remote, result < 0 ? REMOTE_DROPPED : REMOTE_TO);
	return result;
}
