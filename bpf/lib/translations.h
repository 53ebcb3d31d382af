/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map translations: by its outside key a packet from outside finds its connection.
 *
 * Programs run on all CPUs at once. One word in each entry says whether somebody is at work with it: it is odd then.
 *
 *   who begins a translation    adds its entry, claimed, begins the connection, and then releases the entry
 *   who finds one left behind   claims it, and then has it as if he had added it
 *   who takes one away          forgets its connection, claims the entry, and deletes it if no connection is there
 *
 * So nobody takes an entry whose connection is just beginning, and never have two connections one outside key. Nobody
 * else deletes an entry: user space has a program do it (forget_as_asked()). So what a claimer finds by its key is what
 * he claimed. The kernel gives the memory of a deleted entry to the next new one at once: what counts is read again
 * under the claim.
 *
 * Who cannot claim the entry of a connection that he forgot leaves it: whoever has it looks again when he gives it back.
 * An entry is left without a connection only where two CPUs forget one connection at the same moment that a third
 * begins anew, or memory became another's. It is taken over when its outside end is wanted again, and `overlane
 * connections forget` takes it away.
 */
#pragma once

#include "l4.h"

/* What a new translation is found by from outside: its outside end in place of the local one. */
INLINE void set_outside_key(struct connection_key *outside, const struct connection_key *key,
			    const struct addr *addr, __be16 port)
{
	*outside = *key;
	outside->local = *addr;
	outside->local_port = port;
}

/* The same of one that is there. */
INLINE void outside_key_of(struct connection_key *outside, const struct connection_key *key,
			   const struct connection *c)
{
	*outside = *key;
	outside->local = c->outside;
	outside->local_port = c->outside_port;
	outside->peer_port = c->peer_outside_port;
}

/* Whether a connection with the peer's address of a key has the rest of it outside. */
INLINE bool is_outside(const struct connection *c, const struct connection_key *outside)
{
	return same_addr(&c->outside, &outside->local) && c->outside_port == outside->local_port &&
	       c->peer_outside_port == outside->peer_port;
}

/* The same of a connection with any key. */
INLINE bool is_its_outside(const struct connection_key *inside, const struct connection *c,
			   const struct connection_key *outside)
{
	return is_outside(c, outside) && same_addr(&inside->peer, &outside->peer) &&
	       inside->switch_id == outside->switch_id && inside->protocol == outside->protocol &&
	       inside->family == outside->family;
}

/* Opened untranslated: its local end is the same outside. Of ICMP the identifier may be another. */
INLINE bool is_untranslated(const struct connection *c, const struct connection_key *inside)
{
	return same_addr(&c->outside, &inside->local) &&
	       (c->outside_port == inside->local_port ||
		is_icmp(inside->protocol, inside->family == 4));
}

INLINE void unclaim(struct translation_entry *entry)
{
	__sync_fetch_and_add(&entry->claim, 1);
}

/* The entry with this key, which is the caller's now; NULL: there is none, or somebody else has it. */
INLINE struct translation_entry *claim_translation(const struct connection_key *outside)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, outside);
	__u32 seen;

	if (!entry)
		return NULL;
	seen = *(volatile __u32 *)&entry->claim;
	if (seen & 1 || __sync_val_compare_and_swap(&entry->claim, seen, seen + 1) != seen)
		return NULL;
	if (bpf_map_lookup_elem(&translations, outside) == entry)
		return entry;
	unclaim(entry); /* another key has its memory now */
	return NULL;
}

/* Of an entry that the caller has claimed: its connection is there, or was a moment ago. */
INLINE void release_translation(const struct connection_key *outside)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, outside);

	if (entry)
		unclaim(entry);
}

/* Whether the connection that an entry names is there, and has its outside end. */
INLINE bool has_connection(const struct translation_entry *entry,
			   const struct connection_key *outside)
{
	const struct connection *c = bpf_map_lookup_elem(&connections, &entry->inside);

	return c && is_its_outside(&entry->inside, c, outside);
}

#define FORGET_ROUNDS 4 /* in each, somebody else's connection came and went */

/* Takes an entry away whose connection is gone. */
INLINE void forget_translation(const struct connection_key *outside)
{
	struct translation_entry *entry;

	for (int round = 0; round < FORGET_ROUNDS; round++) {
		entry = claim_translation(outside);
		if (!entry)
			return;
		if (!has_connection(entry, outside)) {
			bpf_map_delete_elem(&translations, outside);
			return;
		}
		unclaim(entry);
		if (has_connection(entry, outside))
			return;
	}
}

/* A claimed entry stays what it was. Who forgot its connection meanwhile could not claim it. */
INLINE void give_back(struct translation_entry *entry, const struct connection_key *outside)
{
	unclaim(entry);
	if (!has_connection(entry, outside))
		forget_translation(outside);
}

/* The packet gets the other side's address and port instead of its source or destination. */
INLINE void translate(struct destination *d, enum translated_end end, const struct addr *addr,
		      __be16 port)
{
	d->translation.end = end;
	d->translation.addr = *addr;
	d->translation.port = port;
}

/* And the peer's port instead of the one on its own side. */
INLINE void translate_peer(struct destination *d, __be16 from, __be16 to)
{
	d->translation.moves_peer = from != to;
	d->translation.peer_port = to;
}

/* Out by the leg. What was opened untranslated has the same end on both sides. */
INLINE void translate_source(struct destination *d, const struct connection_key *inside,
			     const struct connection *c)
{
	if (is_outside(c, inside))
		return;
	translate(d, TRANSLATE_SOURCE, &c->outside, c->outside_port);
	translate_peer(d, inside->peer_port, c->peer_outside_port);
}
