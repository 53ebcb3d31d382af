/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent or written at most so often: answers, log records. Map limits. */
#pragma once

#include "packet.h"

/* Whether one more is within a limit; a new span begins with its first. */
INLINE bool is_within_limit(__u32 which, __u32 most, __u64 span, __u64 now)
{
	struct limit_state *l = bpf_map_lookup_elem(&limits, &which);

	if (!l)
		return false;
	if (!l->count || now >= l->since + span) {
		l->since = now;
		l->count = 0;
	}
	return l->count < most && __sync_fetch_and_add(&l->count, 1) < most;
}
