/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport header as conntrack, acl and nat ask for it. It is read where a port has a firewall or a router
 * translates, from a plain frame: the packet itself from a port, any packet behind decap.
 */
#pragma once

#include "ip.h"
#include "tcp_state.h"

enum l4_kind {
	L4_OTHER, /* any other protocol, and what has no ports: begins a connection with any packet */
	L4_TCP,
	L4_REQUEST, /* ICMP echo or timestamp */
	L4_REPLY,
	L4_ICMP, /* any other ICMP: belongs to no connection */
	L4_ERROR,
	L4_UNSEEN, /* behind too many headers, or a later fragment without its first one: belongs to no connection */
};

struct l4 {
	__u8 kind; /* enum l4_kind */
	__u8 protocol;
	__u8 has_type; /* of ICMP: */
	__u8 type;
	__u8 code;
	__u8 request; /* the type of the request, also of a reply */
	__be16 id;
	__be16 source; /* ports; 0 and 0: none */
	__be16 dest;
	__u8 part; /* enum fragment */
	__u8 pad;
	__u16 len; /* of the header */
	struct tcp_segment tcp;
};

struct tcp_header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

#define CHUNK 512 /* bpf_csum_diff() takes no more */

#define LEAST_FRAME (ETH_HLEN + 20) /* bpf_skb_adjust_room() leaves an IPv4 header */

/*
 * Whether a frame of this length may keep a checksum that a device should fill in, when all but LEAST_FRAME is cut off
 * its front: then its place stays. Of a TCP or UDP packet so short nobody can tell whether it has one.
 */
INLINE bool may_keep_checksum(struct __sk_buff *ctx, const struct packet *p, __u32 len)
{
	return (p->flow.protocol == IPPROTO_TCP || p->flow.protocol == IPPROTO_UDP) && !p->fragment &&
	       len <= p->l4_offset + LEAST_FRAME && bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) < 0;
}

/* How a new connection looks for its place (places.h). */
struct place_search {
	__u32 hash;   /* of its key */
	__u32 zone;   /* whose it is: which places are in the share, */
	__u32 share;  /* and how many, */
	__u32 places; /* of so many: a power of two */
	__u32 inside; /* a router's: which quarter of the share; 0: all of it */
	__u32 place;  /* what was found */
	__u32 victim; /* who would make way */
	__u64 victim_seen;
	__u32 victim_place;
	__u32 victim_claim;
	struct connection_key holder; /* of the place that is looked at */
};

/* Who has the outside ports that a new translation looked at, in vain (outside_ends.h). */
struct crowd {
	struct addr most; /* the inside address with the majority, if one has it */
	__u32 votes;
	__u32 refused; /* free ports that the new one's own inside address has enough of */
	struct connection_key victim; /* of `most`, the oldest that gives way; switch_id 0: none */
	__u32 pad;
	__u64 victim_seen;
};

/* The tries of a port for a new translation (outside_ends.h). */
struct port_search {
	__u32 hash;    /* that they begin with */
	__u32 list;    /* of rules; or */
	__u32 version; /* of them, that the translation is begun with */
	enum verdict result;
};

/*
 * What conntrack, acl and nat are at, per CPU. What nat read is still here when leave() translates: nobody asks a
 * firewall in between. Much of it is here to keep the stack free.
 */
