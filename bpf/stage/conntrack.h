/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage conntrack: a packet of a connection passes whatever rules say, if it fits. Part of the firewall of a port
 * (firewall.h), of what it sends and of what it gets.
 */
#pragma once

#include "lib/begin.h"
#include "lib/classifier.h"
#include "lib/fdb.h"
#include "lib/firewall.h"
#include "lib/fragments.h"
#include "lib/quoted.h"
#include "lib/tracking.h"
#include "lib/upkeep.h"

/* Whether there is a connection, and it is not another guest's, who was here before. */
INLINE bool is_own(const struct connection *c, const struct port *port)
{
	return c && c->owner == port->owner;
}

/* Whether an ICMP error is about a packet of a live connection. */
INLINE bool is_related(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
		       const struct tracking *t, bool from_peer)
{
	return quotes(&t->l4) && read_quoted(ctx, p, from_peer) &&
	       is_own(see_connection(&t->other, t->now), port);
}

/* Whether the rules of now still allow a connection that others admitted; then it is theirs. */
INLINE bool is_still_allowed(struct tracking *t, const struct port *port, struct connection *c,
			     __u32 version)
{
	bool from_peer = c->flags & CONNECTION_FROM_PEER;
	int number;

	ask_for_first(t, from_peer);
	number = find_rule_of(port, from_peer);
	if (action_of(port, number, from_peer) != RULE_ALLOW)
		return false;
	c->rule = number;
	c->version = version;
	return true;
}

/* The connection of tracking.key that admits the packet, if there is one. */
INLINE enum verdict belong(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
			   __u32 from_peer)
{
	const struct settings *s = get_settings();
	struct tracking *t = get_tracking();
	enum verdict result;
	struct connection *c;

	if (!p || !port || !t || !s)
		return DROP(NOT_CONFIGURED);
	if (is_loose(&t->l4))
		return GO_ON;
	c = find_connection(&t->key, t->now);
	if (!c)
		return GO_ON;
	if (!is_own(c, port)) {
		forget_connection(&t->key, c);
		return GO_ON;
	}
	if (c->version != s->rules_version && !is_still_allowed(t, port, c, s->rules_version)) {
		/* Else the next packet of a busy TCP connection would be adopted from its other side. */
		if (t->l4.kind == L4_TCP && !is_syn(&t->l4))
			pick_up(c); /* it may pass by another rule */
		if ((t->l4.kind == L4_TCP && !is_syn(&t->l4)) || t->l4.part == LATER_FRAGMENT)
			t->how |= BEGIN_NOT_ADOPTED;
		else
			forget_connection(&t->key, c);
		return GO_ON;
	}
	if (asks_for_another(c, &t->l4, from_peer)) { /* of the rules */
		t->may_be_there = true;
		return GO_ON;
	}
	result = follow_connection(ctx, p, c, from_peer);
	if (result != GO_ON)
		return result;
	count_rule(p, c->rule);
	t->is_admitted = true;
	return GO_ON;
}

/* Neighbour discovery and multicast listeners, which no router forwards: nothing else would pass without them. */
INLINE bool is_exempt(struct __sk_buff *ctx, const struct packet *p, const struct l4 *l4)
{
	const struct scratch *w;

	if (!l4->has_type || has_ipv4(p) || !(is_nd(l4->type) || is_mld(l4->type)))
		return false;
	w = get_scratch();
	if (!w || w->destination.routed || is_routers(p->switch_id, p->eth.h_dest))
		return false;
	return is_nd(l4->type) ? !l4->code && is_proper_nd_of(ctx, p, l4->type) :
				 is_proper_mld(ctx, p, l4->type);
}

/* Unless tracking.is_admitted, acl decides. */
INLINE enum verdict conntrack(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
			      struct tracking *t, bool to_port)
{
	enum verdict result;

	t->now = coarse_now_ns();
	t->how = to_port ? BEGIN_FROM_PEER : 0;
	t->may_be_there = false;
	t->key.switch_id = port->switch_id;
	t->key.key = port->key;
	result = read_l4(ctx, p);
	if (t->l4.kind == L4_UNSEEN)
		result = see_behind(ctx, p, port->flags, to_port);
	t->is_admitted = is_exempt(ctx, p, &t->l4);
	if (t->is_admitted)
		return GO_ON;
	set_connection_key(&t->key, p, &t->l4, port->switch_id, port->key, to_port);
	t->fresh.outside = (struct addr){};
	t->fresh.outside_port = 0;
	t->fresh.owner = port->owner;
	t->share = port->connections;
	if (is_group(p->eth.h_dest) && (result == GO_ON || result == DROP(CONNECTION_INVALID)))
		return GO_ON;
	if (result != GO_ON)
		return result;
	t->is_admitted = is_related(ctx, p, port, t, to_port);
	return t->is_admitted ? GO_ON : belong(ctx, p, port, to_port);
}
