/* SPDX-License-Identifier: Apache-2.0 */
/* Stage to_port: hands a frame, plain again, to a port of this host. The last stage. */
#pragma once

#include "ctx_skb.h"

#define PACKET_HOST 0

/*
 * bpf_redirect_peer() enters the peer's namespace without a trip through the backlog, but nothing looks
 * at the Ethernet header again: only right for unicast to the port's own address (then pkt_type is set
 * here) of a frame whose type the kernel knows already (decap cannot make it ARP). All else, a device
 * of another kind, and a veth whose peer is in this namespace get an ordinary transmit.
 */
static __always_inline int to_port(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);

	if (!port)
		return DROP(NO_PORT);
	count_port(p, port->key, PORT_TO);
	if (port->flags & PORT_PEER && same_mac(port->mac.bytes, p->eth.h_dest) &&
	    ctx->protocol == p->eth.h_proto && bpf_skb_change_type(ctx, PACKET_HOST) == 0)
		p->action = bpf_redirect_peer(ifindex, 0);
	else
		p->action = bpf_redirect(ifindex, 0);
	return VERDICT_TO_PORT;
}

/* One copy of a flooded frame; the skb stays ours. */
static __always_inline void copy_to_port(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	struct port *port;

	if (ifindex == p->source_ifindex)
		return;
	port = bpf_map_lookup_elem(&ports, &ifindex);
	if (port && bpf_clone_redirect(ctx, ifindex, 0) == 0)
		count_port(p, port->key, PORT_TO);
}
