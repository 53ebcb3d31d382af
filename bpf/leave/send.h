/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of a plain frame: its tag, and out of a device. Part of leave. */
#pragma once

#include "lib/devices.h"
#include "lib/vlan.h"

#define PACKET_HOST 0 /* skb->pkt_type */

/* sent: its verdict then. */
INLINE enum verdict send_out(struct __sk_buff *ctx, struct packet *p, __u32 ifindex, struct tag tag,
			     enum verdict sent)
{
	if (!is_there(p->changes, ifindex))
		return DROP(DEVICE_GONE);
	if (put_tag(ctx, tag) < 0)
		return DROP(ENCAP_FAILED);
	report_device(ifindex);
	p->action = bpf_redirect(ifindex, 0);
	return sent;
}

/*
 * bpf_redirect_peer() enters the peer's namespace without a trip through the backlog, but nothing looks at the
 * Ethernet header again: only right for unicast to the port's own address (then pkt_type is set here) of an untagged
 * frame whose type the kernel knows already (decap cannot make it ARP). All else, a device without a peer, and one
 * whose peer is in this namespace get an ordinary transmit.
 */
INLINE bool send_to_peer(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	if (ctx->protocol != p->eth.h_proto || !is_there(p->changes, ifindex) ||
	    (ctx->pkt_type != PACKET_HOST && bpf_skb_change_type(ctx, PACKET_HOST) < 0))
		return false;
	report_device(ifindex);
	p->action = bpf_redirect_peer(ifindex, 0);
	return true;
}
