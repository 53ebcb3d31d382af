/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was decided about a packet, kept for the next packets of its flow (docs/adr/0028-flows-are-remembered.md). Stage
 * flow uses it instead of the look-up stages, and says the same as they would.
 *
 *   epoch       of all that `apply` writes: another number once it has changed. While it writes there is none.
 *   side        of the neighbours found on one side of a router: another number once one moved or went
 *   until       a found neighbour is asked again then
 *   near, far   connections that let the packet. They change with every packet, and are looked up for each
 *
 * What rests on anything else is not kept: destination.once. Each CPU has its own entries, so nobody waits.
 */
#pragma once

#include "epochs.h"
#include "ip.h"

#define FLOWS 4096 /* of a CPU: a power of two */
#define FLOW_SHARE                                                                                   \
	1024 /* of them for one port or remote, scattered: it does not push out what others have */
#define NO_FLOW 0xffffffffu

struct kept_flow {
	__u32 hash;   /* of the key: most flows are told apart by it, in one cache line */
	__u32 missed; /* of the flow that last found nothing here: if it comes again, it is kept */
	__u64 epoch;  /* 0: nothing is kept here */
	struct flow_key key;
	__u64 until; /* 0: no time is set */
	__u64 side_epoch;
	__u32 side;    /* its number in map epochs; 0: none */
	__u32 longest; /* IP packet, as segmented */
	/* of struct packet */
	__u32 switch_id;
	__u32 source_counters;
	__u32 sender_counters;
	__u32 flow_hash;
	__u16 source_key;
	__u8 claims_key;
	__u8 pad;
	struct flow_connection near; /* of the port that it came from, or of a router from its leg, */
	struct flow_connection far;  /* and of the one that it goes to, or of a router's leg */
	__u8 destination[KEPT_DESTINATION];
	struct remote remote; /* TO_REMOTE: from map remotes */
};

ARRAY(flows, BPF_MAP_TYPE_PERCPU_ARRAY, struct kept_flow, FLOWS);

/* Nothing has been decided yet. */
INLINE void begin_flow(struct fresh_flow *f)
{
	f->slot = NO_FLOW;
	f->side = 0;
	f->until = 0;
	f->longest = ~0u;
	f->near.zone = f->far.zone = 0;
}

/* Before what was found on a side decides about the packet. */
INLINE void rest_on_side(struct fresh_flow *f, struct destination *d, __u32 side)
{
	__u32 number = number_of_side(side);

	if (f->side && f->side != number)
		d->once = true;
	f->side = number;
	f->side_epoch = epoch_of(number);
}

/* And that decides at most so long. */
INLINE void rest_until(struct fresh_flow *f, __u64 until)
{
	if (!f->until || until < f->until)
		f->until = until;
}

/* A connection has let the packet, and has to let the next ones. */
INLINE void rest_on_connection(struct flow_connection *by, __u32 zone, __u16 key, bool from_peer,
			       bool translates, __u32 holder)
{
	*by = (struct flow_connection){ .zone = zone,
					.key = key,
					.from_peer = from_peer,
					.translates = translates,
					.holder = holder };
}

INLINE bool same_key(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;
	__u64 difference = 0;

	for (__u32 i = 0; i < sizeof(*a) / sizeof(__u64); i++)
		difference |= x[i] ^ y[i];
	return !difference;
}

/* Two halves at once. The secret of the host goes in: a guest cannot choose flows that meet those of others. */
INLINE __u64 hash_key(const struct flow_key *key, __u32 secret)
{
	const __u64 *words = (const __u64 *)key;
	__u64 a = secret, b = WORD_FACTOR;

	_Static_assert(sizeof(*key) == 80, "in ten words");
	for (int i = 0; i < 5; i++) {
		a = (a ^ words[i]) * WORD_FACTOR;
		b = (b ^ words[i + 5]) * WORD_FACTOR_2;
		a ^= a >> 32;
		b ^= b >> 32;
	}
	a = (a ^ b) * WORD_FACTOR;
	return a ^ a >> 32;
}

