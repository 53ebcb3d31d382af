/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the eBPF programs and the Rust side (crates/ebpf/src/abi.rs): keys and values of every map. No
 * struct has padding the compiler chose. Addresses are bytes in network order (IPv4 as ::ffff:a.b.c.d); everything
 * else is a native integer. A test compares each struct with the object's BTF, so a change on one side only does not
 * pass.
 */
#pragma once

#include <linux/types.h>

#include "verdicts.h"

/* Newer than Debian 12's linux/bpf.h (6.1). */
#ifndef TCX_NEXT
#define TCX_NEXT (-1)
#define TCX_DROP 2
#endif
#ifndef BPF_F_ADJ_ROOM_DECAP_L3_IPV4
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)
#endif

#define MAX_PORTS 16384
#define MAX_SWITCHES 16384
#define MAX_FDB 65536
#define MAX_NEIGHBOURS 131072
#define MAX_REMOTES 1024
#define MAX_ORIGINS 1048576 /* pairs of switch and remote */
#define MAX_FLOOD 262144
#define MAX_FLOOD_MEMBERS 1024 /* of one switch */
#define MAX_LEARNED 262144
#define MAX_LEARNED_FROM_UNDERLAY 4096 /* of one switch */
#define EVENT_BYTES 1048576            /* of the ring of captured packets: a power of two */
#define MAX_SNAP 2048                  /* of one captured packet: a power of two */
#define MAX_ROUTERS 4096
#define MAX_ROUTER_INTERFACES 16384
#define MAX_ROUTES 65536
#define MAX_NEXT_HOPS 65536
#define MAX_RULES 10240 /* with a port on this host: RULE_WORDS * 64 */
#define RULE_GENERATIONS 2
#define RULE_WORDS 160
#define RULE_SUMMARY_WORDS 3 /* one bit for each word */
#define MAX_RULE_SETS 65536
#define MAX_RULE_PREFIXES 262144
#define MAX_CONNECTIONS 1048576 /* a power of two */
#define MAX_NAT_RULES 4096      /* of one host */
#define MAX_NAT_ENDS 8192       /* two of each rule */
#define FRAGMENT_PLACES 64      /* of one port: a power of two */
#define MAX_FRAGMENTS 1048576   /* MAX_PORTS * FRAGMENT_PLACES */
#define MAX_LIMITS 65536
#define LOG_BYTES 524288 /* of the ring of log records: a power of two */

/* Longest outer header we write: Ethernet 14, IPv6 40, UDP 8, Geneve 8 + OVN option 8. */
#define MAX_TEMPLATE 80

enum hook {
	HOOK_FROM_PORT = 0,       /* a port's device */
	HOOK_FROM_UNDERLAY = 1,   /* the uplink */
	HOOK_FROM_SEGMENTER = 2,  /* segments of a super-packet that could not travel whole */
	HOOK_FROM_GRO_DEVICE = 3, /* the kernel device that registers the tunnel port for GRO */
	HOOK_FROM_LEG = 4,        /* a gateway's device in the physical network */
	HOOK_FROM_UNMARKER = 5,   /* frames that the kernel took the tunnel's mark off */
	HOOK_FROM_COALESCER = 6,  /* tunnel packets that the coalescer joined */
	HOOK_COUNT = 7,
};

enum encapsulation {
	ENCAPSULATION_VXLAN = 0,
	ENCAPSULATION_GENEVE = 1,
};

/*
 * A logical switch inside the maps, `switch_id`: its VNI, or, when it is bound to a VLAN on the uplink instead, this
 * bit and the VLAN.
 */
#define SWITCH_ID_VLAN (1u << 24)
/* In the key of a connection instead of a switch: a router's, whose connections are translations. */
#define ZONE_ROUTER (1u << 25)
/* In the key of a limit likewise: a remote's. */
#define ZONE_REMOTE (1u << 26)

struct addr {
	__u8 bytes[16];
};

struct mac {
	__u8 bytes[6];
};

