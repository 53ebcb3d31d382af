/* SPDX-License-Identifier: Apache-2.0 */
/* Internet checksum (RFC 1071) and the flow hash, in the form the stages need them. */
#pragma once

#include "bytes.h"

INLINE __u16 csum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

/* Sum of the ten 16-bit words of an IPv4 header without options: 0xffff when it is right. */
INLINE __u16 csum_ipv4_header(const void *header)
{
	const __u16 *words = header;
	__u32 sum = 0;

	for (int i = 0; i < 10; i++)
		sum += words[i];
	return csum_fold(sum);
}

/*
 * Flow hash: Bob Jenkins' lookup3 over ten little-endian words: source address (4), destination address (4), ports
 * (source in the low half, both in wire order), protocol. Ours and not bpf_get_hash_recalc(), which is not a function
 * of the flow: the same flow must leave with the same source port from every executor and after every restart.
 */
#define FLOW_WORDS 10

#define ROTL(value, by) (((value) << (by)) | ((value) >> (32 - (by))))

/* One line a round. */
/* clang-format off */
#define JHASH_MIX(a, b, c)                                                                           \
	do {                                                                                         \
		a -= c; a ^= ROTL(c, 4); c += b;                                                     \
		b -= a; b ^= ROTL(a, 6); a += c;                                                     \
		c -= b; c ^= ROTL(b, 8); b += a;                                                     \
		a -= c; a ^= ROTL(c, 16); c += b;                                                    \
		b -= a; b ^= ROTL(a, 19); a += c;                                                    \
		c -= b; c ^= ROTL(b, 4); b += a;                                                     \
	} while (0)

#define JHASH_FINAL(a, b, c)                                                                         \
	do {                                                                                         \
		c ^= b; c -= ROTL(b, 14);                                                            \
		a ^= c; a -= ROTL(c, 11);                                                            \
		b ^= a; b -= ROTL(a, 25);                                                            \
		c ^= b; c -= ROTL(b, 16);                                                            \
		a ^= c; a -= ROTL(c, 4);                                                             \
		b ^= a; b -= ROTL(a, 14);                                                            \
		c ^= b; c -= ROTL(b, 24);                                                            \
	} while (0)
/* clang-format on */

INLINE __u32 flow_hash(const __u32 words[FLOW_WORDS], __u32 seed)
{
	__u32 a = 0xdeadbeef + (FLOW_WORDS << 2) + seed, b = a, c = a;

	for (int i = 0; i < 9; i += 3) {
		a += words[i];
		b += words[i + 1];
		c += words[i + 2];
		JHASH_MIX(a, b, c);
	}
	a += words[9];
	JHASH_FINAL(a, b, c);
	return c;
}
