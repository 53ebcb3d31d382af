/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage port_security: a guest speaks for itself only. Its MAC and addresses, also inside ARP and neighbour discovery;
 * no DHCP server and no router unless the fabric allows it.
 */
#pragma once

#include "lib/fdb.h"
#include "lib/nd_options.h"
#include "lib/upkeep.h"
#include "lib/vtep.h"

#define DHCP_SERVER_PORT bpf_htons(67)
#define DHCP_CLIENT_PORT bpf_htons(68)
#define DHCPV6_CLIENT_PORT bpf_htons(546)
#define DHCPV6_SERVER_PORT bpf_htons(547)

/* Sharers: an address that floats among other ports. */
enum ownership { OWNED_BY_NOBODY, OWNED_BY_PORT, OWNED_BY_OTHER, OWNED_BY_SHARERS };

INLINE bool is_taken(enum ownership whose)
{
	return whose == OWNED_BY_OTHER || whose == OWNED_BY_SHARERS;
}

/* The MAC that a link-local address is made from (RFC 4291 appendix A). */
INLINE bool link_local_mac(const struct addr *addr, struct mac *mac)
{
	const __u8 *b = addr->bytes;

	if (!is_link_local_v6(addr) || b[11] != 0xff || b[12] != 0xfe)
		return false;
	*mac = (struct mac){ { b[8] ^ 2, b[9], b[10], b[13], b[14], b[15] } };
	return is_link_local_of(mac->bytes, addr);
}

/* Whether an address that is not the port's is the link-local one made from the MAC of others, or of a router. */
INLINE bool is_link_local_of_other(const struct packet *p, const struct addr *addr)
{
	struct fdb_entry *entry;
	struct mac mac;

	if (!link_local_mac(addr, &mac))
		return false;
	entry = fdb_entry_or_floating(p->switch_id, mac.bytes);
	return entry && entry->key != p->source_key;
}

/* Whether the port may use an address beside its own. One that floats it must list, a network is not enough. */
static __noinline bool is_allowed_address(const struct port *port, const struct addr *addr,
					  bool floats)
{
	struct allowed_address_key key = {
		.prefixlen = 96 + 128,
		.switch_id = bpf_htonl(port->switch_id),
		.key = bpf_htonl(port->key),
		.family = bpf_htonl(is_mapped_v4(addr) ? 4 : 6),
		.addr = *addr,
	};
	__u32 *single = bpf_map_lookup_elem(&allowed_addresses, &key);

	return single && (*single || !floats);
}

/* Whose address it is in the fabric. What is declared never costs a second look-up, nor what is nobody's anyway. */
INLINE enum ownership owner(const struct packet *p, const struct port *port, const struct addr *addr)
{
	struct neighbour_key key = { .switch_id = p->switch_id, .addr = *addr };
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, &key);
	enum ownership otherwise = n ? OWNED_BY_SHARERS : OWNED_BY_NOBODY;

	if (n && !(n->flags & NEIGHBOUR_FLOATING))
		return n->key == p->source_key ? OWNED_BY_PORT : OWNED_BY_OTHER;
	if (!(port->flags & PORT_ALLOWED_ADDRESSES) || (!n && !(port->flags & PORT_CHECK_ADDRESSES)))
		return otherwise;
	return is_allowed_address(port, addr, n) && !is_link_local_of_other(p, addr) ? OWNED_BY_PORT :
										       otherwise;
}

/* Whether an address is the link-local one made from a MAC of a port that has several. */
INLINE bool is_link_local_of_port(const struct port *port, const struct addr *addr)
{
	struct mac mac;

	if (!(port->flags & PORT_ALLOWED_MACS) || !link_local_mac(addr, &mac))
		return false;
	return same_mac(mac.bytes, port->mac.bytes) ||
	       is_allowed_mac(port->switch_id, port->key, mac.bytes);
}

