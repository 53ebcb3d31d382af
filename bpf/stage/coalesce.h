/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coalescer: a veth pair that apply creates where the kernel cannot coalesce the packets of a Geneve tunnel, for
 * it has no Geneve. What it does know is VXLAN. So the packets of a TCP stream become VXLAN packets, GRO at the far
 * end of the pair joins them, and they come back as super-packets to the same program:
 *
 *     host's namespace                                   the unmarker's namespace, where VXLAN has a socket
 *     from_underlay ── bpf_redirect(ovl-coa0) ─────────► ovl-coa1: GRO, then the program back_to_peer
 *     from_underlay, hook from_coalescer ◄── ovl-coa0 ◄─┘
 *
 *     | IP | UDP: port | Geneve: 8, VNI | option: 8, keys     | frame    as it came
 *     | IP | UDP: 4789 | VXLAN: flags 8, keys, VNI 24, keys   | frame    on the way: 8 bytes less
 *
 * GRO joins what is alike in all these fields. The keys stand where VXLAN has reserved bits; no wire sees them. Before
 * vtep_check.
 */
#pragma once

#include "lib/detour.h"
#include "lib/devices.h"
#include "lib/outer.h"

#define COALESCE_MIN_LEN 1000 /* of a packet: less is no full segment */
#define SINGLES_OF_A_STREAM 16
#define OVN_OPTION_LEN 8
#define OVN_OPTION_WORDS 2 /* in units of 4 bytes */
#define GENEVE_CRITICAL_FLAG 0x40
/* What a NIC found out about the checksum inside stays true. */
#define COALESCE_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

#define IPV4_WITHOUT_OPTIONS 0x45

/*
 * Behind the outer IP header: what we send ourselves, with OVN's option alone. Any other packet goes on as it is. Read
 * where it lies, without a copy.
 */
struct geneve_with_keys {
	struct udphdr udp;
	struct geneve_header geneve;
	struct geneve_option option;
	__u8 keys[4];
	struct ethhdr eth;
	__u8 inner[10]; /* of the IP header inside: as far as its protocol */
} __attribute__((packed, aligned(2)));

struct geneve_in_ipv4 {
	struct iphdr ip;
	struct geneve_with_keys in;
} __attribute__((packed, aligned(2)));

struct geneve_in_ipv6 {
	struct ipv6hdr ip;
	struct geneve_with_keys in;
} __attribute__((packed, aligned(2)));

/* GRO joins only TCP here. */
INLINE bool has_tcp(const struct geneve_with_keys *h)
{
	if (h->eth.h_proto == ETHERTYPE_IPV4)
		return h->inner[9] == IPPROTO_TCP;
	return h->eth.h_proto == ETHERTYPE_IPV6 && h->inner[6] == IPPROTO_TCP;
}

INLINE bool has_keys_alone(const struct settings *s, const struct geneve_with_keys *h)
{
	return h->udp.dest == bpf_htons(s->tunnel_port) &&
	       h->geneve.version_len == OVN_OPTION_WORDS && h->geneve.flags == GENEVE_CRITICAL_FLAG &&
	       h->geneve.protocol == bpf_htons(ETH_P_TEB) && !h->geneve.reserved &&
	       is_ovns(&h->option) && h->option.len == 1 && !h->udp.check && has_tcp(h);
}

INLINE void to_vxlan(struct vxlan_with_keys *to, const struct geneve_with_keys *from)
{
	to->udp.source = from->udp.source;
	to->udp.dest = bpf_htons(UNMARK_PORT);
	to->udp.len = bpf_htons(bpf_ntohs(from->udp.len) - OVN_OPTION_LEN);
	to->udp.check = 0;
	to->flags = VXLAN_FLAG_VNI;
	__builtin_memcpy(to->keys, from->keys, sizeof(to->keys));
	to->last_key = from->keys[3];
	__builtin_memcpy(to->vni, from->geneve.vni, sizeof(to->vni));
}

/*
 * Many segments and no super-packet among them, nor in the last second: neither the wire nor the kernel coalesces this
 * stream, and these are no retransmissions. What tells streams apart is the UDP source port; one stays here until it
 * was silent, so that no packet overtakes another.
 */
