/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of the firewall: rules, connections, fragments, and what is limited. Part of abi.h. */
#pragma once

#include "abi.h"

#define MAX_RULES 10240 /* with a port on this host: RULE_WORDS * 64 */
#define RULE_GENERATIONS 2
#define RULE_WORDS 160
#define RULE_SUMMARY_WORDS 3 /* one bit for each word */
#define MAX_RULE_SETS 65536
#define MAX_RULE_PREFIXES 262144
#define MAX_CONNECTIONS 1048576     /* a power of two */
#define FRAGMENT_PLACES 64          /* of one port: a power of two */
#define ROUTER_FRAGMENT_PLACES 2048 /* of each of the four memories of a router: a power of two */
#define MAX_FRAGMENTS                                                                                \
	2097152 /* MAX_PORTS * FRAGMENT_PLACES, and as many for 128 routers that translate */
#define MAX_LIMITS 65536
#define LOG_BYTES 524288 /* of the ring of log records: a power of two */

/* In the key of a connection instead of a switch: a router's, whose connections are translations. */
#define ZONE_ROUTER (1u << 25)
/* In the key of a limit likewise: a remote's. */
#define ZONE_REMOTE (1u << 26)

/*
 * The classifier of acl. A rule set is a bit per rule, in the order in which rules are tried, and a summary with a bit
 * for each word that is not zero. What matches is in three sets at once: those of the port and direction, of the
 * peer's address and of the service; the first common bit is the rule. So a lookup costs three map lookups and a walk
 * over the words that the summaries share, whatever the number of rules. Map rule_sets: number → rule_set. Set 0 does
 * not exist: it is empty.
 *
 * Rules change while packets flow. So there are two generations: `apply` writes the new rules as the one that no port
 * uses, and then each port changes over with its one entry (PORT_RULES_ODD and both rule sets). A packet takes the
 * generation of its port and looks for peer and service in that one only. A rule set never changes while something
 * refers to it. Bit b of generation g is rule number g * MAX_RULES + b, everywhere outside of rule sets.
 */
struct rule_set {
	__u64 summary[RULE_SUMMARY_WORDS];
	__u64 words[RULE_WORDS];
};

/* Map rule_peers (LPM trie): generation, family and address → number of a rule set. */
struct rule_peer_key {
	__u32 prefixlen; /* 32 + bits of the address (IPv4: 96 + its own) */
	__u8 generation;
	__u8 family; /* 4 or 6 */
	__u16 pad;
	struct addr addr;
};

/*
 * Map rule_services (LPM trie): generation, protocol and port → number of a rule set. The port is the
 * destination's; of ICMP type << 8 | code. What has no port (fragments, other protocols) asks with prefixlen 16.
 */
struct rule_service_key {
	__u32 prefixlen; /* 8, 16, or 16 + bits of the port */
	__u8 generation;
	__u8 protocol;
	__u8 port[2]; /* big endian */
};

/* Map rules (array): number → rule. */
enum rule_action {
	RULE_ALLOW = 0, /* statefully */
	RULE_ALLOW_STATELESS = 1,
	RULE_DROP = 2,
	RULE_REJECT = 3,
};

#define RULE_LOG (1 << 0)
#define NO_VERSION 0             /* of the rules: none are it */
#define RULE_DEFAULT 0xffffffffu /* in a connection or log record: the default policy */

struct rule {
	__u32 action; /* enum rule_action */
	__u32 flags;
};

/* Map rule_counters (per CPU array): number of the rule → struct counter. */

/*
 * Map connections: what belongs together. Of a port, or (switch_id: ZONE_ROUTER | router, key 0) a
 * router's translation, whose local end is the inside.
 */
struct connection_key {
	__u32 switch_id;
	__u16 key;
	__u8 protocol;
	__u8 family; /* 4 or 6 */
	struct addr local;
	struct addr peer;
	__be16 local_port; /* ICMP: the identifier */
	__be16 peer_port;  /* ICMP: type of the request, 256 more where the peer asks */
};

/* One end of a TCP connection: docs/semantics.md, conntrack. */
#define TCP_END_SEEN (1 << 0)
#define TCP_END_SCALE (1 << 1) /* its SYN had the option */
#define TCP_END_FIN (1 << 2)   /* the last that it sent is a FIN */

struct tcp_end {
	__u32 end;
	__u32 max_end;
	__u32 max_window;
	__u32 acked; /* the highest that the other end acknowledged; its first sequence number before that */
	__u8 scale;
	__u8 flags;
	__u16 pad;
};

/* A SYN into a connection that is there: the connection begins anew if the other end acknowledges it. */
#define SYN_FROM_PEER (1 << 0)
#define SYN_SCALE (1 << 1) /* it has the option */
#define SYN_SEEN (1 << 2)

struct syn_seen {
	__u32 acked; /* the lowest that its answer acknowledges: no data */
	__u32 end;   /* the highest: all its data */
	__u16 window;
	__u8 scale;
	__u8 flags;
};

