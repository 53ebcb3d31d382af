/* SPDX-License-Identifier: Apache-2.0 */
/* The end that a new translation has outside: chosen by its rule, published in map translations, and begun. For nat. */
#pragma once

#include "begin.h"
#include "fragments.h"
#include "nat_rules.h"

#define NAT_TRIES                                                                                    \
	72 /* outside ports that are looked at: nine of ten taken, one translation in 2000 finds none free */
/*
 * An inside address has at most two of the four or five outside ports of a group with one peer, which is half of all. In
 * a range of so few ports that a group has neighbours it may have all.
 */
#define NAT_GROUP 4
#define NAT_SHARE_OF_GROUP 2
#define NAT_LEAST_STEP 4
#define NAT_SILENCE (2 * SECOND) /* of a translation that gives way */
#define NAT_REFUSALS 8           /* so many groups it has its share of: then it has it of all */
#define NAT_PORT_MIN 1024        /* of those that a peer gets inside, */
#define NAT_PORTS 64512          /* so many */

/* Whether the connection that an entry of tracking.other names lives there; its key is in search.holder. */
INLINE bool is_in_use(struct tracking *t, const struct translation_entry *entry)
{
	struct connection *c;

	t->search.holder = entry->inside;
	c = see_connection(&t->search.holder, t->now);
	return c && is_its_outside(&t->search.holder, c, &t->other);
}

/*
 * An entry of tracking.other that was left behind becomes that of tracking.key. Its connection may be there, expired. It
 * stays: deleted by its key, one that another CPU begins anew could go instead.
 */
INLINE enum verdict take_over(struct tracking *t, struct translation_entry *entry)
{
	if (is_in_use(t, entry))
		return DROP(NAT_EXHAUSTED);
	entry = claim_translation(&t->other);
	if (!entry)
		return DROP(NAT_EXHAUSTED);
	if (is_in_use(t, entry)) {
		give_back(entry, &t->other);
		return DROP(NAT_EXHAUSTED);
	}
	entry->inside = t->key;
	return GO_ON;
}

/*
 * Makes tracking.other the outside key of tracking.key: claimed, so the caller begins the connection and releases it,
 * or takes it away. DROP(NAT_EXHAUSTED): another connection has it. Global: it is asked in a loop.
 */
__noinline enum verdict publish(void)
{
	struct tracking *t = get_tracking();
	struct translation_entry *entry;
	long failed;

	if (!t)
		return DROP(NOT_CONFIGURED);
	entry = bpf_map_lookup_elem(&translations, &t->other);
	if (entry)
		return take_over(t, entry);
	t->entry.inside = t->key;
	t->entry.claim = 1;
	failed = bpf_map_update_elem(&translations, &t->other, &t->entry, BPF_NOEXIST);
	if (!failed)
		return GO_ON;
	return failed == -EEXIST ? DROP(NAT_EXHAUSTED) : DROP(CONNECTIONS_FULL);
}

/* Nothing tells two flows of a peer apart, or nobody may write what does: SCTP's CRC is over its ports. */
INLINE bool keeps_port(const struct connection_key *key)
{
	return !(key->local_port | key->peer_port) || key->protocol == IPPROTO_SCTP;
}

/*
 * Nobody outside has answered it, or nothing comes any more that matters: whoever wants to can have many of these. But
 * an answer may be on its way, and would go to whoever has the port then.
 */
INLINE bool gives_way(const struct connection_key *key, const struct connection *c, __u64 now)
{
	bool is_of_use =
		c->flags & CONNECTION_ANSWERED && !(key->protocol == IPPROTO_TCP && is_over(c));

	return !is_of_use && now > c->seen + NAT_SILENCE;
}

/*
 * The connection search.holder has a port that the new one wants. Majority vote (Boyer and Moore): in one pass, and
 * whoever has more than half of the ports that are looked at is found.
 */
