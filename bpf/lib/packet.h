/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one packet carries from stage to stage: the packet as it came (struct packet), and what is decided about it
 * (struct destination), which leave() carries out. Every stage returns GO_ON, or the verdict that ends the packet's
 * way (verdicts.h).
 */
#pragma once

#include <linux/in.h>

#include "bytes.h"
#include "csum.h"
#include "maps.h"
#include "outer.h"
#include "test_mode.h"

#define SECOND 1000000000ull /* in the unit of now_ns() */
#define VLAN_HLEN 4

#define DROP(reason) VERDICT_##reason

INLINE bool is_drop(enum verdict verdict)
{
	return verdict >= (int)VERDICT_DROP_FIRST;
}

/* A VLAN tag; proto 0: none, but maybe the priority of one that was taken off. */
struct tag {
	__be16 proto;
	__u16 tci;
};

/*
 * What the flow hash is computed over, and what conntrack, acl and route read instead of the headers. Of a frame that
 * is not IP: its Ethernet header, and zeros.
 */
union flow {
	__u32 words[FLOW_WORDS];
	struct {
		struct addr source; /* IPv4 as ::ffff:a.b.c.d */
		struct addr dest;
		__be16 source_port;
		__be16 dest_port;
		__u32 protocol; /* of the transport header; of an IPv6 fragment its fragment header's */
	};
};

enum fragment {
	NO_FRAGMENT = 0,
	FIRST_FRAGMENT = 1,
	LATER_FRAGMENT = 2,
};

/*
 * An Ethernet frame as it came: the packet itself from a port, the inner one of a tunnel. By who writes it. The part of
 * parse is not cleared before.
 */
struct packet {
	/* the hook */
	__u8 hook;         /* enum hook */
	__u8 captured;     /* somebody looks: the packet as it came is in the event buffer */
	__u8 is_known;     /* its flow is: nothing else is to be decided */
	__u8 is_parsed;    /* already: scratch.parsed */
	struct tag in_tag; /* beside the bytes */
	__u32 len;         /* of the packet; since parse of the frame without its tag */
	__u32 segments;
	__u32 changes; /* of the devices of its namespace; 0: nobody counts: lib/devices.h */

	/* port, vtep_check and tunnel, vlan_in, leg_in */
	struct port_id source; /* the device it came by; from the underlay 0 */
	__u32 source_counters; /* of the port it came from, */
	__u32 sender_counters; /* of the remote whose tunnel brought it; 0: none did */
	__u32 switch_id;
	__u16 source_key;         /* logical port it came from; 0: unknown */
	__u16 tunnel_source_port; /* of the tunnel packet it came in, as on the wire */
	__u32 claims_key; /* 1: that is what the remote says; the FDB knows nobody with the MAC */
	__u32 offset;     /* of the frame in the skb; a tag in the bytes lies before it */
	struct tag
		tag; /* a guest's, that goes with the frame; beside the bytes only at the hook's end */

	/* ecn, nat */
	__u8 ecn;         /* what the inner ECN becomes on decap */
	__u8 translated;  /* on its way in from the leg; scratch.original has it as it came */
	__u8 readdressed; /* by that, to another address */

	/* leave */
	__u32 wrapped; /* bytes of the unmarker's header before the frame */
	int action;    /* what the hook returns */

	/* parse */
	struct ethhdr eth __attribute__((aligned(8)));
	__u8 tos;        /* DSCP and ECN of the inner header */
	__u8 fragment;   /* enum fragment */
	__u8 atomic;     /* whole, behind an IPv6 fragment header */
	__u8 other_ends; /* an extension header may name another end, which checksums cover */
	__u8 protocol; /* of the transport header; of a later fragment what its header names; else see is_hidden() */
	__u32 segment_len; /* longest frame once segmented */
	__u32 gso_size;
	__u32 ip_len; /* of the IP packet; what the frame has behind it is padding */
	__u32 l4_offset; /* of the transport header in the frame, or of what a later fragment has; 0: no IP */
	__u32 fragment_at; /* of an IPv6 fragment: its fragment header */
	__u32 flow_hash;   /* of what follows, once hash_flow() was asked */
	union flow flow __attribute__((aligned(8)));
};

/* Where a packet goes. */
enum destination_kind {
	TO_NOWHERE = 0, /* not decided */
	TO_HOST,        /* not ours: the host's own stack */
	TO_PORT,        /* of this host */
	TO_REMOTE,      /* in a tunnel to another host */
	TO_VLAN,        /* plain, by the uplink, with the tag of its switch */
	TO_LEG,         /* by the gateway's leg to a neighbour in the physical network */
	TO_FLOOD,       /* to every port of the switch, and every remote that has some */
	TO_ROUTER,      /* route decides on */
	TO_SENDER,      /* back to the device it came by; only what is a reply */
};

