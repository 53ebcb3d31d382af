/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leave: carries out what was decided about a packet (struct destination), and looks nothing up that decides. The
 * one ending of every packet that is not dropped, answers too.
 */
#pragma once

#include "encap.h"
#include "flood.h"
#include "leg_out.h"
#include "port.h"
#include "vlan_out.h"

static __always_inline enum verdict leave_by_uplink(struct __sk_buff *ctx, struct packet *p,
						    struct destination *d)
{
	struct settings *s = get_settings();

	if (!s)
		return DROP(NOT_CONFIGURED);
	switch (d->kind) {
	case TO_REMOTE:
		return encap(ctx, s, p, d);
	case TO_VLAN:
		return vlan_out(ctx, s, p, d);
	}
	return flood_frame(ctx, s, p, d);
}

/* Global, so that the verifier checks it once and not for every way that leads here. */
__noinline enum verdict leave(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	if (!p || !d)
		return DROP(NOT_CONFIGURED);
	switch (d->kind) {
	case TO_HOST:
		p->action = TCX_NEXT;
		return VERDICT_TO_HOST;
	case TO_PORT:
		return deliver(ctx, p, d);
	case TO_REMOTE:
	case TO_VLAN:
	case TO_FLOOD:
		return leave_by_uplink(ctx, p, d);
	case TO_LEG:
		return leg_out(ctx, p, d);
	case TO_SENDER:
		return send_out(ctx, p, d->port.ifindex, d->tag) < 0 ? DROP(ENCAP_FAILED) :
								       VERDICT_ANSWER;
	}
	return DROP(NOT_CONFIGURED);
}
