/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage neighbour: what ARP (RFC 826) and neighbour discovery (RFC 4861 section 7.2) say of who has an address, noted
 * for the routers of a switch, or of a leg, where the fabric does not know it (lib/found.h). Answers to a router end
 * here, and its other hosts hear them. Nothing is learned from what nobody asked for, but that a neighbour moved.
 */
#pragma once

#include <linux/errno.h>

#include "lib/fdb.h"
#include "lib/found.h"
#include "lib/neighbour.h"

#define FORGET_TIME (60 * SECOND)

/* What a message says; in scratch.bytes, behind the message. */
#define HEARD_AT 128
struct heard {
	struct addr addr; /* somebody has this address, */
	struct mac mac;   /* at this MAC */
	__u16 answers;    /* an ARP reply or an advertisement; else a question for target */
	__u16 confirms;   /* if it is to a router: somebody was asked */
	__u16 overrides;  /* another MAC */
	__u16 has_mac;    /* else the MAC that is known stays */
	struct addr target;
};

INLINE bool hear_arp(struct __sk_buff *ctx, __u32 at, struct heard *h)
{
	struct arp_ipv4 arp;

	if (load_bytes(ctx, at + ETH_HLEN, &arp, sizeof(arp)) < 0 || !is_proper_arp(&arp))
		return false;
	h->answers = h->confirms = arp.operation == bpf_htons(ARP_REPLY);
	h->overrides = h->has_mac = true;
	h->addr = mapped_v4(arp.sender_ip);
	h->target = mapped_v4(arp.target_ip);
	copy_mac(h->mac.bytes, arp.sender_mac);
	return h->answers || arp.operation == bpf_htons(ARP_REQUEST);
}

INLINE bool hear_nd(struct __sk_buff *ctx, const struct packet *p, struct nd_frame *f,
		    struct heard *h)
{
	if (!read_nd(ctx, f, p->offset))
		return false;
	h->answers = f->nd.type == ND_ADVERTISEMENT;
	h->has_mac = has_mac(f);
	copy_mac(h->mac.bytes, f->nd.option_mac);
	h->target = f->nd.target;
	h->confirms = h->answers && f->nd.flags & ND_SOLICITED;
	h->overrides = !h->answers || f->nd.flags & ND_OVERRIDE;
	if (h->answers)
		h->addr = f->nd.target;
	else
		__builtin_memcpy(&h->addr, &f->ip.saddr, sizeof(h->addr));
	return (h->answers || h->has_mac) && !is_mapped_v4(&h->addr);
}

/* The message, into scratch. Global, for the stack's sake. */
__noinline int read_message(struct __sk_buff *ctx, const struct packet *p)
{
	struct scratch *w = get_scratch();
	struct heard *h;

	if (!p || !w)
		return false;
	_Static_assert(HEARD_AT >= FRAME_AT + sizeof(struct nd_frame), "the message has its place");
	h = (struct heard *)(w->bytes + HEARD_AT);
	return p->eth.h_proto == bpf_htons(ETH_P_ARP) ?
		       hear_arp(ctx, p->offset, h) :
		       hear_nd(ctx, p, (struct nd_frame *)(w->bytes + FRAME_AT), h);
}

INLINE bool is_no_station(const __u8 *mac)
{
	return is_group(mac) || !(mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

/* Whether the port or the host that sent the message is the one that has an entry of the FDB. */
INLINE bool is_senders(const struct packet *p, const struct scratch *w, const struct fdb_entry *entry)
{
	if (!is_from_underlay(p))
		return entry->key == p->source_key;
	return !entry->port.ifindex && (is_on_vlan(p->switch_id) || entry->flags & FDB_ROAMS ||
					same_addr(&entry->remote, &w->view.source));
}

/* Whether the fabric lets the MAC be there. Of the frame's source port_security and origin have judged. */
INLINE bool is_believed(const struct packet *p, const struct scratch *w, __u32 side,
			const struct heard *h)
{
	struct fdb_entry *entry;

	if (is_no_station(h->mac.bytes))
		return false;
	if (is_leg(side))
		return true;
	entry = fdb_entry_of(side, h->mac.bytes);
	return !entry || (!entry->router &&
			  (same_mac(h->mac.bytes, p->eth.h_source) || is_senders(p, w, entry)));
}

/* An advertisement without a MAC is of the one that is known. False: none is. */
INLINE bool complete_mac(struct heard *h, const struct neighbour_key *key)
{
	struct found_neighbour *known = h->has_mac ? NULL : bpf_map_lookup_elem(&found, key);

	if (known)
		h->mac = known->mac;
	return h->has_mac || known;
}

INLINE bool is_gateway_here(__u32 router)
{
	struct router *r = bpf_map_lookup_elem(&routers, &router);

	return r && r->flags & ROUTER_GATEWAY_HERE;
}

/* The router that a message is to: an answer to its MAC, or a question that is answered for it here. 0: none. */
INLINE __u32 router_of(const struct packet *p, const struct destination *d, const struct heard *h)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = h->target };
	struct fdb_entry *entry;
	struct neighbour *n;

	if (p->hook == HOOK_FROM_LEG)
		return d->router;
	if (h->answers) {
		entry = is_group(p->eth.h_dest) ? NULL : fdb_entry_of(p->switch_id, p->eth.h_dest);
		return entry ? entry->router : 0;
	}
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n || !(n->flags & NEIGHBOUR_INTERFACE) ||
	    (is_from_underlay(p) && !(n->flags & NEIGHBOUR_GATEWAY)) ||
	    !(is_group(p->eth.h_dest) || same_mac(p->eth.h_dest, n->mac.bytes)))
		return 0;
	entry = fdb_entry_of(p->switch_id, n->mac.bytes);
	return entry ? entry->router : 0;
}

