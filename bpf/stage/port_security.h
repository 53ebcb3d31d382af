/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage port_security: a guest speaks for itself only. Its MAC and addresses, also inside ARP and neighbour discovery;
 * no DHCP server and no router unless the fabric allows it.
 */
#pragma once

#include "lib/neighbour.h"

#define DHCP_SERVER_PORT bpf_htons(67)
#define DHCP_CLIENT_PORT bpf_htons(68)
#define DHCPV6_CLIENT_PORT bpf_htons(546)
#define DHCPV6_SERVER_PORT bpf_htons(547)

#define ND_ROUTER_SOLICITATION 133
#define ND_ROUTER_ADVERTISEMENT 134
#define ND_REDIRECT 137
#define ND_SOURCE_MAC 1
#define ND_MAX_OPTIONS 16

enum ownership { OWNED_BY_NOBODY, OWNED_BY_PORT, OWNED_BY_OTHER };

/* Whose address it is in the fabric. */
INLINE enum ownership owner(const struct packet *p, const struct addr *addr)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = *addr };
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, &key);

	if (!n)
		return OWNED_BY_NOBODY;
	return n->key == p->source_key ? OWNED_BY_PORT : OWNED_BY_OTHER;
}

/* The same for IPv6, where the link-local address of the frame's source is the port's too. */
INLINE enum ownership owner_v6(const struct packet *p, const struct addr *addr)
{
	if (is_link_local_of(p->eth.h_source, addr))
		return OWNED_BY_PORT;
	return is_mapped_v4(addr) ? OWNED_BY_NOBODY : owner(p, addr);
}

/* Whether a port may speak of an address as its own. */
INLINE bool may_claim(const struct port *port, enum ownership whose)
{
	return port->flags & PORT_CHECK_ADDRESSES ? whose == OWNED_BY_PORT : whose != OWNED_BY_OTHER;
}

INLINE enum verdict check_arp(struct __sk_buff *ctx, const struct packet *p, const struct port *port)
{
	struct arp_ipv4 arp;
	struct addr sender;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &arp, sizeof(arp)) < 0 ||
	    arp.hardware_type != bpf_htons(ARP_ETHERNET) || arp.protocol_type != ETHERTYPE_IPV4 ||
	    arp.hardware_len != ETH_ALEN || arp.protocol_len != 4 ||
	    !same_mac(arp.sender_mac, p->eth.h_source))
		return DROP(SPOOFED_ARP);
	sender = mapped_v4(arp.sender_ip);
	if (arp.sender_ip && !may_claim(port, owner(p, &sender)))
		return DROP(SPOOFED_ARP);
	return GO_ON;
}

/* A header behind a length: Ethernet's types in another coat (RFC 1042, IEEE 802.1H). */
INLINE enum verdict check_snap(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 h[6];

	if (bpf_ntohs(p->eth.h_proto) >= ETH_P_802_3_MIN ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN, h, sizeof(h)) < 0)
		return GO_ON;
	return h[0] == 0xaa && h[1] == 0xaa && h[2] == 0x03 && !h[3] && !h[4] &&
			       (!h[5] || h[5] == 0xf8) ?
		       DROP(HIDDEN_HEADER) :
		       GO_ON;
}

struct l4_ports {
	__be16 source;
	__be16 dest;
};

/* Ports of UDP, also of a first fragment; zero when there are none. */
INLINE struct l4_ports udp_ports(struct __sk_buff *ctx, const struct packet *p)
{
	struct l4_ports found = {};

	if (p->flow.protocol != IPPROTO_UDP || p->fragment == LATER_FRAGMENT)
		return found;
	if (!p->fragment)
		found = (struct l4_ports){ p->flow.source_port, p->flow.dest_port };
	else if (bpf_skb_load_bytes(ctx, p->l4_offset, &found, sizeof(found)) < 0)
		found = (struct l4_ports){};
	return found;
}

INLINE enum verdict check_ipv4_source(struct __sk_buff *ctx, const struct packet *p)
{
	struct l4_ports udp;

	if (owner(p, &p->flow.source) == OWNED_BY_PORT)
		return GO_ON;
	udp = udp_ports(ctx, p);
	return !v4_of(&p->flow.source) && udp.source == DHCP_CLIENT_PORT &&
			       udp.dest == DHCP_SERVER_PORT ?
		       GO_ON :
		       DROP(SPOOFED_IP);
}

INLINE enum verdict check_ipv6_source(const struct packet *p)
{
	if (owner_v6(p, &p->flow.source) == OWNED_BY_PORT)
		return GO_ON;
	return p->flow.protocol == IPPROTO_ICMPV6 && is_zero(&p->flow.source) ? GO_ON :
										DROP(SPOOFED_IP);
}

INLINE enum verdict check_dhcp(const struct port *port, struct l4_ports udp, bool is_ipv4)
{
	bool server = is_ipv4 ? udp.source == DHCP_SERVER_PORT || udp.dest == DHCP_CLIENT_PORT :
				udp.source == DHCPV6_SERVER_PORT || udp.dest == DHCPV6_CLIENT_PORT;

	return server && !(port->flags & PORT_DHCP_SERVER) ? DROP(DHCP_SERVER) : GO_ON;
}

INLINE bool is_nd(__u8 type)
{
	return type >= ND_ROUTER_SOLICITATION && type <= ND_REDIRECT;
}