INLINE bool is_stream(struct __sk_buff *ctx, __be16 source_port)
{
	__u32 slot = source_port, now = flow_time();
	struct flow_way *flow = bpf_map_lookup_elem(&flow_ways, &slot);

	if (!flow)
		return false;
	if (!is_lately(flow->coalesced, now)) {
		if (ctx->gso_size) {
			flow->single = 0;
			flow->whole = now;
		} else if (ctx->len >= COALESCE_MIN_LEN) {
			flow->single++;
		}
		if (flow->single < SINGLES_OF_A_STREAM || is_lately(flow->whole, now))
			return false;
		flow->single = 0;
	}
	if (flow->coalesced != now)
		flow->coalesced = now;
	return true;
}

INLINE int shorten(struct __sk_buff *ctx, const void *header, __u32 len)
{
	if (bpf_skb_adjust_room(ctx, -OVN_OPTION_LEN, BPF_ADJ_ROOM_NET, COALESCE_FLAGS) < 0)
		return -1;
	bpf_skb_store_bytes(ctx, ETH_HLEN, header, len, BPF_F_RECOMPUTE_CSUM);
	return 0;
}

/* Into the coalescer, which is there. */
INLINE bool has_way(struct __sk_buff *ctx, const struct settings *s, __be16 source_port)
{
	__u32 changes;

	return is_stream(ctx, source_port) && hook_is_there(ctx, &changes) &&
	       is_there(changes, s->coalescer_ifindex);
}

INLINE int coalesce_ipv4(struct __sk_buff *ctx, const struct settings *s)
{
	const struct geneve_in_ipv4 *h = (void *)(long)ctx->data + ETH_HLEN;
	struct {
		struct iphdr ip;
		struct vxlan_with_keys vxlan;
	} to;
	__u32 sum;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return -1;
	to.ip = h->ip;
	if (*(const __u8 *)&to.ip != IPV4_WITHOUT_OPTIONS || to.ip.protocol != IPPROTO_UDP ||
	    to.ip.frag_off & ~bpf_htons(0x4000) || bpf_ntohs(to.ip.tot_len) + ETH_HLEN != ctx->len ||
	    to.ip.daddr != *(const __be32 *)&s->vtep.bytes[12] || !has_keys_alone(s, &h->in) ||
	    !has_way(ctx, s, h->in.udp.source))
		return -1;
	/* RFC 1624: what was wrong stays wrong. */
	sum = (__u16)~to.ip.check + (__u16)~to.ip.tot_len;
	to.ip.tot_len = bpf_htons(bpf_ntohs(to.ip.tot_len) - OVN_OPTION_LEN);
	to.ip.check = ~csum_fold(sum + to.ip.tot_len);
	to_vxlan(&to.vxlan, &h->in);
	return shorten(ctx, &to, sizeof(to));
}

INLINE int coalesce_ipv6(struct __sk_buff *ctx, const struct settings *s)
{
	const struct geneve_in_ipv6 *h = (void *)(long)ctx->data + ETH_HLEN;
	struct {
		struct ipv6hdr ip;
		struct vxlan_with_keys vxlan;
	} to;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return -1;
	to.ip = h->ip;
	if (to.ip.version != 6 || to.ip.nexthdr != IPPROTO_UDP ||
	    bpf_ntohs(to.ip.payload_len) + sizeof(to.ip) + ETH_HLEN != ctx->len ||
	    __builtin_memcmp(&to.ip.daddr, &s->vtep, sizeof(to.ip.daddr)) ||
	    !has_keys_alone(s, &h->in) || !has_way(ctx, s, h->in.udp.source))
		return -1;
	to.ip.payload_len = bpf_htons(bpf_ntohs(to.ip.payload_len) - OVN_OPTION_LEN);
	to_vxlan(&to.vxlan, &h->in);
	return shorten(ctx, &to, sizeof(to));
}

/*
 * VERDICT_COALESCE: the packet is ready for the coalescer, and is counted. GO_ON: it is as it came. Global: it has a
 * stack of its own.
 */
__noinline enum verdict coalesce(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	__u32 slot = HOOK_FROM_UNDERLAY * VERDICT_SLOTS + VERDICT_COALESCE;
	__u32 segments = ctx->gso_segs, len = ctx->len;
	struct counter *c;
	int failed;

	if (!s || ctx->protocol != (s->family == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6) ||
	    ctx->vlan_present)
		return GO_ON;
	failed = s->family == 4 ? coalesce_ipv4(ctx, s) : coalesce_ipv6(ctx, s);
	if (failed)
		return GO_ON;
	c = bpf_map_lookup_elem(&verdict_counters, &slot);
	if (c) {
		c->packets++;
		c->segments += segments ? segments : 1;
		c->bytes += len;
	}
	ctx->tc_index = DETOUR;
	return VERDICT_COALESCE;
}
