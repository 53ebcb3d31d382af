/* SPDX-License-Identifier: Apache-2.0 */
/* MAC and IP addresses. The maps hold IPv4 as ::ffff:a.b.c.d. */
#pragma once

#include <linux/if_ether.h>
#include <stdbool.h>

#include "abi.h"

static __always_inline bool is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

static __always_inline bool same_mac(const __u8 *a, const __u8 *b)
{
	__u8 difference = 0;

	for (int i = 0; i < ETH_ALEN; i++)
		difference |= a[i] ^ b[i];
	return !difference;
}

static __always_inline bool same_port(const struct port_id *a, const struct port_id *b)
{
	return a->ifindex == b->ifindex && a->vlan == b->vlan;
}

static __always_inline bool same_addr(const struct addr *a, const struct addr *b)
{
	return !__builtin_memcmp(a, b, sizeof(*a));
}

static __always_inline bool is_zero(const struct addr *addr)
{
	const __u64 *words = (const __u64 *)addr;

	return !(words[0] | words[1]);
}

/* Of a mapped one. */
static __always_inline __be32 v4_of(const struct addr *a)
{
	return *(const __be32 *)&a->bytes[12];
}

static __always_inline struct addr mapped_v4(__be32 v4)
{
	struct addr a = { .bytes = { [10] = 0xff, [11] = 0xff } };

	__builtin_memcpy(&a.bytes[12], &v4, sizeof(v4));
	return a;
}

/* As an IPv6 address it is nobody's. */
static __always_inline bool is_mapped_v4(const struct addr *a)
{
	const struct addr prefix = { .bytes = { [10] = 0xff, [11] = 0xff } };

	return !__builtin_memcmp(a, &prefix, 12);
}

/* fe80::/64 and the modified EUI-64 of a MAC (RFC 4291 appendix A). */
static __always_inline bool is_link_local_of(const __u8 *mac, const void *addr)
{
	struct addr own = { .bytes = { 0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe,
				       mac[3], mac[4], mac[5] } };

	return !__builtin_memcmp(&own, addr, sizeof(own));
}