/* Where a flow is kept: each number in the share of its port or remote has another place. */
INLINE __u32 slot_of(const struct flow_key *key, __u64 hash, __u32 secret)
{
	const __u32 *remote = (const __u32 *)&key->remote;
	__u64 zone = (secret ^ key->entrance ^ (remote[0] ^ remote[1] ^ remote[2])) +
		     (__u64)remote[3] * WORD_FACTOR_2;
	__u32 number = (hash >> 32) & (FLOW_SHARE - 1);

	zone *= WORD_FACTOR;
	return (number * ((zone >> 32) | 1) + (zone >> 50)) & (FLOWS - 1);
}

/*
 * The place of the flow of `fresh.key`. What is kept there may be another flow's, or over. Then fresh.slot says where this
 * one will be kept, if it was missed before: a stranger who sends packets of many flows, one each, pushes nobody out.
 */
INLINE struct kept_flow *find_flow(const struct settings *s, struct fresh_flow *fresh)
{
	__u64 hash = hash_key(&fresh->key, s->secret);
	__u32 slot = slot_of(&fresh->key, hash, s->secret);
	struct kept_flow *kept = bpf_map_lookup_elem(&flows, &slot);
	bool same;

	fresh->epoch = epoch_of(EPOCH_TABLES);
	if (!kept || !(fresh->epoch & 1))
		return NULL;
	fresh->hash = hash;
	same = kept->hash == fresh->hash && same_key(&kept->key, &fresh->key);
	if (same || kept->missed == fresh->hash)
		fresh->slot = slot;
	else
		kept->missed = fresh->hash;
	return same && kept->epoch == fresh->epoch ? kept : NULL;
}

/* The header of the remote that a packet of a known flow goes to. */
INLINE struct remote *kept_remote(const struct scratch *w)
{
	__u32 slot = w->flow.slot;
	struct kept_flow *kept = bpf_map_lookup_elem(&flows, &slot);

	if (!kept)
		return NULL;
	KEEP_BOUNDS(kept); /* what follows stays behind the question */
	return &kept->remote;
}

INLINE bool is_kept_verdict(enum verdict result)
{
	return result == VERDICT_TO_PORT || result == VERDICT_ENCAP || result == VERDICT_VLAN_OUT ||
	       result == VERDICT_LEG_OUT;
}

/* Keeps what was decided about the packet, which got that verdict. Global: few packets come here. */
__noinline int keep_flow(const struct packet *p, const struct destination *d)
{
	struct scratch *w = get_scratch();
	struct kept_flow *kept;
	struct remote *remote;
	__u32 slot;

	if (!w || !p || !d)
		return 0;
	slot = w->flow.slot;
	kept = bpf_map_lookup_elem(&flows, &slot);
	if (!kept || d->once || d->tell || d->probes || d->is_reply)
		return 0;
	if (w->flow.near.translates && w->flow.far.zone) /* whose key is not the packet's */
		return 0;
	if (d->kind == TO_REMOTE) {
		remote = bpf_map_lookup_elem(&remotes, &d->remote);
		if (!remote)
			return 0;
		copy_words(&kept->remote, remote, sizeof(kept->remote));
	}
	kept->hash = w->flow.hash;
	kept->key = w->flow.key;
	kept->epoch = w->flow.epoch;
	kept->until = w->flow.until;
	kept->side = w->flow.side;
	kept->side_epoch = w->flow.side_epoch;
	kept->longest = w->flow.longest;
	kept->switch_id = p->switch_id;
	kept->source_counters = p->source_counters;
	kept->sender_counters = p->sender_counters;
	kept->flow_hash = p->flow_hash;
	kept->source_key = p->source_key;
	kept->claims_key = p->claims_key;
	kept->near = w->flow.near;
	kept->far = w->flow.far;
	copy_words(kept->destination, d, KEPT_DESTINATION);
	return 0;
}
