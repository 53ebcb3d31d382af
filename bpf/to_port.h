/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage to_port: hands a frame, plain again, to a port of this host, where its firewall lets it. The last
 * stage.
 */
#pragma once

#include "acl.h"
#include "flow_way.h"
#include "unmark.h"

/* The tag that a frame has at a port's device: the trunk's, or a guest's in a transparent switch. */
static __always_inline struct tag tag_at(const struct packet *p, const struct port_id *id)
{
	return id->vlan ? tag_of_vlan(id->vlan) : p->tag;
}

/*
 * A super-packet with the tunnel's mark, or what follows one, through the unmarker. 1: it is on its way. 0: it is
 * the caller's still. Global: big, and for few packets.
 */
__noinline int to_unmarker(struct __sk_buff *ctx, struct packet *p, const struct port *port,
			   const struct port_id *id)
{
	struct settings *s = get_settings();
	__u32 how = 0;
	int result;

	if (!s || !p || !port || !id)
		return DROP(NOT_CONFIGURED);
	if (!goes_through_unmarker(ctx, s, p, port->flags & PORT_TAKES_NO_MARK)) {
		if (p->gso_size && p->l4_proto == IPPROTO_UDP)
			return DROP(GSO_UNSUPPORTED);
		return 0;
	}
	if (test_mode)
		return 0;
	how = check_of(id);
	if (!p->tag.proto && !id->vlan && port->flags & PORT_PEER &&
	    same_mac(port->mac.bytes, p->eth.h_dest))
		how |= DETOUR_TO_PEER;
	result = unmark(ctx, p, port->counters, how);
	return result < 0 ? result : 1;
}

/*
 * bpf_redirect_peer() enters the peer's namespace without a trip through the backlog, but nothing looks
 * at the Ethernet header again: only right for unicast to the port's own address (then pkt_type is set
 * here) of an untagged frame whose type the kernel knows already (decap cannot make it ARP). All else, a
 * device without a peer, and one whose peer is in this namespace get an ordinary transmit.
 */
static __always_inline int to_port(struct __sk_buff *ctx, struct packet *p, struct port_id id)
{
	struct port *port = bpf_map_lookup_elem(&ports, &id);
	struct tag tag = tag_at(p, &id);
	int result;

	if (!port || port->switch_id != p->switch_id) /* tables between two applies */
		return DROP(NO_PORT);
	p->dest_key = port->key;
	if (port->flags & PORT_FIREWALL) {
		result = firewall(ctx, p, port, FIREWALL_TO_PORT);
		if (result < 0)
			return result;
	}
	if (p->offset) {
		result = to_unmarker(ctx, p, port, &id);
		if (result < 0)
			return result;
		if (result) {
			count_port(p, port->counters, PORT_TO);
			return VERDICT_TO_PORT;
		}
	}
	if (put_tag(ctx, tag) < 0)
		return DROP(DECAP_FAILED);
	count_port(p, port->counters, PORT_TO);
	report_device(id.ifindex);
	if (!tag.proto && port->flags & PORT_PEER && same_mac(port->mac.bytes, p->eth.h_dest) &&
	    ctx->protocol == p->eth.h_proto && bpf_skb_change_type(ctx, PACKET_HOST) == 0)
		p->action = bpf_redirect_peer(id.ifindex, 0);
	else
		p->action = bpf_redirect(id.ifindex, 0);
	return VERDICT_TO_PORT;
}

/*
 * One copy of a flooded frame; the skb stays ours, without a tag. What the port's firewall stops is not
 * sent, and its sender not told.
 */
static __always_inline void copy_to_port(struct __sk_buff *ctx, struct packet *p,
					 const struct port_id *id)
{
	struct tag tag = tag_at(p, id);
	struct port *port;

	if (same_port(id, &p->source))
		return;
	port = bpf_map_lookup_elem(&ports, id);
	if (!port || port->switch_id != p->switch_id)
		return;
	if (port->flags & PORT_FIREWALL && firewall(ctx, p, port, FIREWALL_TO_PORT) < 0)
		return;
	if (put_tag(ctx, tag) < 0)
		return;
	if (send_copy(ctx, id->ifindex) == 0)
		count_port(p, port->counters, PORT_TO);
	if (tag.proto)
		take_tag(ctx);
}
