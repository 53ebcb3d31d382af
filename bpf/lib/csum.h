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

#define CSUM_CHUNK 512 /* of bpf_csum_diff() */

/* Goes on with a message, behind which there are zeros. */
INLINE __u32 message_sum(__u8 *message, __u32 len, __u32 sum)
{
	for (__u32 i = 0; i < 3; i++) {
		__u32 n = len - i * CSUM_CHUNK;

		if (len <= i * CSUM_CHUNK)
			break;
		if (n > CSUM_CHUNK)
			n = CSUM_CHUNK;
		n = (n + 3) & ~3u;
		sum = bpf_csum_diff(NULL, 0, (void *)(message + i * CSUM_CHUNK), n, sum);
	}
	return sum;
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

/* lookup3's `hashword` of a constant number of words. */
INLINE __u32 hash_words(const __u32 *words, __u32 count, __u32 seed)
{
	__u32 a = 0xdeadbeef + (count << 2) + seed, b = a, c = a;
	__u32 i = 0;

	for (; count - i > 3; i += 3) {
		a += words[i];
		b += words[i + 1];
		c += words[i + 2];
		JHASH_MIX(a, b, c);
	}
	a += words[i];
	if (count - i > 1)
		b += words[i + 1];
	if (count - i > 2)
		c += words[i + 2];
	JHASH_FINAL(a, b, c);
	return c;
}

INLINE __u32 flow_hash(const __u32 words[FLOW_WORDS], __u32 seed)
{
	return hash_words(words, FLOW_WORDS, seed);
}

/* Odd numbers that scatter 64-bit words: 2^64 by the golden ratio, and a prime of xxHash. */
#define WORD_FACTOR 0x9e3779b97f4a7c15ull
#define WORD_FACTOR_2 0xc2b2ae3d27d4eb4full

/* Another hash of a hash: what was chosen by one says nothing of what is chosen by the other (MurmurHash3's end). */
INLINE __u32 mix_hash(__u32 hash)
{
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}
