/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What BPF_PROG_TEST_RUN cannot do: it takes no device of our choice, no tag and no clock, no super-packet that the
 * helpers would grow, and does not say where a packet went. With test_mode set at load time these come from and go to
 * the map test_io; without, the verifier removes every trace of it.
 */
#pragma once

#include "bytes.h"
#include "maps.h"

const volatile __u8 test_mode = 0;

ARRAY(test_io, BPF_MAP_TYPE_ARRAY, struct test_io, 1);
GETTER(get_test_io, test_io)

INLINE __u64 now_ns(void)
{
	if (test_mode) {
		struct test_io *io = get_test_io();

		return io ? io->now : 0;
	}
	return bpf_ktime_get_ns();
}

/* The clock as of the last tick; and when it was read. */
struct coarse_clock {
	__u64 tick;
	__u64 now;
};

ARRAY(coarse_clock, BPF_MAP_TYPE_PERCPU_ARRAY, struct coarse_clock, 1);
GETTER(get_coarse_clock, coarse_clock)

/*
 * The same clock as of the last tick, where seconds matter. It is read once a tick and CPU: to ask which tick it is costs
 * no call (the verifier makes bpf_jiffies64() a load).
 */
INLINE __u64 coarse_now_ns(void)
{
	struct coarse_clock *clock = get_coarse_clock();
	__u64 tick;

	if (test_mode || !clock)
		return now_ns();
	tick = bpf_jiffies64();
	if (clock->tick != tick) {
		clock->now = bpf_ktime_get_coarse_ns();
		clock->tick = tick;
	}
	return clock->now;
}

/* A member of the context; in a test run the one of that name in test_io. The empty asm keeps the compiler
 * from moving the load of the context's member behind the branch, where it would become pointer arithmetic
 * on the context, which the verifier refuses. */
#define FROM_CONTEXT(function, member)                                                               \
	INLINE __u32 function(struct __sk_buff *ctx)                                                 \
	{                                                                                            \
		__u32 value = ctx->member;                                                           \
		asm volatile("" : "+r"(value));                                                      \
		if (test_mode) {                                                                     \
			struct test_io *io = get_test_io();                                          \
			return io ? io->member : 0;                                                  \
		}                                                                                    \
		return value;                                                                        \
	}

FROM_CONTEXT(device_of_hook, ifindex)
FROM_CONTEXT(mark_of_packet, mark)
FROM_CONTEXT(gso_size_of, gso_size)
FROM_CONTEXT(gso_segs_of, gso_segs)

/* In a test run, what became of the packet. */
#define REPORT(function, member)                                                                     \
	INLINE void function(__u32 value)                                                            \
	{                                                                                            \
		struct test_io *io = test_mode ? get_test_io() : NULL;                               \
                                                                                                     \
		if (io)                                                                              \
			io->member = value;                                                          \
	}

REPORT(report_verdict, verdict)
REPORT(report_device, out_ifindex) /* every redirect says where to */