struct tracking {
	__u64 now;
	struct l4 l4;
	struct packet quote;            /* what an ICMP error quotes, */
	struct l4 quoted;               /* and its transport header */
	struct connection_key key;      /* of the packet */
	struct connection_key other;    /* of what it quotes; outside key of a translation */
	struct connection fresh;        /* outside address and port are the caller's */
	struct translation_entry entry; /* a new one, of tracking.other */
	__u32 share;                    /* how many connections its port or router may have, */
	struct place_search search;     /* and where */
	struct crowd crowd;
	struct port_search ports;
	__u32 how;                 /* BEGIN_*: as what the packet may begin one */
	__u32 is_admitted;         /* by its connection; no rule is asked */
	__u32 may_be_there;        /* a connection of key, where a SYN begins one */
	__u32 other_begins;        /* another CPU begins a connection with the same key outside */
	__u32 has_begun;           /* the connection of key, with this packet */
	struct rule_peer_key peer; /* what acl asks for */
	struct rule_service_key service;
	struct fragment_place place; /* of the datagram of a fragment, */
	struct first_fragment first; /* and what it is known by */
	/* Walks the options. The verifier knows nothing of it here, so it takes each round for the same. */
	volatile __u32 option_at;
	__u8 chunk[CHUNK] __attribute__((aligned(8))); /* of a packet whose checksum is asked for */
	union {
		struct tcp_header tcp;
		__u8 options[64]; /* of TCP or IPv4 */
		struct iphdr quoted_ipv4;
		struct ipv6hdr quoted_ipv6;
	} header;
};

ARRAY(tracking, BPF_MAP_TYPE_PERCPU_ARRAY, struct tracking, 1);
GETTER(get_tracking, tracking)

#define TCP_MAX_OPTIONS 40
#define TCP_OPTION_END 0
#define TCP_OPTION_NOTHING 1
#define TCP_OPTION_SCALE 3

/*
 * The window scale option of a SYN, the last one as in the kernel; -1: none. Global: so the check of len, which the
 * compiler could do without and the verifier could not, stays.
 */
__noinline int tcp_scale_option(struct __sk_buff *ctx, __u32 offset, __u32 len)
{
	struct tracking *t = get_tracking();
	int scale = -1;
	__u8 *options;

	if (!t || !len)
		return -1;
	KEEP_BOUNDS(len);
	if (len > TCP_MAX_OPTIONS)
		return -1;
	options = t->header.options;
	if (bpf_skb_load_bytes(ctx, offset, options, len) < 0)
		return -1;
	t->option_at = 0;
	for (int n = 0; n < TCP_MAX_OPTIONS && t->option_at < len; n++) {
		__u32 at = t->option_at;
		__u8 kind = options[at & 63], option_len = options[(at + 1) & 63];

		if (kind == TCP_OPTION_END)
			break;
		if (kind == TCP_OPTION_NOTHING) {
			t->option_at = at + 1;
			continue;
		}
		if (option_len < 2 || at + option_len > len)
			break;
		if (kind == TCP_OPTION_SCALE && option_len == 3)
			scale = options[(at + 2) & 63];
		t->option_at = at + option_len;
	}
	return scale > TCP_MAX_SCALE ? TCP_MAX_SCALE : scale;
}

INLINE enum verdict read_tcp(struct __sk_buff *ctx, const struct packet *p, struct tracking *tracking)
{
	__u32 end = ETH_HLEN + p->ip_len, header_len;
	const struct tcp_header *h = &tracking->header.tcp;
	struct l4 *l4 = &tracking->l4;
	struct tcp_segment *t = &l4->tcp;
	__u8 flags;

	if (p->l4_offset + sizeof(*h) > end ||
	    load_bytes(ctx, p->l4_offset, &tracking->header.tcp, sizeof(*h)) < 0)
		return DROP(CONNECTION_INVALID);
	header_len = (h->offset >> 4) * 4;
	flags = h->flags;
	if (header_len < sizeof(*h))
		return DROP(CONNECTION_INVALID);
	l4->len = header_len;
	if (p->l4_offset + header_len > end)
		return p->fragment ? DROP(FRAGMENT_TINY) : DROP(CONNECTION_INVALID);
	if (!(flags & (TCP_SYN | TCP_ACK | TCP_RST)) ||
	    (flags & TCP_SYN && flags & (TCP_FIN | TCP_RST)))
		return DROP(CONNECTION_INVALID);
	t->seq = bpf_ntohl(h->seq);
	t->seq_end = t->seq + (end - p->l4_offset - header_len) + !!(flags & TCP_SYN) +
		     !!(flags & TCP_FIN);
	t->ack = bpf_ntohl(h->ack);
	t->window = bpf_ntohs(h->window);
	t->flags = flags;
	t->scale = -1;
	if (flags & TCP_SYN) /* the header is overwritten by its options */
		t->scale = tcp_scale_option(ctx, p->l4_offset + sizeof(*h), header_len - sizeof(*h));
	if (l4->source | l4->dest)
		l4->kind = L4_TCP;
	return GO_ON;
}

