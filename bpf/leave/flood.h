/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flooded frames: broadcast, multicast and, on switches that say so, unknown unicast. One copy for each local port of
 * the switch but the source, then one for each remote that has ports of it (ingress replication): room for the outer
 * header is made once, and again where headers become longer, in whose order the remotes are; the header is rewritten
 * for each. Part of leave.
 */
#pragma once

#include "encap.h"
#include "lib/firewall.h"
#include "lib/limit.h"
#include "lib/outer.h"
#include "vlan_out.h"

INLINE struct flood_member *get_flood_member(__u32 switch_id, __u32 index)
{
	struct flood_key key = { .switch_id = switch_id, .index = index };

	return bpf_map_lookup_elem(&flood, &key);
}

/* What is flooded: the packet, or a router's question that it became. */
INLINE struct packet *flooded_packet(struct scratch *w)
{
	return w->floods_reply ? &w->reply : &w->packet;
}

INLINE struct destination *flooded_to(struct scratch *w)
{
	return w->floods_reply ? &w->reply_to : &w->destination;
}

/*
 * One copy of a flooded frame; the skb stays ours, without a tag. What the port's firewall stops is not sent, and its
 * sender not told.
 */
INLINE void copy_to_port(struct __sk_buff *ctx, struct scratch *w, const struct port_id *id)
{
	const struct destination *d = flooded_to(w);
	const struct packet *p = flooded_packet(w);
	struct tag tag = tag_at(d, id);
	struct port *port;

	if (same_port(id, &p->source))
		return;
	port = bpf_map_lookup_elem(&ports, id);
	if (!port || port->switch_id != d->switch_id)
		return;
	if (!is_there(p->changes, id->ifindex)) {
		w->dropped = DROP(DEVICE_GONE);
		return;
	}
	if (!d->is_reply && port->flags & PORT_FIREWALL &&
	    firewall(ctx, p, port, FIREWALL_TO_PORT) != GO_ON)
		return;
	if (is_too_long_for(p, port)) {
		w->dropped = DROP(PKT_TOO_BIG);
		return;
	}
	if (put_tag(ctx, tag) < 0)
		return;
	if (send_copy(ctx, id->ifindex) == GO_ON && !d->is_reply)
		count_port(p, port->counters, PORT_TO);
	if (tag.proto)
		take_tag(ctx);
}

/* Global, so that the verifier checks it once and not once per loop. Returns 0 at the first remote. */
__noinline int flood_to_port(struct __sk_buff *ctx, __u32 index)
{
	struct scratch *w = get_scratch();
	struct flood_member *m = w ? get_flood_member(flooded_to(w)->switch_id, index) : NULL;
	struct port_id id;

	if (!m)
		return 1;
	if (!m->port.ifindex)
		return 0;
	id = m->port;
	if (!flooded_to(w)->to_hosts_only)
		copy_to_port(ctx, w, &id);
	return 1;
}

INLINE enum verdict flood_room(struct __sk_buff *ctx, struct scratch *w, __u32 header_len)
{
	const struct destination *d = flooded_to(w);
	__u32 tag = tag_len(d);
	__u32 more = header_len - w->room;

	/* Shorter than the one before: `apply` is just changing it. */
	if (header_len < w->room)
		return DROP(ENCAP_FAILED);
	if (bpf_skb_change_head(ctx, w->room ? more : more + tag, 0) < 0)
		return DROP(ENCAP_FAILED);
	if (!w->room && tag) {
		fill_inner(w->outer.bytes, d);
		if (bpf_skb_store_bytes(ctx, header_len, w->outer.bytes, ETH_HLEN + VLAN_HLEN, 0) < 0)
			return DROP(ENCAP_FAILED);
	}
	w->room = header_len;
	return GO_ON;
}

INLINE enum verdict copy_to_remote(struct __sk_buff *ctx, const struct settings *s, struct scratch *w,
				   const struct remote *r)
{
	__u32 headers = r->header_len + tag_len(flooded_to(w));
	enum verdict result = GO_ON;

	if (headers - ETH_HLEN + flooded_packet(w)->len >
	    path_mtu_of(s, r->counters, flooded_packet(w), headers))
		return DROP(PKT_TOO_BIG);
	if (!is_there(flooded_packet(w)->changes, s->uplink_ifindex)) /* where it leaves in the end */
		return DROP(DEVICE_GONE);
	if (r->header_len != w->room)
		result = flood_room(ctx, w, r->header_len);
	if (result != GO_ON)
		return result;
	fill_outer(&w->outer, s, r, flooded_packet(w), flooded_to(w), GENEVE_FLOOD_GROUP);
	result = store_outer(ctx, &w->outer, r->header_len);
	return result == GO_ON ? retype_copy(ctx, s, flooded_packet(w)) : result;
}

/*
 * Whether the uplink does not take the copy for this remote, and so none for those after it. The sender is told where no
 * copy has left.
 */
