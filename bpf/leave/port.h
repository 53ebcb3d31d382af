/* SPDX-License-Identifier: Apache-2.0 */
/* Hands a frame, plain again, to the device of a port of this host. Part of leave; stage to_port has decided. */
#pragma once

#include "lib/counters.h"
#include "mss.h"
#include "rewrite.h"
#include "send.h"
#include "unmarker.h"

INLINE enum verdict hand_over(struct __sk_buff *ctx, struct packet *p, const struct destination *d)
{
	struct tag tag = tag_at(d, &d->port);

	if (d->is_peer && !tag.proto && send_to_peer(ctx, p, d->port.ifindex))
		return VERDICT_TO_PORT;
	return send_out(ctx, p, d->port.ifindex, tag, VERDICT_TO_PORT);
}

INLINE __u32 how_to_port(const struct destination *d)
{
	bool to_peer = d->is_peer && !d->tag.proto && !d->port.vlan;

	return check_of(&d->port) | (to_peer ? DETOUR_TO_PEER : 0);
}

INLINE enum verdict deliver(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	bool detours = p->offset && needs_unmarker(ctx, p, d->takes_no_mark);
	enum verdict result = GO_ON;

	if (p->offset && !detours && is_whole_udp(p))
		return DROP(GSO_UNSUPPORTED);
	if (d->routed)
		result = rewrite(ctx, p, d);
	if (result != GO_ON)
		return result;
	if (d->clamps_mss)
		clamp_mss(ctx, p, 0);
	if (detours && !test_mode)
		result = unmark(ctx, p, d, d->counters, how_to_port(d));
	else
		result = hand_over(ctx, p, d);
	if (result == VERDICT_TO_PORT && !d->is_reply)
		count_port(p, d->counters, PORT_TO);
	return result;
}