INLINE void vote(struct tracking *t)
{
	const struct connection_key *holder = &t->search.holder;
	struct crowd *crowd = &t->crowd;
	struct connection *c;

	if (!crowd->votes) {
		crowd->most = holder->local;
		crowd->victim.switch_id = 0;
	} else if (!same_addr(&crowd->most, &holder->local)) {
		crowd->votes--;
		return;
	}
	crowd->votes++;
	c = bpf_map_lookup_elem(&connections, holder);
	if (!c || !gives_way(holder, c, t->now) ||
	    (crowd->victim.switch_id && c->seen >= crowd->victim_seen))
		return;
	crowd->victim = *holder;
	crowd->victim_seen = c->seen;
}

/* Whether a live connection has the outside key tracking.other; then it has a vote. Global: it is asked in a loop. */
__noinline int is_end_taken(__u32 by_own_only)
{
	struct translation_entry *entry;
	struct tracking *t = get_tracking();

	if (!t)
		return false;
	entry = bpf_map_lookup_elem(&translations, &t->other);
	if (!entry || (by_own_only && !same_addr(&entry->inside.local, &t->key.local)) ||
	    !is_in_use(t, entry))
		return false;
	vote(t);
	return true;
}

/*
 * Whether the new one's inside address has its share of a group of ports with this peer. The port of tracking.other,
 * which is free, is in a group of four, or five; they lie far from each other, for guests use ports in a row. Global: it
 * is asked in a loop.
 */
__noinline int has_share(void)
{
	__u32 first, count, step, port, at, others, own = 0;
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();

	if (!t || !w)
		return false;
	first = w->rule.port_min;
	count = w->rule.port_max - first + 1;
	step = count / NAT_GROUP;
	port = bpf_ntohs(t->other.local_port) - first;
	if (port >= count || step < NAT_LEAST_STEP)
		return false;
	at = port % step;
	others = (count - 1 - at) / step;
	for (int i = 0; i <= NAT_GROUP && at < count; i++, at += step) {
		if (at == port)
			continue;
		/* Enough, or too few are left. */
		if (own >= NAT_SHARE_OF_GROUP || own + others < NAT_SHARE_OF_GROUP)
			break;
		t->other.local_port = bpf_htons(first + at);
		own += !!is_end_taken(true);
		others--;
	}
	t->other.local_port = bpf_htons(first + port);
	return own >= NAT_SHARE_OF_GROUP;
}

/* Whether what comes for tracking.other has a rule of its own. Global, for the stack's sake. */
__noinline int is_forwarded(__u32 list)
{
	struct tracking *t = get_tracking();

	return !t || find_end(list, NAT_OUTSIDE, &t->other, true);
}

/*
 * Publishes tracking.other for a source rule, which takes no port that is forwarded. DROP(NAT_EXHAUSTED): it cannot be
 * had, or only by NAT-43.
 */
INLINE enum verdict publish_shared(struct tracking *t, __u32 list)
{
	if (is_forwarded(list) || is_end_taken(false))
		return DROP(NAT_EXHAUSTED);
	if (!keeps_port(&t->key) && has_share()) {
		t->crowd.refused++;
		return DROP(NAT_EXHAUSTED);
	}
	return publish();
}

/* Whether somebody gives way where none was free; then tracking.other is its outside key. Global, for the stack's sake. */
__noinline int find_victim(void)
{
	struct tracking *t = get_tracking();
	struct connection *c;

	/* Nobody does for what another CPU has begun meanwhile. */
	if (!t || !t->crowd.victim.switch_id || see_connection(&t->key, t->now))
		return false;
	c = bpf_map_lookup_elem(&connections, &t->crowd.victim);
	if (!c || !gives_way(&t->crowd.victim, c, t->now))
		return false;
	outside_key_of(&t->other, &t->crowd.victim, c);
	return true;
}