/* Which end of a packet nat writes anew. */
enum translated_end {
	TRANSLATE_NOTHING = 0,
	TRANSLATE_SOURCE,
	TRANSLATE_DESTINATION,
};

/* What nat gives a packet instead of its source or destination. */
struct translation {
	__u8 end;         /* enum translated_end */
	__u8 is_error;    /* an ICMP error: also what it quotes */
	__be16 port;      /* or ICMP identifier */
	__be16 peer_port; /* of the other end, */
	__u16 moves_peer; /* if that changes too */
	struct addr addr;
	struct addr teller; /* is_error: the same of the error itself; addr is of what it quotes */
};

/*
 * What was decided about a packet: where it goes, and what is written anew on the way. Apart from how that is done
 * (leave/), so that what was decided for one packet of a flow is right for the next, as far as `tell`. Who says where to
 * writes the port, the remote and the headers; the rest is cleared.
 */
struct destination {
	/* where it goes */
	__u8 kind;          /* enum destination_kind */
	__u8 is_peer;       /* TO_PORT: straight into the other namespace, unless it has a tag */
	__u8 takes_no_mark; /* TO_PORT, TO_LEG: the device segments what has a tunnel's mark */
	__u8 for_router;    /* TO_REMOTE: for a router there, */
	__u8 cuts_udp;      /* which does not send UDP super-packets on */
	__u8 is_whole;      /* TO_REMOTE: it has its outer header already */
	__u8 translates;    /* TO_LEG: the router has nat rules */
	__u8 is_reply;      /* counts nowhere */
	__u8 probes;        /* a copy of it becomes a question to the neighbour that it goes to */
	__u8 to_routers;    /* TO_FLOOD: also to hosts that only route into the switch, */
	__u8 to_hosts_only; /* and to no port: it is for the routers */
	__u8 routed;        /* by so many routers: its TTL is that much less */
	__u8 tells_too_big; /* its switch tells who sends what does not fit */
	__u8 clamps_mss;    /* a switch or a router on its way does */
	__u8 once;          /* not for the next packet of its flow: lib/flows.h */
	__u8 pad;
	__u16 dest_key;   /* logical port it goes to; 0: unknown, or several */
	__u16 source_key; /* as what it goes there: from this port, */
	__u32 switch_id;  /* in this switch */
	__u32 router;     /* TO_ROUTER; else the last router it came to; 0: none */
	__u32 router_in;  /* on this switch; SWITCH_ID_LEG: by the leg */

	struct port_id port; /* TO_PORT; TO_LEG: the device */
	struct addr remote;  /* TO_REMOTE: its VTEP */
	struct ethhdr eth __attribute__((aligned(8)));
	struct tag tag;
	__u16 pad2;
	__u32 counters;    /* of that port */
	__u32 nat_version; /* TO_LEG: of the router's nat rules */
	__u32 pad3;

	/* of this packet alone */
	__u32 tell; /* what its sender is told: enum tell */
	__u32 tell_rest; /* bytes 4 to 8 of an ICMP error; TELL_ABILITIES, TELL_SIZE: where the question is */
	struct translation translation;
	struct mac owner;   /* TELL_OWNER: whose address it is, */
	__u16 owner_routes; /* and whether that is a router */
};

#define KEPT_DESTINATION 88 /* bytes: up to tell */

/* A packet as it came, as far as anything is decided by it: plain TCP or UDP. What flows are kept by (flows.h). */
struct flow_key {
	struct addr remote; /* from the underlay: outer source, */
	__u32 entrance;     /* and VNI; from a port: its device */
	__u16 source_key;   /* of the Geneve option */
	__u16 dest_key;
	struct ethhdr eth;
	__u16 from_underlay;
	union flow flow;
};

/* A connection that has to let the packet. zone 0: none has to. */
struct flow_connection {
	__u32 zone; /* as in struct connection_key */
	__u16 key;
	__u8 from_peer;
	__u8 translates;
	__u32 holder; /* port.owner; of a translation the router's nat_version */
};

