/* SPDX-License-Identifier: Apache-2.0 */
/* What a sender causes at most so often: answers, log records, copies of flooded frames, questions. Map limits. */
#pragma once

#include "packet.h"

/* What is caused by whoever sent a packet: the port, a remote with a MAC that the FDB does not have, or the leg. */
INLINE struct limit_key limit_of_sender(struct __sk_buff *ctx, const struct packet *p,
					enum limit what)
{
	struct limit_key limit = { .switch_id = p->switch_id, .key = p->source_key, .limit = what };
	__u32 device = device_of_hook(ctx), *router;

	if (p->hook == HOOK_FROM_LEG) {
		router = bpf_map_lookup_elem(&legs, &device);
		limit.switch_id = ZONE_ROUTER | (router ? *router : 0);
	} else if (p->claims_key) {
		limit.switch_id = ZONE_REMOTE | p->sender_counters;
		limit.key = 0;
	}
	return limit;
}

/* Whether one more, which counts for so many, is within a limit; a new span begins with its first. */
static __noinline bool is_within_limit(const struct limit_key *key, __u32 weight, __u32 most,
				       __u64 span, __u64 now)
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