/* What find_victim() found is forgotten, and its outside key becomes that of tracking.key. Global, likewise. */
__noinline enum verdict publish_in_its_place(void)
{
	struct tracking *t = get_tracking();
	struct connection *c;

	if (!t)
		return DROP(NOT_CONFIGURED);
	c = bpf_map_lookup_elem(&connections, &t->crowd.victim);
	if (c)
		forget_connection(&t->crowd.victim, c); /* leaves its outside key in tracking.other */
	return publish();
}

/* The port of a try, of so many from `first` on: where there are few, one after the other. */
INLINE __u32 port_of_try(__u32 attempt, __u32 hash, __u32 first, __u32 count)
{
	bool each = count <= NAT_TRIES;
	__u32 mixed = mix_hash(each ? hash : hash + attempt * 0x9e3779b9);
	__u32 number = ((__u64)mixed * count) >> 32;

	return first + (each ? (number + attempt) % count : number);
}

INLINE __u32 hash_for_ports(const struct packet *p)
{
	const struct settings *s = get_settings();

	return p->flow_hash ^ (s ? s->secret : 0);
}

/* Its ports cannot be seen: they are not there, or behind what parse does not read. */
INLINE bool hides_ports(const struct packet *p, const struct connection_key *key)
{
	return !(key->local_port | key->peer_port) && (is_hidden(p) || has_ports(p->protocol));
}

/* For bpf_loop(), as try_inside(): the verifier looks at one try, and not at all of them. 1: no more. */
static long try_shared(__u32 attempt, void *none __attribute__((unused)))
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	__u32 first, count;

	if (!t || !w || t->ports.result != DROP(NAT_EXHAUSTED) || t->crowd.refused >= NAT_REFUSALS)
		return 1;
	first = w->rule.port_min;
	count = w->rule.port_max - first + 1;
	if (attempt >= count)
		return 1;
	t->other.local_port = bpf_htons(port_of_try(attempt, t->ports.hash, first, count));
	t->ports.result = publish_shared(t, t->ports.list);
	return 0;
}

/* A port of an address that others have too: its own if it is free with this peer. */
INLINE enum verdict share_address(struct scratch *w, struct tracking *t, const struct packet *p,
				  __u32 list)
{
	if (is_unknown_part(p, &t->l4))
		return DROP(FRAGMENT_UNKNOWN);
	if (hides_ports(p, &t->key))
		return DROP(NAT_UNSUPPORTED);
	set_outside_key(&t->other, &t->key, &w->rule.outside, t->key.local_port);
	t->crowd.votes = t->crowd.refused = t->crowd.victim.switch_id = 0;
	t->ports.hash = hash_for_ports(p);
	t->ports.list = list;
	t->ports.result = publish_shared(t, list);
	if (!keeps_port(&t->key))
		bpf_loop(NAT_TRIES, try_shared, NULL, 0);
	if (t->ports.result == DROP(NAT_EXHAUSTED) && find_victim() && !is_forwarded(list))
		t->ports.result = publish_in_its_place();
	return t->ports.result;
}

/* SCTP's CRC is over its ports, and is not written anew. */
INLINE bool moves_sctp(const struct nat_rule *rule)
{
	return rule->kind == NAT_FORWARD && rule->protocol == IPPROTO_SCTP &&
	       rule->inside_port != rule->outside_port;
}

/* Publishes the outside key that the rule gives a new connection, tracking.other. Global, for the stack's sake. */
__noinline enum verdict publish_by_rule(const struct packet *p, __u32 list)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	const struct nat_rule *rule;
	__be16 port;

	if (!p || !t || !w)
		return DROP(NOT_CONFIGURED);
	rule = &w->rule;
	port = t->key.local_port;
	if (rule->kind == NAT_SOURCE)
		return share_address(w, t, p, list);
	if (moves_sctp(rule))
		return DROP(NAT_UNSUPPORTED);
	if (rule->kind == NAT_FORWARD)
		port = bpf_htons(rule->outside_port);
	set_outside_key(&t->other, &t->key, &rule->outside, port);
	return publish();
}

