/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by which neighbours are found: ARP (RFC 826) and neighbour discovery (RFC 4861). */
#pragma once

#include "nd_options.h"
#include "sound.h"

#define ARP_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct arp_ipv4 {
	__be16 hardware_type;
	__be16 protocol_type;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_mac[6];
	__be32 sender_ip;
	__u8 target_mac[6];
	__be32 target_ip;
} __attribute__((packed, aligned(2)));

/* A neighbour solicitation or advertisement with one link-layer address option. */
struct nd_message {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__u8 flags;
	__u8 reserved[3];
	struct addr target;
	__u8 option_type;
	__u8 option_len; /* in units of 8 bytes */
	__u8 option_mac[6];
};

#define ND_SOLICITATION 135
#define ND_ADVERTISEMENT 136
#define ND_ROUTER 0x80
#define ND_SOLICITED 0x40
#define ND_OVERRIDE 0x20
#define ND_SOURCE_MAC 1
#define ND_TARGET_MAC 2
#define ND_SOLICITATION_LEN 24
#define ND_HOP_LIMIT 255

/* For IPv4 over Ethernet. */
INLINE bool is_proper_arp(const struct arp_ipv4 *arp)
{
	return arp->hardware_type == bpf_htons(ARP_ETHERNET) &&
	       arp->protocol_type == ETHERTYPE_IPV4 && arp->hardware_len == ETH_ALEN &&
	       arp->protocol_len == 4;
}

INLINE bool is_arp_request(const struct arp_ipv4 *arp)
{
	return is_proper_arp(arp) && arp->operation == bpf_htons(ARP_REQUEST);
}

struct arp_frame {
	struct ethhdr eth;
	struct arp_ipv4 arp;
};

struct nd_frame {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct nd_message nd;
} __attribute__((packed));

/* The checksum of a message, whose headers are in `f`. */
INLINE bool is_nd_checksum_right(struct __sk_buff *ctx, const struct nd_frame *f, __u32 at)
{
	const __u32 len = bpf_ntohs(f->ip.payload_len);
	__u32 pseudo =
		bpf_csum_diff(NULL, 0, (void *)f + offsetof(struct nd_frame, ip.saddr),
			      2 * sizeof(struct addr), bpf_htons(len) + bpf_htons(IPPROTO_ICMPV6));

	pseudo = csum_fold(pseudo);
	return is_sum_right_or_begun(ctx, at + offsetof(struct nd_frame, nd), len, f->nd.checksum,
				     pseudo);
}

/* The group of everybody whose address may be this one (RFC 4291 section 2.7.1). */
INLINE bool is_solicited_node(const struct addr *group, const struct addr *target)
{
	const __u32 *to = (const __u32 *)group, *of = (const __u32 *)target;

	return to[0] == bpf_htonl(0xff020000) && !to[1] && to[2] == bpf_htonl(1) &&
	       to[3] == (bpf_htonl(0xff000000) | (of[3] & bpf_htonl(0xffffff)));
}

INLINE const struct addr *target_of(const struct nd_frame *f)
{
	return (const void *)f + offsetof(struct nd_frame, nd.target);
}

INLINE bool has_mac(const struct nd_frame *f)
{
	return f->nd.option_len;
}

/* Who has no address asks everybody who may have one, and says no MAC. An answer to a group answers no question. */
INLINE bool is_for_its_receiver(const struct nd_frame *f)
{
	const struct addr *source = (const void *)&f->ip.saddr, *to = (const void *)&f->ip.daddr;

	if (f->nd.type == ND_ADVERTISEMENT)
		return !(f->nd.flags & ND_SOLICITED) || to->bytes[0] != 0xff;
	return !is_zero(source) || (!has_mac(f) && is_solicited_node(to, target_of(f)));
}

/*
 * A neighbour solicitation or advertisement that RFC 4861 section 7.1 does not tell to discard; its MAC stands where the
 * first option is, if it has_mac(). Global, for the verifier's sake.
 */
__noinline int read_nd(struct __sk_buff *ctx, struct nd_frame *f, __u32 at)
{
	const __u32 options = at + offsetof(struct nd_frame, nd.option_type);
	enum nd_options found;
	struct mac mac = {};
	__u32 len;

	if (!f || bpf_skb_load_bytes(ctx, at, f, offsetof(struct nd_frame, nd.option_type)) < 0)
		return false;
	len = bpf_ntohs(f->ip.payload_len);
	if (f->ip.nexthdr != IPPROTO_ICMPV6 || f->ip.hop_limit != ND_HOP_LIMIT ||
	    len < ND_SOLICITATION_LEN ||
	    (f->nd.type != ND_SOLICITATION && f->nd.type != ND_ADVERTISEMENT) || f->nd.code != 0 ||
	    target_of(f)->bytes[0] == 0xff || is_mapped_v4(target_of(f)) ||
	    !is_nd_checksum_right(ctx, f, at))
		return false;
	found = read_nd_options(ctx, options, options + len - ND_SOLICITATION_LEN,
				f->nd.type == ND_ADVERTISEMENT ? ND_TARGET_MAC : ND_SOURCE_MAC, &mac);
	f->nd.option_len = found == ND_OPTIONS_WITH_MAC;
	copy_mac(f->nd.option_mac, mac.bytes);
	return found != ND_OPTIONS_BROKEN && is_for_its_receiver(f);
}

INLINE bool is_solicitation(struct __sk_buff *ctx, struct nd_frame *f, __u32 at)
{
	return read_nd(ctx, f, at) && f->nd.type == ND_SOLICITATION;
}

/* The address that a frame at `at` asks for. False: it is no question. */
INLINE bool read_question(struct __sk_buff *ctx, __u32 at, bool is_arp, struct addr *target)
{
	struct scratch *w = get_scratch();
	struct nd_frame *f;
	struct arp_ipv4 arp;

	if (!w)
		return false;
	f = (struct nd_frame *)(w->bytes + FRAME_AT);
	if (!is_arp && is_solicitation(ctx, f, at))
		*target = f->nd.target;
	else if (is_arp && load_bytes(ctx, at + ETH_HLEN, &arp, sizeof(arp)) == 0 &&
		 is_arp_request(&arp))
		*target = mapped_v4(arp.target_ip);
	else
		return false;
	return true;
}
