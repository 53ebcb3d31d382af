/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A routed packet leaves by the gateway's leg, into the physical network; the kernel's neighbours write the Ethernet
 * header. Part of leave; its other end is stage leg_in.
 */
#pragma once

#include "rewrite.h"
#include "unmarker.h"

INLINE enum verdict send_by_leg(struct packet *p, const struct destination *d)
{
	struct bpf_redir_neigh to = {};

	if (has_ipv4(p)) {
		to.nh_family = AF_INET;
		__builtin_memcpy(&to.ipv4_nh, &d->remote.bytes[12], sizeof(to.ipv4_nh));
	} else {
		to.nh_family = AF_INET6;
		__builtin_memcpy(to.ipv6_nh, &d->remote, sizeof(to.ipv6_nh));
	}
	report_device(d->port.ifindex);
	p->action = bpf_redirect_neigh(d->port.ifindex, &to, sizeof(to), 0);
	return VERDICT_LEG_OUT;
}

INLINE enum verdict leg_out(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	bool detours = p->offset && needs_unmarker(ctx, p, d->takes_no_mark);
	struct leg_way way = { .kind = d->route_kind,
			       .number = d->hop.number,
			       .group = d->hop.group,
			       .router = d->router };
	enum verdict result;

	if (p->offset && !detours && is_whole_udp(p))
		return DROP(GSO_UNSUPPORTED);
	detours = detours && !test_mode;
	if (detours)
		__builtin_memcpy(d->eth.h_dest, &way, sizeof(way));
	result = rewrite(ctx, p, d);
	if (result != GO_ON)
		return result;
	return detours ? unmark(ctx, p, d, 0, DETOUR_TO_LEG | check_of_leg(d->port.ifindex)) :
			 send_by_leg(p, d);
}
