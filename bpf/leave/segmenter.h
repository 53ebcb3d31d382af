/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segmenter: a pair of devices that apply creates. What is sent out of one end comes back at the other, at hook
 * from_segmenter, as the kernel sees a packet from a wire. Three things need that:
 *
 *   segment  A super-packet that cannot travel whole: too long for the outer lengths, flooded, or
 *            already encapsulated by the guest in a way the kernel cannot segment under a second
 *            header. The device segments everything (its gso_max_segs is 1); skb->mark carries the
 *            source port over.
 *   retype   An encapsulated packet whose skb->protocol is still that of the inner frame (ARP, say):
 *            bpf_redirect_neigh() goes by it, and nothing but reception sets it anew.
 *   probe    A copy of a packet, to become something else without the packet (ask.h).
 */
#pragma once

#include "lib/capture.h"
#include "lib/devices.h"
#include "lib/vlan.h"

/* Not an ifindex (those are positive ints): an encapsulated packet, ready for the uplink. */
#define MARK_ENCAPSULATED 0x80000000u
#define MARK_PROBE 0xc0000000u /* and a number of map probes: a copy that is to ask a neighbour */

/* sent: its verdict then. */
INLINE enum verdict send_to_segmenter(struct __sk_buff *ctx, const struct settings *s,
				      struct packet *p, __u32 mark, enum verdict sent)
{
	if (!is_there(p->changes, s->segmenter_ifindex))
		return DROP(DEVICE_GONE);
	ctx->mark = mark;
	report_device(s->segmenter_ifindex);
	p->action = bpf_redirect(s->segmenter_ifindex, 0);
	return sent;
}

/* As it came: it comes through the first stages again. */
static __noinline enum verdict segment(struct __sk_buff *ctx, const struct settings *s,
				       struct packet *p)
{
	if (!s->segmenter_ifindex || p->hook != HOOK_FROM_PORT || put_tag(ctx, p->in_tag) < 0)
		return DROP(GSO_UNSUPPORTED);
	return send_to_segmenter(ctx, s, p, p->source.ifindex, VERDICT_SEGMENT);
}

INLINE enum verdict retype(struct __sk_buff *ctx, const struct settings *s, struct packet *p)
{
	if (!s->segmenter_ifindex)
		return DROP(ENCAP_FAILED);
	return send_to_segmenter(ctx, s, p, MARK_ENCAPSULATED, VERDICT_ENCAP);
}

/* The same for one copy of a flooded frame; the skb stays ours. */
INLINE enum verdict retype_copy(struct __sk_buff *ctx, const struct settings *s,
				const struct packet *p)
{
	if (!s->segmenter_ifindex)
		return DROP(ENCAP_FAILED);
	if (!is_there(p->changes, s->segmenter_ifindex))
		return DROP(DEVICE_GONE);
	ctx->mark = MARK_ENCAPSULATED;
	return send_copy(ctx, s->segmenter_ifindex);
}
