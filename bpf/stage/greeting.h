/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage greeting: a packet with VNI 0 from a VTEP of the fabric says what that can take, or asks which sizes get here.
 * In place of what follows.
 */
#pragma once

#include "lib/cookie.h"
#include "lib/outer.h"
#include "lib/sound.h"
#include "lib/tell.h"
#include "lib/vlan.h"

/*
 * The outer UDP checksum, which no other tunnel packet is asked for; 0: there is none. The ::ffff of two IPv4 addresses
 * add up to nothing.
 */
INLINE bool is_outer_sum_right(struct __sk_buff *ctx, const struct settings *s,
			       const struct outer_view *o)
{
	const __u32 at = o->tunnel - sizeof(struct udphdr), len = o->end - at;
	__u32 pseudo = bpf_csum_diff(NULL, 0, (void *)&o->source, sizeof(o->source),
				     bpf_htons(len) + bpf_htons(IPPROTO_UDP));
	__u16 field;

	pseudo = csum_fold(bpf_csum_diff(NULL, 0, (void *)&s->vtep, sizeof(s->vtep), pseudo));
	if (load_bytes(ctx, at + offsetof(struct udphdr, check), &field, sizeof(field)) < 0)
		return false;
	return !field || is_sum_right_or_begun(ctx, at, len, field, pseudo);
}

/* What a remote can take is believed, where it shows that it has heard this host. True: it has to hear more. */
INLINE bool hear_abilities(struct __sk_buff *ctx, const struct outer_view *o,
			   const struct greeting *g, __u32 at)
{
	bool is_answer = g->kind == GREETING_ANSWER;
	struct settings *s = get_settings();
	struct greeting_cookies c;
	__u32 said = g->abilities;

	if (at + sizeof(*g) + sizeof(c) > o->end ||
	    load_bytes(ctx, at + sizeof(*g), &c, sizeof(c)) < 0 ||
	    !is_cookie_of(is_answer ? &c.asker : &c.answerer, &o->source) || !s ||
	    !is_outer_sum_right(ctx, s, o))
		return false;
	bpf_map_update_elem(&abilities, &o->source, &said, BPF_ANY);
	return is_answer && c.answerer.half[0] | c.answerer.half[1];
}

INLINE enum verdict greeting(struct __sk_buff *ctx, struct packet *p, struct destination *d,
			     const struct outer_view *o)
{
	__u32 at = o->tunnel + sizeof(struct vxlan_header);
	struct greeting g;
	bool asks;

	if (at + sizeof(g) > o->end || load_bytes(ctx, at, &g, sizeof(g)) < 0 ||
	    g.eth.h_proto != GREETING_TYPE || g.magic != GREETING_MAGIC)
		return DROP(VNI_ZERO);
	p->sender_counters = 0;
	if (g.kind == GREETING_PROBE)
		asks = at + sizeof(struct size_probe) <= o->end;
	else if (g.kind == GREETING_ANSWER || g.kind == GREETING_CONFIRM)
		asks = hear_abilities(ctx, o, &g, at);
	else
		asks = g.kind == GREETING_ASK;
	if (p->in_tag.proto) /* the answer is the same packet */
		take_tag(ctx);
	if (asks) {
		d->tell = g.kind == GREETING_PROBE ? TELL_SIZE : TELL_ABILITIES;
		d->tell_rest = at;
		d->remote = o->source;
	}
	return VERDICT_GREETING;
}