/* The same for IPv6, where the link-local address of the frame's source is the port's too. */
INLINE enum ownership owner_v6(const struct packet *p, const struct port *port,
			       const struct addr *addr)
{
	if (is_link_local_of(p->eth.h_source, addr) || is_link_local_of_port(port, addr))
		return OWNED_BY_PORT;
	return is_mapped_v4(addr) ? OWNED_BY_NOBODY : owner(p, port, addr);
}

/* Of an address that neighbour discovery speaks of. Global: few packets are that. */
__noinline enum ownership owner_in_nd(const struct packet *p, const struct port *port,
				      const struct addr *addr)
{
	if (!p || !port || !addr)
		return OWNED_BY_OTHER;
	return owner_v6(p, port, addr);
}

/* Whether an address is another port's or a router's, in neighbour discovery. */
INLINE bool is_others(const struct packet *p, const struct port *port, const struct addr *addr)
{
	enum ownership whose = owner_in_nd(p, port, addr);

	return is_taken(whose) || (whose == OWNED_BY_NOBODY && is_link_local_of_other(p, addr));
}

/* Whether a port may speak of an address as its own. */
INLINE bool may_claim(const struct port *port, enum ownership whose)
{
	return port->flags & PORT_CHECK_ADDRESSES ? whose == OWNED_BY_PORT : !is_taken(whose);
}

/*
 * Whether a port may ask from nowhere for an address: for what one port has, an answer defends it. A new owner of what
 * floats would take it for a conflict.
 */
INLINE bool may_probe(const struct port *port, enum ownership whose)
{
	return whose != OWNED_BY_SHARERS &&
	       (!(port->flags & PORT_CHECK_ADDRESSES) || whose != OWNED_BY_NOBODY);
}

/* Whoever asks from nowhere probes for an address (RFC 5227). */
INLINE bool is_arp_probe(const struct packet *p, const struct port *port, const struct arp_ipv4 *arp)
{
	struct addr target = mapped_v4(arp->target_ip);

	return arp->operation == bpf_htons(ARP_REQUEST) && may_probe(port, owner(p, port, &target));
}

INLINE enum verdict check_arp(struct __sk_buff *ctx, const struct settings *s, const struct packet *p,
			      const struct port *port)
{
	struct arp_ipv4 arp;
	struct addr sender;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &arp, sizeof(arp)) < 0 || !is_proper_arp(&arp) ||
	    !speaks_for_mac(p, port, arp.sender_mac))
		return DROP(SPOOFED_ARP);
	sender = mapped_v4(arp.sender_ip);
	if (is_vtep(s, &sender))
		return DROP(VTEP_ADDRESS);
	if (arp.sender_ip ? may_claim(port, owner(p, port, &sender)) : is_arp_probe(p, port, &arp))
		return GO_ON;
	return DROP(SPOOFED_ARP);
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

	if (p->protocol != IPPROTO_UDP || p->fragment == LATER_FRAGMENT)
		return found;
	if (!p->fragment)
		found = (struct l4_ports){ p->flow.source_port, p->flow.dest_port };
	else if (!has_ports_inside(p) ||
		 bpf_skb_load_bytes(ctx, p->l4_offset, &found, sizeof(found)) < 0)
		found = (struct l4_ports){};
	return found;
}

/* A DHCP client that has no address yet, before it knows its server (RFC 2131). */
INLINE bool is_dhcp_broadcast(struct __sk_buff *ctx, const struct packet *p)
{
	struct l4_ports udp = udp_ports(ctx, p);

	return udp.source == DHCP_CLIENT_PORT && udp.dest == DHCP_SERVER_PORT && !p->fragment &&
	       v4_of(&p->flow.dest) == 0xffffffff && is_broadcast(p->eth.h_dest);
}

