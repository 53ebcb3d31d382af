/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a datagram in fragments is known by. Only its first fragment says ports; that one is remembered at the port that
 * it passed, or at the router that translated it, and later ones are judged as it was. Each port and router has its own
 * places, so it fills no other's, and the newest takes the place of an older one.
 */
#pragma once

#include "l4.h"

#define FRAGMENT_LIFE (30 * SECOND)

/*
 * What tells the datagram of a fragment, in tracking.first. The frame begins at frame_at. Says where the fragment begins
 * in its datagram, or -1.
 */
INLINE int identify(struct __sk_buff *ctx, const struct packet *p, __u32 frame_at, struct tracking *t)
{
	struct first_fragment *first = &t->first;
	struct ipv6_fragment header;
	__be16 ipv4[2]; /* identification; flags and offset */
	int offset;

	*first = (struct first_fragment){ .source = p->flow.source, .dest = p->flow.dest };
	if (has_ipv4(p)) {
		if (bpf_skb_load_bytes(ctx, frame_at + ETH_HLEN + IPV4_ID, ipv4, sizeof(ipv4)) < 0)
			return -1;
		first->family = 4;
		first->id = bpf_ntohs(ipv4[0]);
		first->next = p->protocol;
		offset = (bpf_ntohs(ipv4[1]) & IP_FRAGMENT_OFFSET) * 8;
	} else {
		if (bpf_skb_load_bytes(ctx, frame_at + p->fragment_at, &header, sizeof(header)) < 0)
			return -1;
		first->family = 6;
		first->id = bpf_ntohl(header.id);
		first->next = header.next;
		offset = bpf_ntohs(header.offset) & IPV6_FRAGMENT_OFFSET;
	}
	return offset;
}

/* Where a router remembers what it translates: as it came, or as it goes on. Of a port there is no such difference. */
INLINE __u32 memory_of(bool from_peer, bool goes_on)
{
	return (from_peer ? 2 : 0) + goes_on;
}

/* The place of the datagram of tracking.first in the zone of tracking.key. */
INLINE void set_fragment_place(struct tracking *t, __u32 memory)
{
	const struct first_fragment *first = &t->first;
	const __u32 *source = (const __u32 *)&first->source, *dest = (const __u32 *)&first->dest;
	__u32 hash = 0;

	for (int i = 0; i < 4; i++)
		hash ^= source[i] ^ dest[i];
	hash += first->id;
	t->place.switch_id = t->key.switch_id;
	t->place.key = t->key.key;
	if (t->key.switch_id & ZONE_ROUTER)
		t->place.place = memory * ROUTER_FRAGMENT_PLACES + hash % ROUTER_FRAGMENT_PLACES;
	else
		t->place.place = hash % FRAGMENT_PLACES;
}

/* Over IPv6 whatever the next header says (RFC 8200 section 4.5). */
INLINE bool is_same_datagram(const struct first_fragment *a, const struct first_fragment *b)
{
	return a->id == b->id && a->family == b->family && (a->family == 6 || a->next == b->next) &&
	       same_addr(&a->source, &b->source) && same_addr(&a->dest, &b->dest);
}

/* The first fragment of the datagram of tracking.first, whose place is in tracking.place then. */
INLINE struct first_fragment *recall_first(struct tracking *t, __u32 memory)
{
	struct first_fragment *found;

	set_fragment_place(t, memory);
	found = bpf_map_lookup_elem(&fragments, &t->place);
	if (!found || !is_same_datagram(found, &t->first))
		return NULL;
	/* Another CPU, whose clock was read later, may have written it. */
	return t->now > found->seen && t->now - found->seen > FRAGMENT_LIFE ? NULL : found;
}

/* What a later fragment says of itself is what its first one said. */
INLINE void take_after(struct l4 *l4, const struct first_fragment *first)
{
	l4->kind = first->kind;
	l4->protocol = first->protocol;
	l4->has_type = first->has_type;
	l4->type = first->icmp_type;
	l4->code = first->icmp_code;
	l4->request = first->request;
	l4->id = first->icmp_id;
	l4->source = first->source_port;
	l4->dest = first->dest_port;
}

/* Its datagram's, or that of more than one for the same: its receiver may keep either. */
INLINE long put_first(struct tracking *t, __u32 memory)
{
	struct first_fragment *first = &t->first, *earlier = recall_first(t, memory);

	if (earlier && earlier->l4_end > first->l4_end)
		first->l4_end = earlier->l4_end;
	return bpf_map_update_elem(&fragments, &t->place, first, BPF_ANY);
}