/* Without a connection to belong to. */
INLINE bool is_loose(const struct l4 *l4)
{
	return l4->kind >= L4_ICMP;
}

/* The first bytes of an ICMP message. */
INLINE void read_icmp_header(struct l4 *l4, const __u8 *h, bool is_ipv4)
{
	__u8 type = h[0];

	l4->has_type = true;
	l4->type = type;
	l4->code = h[1];
	__builtin_memcpy(&l4->id, h + 4, sizeof(l4->id));
	l4->kind = L4_ICMP;
	if (is_ipv4 ? type == 8 || type == 13 : type == 128) {
		l4->kind = L4_REQUEST;
		l4->request = type;
	} else if (is_ipv4 ? type == 0 || type == 14 : type == 129) {
		l4->kind = L4_REPLY;
		l4->request = is_ipv4 ? (type == 0 ? 8 : 13) : 128;
	} else if (is_ipv4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4) {
		l4->kind = L4_ERROR;
	}
}

INLINE void read_icmp(struct __sk_buff *ctx, const struct packet *p, struct l4 *l4)
{
	__u8 h[ICMP_LEN];

	l4->kind = L4_ICMP;
	if (p->l4_offset + sizeof(h) > ETH_HLEN + p->ip_len ||
	    load_bytes(ctx, p->l4_offset, h, sizeof(h)) < 0)
		return;
	read_icmp_header(l4, h, p->eth.h_proto == ETHERTYPE_IPV4);
}

/* A first fragment has its whole transport header, or it hides something (RFC 1858, RFC 7112). */
INLINE enum verdict read_first(struct __sk_buff *ctx, const struct packet *p, struct l4 *l4)
{
	__be16 ports[2];

	l4->len = least_len(p->protocol, has_ipv4(p));
	if (p->l4_offset + l4->len > ETH_HLEN + p->ip_len)
		return DROP(FRAGMENT_TINY);
	if (!has_ports(p->protocol))
		return GO_ON;
	if (load_bytes(ctx, p->l4_offset, ports, sizeof(ports)) < 0)
		return DROP(FRAGMENT_TINY);
	l4->source = ports[0];
	l4->dest = ports[1];
	return GO_ON;
}

/*
 * Fills tracking.l4; DROP(CONNECTION_INVALID) of a TCP header that conntrack refuses, DROP(FRAGMENT_TINY) of a first
 * fragment without its header. Global, so that the verifier checks it once.
 */
__noinline enum verdict read_l4(struct __sk_buff *ctx, const struct packet *p)
{
	struct tracking *t = get_tracking();
	enum verdict result;
	bool is_ipv4;

	if (!p || !t)
		return DROP(NOT_CONFIGURED);
	is_ipv4 = has_ipv4(p);
	t->l4 = (struct l4){ .protocol = p->protocol, .part = p->fragment };
	if (p->fragment == LATER_FRAGMENT || is_hidden(p)) {
		t->l4.kind = L4_UNSEEN;
		return GO_ON;
	}
	t->l4.source = p->flow.source_port;
	t->l4.dest = p->flow.dest_port;
	if (p->fragment) {
		result = read_first(ctx, p, &t->l4);
		if (result != GO_ON)
			return result;
	}
	if (p->protocol == IPPROTO_TCP)
		return read_tcp(ctx, p, t);
	if (is_icmp(p->protocol, is_ipv4))
		read_icmp(ctx, p, &t->l4);
	return GO_ON;
}
