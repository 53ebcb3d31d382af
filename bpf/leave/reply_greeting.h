/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers to greetings of remotes (lib/outer.h), written over the question: what this host can take, and how long
 * a probe was that came. Part of reply.
 */
#pragma once

#include "lib/cookie.h"
#include "lib/detour.h"
#include "lib/limit.h"
#include "lib/outer.h"
#include "lib/path_mtu.h"
#include "lib/tell.h"

#define MOST_SIZES 520000 /* bytes of answers to probes of one remote in a tenth of a second */
#define MOST_ABILITIES 10 /* of each kind of answer to one remote in a tenth of a second */

INLINE long swap_addresses(struct __sk_buff *ctx, const struct settings *s, const struct addr *sender)
{
	/* The sums of both stay: that of the IPv4 header too. */
	if (s->family == 4)
		return bpf_skb_store_bytes(ctx, ETH_HLEN + 12, &s->vtep.bytes[12], 4, 0) ||
		       bpf_skb_store_bytes(ctx, ETH_HLEN + 16, &sender->bytes[12], 4, 0);
	return bpf_skb_store_bytes(ctx, ETH_HLEN + 8, &s->vtep, 16, 0) ||
	       bpf_skb_store_bytes(ctx, ETH_HLEN + 24, sender, 16, 0);
}

/* The UDP header before a tunnel header without options, behind which the greeting is. */
INLINE long load_udp_before(struct __sk_buff *ctx, __u32 at, struct udphdr *udp)
{
	return bpf_skb_load_bytes(ctx, at - sizeof(struct vxlan_header) - sizeof(*udp), udp,
				  sizeof(*udp));
}

/* In an answer, behind which there is room. */
INLINE bool write_cookie(struct __sk_buff *ctx, const struct destination *d, __u32 at)
{
	struct cookie cookie = {};

	return make_cookie(&cookie, &d->remote, cookie_epoch()) == 0 &&
	       bpf_skb_store_bytes(ctx, at, &cookie, sizeof(cookie), 0) == 0;
}

/*
 * With our abilities: a question becomes the answer, with our cookie; an answer becomes what confirms it. Either is as
 * long as what came, and there are no more of one remote than MOST_ABILITIES, whoever has written its address.
 * d->tell_rest: where the greeting is, behind a tunnel header without options.
 */
INLINE bool write_abilities(struct __sk_buff *ctx, struct scratch *w, const struct destination *d)
{
	const struct ethhdr eth = { .h_proto = ctx->protocol };
	struct limit_key limit = { .limit = LIMIT_ABILITIES };
	struct remote *r = bpf_map_lookup_elem(&remotes, &d->remote);
	struct settings *s = get_settings();
	const __be16 no_csum = 0;
	__u32 at = d->tell_rest, cookies = at + sizeof(struct greeting);
	__u8 said[2];
	struct udphdr udp;

	if (!s || !r || load_udp_before(ctx, at, &udp) < 0 ||
	    bpf_skb_load_bytes(ctx, at + offsetof(struct greeting, kind), said, sizeof(said)) < 0)
		return false;
	said[0] = said[0] == GREETING_ASK ? GREETING_ANSWER : GREETING_CONFIRM;
	said[1] = takes_whole_udp(s) ? ABILITY_WHOLE_UDP | ABILITY_ROUTES_WHOLE_UDP : 0;
	limit.switch_id = ZONE_REMOTE | r->counters;
	limit.key = said[0];
	if (!is_within_limit(&limit, 1, MOST_ABILITIES, SECOND / 10, now_ns()))
		return false;
	/* An older build's has no room for cookies. */
	if (said[0] == GREETING_ANSWER &&
	    bpf_ntohs(udp.len) >= sizeof(udp) + sizeof(struct vxlan_header) +
					  sizeof(struct greeting) + sizeof(struct greeting_cookies) &&
	    !write_cookie(ctx, d, cookies + offsetof(struct greeting_cookies, answerer)))
		return false;
	if (bpf_skb_store_bytes(ctx, 0, &eth, sizeof(eth), 0) < 0 ||
	    swap_addresses(ctx, s, &d->remote) ||
	    bpf_skb_store_bytes(ctx, at - sizeof(struct vxlan_header) - 2, &no_csum, sizeof(no_csum),
				0) ||
	    bpf_skb_store_bytes(ctx, at + offsetof(struct greeting, kind), said, sizeof(said), 0))
		return false;
	w->reply = (struct packet){ .action = TCX_DROP };
	w->reply_to = (struct destination){ .kind = TO_REMOTE, .is_whole = true, .is_reply = true };
	return true;
}

