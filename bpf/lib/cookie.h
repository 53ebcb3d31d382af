/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cookies: what this host writes into a packet for a remote, and who shows it has received there. Anybody can write a
 * remote's address into a packet; nobody but the remote, and who sees its packets, knows the cookie. Nothing is
 * remembered: it follows from the address, the time, and what only this host knows.
 */
#pragma once

#include "outer.h"
#include "packet.h"

#define COOKIE_EPOCH_SHIFT 36 /* an epoch is 2^36 ns: 69 seconds */
#define COOKIE_WORDS 7        /* address, epoch, key */

/* Now, in epochs. */
INLINE __u32 cookie_epoch(void)
{
	return now_ns() >> COOKIE_EPOCH_SHIFT;
}

/* crates/model/src/cookie.rs makes the same. Global, for the stack's sake. */
__noinline int make_cookie(struct cookie *cookie, const struct addr *remote, __u32 epoch)
{
	struct settings *s = get_settings();
	__u32 words[COOKIE_WORDS];

	if (!cookie || !remote || !s)
		return -1;
	__builtin_memcpy(words, remote, sizeof(*remote));
	words[4] = epoch;
	words[5] = s->cookie_key[0];
	words[6] = s->cookie_key[1];
	cookie->half[0] = hash_words(words, COOKIE_WORDS, s->secret);
	cookie->half[1] = hash_words(words, COOKIE_WORDS, ~s->secret);
	return 0;
}

/* Whether it is what this host gives the remote in this epoch, or gave it in the last one. */
INLINE bool is_cookie_of(const struct cookie *cookie, const struct addr *remote)
{
	__u32 epoch = cookie_epoch();
	struct cookie given = {};

	for (int i = 0; i < 2; i++)
		if (make_cookie(&given, remote, epoch - i) == 0 && given.half[0] == cookie->half[0] &&
		    given.half[1] == cookie->half[1])
			return true;
	return false;
}
