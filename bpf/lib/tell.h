/* SPDX-License-Identifier: Apache-2.0 */
/* What the sender of a packet is told, destination.tell. leave/reply.h says how. */
#pragma once

#include "packet.h"

/* An ICMP error by its types and codes over IPv4 and IPv6, or one of the numbers below, which no error has. */
#define ICMP_ERROR(type, code, type6, code6) ((type) << 24 | (code) << 16 | (type6) << 8 | (code6))

enum tell {
	TELL_NOTHING = 0,
	TELL_RESET = 1,     /* TCP */
	TELL_ECHO = 2,      /* the echo reply */
	TELL_OWNER = 3,     /* whose address it asks for, by ARP or ND */
	TELL_ABILITIES = 4, /* to a greeting, or to its answer */
	TELL_ASK = 5,       /* nothing: the packet becomes the question for the next hop's MAC */
	TELL_SIZE = 6,      /* to a probe of a size */
	TELL_NO_ROUTE = ICMP_ERROR(3, 0, 1, 0),
	TELL_NO_NEIGHBOUR = ICMP_ERROR(3, 1, 1, 3),
	TELL_NO_PORT = ICMP_ERROR(3, 3, 1, 4),
	TELL_TOO_BIG = ICMP_ERROR(3, 4, 2, 0),
	TELL_PROHIBITED = ICMP_ERROR(3, 13, 1, 1),
	TELL_TTL_EXCEEDED = ICMP_ERROR(11, 0, 3, 0),
};

INLINE enum verdict refuse(struct destination *d, enum tell tell, enum verdict reason)
{
	d->tell = tell;
	return reason;
}

/* A router says so; and a switch, of what came from its ports. mtu: of the largest IP packet that would pass. */
INLINE enum verdict too_big(struct destination *d, __u32 mtu)
{
	if (d->router || d->tells_too_big) {
		d->tell = TELL_TOO_BIG;
		d->tell_rest = mtu < 0xffff ? mtu : 0xffff;
	}
	return DROP(PKT_TOO_BIG);
}