/* What would be kept of this packet's flow. */
struct fresh_flow {
	__u32 slot;    /* where; NO_FLOW: it is not kept */
	__u32 hash;    /* of the key */
	__u32 longest; /* packet that is decided so */
	__u32 side; /* what is decided by neighbours found there: number in map epochs; 0: none are */
	__u64 epoch;
	__u64 side_epoch;
	__u64 until;
	struct flow_connection near, far;
	struct flow_key key;
};

/* An outer header being written, with the inner Ethernet header behind it. */
struct outer {
	__u8 bytes[MAX_TEMPLATE + ETH_HLEN + VLAN_HLEN];
};

/* What nat changed of a packet from the leg, as it was: for whoever tells its sender about it. */
struct original {
	union flow flow;
	__u8 ip[40];  /* its IP header, */
	__u8 l4[28];  /* and what follows, */
	__u32 l4_len; /* so much of it */
};

/* Ethernet, IPv6, ICMPv6 and 1232 bytes of the packet it is about; checksums are computed over whole chunks. */
#define REPLY_ROOM 1664
#define FRAME_AT 2 /* in scratch.bytes, so that the IP header is aligned */

/*
 * What would burst the 512-byte stack, one per CPU: a hook runs to its end before another starts on the same CPU (what
 * it transmits is queued, never delivered inside it).
 */
struct scratch {
	struct packet packet;           /* the hook's, */
	struct destination destination; /* and what is decided about it */
	enum verdict parsed;            /* what stage parse says, if packet.is_parsed */
	struct outer_view view;         /* the outer headers that it came in */
	struct fresh_flow flow;         /* as what it is kept */
	struct original original;
	struct outer outer;
	__u32 members;                 /* of a flooded packet: length of its flood list, */
	__u32 first_remote;            /* where the remotes begin in it, */
	__u32 room;                    /* made for the outer header of its copies; 0: none yet, */
	enum verdict dropped;          /* reason of a copy that could not be sent */
	__u32 floods_reply;            /* it is not the packet: reply, and reply_to */
	__u16 pad;                     /* so that ip is aligned, right behind eth */
	struct ethhdr eth;             /* headers being read or written: Ethernet, */
	__u8 ip[40];                   /* and IP behind it */
	struct route_key route;        /* what routes is asked for, */
	struct next_hop next;          /* where a router sends the packet, */
	struct next_hop_key next_key;  /* and which of a route's next hops that is, */
	struct addr asker;             /* and who asks for its MAC */
	struct fdb_entry found;        /* of an address */
	struct nat_rule rule;          /* that makes a translation, */
	struct connection_key outside; /* and how it is found from outside */
	struct connection_key begun;   /* the one that began from the leg; switch_id 0: none */
	struct packet reply;           /* an answer to the packet, */
	struct destination reply_to;   /* and where it goes */
	__u8 bytes[REPLY_ROOM] __attribute__((aligned(8)));
};

ARRAY(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, struct scratch, 1);
GETTER(get_scratch, scratch)

INLINE struct settings *get_settings(void)
{
	__u32 zero = 0;
	struct settings *s = bpf_map_lookup_elem(&settings, &zero);

	return s && s->uplink_ifindex ? s : NULL;
}

/* It came by the uplink: straight, or by way of the coalescer. */
INLINE bool is_from_underlay(const struct packet *p)
{
	return p->hook == HOOK_FROM_UNDERLAY || p->hook == HOOK_FROM_COALESCER;
}

/* A super-packet whose segments are UDP datagrams. */
INLINE bool is_whole_udp(const struct packet *p)
{
	return p->gso_size && p->flow.protocol == IPPROTO_UDP;
}

INLINE void clear_destination(struct destination *d)
{
	_Static_assert(KEPT_DESTINATION == offsetof(struct destination, tell) &&
			       offsetof(struct destination, port) == 32,
		       "in words");
	__builtin_memset(d, 0, offsetof(struct destination, port));
	__builtin_memset(&d->tell, 0,
			 offsetof(struct destination, translation.addr) -
				 offsetof(struct destination, tell));
}

/* A switch, and the logical port it came from; 0: unknown. */
INLINE void enter_switch(struct packet *p, struct destination *d, __u32 switch_id, __u32 source_key)
{
	p->switch_id = d->switch_id = switch_id;
	p->source_key = d->source_key = source_key;
}

/* Nothing of it is to be written anew so far. */
INLINE void leave_as_it_came(struct destination *d, const struct packet *p)
{
	d->eth = p->eth;
	d->tag = p->tag;
}

/* Bytes that the tag takes in an inner frame. */
INLINE __u32 tag_len(const struct destination *d)
{
	return d->tag.proto ? VLAN_HLEN : 0;
}
