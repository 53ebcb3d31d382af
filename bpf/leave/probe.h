/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A neighbour that nobody confirmed for long is asked again, while packets to it go on: a copy of one of them goes
 * through the segmenter, and becomes the question where it comes out (end_probe() in ask.h). Part of leave.
 */
#pragma once

#include "lib/found.h"
#include "segmenter.h"

/*
 * A copy of a packet, plain as it is before it leaves, goes through the segmenter to ask the neighbour that the packet
 * goes to. What can become no question (resize_marked) makes no copy. Global: few packets ask.
 */
__noinline int send_probe(struct __sk_buff *ctx, const struct packet *p, const struct destination *d)
{
	__u32 zero = 0, number, mark = ctx->mark;
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	struct found_neighbour *f;
	struct probe *given, *probe;

	if (!p || !d || !s || !w || !s->segmenter_ifindex)
		return -1;
	if (!test_mode && p->offset && p->len <= p->l4_offset + 2 * (ETH_HLEN + 20))
		return -1;
	key.switch_id = side_of(d->router, w->next.switch_id);
	key.addr = w->next.addr;
	given = bpf_map_lookup_elem(&probes, &zero);
	f = bpf_map_lookup_elem(&found, &key);
	if (!given || !f)
		return -1;
	number = 1 + __sync_fetch_and_add(&given->router, 1) % (MAX_PROBES - 1);
	probe = bpf_map_lookup_elem(&probes, &number);
	if (!probe)
		return -1;
	*probe = (struct probe){ .router = d->router, .side = key.switch_id, .addr = key.addr };
	f->asked = coarse_now_ns();
	f->tries++;
	ctx->mark = MARK_PROBE | number;
	send_copy(ctx, s->segmenter_ifindex);
	ctx->mark = mark;
	return 0;
}
