/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed list of verdicts. Every packet that reaches a hook ends in exactly one of them, and each is a counter.
 * This is the only list: the Rust enum `model::Verdict` and docs/counters.md are compared with it by tests. Names
 * follow the kernel's drop reasons where one exists (include/net/dropreason-core.h). Numbers are part of the ABI of
 * the map `verdict_counters`: append, never renumber.
 */
#pragma once

/* V(number, NAME): the packet goes on. */
#define OVL_VERDICTS_PASS(V)                                                                         \
	V(0, TO_HOST)    /* not ours: left to the host's own stack */                                \
	V(1, TO_PORT)    /* unicast, delivered to one local port */                                  \
	V(2, ENCAP)      /* unicast, sent to one remote */                                           \
	V(3, FLOOD)      /* copied to every member of the flood list */                              \
	V(4, ANSWER)     /* an ARP request or neighbour solicitation, answered here */               \
	V(5, SEGMENT)    /* a super-packet that cannot travel whole: its segments come back */       \
	V(6, VLAN_OUT)   /* unicast, sent to the uplink with the VLAN tag of its switch */           \
	V(7, LEG_OUT)    /* routed into the physical network by the gateway's leg */                 \
	V(8, GREETING)   /* a remote says what it can take, and is answered if it asked */           \
	V(9, COALESCE)   /* a segment of a stream: it comes back joined with others */               \
	V(10, TO_ROUTER) /* an ARP reply or neighbour advertisement to a router, which noted it */   \
	V(11, PROBE)     /* the copy of a packet, become a question to the neighbour it went to */