enum connection_state {
	CONNECTION_OPENING = 0,
	CONNECTION_ESTABLISHED = 1,
	CONNECTION_CLOSING = 2,
	CONNECTION_CLOSED = 3,
};

#define CONNECTION_FROM_PEER (1 << 0) /* its first packet came from the peer */
#define CONNECTION_ADOPTED (1 << 1)   /* older than the firewall: windows unknown */
#define CONNECTION_ANSWERED (1 << 2)  /* the other end was seen */
#define CONNECTION_ASSURED (1 << 3)   /* not TCP: and who began it has sent again */
#define CONNECTION_PICKED_UP                                                                         \
	(1 << 4) /* packets may have passed unseen: an end without TCP_END_SEEN is of before */
/* So was the first of all, before the other end began it anew. */
#define CONNECTION_MADE_BY_PEER (1 << 5)
#define CONNECTION_REVOKED (1 << 6) /* a translation that the rules no longer make */

struct connection {
	__u64 begun; /* bpf_ktime_get_ns() */
	__u64 seen;
	__u32 rule;    /* number, or RULE_DEFAULT */
	__u32 version; /* settings.rules_version that admitted it, or router.nat_version */
	__u32 place;   /* in map connection_places */
	__u8 state;    /* enum connection_state */
	__u8 flags;
	__be16 outside_port; /* of a translation: what stands for the local end outside */
	struct addr outside;
	__u32 life; /* seconds that it lives without a packet: written with `seen` */
	union {
		__u32 owner;              /* of a port: port.owner when it began */
		__be16 peer_outside_port; /* of a translation: what stands for the peer's port outside */
	};
	struct syn_seen again;
	struct tcp_end local;
	struct tcp_end peer;
	__u32 pad;
};

/* Map connection_places (array): place → who has it; the connection there says whether it still has. */
struct connection_place {
	struct connection_key key; /* switch_id 0: nobody yet */
	__u32 claim;               /* odd: somebody is writing here; it only grows */
};

/* Map translations: outside key (local end: the outside one) → its connection. */
struct translation_entry {
	struct connection_key inside;
	__u32 claim; /* odd: somebody begins it, or takes it away */
};

/*
 * Map fragments: the first fragments that passed a port, or nat of a router, so that later ones are known by them. A
 * place of the port or router → what was there. Written by the programs.
 *
 * A router has four memories, one behind the other: what goes out as it came, and as it goes on; what comes in, likewise.
 * A later fragment is known by how its first one came, what an ICMP error quotes by how that went on.
 */
struct fragment_place {
	__u32 switch_id;
	__u16 key;
	__u16 place; /* by its identification and addresses; of a router in its memory */
};

struct first_fragment {
	__u64 seen; /* coarse_now_ns() */
	struct addr source;
	struct addr dest;
	__u32 id;      /* in the order of the host */
	__u8 family;   /* 4 or 6 */
	__u8 next;     /* the protocol that stands beside the identification */
	__u16 l4_end;  /* where its transport header ends: bytes behind where fragments begin */
	__u8 kind;     /* enum l4_kind */
	__u8 protocol; /* of the transport header */
	__u8 has_type; /* of ICMP: */
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 request;
	__be16 icmp_id;
	__be16 source_port;
	__be16 dest_port;
	__u32 pad;
};

/* Map limits (LRU): what one port causes at most so often. Written by the programs. */
enum limit {
	LIMIT_ANSWERS = 0,   /* 100 in 100 ms */
	LIMIT_LOG = 1,       /* 100 in 1 s */
	LIMIT_FLOOD = 2,     /* its port's `flood` in 100 ms */
	LIMIT_ASKS = 3,      /* 10 in 100 ms */
	LIMIT_SIZES = 4,     /* bytes of answers to a remote's probes: 520 000 in 100 ms */
	LIMIT_ABILITIES = 5, /* answers to a remote's greetings: 10 of each kind in 100 ms */
};

struct limit_key {
	/*
	 * ZONE_ROUTER | router: what came by its leg. ZONE_REMOTE | its number in map remote_counters: what came from there
	 * with a MAC that the FDB does not have, and greetings.
	 */
	__u32 switch_id;
	__u16 key;   /* of the port; 0: unknown. LIMIT_ABILITIES: the kind of greeting */
	__u16 limit; /* enum limit */
};

struct limit_state {
	__u64 since; /* bpf_ktime_get_ns() of the first */
	__u32 count;
	__u32 pad;
};

/* Ring rule_log: a packet that a rule with RULE_LOG decided. */
struct log_record {
	__u64 time;                   /* bpf_ktime_get_ns() */
	struct connection_key packet; /* its port, and its ends */
	__u32 rule;
	__u8 verdict_reason; /* enum verdict of a drop; 0: it passed */
	__u8 from_port;      /* 1: from port; 0: to port */
	__u16 len;           /* of the frame; 65535: more */
	__u32 pad;
};
