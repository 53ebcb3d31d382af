/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage vlan_out: a frame of a switch that is bound to a VLAN leaves by the uplink, plain, with that tag.
 * After l2_lookup; its other end is vlan_in.
 */
#pragma once

#include "parse.h"
#include "segmenter.h"

/*
 * Of other super-packets (SCTP, a guest's own tunnel) nobody here knows the segments' length. UDP out of a tunnel
 * would be segmented wrongly, for it has the tunnel's mark.
 */
static __always_inline bool is_measurable(const struct packet *p)
{
	return !p->gso_size || p->l4_proto == IPPROTO_TCP ||
	       (p->l4_proto == IPPROTO_UDP && !p->offset);
}

static __always_inline int vlan_out(struct __sk_buff *ctx, const struct settings *s, struct packet *p)
{
	if (!is_measurable(p))
		return segment(ctx, s, p);
	if (p->segment_len - ETH_HLEN > s->underlay_mtu)
		return too_big(p, s->underlay_mtu);
	if (put_tag(ctx, tag_of_vlan(p->switch_id)) < 0)
		return DROP(ENCAP_FAILED);
	report_device(s->uplink_ifindex);
	p->action = bpf_redirect(s->uplink_ifindex, 0);
	return VERDICT_VLAN_OUT;
}
