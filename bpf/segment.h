/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage segment, the exception: a super-packet that cannot travel whole (too long for the outer
 * lengths, or already encapsulated by the guest in a way the kernel cannot segment under a second
 * header) goes out of a device that segments everything (its gso_max_segs is 1) and comes back at its
 * other end, frame by frame, in the program from_segmenter. skb->mark carries the source port over.
 */
#pragma once

#include "ctx_skb.h"

static __always_inline int segment(struct __sk_buff *ctx, const struct settings *s, struct packet *p)
{
	if (!s->segmenter_ifindex || p->hook == HOOK_FROM_SEGMENTER)
		return DROP(GSO_UNSUPPORTED);
	ctx->mark = p->source_ifindex;
	p->action = bpf_redirect(s->segmenter_ifindex, 0);
	return VERDICT_SEGMENT;
}