/* Reads the header behind a fragment header, if this is the first fragment: DHCPv6 and ND. */
INLINE enum verdict check_fragment(struct __sk_buff *ctx, const struct packet *p,
				   const struct port *port)
{
	struct ipv6_fragment fragment;
	__u32 at = p->l4_offset + sizeof(fragment);
	struct l4_ports udp = {};
	__u8 type = 0;

	if (bpf_skb_load_bytes(ctx, p->l4_offset, &fragment, sizeof(fragment)) < 0 ||
	    fragment.offset & bpf_htons(0xfff8))
		return GO_ON;
	if (is_extension(fragment.next) || fragment.next == IPPROTO_FRAGMENT)
		return DROP(HIDDEN_HEADER);
	if (fragment.next == IPPROTO_UDP && bpf_skb_load_bytes(ctx, at, &udp, sizeof(udp)) == 0)
		return check_dhcp(port, udp, false);
	if (fragment.next == IPPROTO_ICMPV6 && bpf_skb_load_bytes(ctx, at, &type, 1) == 0 &&
	    is_nd(type))
		return DROP(HIDDEN_HEADER);
	return GO_ON;
}

/* Length of the fixed part of a message, where its options begin; 0: none that are checked. */
INLINE __u32 nd_fixed_len(__u8 type)
{
	switch (type) {
	case ND_ROUTER_SOLICITATION:
		return 8;
	case ND_ROUTER_ADVERTISEMENT:
		return 16;
	case ND_SOLICITATION:
	case ND_ADVERTISEMENT:
		return 24;
	}
	return 0;
}

struct nd_option {
	__u8 type;
	__u8 len; /* in units of 8 bytes */
	__u8 mac[ETH_ALEN];
};

INLINE enum verdict check_nd_options(struct __sk_buff *ctx, const struct packet *p, __u8 type,
				     __u32 at, __u32 end)
{
	__u8 own = type == ND_ADVERTISEMENT ? ND_TARGET_MAC : ND_SOURCE_MAC;
	struct nd_option option;

	for (int i = 0; i < ND_MAX_OPTIONS; i++) {
		if (at == end)
			return GO_ON;
		if (at + sizeof(option) > end ||
		    bpf_skb_load_bytes(ctx, at, &option, sizeof(option)) < 0 || !option.len)
			return DROP(SPOOFED_ND);
		if (option.type == own && !same_mac(option.mac, p->eth.h_source))
			return DROP(SPOOFED_ND);
		at += option.len * 8;
	}
	return at == end ? GO_ON : DROP(SPOOFED_ND);
}

INLINE enum verdict check_nd(struct __sk_buff *ctx, const struct packet *p, const struct port *port)
{
	struct addr target;
	__u32 fixed, end;
	__u8 type;

	if (bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) < 0)
		return GO_ON;
	if ((type == ND_ROUTER_ADVERTISEMENT || type == ND_REDIRECT) && !(port->flags & PORT_ROUTER))
		return DROP(ROUTER_ADVERTISEMENT);
	fixed = nd_fixed_len(type);
	if (!fixed)
		return GO_ON;
	/* A message that is too short ends before its options begin: check_nd_options refuses it. */
	end = ETH_HLEN + p->ip_len;
	if (type == ND_ADVERTISEMENT || type == ND_SOLICITATION) {
		if (bpf_skb_load_bytes(ctx, p->l4_offset + 8, &target, sizeof(target)) < 0)
			return DROP(SPOOFED_ND);
		if (type == ND_ADVERTISEMENT && !may_claim(port, owner_v6(p, &target)))
			return DROP(SPOOFED_ND);
		/* Duplicate address detection; about one the fabric knows arp_nd tells the truth. */
		if (type == ND_SOLICITATION && port->flags & PORT_CHECK_ADDRESSES &&
		    is_zero(&p->flow.source) && owner_v6(p, &target) == OWNED_BY_NOBODY)
			return DROP(SPOOFED_ND);
	}
	return check_nd_options(ctx, p, type, p->l4_offset + fixed, end);
}

INLINE enum verdict check_ipv6_headers(struct __sk_buff *ctx, const struct packet *p,
				       const struct port *port)
{
	if (is_extension(p->flow.protocol) || p->l4_offset > p->len)
		return DROP(HIDDEN_HEADER);
	if (p->flow.protocol == IPPROTO_FRAGMENT)
		return check_fragment(ctx, p, port);
	return p->flow.protocol == IPPROTO_ICMPV6 ? check_nd(ctx, p, port) : GO_ON;
}

/* Global, so that the verifier checks it once and not for every way that leads here. */
__noinline enum verdict port_security(struct __sk_buff *ctx, const struct packet *p,
				      const struct port *port)
{
	enum verdict result = GO_ON;
	bool is_ipv4, is_ipv6;

	if (!p || !port)
		return DROP(NOT_CONFIGURED);
	if (!(port->flags & PORT_CHECK_MAC))
		return GO_ON;
	is_ipv4 = p->eth.h_proto == ETHERTYPE_IPV4;
	is_ipv6 = p->eth.h_proto == ETHERTYPE_IPV6;
	if (!(port->flags & PORT_LEARNING) && !same_mac(p->eth.h_source, port->mac.bytes))
		return DROP(SPOOFED_MAC);
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP))
		return check_arp(ctx, p, port);
	if (port->flags & PORT_CHECK_ADDRESSES && is_ipv4)
		result = check_ipv4_source(ctx, p);
	else if (port->flags & PORT_CHECK_ADDRESSES && is_ipv6)
		result = check_ipv6_source(p);
	if (result != GO_ON)
		return result;
	if (!is_ipv4 && !is_ipv6)
		return check_snap(ctx, p);
	result = check_dhcp(port, udp_ports(ctx, p), is_ipv4);
	if (result != GO_ON)
		return result;
	return is_ipv6 ? check_ipv6_headers(ctx, p, port) : GO_ON;
}
