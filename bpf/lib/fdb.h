/* SPDX-License-Identifier: Apache-2.0 */
/* Where a MAC address of a switch is: by the fabric's FDB, or by what was learned (stage/learn.h). */
#pragma once

#include "vlan.h"

INLINE bool is_old(const struct learned *l, __u64 now)
{
	return now > l->seen + l->age * SECOND;
}

/* Whether a port of this host may use a MAC beside its own. */
INLINE bool is_allowed_mac(__u32 switch_id, __u32 port_key, const __u8 *mac)
{
	struct allowed_mac_key key = { .switch_id = switch_id, .key = port_key };

	copy_mac(key.mac.bytes, mac);
	return bpf_map_lookup_elem(&allowed_macs, &key);
}

/* Whether a frame's source is a MAC that its port may use beside its own. */
INLINE bool may_use_mac(const struct packet *p, const struct port *port)
{
	return port->flags & PORT_ALLOWED_MACS &&
	       is_allowed_mac(p->switch_id, port->key, p->eth.h_source);
}

/* Whether a port may say in ARP and neighbour discovery that an address is at this MAC: the frame's source, or its own. */
INLINE bool speaks_for_mac(const struct packet *p, const struct port *port, const __u8 *mac)
{
	return same_mac(mac, p->eth.h_source) || same_mac(mac, port->mac.bytes) ||
	       (port->flags & PORT_ALLOWED_MACS && is_allowed_mac(port->switch_id, port->key, mac));
}

/*
 * Where a learned address is, while that is still true. What is judged is a copy: the kernel gives the memory of a
 * deleted entry to the next new one at once.
 */
static __noinline bool find_learned(const struct fdb_key *key, struct fdb_entry *found, bool floats)
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
	found->flags = FDB_LEARNED;
	if (!copy.port.ifindex)
		return is_on_vlan(key->switch_id) || bpf_map_lookup_elem(&remotes, &found->remote);
	port = bpf_map_lookup_elem(&ports, &found->port);
	if (!port || port->switch_id != key->switch_id || port->key != copy.key)
		return false;
	return floats ? is_allowed_mac(key->switch_id, copy.key, key->mac.bytes) :
			!!(port->flags & PORT_LEARNING);
}

INLINE struct fdb_key fdb_key_of(__u32 switch_id, const __u8 *mac)
{
	struct fdb_key key = { .switch_id = switch_id };

	copy_mac(key.mac.bytes, mac);
	return key;
}

/* The entry of an address, which may be one that floats. */
INLINE struct fdb_entry *fdb_entry_or_floating(__u32 switch_id, const __u8 *mac)
{
	struct fdb_key key = fdb_key_of(switch_id, mac);

	return bpf_map_lookup_elem(&fdb, &key);
}

/* Where the fabric says that an address is; NULL: nowhere. */
INLINE struct fdb_entry *fdb_entry_of(__u32 switch_id, const __u8 *mac)
{
	struct fdb_entry *entry = fdb_entry_or_floating(switch_id, mac);

	return entry && !(entry->flags & FDB_FLOATS) ? entry : NULL;
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

	if (entry && !(entry->flags & FDB_FLOATS)) {
		*found = *entry;
		return true;
	}
	return sw->flags & SWITCH_LEARNING && find_learned(&key, found, entry);
}
