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

#include "connection.h"
#include "csum.h"

/* Fewer only in tests, which want to see them full: a power of two. */
const volatile __u32 connection_places_count = MAX_CONNECTIONS;

#define PLACE_PROBES 72 /* nine of ten places taken: one new connection in 2000 finds none free */

#define NO_VICTIM 0
#define VICTIM_FOREIGN 1
#define VICTIM_OWN 2

/* Scatters the share of a zone over all places: each number has another place. */
INLINE __u32 place_of(__u32 number, __u32 zone)
{
	__u32 mask = connection_places_count - 1, x = number;

	x = x * 0x9e3779b1 & mask;
	x ^= x >> 10;
	x = x * (zone | 1) & mask;
	x ^= x >> 10;
	return (x + (zone >> 12)) & mask;
}

/* What tracking.key is looked for with. */
INLINE void begin_search(struct tracking *t, const struct settings *s)
{
	const struct connection_key *key = &t->key;
	struct place_search *search = &t->search;

	search->hash = hash_words((const __u32 *)key, sizeof(*key) / sizeof(__u32), s->secret);
	search->zone = mix_hash(mix_hash(s->secret ^ key->switch_id) ^ key->key);
	search->share = t->share < connection_places_count ? t->share : connection_places_count;
	search->victim = NO_VICTIM;
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

/* A connection that is opening makes way before one of another zone, and an older one before a younger one. */
INLINE void consider_victim(struct tracking *t, const struct connection *c, __u32 place, __u32 seen)
{
	struct place_search *search = &t->search;
	bool own = search->holder.switch_id == t->key.switch_id && search->holder.key == t->key.key;
	__u32 kind = own ? VICTIM_OWN : VICTIM_FOREIGN;

	if (c->state != CONNECTION_OPENING || kind < search->victim ||
	    (kind == search->victim && c->seen >= search->victim_seen))
		return;
	search->victim = kind;
	search->victim_seen = c->seen;
	search->victim_place = place;
	search->victim_claim = seen;
}

/* One attempt: the place, claimed, if it is free. */
INLINE struct connection_place *look_at_place(struct tracking *t, __u32 attempt)
{
	struct place_search *search = &t->search;
	struct connection_place *at;
	__u32 number, place, seen;
	struct connection *c;

	number = ((__u64)mix_hash(search->hash + attempt * 0x9e3779b9) * search->share) >> 32;
	place = place_of(number, search->zone);
	at = bpf_map_lookup_elem(&connection_places, &place);
	if (!at)
		return NULL;
	seen = *(volatile __u32 *)&at->claim;
	if (seen & 1)
		return NULL;
	search->holder = at->key;
	c = holder_of(&search->holder, place);
	if (c && !is_expired(&search->holder, c, t->now)) {
		consider_victim(t, c, place, seen);
		return NULL;
	}
	if (!claim(at, seen))
		return NULL;
	if (c)
		forget_connection(&search->holder, c);
	search->place = place;
	return at;
}

/* The place of the connection that makes way, which is forgotten; NULL: another CPU was there first. */
INLINE struct connection_place *evict(struct place_search *search)
{
	__u32 place = search->victim_place;
	struct connection_place *at = bpf_map_lookup_elem(&connection_places, &place);
	struct connection *c;

	if (!at || !claim(at, search->victim_claim))
		return NULL;
	search->holder = at->key;
	c = holder_of(&search->holder, place);
	if (c && c->state != CONNECTION_OPENING) {
		release(at);
		return NULL;
	}
	if (c)
		forget_connection(&search->holder, c);
	search->place = place;
	return at;
}

/*
 * A place for tracking.key, in search.place: claimed, so the caller writes the key and releases it. NULL: none is free
 * among those that were looked at, and no connection there makes way. A loop, because nothing more may be called so
 * deep.
 */
INLINE struct connection_place *take_place(struct tracking *t)
{
	struct settings *s = get_settings();
	struct connection_place *at;

	if (!s || !t->share)
		return NULL;
	begin_search(t, s);
	for (__u32 attempt = 0; attempt < PLACE_PROBES; attempt++) {
		at = look_at_place(t, attempt);
		if (at)
			return at;
	}
	return t->search.victim ? evict(&t->search) : NULL;
}