/*
 * Begins the connection of tracking.key; its outside key, tracking.other, is published. DROP(NAT_EXHAUSTED): another
 * CPU has begun it meanwhile, with another outside end, which stands. Global, for the stack's sake.
 */
__noinline enum verdict begin_translation(__u32 how, __u32 version)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;

	if (!t || !w)
		return DROP(NOT_CONFIGURED);
	t->fresh.owner = 0;
	t->may_be_there = true;
	t->fresh.outside = t->other.local;
	t->fresh.outside_port = t->other.local_port;
	t->fresh.peer_outside_port = t->other.peer_port;
	w->outside = t->other;
	result = begin_connection(how, RULE_DEFAULT, version);
	if (result != GO_ON) {
		bpf_map_delete_elem(&translations, &w->outside);
		return result;
	}
	release_translation(&w->outside);
	c = bpf_map_lookup_elem(&connections, &t->key);
	if (!c || !is_outside(c, &w->outside)) { /* or it is gone again, when its entry was claimed */
		forget_translation(&w->outside);
		t->has_begun = false;
		return DROP(NAT_EXHAUSTED);
	}
	if (t->has_begun && how & BEGIN_FROM_PEER)
		w->begun = t->key;
	return GO_ON;
}

/*
 * The packet from the leg is dropped, and what it began goes with it: nobody got the packet who could answer. Global,
 * for the stack's sake.
 */
__noinline int forget_begun(void)
{
	struct scratch *w = get_scratch();
	struct connection *c;

	if (!w || !w->begun.switch_id)
		return false;
	c = bpf_map_lookup_elem(&connections, &w->begun);
	if (!c || c->flags & CONNECTION_ANSWERED || !(c->flags & CONNECTION_FROM_PEER))
		return false;
	forget_connection(&w->begun, c);
	return true;
}

/*
 * Begins the connection of tracking.key, with the outside key scratch.outside; or in tracking.other_begins, another CPU
 * does. DROP(NAT_EXHAUSTED): another has tracking.key. Global: it is asked in a loop.
 */
__noinline enum verdict begin_inside(__u32 version)
{
	struct tracking *t = get_tracking();
	struct scratch *w = get_scratch();
	enum verdict result;
	struct connection *c;

	if (!t || !w)
		return DROP(NOT_CONFIGURED);
	c = find_connection(&t->key, t->now);
	if (c && !is_outside(c, &w->outside))
		return DROP(NAT_EXHAUSTED);
	t->other = w->outside;
	result = c ? DROP(NAT_EXHAUSTED) : publish();
	t->other_begins = result == DROP(NAT_EXHAUSTED);
	if (t->other_begins)
		return GO_ON;
	return result == GO_ON ? begin_translation(BEGIN_FROM_PEER, version) : result;
}

/* Another port inside, or of ICMP another identifier. */
static long try_inside(__u32 attempt, void *none __attribute__((unused)))
{
	struct tracking *t = get_tracking();
	__be16 port;

	if (!t || t->ports.result != DROP(NAT_EXHAUSTED))
		return 1;
	port = bpf_htons(port_of_try(attempt, t->ports.hash, NAT_PORT_MIN, NAT_PORTS));
	if (is_icmp(t->key.protocol, t->key.family == 4))
		t->key.local_port = port;
	else
		t->key.peer_port = port;
	t->ports.result = begin_inside(t->ports.version);
	return 0;
}

/*
 * The same for what comes from outside. Where another connection has tracking.key, its peer has come by another way
 * from the same port: it gets another port inside, or of ICMP another identifier.
 */
INLINE enum verdict begin_by_some_port(struct tracking *t, const struct packet *p, __u32 version)
{
	if (!can_begin(&t->l4, BEGIN_FROM_PEER))
		return DROP(CONNECTION_INVALID);
	t->ports.hash = hash_for_ports(p);
	t->ports.version = version;
	t->ports.result = begin_inside(version);
	if (!keeps_port(&t->key))
		bpf_loop(NAT_TRIES, try_inside, NULL, 0);
	return t->ports.result;
}
