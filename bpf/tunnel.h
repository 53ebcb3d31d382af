/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage tunnel: reads the VXLAN (RFC 7348 section 5) or Geneve (RFC 8926 section 3.4) header: VNI, and
 * the logical ports of OVN's option. Between vtep_check and parse.
 */
#pragma once

#include "vtep_check.h"

#define VXLAN_FLAG_VNI 0x08
#define GENEVE_CONTROL_BIT 0x80
#define GENEVE_RESERVED_BITS 0x3f
#define GENEVE_CRITICAL_BIT 0x80
#define OVN_CLASS bpf_htons(0x0102)
#define OVN_TYPE 0x80

struct vxlan_header {
	__u8 flags;
	__u8 reserved[3];
	__u8 vni[3];
	__u8 reserved2;
};

struct geneve_header {
	__u8 version_len; /* version 2 bits, option length 6 bits in units of 4 bytes */
	__u8 flags;
	__be16 protocol;
	__u8 vni[3];
	__u8 reserved;
};

struct geneve_option {
	__be16 class;
	__u8 type;
	__u8 len; /* low 5 bits, in units of 4 bytes, without these 4 */
};

static __always_inline __u32 vni_of(const __u8 *bytes)
{
	return bytes[0] << 16 | bytes[1] << 8 | bytes[2];
}

static __always_inline int read_vxlan(struct __sk_buff *ctx, const struct settings *s,
				      struct outer_view *o)
{
	struct vxlan_header h;

	if (o->tunnel + sizeof(h) > o->end || load_bytes(ctx, o->tunnel, &h, sizeof(h)) < 0)
		return DROP(TUNNEL_HEADER);
	if (!(h.flags & VXLAN_FLAG_VNI))
		return DROP(VXLAN_FLAGS);
	if (s->strict && (h.flags != VXLAN_FLAG_VNI ||
			  h.reserved[0] | h.reserved[1] | h.reserved[2] | h.reserved2))
		return DROP(RESERVED_BITS);
	o->vni = vni_of(h.vni);
	return sizeof(h);
}

static __always_inline int read_geneve_option(struct __sk_buff *ctx, struct outer_view *o, __u32 at,
					      __u32 end)
{
	struct geneve_option option;
	__be16 keys[2];
	__u32 len;

	/* `end` is a whole number of words behind `at`. */
	if (bpf_skb_load_bytes(ctx, at, &option, sizeof(option)) < 0)
		return DROP(GENEVE_OPTIONS);
	len = sizeof(option) + (option.len & 0x1f) * 4;
	if (at + len > end)
		return DROP(GENEVE_OPTIONS);
	if (option.class == OVN_CLASS && option.type == OVN_TYPE) {
		if (len != sizeof(option) + sizeof(keys))
			return DROP(GENEVE_OPTION_LENGTH);
		if (bpf_skb_load_bytes(ctx, at + sizeof(option), keys, sizeof(keys)) < 0)
			return DROP(GENEVE_OPTIONS);
		o->source_key = bpf_ntohs(keys[0]) & 0x7fff;
		o->dest_key = bpf_ntohs(keys[1]);
	} else if (option.type & GENEVE_CRITICAL_BIT) {
		return DROP(GENEVE_CRITICAL);
	}
	return len;
}

struct option_walk {
	struct __sk_buff *ctx;
	struct outer_view *outer;
	__u32 at;
	__u32 end;
	int result;
};

static long read_next_option(__u32 number __attribute__((unused)), struct option_walk *w)
{
	w->result = read_geneve_option(w->ctx, w->outer, w->at, w->end);
	if (w->result < 0)
		return 1;
	w->at += w->result;
	return w->at >= w->end;
}

static __always_inline int read_geneve(struct __sk_buff *ctx, const struct settings *s,
				       struct outer_view *o)
{
	struct geneve_header h;
	__u32 at, end;

	if (o->tunnel + sizeof(h) > o->end || load_bytes(ctx, o->tunnel, &h, sizeof(h)) < 0)
		return DROP(TUNNEL_HEADER);
	if (h.version_len >> 6)
		return DROP(GENEVE_VERSION);
	at = o->tunnel + sizeof(h);
	end = at + (h.version_len & 0x3f) * 4;
	if (end > o->end)
		return DROP(TUNNEL_HEADER);
	if (h.flags & GENEVE_CONTROL_BIT)
		return DROP(GENEVE_CONTROL);
	if (h.protocol != bpf_htons(ETH_P_TEB))
		return DROP(GENEVE_PROTOCOL);
	if (s->strict && (h.flags & GENEVE_RESERVED_BITS || h.reserved))
		return DROP(RESERVED_BITS);
	if (at < end) {
		struct option_walk walk = { .ctx = ctx, .outer = o, .at = at, .end = end };

		/* No option is shorter than its header. */
		bpf_loop((end - at) / sizeof(struct geneve_option), read_next_option, &walk, 0);
		if (walk.result < 0)
			return walk.result;
	}
	o->vni = vni_of(h.vni);
	return end - o->tunnel;
}

/* Both headers have the VNI in the same place, whatever else may be wrong with them. */
static __always_inline bool has_our_vni(struct __sk_buff *ctx, const struct outer_view *o)
{
	struct vxlan_header h;
	__u32 vni;

	if (o->tunnel + sizeof(h) > o->end || load_bytes(ctx, o->tunnel, &h, sizeof(h)) < 0)
		return false;
	vni = vni_of(h.vni);
	return bpf_map_lookup_elem(&switches, &vni);
}

/* Returns the length of the tunnel header. */
static __always_inline int tunnel(struct __sk_buff *ctx, const struct settings *s,
				  struct outer_view *o)
{
	int len = s->encapsulation == ENCAPSULATION_GENEVE ? read_geneve(ctx, s, o) :
							     read_vxlan(ctx, s, o);

	if (len < 0)
		return len;
	return o->vni ? len : DROP(VNI_ZERO);
}
