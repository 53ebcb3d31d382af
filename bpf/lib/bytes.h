/* SPDX-License-Identifier: Apache-2.0 */
/* Reading bytes of an skb. */
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/*
 * The value stays in one register, and the compiler forgets what it knows of it. The verifier knows only the
 * bounds of the register that was compared, and the compiler may compare another one: it makes one comparison
 * of the two in `!len || len > 40`, of len - 1, from which the verifier of Linux 6.12 learns nothing about len.
 * So this stands before a comparison that the verifier needs, and between two of them.
 */
#define KEEP_BOUNDS(value) asm volatile("" : "+r"(value))

/*
 * A copy in words, `len` a constant. The compiler copies byte by byte what it does not know to be aligned; the machines
 * we run on need no alignment. Not from or to the stack, where the verifier wants it.
 */
static __always_inline void copy_words(void *to, const void *from, __u32 len)
{
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), len);
}

/*
 * Bytes of the packet, `len` a constant; negative: it is shorter. Headers are nearly always in the linear part,
 * where reading them is free of the helper's call and its copy.
 */
#define MAX_DIRECT 1024
static __always_inline long load_bytes(struct __sk_buff *ctx, __u32 at, void *to, __u32 len)
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