/* Map settings: one entry. */
struct settings {
	struct addr vtep; /* our tunnel end point */
	__u32 uplink_ifindex;
	__u32 segmenter_ifindex;     /* the end that segments; 0: none */
	__u32 segmenter_out_ifindex; /* the end where the segments come out */
	__u32 unmarker_ifindex;  /* the end that frames with a tunnel's mark are sent into; 0: none */
	__u32 coalescer_ifindex; /* the end that tunnel packets to be joined are sent into; 0: none */
	__u32 underlay_mtu;      /* largest outer IP packet */
	__u32 hash_seed;         /* of the flow hash: the same on every host */
	__u32 secret;            /* seed of what nobody outside may foresee: this host's own */
	__u16 tunnel_port;
	__u16 source_port_min;
	__u16 source_port_max;
	__u8 encapsulation;  /* enum encapsulation */
	__u8 family;         /* of the underlay: 4 or 6 */
	__u8 strict;         /* 1: reserved bits must be zero */
	__u8 dscp;           /* of the outer header, 0..63 */
	__u8 copy_dscp;      /* 1: the inner one instead */
	__u8 port_shared;    /* 1: another device has the tunnel's port: what is not ours is its */
	__u32 rules_version; /* a hash over all that acl reads */
	struct addr vteps;   /* the smallest network that has all VTEPs of the fabric, */
	struct addr vteps_mask;
};

/* Where a port is: its device and, on a trunk, its VLAN tag (0: untagged). */
struct port_id {
	__u32 ifindex;
	__u32 vlan;
};

/* Map ports: port_id → port. */
#define PORT_PEER (1 << 0)            /* its peer is in another namespace: redirect_peer works */
#define PORT_CHECK_MAC (1 << 1)       /* port security: MAC, ARP and ND, DHCP servers, routers */
#define PORT_CHECK_ADDRESSES (1 << 2) /* port security: addresses too */
#define PORT_DHCP_SERVER (1 << 3)     /* may answer as a DHCP server */
#define PORT_ROUTER (1 << 4)          /* may send router advertisements and redirects */
#define PORT_LEARNING (1 << 5)        /* has MACs the fabric does not know */
#define PORT_FIREWALL (1 << 6)        /* conntrack and acl look at it */
#define PORT_DROP_FROM (1 << 7)       /* default policy from port: drop; else allow, statefully */
#define PORT_DROP_TO (1 << 8)         /* the same, to port */
#define PORT_ALLOW_WHEN_FULL (1 << 9) /* no place for a connection: pass without one */
#define PORT_RULES_ODD (1 << 10)      /* its rules are those of generation 1; else 0 */
#define PORT_TAKES_NO_MARK (1 << 11)  /* its device segments what has a tunnel's mark (a TAP does) */
#define PORT_DROP_NON_IP (1 << 12)    /* neither IP nor ARP: only what its switch lets pass */
#define PORT_ASKS_PROTOCOL_FROM (1 << 13) /* a rule from port asks for the protocol, */
#define PORT_ASKS_PROTOCOL_TO (1 << 14)
#define PORT_ASKS_PORTS_FROM (1 << 15) /* or for ports or types */
#define PORT_ASKS_PORTS_TO (1 << 16)

struct port {
	__u32 switch_id;
	__u16 key; /* logical port key: 1..32767, unique in the switch, the same on every host */
	struct mac mac;
	__u32 flags;
	__u32 learn_limit; /* most MACs at a time */
	__u32 learn_age;   /* seconds a MAC is remembered without a packet of it */
	__u32 rules_from;  /* rule set of what comes from the port; 0: no rule */
	__u32 rules_to;    /* the same of what goes to it */
	__u32 counters;    /* its number in map port_counters: 1.. */
	__u32 connections; /* its share: most connections at a time */
	__u32 flood;       /* most copies of its flooded frames in 100 ms */
};

/* Map port_keys: (switch, key) → port_place. */
struct port_key {
	__u32 switch_id;
	__u32 key;
};

struct port_place {
	struct port_id id;
	__u32 counters; /* as in its port: here `apply` finds it, whatever else a port has in another build */
};

/* Map port_numbers (array): number of a port's counters → port_id. */

/* Map switches: switch_id → switch. */
#define SWITCH_FLOOD_UNKNOWN (1 << 0)
#define SWITCH_TRANSPARENT (1 << 1) /* carries VLAN tags of guests */
#define SWITCH_LEARNING (1 << 2)    /* has a learning port, here or elsewhere */
#define MAX_NON_IP 8

struct lswitch {
	__u32 flood_members; /* entries 0..n of map flood */
	__u32 flags;
	__u32 learn_age;           /* seconds a MAC behind a remote is remembered */
	__be16 non_ip[MAX_NON_IP]; /* EtherTypes that pass where PORT_DROP_NON_IP is set; 0: none */
};

/* Map fdb: (switch, mac) → where the address lives. */
struct fdb_key {
	__u32 switch_id;
	struct mac mac;
	__u16 pad;
};

#define FDB_ROAMS (1 << 0) /* frames with this source may come from any remote */

struct fdb_entry {
	struct port_id port; /* on this host; ifindex 0: elsewhere */
	__u32 key;           /* logical port key */
	struct addr remote;  /* VTEP of the remote; a switch on a VLAN has none */
	__u32 router;        /* the address is this router's; then the rest is zero but the key */
	__u32 flags;
};

