/* SPDX-License-Identifier: Apache-2.0 */
/* Stage acl: the first rule that matches a packet without connection decides. Behind conntrack. */
#pragma once

#include "lib/begin.h"
#include "lib/classifier.h"
#include "lib/firewall.h"
#include "lib/limit.h"
#include "lib/neighbour.h"

#define LOG_LIMIT 100 /* records in a second */

/* Global, so that the verifier checks it once. result: GO_ON, or the drop reason. */
__noinline int log_packet(const struct packet *p, __u32 number, __u32 to_port, int result)
{
	struct tracking *t = get_tracking();
	struct limit_key limit = { .limit = LIMIT_LOG };
	struct log_record *r;

	if (!p || !t)
		return 0;
	limit.switch_id = t->key.switch_id;
	limit.key = t->key.key;
	if (!is_within_limit(&limit, 1, LOG_LIMIT, SECOND, t->now))
		return 0;
	r = bpf_ringbuf_reserve(&rule_log, sizeof(*r), 0);
	if (!r)
		return 0;
	r->time = t->now;
	r->packet = t->key;
	r->rule = number;
	r->verdict_reason = result == GO_ON ? 0 : result;
	r->from_port = !to_port;
	r->len = p->len < 0xffff ? p->len : 0xffff;
	r->pad = 0;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/* What only calls itself ARP carries whatever it likes. */
INLINE bool is_arp(struct __sk_buff *ctx, const struct packet *p)
{
	struct arp_ipv4 arp;

	return p->eth.h_proto == bpf_htons(ETH_P_ARP) &&
	       bpf_skb_load_bytes(ctx, ETH_HLEN, &arp, sizeof(arp)) == 0 && is_proper_arp(&arp);
}

/* A frame that is not IP has no connection, and no rule looks at it. */
INLINE enum verdict non_ip(struct __sk_buff *ctx, const struct packet *p, const struct port *port)
{
	struct lswitch *sw;

	if (!(port->flags & PORT_DROP_NON_IP) || is_arp(ctx, p))
		return GO_ON;
	sw = bpf_map_lookup_elem(&switches, &port->switch_id);
	for (int i = 0; sw && i < MAX_NON_IP; i++) {
		if (sw->non_ip[i] == p->eth.h_proto && sw->non_ip[i])
			return GO_ON;
	}
	return DROP(FIREWALL_DROP);
}

/* What the action makes of the packet; without, and not with, a connection. */
INLINE enum verdict decide(struct __sk_buff *ctx, const struct packet *p, const struct port *port,
			   const struct tracking *t, __u32 action, int number)
{
	struct settings *s = get_settings();
	enum verdict result;

	if (action == RULE_REJECT)
		return DROP(FIREWALL_REJECT);
	if (action == RULE_DROP || !s)
		return DROP(FIREWALL_DROP);
	if (action == RULE_ALLOW_STATELESS || is_group(p->eth.h_dest))
		return GO_ON;
	if (may_begin(&t->l4) && !is_sound(ctx, p))
		return DROP(CONNECTION_INVALID);
	result = begin_connection(t->how, number, s->rules_version);
	if (result == DROP(CONNECTIONS_FULL) && port->flags & PORT_ALLOW_WHEN_FULL)
		return GO_ON;
	return result;
}

/* For the packet of tracking. Global, so that the verifier checks it once; and apart, for the stack's sake. */
__noinline enum verdict acl(struct __sk_buff *ctx, const struct packet *p, const struct port *port)
{
	struct tracking *t = get_tracking();
	enum verdict result;
	struct rule *rule;
	bool to_port;
	__u32 index;
	int number;

	if (!p || !port || !t)
		return DROP(NOT_CONFIGURED);
	to_port = t->how & BEGIN_FROM_PEER;
	ask_for_packet(t);
	number = find_rule_of(port, to_port);
	result = decide(ctx, p, port, t, action_of(port, number, to_port), number);
	index = number;
	if (number == NO_RULE)
		return result;
	count_rule(p, index);
	rule = bpf_map_lookup_elem(&rules, &index);
	if (rule && rule->flags & RULE_LOG)
		log_packet(p, index, to_port, result);
	return result;
}
