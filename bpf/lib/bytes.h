/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an skb; MAC and IP addresses. The maps hold IPv4 as ::ffff:a.b.c.d. */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi_router.h"

#define INLINE static __always_inline

/*
 * The value stays in one register, and the compiler forgets what it knows of it. The verifier knows only the
 * bounds of the register that was compared, and the compiler may compare another one: it makes one comparison
 * of the two in `!len || len > 40`, of len - 1, from which the verifier of Linux 6.12 learns nothing about len.
 * So this stands before a comparison that the verifier needs, and between two of them.
 */
#define KEEP_BOUNDS(value) asm volatile("" : "+r"(value))

/*
 * The value stays what it is, and the verifier forgets its bounds: it knows nothing of a number whose bytes were
 * swapped. In a loop it then walks one round once, not once for each value that the rounds before may have left.
 */
#define FORGET_BOUNDS(value) asm volatile("%0 = be64 %0\n\t%0 = be64 %0" : "+r"(value))

/*
 * A copy in words, `len` a constant. The compiler copies byte by byte what it does not know to be aligned; the
 * machines we run on need no alignment. Not from or to the stack, where the verifier wants it.
 */
INLINE void copy_words(void *to, const void *from, __u32 len)
{
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), len);
}

/*
 * Bytes of the packet, `len` a constant; negative: it is shorter. Headers are nearly always in the linear part, where
 * reading them is free of the helper's call and its copy.
 */
#define MAX_DIRECT 1024
INLINE long load_bytes(struct __sk_buff *ctx, __u32 at, void *to, __u32 len)
{
	void *end = (void *)(long)ctx->data_end;
	void *from = (void *)(long)ctx->data;

	KEEP_BOUNDS(at);
	if (at <= MAX_DIRECT) {
		from += at;
		KEEP_BOUNDS(from);
		if (from + len <= end) {
			__builtin_memcpy(to, __builtin_assume_aligned(from, 8), len);
			return 0;
		}
	}
	return bpf_skb_load_bytes(ctx, at, to, len);
}

/*
 * Writes the front of a packet that was just made writable, `len` a constant. False: it is not in the linear part, and a
 * helper has to.
 */
INLINE bool put_front(struct __sk_buff *ctx, const void *from, __u32 len)
{
	void *end = (void *)(long)ctx->data_end;
	void *to = (void *)(long)ctx->data;

	if (to + len > end)
		return false;
	copy_words(to, from, len);
	return true;
}

INLINE bool is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

INLINE bool is_broadcast(const __u8 *mac)
{
	return mac[0] == 0xff && mac[1] == 0xff && mac[2] == 0xff && mac[3] == 0xff &&
	       mac[4] == 0xff && mac[5] == 0xff;
}

/* MACs are at even addresses everywhere. */
INLINE bool same_mac(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const __u16 *)a, *y = (const __u16 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]));
}

INLINE void copy_mac(__u8 *to, const __u8 *from)
{
	__builtin_memcpy(__builtin_assume_aligned(to, 2), __builtin_assume_aligned(from, 2),
			 ETH_ALEN);
}

INLINE bool same_port(const struct port_id *a, const struct port_id *b)
{
	return a->ifindex == b->ifindex && a->vlan == b->vlan;
}

INLINE bool same_addr(const struct addr *a, const struct addr *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]));
}

INLINE bool is_zero(const struct addr *addr)
{
	const __u64 *words = (const __u64 *)addr;

	return !(words[0] | words[1]);
}

/* Of a mapped one. */
INLINE __be32 v4_of(const struct addr *a)
{
	return *(const __be32 *)&a->bytes[12];
}

INLINE struct addr mapped_v4(__be32 v4)
{
	struct addr a = { .bytes = { [10] = 0xff, [11] = 0xff } };

	__builtin_memcpy(&a.bytes[12], &v4, sizeof(v4));
	return a;
}

/* As an IPv6 address it is nobody's. */
INLINE bool is_mapped_v4(const struct addr *a)
{
	const __u32 *words = (const __u32 *)a;

	return !(words[0] | words[1] | (words[2] ^ bpf_htonl(0xffff)));
}

/* Global, for the stack's sake. */
__noinline int is_made_from(const struct addr *addr, const struct mac *of)
{
	const __u32 *words = (const __u32 *)addr;
	const __u8 *id, *mac;

	if (!addr || !of)
		return false;
	id = addr->bytes + 8;
	mac = of->bytes;
	return !((words[0] ^ bpf_htonl(0xfe800000)) | words[1] | (id[0] ^ mac[0] ^ 2) |
		 (id[1] ^ mac[1]) | (id[2] ^ mac[2]) | (id[3] ^ 0xff) | (id[4] ^ 0xfe) |
		 (id[5] ^ mac[3]) | (id[6] ^ mac[4]) | (id[7] ^ mac[5]));
}

/* fe80::/64 and the modified EUI-64 of a MAC (RFC 4291 appendix A). */
INLINE bool is_link_local_of(const __u8 *mac, const void *addr)
{
	return is_made_from(addr, (const struct mac *)mac);
}
