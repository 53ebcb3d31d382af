/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage to_port: whether the port that a frame goes to takes it: it is there, and its firewall lets it. Says how the
 * frame is handed over.
 */
#pragma once

#include "lib/firewall.h"
#include "lib/ip.h"
#include "lib/tell.h"

INLINE enum verdict to_port(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct port *port = bpf_map_lookup_elem(&ports, &d->port);
	struct scratch *w = get_scratch();
	enum verdict result = GO_ON;

	if (!w || !port || port->switch_id != d->switch_id) /* tables between two applies */
		return DROP(NO_PORT);
	d->dest_key = port->key;
	d->counters = port->counters;
	d->takes_no_mark = !!(port->flags & PORT_TAKES_NO_MARK);
	d->is_peer = port->flags & PORT_PEER && same_mac(port->mac.bytes, d->eth.h_dest);
	w->flow.longest = port->mtu;
	if (port->flags & PORT_FIREWALL)
		result = firewall(ctx, p, port, FIREWALL_TO_PORT);
	if (result == GO_ON && is_too_long_for(p, port))
		return too_big(d, port->mtu);
	return result;
}