INLINE enum verdict check_ipv4_source(struct __sk_buff *ctx, const struct packet *p,
				      const struct port *port)
{
	if (owner(p, port, &p->flow.source) == OWNED_BY_PORT)
		return GO_ON;
	return !v4_of(&p->flow.source) && (is_dhcp_broadcast(ctx, p) || is_igmp_report(ctx, p)) ?
		       GO_ON :
		       DROP(SPOOFED_IP);
}

/* A neighbour solicitation for duplicate address detection (RFC 4862): to the solicited-node address of its target. */
INLINE bool is_dad(struct __sk_buff *ctx, const struct packet *p)
{
	struct addr target;

	return is_proper_nd(ctx, p) &&
	       bpf_skb_load_bytes(ctx, p->l4_offset + 8, &target, sizeof(target)) == 0 &&
	       is_solicited_node(&p->flow.dest, &target);
}

INLINE enum verdict check_ipv6_source(struct __sk_buff *ctx, const struct packet *p,
				      const struct port *port)
{
	bool is_proper;
	__u8 type;

	if (owner_v6(p, port, &p->flow.source) == OWNED_BY_PORT)
		return GO_ON;
	if (!is_zero(&p->flow.source) || p->protocol != IPPROTO_ICMPV6 ||
	    bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) < 0)
		return DROP(SPOOFED_IP);
	is_proper = is_mld(type) ? is_proper_mld(ctx, p, type) :
				   type == ND_SOLICITATION && is_dad(ctx, p);
	return is_proper ? GO_ON : DROP(SPOOFED_IP);
}

INLINE enum verdict check_dhcp(const struct port *port, struct l4_ports udp, bool is_ipv4)
{
	bool server = is_ipv4 ? udp.source == DHCP_SERVER_PORT || udp.dest == DHCP_CLIENT_PORT :
				udp.source == DHCPV6_SERVER_PORT || udp.dest == DHCPV6_CLIENT_PORT;

	return server && !(port->flags & PORT_DHCP_SERVER) ? DROP(DHCP_SERVER) : GO_ON;
}

/* Neighbour discovery behind a fragment header, also of a whole packet (RFC 6980). */
INLINE bool is_fragmented_nd(struct __sk_buff *ctx, const struct packet *p)
{
	__u8 type;

	return p->l4_offset < ETH_HLEN + p->ip_len &&
	       bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) == 0 && is_nd(type);
}

/* The option that has the sender's MAC. That of a redirect has another's. */
INLINE __u32 option_of_sender(__u8 type)
{
	if (type == ND_REDIRECT)
		return ND_NO_OPTION;
	return type == ND_ADVERTISEMENT ? ND_TARGET_MAC : ND_SOURCE_MAC;
}

INLINE enum verdict check_nd_options(struct __sk_buff *ctx, const struct packet *p,
				     const struct port *port, __u8 type, __u32 at, __u32 end)
{
	struct mac mac = {};
	enum nd_options found = read_nd_options(ctx, at, end, option_of_sender(type), &mac);

	if (found == ND_OPTIONS_WITH_MAC && !is_zero(&p->flow.source) &&
	    speaks_for_mac(p, port, mac.bytes))
		return GO_ON;
	return found == ND_OPTIONS_WITHOUT_MAC ? GO_ON : DROP(SPOOFED_ND);
}

