/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage learn: source addresses behind learning ports, and behind remotes on switches that have such
 * ports. The fabric's FDB always comes first. From a port between port_security and arp_nd; from the
 * underlay between ecn and ids. What is learned is state of the data path: nobody but these programs
 * writes the maps `learned` and `learning`.
 */
#pragma once

#include <linux/errno.h>

#include "vlan.h"

#define SECOND 1000000000ull

static __always_inline bool is_old(const struct learned *l, __u64 now)
{
	return now > l->seen + l->age * SECOND;
}

/* Where a learned address is, while that is still true. A learned entry begins like one of the FDB. */
static __always_inline struct fdb_entry *find_learned(const struct fdb_key *key)
{
	struct learned *l = bpf_map_lookup_elem(&learned, key);
	struct port *port;

	if (!l || is_old(l, now_ns()))
		return NULL;
	if (l->port.ifindex) {
		port = bpf_map_lookup_elem(&ports, &l->port);
		if (!port || port->switch_id != key->switch_id || port->key != l->key ||
		    !(port->flags & PORT_LEARNING))
			return NULL;
	} else if (!is_on_vlan(key->switch_id) && !bpf_map_lookup_elem(&remotes, &l->remote)) {
		return NULL;
	}
	return (struct fdb_entry *)l;
}

static __always_inline struct learning *get_learning(__u32 switch_id, __u32 key)
{
	struct port_key id = { .switch_id = switch_id, .key = key };
	struct learning none = {};
	struct learning *found = bpf_map_lookup_elem(&learning, &id);

	if (found)
		return found;
	bpf_map_update_elem(&learning, &id, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&learning, &id);
}

/* An address left a port of this host. */
static __always_inline void uncount(__u32 switch_id, __u32 key)
{
	struct port_key id = { .switch_id = switch_id, .key = key };
	struct learning *former = bpf_map_lookup_elem(&learning, &id);

	if (former && former->macs)
		__sync_fetch_and_add(&former->macs, -1);
}

static long forget_if_old(void *map, const void *id, void *value, void *now)
{
	const struct fdb_key *key = id;
	struct learned *l = value;

	if (!is_old(l, *(__u64 *)now))
		return 0;
	if (l->port.ifindex)
		uncount(key->switch_id, l->key);
	bpf_map_delete_elem(map, id);
	return 0;
}

/* Forgets what is old, at most once a second for each port: it walks the whole table. */
static __always_inline void sweep(struct learning *of, __u64 now)
{
	if (now < of->next_sweep)
		return;
	of->next_sweep = now + SECOND;
	bpf_for_each_map_elem(&learned, forget_if_old, &now, 0);
}

/* Writes an entry; the port that had the address before no longer counts it. */
static __always_inline bool remember(const struct fdb_key *key, const struct learned *entry)
{
	struct learned *former = bpf_map_lookup_elem(&learned, key);
	__u32 former_key = former && former->port.ifindex ? former->key : 0;

	if (bpf_map_update_elem(&learned, key, entry, BPF_ANY) < 0)
		return false;
	if (former_key)
		uncount(key->switch_id, former_key);
	return true;
}

static __noinline int learn_new(const struct fdb_key *key, struct learned *entry, __u32 limit)
{
	struct learning *of = get_learning(key->switch_id, entry->key);

	if (!of)
		return DROP(MAC_LIMIT);
	if (of->macs >= limit)
		sweep(of, entry->seen);
	if (of->macs >= limit)
		return DROP(MAC_LIMIT);
	if (!remember(key, entry)) {
		sweep(of, entry->seen);
		if (!remember(key, entry))
			return DROP(MAC_LIMIT);
	}
	__sync_fetch_and_add(&of->macs, 1);
	return 0;
}

static __always_inline int learn_from_port(struct packet *p, const struct port *port)
{
	struct fdb_key key = { .switch_id = p->switch_id };
	struct learned entry = { .port = p->source, .key = p->source_key, .age = port->learn_age };
	struct learned *l;

	if (!(port->flags & PORT_LEARNING) || same_mac(p->eth.h_source, port->mac.bytes))
		return 0;
	__builtin_memcpy(key.mac.bytes, p->eth.h_source, ETH_ALEN);
	if (bpf_map_lookup_elem(&fdb, &key))
		return port->flags & PORT_CHECK_MAC ? DROP(SPOOFED_MAC) : 0;
	entry.seen = now_ns();
	l = bpf_map_lookup_elem(&learned, &key);
	if (l && l->key == p->source_key && same_port(&l->port, &p->source)) {
		if (entry.seen >= l->seen + SECOND)
			l->seen = entry.seen;
		return 0;
	}
	return learn_new(&key, &entry, port->learn_limit);
}

/*
 * From the underlay nothing is refused: the frame's own host did that. On a VLAN there is no remote, its
 * address is zero.
 */
static __always_inline void learn_from_underlay(const struct packet *p, const struct lswitch *sw,
						const struct addr *remote)
{
	struct fdb_key key = { .switch_id = p->switch_id };
	struct learned entry = { .key = p->source_key, .age = sw->learn_age, .remote = *remote };
	struct learned *l;

	if (!(sw->flags & SWITCH_LEARNING))
		return;
	__builtin_memcpy(key.mac.bytes, p->eth.h_source, ETH_ALEN);
	if (bpf_map_lookup_elem(&fdb, &key))
		return;
	entry.seen = now_ns();
	l = bpf_map_lookup_elem(&learned, &key);
	if (l && !l->port.ifindex && l->key == entry.key &&
	    !__builtin_memcmp(&l->remote, remote, sizeof(*remote))) {
		if (entry.seen >= l->seen + SECOND)
			l->seen = entry.seen;
		return;
	}
	remember(&key, &entry);
}
