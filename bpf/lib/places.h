/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of connections: a host has so many, and each connection has one. Who is found in a place that has expired
 * gives it up, and so no timer has to look for old connections.
 *
 * A port or router has a share: the places it may use. They lie scattered over all, elsewhere for each, so that whoever
 * fills its share takes a little of everybody's and not all of somebody's.
 *
 *   hash of the connection, attempt ---> number in the share, 0.. ---> place
 *                             zone (whose it is) ----------------------^
 *
 * One word in each place says whether somebody is writing there: it is odd then, and it only grows. Who changes it has
 * the place, if it is still what he read.
 */
#pragma once

#include "csum.h"
#include "tracking.h"

#define PLACE_PROBES 72 /* nine of ten places taken: one new connection in 2000 finds none free */

#define PLACE_ROUNDS 4 /* where another CPU was first at the place of the one that makes way */

#define LEAST_DIVIDED_SHARE 1024 /* a quarter of less is too little for a guest */

#define NO_VICTIM 0
#define VICTIM_FOREIGN 1
#define VICTIM_OWN 2

/* Scatters the share of a zone over all places: each number has another place. */
INLINE __u32 place_of(__u32 number, const struct place_search *search)
{
	__u32 mask = search->places - 1, zone = search->zone, x = number;

	x = x * 0x9e3779b1 & mask;
	x ^= x >> 10;
	x = x * (zone | 1) & mask;
	x ^= x >> 10;
	return (x + (zone >> 12)) & mask;
}

/*
 * A number in a share of so many, from a hash. In a router's share every inside address has a quarter: of each four
 * numbers in a row one, which one depends on the address. So one guest does not fill the share of all.
 */
INLINE __u32 number_in_share(__u32 hash, const struct place_search *search)
{
	__u32 four;

	if (!search->inside)
		return ((__u64)hash * search->share) >> 32;
	four = ((__u64)hash * (search->share / 4)) >> 32;
	return four * 4 + (mix_hash(four ^ search->inside) & 3);
}

/* What a place for tracking.key is looked for with. Global, as the steps below, for the stack's sake. */
__noinline int begin_search(void)
{
	struct settings *s = get_settings();
	struct tracking *t = get_tracking();
	struct place_search *search;

	if (!s || !t)
		return false;
	search = &t->search;
	search->hash = hash_words((const __u32 *)&t->key, sizeof(t->key) / sizeof(__u32), s->secret);
	search->zone = mix_hash(mix_hash(s->secret ^ t->key.switch_id) ^ t->key.key);
	search->places = s->connection_places;
	search->share = t->share < search->places ? t->share : search->places;
	search->inside = 0;
	if (t->key.switch_id & ZONE_ROUTER && search->share >= LEAST_DIVIDED_SHARE)
		search->inside = 1 | hash_words((const __u32 *)&t->key.local, 4, s->secret);
	search->victim = NO_VICTIM;
	return search->share != 0;
}

INLINE bool claim(struct connection_place *place, __u32 seen)
{
	return __sync_val_compare_and_swap(&place->claim, seen, seen + 1) == seen;
}

INLINE void release(struct connection_place *place)
{
	__sync_fetch_and_add(&place->claim, 1);
}

/* The connection in a place whose key was copied; NULL: it is gone, or began again elsewhere. */
INLINE struct connection *holder_of(const struct connection_key *key, __u32 place)
{
	struct connection *c = key->switch_id ? bpf_map_lookup_elem(&connections, key) : NULL;

	return c && c->place == place ? c : NULL;
}

/* It is opening, over, or a question with its answer: whoever wants to can have as many of these as he likes. */
INLINE bool makes_way(const struct connection_key *key, const struct connection *c)
{
	if (key->protocol == IPPROTO_TCP)
		return c->state == CONNECTION_OPENING || is_over(c);
	return is_icmp(key->protocol, key->family == 4) || !(c->flags & CONNECTION_ASSURED);
}

/* A connection of the same zone makes way before one of another, and an older one before a younger one. */
INLINE void consider_victim(struct tracking *t, const struct connection *c, __u32 place, __u32 seen)
{
	struct place_search *search = &t->search;
	bool own = search->holder.switch_id == t->key.switch_id && search->holder.key == t->key.key;
	__u32 kind = own ? VICTIM_OWN : VICTIM_FOREIGN;

	if (!makes_way(&search->holder, c) || kind < search->victim ||
	    (kind == search->victim && c->seen >= search->victim_seen))
		return;
	search->victim = kind;
	search->victim_seen = c->seen;
	search->victim_place = place;
	search->victim_claim = seen;
}

/* Whether a place is free, and then ours. May its holder make way, if not? */
INLINE bool take_if_free(struct tracking *t, __u32 place, bool considers)
{
	struct connection_place *at = bpf_map_lookup_elem(&connection_places, &place);
	struct place_search *search = &t->search;
	struct connection *c;
	__u32 seen;

	if (!at)
		return false;
	seen = *(volatile __u32 *)&at->claim;
	if (seen & 1)
		return false;
	search->holder = at->key;
	search->place = place;
	c = holder_of(&search->holder, place);
	if (c && !is_expired(c, t->now)) {
		if (considers)
			consider_victim(t, c, place, seen);
		return false;
	}
	if (!c)
		search->holder.switch_id = 0; /* nobody */
	return claim(at, seen);
}

/* One attempt: whether the place is free, and then ours. */
__noinline int look_at_place(__u32 attempt)
{
	struct tracking *t = get_tracking();
	__u32 number;

	if (!t)
		return false;
	number = number_in_share(mix_hash(t->search.hash + attempt * 0x9e3779b9), &t->search);
	return take_if_free(t, place_of(number, &t->search), true);
}

/* Where no place is free: whether that of the connection that makes way is ours now, unless another CPU was first. */
__noinline int evict(void)
{
	struct tracking *t = get_tracking();
	struct place_search *search;
	struct connection_place *at;
	struct connection *c;

	if (!t || !t->search.victim)
		return false;
	search = &t->search;
	search->place = search->victim_place;
	at = bpf_map_lookup_elem(&connection_places, &search->place);
	if (!at || !claim(at, search->victim_claim))
		return false;
	search->holder = at->key;
	c = holder_of(&search->holder, search->place);
	if (!c || makes_way(&search->holder, c))
		return true;
	release(at);
	return false;
}

/* Who had the place that was claimed is forgotten. */
INLINE void forget_holder(struct tracking *t)
{
	struct connection *c = holder_of(&t->search.holder, t->search.place);

	if (c)
		forget_connection(&t->search.holder, c);
}

/*
 * A place for tracking.key, in search.place: claimed, so the caller writes the key and releases it. in_place: the one that
 * tracking.fresh names comes first. NULL: none is free
 * among those that were looked at, and no connection there makes way.
 */
INLINE struct connection_place *take_place(struct tracking *t, bool in_place)
{
	bool found = in_place && take_if_free(t, t->fresh.place, false);

	for (int round = 0; round < PLACE_ROUNDS && !found; round++) {
		if (!begin_search())
			return NULL;
		for (__u32 attempt = 0; attempt < PLACE_PROBES && !found; attempt++)
			found = look_at_place(attempt);
		if (!found && !t->search.victim)
			return NULL;
		found = found || evict();
	}
	if (!found)
		return NULL;
	forget_holder(t);
	return bpf_map_lookup_elem(&connection_places, &t->search.place);
}
