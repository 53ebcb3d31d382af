/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage decap: removes the outer header, leaving the inner frame as if it had arrived plain.
 *
 *   | Eth | outer IP UDP tunnel inner-Eth | payload      the middle goes, the inner Ethernet header
 *     14    <------- p->offset ---------->               is written over the outer one
 * Once it is known that the frame goes somewhere; what follows works on a plain frame.
 */
#pragma once

#include "lib/ip.h"

/* bpf_skb_adjust_room() leaves at least an IPv4 header's length behind the Ethernet header. */
#define DECAP_MIN_PAYLOAD 20

/*
 * A frame that is shorter still, `missing` bytes: as many of the outer header are left, and what follows them goes to
 * the front, with zeros behind it. On a virtual wire the kernel's mark of a tunnel keeps change_tail from doing this.
 */
INLINE enum verdict pad_frame(struct __sk_buff *ctx, __u32 missing)
{
	struct scratch *w = get_scratch();

	KEEP_BOUNDS(missing);
	if (!w || missing > DECAP_MIN_PAYLOAD)
		return DROP(DECAP_FAILED);
	__builtin_memset(w->bytes + DECAP_MIN_PAYLOAD, 0, DECAP_MIN_PAYLOAD);
	if (bpf_skb_load_bytes(ctx, ETH_HLEN, w->bytes, DECAP_MIN_PAYLOAD) < 0 ||
	    bpf_skb_store_bytes(ctx, ETH_HLEN, w->bytes + missing, DECAP_MIN_PAYLOAD,
				BPF_F_RECOMPUTE_CSUM) < 0)
		return DROP(DECAP_FAILED);
	return GO_ON;
}

/*
 * Writes what stage ecn decided into the frame, which is at the start of the skb now. The bytes of an IPv4 header add
 * up to 0 with its checksum, before and after, so skb->csum stays right by itself.
 */
INLINE enum verdict store_ecn(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 tos = (p->tos & ~ECN_MASK) | p->ecn, old[2], new[2];
	long failed;

	if (p->ecn == (p->tos & ECN_MASK))
		return GO_ON;
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
	return failed ? DROP(DECAP_FAILED) : GO_ON;
}

INLINE enum verdict decap(struct __sk_buff *ctx, struct packet *p)
{
	const __u32 min_len = ETH_HLEN + DECAP_MIN_PAYLOAD;
	__u32 missing = p->len < min_len ? min_len - p->len : 0;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	/* Also sets skb->protocol when the inner family is another one; for any other type of frame
	 * it stays wrong until a transmit sets it anew. skb->csum does not cover the MAC header here. */
	flags |= p->eth.h_proto == ETHERTYPE_IPV6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 :
						    BPF_F_ADJ_ROOM_DECAP_L3_IPV4;
	if (bpf_skb_adjust_room(ctx, -(int)(p->offset - missing), BPF_ADJ_ROOM_MAC, flags) < 0)
		return DROP(DECAP_FAILED);
	/* Ethernet pads short frames; so do we, no further than the kernel demands. No IP packet is so short. */
	if (missing && pad_frame(ctx, missing) != GO_ON)
		return DROP(DECAP_FAILED);
	if (!put_front(ctx, &p->eth, ETH_HLEN) &&
	    bpf_skb_store_bytes(ctx, 0, &p->eth, ETH_HLEN, 0) < 0)
		return DROP(DECAP_FAILED);
	if (store_ecn(ctx, p) != GO_ON)
		return DROP(DECAP_FAILED);
	p->tos = (p->tos & ~ECN_MASK) | p->ecn;
	return GO_ON;
}
