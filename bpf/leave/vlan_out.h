/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame of a switch that is bound to a VLAN leaves by the uplink, plain, with that tag. Part of leave; its other end
 * is stage vlan_in.
 */
#pragma once

#include "lib/tell.h"
#include "lib/vlan.h"
#include "mss.h"
#include "rewrite.h"
#include "segmenter.h"
#include "send.h"

/*
 * Of other super-packets (SCTP, a guest's own tunnel) nobody here knows the segments' length. UDP out of a tunnel
 * would be segmented wrongly, for it has the tunnel's mark.
 */
INLINE bool is_measurable(const struct packet *p)
{
	return !p->gso_size || p->flow.protocol == IPPROTO_TCP ||
	       (p->flow.protocol == IPPROTO_UDP && !p->offset);
}

INLINE enum verdict vlan_out(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
			     struct destination *d)
{
	enum verdict result = GO_ON;

	if (!is_measurable(p))
		return segment(ctx, s, p);
	if (p->segment_len - ETH_HLEN > s->underlay_mtu)
		return too_big(d, s->underlay_mtu);
	if (d->routed)
		result = rewrite(ctx, p, d);
	if (result != GO_ON)
		return result;
	if (d->clamps_mss)
		clamp_mss(ctx, p, s->underlay_mtu);
	return send_out(ctx, p, s->uplink_ifindex, tag_of_vlan(d->switch_id, &d->tag),
			VERDICT_VLAN_OUT);
}