INLINE enum verdict check_nd(struct __sk_buff *ctx, const struct settings *s, const struct packet *p,
			     const struct port *port)
{
	struct addr target;
	__u32 fixed, end;
	__u8 type;

	if (bpf_skb_load_bytes(ctx, p->l4_offset, &type, sizeof(type)) < 0)
		return GO_ON;
	if (is_routers_message(type) && !(port->flags & PORT_ROUTER))
		return DROP(ROUTER_ADVERTISEMENT);
	fixed = nd_fixed_len(type);
	if (!fixed)
		return GO_ON;
	if (is_routers_message(type) && !is_link_local_v6(&p->flow.source))
		return DROP(SPOOFED_ND);
	/* Receivers take the source for whose link-layer address an option says (RFC 4861 section 7.2.3). */
	if (is_others(p, port, &p->flow.source))
		return DROP(SPOOFED_ND);
	/* A message that is too short ends before its options begin: check_nd_options refuses it. */
	end = ETH_HLEN + p->ip_len;
	if (type == ND_ADVERTISEMENT || type == ND_SOLICITATION) {
		if (bpf_skb_load_bytes(ctx, p->l4_offset + 8, &target, sizeof(target)) < 0)
			return DROP(SPOOFED_ND);
		if (type == ND_ADVERTISEMENT && is_vtep(s, &target))
			return DROP(VTEP_ADDRESS);
		if (type == ND_ADVERTISEMENT && is_others(p, port, &target))
			return DROP(SPOOFED_ND);
		if (type == ND_ADVERTISEMENT && !may_claim(port, owner_in_nd(p, port, &target)))
			return DROP(SPOOFED_ND);
		/* Duplicate address detection; about one the fabric knows arp_nd tells the truth. */
		if (type == ND_SOLICITATION && is_zero(&p->flow.source) &&
		    !may_probe(port, owner_in_nd(p, port, &target)))
			return DROP(SPOOFED_ND);
	}
	return check_nd_options(ctx, p, port, type, p->l4_offset + fixed, end);
}

INLINE enum verdict check_ipv6_headers(struct __sk_buff *ctx, const struct settings *s,
				       const struct packet *p, const struct port *port)
{
	if (is_hidden(p))
		return DROP(HIDDEN_HEADER);
	if (p->fragment == LATER_FRAGMENT)
		return GO_ON;
	/* A first fragment has its whole chain of headers (RFC 7112). */
	if (p->fragment && p->l4_offset + least_len(p->protocol, false) > ETH_HLEN + p->ip_len)
		return DROP(HIDDEN_HEADER);
	if (p->protocol != IPPROTO_ICMPV6)
		return GO_ON;
	if ((p->fragment || p->atomic) && is_fragmented_nd(ctx, p))
		return DROP(HIDDEN_HEADER);
	return p->fragment ? GO_ON : check_nd(ctx, s, p, port);
}

/* Global, so that the verifier checks it once and not for every way that leads here. */
__noinline enum verdict port_security(struct __sk_buff *ctx, const struct packet *p,
				      const struct port *port)
{
	const struct settings *s = get_settings();
	enum verdict result = GO_ON;
	bool is_ipv4, is_ipv6;

	if (!p || !port || !s)
		return DROP(NOT_CONFIGURED);
	if (!(port->flags & PORT_CHECK_MAC))
		return GO_ON;
	is_ipv4 = p->eth.h_proto == ETHERTYPE_IPV4;
	is_ipv6 = p->eth.h_proto == ETHERTYPE_IPV6;
	if (!(port->flags & PORT_LEARNING) && !same_mac(p->eth.h_source, port->mac.bytes) &&
	    !may_use_mac(p, port))
		return DROP(SPOOFED_MAC);
	if (p->eth.h_proto == bpf_htons(ETH_P_ARP))
		return check_arp(ctx, s, p, port);
	if (port->flags & PORT_CHECK_ADDRESSES && is_ipv4)
		result = check_ipv4_source(ctx, p, port);
	else if (port->flags & PORT_CHECK_ADDRESSES && is_ipv6)
		result = check_ipv6_source(ctx, p, port);
	if (result != GO_ON)
		return result;
	if (!is_ipv4 && !is_ipv6)
		return check_snap(ctx, p);
	if (is_about_vtep(s, p))
		return DROP(VTEP_ADDRESS);
	result = check_dhcp(port, udp_ports(ctx, p), is_ipv4);
	if (result != GO_ON)
		return result;
	return is_ipv6 ? check_ipv6_headers(ctx, s, p, port) : GO_ON;
}
