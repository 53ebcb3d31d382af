/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far an address travels: RFC 1812 section 5.3.7, RFC 4291 section 2.5 and RFC 6890. The blocks stand in
 * crates/model/src/special.rs.
 */
#pragma once

#include "ip.h"

enum special {
	SPECIAL_NOT = 0,      /* where routes lead */
	SPECIAL_UNLESS_NAMED, /* only by a route inside the same block */
	SPECIAL_NEVER,        /* over no router */
};

/* Of an address in the order of the host. */
INLINE enum special special_v4(__u32 a)
{
	if (a >= 0xe0000000 || a >> 24 == 0 || a >> 24 == 127)
		return SPECIAL_NEVER;
	if (a >> 16 == 0xa9fe || a >> 8 == 0xc00002 || a >> 8 == 0xc63364 || a >> 8 == 0xcb0071)
		return SPECIAL_UNLESS_NAMED;
	if (a >> 8 == 0xc00000 && (a & 0xff) >= 8 && (a & 0xff) != 9 && (a & 0xff) != 10)
		return SPECIAL_UNLESS_NAMED;
	return SPECIAL_NOT;
}

/* What may be forwarded of 2001::/23. */
INLINE bool is_exception_v6(__u32 a, __u32 b, __u32 c, __u32 d)
{
	switch (a) {
	case 0x20010000:
	case 0x20010003:
		return true;
	case 0x20010001:
		return !b && !c && d >= 1 && d <= 3;
	case 0x20010002:
		return b >> 16 == 0;
	case 0x20010004:
		return b >> 16 == 0x112;
	}
	return a >> 4 == 0x2001002 || a >> 4 == 0x2001003;
}

INLINE enum special special_v6(__u32 a, __u32 b, __u32 c, __u32 d)
{
	if (a >> 24 == 0xff || a >> 22 == 0xfe80 >> 6)
		return SPECIAL_NEVER;
	if (!a && !b && (!c || c == 0xffff))
		return SPECIAL_NEVER;
	if (a == 0x20010db8 || a >> 12 == 0x3fff0 || (a == 0x01000000 && b == 1))
		return SPECIAL_UNLESS_NAMED;
	if (a >> 9 == 0x20010000 >> 9 && !is_exception_v6(a, b, c, d))
		return SPECIAL_UNLESS_NAMED;
	return SPECIAL_NOT;
}

INLINE enum special special_of(const struct addr *addr, bool ipv4)
{
	const __u32 *a = (const __u32 *)addr;

	return ipv4 ? special_v4(bpf_ntohl(a[3])) :
		      special_v6(bpf_ntohl(a[0]), bpf_ntohl(a[1]), bpf_ntohl(a[2]), bpf_ntohl(a[3]));
}