/* A first fragment, which tracking.l4 is, in tracking.first. */
INLINE int describe_first(struct __sk_buff *ctx, const struct packet *p, struct tracking *t)
{
	struct first_fragment *first = &t->first;
	__u32 begin;

	if (identify(ctx, p, 0, t) < 0)
		return -1;
	begin = has_ipv4(p) ? p->l4_offset : p->fragment_at + sizeof(struct ipv6_fragment);
	first->seen = t->now;
	first->l4_end = p->l4_offset - begin + t->l4.len;
	first->kind = t->l4.kind;
	first->protocol = t->l4.protocol;
	first->has_type = t->l4.has_type;
	first->icmp_type = t->l4.type;
	first->icmp_code = t->l4.code;
	first->request = t->l4.request;
	first->icmp_id = t->l4.id;
	first->source_port = t->l4.source;
	first->dest_port = t->l4.dest;
	return 0;
}

/* A first fragment, which shows what later ones are known by. */
INLINE bool is_first_seen(const struct packet *p)
{
	return p->fragment == FIRST_FRAGMENT && !is_hidden(p);
}

/* After a first fragment passed a port. Global: few packets are fragments. */
__noinline int remember_first(struct __sk_buff *ctx, const struct packet *p)
{
	struct tracking *t = get_tracking();

	if (!p || !t || describe_first(ctx, p, t) < 0)
		return -1;
	return put_first(t, 0);
}

/* What nat makes of the first fragment in tracking.first. */
INLINE void translate_first(struct first_fragment *first, const struct translation *to)
{
	bool source = to->end == TRANSLATE_SOURCE;
	struct addr *addr = source ? &first->source : &first->dest;
	__be16 *port = source ? &first->source_port : &first->dest_port;
	__be16 *peer_port = source ? &first->dest_port : &first->source_port;

	if (!to->end)
		return;
	*addr = to->is_error ? to->teller : to->addr;
	if (to->is_error)
		return;
	if (first->kind == L4_REQUEST || first->kind == L4_REPLY)
		first->icmp_id = to->port;
	else if (*port | *peer_port)
		*port = to->port;
	if (to->moves_peer)
		*peer_port = to->peer_port;
}

/* After a first fragment passed its router, if that translates: as it came, and as it goes on. Global, likewise. */
__noinline int remember_translated(struct __sk_buff *ctx, const struct packet *p,
				   const struct destination *d, __u32 from_peer)
{
	struct tracking *t = get_tracking();
	__u16 l4_end;

	/* Else nat has not read it. */
	if (!p || !d || !t || t->key.switch_id != (ZONE_ROUTER | d->router))
		return -1;
	if (describe_first(ctx, p, t) < 0)
		return -1;
	l4_end = t->first.l4_end;
	put_first(t, memory_of(from_peer, false));
	t->first.l4_end = l4_end;
	translate_first(&t->first, &d->translation);
	return put_first(t, memory_of(from_peer, true));
}

/* Only its first fragment says all that a later one is known by. */
INLINE bool needs_first(const struct packet *p)
{
	return has_ports(p->protocol) || is_icmp(p->protocol, has_ipv4(p)) ||
	       (!has_ipv4(p) && is_extension(p->protocol));
}

/* To nat: a later fragment whose first one, which nobody remembers, has its ports. */
INLINE bool is_unknown_part(const struct packet *p, const struct l4 *l4)
{
	return p->fragment == LATER_FRAGMENT && l4->part != LATER_FRAGMENT && needs_first(p);
}

/*
 * Makes tracking.l4 of a later fragment what its first one was. Else it is L4_UNSEEN, which rules judge that ask for
 * nothing; where one asks for what cannot be seen, it is dropped. flags: the port's. Global: few packets come here.
 */
__noinline enum verdict see_behind(struct __sk_buff *ctx, const struct packet *p, __u32 flags,
				   __u32 to_port)
{
	__u32 asks_protocol = to_port ? PORT_ASKS_PROTOCOL_TO : PORT_ASKS_PROTOCOL_FROM;
	__u32 asks_ports = to_port ? PORT_ASKS_PORTS_TO : PORT_ASKS_PORTS_FROM;
	struct tracking *t = get_tracking();
	struct first_fragment *first;
	bool ipv4;
	int offset;

	if (!p || !t)
		return DROP(NOT_CONFIGURED);
	if (is_hidden(p))
		return flags & asks_protocol ? DROP(DEEP_HEADER) : GO_ON;
	offset = identify(ctx, p, 0, t);
	first = offset < 0 ? NULL : recall_first(t, memory_of(to_port, false));
	if (first && first->next != t->first.next)
		return DROP(FRAGMENT_UNKNOWN);
	if (first) {
		take_after(&t->l4, first);
		return offset < first->l4_end ? DROP(FRAGMENT_OVERLAP) : GO_ON;
	}
	ipv4 = has_ipv4(p);
	if (!ipv4 && is_extension(p->protocol))
		return flags & asks_protocol ? DROP(FRAGMENT_UNKNOWN) : GO_ON;
	if (has_ports(p->protocol) || is_icmp(p->protocol, ipv4))
		return flags & asks_ports ? DROP(FRAGMENT_UNKNOWN) : GO_ON;
	/* Without ports in any of its packets: a connection has what there is. */
	t->l4.kind = L4_OTHER;
	t->l4.part = NO_FRAGMENT;
	return GO_ON;
}
