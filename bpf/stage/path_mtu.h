/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage path_mtu: an ICMP error about a tunnel packet of ours that was too large for the underlay (RFC 1191, RFC 8201)
 * becomes the path MTU of its remote. Whoever sends it, it is only believed of what we could have sent. The host gets
 * it too: the packet's way is not touched.
 */
#pragma once

#include "lib/devices.h"
#include "lib/outer.h"
#include "lib/path_mtu.h"
#include "lib/sound.h"

#define ICMP_TOO_BIG 3 /* type, and code */
#define ICMP_TOO_BIG_CODE 4
#define ICMPV6_TOO_BIG 2
#define ERROR_MOST 1240 /* bytes of an ICMP message: of 1280 with its IPv6 header */
#define ERROR_LEN 8     /* its header */
#define MIN_MTU 68      /* RFC 791 */

/* An error that has come: where the message is, and what it says. */
struct mtu_error {
	__u32 at;
	__u32 len;
	__u32 mtu;
	__u32 quoted_len; /* of the IP packet that it quotes */
	struct addr from;
	struct addr remote; /* to which that went */
};

/* The IP header of the error. */
INLINE bool find_error_v4(struct __sk_buff *ctx, const struct settings *s, struct mtu_error *e,
			  __u32 *sum)
{
	struct iphdr ip;

	if (load_bytes(ctx, ETH_HLEN, &ip, sizeof(ip)) < 0 || ip.version != 4 || ip.ihl < 5 ||
	    ip.protocol != IPPROTO_ICMP ||
	    ip.frag_off & bpf_htons(IP_FRAGMENT_OFFSET | IP_MORE_FRAGMENTS) ||
	    ip.daddr != v4_of(&s->vtep) || bpf_ntohs(ip.tot_len) < ip.ihl * 4u ||
	    sum_bytes(ctx, ETH_HLEN, ip.ihl * 4, 0) != 0xffff)
		return false;
	e->at = ETH_HLEN + ip.ihl * 4;
	e->len = bpf_ntohs(ip.tot_len) - ip.ihl * 4u;
	e->from = mapped_v4(ip.saddr);
	*sum = 0;
	return true;
}

INLINE bool find_error_v6(struct __sk_buff *ctx, const struct settings *s, struct mtu_error *e,
			  __u32 *sum)
{
	struct ipv6hdr ip;

	if (load_bytes(ctx, ETH_HLEN, &ip, sizeof(ip)) < 0 || ip.version != 6 ||
	    ip.nexthdr != IPPROTO_ICMPV6 || __builtin_memcmp(&ip.daddr, &s->vtep, sizeof(ip.daddr)))
		return false;
	e->at = ETH_HLEN + sizeof(ip);
	e->len = bpf_ntohs(ip.payload_len);
	__builtin_memcpy(&e->from, &ip.saddr, sizeof(e->from));
	*sum = bpf_csum_diff(NULL, 0, (__be32 *)&ip.saddr, 2 * sizeof(struct addr),
			     bpf_htons(e->len) + bpf_htons(IPPROTO_ICMPV6));
	return true;
}

/* The message, whole and right, in scratch.bytes. */
INLINE bool read_error(struct __sk_buff *ctx, struct scratch *w, const struct mtu_error *e, __u32 sum)
{
	__u32 len = e->len;

	KEEP_BOUNDS(len);
	if (len < ERROR_LEN || len > ERROR_MOST)
		return false;
	if (e->at + len > ctx->len || bpf_skb_load_bytes(ctx, e->at, w->bytes, len) < 0)
		return false;
	for (int i = 0; i < 4; i++)
		w->bytes[len + i] = 0;
	return (__u16)csum_fold(message_sum(w->bytes, len, sum)) == 0xffff;
}

/* What an error quotes, of our family, and what MTU it says. Both are aligned: the message begins with 8 bytes. */
INLINE bool read_quote_v4(const struct settings *s, const __u8 *message, struct mtu_error *e)
{
	const struct iphdr *ip = (const void *)(message + ERROR_LEN);

	e->mtu = message[6] << 8 | message[7];
	e->quoted_len = bpf_ntohs(ip->tot_len);
	e->remote = mapped_v4(ip->daddr);
	return message[0] == ICMP_TOO_BIG && message[1] == ICMP_TOO_BIG_CODE && e->mtu >= MIN_MTU &&
	       ip->version == 4 && ip->ihl == 5 && ip->frag_off == bpf_htons(IP_DONT_FRAGMENT) &&
	       ip->protocol == IPPROTO_UDP && ip->saddr == v4_of(&s->vtep);
}

