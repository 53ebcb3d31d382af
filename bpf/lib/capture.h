/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not a stage: shows packets to `overlane capture` while somebody asks for it. A packet is copied when it enters the
 * hook, and goes into the ring with its verdict when it leaves; one that left as something else is shown again as it
 * left. While nobody looks this is one map lookup per packet, which is inlined. In a test run, where nothing is sent,
 * the same ring shows the copies of a flooded frame.
 */
#pragma once

#include "devices.h"

/* Cleared only by the benchmark, to show what the question "does somebody look?" costs. */
const volatile __u8 can_capture = 1;

struct event_buffer {
	struct event event;
	__u8 bytes[MAX_SNAP];
};

ARRAY(event_buffer, BPF_MAP_TYPE_PERCPU_ARRAY, struct event_buffer, 1);
GETTER(get_capture, capture)
GETTER(get_event_buffer, event_buffer)

/* The bytes of the packet as they are now, behind `from` bytes that are nobody's to see. */
static __noinline int snap(struct __sk_buff *ctx, __u32 most, __u32 from)
{
	struct event_buffer *b = get_event_buffer();
	__u32 len = ctx->len;

	if (!b || len < from)
		return 0;
	len -= from;
	b->event.len = len;
	if (len > most)
		len = most;
	if (len > MAX_SNAP)
		len = MAX_SNAP;
	b->event.captured = 0;
	if (len && bpf_skb_load_bytes(ctx, from, b->bytes, len) == 0)
		b->event.captured = len;
	return 0;
}

INLINE void capture_entered(struct __sk_buff *ctx, struct packet *p)
{
	struct capture *c = can_capture ? get_capture() : NULL;

	if (!c || !c->mode)
		return;
	p->captured = 1;
	snap(ctx, c->snap, 0);
}

/* By the port it came from, and by those it goes to. */
INLINE bool is_wanted(const struct capture *c, const struct packet *p, const struct destination *d,
		      enum verdict verdict)
{
	if (c->mode == CAPTURE_DROPS)
		return is_drop(verdict);
	if (c->mode != CAPTURE_PORT)
		return c->mode == CAPTURE_ALL;
	if (d->switch_id == c->switch_id &&
	    (d->source_key == c->key || d->dest_key == c->key || verdict == VERDICT_FLOOD))
		return true;
	return p->switch_id == c->switch_id && p->source_key == c->key;
}

INLINE bool left_as_something_else(const struct packet *p, const struct destination *d,
				   enum verdict verdict)
{
	return verdict == VERDICT_ENCAP || verdict == VERDICT_VLAN_OUT || verdict == VERDICT_ANSWER ||
	       verdict == VERDICT_LEG_OUT ||
	       (verdict == VERDICT_TO_PORT && (is_from_underlay(p) || d->routed));
}

INLINE void send_event(struct event_buffer *b, struct capture *c)
{
	__u32 captured = b->event.captured;

	if (captured > MAX_SNAP)
		captured = MAX_SNAP;
	if (bpf_ringbuf_output(&events, b, sizeof(b->event) + captured, 0) < 0)
		__sync_fetch_and_add(&c->lost, 1);
}

static __noinline int capture_left(struct __sk_buff *ctx, const struct packet *p,
				   const struct destination *d, int verdict)
{
	struct capture *c = get_capture();
	struct event_buffer *b = get_event_buffer();

	if (!c || !b || !is_wanted(c, p, d, verdict))
		return 0;
	b->event.time = bpf_ktime_get_ns();
	b->event.switch_id = p->switch_id;
	b->event.ifindex = ctx->ifindex;
	b->event.segments = p->segments;
	b->event.source_key = p->source_key;
	b->event.dest_key = d->routed ? 0 : d->dest_key;
	b->event.vlan_proto = p->in_tag.proto;
	b->event.vlan_tci = p->in_tag.tci;
	b->event.hook = p->hook;
	b->event.verdict = verdict;
	b->event.phase = EVENT_ENTERED;
	b->event.pad = 0;
	send_event(b, c);
	if (!left_as_something_else(p, d, verdict))
		return 0;
	snap(ctx, c->snap, p->wrapped);
	b->event.switch_id = d->switch_id;
	b->event.source_key = d->source_key;
	b->event.dest_key = d->dest_key;
	if (p->wrapped) {
		b->event.vlan_proto = d->tag.proto;
		b->event.vlan_tci = d->tag.proto ? d->tag.tci : 0;
	} else {
		b->event.vlan_proto = ctx->vlan_present ? ctx->vlan_proto : 0;
		b->event.vlan_tci = ctx->vlan_present ? ctx->vlan_tci : 0;
	}
	b->event.phase = EVENT_LEFT;
	send_event(b, c);
	return 0;
}

/* Called in a test run only. */
static __noinline int show_copy(struct __sk_buff *ctx, __u32 ifindex)
{
	struct event_buffer *b = get_event_buffer();
	struct capture *c = get_capture();
	struct test_io *io = get_test_io();

	if (!b || !c || !io)
		return 0;
	snap(ctx, MAX_SNAP, 0);
	b->event.ifindex = ifindex;
	b->event.vlan_proto = io->out_proto;
	b->event.vlan_tci = io->out_tci;
	send_event(b, c);
	return 0;
}

/* One copy of a flooded frame, by a device that is there; the skb stays ours. GO_ON: it was sent. */
INLINE enum verdict send_copy(struct __sk_buff *ctx, __u32 ifindex)
{
	if (test_mode ? show_copy(ctx, ifindex) : bpf_clone_redirect(ctx, ifindex, 0))
		return DROP(ENCAP_FAILED);
	return GO_ON;
}