/*
 * Map origins: (switch, remote) → __u32, flags: the remote may send into that switch. It has ports there, or routers
 * lead there from its ports or from a gateway on it.
 */
#define ORIGIN_HAS_PORTS (1 << 0) /* else it only routes into the switch */

struct origin_key {
	__u32 switch_id;
	struct addr remote;
};

/* Map learned: (switch, mac) → where the address was last seen. Written by the programs. Begins like fdb_entry. */
struct learned {
	struct port_id port;
	__u32 key;          /* of the port; 0: behind a remote that did not say */
	struct addr remote; /* zero on a VLAN */
	__u32 router;       /* 0 */
	__u32 flags;        /* 0 */
	__u32 age;          /* seconds it is remembered */
	__u64 seen;         /* bpf_ktime_get_ns() */
};

/*
 * Map learning: (switch, key) → how many addresses are learned for a learning port, or with key 0 from the underlay.
 * Switch 0, key 0 is the clock of the whole host. Written by the programs.
 */
struct learning {
	__u32 macs;
	__u32 pad;
	__u64 next_sweep; /* of the host: not before then are old entries looked for again */
};

/* Map neighbours: (switch, address) → MAC, for the ARP/ND responder. */
struct neighbour_key {
	__u32 switch_id;
	struct addr addr;
};

#define NEIGHBOUR_ROUTER (1 << 0)    /* may advertise itself as a router */
#define NEIGHBOUR_INTERFACE (1 << 1) /* a logical router's interface: we are it */
#define NEIGHBOUR_GATEWAY (1 << 2)   /* and this host is that router's gateway */

struct neighbour {
	struct mac mac;
	__u16 key; /* owning port: it never gets an answer about itself */
	__u32 flags;
};

/* Map flood: (switch, index) → one receiver of a flooded frame. */
struct flood_key {
	__u32 switch_id;
	__u32 index;
};

struct flood_member {
	struct port_id port; /* on this host; ifindex 0: a remote */
	struct addr remote;
};

/*
 * Map remotes: VTEP address → outer header template. The template starts with an empty Ethernet header; length,
 * checksum, source port, VNI and option data are written per packet.
 */
struct remote {
	__u16 header_len; /* with the Ethernet header */
	__u16 ip_csum;    /* IPv4: folded sum (not inverted) of the header with length 0; else 0 */
	__u32 counters;   /* its number in map remote_counters: 1.. */
	__u8 header[MAX_TEMPLATE];
};

/*
 * Map abilities: VTEP address of a remote → what it said that it can take, `enum ability`. Written by the programs
 * (greeting.h); `apply` asks anew, and marks what it knew until the answer comes.
 */
#define ABILITY_WHOLE_UDP (1 << 0) /* UDP super-packets that the sender did not segment, for ports */
#define ABILITY_ROUTES_WHOLE_UDP (1 << 1) /* the same, for routers */
#define ABILITY_DOUBTED (1u << 31)        /* by `apply`: not said again yet */

/*
 * Map flow_ways (array): UDP source port of the tunnel, which is the flow's hash → which way its packets take, so that
 * none overtakes another. Times are in units of 2^20 ns and wrap. Written by the programs.
 */
#define MAX_FLOW_WAYS 65536

struct flow_way {
	__u32 unmarked;  /* when one last went through the unmarker; 0: never */
	__u32 coalesced; /* the same of the coalescer */
	__u32 single;    /* full segments that came one by one since the last super-packet, */
	__u32 whole;     /* which came then */
};

struct counter {
	__u64 packets;
	__u64 segments;
	__u64 bytes;
};

/*
 * Map port_counters (per CPU): number → counters of one logical port. 0 is nobody's. A port keeps its number while it
 * exists; a new one's counters begin at zero.
 */
struct port_counters {
	struct counter from_port;
	struct counter to_port;
	struct counter dropped; /* of what came from the port */
};

/* Map remote_counters (per CPU): number → counters of one remote, likewise. */
struct remote_counters {
	struct counter to_remote;
	struct counter from_remote;
	struct counter dropped; /* packets or flooded copies for it, and packets from it */
};

