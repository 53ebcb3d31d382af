/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of packets, per CPU: verdicts, ports, remotes. Rules count themselves (stage/acl.h). */
#pragma once

#include "packet.h"

static __always_inline void add(struct counter *c, const struct packet *p)
{
	c->packets++;
	c->segments += p->segments;
	c->bytes += p->len;
}

static __always_inline void count_verdict(const struct packet *p, __u32 verdict)
{
	__u32 slot = p->hook * VERDICT_SLOTS + verdict;
	struct counter *c = bpf_map_lookup_elem(&verdict_counters, &slot);

	if (!c)
		return;
	add(c, p);
	c->bytes += p->offset; /* from the underlay: the outer header too */
}

enum port_count { PORT_FROM, PORT_TO, PORT_DROPPED };

static __always_inline void count_port(const struct packet *p, __u32 number, enum port_count which)
{
	struct port_counters *c = bpf_map_lookup_elem(&port_counters, &number);

	if (!c)
		return;
	if (which == PORT_FROM)
		add(&c->from_port, p);
	else if (which == PORT_TO)
		add(&c->to_port, p);
	else
		add(&c->dropped, p);
}

enum remote_count { REMOTE_TO, REMOTE_FROM, REMOTE_DROPPED };

static __always_inline void count_remote(const struct packet *p, __u32 number,
					 enum remote_count which)
{
	struct remote_counters *c = bpf_map_lookup_elem(&remote_counters, &number);

	if (!c)
		return;
	if (which == REMOTE_TO)
		add(&c->to_remote, p);
	else if (which == REMOTE_FROM)
		add(&c->from_remote, p);
	else
		add(&c->dropped, p);
}
