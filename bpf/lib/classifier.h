/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classifier of acl: which rule a packet, or the first packet of a connection, matches. It costs the same few
 * lookups among one rule or ten thousand (abi_firewall.h, rule_set). Which one it was for a peer and a service is kept, for
 * the next connections between them: most clients come again.
 */
#pragma once

#include "connection.h"
#include "epochs.h"

#define NO_RULE (-1)

INLINE const struct rule_set *get_rule_set(const __u32 *number)
{
	return number && *number ? bpf_map_lookup_elem(&rule_sets, number) : NULL;
}

/*
 * The number of the lowest bit that is set: the count of the ones below it, without a table. The compiler knows the
 * bound and would leave the mask out; the verifier does not.
 */
INLINE __u32 lowest_bit(__u64 bits)
{
	__u64 below = (bits & -bits) - 1;

	below -= below >> 1 & 0x5555555555555555ull;
	below = (below & 0x3333333333333333ull) + (below >> 2 & 0x3333333333333333ull);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0full;
	below = below * 0x0101010101010101ull >> 56;
	KEEP_BOUNDS(below);
	return below & 63;
}

/* The first bit that three rule sets share, or NO_RULE. Few words are left once the summaries are met. */
INLINE int first_common(const struct rule_set *a, const struct rule_set *b, const struct rule_set *c)
{
	for (__u32 i = 0; i < RULE_SUMMARY_WORDS; i++) {
		__u64 words = a->summary[i] & b->summary[i] & c->summary[i];

		for (int n = 0; n < 64 && words; n++) {
			__u32 word = i * 64 + lowest_bit(words);
			__u64 rules;

			if (word >= RULE_WORDS)
				break;
			rules = a->words[word] & b->words[word] & c->words[word];
			if (rules)
				return word * 64 + lowest_bit(rules);
			words &= words - 1;
		}
	}
	return NO_RULE;
}

#define KEPT_RULES 1024 /* of a CPU: a power of two */

struct kept_rule {
	__u64 epoch; /* 0: nothing is kept here */
	struct rule_peer_key peer;
	struct rule_service_key service;
	__u32 set;
	int number;
	__u32 missed; /* hash of what last found nothing here: if it comes again, it is kept */
	__u32 pad;
};

ARRAY(kept_rules, BPF_MAP_TYPE_PERCPU_ARRAY, struct kept_rule, KEPT_RULES);

/* The secret of the host goes in: a guest cannot choose peers and services that meet those of others. */
INLINE __u32 hash_question(const struct tracking *t, __u32 set)
{
	const struct settings *s = get_settings();
	const __u32 *peer = (const __u32 *)&t->peer, *service = (const __u32 *)&t->service;
	__u64 hash = s ? s->secret : 0;

	for (__u32 i = 1; i < sizeof(t->peer) / sizeof(__u32);
	     i++) /* all are asked for a whole address */
		hash = (hash ^ peer[i]) * WORD_FACTOR;
	hash = (hash ^ service[0] ^ (__u64)service[1] << 32) * WORD_FACTOR;
	hash = (hash ^ set ^ hash >> 32) * WORD_FACTOR;
	return hash >> 32;
}

