/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage acl: the first rule that matches a packet without connection decides. With conntrack before it,
 * it is the firewall of a port: of what the port sends between arp_nd and l2_lookup, of what it gets the
 * first part of to_port.
 */
#pragma once

#include "classifier.h"
#include "conntrack.h"
#include "limit.h"

/* How firewall() is asked. */
#define FIREWALL_FROM_PORT 0
#define FIREWALL_TO_PORT 1

#define LOG_LIMIT 100 /* records in a second */

/* NO_RULE is RULE_DEFAULT: it has no counter. */
static __always_inline void count_rule(const struct packet *p, __u32 number)
{
	struct counter *c = bpf_map_lookup_elem(&rule_counters, &number);

	if (c)
		add(c, p);
}

/* Global, so that the verifier checks it once. result: 0, or the negated drop reason. */
__noinline int log_packet(const struct packet *p, __u32 number, __u32 to_port, int result)
{
	struct tracking *t = get_tracking();
	struct log_record *r;

	if (!p || !t || !is_within_limit(LIMIT_LOG, LOG_LIMIT, SECOND, t->now))
		return 0;
	r = bpf_ringbuf_reserve(&rule_log, sizeof(*r), 0);
	if (!r)
		return 0;
	r->time = t->now;
	r->packet = t->key;
	r->rule = number;
	r->verdict_reason = result < 0 ? -result : 0;
	r->from_port = !to_port;
	r->len = p->len < 0xffff ? p->len : 0xffff;
	r->pad = 0;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/* What the action makes of the packet; without, and not with, a connection. */
static __always_inline int decide(const struct port *port, __u32 action, int number, __u32 how,
				  bool is_group)
{
	struct settings *s = get_settings();
	int result;

	if (action == RULE_REJECT)
		return DROP(FIREWALL_REJECT);
	if (action == RULE_DROP || !s)
		return DROP(FIREWALL_DROP);
	if (action == RULE_ALLOW_STATELESS || is_group)
		return 0;
	result = begin_connection(how, number, s->rules_version);
	if (result == DROP(CONNECTIONS_FULL) && port->flags & PORT_ALLOW_WHEN_FULL)
		return 0;
	return result < 0 ? result : 0;
}

/*
 * The stage, for a packet without connection. how: BEGIN_*. Global, like the other parts of firewall(),
 * so that the verifier checks it once; and apart, for the stack's sake.
 */
__noinline int acl(const struct packet *p, const struct port *port, __u32 how)
{
	struct tracking *t = get_tracking();
	bool to_port = how & BEGIN_FROM_PEER;
	struct rule *rule;
	__u32 index;
	int number, result;

	if (!p || !port || !t)
		return DROP(NOT_CONFIGURED);
	ask_for_packet(t);
	number = find_rule_of(port, to_port);
	result = decide(port, action_of(port, number, to_port), number, how, is_group(p->eth.h_dest));
	index = number;
	if (number == NO_RULE)
		return result;
	count_rule(p, index);
	rule = bpf_map_lookup_elem(&rules, &index);
	if (rule && rule->flags & RULE_LOG)
		log_packet(p, index, to_port, result);
	return result;
}

/* Whether the rules of now still allow a connection that others admitted; then it is theirs. */
static __always_inline bool is_still_allowed(struct tracking *t, const struct port *port,
					     struct connection *c, __u32 version)
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

enum belonging {
	BELONGS = 1, /* it passes */
	BELONGS_NOT = 2,
	BELONGS_TO_REVOKED = 3, /* the same, and it must not bring the connection back */
};

/* The stage: enum belonging or a drop reason. */
__noinline int conntrack(const struct packet *p, const struct port *port, __u32 from_peer)
{
	const struct settings *s = get_settings();
	struct tracking *t = get_tracking();
	struct connection *c;
	int result;

	if (!p || !port || !t || !s)
		return DROP(NOT_CONFIGURED);
	if (is_loose(&t->l4))
		return BELONGS_NOT;
	c = conntrack_find(t, from_peer);
	if (!c)
		return BELONGS_NOT;
	if (c->version != s->rules_version && !is_still_allowed(t, port, c, s->rules_version)) {
		bool syn = (t->l4.tcp.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;

		/* Else the next packet of a busy TCP connection would be adopted from its other side. */
		if (t->l4.kind == L4_TCP && !syn)
			return BELONGS_TO_REVOKED;
		forget_connection(&t->key, c);
		return BELONGS_NOT;
	}
	result = conntrack_follow(t, c, from_peer);
	if (result < 0)
		return result;
	count_rule(p, c->rule);
	return BELONGS;
}

/* Neighbour discovery and multicast listeners: nothing else would pass without them. */
static __always_inline bool is_exempt(const struct packet *p, const struct l4 *l4)
{
	return l4->has_type && p->eth.h_proto == ETHERTYPE_IPV6 &&
	       ((l4->type >= 130 && l4->type <= 137) || l4->type == 143);
}

/*
 * Both stages for a port that has a firewall; how: FIREWALL_*. 0 or a drop reason; the skb is as it was.
 * Global, so that the verifier checks it once and not for every way that leads here.
 */
__noinline int firewall(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
			__u32 how)
{
	struct tracking *t = get_tracking();
	bool to_port = how == FIREWALL_TO_PORT;
	__u32 begin = to_port ? BEGIN_FROM_PEER : 0;
	int result;

	if (!p || !port || !t)
		return DROP(NOT_CONFIGURED);
	if (!p->l4_offset) /* not IP */
		return 0;
	t->now = coarse_now_ns();
	result = read_l4(ctx, p);
	if (is_exempt(p, &t->l4))
		return 0;
	set_connection_key(&t->key, p, &t->l4, port->switch_id, port->key, to_port);
	t->fresh.outside = (struct addr){};
	t->fresh.outside_port = 0;
	if (!is_group(p->eth.h_dest)) {
		if (result < 0)
			return result;
		if (is_related(ctx, p, t, to_port))
			return 0;
		result = conntrack(p, port, to_port);
		if (result < 0)
			return result;
		if (result == BELONGS)
			return 0;
		if (result == BELONGS_TO_REVOKED)
			begin |= BEGIN_NOT_ADOPTED;
	}
	return acl(p, port, begin);
}
