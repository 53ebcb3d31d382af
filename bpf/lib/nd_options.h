/* SPDX-License-Identifier: Apache-2.0 */
/* Options of neighbour discovery (RFC 4861 section 4.6). */
#pragma once

#include "ip.h"

#define ND_MAX_OPTIONS 16
#define ND_NO_OPTION 0x100 /* instead of a type */

struct nd_option {
	__u8 type;
	__u8 len; /* in units of 8 bytes */
	__u8 mac[ETH_ALEN];
};

/* Walks options, and looks for the link-layer address in those of one type. */
struct nd_option_walk {
	struct __sk_buff *ctx;
	__u32 at;
	__u32 end; /* 0: one is broken */
	__u32 type;
	__u32 found;
	struct mac mac;
};

/*
 * One of length 0 stays where it is, and one that runs past the end never gets there. Not load_bytes: Linux 6.18 has a bug
 * with what a callback copies from a packet.
 */
static long read_nd_option(__u32 number __attribute__((unused)), struct nd_option_walk *w)
{
	struct nd_option option;

	if (w->at == w->end)
		return 1;
	if (bpf_skb_load_bytes(w->ctx, w->at, &option, sizeof(option)) < 0 ||
	    (option.type == w->type &&
	     (option.len != 1 || (w->found && !same_mac(w->mac.bytes, option.mac))))) {
		w->end = 0;
		return 1;
	}
	if (option.type == w->type) {
		copy_mac(w->mac.bytes, option.mac);
		w->found = true;
	}
	w->at += option.len * 8;
	return 0;
}

enum nd_options { ND_OPTIONS_BROKEN, ND_OPTIONS_WITHOUT_MAC, ND_OPTIONS_WITH_MAC };

/* The options from `at` to `end` of the packet, and the link-layer address in those of a type. Global, for the stack's sake. */
__noinline enum nd_options read_nd_options(struct __sk_buff *ctx, __u32 at, __u32 end, __u32 type,
					   struct mac *mac)
{
	struct nd_option_walk w = { .ctx = ctx, .at = at, .end = end, .type = type };

	if (!mac)
		return ND_OPTIONS_BROKEN;
	bpf_loop(ND_MAX_OPTIONS, read_nd_option, &w, 0);
	if (w.at != w.end)
		return ND_OPTIONS_BROKEN;
	*mac = w.mac;
	return w.found ? ND_OPTIONS_WITH_MAC : ND_OPTIONS_WITHOUT_MAC;
}