INLINE bool is_too_big_for_uplink(const struct settings *s, struct scratch *w, const struct remote *r)
{
	__u32 headers = r->header_len + tag_len(flooded_to(w));

	if (headers - ETH_HLEN + flooded_packet(w)->len <= s->underlay_mtu)
		return false;
	w->dropped = DROP(PKT_TOO_BIG);
	if (!w->room)
		too_big(flooded_to(w), s->underlay_mtu > headers ? s->underlay_mtu - headers : 0);
	return true;
}

/* Returns 0 when the frame is too large for this remote's header: none of the rest counts it. */
__noinline int flood_to_remote(struct __sk_buff *ctx, __u32 index)
{
	struct scratch *w = get_scratch();
	struct settings *s = get_settings();
	struct flood_member *m = w ? get_flood_member(flooded_to(w)->switch_id, index) : NULL;
	enum verdict result;
	struct remote *r;

	if (!m || !s || m->port.ifindex)
		return 1;
	r = bpf_map_lookup_elem(&remotes, &m->remote);
	if (r && is_too_big_for_uplink(s, w, r))
		return 0;
	result = r ? copy_to_remote(ctx, s, w, r) : DROP(UNKNOWN_REMOTE);
	if (result != GO_ON)
		w->dropped = result;
	if (r && !w->floods_reply)
		count_remote(&w->packet, r->counters, result == GO_ON ? REMOTE_TO : REMOTE_DROPPED);
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
INLINE void flood_ports(struct __sk_buff *ctx, struct scratch *w)
{
	struct flooding f = { .ctx = ctx, .first_remote = w->members };

	bpf_loop(w->members, flood_next_port, &f, 0);
	w->first_remote = f.first_remote;
}

INLINE void flood_remotes(struct __sk_buff *ctx, struct scratch *w)
{
	struct flooding f = { .ctx = ctx, .first_remote = w->first_remote };

	w->room = 0;
	bpf_loop(w->members - w->first_remote, flood_next_remote, &f, 0);
}

/* The one copy of a switch on a VLAN for everybody behind the uplink. */
INLINE enum verdict flood_vlan(struct __sk_buff *ctx, const struct settings *s,
			       const struct packet *p, struct destination *d)
{
	if (p->segment_len - ETH_HLEN > s->underlay_mtu)
		return too_big(d, s->underlay_mtu);
	if (!is_there(p->changes, s->uplink_ifindex))
		return DROP(DEVICE_GONE);
	if (put_tag(ctx, tag_of_vlan(d->switch_id, &d->tag)) < 0)
		return DROP(ENCAP_FAILED);
	return send_copy(ctx, s->uplink_ifindex);
}

/* Whether the port that sent it may flood that much more. What comes from the segmenter was counted whole. */
INLINE bool may_flood(const struct packet *p, __u32 members)
{
	struct limit_key limit = { .switch_id = p->switch_id,
				   .key = p->source_key,
				   .limit = LIMIT_FLOOD };
	struct port *port;

	if (p->hook != HOOK_FROM_PORT)
		return true;
	port = bpf_map_lookup_elem(&ports, &p->source);
	return port &&
	       is_within_limit(&limit, members * p->segments, port->flood, SECOND / 10, now_ns());
}

/*
 * Of the hook's packet, which scratch has, or of the question that it became. From the underlay only ports of this host
 * get a copy: the sender replicated to every other host. The skb itself ends here: what travels are the copies.
 */
INLINE enum verdict flood_frame(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
				struct destination *d)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &d->switch_id);
	bool on_vlan = is_on_vlan(d->switch_id), to_uplink = d->is_reply || !is_from_underlay(p);
	struct scratch *w = get_scratch();
	enum verdict result = GO_ON;

	if (!sw || !w)
		return DROP(NOT_CONFIGURED);
	w->members = sw->flood_members + (d->to_routers && to_uplink ? sw->flood_routers : 0);
	w->floods_reply = d->is_reply;
	if (!d->is_reply && !may_flood(p, w->members))
		return DROP(FLOOD_LIMIT);
	/* No copy could travel whole in a tunnel; and none loses the mark of the tunnel that brought it. */
	if (p->gso_size && to_uplink && !(on_vlan && is_measurable(p)))
		return segment(ctx, s, p);
	if (is_whole_udp(p) && !to_uplink && p->offset)
		return DROP(GSO_UNSUPPORTED);
	w->dropped = GO_ON;
	flood_ports(ctx, w);
	if (to_uplink && on_vlan)
		result = flood_vlan(ctx, s, p, d);
	else if (to_uplink && w->first_remote < w->members)
		flood_remotes(ctx, w);
	if (result == GO_ON)
		result = w->dropped;
	if (result != GO_ON)
		return result;
	return d->to_hosts_only ? VERDICT_TO_ROUTER : VERDICT_FLOOD;
}
