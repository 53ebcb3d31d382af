/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of routers for the MAC of a neighbour: an ARP request (RFC 826) or a neighbour solicitation (RFC 4861
 * section 4.3), from the router's own address. An skb becomes one: the packet that needs the MAC, or, to ask again for
 * one that is known, a copy that comes out of the segmenter. Part of reply.
 */
#pragma once

#include "lib/fdb.h"
#include "lib/found.h"
#include "reply_bytes.h"
#include "reply_destination.h"
#include "segmenter.h"

/* Who asks on a side, and how. */
struct asking {
	struct mac mac;
	__u16 key;     /* of the interface */
	__u32 ifindex; /* of the leg; 0: on a switch */
};

INLINE bool find_asker(__u32 router, __u32 side, struct asking *a)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);
	struct router_interface *i;

	if (!r)
		return false;
	if (is_leg(side)) {
		*a = (struct asking){ .mac = r->leg_mac, .ifindex = r->leg_ifindex };
		return a->ifindex;
	}
	i = interface_on(router, side);
	if (!i)
		return false;
	*a = (struct asking){ .mac = r->mac, .key = i->key };
	return true;
}

INLINE __u32 write_arp_request(struct scratch *w, const struct addr *target, const __u8 *mac,
			       const __u8 *to)
{
	struct arp_frame *f = (struct arp_frame *)(w->bytes + FRAME_AT);

	__builtin_memset(f, 0, sizeof(*f));
	__builtin_memcpy(f->eth.h_dest, to ? to : (const __u8 *)"\xff\xff\xff\xff\xff\xff", ETH_ALEN);
	copy_mac(f->eth.h_source, mac);
	f->eth.h_proto = bpf_htons(ETH_P_ARP);
	f->arp.hardware_type = bpf_htons(ARP_ETHERNET);
	f->arp.protocol_type = ETHERTYPE_IPV4;
	f->arp.hardware_len = ETH_ALEN;
	f->arp.protocol_len = 4;
	f->arp.operation = bpf_htons(ARP_REQUEST);
	copy_mac(f->arp.sender_mac, mac);
	f->arp.sender_ip = v4_of(&w->asker);
	f->arp.target_ip = v4_of(target);
	w->reply.flow = (union flow){}; /* of a frame that is not IP: its header */
	__builtin_memcpy(&w->reply.flow, &f->eth, ETH_HLEN);
	w->reply.eth = f->eth;
	return sizeof(*f);
}

/* The solicited-node group of an address (RFC 4291 section 2.7.1), and its MAC (RFC 2464 section 7). */
INLINE void to_solicited_node(struct nd_frame *f, const struct addr *target)
{
	struct addr group = { .bytes = { 0xff, 2, [11] = 1, 0xff } };

	__builtin_memcpy(&group.bytes[13], &target->bytes[13], 3);
	__builtin_memcpy(&f->ip.daddr, &group, sizeof(group));
	f->eth.h_dest[0] = f->eth.h_dest[1] = 0x33;
	__builtin_memcpy(&f->eth.h_dest[2], &group.bytes[12], 4);
}

INLINE __u32 write_solicitation(struct scratch *w, const struct addr *target, const __u8 *mac,
				const __u8 *to)
{
	struct nd_frame *f = (struct nd_frame *)(w->bytes + FRAME_AT);
	struct packet *r = &w->reply;

	__builtin_memset(f, 0, sizeof(*f));
	if (to) {
		copy_mac(f->eth.h_dest, to);
		__builtin_memcpy(&f->ip.daddr, target, sizeof(*target));
	} else {
		to_solicited_node(f, target);
	}
	copy_mac(f->eth.h_source, mac);
	f->eth.h_proto = ETHERTYPE_IPV6;
	f->ip.version = 6;
	f->ip.payload_len = bpf_htons(sizeof(f->nd));
	f->ip.nexthdr = IPPROTO_ICMPV6;
	f->ip.hop_limit = ND_HOP_LIMIT;
	__builtin_memcpy(&f->ip.saddr, &w->asker, sizeof(w->asker));
	f->nd.type = ND_SOLICITATION;
	f->nd.target = *target;
	f->nd.option_type = ND_SOURCE_MAC;
	f->nd.option_len = 1;
	copy_mac(f->nd.option_mac, mac);
	f->nd.checksum = nd_checksum(f);
	r->l4_offset = ETH_HLEN + sizeof(f->ip);
	r->flow = (union flow){ .source = w->asker, .protocol = IPPROTO_ICMPV6 };
	__builtin_memcpy(&r->flow.dest, &f->ip.daddr, sizeof(f->ip.daddr));
	r->eth = f->eth;
	return sizeof(*f);
}

