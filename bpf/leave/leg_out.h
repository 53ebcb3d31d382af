/* SPDX-License-Identifier: Apache-2.0 */
/* A routed packet leaves by the gateway's leg, into the physical network. Part of leave; its other end is leg_in. */
#pragma once

#include "mss.h"
#include "rewrite.h"
#include "send.h"
#include "unmarker.h"

INLINE enum verdict send_by_leg(struct __sk_buff *ctx, struct packet *p, const struct destination *d)
{
	return send_out(ctx, p, d->port.ifindex, (struct tag){}, VERDICT_LEG_OUT);
}

INLINE __u32 mtu_of_leg(__u32 router)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);

	return r ? r->leg_mtu : 0;
}

INLINE enum verdict leg_out(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	bool detours = p->offset && needs_unmarker(ctx, p, d->takes_no_mark);
	enum verdict result;

	if (p->offset && !detours && is_whole_udp(p))
		return DROP(GSO_UNSUPPORTED);
	result = rewrite(ctx, p, d);
	if (result != GO_ON)
		return result;
	if (d->clamps_mss)
		clamp_mss(ctx, p, mtu_of_leg(d->router));
	return detours && !test_mode ?
		       unmark(ctx, p, d, 0, DETOUR_TO_LEG | check_of_leg(d->port.ifindex)) :
		       send_by_leg(ctx, p, d);
}