INLINE bool read_quote_v6(const struct settings *s, const __u8 *message, struct mtu_error *e)
{
	const struct ipv6hdr *ip = (const void *)(message + ERROR_LEN);

	e->mtu = bpf_ntohl(*(const __be32 *)(message + 4));
	e->quoted_len = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	__builtin_memcpy(&e->remote, &ip->daddr, sizeof(e->remote));
	return message[0] == ICMPV6_TOO_BIG && e->mtu >= LEAST_MTU_V6 && ip->version == 6 &&
	       ip->nexthdr == IPPROTO_UDP &&
	       !__builtin_memcmp(&ip->saddr, &s->vtep, sizeof(ip->saddr));
}

/* A tunnel header as we write it, of a switch that we have; VNI 0 is that of greetings. */
INLINE bool is_our_tunnel(const struct settings *s, const __u8 *tunnel)
{
	__u32 vni = vni_of(tunnel + 4);

	if (s->encapsulation == ENCAPSULATION_GENEVE ?
		    tunnel[0] >> 6 || *(const __be16 *)(tunnel + 2) != bpf_htons(ETH_P_TEB) :
		    tunnel[0] != VXLAN_FLAG_VNI)
		return false;
	return !vni || bpf_map_lookup_elem(&switches, &vni);
}

/*
 * Whether we could have sent what the message quotes, which has its UDP header behind `ip_len` bytes. On a virtual wire
 * that is a super-packet, longer than any MTU.
 */
INLINE bool could_be_ours(const struct settings *s, const __u8 *message, const struct mtu_error *e,
			  __u32 ip_len)
{
	const struct udphdr *udp = (const void *)(message + ERROR_LEN + ip_len);
	__u32 source = bpf_ntohs(udp->source);

	if (udp->dest != bpf_htons(s->tunnel_port) || source < s->source_port_min ||
	    source > s->source_port_max || bpf_ntohs(udp->len) + ip_len != e->quoted_len ||
	    e->quoted_len <= e->mtu || e->mtu >= s->underlay_mtu)
		return false;
	return e->len < ERROR_LEN + ip_len + sizeof(*udp) + 8 ||
	       is_our_tunnel(s, (const __u8 *)(udp + 1));
}

/* A lower one stays while it counts. Both halves are one word: nobody sees the MTU of one error and the age of another. */
INLINE void note_path_mtu(__u32 number, const struct mtu_error *e)
{
	struct path_mtu *known = bpf_map_lookup_elem(&path_mtus, &number);
	__u32 now = now_seconds();

	if (!known || (known->mtu && known->mtu < e->mtu && now < known->until))
		return;
	known->hop = e->from;
	*(volatile __u64 *)known = (__u64)(now + PATH_MTU_AGE) << 32 | e->mtu;
}

/* Global, so that the verifier checks it once. */
__noinline int learn_path_mtu(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct mtu_error e = {};
	struct remote *r;
	__u32 sum = 0, changes;

	if (!s || !w || ctx->protocol != (s->family == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6))
		return 0;
	if (!(s->family == 4 ? find_error_v4(ctx, s, &e, &sum) : find_error_v6(ctx, s, &e, &sum)) ||
	    !is_of_one_host(&e.from, s->family == 4))
		return 0;
	if (e.len < ERROR_LEN + (s->family == 4 ? 20 : 40) + sizeof(struct udphdr) ||
	    !read_error(ctx, w, &e, sum))
		return 0;
	if (s->family == 4 ? !read_quote_v4(s, w->bytes, &e) || !could_be_ours(s, w->bytes, &e, 20) :
			     !read_quote_v6(s, w->bytes, &e) || !could_be_ours(s, w->bytes, &e, 40))
		return 0;
	r = bpf_map_lookup_elem(&remotes, &e.remote);
	if (r && hook_is_there(ctx, &changes))
		note_path_mtu(r->counters, &e);
	return 0;
}