/* Map routers: router_id (1..0xffffff) → router. */
#define ROUTER_GATEWAY_HERE (1 << 0) /* this host is its gateway */
#define ROUTER_GATEWAY_ELSEWHERE (1 << 1)
#define ROUTER_NAT (1 << 2)               /* it translates; only where it is the gateway */
#define ROUTER_NAT_ODD (1 << 3)           /* its nat rules are those of router_id | NAT_RULES_ODD */
#define ROUTER_LEG_TAKES_NO_MARK (1 << 4) /* as PORT_TAKES_NO_MARK, of the leg's device */
#define ROUTER_REVERSE_PATH (1 << 5)      /* a packet's source must be where the packet came from */
#define ROUTER_NAT_ALL (1 << 6)           /* what no nat rule translates is dropped */

struct router {
	struct mac mac;
	struct mac leg_mac; /* of the leg's device */
	__u32 flags;
	__u32 leg_ifindex;   /* 0: no leg, or on another host */
	__u32 leg_mtu;       /* largest IP packet */
	struct addr gateway; /* VTEP of the gateway host; zero: here, or none */
	struct addr leg_v4;  /* sources of ICMP errors into the physical network; zero: none */
	struct addr leg_v6;
	__u32 connections; /* its share: most translations at a time */
};

/* Map legs: ifindex → router_id. */

/* Map router_interfaces: (router, switch) → interface. */
struct router_interface_key {
	__u32 router;
	__u32 switch_id;
};

struct router_interface {
	__u32 key;      /* logical port key in that switch */
	struct addr v4; /* sources of ICMP errors; zero: none */
	struct addr v6;
};

/* Map routes (LPM trie): router, family and address → the way. The prefix counts router and family too. */
struct route_key {
	__u32 prefixlen; /* 64 + bits of the address (IPv4: 96 + its own) */
	__u32 router;    /* big endian, for the trie */
	__u32 family;    /* 4 or 6, big endian */
	struct addr addr;
};

enum route_kind {
	ROUTE_OWN = 1,       /* the router's own address */
	ROUTE_CONNECTED = 2, /* the destination itself is on switch_id; 0: on the leg's network */
	ROUTE_VIA = 3,       /* by one of the next hops */
};

struct route {
	__u32 kind;      /* enum route_kind */
	__u32 switch_id; /* of a connected network; SWITCH_ID_LEG: the leg's. ROUTE_VIA: of all its next hops, or ROUTE_SIDES */
	__u32 group;     /* of next hops */
	__u32 hops;      /* how many */
	__be32 host_mask;    /* of a connected IPv4 network with more than two addresses */
	__u32 names_special; /* 1: it lies inside a block of special addresses (special.h) */
};

#define SWITCH_ID_LEG 0
#define ROUTE_SIDES 0xffffffffu /* the next hops are on several sides */

/* Map next_hops: (group, number) → where a static route leads. */
struct next_hop_key {
	__u32 group;
	__u32 number;
};

struct next_hop {
	struct addr addr;
	__u32 switch_id; /* SWITCH_ID_LEG: by the leg */
};

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
#define TCP_END_FIN (1 << 2)

