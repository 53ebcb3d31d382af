/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greetings: hosts tell each other what they can take. A tunnel packet with VNI 0, which no data ever has,
 * and in it
 *
 *   | Ethernet: to 01:80:c2:00:00:0f, type 0x88b5 (local experiments) | "OVL" 1 | kind | abilities | 0 0 |
 *
 * `apply` sends one of kind ask to each remote; it is answered on the spot. A peer that knows none of this
 * drops it: no bridge forwards this group address. Such a peer gets nothing that needs an ability.
 */
#pragma once

#include <linux/if_ether.h>

#define GREETING_TYPE bpf_htons(0x88b5)
#define GREETING_MAGIC bpf_htonl(0x4f564c01) /* "OVL", version 1 */
#define GREETING_ASK 1
#define GREETING_ANSWER 2

struct greeting {
	struct ethhdr eth;
	__be32 magic;
	__u8 kind;
	__u8 abilities; /* ABILITY_* */
	__u8 pad[2];
} __attribute__((packed));
