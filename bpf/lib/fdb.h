/* SPDX-License-Identifier: Apache-2.0 */
/* Where a MAC address of a switch is: by the fabric's FDB, or by what was learned (stage/learn.h). */
#pragma once

#include "vlan.h"

INLINE bool is_old(const struct learned *l, __u64 now)
{
	return now > l->seen + l->age * SECOND;
}

/*
 * Where a learned address is, while that is still true. What is judged is a copy: the kernel gives the memory of a
 * deleted entry to the next new one at once.
 */
static __noinline bool find_learned(const struct fdb_key *key, struct fdb_entry *found)
{
	struct learned *l = bpf_map_lookup_elem(&learned, key);
	struct learned copy;
	struct port *port;

	if (!l)
		return false;
	copy = *l;
	if (is_old(&copy, now_ns()))
		return false;
	found->port = copy.port;
	found->key = copy.key;
	found->remote = copy.remote;
	found->router = 0;
	found->flags = 0;
	if (!copy.port.ifindex)
		return is_on_vlan(key->switch_id) || bpf_map_lookup_elem(&remotes, &found->remote);
	port = bpf_map_lookup_elem(&ports, &found->port);
	return port && port->switch_id == key->switch_id && port->key == copy.key &&
	       port->flags & PORT_LEARNING;
}

INLINE struct fdb_key fdb_key_of(__u32 switch_id, const __u8 *mac)
{
	struct fdb_key key = { .switch_id = switch_id };

	__builtin_memcpy(key.mac.bytes, mac, ETH_ALEN);
	return key;
}

/* What the fabric says of an address; NULL: nothing. */
INLINE struct fdb_entry *fdb_entry_of(__u32 switch_id, const __u8 *mac)
{
	struct fdb_key key = fdb_key_of(switch_id, mac);

	return bpf_map_lookup_elem(&fdb, &key);
}

INLINE bool is_routers(__u32 switch_id, const __u8 *mac)
{
	struct fdb_entry *entry = fdb_entry_of(switch_id, mac);

	return entry && entry->router;
}

INLINE bool find_mac(__u32 switch_id, const __u8 *mac, const struct lswitch *sw,
		     struct fdb_entry *found)
{
	struct fdb_key key = fdb_key_of(switch_id, mac);
	struct fdb_entry *entry = bpf_map_lookup_elem(&fdb, &key);

	if (entry) {
		*found = *entry;
		return true;
	}
	return sw->flags & SWITCH_LEARNING && find_learned(&key, found);
}
