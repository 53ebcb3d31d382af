/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest outer IP packet that gets to a remote: the uplink's MTU, or less where a router on the way said so
 * (stage/path_mtu.h), or probes found it (`overlane mtu --watch`). What was said counts for ten minutes (RFC 1191
 * section 6.3, RFC 8201 section 4).
 */
#pragma once

#include "ip.h"

#define PATH_MTU_AGE 600
#define LEAST_MTU_V4 576  /* inside a tunnel: no error of the underlay makes it less */
#define LEAST_MTU_V6 1280 /* RFC 8200 section 5 */

INLINE __u32 now_seconds(void)
{
	return now_ns() / SECOND;
}

/* By the number of the remote's counters; NULL: nobody has said anything of late. */
INLINE struct path_mtu *known_path_mtu(__u32 number)
{
	struct path_mtu *known = bpf_map_lookup_elem(&path_mtus, &number);

	return known && known->mtu && now_seconds() < known->until ? known : NULL;
}

/* For a packet that has so many bytes of outer headers before its IP header. */
INLINE __u32 path_mtu_of(const struct settings *s, __u32 number, const struct packet *p,
			 __u32 headers)
{
	__u32 least = headers + (p->l4_offset && has_ipv4(p) ? LEAST_MTU_V4 : LEAST_MTU_V6);
	const struct path_mtu *known = known_path_mtu(number);
	__u32 mtu = known ? known->mtu : 0;

	if (!mtu || mtu >= s->underlay_mtu || least >= s->underlay_mtu)
		return s->underlay_mtu;
	return mtu > least ? mtu : least;
}