INLINE bool is_kept_for(const struct kept_rule *kept, const struct tracking *t, __u32 set)
{
	const __u32 *a = (const __u32 *)&kept->peer, *b = (const __u32 *)&t->peer;
	__u32 differs = kept->set ^ set;

	_Static_assert(sizeof(t->peer) + sizeof(t->service) ==
			       offsetof(struct kept_rule, set) - offsetof(struct kept_rule, peer),
		       "they follow each other");
	for (__u32 i = 0; i < (sizeof(t->peer) + sizeof(t->service)) / sizeof(__u32); i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

/* The number of the first rule of a set for tracking.peer and tracking.service, or NO_RULE. Global: few packets come here. */
__noinline int find_first(__u32 port_set, __u32 generation)
{
	struct tracking *t = get_tracking();
	const struct rule_set *port, *peer, *service;
	int bit;

	if (!t)
		return NO_RULE;
	port = get_rule_set(&port_set);
	if (!port)
		return NO_RULE;
	peer = get_rule_set(bpf_map_lookup_elem(&rule_peers, &t->peer));
	if (!peer)
		return NO_RULE;
	service = get_rule_set(bpf_map_lookup_elem(&rule_services, &t->service));
	if (!service)
		return NO_RULE;
	bit = first_common(port, peer, service);
	return bit < 0 ? NO_RULE : (int)(generation * MAX_RULES) + bit;
}

/*
 * The first rule of a port's set for tracking.peer and tracking.service: its number, or NO_RULE. Global, so that the
 * verifier checks it once.
 */
__noinline int find_rule(__u32 port_set, __u32 generation)
{
	struct tracking *t = get_tracking();
	struct kept_rule *kept;
	__u64 epoch;
	__u32 hash, slot;
	int number;

	if (!t || !port_set)
		return NO_RULE;
	t->peer.generation = t->service.generation = generation;
	hash = hash_question(t, port_set);
	slot = hash & (KEPT_RULES - 1);
	kept = bpf_map_lookup_elem(&kept_rules, &slot);
	epoch = epoch_of(EPOCH_TABLES);
	if (kept && epoch & 1 && kept->epoch == epoch && is_kept_for(kept, t, port_set))
		return kept->number;
	number = find_first(port_set, generation);
	if (!kept || !(epoch & 1))
		return number;
	if (kept->missed == hash) {
		kept->epoch = epoch;
		kept->peer = t->peer;
		kept->service = t->service;
		kept->set = port_set;
		kept->number = number;
	}
	kept->missed = hash;
	return number;
}

INLINE void ask_for_peer(struct tracking *t, const struct addr *peer, __u8 family)
{
	t->peer.prefixlen = 32 + 128;
	t->peer.family = family;
	t->peer.pad = 0;
	t->peer.addr = *peer;
}

/* high and low byte of the destination port, or type and code. */
INLINE void ask_for_service(struct tracking *t, __u8 protocol, bool has_port, __u8 high, __u8 low)
{
	t->service.prefixlen = has_port ? 32 : 16;
	t->service.protocol = protocol;
	t->service.port[0] = high;
	t->service.port[1] = low;
}

/* Asks for the packet of tracking.key and tracking.l4. */
INLINE void ask_for_packet(struct tracking *t)
{
	const struct l4 *l4 = &t->l4;
	__u16 port = bpf_ntohs(l4->dest);

	ask_for_peer(t, &t->key.peer, t->key.family);
	if (l4->has_type)
		ask_for_service(t, l4->protocol, true, l4->type, l4->code);
	else
		ask_for_service(t, l4->protocol, has_ports(l4->protocol) && (l4->source | l4->dest),
				port >> 8, port);
}

/* Asks for the first packet that the connection of tracking.key had. */
INLINE void ask_for_first(struct tracking *t, bool from_peer)
{
	const struct connection_key *k = &t->key;
	__u16 port = bpf_ntohs(from_peer ? k->local_port : k->peer_port);
	bool has_port = k->local_port | k->peer_port;

	ask_for_peer(t, &k->peer, k->family);
	if (is_icmp(k->protocol, k->family == 4)) /* a request, code 0 */
		ask_for_service(t, k->protocol, has_port, bpf_ntohs(k->peer_port), 0);
	else
		ask_for_service(t, k->protocol, has_port && has_ports(k->protocol), port >> 8, port);
}

/* The action of a rule, or of the port's default policy. */
INLINE __u32 action_of(const struct port *port, int number, bool to_port)
{
	__u32 index = number;
	const struct rule *rule = number == NO_RULE ? NULL : bpf_map_lookup_elem(&rules, &index);

	if (rule)
		return rule->action;
	return port->flags & (to_port ? PORT_DROP_TO : PORT_DROP_FROM) ? RULE_DROP : RULE_ALLOW;
}

INLINE int find_rule_of(const struct port *port, bool to_port)
{
	return find_rule(to_port ? port->rules_to : port->rules_from,
			 !!(port->flags & PORT_RULES_ODD));
}
