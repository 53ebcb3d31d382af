/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage greeting: a packet with VNI 0 from a VTEP of the fabric says what that can take, or asks which sizes get here.
 * In place of what follows.
 */
#pragma once

#include "lib/outer.h"
#include "lib/tell.h"

INLINE enum verdict greeting(struct __sk_buff *ctx, struct packet *p, struct destination *d,
			     const struct outer_view *o)
{
	__u32 at = o->tunnel + sizeof(struct vxlan_header), said;
	struct greeting g;

	if (at + sizeof(g) > o->end || load_bytes(ctx, at, &g, sizeof(g)) < 0 ||
	    g.eth.h_proto != GREETING_TYPE || g.magic != GREETING_MAGIC)
		return DROP(VNI_ZERO);
	p->sender_counters = 0;
	if (g.kind == GREETING_PROBE_ANSWER)
		return VERDICT_GREETING;
	if (g.kind != GREETING_PROBE) {
		said = g.abilities;
		bpf_map_update_elem(&abilities, &o->source, &said, BPF_ANY);
	}
	if (g.kind == GREETING_PROBE && at + sizeof(struct size_probe) > o->end)
		return VERDICT_GREETING;
	if (g.kind == GREETING_ASK || g.kind == GREETING_PROBE) {
		d->tell = g.kind == GREETING_ASK ? TELL_ABILITIES : TELL_SIZE;
		d->tell_rest = at;
		d->remote = o->source;
	}
	return VERDICT_GREETING;
}
