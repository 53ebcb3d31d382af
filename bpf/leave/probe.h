/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A neighbour that nobody confirmed for long is asked again, while packets to it go on: a copy of one of them goes
 * through the segmenter, and becomes the question where it comes out (end_probe() in ask.h). Part of leave.
 */
#pragma once

#include "lib/found.h"
#include "lib/l4.h"
#include "segmenter.h"

/* Whether it is to be asked now; then it is, and no other CPU asks it. */
INLINE bool count_try(struct found_neighbour *f)
{
	__u64 now = coarse_now_ns(), before = f->asked;

	if (now < before + SECOND || __sync_val_compare_and_swap(&f->asked, before, now) != before)
		return false;
	__sync_fetch_and_add(&f->tries, 1);
	return true;
}

/*
 * A copy of a packet, plain as it is before it leaves, goes through the segmenter to ask the neighbour that the packet
 * goes to. What can become no question (resize_marked) makes no copy. Global: few packets ask. Nobody needs the number
 * that it returns, but every kernel wants one of a global function.
 */
__noinline int send_probe(struct __sk_buff *ctx, const struct packet *p, const struct destination *d)
{
	__u32 zero = 0, number, mark = ctx->mark;
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	struct found_neighbour *f;
	struct probe *given, *probe;

	if (!p || !d || !s || !w || !s->segmenter_ifindex ||
	    !is_there(p->changes, s->segmenter_ifindex))
		return 0;
	if (!test_mode && p->offset && (p->len <= LEAST_FRAME || may_keep_checksum(ctx, p, p->len)))
		return 0;
	key.switch_id = side_of(d->router, w->next.switch_id);
	key.addr = w->next.addr;
	given = bpf_map_lookup_elem(&probes, &zero);
	f = bpf_map_lookup_elem(&found, &key);
	if (!given || !f)
		return 0;
	number = 1 + __sync_fetch_and_add(&given->router, 1) % (MAX_PROBES - 1);
	probe = bpf_map_lookup_elem(&probes, &number);
	if (!probe || !count_try(f))
		return 0;
	*probe = (struct probe){ .router = d->router, .side = key.switch_id, .addr = key.addr };
	ctx->mark = MARK_PROBE | number;
	send_copy(ctx, s->segmenter_ifindex);
	ctx->mark = mark;
	return 0;
}
