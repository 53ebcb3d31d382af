/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many entries of a map count for whom, so that nobody fills it: learned addresses (map learning) and found
 * neighbours (map found_counts). Written by the programs.
 */
#pragma once

#include "packet.h"

static __noinline struct learning *get_count(void *counts, __u32 switch_id, __u32 key)
{
	struct port_key id = { .switch_id = switch_id, .key = key };
	struct learning none = {};
	struct learning *found = bpf_map_lookup_elem(counts, &id);

	if (found)
		return found;
	bpf_map_update_elem(counts, &id, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(counts, &id);
}

/* An entry is gone. Never below zero; a decrement lost to another CPU is found by the next sweep. */
static __noinline void uncount(void *counts, __u32 switch_id, __u32 key)
{
	struct port_key id = { .switch_id = switch_id, .key = key };
	struct learning *former = bpf_map_lookup_elem(counts, &id);
	__u32 number = former ? former->macs : 0;

	if (former && number)
		__sync_val_compare_and_swap(&former->macs, number, number - 1);
}

/* A walk over a whole table for what is old: at most once a second on the host. */
INLINE bool may_sweep(void *counts, __u64 now)
{
	struct learning *clock = get_count(counts, 0, 0);
	__u64 next;

	if (!clock)
		return false;
	next = clock->next_sweep;
	return now >= next &&
	       __sync_val_compare_and_swap(&clock->next_sweep, next, now + SECOND) == next;
}

/* A walk over a whole table. */
struct sweep {
	__u64 now;
	struct port_key asking; /* for whom it sweeps, */
	__u32 number;           /* and how many entries it has */
	__u32 of_all;           /* the table is full: for everybody */
};

/*
 * An entry on the walk, whose key begins with its switch: forgets it, or counts it for who is asking. is_spared: it is
 * forgotten only for who is asking, or for everybody.
 */
INLINE long sweep_entry(struct sweep *s, void *map, void *counts, const void *id, __u32 key,
			bool is_old, bool is_spared)
{
	__u32 switch_id = *(const __u32 *)id;
	__u32 differs = (switch_id ^ s->asking.switch_id) | (key ^ s->asking.key);

	if (is_old && !(is_spared && differs && !s->of_all)) {
		if (bpf_map_delete_elem(map, id) == 0 && differs)
			uncount(counts, switch_id, key);
	} else if (!differs) {
		s->number++;
	}
	return 0;
}
