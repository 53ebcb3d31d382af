/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage flood: broadcast, multicast and, on switches that say so, unknown unicast. One copy for each
 * local port of the switch but the source, then one for each remote that has ports of it (ingress
 * replication): room for the outer header is made once, and again where headers become longer, in
 * whose order the remotes are; the header is rewritten for each. Instead of to_port or encap.
 */
#pragma once

#include "encap.h"
#include "to_port.h"
#include "vlan_out.h"

#define GENEVE_FLOOD_GROUP 0x8000

static __always_inline struct flood_member *get_flood_member(__u32 switch_id, __u32 index)
{
	struct flood_key key = { .switch_id = switch_id, .index = index };

	return bpf_map_lookup_elem(&flood, &key);
}

/* Global, so that the verifier checks it once and not once per loop. Returns 0 at the first remote. */
__noinline int flood_to_port(struct __sk_buff *ctx, __u32 index)
{
	struct scratch *w = get_scratch();
	struct flood_member *m = w ? get_flood_member(w->flooded.switch_id, index) : NULL;
	struct port_id id;

	if (!m)
		return 1;
	if (!m->port.ifindex)
		return 0;
	id = m->port;
	copy_to_port(ctx, &w->flooded, &id);
	return 1;
}

static __always_inline int flood_room(struct __sk_buff *ctx, const struct settings *s,
				      struct scratch *w, __u32 header_len)
{
	__u32 tag = tag_len(&w->flooded);
	__u32 more = header_len - w->room;

	if (header_len - ETH_HLEN + tag + w->flooded.len > s->underlay_mtu)
		return DROP(PKT_TOO_BIG);
	/* Shorter than the one before: `apply` is just changing it. */
	if (header_len < w->room)
		return DROP(ENCAP_FAILED);
	if (bpf_skb_change_head(ctx, w->room ? more : more + tag, 0) < 0)
		return DROP(ENCAP_FAILED);
	if (!w->room && tag) {
		fill_inner(w->outer.bytes, &w->flooded);
		if (bpf_skb_store_bytes(ctx, header_len, w->outer.bytes, ETH_HLEN + VLAN_HLEN, 0) < 0)
			return DROP(ENCAP_FAILED);
	}
	w->room = header_len;
	return 0;
}

static __always_inline int copy_to_remote(struct __sk_buff *ctx, const struct settings *s,
					  struct scratch *w, const struct addr *remote)
{
	struct remote *r = bpf_map_lookup_elem(&remotes, remote);
	struct outer *o = &w->outer;
	int result = 0;

	w->flooded.remote_counters = r ? r->counters : 0;
	if (!r)
		return DROP(UNKNOWN_REMOTE);
	if (r->header_len != w->room)
		result = flood_room(ctx, s, w, r->header_len);
	if (result < 0)
		return result;
	fill_outer(o, s, r, &w->flooded, GENEVE_FLOOD_GROUP);
	result = store_outer(ctx, o, r->header_len);
	return result < 0 ? result : retype_copy(ctx, s);
}

/* Returns 0 when the frame is too large for this remote, and so for those after it: none counts it. */
__noinline int flood_to_remote(struct __sk_buff *ctx, __u32 index)
{
	struct scratch *w = get_scratch();
	struct settings *s = get_settings();
	struct flood_member *m = w ? get_flood_member(w->flooded.switch_id, index) : NULL;
	struct addr remote;
	int result;

	if (!m || !s || m->port.ifindex)
		return 1;
	remote = m->remote;
	result = copy_to_remote(ctx, s, w, &remote);
	if (result < 0)
		w->dropped = result;
	if (result == DROP(PKT_TOO_BIG))
		return 0;
	count_remote(&w->flooded, w->flooded.remote_counters,
		     result < 0 ? REMOTE_DROPPED : REMOTE_TO);
	return 1;
}

struct flooding {
	struct __sk_buff *ctx;
	__u32 first_remote;
};

/* For bpf_loop(): the verifier looks at it once, and not at every member. 1: it was the last. */
static long flood_next_port(__u32 index, struct flooding *f)
{
	if (flood_to_port(f->ctx, index))
		return 0;
	f->first_remote = index;
	return 1;
}

static long flood_next_remote(__u32 index, struct flooding *f)
{
	int more = flood_to_remote(f->ctx, f->first_remote + index);

	/* clang knows what it returns, and the verifier does not. */
	KEEP_BOUNDS(more);
	return !more;
}

/* Copies for the ports of this host; says where the remotes begin. */
static __always_inline void flood_ports(struct __sk_buff *ctx, struct scratch *w)
{
	struct flooding f = { .ctx = ctx, .first_remote = w->members };

	bpf_loop(w->members, flood_next_port, &f, 0);
	w->first_remote = f.first_remote;
}

__noinline int flood_remotes(struct __sk_buff *ctx)
{
	struct scratch *w = get_scratch();
	struct flooding f = { .ctx = ctx };

	if (!w)
		return DROP(NOT_CONFIGURED);
	w->room = 0;
	f.first_remote = w->first_remote;
	bpf_loop(w->members - w->first_remote, flood_next_remote, &f, 0);
	return w->dropped;
}

/* The one copy of a switch on a VLAN for everybody behind the uplink. */
static __always_inline int flood_vlan(struct __sk_buff *ctx, const struct settings *s,
				      const struct packet *p)
{
	if (p->segment_len - ETH_HLEN > s->underlay_mtu)
		return DROP(PKT_TOO_BIG);
	if (put_tag(ctx, tag_of_vlan(p->switch_id)) < 0 || send_copy(ctx, s->uplink_ifindex))
		return DROP(ENCAP_FAILED);
	return 0;
}

/* The skb itself ends here: what travels are the copies. */
static __always_inline struct scratch *flood_begin(struct packet *p, const struct lswitch *sw)
{
	struct scratch *w = get_scratch();

	if (!w)
		return NULL;
	w->flooded = *p;
	w->members = sw->flood_members;
	w->dropped = 0;
	p->action = TCX_DROP;
	return w;
}

static __always_inline int flood_from_port(struct __sk_buff *ctx, const struct settings *s,
					   struct packet *p, const struct lswitch *sw)
{
	struct scratch *w;
	int result = 0;

	/* No copy could travel whole in a tunnel. */
	if (p->gso_size && !(is_on_vlan(p->switch_id) && is_measurable(p)))
		return segment(ctx, s, p);
	w = flood_begin(p, sw);
	if (!w)
		return DROP(NOT_CONFIGURED);
	flood_ports(ctx, w);
	if (is_on_vlan(p->switch_id))
		result = flood_vlan(ctx, s, p);
	else if (w->first_remote < w->members)
		result = flood_remotes(ctx);
	return result < 0 ? result : VERDICT_FLOOD;
}

/* From the underlay only local ports get a copy: the sender replicated to every other host. */
static __always_inline int flood_from_underlay(struct __sk_buff *ctx, struct packet *p,
					       const struct lswitch *sw)
{
	struct scratch *w = flood_begin(p, sw);

	if (!w)
		return DROP(NOT_CONFIGURED);
	flood_ports(ctx, w);
	return VERDICT_FLOOD;
}
