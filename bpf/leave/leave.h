/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leave: carries out what was decided about a packet (struct destination). The one ending of every packet that is not
 * dropped, answers too. What it still finds out is how: the remote's header and what that can take, what fits, and
 * which copies of a flooded frame their ports' firewalls let.
 */
#pragma once

#include "encap.h"
#include "flood.h"
#include "leg_out.h"
#include "port.h"
#include "probe.h"
#include "vlan_out.h"

/* Global, so that the verifier checks it once and not for every way that leads here. */
__noinline enum verdict leave(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct settings *s = get_settings();

	if (!p || !d)
		return DROP(NOT_CONFIGURED);
	if (d->kind == TO_HOST) {
		p->action = TCX_NEXT;
		return VERDICT_TO_HOST;
	}
	if (!s)
		return DROP(NOT_CONFIGURED);
	if (d->probes)
		send_probe(ctx, p, d);
	switch (d->kind) {
	case TO_PORT:
		return deliver(ctx, p, d);
	case TO_REMOTE:
		return encap(ctx, s, p, d);
	case TO_VLAN:
		return vlan_out(ctx, s, p, d);
	case TO_LEG:
		return leg_out(ctx, p, d);
	case TO_FLOOD:
		return flood_frame(ctx, s, p, d);
	case TO_SENDER:
		return send_out(ctx, p, d->port.ifindex, d->tag, VERDICT_ANSWER);
	}
	return DROP(NOT_CONFIGURED);
}