/* Those that spoke first, of all; the others of one owner, or of all. */
static long forget_if_unconfirmed(void *map, const void *id, void *value, void *context)
{
	const struct found_neighbour *f = value;
	struct sweep *s = context;

	/* Nobody uses what is that old: no side changes. */
	return sweep_entry(s, map, &found_counts, id, owner_of_found(f),
			   s->now > f->confirmed + FORGET_TIME, !f->unasked);
}

__noinline int forget_unconfirmed(struct learning *of, __u32 side, __u32 owner, __u64 now,
				  bool of_all)
{
	struct sweep s = {
		.now = now,
		.asking = { .switch_id = side, .key = owner },
		.of_all = of_all,
	};

	if (!of || !may_sweep(&found_counts, now))
		return 0;
	bpf_for_each_map_elem(&found, forget_if_unconfirmed, &s, 0);
	of->macs = s.number;
	return 0;
}

/* Writes an entry and counts it; its former owner no longer does. 0, or negative: there is no room. */
INLINE long write_note(const struct neighbour_key *key, const struct found_neighbour *entry,
		       struct learning *of)
{
	struct found_neighbour *former = bpf_map_lookup_elem(&found, key);
	__u32 former_owner = former ? owner_of_found(former) : 0;
	bool counts = !former || former_owner != owner_of_found(entry);
	long failed = bpf_map_update_elem(&found, key, entry, former ? BPF_EXIST : BPF_NOEXIST);

	if (failed == -EEXIST || failed == -ENOENT)
		return 0; /* another CPU was first, and counted */
	if (failed)
		return failed;
	if (former)
		change_side(key->switch_id);
	if (counts)
		__sync_fetch_and_add(&of->macs, 1);
	if (counts && former)
		uncount(&found_counts, key->switch_id, former_owner);
	return 0;
}

/* One that is new, has another MAC, or counts for another owner. False: there is no room. */
INLINE bool note_new(const struct neighbour_key *key, const struct found_neighbour *entry,
		     const struct found_neighbour *former, __u64 now)
{
	__u32 limit = entry->key ? MAX_FOUND_AT_PORT : MAX_FOUND_BEHIND,
	      owner = owner_of_found(entry);
	struct learning *of = get_count(&found_counts, key->switch_id, owner);
	bool counts = !former || owner_of_found(former) != owner;

	if (!of)
		return false;
	if (counts && of->macs >= limit)
		forget_unconfirmed(of, key->switch_id, owner, now, false);
	if (counts && of->macs >= limit)
		return false;
	if (write_note(key, entry, of) < 0) {
		forget_unconfirmed(of, key->switch_id, owner, now, true);
		if (write_note(key, entry, of) < 0)
			return false;
	}
	bpf_map_delete_elem(&asked, key);
	return true;
}

/* Whether a router has asked for an address, and this is the first message since that says who has it. */
INLINE bool was_asked(const struct neighbour_key *key, const struct found_neighbour *known,
		      __u32 confirms)
{
	return known ? confirms && known->tries : !!bpf_map_lookup_elem(&asked, key);
}

/* Somebody else claims the address of a neighbour, and does not override it: it is stale (RFC 4861 section 7.2.5). */
INLINE void doubt(struct found_neighbour *f, __u32 side, __u64 now)
{
	if (now >= f->confirmed + REACHABLE_TIME)
		return;
	f->confirmed = now > REACHABLE_TIME ? now - REACHABLE_TIME : 0;
	change_side(side);
}

