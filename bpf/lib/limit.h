/* SPDX-License-Identifier: Apache-2.0 */
/* What a port causes at most so often: answers, log records, copies of flooded frames. Map limits. */
#pragma once

#include "packet.h"

/* Whether one more, which counts for so many, is within a limit; a new span begins with its first. */
INLINE bool is_within_limit(const struct limit_key *key, __u32 weight, __u32 most, __u64 span,
			    __u64 now)
{
	struct limit_state *l = bpf_map_lookup_elem(&limits, key);
	struct limit_state none = { .since = now };

	if (!l) {
		bpf_map_update_elem(&limits, key, &none, BPF_NOEXIST);
		l = bpf_map_lookup_elem(&limits, key);
	}
	if (!l)
		return false;
	if (!l->count || now >= l->since + span) {
		l->since = now;
		l->count = 0;
	}
	return l->count < most && __sync_fetch_and_add(&l->count, weight) < most;
}
