/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage ecn: combines the ECN fields of the outer and the inner header (RFC 6040); decap writes the result. The other
 * way, encap copies the inner one (normal mode).
 */
#pragma once

#include "lib/ip.h"

#define ECN_NOT_ECT 0
#define ECN_ECT_1 1
#define ECN_ECT_0 2
#define ECN_CE 3

/* RFC 6040 section 4.2, figure 4. What is not IP has no such field. */
INLINE enum verdict ecn(struct packet *p, __u8 outer)
{
	p->ecn = p->tos & ECN_MASK;
	outer &= ECN_MASK;
	if (!p->l4_offset)
		return GO_ON;
	if (outer == ECN_CE) {
		if (p->ecn == ECN_NOT_ECT)
			return DROP(ECN_CE);
		p->ecn = ECN_CE;
	} else if (outer == ECN_ECT_1 && p->ecn == ECN_ECT_0) {
		p->ecn = ECN_ECT_1;
	}
	return GO_ON;
}
