/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a datagram in fragments is known by. Only its first fragment says ports; that one is remembered at the port that
 * it passed, and later ones are judged as it was. A port has its own places, so it fills no other's, and the newest
 * takes the place of an older one.
 */
#pragma once

#include "l4.h"

#define FRAGMENT_LIFE (30 * SECOND)

/*
 * What tells the datagram of a fragment, in tracking.first, and its place in the zone of tracking.key. The frame begins
 * at frame_at. Says where the fragment begins in its datagram, or -1.
 */
INLINE int identify(struct __sk_buff *ctx, const struct packet *p, __u32 frame_at, struct tracking *t)
{
	struct first_fragment *first = &t->first;
	struct ipv6_fragment header;
	__be16 ipv4[2]; /* identification; flags and offset */
	__u32 mix = 0;
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
	for (int i = 0; i < 8; i++)
		mix ^= p->flow.words[i];
	t->place.switch_id = t->key.switch_id;
	t->place.key = t->key.key;
	t->place.place = (first->id + mix) % FRAGMENT_PLACES;
	return offset;
}

/* Over IPv6 whatever the next header says (RFC 8200 section 4.5). */
INLINE bool is_same_datagram(const struct first_fragment *a, const struct first_fragment *b)
{
	return a->id == b->id && a->family == b->family && (a->family == 6 || a->next == b->next) &&
	       same_addr(&a->source, &b->source) && same_addr(&a->dest, &b->dest);
}

/* The first fragment of the datagram of tracking.first. */
INLINE struct first_fragment *recall_first(struct tracking *t)
{
	struct first_fragment *found = bpf_map_lookup_elem(&fragments, &t->place);

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

/* After a first fragment, which tracking.l4 is, passed. Global: few packets are fragments. */
__noinline int remember_first(struct __sk_buff *ctx, const struct packet *p)
{
	struct tracking *t = get_tracking();
	struct first_fragment *first, *earlier;
	__u32 begin;

	if (!p || !t || identify(ctx, p, 0, t) < 0)
		return -1;
	first = &t->first;
	begin = has_ipv4(p) ? p->l4_offset : p->fragment_at + sizeof(struct ipv6_fragment);
	first->seen = t->now;
	first->l4_end = p->l4_offset - begin + t->l4.len;
	earlier = recall_first(t); /* of the same datagram: its receiver may keep either */
	if (earlier && earlier->l4_end > first->l4_end)
		first->l4_end = earlier->l4_end;
	first->kind = t->l4.kind;
	first->protocol = t->l4.protocol;
	first->has_type = t->l4.has_type;
	first->icmp_type = t->l4.type;
	first->icmp_code = t->l4.code;
	first->request = t->l4.request;
	first->icmp_id = t->l4.id;
	first->source_port = t->l4.source;
	first->dest_port = t->l4.dest;
	return bpf_map_update_elem(&fragments, &t->place, first, BPF_ANY);
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
	first = offset < 0 ? NULL : recall_first(t);
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