struct tcp_end {
	__u32 end;
	__u32 max_end;
	__u32 max_window;
	__u8 scale;
	__u8 flags;
	__u16 pad;
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

struct connection {
	__u64 begun; /* bpf_ktime_get_ns() */
	__u64 seen;
	__u32 rule;    /* number, or RULE_DEFAULT */
	__u32 version; /* settings.rules_version that admitted it */
	__u32 place;   /* in map connection_places */
	__u8 state;    /* enum connection_state */
	__u8 flags;
	__be16 outside_port; /* of a translation: what stands for the local end outside */
	struct addr outside;
	struct tcp_end local;
	struct tcp_end peer;
};

/* Map connection_places (array): place → who has it; the connection there says whether it still has. */
struct connection_place {
	struct connection_key key; /* switch_id 0: nobody yet */
	__u32 claim;               /* odd: somebody is writing here; it only grows */
};

/* Map translations: outside key (local end: the outside one) → key of its connection. */

enum nat_kind {
	NAT_ONE_TO_ONE = 0,
	NAT_FORWARD = 1,
	NAT_SOURCE = 2,
};

/*
 * A list of nat rules: router_id, and with this bit the other list of the router, so that `apply` can change one while
 * packets use the other.
 */
#define NAT_RULES_ODD (1u << 24)

/* Map nat_rules: (list, number) → rule, in the order of the file. Two more maps find the first that fits. */
struct nat_rule_key {
	__u32 list;
	__u32 number;
};

struct nat_rule {
	struct addr inside; /* zero: NAT_SOURCE */
	struct addr outside;
	__u8 kind;          /* enum nat_kind */
	__u8 protocol;      /* NAT_FORWARD */
	__u16 inside_port;  /* NAT_FORWARD; native */
	__u16 outside_port; /* NAT_FORWARD; native */
	__u16 port_min;     /* NAT_SOURCE; native */
	__u16 port_max;
};

/*
 * Map nat_insides (LPM trie): list, family and inside address → number of the first NAT_ONE_TO_ONE or NAT_SOURCE that
 * is for it. The longest prefix has the number of a wider one if that comes first.
 */
struct nat_inside_key {
	__u32 prefixlen; /* 64 + bits of the address (IPv4: 96 + its own) */
	__u32 list;      /* big endian, for the trie */
	__u32 family;    /* 4 or 6, big endian */
	struct addr addr;
};

enum nat_side {
	NAT_INSIDE = 0,
	NAT_OUTSIDE = 1,
};

/* Map nat_ends: an end of NAT_FORWARD, or the outside address of NAT_ONE_TO_ONE → number of the first rule with it. */
struct nat_end_key {
	__u32 list;
	__u32 side; /* enum nat_side */
	struct addr addr;
	__u16 port;    /* native; NAT_ONE_TO_ONE: 0 */
	__u8 protocol; /* NAT_ONE_TO_ONE: 0 */
	__u8 family;
};

/* Map leg_addresses: (leg's ifindex, address) → router_id: addresses we answer for on the leg. */
struct leg_address_key {
	__u32 ifindex;
	struct addr addr;
};

/*
 * Map fragments: the first fragments that passed a port, so that later ones are known by them. A place of the port →
 * what was there. Written by the programs.
 */
struct fragment_place {
	__u32 switch_id;
	__u16 key;
	__u16 place; /* 0..FRAGMENT_PLACES - 1, by its identification and addresses */
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
	LIMIT_ANSWERS = 0, /* 100 in 100 ms */
	LIMIT_LOG = 1,     /* 100 in 1 s */
	LIMIT_FLOOD = 2,   /* its port's `flood` in 100 ms */
};

struct limit_key {
	/*
	 * ZONE_ROUTER | router: what came by its leg. ZONE_REMOTE | its number in map remote_counters: what came from there
	 * with a MAC that the FDB does not have.
	 */
	__u32 switch_id;
	__u16 key;   /* of the port; 0: unknown */
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

/* Map verdict_counters (per CPU array): hook * VERDICT_SLOTS + verdict → struct counter. */

/*
 * Map capture: one entry, what `overlane capture` asks for. Packets go to the ring `events`, each as it entered the
 * hook and, when it went on as something else, as it left.
 */
enum capture_mode {
	CAPTURE_OFF = 0,
	CAPTURE_ALL = 1,
	CAPTURE_DROPS = 2,
	CAPTURE_PORT = 3, /* to and from one port, and what its switch floods */
};

struct capture {
	__u32 mode; /* enum capture_mode */
	__u32 switch_id;
	__u32 key;
	__u32 snap; /* bytes of each packet, at most MAX_SNAP */
	__u64 lost; /* events that the ring had no room for; written by the programs */
};

enum event_phase {
	EVENT_ENTERED = 0,
	EVENT_LEFT = 1,
};

/* Ring events: a header, then `captured` bytes of the packet. */
struct event {
	__u64 time;      /* bpf_ktime_get_ns() */
	__u32 switch_id; /* 0: not known */
	__u32 ifindex;   /* of the hook's device */
	__u32 len;       /* of the packet */
	__u32 captured;  /* bytes that follow */
	__u32 segments;
	__u16 source_key; /* 0: not known */
	__u16 dest_key;   /* 0: not known or not one port */
	__u16 vlan_proto; /* of a tag beside the bytes, network order; 0: none */
	__u16 vlan_tci;   /* host order */
	__u8 hook;        /* enum hook */
	__u8 verdict;     /* enum verdict */
	__u8 phase;       /* enum event_phase */
	__u8 pad;
};

/*
 * Map test_io: one entry, used only by programs loaded with test_mode set (BPF_PROG_TEST_RUN says neither where a
 * packet would go nor takes a tag, a clock or all that makes a super-packet).
 */
struct test_io {
	__u64 now;         /* in: instead of bpf_ktime_get_ns() */
	__u32 ifindex;     /* in: the device the packet enters by */
	__u32 mark;        /* in: skb->mark */
	__u16 vlan_proto;  /* in: tag beside the bytes, network order; 0: none */
	__u16 vlan_tci;    /* in */
	__u16 out_proto;   /* out: tag beside the bytes */
	__u16 out_tci;     /* out */
	__u32 verdict;     /* out */
	__u32 out_ifindex; /* out: the device it was sent to; 0: none */
	__u32 gso_size;    /* in: payload of a segment; 0: no super-packet */
	__u32 gso_segs;    /* in */
};