/* Bytes of the shortest probe as an outer IP packet. */
INLINE __u32 least_probe(const struct settings *s)
{
	return (s->family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	       sizeof(struct udphdr) + sizeof(struct vxlan_header) + sizeof(struct size_probe);
}

/* Lengths, and what a header has at its start. */
INLINE long write_probe_headers(struct __sk_buff *ctx, const struct settings *s, __u32 len)
{
	struct {
		__be16 len;
		__be16 checksum;
	} udp = {};
	struct ipv6hdr ip6 = { .version = 6, .nexthdr = IPPROTO_UDP, .hop_limit = 64 };
	struct iphdr ip = { .version = 4,
			    .ihl = 5,
			    .tot_len = bpf_htons(len),
			    .frag_off = bpf_htons(IP_DONT_FRAGMENT),
			    .ttl = 64,
			    .protocol = IPPROTO_UDP };
	__u32 ip_len = s->family == 4 ? sizeof(ip) : sizeof(ip6);

	udp.len = bpf_htons(len - ip_len);
	if (bpf_skb_store_bytes(ctx, ETH_HLEN + ip_len + offsetof(struct udphdr, len), &udp,
				sizeof(udp), 0) < 0)
		return -1;
	if (s->family == 6) {
		ip6.payload_len = bpf_htons(len - ip_len);
		return bpf_skb_store_bytes(ctx, ETH_HLEN, &ip6, offsetof(struct ipv6hdr, saddr), 0);
	}
	if (bpf_skb_load_bytes(ctx, ETH_HLEN + offsetof(struct iphdr, saddr), &ip.saddr, 8) < 0)
		return -1;
	ip.check = ~csum_ipv4_header(&ip);
	return bpf_skb_store_bytes(ctx, ETH_HLEN, &ip, offsetof(struct iphdr, saddr), 0);
}

/* Whether who sent a probe, so much longer than the shortest, has heard this host: it shows the cookie. */
INLINE bool is_proven(struct __sk_buff *ctx, const struct destination *d, __u32 at, __u32 more)
{
	struct cookie shown;

	return more >= sizeof(shown) &&
	       bpf_skb_load_bytes(ctx, at + offsetof(struct proven_probe, cookie), &shown,
				  sizeof(shown)) == 0 &&
	       is_cookie_of(&shown, &d->remote);
}

/*
 * As long as the probe at d->tell_rest wants it, where the uplink takes that: what came, and what is known of the way
 * back. Longer than the probe only for who has heard this host before, and no more of one remote than MOST_SIZES.
 */
INLINE bool write_size(struct __sk_buff *ctx, struct scratch *w, const struct destination *d)
{
	struct size_probe *q = (struct size_probe *)w->bytes;
	const struct ethhdr eth = { .h_proto = ctx->protocol };
	struct limit_key limit = { .limit = LIMIT_SIZES };
	const struct path_mtu *known;
	struct settings *s = get_settings();
	__u32 at = d->tell_rest, len, came;
	struct udphdr udp;
	struct remote *r;

	r = bpf_map_lookup_elem(&remotes, &d->remote);
	if (!s || !r || at != ETH_HLEN + least_probe(s) - sizeof(*q) ||
	    bpf_skb_load_bytes(ctx, at, q, sizeof(*q)) < 0 || load_udp_before(ctx, at, &udp) < 0)
		return false;
	limit.switch_id = ZONE_REMOTE | r->counters;
	/* Padding may follow. */
	came = at - ETH_HLEN - sizeof(struct vxlan_header) - sizeof(udp) + bpf_ntohs(udp.len);
	len = bpf_ntohs(q->answer_len);
	if (len < least_probe(s) || len > s->underlay_mtu)
		len = least_probe(s);
	if (len > came && !is_proven(ctx, d, at, came - least_probe(s)))
		len = came;
	if (!is_within_limit(&limit, len, MOST_SIZES, SECOND / 10, now_ns()))
		return false;
	known = known_path_mtu(r->counters);
	q->kind = GREETING_PROBE_ANSWER;
	q->came_len = bpf_htons(came);
	q->uplink_mtu = bpf_htons(s->underlay_mtu < 0xffff ? s->underlay_mtu : 0xffff);
	q->path_mtu = known ? bpf_htons(known->mtu) : 0;
	q->hop = known ? known->hop : (struct addr){};
	q->pad = 0;
	q->pad2 = 0;
	/* Shorter first: behind the answer there are zeros. */
	if (bpf_skb_change_tail(ctx, at + sizeof(*q), 0) < 0 ||
	    bpf_skb_change_tail(ctx, ETH_HLEN + len, 0) < 0 ||
	    bpf_skb_store_bytes(ctx, 0, &eth, sizeof(eth), 0) < 0 ||
	    swap_addresses(ctx, s, &d->remote) || write_probe_headers(ctx, s, len) < 0 ||
	    bpf_skb_store_bytes(ctx, at, q, sizeof(*q), 0) < 0)
		return false;
	if (len >= least_probe(s) + sizeof(struct cookie) &&
	    !write_cookie(ctx, d, at + offsetof(struct proven_probe, cookie)))
		return false;
	w->reply = (struct packet){ .action = TCX_DROP };
	w->reply_to = (struct destination){ .kind = TO_REMOTE, .is_whole = true, .is_reply = true };
	return true;
}