/*
 * The skb becomes the question for scratch.next, from scratch.asker: scratch.reply. mac: of the neighbour that is asked
 * again; NULL: all are asked. Says whether it did.
 */
static __noinline bool become_question(struct __sk_buff *ctx, const struct packet *p, __u32 router,
				       const struct mac *mac)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	const __u8 *to = mac ? mac->bytes : NULL;
	struct asking a;
	__u32 side, len;

	if (!w || !s)
		return false;
	side = side_of(router, w->next.switch_id);
	if (!find_asker(router, side, &a))
		return false;
	__builtin_memset(&w->reply, 0, sizeof(w->reply));
	w->reply.hook = p->hook;
	w->reply.segments = 1;
	w->reply.changes = p->changes;
	w->reply.switch_id = side;
	w->reply.action = TCX_DROP;
	len = is_mapped_v4(&w->next.addr) ? write_arp_request(w, &w->next.addr, a.mac.bytes, to) :
					    write_solicitation(w, &w->next.addr, a.mac.bytes, to);
	if (replace_frame(ctx, p, w->bytes + FRAME_AT, len) < 0)
		return false;
	w->reply.len = w->reply.segment_len = len;
	hash_flow(s, &w->reply);
	return true;
}

/* Where a question goes: everywhere on the side, or to where the neighbour's MAC is. It has a stack of its own. */
static __noinline bool find_asked(__u32 router, bool to_all)
{
	struct scratch *w = get_scratch();
	struct destination *d;
	struct lswitch *sw;
	struct packet *r;
	struct asking a;

	if (!w)
		return false;
	d = &w->reply_to;
	r = &w->reply;
	if (!find_asker(router, r->switch_id, &a))
		return false;
	clear_destination(d);
	d->is_reply = true;
	d->switch_id = r->switch_id;
	d->source_key = a.key;
	leave_as_it_came(d, r);
	d->port = (struct port_id){ .ifindex = a.ifindex };
	sw = bpf_map_lookup_elem(&switches, &r->switch_id);
	if (a.ifindex)
		d->kind = TO_SENDER;
	else if (to_all)
		d->kind = TO_FLOOD;
	else if (sw)
		send_to_place(d, find_mac(d->switch_id, d->eth.h_dest, sw, &w->found) ? &w->found :
											NULL);
	return true;
}

/* The packet that needs the MAC asks everybody for it. */
INLINE bool ask_all(struct __sk_buff *ctx, struct scratch *w, const struct packet *p, __u32 router)
{
	struct neighbour_key key = { .switch_id = side_of(router, w->next.switch_id),
				     .addr = w->next.addr };
	struct asked *before = bpf_map_lookup_elem(&asked, &key);
	struct asked now = { .at = coarse_now_ns(), .tries = 1 };

	if (before && before->tries < MOST_TRIES)
		now.tries = before->tries + 1;
	if (!become_question(ctx, p, router, NULL) || !find_asked(router, true))
		return false;
	bpf_map_update_elem(&asked, &key, &now, BPF_ANY);
	return true;
}

/* The copy, where it comes out. number: in its mark. Whether it became the question. Global: as send_probe(). */
__noinline int end_probe(struct __sk_buff *ctx, struct packet *p, __u32 number)
{
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	struct found_neighbour *f;
	struct route *network;
	struct router *r;
	struct probe *probe;
	struct mac mac;
	bool to_all;
	__u32 router;

	probe = bpf_map_lookup_elem(&probes, &number);
	if (!p || !w || !probe)
		return false;
	router = probe->router;
	key.switch_id = probe->side;
	key.addr = probe->addr;
	network = network_of(w, is_mapped_v4(&key.addr), router, key.switch_id, &key.addr);
	f = bpf_map_lookup_elem(&found, &key);
	r = bpf_map_lookup_elem(&routers, &router);
	if (!network || !f || !r)
		return false;
	mac = f->mac;
	to_all = f->tries >= MOST_TRIES && !(r->flags & ROUTER_GATEWAY_ELSEWHERE);
	w->asker = network->own;
	w->next.addr = key.addr;
	w->next.switch_id = network->switch_id;
	p->gso_size = 0;
	p->flow.protocol = 0;
	return become_question(ctx, p, router, to_all ? NULL : &mac) && find_asked(router, to_all);
}
