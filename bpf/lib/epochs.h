/* SPDX-License-Identifier: Apache-2.0 */
/* What was decided from tables is kept (flows.h, classifier.h) as long as their epoch stands. */
#pragma once

#include "packet.h"

/*
 * Map epochs (array). 0: the tables, odd while they stand still; user space writes it (crates/ebpf/src/epochs.rs). The
 * others: neighbours found on a side of a router.
 */
#define EPOCHS 1024 /* a power of two */
#define EPOCH_TABLES 0

ARRAY(epochs, BPF_MAP_TYPE_ARRAY, __u64, EPOCHS);

INLINE __u64 epoch_of(__u32 number)
{
	__u64 *epoch = bpf_map_lookup_elem(&epochs, &number);

	return epoch ? *(volatile __u64 *)epoch : 0;
}

/* The number of a side's epoch: several sides may share one. */
INLINE __u32 number_of_side(__u32 side)
{
	__u32 number = mix_hash(side) & (EPOCHS - 1);

	return number ? number : 1;
}

/* A neighbour that was found there has another MAC now, or is forgotten. */
INLINE void change_side(__u32 side)
{
	__u32 number = number_of_side(side);
	__u64 *epoch = bpf_map_lookup_elem(&epochs, &number);

	if (epoch)
		__sync_fetch_and_add(epoch, 1);
}
