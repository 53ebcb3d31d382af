/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage to_port: whether the port that a frame goes to takes it: it is there, and its firewall lets it. Says how the
 * frame is handed over.
 */
#pragma once

#include "lib/firewall.h"

INLINE enum verdict to_port(struct __sk_buff *ctx, const struct packet *p, struct destination *d)
{
	struct port *port = bpf_map_lookup_elem(&ports, &d->port);

	if (!port || port->switch_id != d->switch_id) /* tables between two applies */
		return DROP(NO_PORT);
	d->dest_key = port->key;
	d->counters = port->counters;
	d->takes_no_mark = !!(port->flags & PORT_TAKES_NO_MARK);
	d->is_peer = port->flags & PORT_PEER && same_mac(port->mac.bytes, d->eth.h_dest);
	return port->flags & PORT_FIREWALL ? firewall(ctx, p, port, FIREWALL_TO_PORT) : GO_ON;
}
