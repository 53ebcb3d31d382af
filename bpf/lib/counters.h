/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of packets, per CPU: verdicts, ports, remotes and rules. */
#pragma once

#include "packet.h"

/* One of the counters that an entry consists of. */
INLINE struct counter *count(void *map, __u32 number, __u32 which, const struct packet *p)
{
	struct counter *c = bpf_map_lookup_elem(map, &number);

	if (!c)
		return NULL;
	c += which;
	c->packets++;
	c->segments += p->segments;
	c->bytes += p->len;
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

INLINE void count_port(const struct packet *p, __u32 number, enum port_count which)
{
	count(&port_counters, number, which, p);
}

/* What comes from a port, parsed; also how long its packets are, for `overlane mtu`. */
INLINE void count_from_port(const struct packet *p)
{
	struct port_counters *of =
		(struct port_counters *)count(&port_counters, p->source_counters, PORT_FROM, p);
	__u64 len = p->segment_len - ETH_HLEN;

	if (!of || !p->l4_offset)
		return;
	if (len > of->longest)
		of->longest = len;
	if (p->gso_size && len > of->longest_segment)
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
