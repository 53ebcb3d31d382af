/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage learn: source addresses behind learning ports, and behind remotes on switches that have such ports. The
 * fabric's FDB always comes first. What is learned is state of the data path: these programs write the maps `learned`
 * and `learning`; apply only deletes what its tables no longer have.
 */
#pragma once

#include <linux/errno.h>

#include "lib/counted.h"
#include "lib/fdb.h"

/* There are no more of what floats than the fabric lists. */
#define NO_LIMIT 0xffffffff

/* Who counts an entry: its learning port; 0: what the switch learned from the underlay; or what floats there. */
INLINE __u32 owner_of(const struct learned *l)
{
	if (l->flags & FDB_FLOATS)
		return LEARNING_FLOATING;
	return l->port.ifindex ? l->key : 0;
}

static long forget_if_old(void *map, const void *id, void *value, void *context)
{
	const struct learned *l = value;
	struct sweep *s = context;

	return sweep_entry(s, map, &learning, id, owner_of(l), is_old(l, s->now), false);
}

/* Forgets what is old, everywhere. The count for the asking owner replaces one that two CPUs may have made wrong. */
__noinline int sweep(struct learning *of, __u32 switch_id, __u32 key, __u64 now)
{
	struct sweep s = { .now = now, .asking = { .switch_id = switch_id, .key = key } };

	if (!of || !may_sweep(&learning, now))
		return 0;
	bpf_for_each_map_elem(&learned, forget_if_old, &s, 0);
	of->macs = s.number;
	return 0;
}

/* Writes an entry and counts it; its former owner no longer does. 0, or negative: there is no room. */
INLINE long remember(const struct fdb_key *key, const struct learned *entry, struct learning *of)
{
	struct learned *former = bpf_map_lookup_elem(&learned, key);
	__u32 former_owner = former ? owner_of(former) : 0;
	long failed = bpf_map_update_elem(&learned, key, entry, former ? BPF_EXIST : BPF_NOEXIST);

	if (failed == -EEXIST || failed == -ENOENT)
		return 0; /* another CPU was first, and counted */
	if (failed)
		return failed;
	__sync_fetch_and_add(&of->macs, 1);
	if (former)
		uncount(&learning, key->switch_id, former_owner);
	return 0;
}

/* A new address, or one that has moved. False: there is no room for it. */
__noinline int learn_new(const struct fdb_key *key, const struct learned *entry, __u32 limit)
{
	struct learning *of;
	__u32 owner;

	if (!key || !entry)
		return false;
	owner = owner_of(entry);
	of = get_count(&learning, key->switch_id, owner);
	if (!of)
		return false;
	if (of->macs >= limit)
		sweep(of, key->switch_id, owner, entry->seen);
	if (of->macs >= limit)
		return false;
	if (remember(key, entry, of) == 0)
		return true;
	sweep(of, key->switch_id, owner, entry->seen);
	return remember(key, entry, of) == 0;
}

/* Whether it is known to be there; then it is seen now. */
INLINE bool see_again(const struct fdb_key *key, const struct learned *entry)
{
	struct learned *l = bpf_map_lookup_elem(&learned, key);

	if (!l || l->key != entry->key || l->flags != entry->flags ||
	    !same_port(&l->port, &entry->port) ||
	    __builtin_memcmp(&l->remote, &entry->remote, sizeof(l->remote)))
		return false;
	if (entry->seen >= l->seen + SECOND)
		l->seen = entry->seen;
	return true;
}

INLINE enum verdict learn_from_port(const struct packet *p, struct destination *d,
				    const struct port *port)
{
	struct fdb_key key = fdb_key_of(p->switch_id, p->eth.h_source);
	struct learned entry = { .port = p->source, .key = p->source_key, .age = port->learn_age };
	struct fdb_entry *known;
	__u32 limit = port->learn_limit;

	if (!(port->flags & (PORT_LEARNING | PORT_ALLOWED_MACS)) ||
	    same_mac(p->eth.h_source, port->mac.bytes))
		return GO_ON;
	d->once = true; /* the next packet has to be seen too */
	known = bpf_map_lookup_elem(&fdb, &key);
	if (known && known->flags & FDB_FLOATS && may_use_mac(p, port)) {
		entry.flags = FDB_FLOATS;
		limit = NO_LIMIT;
	} else if (known || !(port->flags & PORT_LEARNING)) {
		return port->flags & PORT_CHECK_MAC ? DROP(SPOOFED_MAC) : GO_ON;
	}
	entry.seen = now_ns();
	if (see_again(&key, &entry) || learn_new(&key, &entry, limit))
		return GO_ON;
	return DROP(MAC_LIMIT);
}

/*
 * Of a source that the FDB does not have. From the underlay nothing is refused: the frame's own host did that. On a
 * VLAN there is no remote, its address is zero.
 */
INLINE void learn_from_underlay(const struct packet *p, struct destination *d,
				const struct lswitch *sw, const struct addr *remote, bool floats)
{
	struct fdb_key key = fdb_key_of(p->switch_id, p->eth.h_source);
	struct learned entry = { .key = p->source_key, .age = sw->learn_age, .remote = *remote };

	entry.flags = floats ? FDB_FLOATS : 0;
	if (!(sw->flags & SWITCH_LEARNING))
		return;
	d->once = true;
	entry.seen = now_ns();
	if (!see_again(&key, &entry))
		learn_new(&key, &entry, floats ? NO_LIMIT : MAX_LEARNED_FROM_UNDERLAY);
}
