/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage tunnel: reads the VXLAN (RFC 7348 section 5) or Geneve (RFC 8926 section 3.4) header: VNI, and the logical
 * ports of OVN's option.
 */
#pragma once

#include "lib/outer.h"
#include "lib/packet.h"

#define GENEVE_CONTROL_BIT 0x80
#define GENEVE_RESERVED_BITS 0x3f
#define GENEVE_CRITICAL_BIT 0x80

INLINE enum verdict read_vxlan(struct __sk_buff *ctx, const struct settings *s, struct outer_view *o)
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
	o->frame = o->tunnel + sizeof(h);
	return GO_ON;
}

INLINE void take_keys(struct outer_view *o, const struct ovn_option *ovn)
{
	o->source_key = bpf_ntohs(ovn->source_key) & 0x7fff;
	o->dest_key = bpf_ntohs(ovn->dest_key);
}

/* The only option of a packet, if it is OVN's in its exact form: what nearly every packet has. */
INLINE bool read_only_option(struct __sk_buff *ctx, struct outer_view *o, __u32 at, __u32 end)
{
	struct ovn_option ovn;

	if (end - at != sizeof(ovn) || load_bytes(ctx, at, &ovn, sizeof(ovn)) < 0 ||
	    !is_ovns(&ovn.option) || (ovn.option.len & 0x1f) != 1)
		return false;
	take_keys(o, &ovn);
	return true;
}

struct option_walk {
	struct __sk_buff *ctx;
	struct outer_view *outer;
	__u32 at;
	__u32 end;
	enum verdict result;
};

/* The option at walk.at, of which walk.end is a whole number of words behind; goes behind it. */
INLINE enum verdict read_geneve_option(struct option_walk *w)
{
	struct geneve_option option;
	struct ovn_option ovn;
	__u32 len;

	if (bpf_skb_load_bytes(w->ctx, w->at, &option, sizeof(option)) < 0)
		return DROP(GENEVE_OPTIONS);
	len = sizeof(option) + (option.len & 0x1f) * 4;
	if (w->at + len > w->end)
		return DROP(GENEVE_OPTIONS);
	if (is_ovns(&option)) {
		if (len != sizeof(ovn))
			return DROP(GENEVE_OPTION_LENGTH);
		if (bpf_skb_load_bytes(w->ctx, w->at, &ovn, sizeof(ovn)) < 0)
			return DROP(GENEVE_OPTIONS);
		take_keys(w->outer, &ovn);
	} else if (option.type & GENEVE_CRITICAL_BIT) {
		return DROP(GENEVE_CRITICAL);
	}
	w->at += len;
	return GO_ON;
}

static long read_next_option(__u32 number __attribute__((unused)), struct option_walk *w)
{
	w->result = read_geneve_option(w);
	return w->result != GO_ON || w->at >= w->end;
}

INLINE enum verdict read_geneve(struct __sk_buff *ctx, const struct settings *s, struct outer_view *o)
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
	if (at < end && !read_only_option(ctx, o, at, end)) {
		struct option_walk walk = {
			.ctx = ctx, .outer = o, .at = at, .end = end, .result = GO_ON
		};

		/* No option is shorter than its header. */
		bpf_loop((end - at) / sizeof(struct geneve_option), read_next_option, &walk, 0);
		if (walk.result != GO_ON)
			return walk.result;
	}
	o->vni = vni_of(h.vni);
	o->frame = end;
	return GO_ON;
}

/* The header on the way back from the coalescer (stage/coalesce.h), instead of Geneve's. */
INLINE enum verdict read_coalesced(struct __sk_buff *ctx, struct outer_view *o)
{
	struct vxlan_with_keys h;

	if (o->tunnel + 8 > o->end || load_bytes(ctx, o->tunnel - sizeof(h.udp), &h, sizeof(h)) < 0)
		return DROP(TUNNEL_HEADER);
	o->vni = vni_of(h.vni);
	o->source_key = (h.keys[0] << 8 | h.keys[1]) & 0x7fff;
	o->dest_key = h.keys[2] << 8 | h.last_key;
	o->frame = o->tunnel + 8;
	return GO_ON;
}

/* Both headers have the VNI in the same place, whatever else may be wrong with them. */
INLINE bool has_our_vni(struct __sk_buff *ctx, const struct outer_view *o)
{
	struct vxlan_header h;
	__u32 vni;

	if (o->tunnel + sizeof(h) > o->end || load_bytes(ctx, o->tunnel, &h, sizeof(h)) < 0)
		return false;
	vni = vni_of(h.vni);
	return bpf_map_lookup_elem(&switches, &vni);
}

/* Global, so that the verifier checks it once. */
__noinline enum verdict read_tunnel(struct __sk_buff *ctx, const struct packet *p,
				    struct outer_view *o)
{
	struct settings *s = get_settings();
	enum verdict result;

	if (!s || !p || !o)
		return DROP(NOT_CONFIGURED);
	if (p->hook == HOOK_FROM_COALESCER)
		return read_coalesced(ctx, o);
	result = s->encapsulation == ENCAPSULATION_GENEVE ? read_geneve(ctx, s, o) :
							    read_vxlan(ctx, s, o);
	return result == GO_ON && !o->vni ? DROP(VNI_ZERO) : result;
}

/*
 * Finds the switch, and where the frame begins: p->offset. A packet of another tunnel that has the same port stays
 * with the host.
 */
INLINE enum verdict tunnel(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
			   struct destination *d, struct outer_view *o, struct lswitch **sw)
{
	enum verdict result = o->read;

	*sw = NULL;
	if (result == GO_ON) {
		enter_switch(p, d, o->vni, o->source_key);
		*sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	}
	if (!*sw && s->port_shared && !has_our_vni(ctx, o)) {
		p->sender_counters = 0;
		return VERDICT_TO_HOST;
	}
	if (!*sw)
		return result == GO_ON ? DROP(UNKNOWN_VNI) : result;
	/* Padding behind the packet is not part of the inner frame. */
	if (o->end < ctx->len && bpf_skb_change_tail(ctx, o->end, 0) < 0)
		return DROP(DECAP_FAILED);
	p->offset = o->frame;
	return GO_ON;
}