/* V(number, NAME): the packet is dropped, and this is the reason. */
#define OVL_VERDICTS_DROP(V)                                                                         \
	V(16, NO_PORT)              /* the device is not a port of the fabric */                     \
	V(17, VLAN_TAG)             /* an inner VLAN tag, refused */                                 \
	V(18, SOURCE_MAC)           /* the inner source address is a group address or zero */        \
	V(19, INNER_IP_HEADER)      /* inner IP header truncated or inconsistent (IP_INHDR) */       \
	V(20, UNKNOWN_SWITCH)       /* no such logical switch on this host */                        \
	V(21, UNKNOWN_UNICAST)      /* no FDB entry, and the switch does not flood */                \
	V(22, HAIRPIN)              /* the destination is the port it came from */                   \
	V(23, PKT_TOO_BIG)          /* a segment would exceed the underlay MTU (PKT_TOO_BIG) */      \
	V(24, GSO_UNSUPPORTED)      /* a super-packet of a kind that cannot be encapsulated */       \
	V(27, ENCAP_FAILED)         /* the kernel refused to make room */                            \
	V(28, UNKNOWN_REMOTE)       /* the FDB names a remote that is not in the table */            \
	V(29, OUTER_FRAGMENT)       /* a fragment of a tunnel packet */                              \
	V(30, OUTER_IP_CSUM)        /* outer IPv4 header checksum (IP_CSUM) */                       \
	V(31, OUTER_LENGTH)         /* outer IP or UDP length disagrees with the frame */            \
	V(32, UNKNOWN_VTEP)         /* outer source is no VTEP of the fabric */                      \
	V(33, TUNNEL_HEADER)        /* VXLAN or Geneve header truncated */                           \
	V(34, VXLAN_FLAGS)          /* the I flag is not set (RFC 7348 section 5) */                 \
	V(35, RESERVED_BITS)        /* reserved bits set, and the tunnel is strict */                \
	V(36, GENEVE_VERSION)       /* unknown Geneve version */                                     \
	V(37, GENEVE_CONTROL)       /* Geneve control packet (O bit): never forwarded */             \
	V(38, GENEVE_PROTOCOL)      /* Geneve payload is not Ethernet */                             \
	V(39, GENEVE_OPTIONS)       /* option lengths do not add up */                               \
	V(40, GENEVE_CRITICAL)      /* unknown critical option */                                    \
	V(41, GENEVE_OPTION_LENGTH) /* known option of another length */                             \
	V(42, VNI_ZERO)             /* VNI 0 */                                                      \
	V(43, UNKNOWN_VNI)          /* no logical switch with this VNI on this host */               \
	V(44, INNER_TOO_SMALL)      /* less than an Ethernet header inside (PKT_TOO_SMALL) */        \
	V(45, UNKNOWN_PORT_KEY)     /* the Geneve option names no port of the switch here */         \
	V(46, DECAP_FAILED)         /* the kernel refused to remove the outer header */              \
	V(47, NOT_CONFIGURED)       /* the tables are not filled (never seen after apply) */         \
	V(48, OUTER_DEVICE)         /* arrived at the device that only registers the tunnel port */  \
	V(49, SPOOFED_MAC)          /* port security: the source MAC is not the port's */            \
	V(50, SPOOFED_IP)           /* port security: the source address is not the port's */        \
	V(51, SPOOFED_ARP)          /* port security: ARP about a MAC or address not the port's */   \
	V(52, SPOOFED_ND)           /* port security: ND about a MAC or address not the port's */    \
	V(53, HIDDEN_HEADER)        /* port security: a header where it cannot be checked */         \
	V(54, DHCP_SERVER)          /* port security: a DHCP server's packet */                      \
	V(55, ROUTER_ADVERTISEMENT) /* port security: a router's advertisement or redirect */        \
	V(56, MAC_LIMIT)            /* a new MAC at a learning port that has its limit */            \
	V(57, ECN_CE)             /* congestion marked on a packet that cannot say so (RFC 6040) */  \
	V(58, RESERVED_GROUP)     /* to a group address that no bridge forwards (IEEE 802.1Q) */     \
	V(59, FIREWALL_DROP)      /* a rule or the default policy says so */                         \
	V(60, FIREWALL_REJECT)    /* a rule says so, and the sender is told */                       \
	V(61, CONNECTION_INVALID) /* belongs to no connection and cannot begin one */                \
	V(62, OUT_OF_WINDOW)      /* TCP outside its connection's windows */                         \
	V(63, CONNECTIONS_FULL)   /* no place for a new connection */                                \
	V(64, NOT_ROUTABLE)       /* to a router, but not to be routed */                            \
	V(65, NO_ROUTE)           /* the router has no route (IP_OUTNOROUTES) */                     \
	V(66, NO_NEIGHBOUR)       /* nobody has the next hop's address, or answers (NEIGH_FAILED) */ \
	V(67, TTL_EXCEEDED)       /* the last router it may pass */                                  \
	V(68, ROUTER_ADDRESS)     /* to a router itself, which only answers echo */                  \
	V(69, NAT_EXHAUSTED)      /* no free outside port */                                         \
	V(70, NAT_UNSUPPORTED)    /* no ports to translate */                                        \
	V(71, REVERSE_PATH)       /* the way back to the source leads elsewhere (RFC 3704) */        \
	V(72, VTEP_ADDRESS)       /* to or from the address of a VTEP */                             \
	V(73, NAT_NO_RULE)        /* no rule translates it, and the gateway drops the rest */        \
	V(74, FRAGMENT_UNKNOWN)   /* its first fragment was not seen, and rules ask for ports */     \
	V(75, FRAGMENT_TINY)      /* a first fragment without its transport header (RFC 1858) */     \
	V(76, FRAGMENT_OVERLAP)   /* over the transport header of its first fragment (RFC 5722) */   \
	V(77, DEEP_HEADER)        /* more extension headers than are read, and rules ask */          \
	V(78, REMOTE_SWITCH)      /* the remote has nothing on this switch */                        \
	V(79, REMOTE_MAC)         /* the source MAC is somewhere else by the fabric */               \
	V(80, FLOOD_LIMIT)        /* its port floods more than it may */                             \
	V(81, RESOLVING)          /* the router is still asking for the next hop's MAC */            \
	V(82, ASK_LIMIT)          /* its sender makes routers ask for more than it may */            \
	V(83, NEIGHBOUR_LIMIT)    /* one more neighbour than may be found there */                   \
	V(84, DEVICE_GONE)        /* a device on its way is not the one that `apply` meant */

#define OVL_VERDICT_ENUM(number, name) VERDICT_##name = number,

/* What a stage returns: the verdict that ends the packet's way, or GO_ON, which is none: the next stage has it. */
enum verdict {
	GO_ON = -1,
	OVL_VERDICTS_PASS(OVL_VERDICT_ENUM) VERDICT_DROP_FIRST = 16,
	OVL_VERDICTS_DROP(OVL_VERDICT_ENUM) VERDICT_SLOTS = 128, /* counters per hook */
};
