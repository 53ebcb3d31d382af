/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ECN and DSCP of the outer header (RFC 6040, RFC 2983): both ways. On encap the outer field is the
 * inner one (normal mode). Stage ecn, on decap, combines the two; between parse and learn.
 */
#pragma once

#include "parse.h"

#define ECN_MASK 3
#define ECN_NOT_ECT 0
#define ECN_ECT_1 1
#define ECN_ECT_0 2
#define ECN_CE 3

static __always_inline __u8 outer_tos(const struct settings *s, const struct packet *p)
{
	__u8 dscp = s->copy_dscp ? p->tos & ~ECN_MASK : s->dscp << 2;

	return dscp | (p->tos & ECN_MASK);
}

/* RFC 6040 section 4.2, figure 4. What is not IP has no such field. */
static __always_inline int ecn(struct packet *p, __u8 outer)
{
	p->ecn = p->tos & ECN_MASK;
	outer &= ECN_MASK;
	if (!p->l4_offset)
		return 0;
	if (outer == ECN_CE) {
		if (p->ecn == ECN_NOT_ECT)
			return DROP(ECN_CE);
		p->ecn = ECN_CE;
	} else if (outer == ECN_ECT_1 && p->ecn == ECN_ECT_0) {
		p->ecn = ECN_ECT_1;
	}
	return 0;
}

/*
 * Writes what stage ecn decided into the frame, which is at the start of the skb now. The bytes of an
 * IPv4 header add up to 0 with its checksum, before and after, so skb->csum stays right by itself.
 */
static __always_inline int store_ecn(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 tos = (p->tos & ~ECN_MASK) | p->ecn, old[2], new[2];
	long failed;

	if (p->ecn == (p->tos & ECN_MASK))
		return 0;
	if (bpf_skb_load_bytes(ctx, ETH_HLEN, old, sizeof(old)) < 0)
		return DROP(DECAP_FAILED);
	new[0] = old[0]; /* of IPv6 half of the DSCP, which stays */
	new[1] = tos;
	if (p->eth.h_proto == ETHERTYPE_IPV4) {
		failed = bpf_l3_csum_replace(ctx, ETH_HLEN + 10, *(__u16 *)old, *(__u16 *)new,
					     sizeof(__u16)) ||
			 bpf_skb_store_bytes(ctx, ETH_HLEN, new, sizeof(new), 0);
	} else {
		new[1] = tos << 4 | (old[1] & 0x0f);
		failed = bpf_skb_store_bytes(ctx, ETH_HLEN, new, sizeof(new), BPF_F_RECOMPUTE_CSUM);
	}
	return failed ? DROP(DECAP_FAILED) : 0;
}