/* Of one that was found before, or (is_new) can be. False: there is no room for it. Global, for the verifier's sake. */
__noinline int note(const struct neighbour_key *key, const struct heard *h, __u32 port_key,
		    __u32 is_new, __u32 confirms)
{
	struct found_neighbour *f, entry = { .key = port_key };
	__u64 now = coarse_now_ns();
	bool same, stays;

	if (!key || !h)
		return false;
	entry.mac = h->mac;
	f = bpf_map_lookup_elem(&found, key);
	if (!f && !is_new)
		return true;
	same = f && same_mac(f->mac.bytes, h->mac.bytes);
	if (f && !same && !h->overrides) {
		doubt(f, key->switch_id, now);
		return true;
	}
	entry.unasked = (!f || f->unasked) && !was_asked(key, f, confirms);
	stays = same && f->key == port_key;
	entry.confirmed = confirms             ? now :
			  same                 ? f->confirmed :
			  now > REACHABLE_TIME ? now - REACHABLE_TIME :
						 0;
	if (!(stays && f->unasked == entry.unasked) && note_new(key, &entry, f, now))
		return true;
	if (!stays)
		return false;
	/* In place: a new entry would give the memory of this one, which others read, to another. */
	if (confirms && (f->tries || now >= f->confirmed + SECOND)) {
		f->confirmed = now;
		f->tries = 0;
	}
	return true;
}

/* From a port, an answer to a router is for all of its hosts. */
INLINE enum verdict tell_hosts(const struct packet *p, struct destination *d, __u32 router)
{
	bool on_vlan = is_on_vlan(p->switch_id);

	if (p->hook != HOOK_FROM_PORT || (on_vlan && is_gateway_here(router)))
		return VERDICT_TO_ROUTER;
	d->kind = on_vlan ? TO_VLAN : TO_FLOOD;
	d->to_routers = d->to_hosts_only = true;
	return GO_ON;
}

INLINE bool can_be_found(struct scratch *w, __u32 router, const struct neighbour_key *key)
{
	struct neighbour *n;

	n = is_leg(key->switch_id) ? NULL : bpf_map_lookup_elem(&neighbours, key);
	if (n && !(n->flags & NEIGHBOUR_FLOATING))
		return false;
	return network_of(w, is_mapped_v4(&key->addr), router, key->switch_id, &key->addr);
}

/*
 * A message by ARP or ND, of a side where routers ask. is_ours: not only overheard on a leg. GO_ON with a destination:
 * it needs no other stage. Global: few packets are a message.
 */
__noinline enum verdict hear(struct __sk_buff *ctx, const struct packet *p, struct destination *d,
			     __u32 is_ours)
{
	struct scratch *w = get_scratch();
	struct neighbour_key key = {};
	bool is_arp, on_leg, is_new;
	struct heard *h;
	__u32 router;

	if (!p || !d || !w || gso_size_of(ctx))
		return GO_ON;
	h = (struct heard *)(w->bytes + HEARD_AT);
	is_arp = p->eth.h_proto == bpf_htons(ETH_P_ARP);
	on_leg = p->hook == HOOK_FROM_LEG;
	if (!read_message(ctx, p))
		return GO_ON;
	router = is_ours ? router_of(p, d, h) : 0;
	/* Of the hosts on a VLAN only the router's acting host hears the answers to it. */
	if (router && h->answers && is_from_underlay(p) && is_on_vlan(p->switch_id) &&
	    !is_gateway_here(router))
		return GO_ON;
	d->to_routers = is_group(p->eth.h_dest) && (is_arp || h->answers) && !on_leg;
	key.switch_id = on_leg ? side_of(d->router, SWITCH_ID_LEG) : p->switch_id;
	key.addr = h->addr;
	is_new = router && can_be_found(w, router, &key);
	if (!(is_new || bpf_map_lookup_elem(&found, &key)) || !complete_mac(h, &key) ||
	    !is_believed(p, w, key.switch_id, h))
		return router && h->answers ? VERDICT_TO_ROUTER : GO_ON;
	if (!note(&key, h, p->source.ifindex && !on_leg ? p->source_key : 0, is_new,
		  router && h->confirms))
		return router && h->answers ? DROP(NEIGHBOUR_LIMIT) : GO_ON;
	return router && h->answers ? tell_hosts(p, d, router) : GO_ON;
}

/* The stage: what may be a message. */
INLINE enum verdict neighbour(struct __sk_buff *ctx, const struct packet *p, struct destination *d,
			      const struct lswitch *sw)
{
	if ((sw && !(sw->flags & SWITCH_ASKS)) || has_vlan(&p->tag))
		return GO_ON;
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP) ||
	    (p->flow.protocol == IPPROTO_ICMPV6 && p->eth.h_proto == ETHERTYPE_IPV6))
		return hear(ctx, p, d, true);
	return GO_ON;
}

/* What stays with the host, on a leg. Nothing is parsed. */
INLINE void overhear(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	if (!d->router || has_vlan(&p->in_tag) || bpf_skb_load_bytes(ctx, 0, &p->eth, ETH_HLEN) < 0)
		return;
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP) || p->eth.h_proto == ETHERTYPE_IPV6)
		hear(ctx, p, d, false);
}
