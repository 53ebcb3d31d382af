/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firewall of a port, of what comes from it and what goes to it: stage conntrack, and behind it stage acl. The one
 * stage that is made of others, and the one that is asked from below: lib/firewall.h.
 */
#pragma once

#include "acl.h"
#include "conntrack.h"
#include "lib/flows.h"

/* Which connection has let the packet. What rules let, they have to let again. */
INLINE void rest_on_firewall(const struct tracking *t, const struct port *port, __u32 how)
{
	struct scratch *w = get_scratch();

	if (!w)
		return;
	if (!t->is_admitted)
		w->destination.once = true;
	rest_on_connection(how == FIREWALL_TO_PORT ? &w->flow.far : &w->flow.near, port->switch_id,
			   port->key, how == FIREWALL_TO_PORT, false, port->owner);
}

/* Global, as other parts that are big or asked from several places: the verifier checks it once. */
__noinline int firewall(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
			__u32 how)
{
	struct tracking *t = get_tracking();
	enum verdict result;

	if (!p || !port || !t)
		return DROP(NOT_CONFIGURED);
	if (!p->l4_offset)
		return non_ip(ctx, p, port);
	result = conntrack(ctx, p, port, t, how == FIREWALL_TO_PORT);
	rest_on_firewall(t, port, how);
	if (result == GO_ON && !t->is_admitted)
		result = acl(ctx, p, port);
	if (result == GO_ON && is_first_seen(p))
		remember_first(ctx, p);
	return result;
}
