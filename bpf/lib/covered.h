/* SPDX-License-Identifier: Apache-2.0 */
/* What nat cannot translate: something in the packet covers its addresses, and nat does not write it anew. For nat. */
#pragma once

#include "l4.h"

#define IPPROTO_VRRP 112
#define IPPROTO_MOBILITY 135
#define IPPROTO_HIP 139

#define MAX_IPV4_OPTIONS 40
#define IPV4_OPTION_END 0
#define IPV4_OPTION_NOTHING 1
#define IPV4_LOOSE_ROUTE 131
#define IPV4_STRICT_ROUTE 137

/* AH signs the addresses. Of the others it is a checksum; that of VRRP over IPv4 covers them by some senders only. */
INLINE bool covers_addresses(__u8 protocol)
{
	return protocol == IPPROTO_AH || protocol == IPPROTO_VRRP || protocol == IPPROTO_MOBILITY ||
	       protocol == IPPROTO_HIP;
}

/* By a source route, the last of its addresses is the destination that checksums cover (RFC 9293 section 3.1). */
INLINE bool has_source_route(struct __sk_buff *ctx, const struct packet *p, struct tracking *t)
{
	__u32 len = p->l4_offset - ETH_HLEN - sizeof(struct iphdr);
	__u8 *options = t->header.options;

	if (!len)
		return false;
	KEEP_BOUNDS(len);
	if (len > MAX_IPV4_OPTIONS)
		return false;
	KEEP_BOUNDS(len); /* in one comparison Linux 6.12 would not see both bounds */
	if (!len || bpf_skb_load_bytes(ctx, ETH_HLEN + sizeof(struct iphdr), options, len) < 0)
		return false;
	t->option_at = 0;
	for (int n = 0; n < MAX_IPV4_OPTIONS && t->option_at < len; n++) {
		__u32 at = t->option_at;
		__u8 kind = options[at & 63], option_len = options[(at + 1) & 63];

		if (kind == IPV4_LOOSE_ROUTE || kind == IPV4_STRICT_ROUTE)
			return true;
		if (kind == IPV4_OPTION_NOTHING)
			option_len = 1;
		else if (kind == IPV4_OPTION_END || option_len < 2)
			return false;
		t->option_at = at + option_len;
	}
	return false;
}

/* keeps_addresses() of what is not plain. Global: it is asked at several places. */
__noinline int special_keeps_addresses(struct __sk_buff *ctx, const struct packet *p)
{
	struct tracking *t = get_tracking();
	__u32 at;

	if (!p || !t)
		return true;
	if (is_hidden(p) || p->other_ends || covers_addresses(t->l4.protocol))
		return true;
	at = checksum_offset(t->l4.protocol, has_ipv4(p));
	if (at && p->fragment == FIRST_FRAGMENT &&
	    p->l4_offset + at + sizeof(__sum16) > ETH_HLEN + p->ip_len)
		return true;
	return has_ipv4(p) && has_source_route(ctx, p, t);
}

/*
 * Whether something covers an address of the packet that nat has read, and cannot change with it: then nobody takes
 * the packet. Of a first fragment the checksum may be in the next one.
 */
INLINE bool keeps_addresses(struct __sk_buff *ctx, const struct packet *p)
{
	return !is_plain_l4(p) && special_keeps_addresses(ctx, p);
}
