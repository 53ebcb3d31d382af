/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VLAN tags. The kernel keeps the outermost tag of a packet beside its bytes (skb->vlan_tci), and the stages see
 * frames without it: parse takes it off, and whoever sends the frame on puts one back.
 */
#pragma once

#include "packet.h"

#define VLAN_ID_MASK 0x0fff
#define VLAN_PRIORITY_MASK 0xf000 /* PCP and DEI */
#define ETHERTYPE_VLAN bpf_htons(ETH_P_8021Q)
#define ETHERTYPE_SERVICE_VLAN bpf_htons(ETH_P_8021AD)

INLINE struct tag read_tag(struct __sk_buff *ctx)
{
	struct tag tag = {};

	if (test_mode) {
		struct test_io *io = get_test_io();

		if (io) {
			tag.proto = io->vlan_proto;
			tag.tci = io->vlan_tci;
		}
	} else if (ctx->vlan_present) {
		tag.proto = ctx->vlan_proto;
		tag.tci = ctx->vlan_tci;
	}
	return tag;
}

/* In a test run. */
INLINE long report_tag(struct tag tag)
{
	struct test_io *io = get_test_io();

	if (io) {
		io->out_proto = tag.proto;
		io->out_tci = tag.tci;
	}
	return 0;
}

INLINE long take_tag(struct __sk_buff *ctx)
{
	return test_mode ? report_tag((struct tag){}) : bpf_skb_vlan_pop(ctx);
}

static __noinline long push_tag(struct __sk_buff *ctx, struct tag tag)
{
	return test_mode ? report_tag(tag) : bpf_skb_vlan_push(ctx, tag.proto, tag.tci);
}

INLINE long put_tag(struct __sk_buff *ctx, struct tag tag)
{
	return tag.proto ? push_tag(ctx, tag) : 0;
}

/* VLAN 0 says a priority only: such a frame has no tag (IEEE 802.1Q 6.9.1). */
INLINE bool has_vlan(const struct tag *tag)
{
	return tag->tci & VLAN_ID_MASK;
}

/* A frame without a tag, with the priority of one that it came with. */
INLINE struct tag priority_of(const struct tag *tag)
{
	struct tag priority = { .tci = tag->tci & VLAN_PRIORITY_MASK };

	return priority;
}

INLINE struct tag tag_of_vlan(__u32 vlan, const struct tag *came)
{
	struct tag tag = { .proto = ETHERTYPE_VLAN,
			   .tci = (vlan & VLAN_ID_MASK) | priority_of(came).tci };

	return tag;
}

INLINE bool is_on_vlan(__u32 switch_id)
{
	return switch_id & SWITCH_ID_VLAN;
}

/* The tag that a frame has at a port's device: the trunk's, or a guest's in a transparent switch. */
INLINE struct tag tag_at(const struct destination *d, const struct port_id *id)
{
	return id->vlan ? tag_of_vlan(id->vlan, &d->tag) : d->tag;
}
