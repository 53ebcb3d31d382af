/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of packets, per CPU: verdicts, ports, remotes and rules. */
#pragma once

#include "packet.h"

INLINE void add(struct counter *c, const struct packet *p)
{
	c->packets++;
	c->segments += p->segments;
	c->bytes += p->len;
}

/* One of the counters that an entry consists of. */
INLINE struct counter *count(void *map, __u32 number, __u32 which, const struct packet *p)
{
	struct counter *c = bpf_map_lookup_elem(map, &number);

	if (c)
		add(c + which, p);
	return c;
}

INLINE void count_verdict(const struct packet *p, __u32 verdict)
{
	struct counter *c = count(&verdict_counters, p->hook * VERDICT_SLOTS + verdict, 0, p);

	if (c)
		c->bytes += p->offset; /* from the underlay: the outer header too */
}

/* In the order of struct port_counters. */
enum port_count { PORT_FROM, PORT_TO, PORT_DROPPED, PORT_UNTOLD };

INLINE struct port_counters *counters_of_port(__u32 number)
{
	return bpf_map_lookup_elem(&port_counters, &number);
}

INLINE void count_port(const struct packet *p, __u32 number, enum port_count which)
{
	struct port_counters *of = counters_of_port(number);

	if (of)
		add(&of->from_port + which, p);
}

/* What comes from a port; and how long its IP packets are, for `overlane mtu`. */
INLINE void count_from_port(const struct packet *p, bool is_parsed)
{
	struct port_counters *of = counters_of_port(p->source_counters);
	__u64 len = p->segment_len - ETH_HLEN;

	if (!of)
		return;
	add(&of->from_port, p);
	if (!is_parsed || !p->l4_offset || len <= of->longest_segment)
		return;
	if (len > of->longest)
		of->longest = len;
	if (p->gso_size)
		of->longest_segment = len;
}

/* In the order of struct remote_counters. */
enum remote_count { REMOTE_TO, REMOTE_FROM, REMOTE_DROPPED };

INLINE void count_remote(const struct packet *p, __u32 number, enum remote_count which)
{
	count(&remote_counters, number, which, p);
}

INLINE void count_rule(const struct packet *p, __u32 number)
{
	count(&rule_counters, number, 0, p);
}
