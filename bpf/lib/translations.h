/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map translations: by its outside key a packet from outside finds its connection.
 *
 * Programs run on all CPUs at once. One word in each entry says whether somebody is at work with it: it is odd then.
 *
 *   who begins a translation    adds its entry, claimed, begins the connection, and then releases the entry
 *   who finds one left behind   claims it, and then has it as if he had added it
 *   who takes one away          claims it, and deletes it
 *
 * So nobody takes an entry whose connection is just beginning, and never have two connections one outside key. The
 * kernel gives the memory of a deleted entry to the next new one at once: what counts is read again under the claim.
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

INLINE bool same_key(const struct connection_key *a, const struct connection_key *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differs = 0;

	for (__u32 i = 0; i < sizeof(*a) / sizeof(*x); i++)
		differs |= x[i] ^ y[i];
	return !differs;
}

/* Whether a connection with the peer's address of a key has the rest of it outside. */
INLINE bool is_outside(const struct connection *c, const struct connection_key *outside)
{
	return same_addr(&c->outside, &outside->local) && c->outside_port == outside->local_port &&
	       c->peer_outside_port == outside->peer_port;
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

/* Of an entry that the caller has claimed: its connection is there. */
INLINE void release_translation(const struct connection_key *outside)
{
	struct translation_entry *entry = bpf_map_lookup_elem(&translations, outside);

	if (entry)
		unclaim(entry);
}

/* Unless another connection has taken it over. */
INLINE void forget_translation(const struct connection_key *outside,
			       const struct connection_key *inside)
{
	struct translation_entry *entry = claim_translation(outside);

	if (!entry)
		return;
	if (same_key(&entry->inside, inside))
		bpf_map_delete_elem(&translations, outside);
	else
		unclaim(entry);
}
