// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of the data path, each a tcx ingress hook: the order of the stages, and the one place
 * that turns a stage's answer into a counted verdict. docs/semantics.md says what each stage means.
 *
 *   from_port        port → parse → port_security → learn → arp_nd → conntrack → acl → l2_lookup
 *                    → (to_port | encap | vlan_out | flood | route)
 *                    Where the segmenter's segments come out it is hook from_segmenter: the same for them,
 *                    and the way out for what is encapsulated already.
 *   from_underlay    vtep_check → tunnel → parse → ecn → learn → arp_nd → ids → decap
 *                    → (to_port | flood | route),
 *                    or vlan_in → parse → learn → arp_nd → l2_lookup → (to_port | flood | route)
 *                    On the coalescer it is hook from_coalescer: the same, for what was joined there.
 *   from_leg         leg_in → parse → arp_nd → nat → route
 *   route            (l2_lookup → (to_port | encap | vlan_out) | nat → leg_out)
 *   from_gro_device  drops: that device exists only to register the tunnel port for GRO
 *   from_unmarker    hands over what to_port and leg_out sent into the unmarker
 *   back_to_peer     sends what was joined in the coalescer back
 *   take_connection  at no hook: `overlane connections import` runs it, once for each connection
 */
#include "capture.h"
#include "coalesce.h"
#include "greeting.h"
#include "ids.h"
#include "leg_in.h"
#include "port_security.h"
#include "vlan_in.h"

/* The packet of the hook: not on the stack, which all stages share. NULL never happens. */
static __always_inline struct packet *begin(struct __sk_buff *ctx, enum hook hook)
{
	struct scratch *w = get_scratch();
	__u32 segments = gso_segs_of(ctx);
	struct packet *p;

	if (!w)
		return NULL;
	p = &w->packet;
	*p = (struct packet){
		.hook = hook,
		.len = ctx->len,
		.segments = segments ? segments : 1,
		.action = TCX_DROP,
		.in_tag = read_tag(ctx),
	};
	capture_entered(ctx, p);
	return p;
}

static __always_inline void record_verdict(struct __sk_buff *ctx, struct packet *p, int verdict)
{
	count_verdict(p, verdict);
	report_verdict(verdict);
	if (p->captured)
		capture_left(ctx, p, verdict);
}

/* result: a verdict, or a negated drop reason, which the sender may be told. */
static __always_inline int finish(struct __sk_buff *ctx, struct packet *p, int result)
{
	if (result == VERDICT_ANSWER)
		send_back(ctx, p);
	record_verdict(ctx, p, result < 0 ? -result : result);
	if (result >= 0)
		return p->action;
	if (result == DROP(FIREWALL_REJECT))
		p->told =
			p->l4_proto == IPPROTO_TCP && !p->is_fragment ? TELL_RESET : TELL_PROHIBITED;
	return p->told && answer(ctx, p) && send_back(ctx, p) == 0 ? p->action : TCX_DROP;
}

/* Stage port: the device, and on a trunk the tag, name the logical port. */
static __always_inline struct port *find_source(struct packet *p, __u32 ifindex)
{
	struct port_id id = { .ifindex = ifindex, .vlan = p->in_tag.tci & VLAN_ID_MASK };
	struct port *port = NULL;

	if (p->in_tag.proto == ETHERTYPE_VLAN && id.vlan)
		port = bpf_map_lookup_elem(&ports, &id);
	if (!port) {
		p->tag = p->in_tag;
		id.vlan = 0;
		port = bpf_map_lookup_elem(&ports, &id);
	}
	p->source = id;
	return port;
}

/* Global, as other big parts are: it has a stack of its own, and what follows it another. */
__noinline int port_stages(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	struct settings *s = get_settings();
	struct lswitch *sw;
	struct port *port;
	int result;

	if (!s || !p)
		return DROP(NOT_CONFIGURED);
	port = find_source(p, ifindex);
	if (!port)
		return DROP(NO_PORT);
	p->switch_id = port->switch_id;
	p->source_key = port->key;
	p->source_counters = port->counters;
	sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	if (!sw)
		return DROP(UNKNOWN_SWITCH);

	result = parse(ctx, p, sw);
	if (p->hook == HOOK_FROM_PORT)
		count_port(p, p->source_counters, PORT_FROM);
	if (result >= 0) {
		hash_flow(s, p);
		result = port_security(ctx, p, port);
	}
	if (result >= 0)
		result = learn_from_port(p, port);
	if (result >= 0)
		result = arp_nd(ctx, p);
	/* Segments were judged as the super-packet they were. */
	if (!result && port->flags & PORT_FIREWALL && p->hook == HOOK_FROM_PORT)
		result = firewall(ctx, p, port, FIREWALL_FROM_PORT);
	if (!result)
		result = l2_from_port(ctx, s, p, sw);
	if (result < 0)
		count_port(p, p->source_counters, PORT_DROPPED);
	return result;
}

/* From a port, and on to a router if the frame is for one. */
static __always_inline int from_port_stages(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	struct scratch *w = get_scratch();
	int result = port_stages(ctx, p, ifindex);
	struct packet *came;

	if (result != TO_ROUTER || !w)
		return result;
	result = route(ctx, p);
	if (result < 0) {
		came = as_it_came(w, p);
		count_port(came, came->source_counters, PORT_DROPPED);
	}
	return result;
}

/* Finds the switch, and where the frame begins (p->offset). Negative: a drop reason; no switch: the host's. */
static __always_inline int tunnel_in(struct __sk_buff *ctx, const struct settings *s,
				     struct packet *p, struct outer_view *o, struct lswitch **sw)
{
	int result = vtep_check(ctx, s, o);

	if (result == NOT_OURS)
		return VERDICT_TO_HOST;
	if (result < 0)
		return result;
	p->sender_counters = o->counters;
	p->tunnel_source_port = o->source_port;
	result = p->hook == HOOK_FROM_COALESCER ? read_coalesced(ctx, o) : tunnel(ctx, s, o);
	if (result == DROP(VNI_ZERO) && !s->port_shared)
		return greeting(ctx, s, p, o);
	if (result >= 0) {
		p->switch_id = o->vni;
		p->source_key = o->source_key;
		*sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	}
	if (!*sw && s->port_shared && !has_our_vni(ctx, o)) {
		p->sender_counters = 0;
		return VERDICT_TO_HOST;
	}
	if (!*sw)
		return result < 0 ? result : DROP(UNKNOWN_VNI);
	/* Padding behind the packet is not part of the inner frame. */
	if (o->end < ctx->len && bpf_skb_change_tail(ctx, o->end, 0) < 0)
		return DROP(DECAP_FAILED);
	p->offset = o->tunnel + result;
	return 0;
}

/* Global like port_stages(). */
__noinline int underlay_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct outer_view o = {};
	struct lswitch *sw = NULL;
	bool in_tunnel;
	int result = VERDICT_TO_HOST;

	if (!s || !p)
		return VERDICT_TO_HOST;
	o.port = bpf_htons(p->hook == HOOK_FROM_COALESCER ? UNMARK_PORT : s->tunnel_port);
	in_tunnel = !p->in_tag.proto;
	if (in_tunnel)
		result = tunnel_in(ctx, s, p, &o, &sw);
	else
		sw = vlan_in(p);
	if (result < 0 || !sw)
		return result;

	result = parse(ctx, p, sw);
	if (result >= 0 && in_tunnel)
		result = ecn(p, o.tos);
	if (result < 0)
		return result;
	learn_from_underlay(p, sw, &o.source);
	result = arp_nd(ctx, p);
	if (result)
		return result;
	return in_tunnel ? ids(ctx, p, &o, sw) : l2_from_vlan(ctx, p, sw);
}

static __always_inline int from_underlay_stages(struct __sk_buff *ctx, struct packet *p)
{
	int result;

	p->action = TCX_NEXT;
	result = underlay_stages(ctx, p);
	if (result == TO_ROUTER)
		result = route(ctx, p);
	if (p->sender_counters)
		count_remote(p, p->sender_counters, result < 0 ? REMOTE_DROPPED : REMOTE_FROM);
	return result;
}

/* What is not the router's stays with the host. Global like port_stages(). */
__noinline int leg_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct router *r;
	__u32 *router;
	int result;

	if (!s || !p)
		return VERDICT_TO_HOST;
	p->source.ifindex = device_of_hook(ctx);
	router = bpf_map_lookup_elem(&legs, &p->source.ifindex);
	if (!router)
		return VERDICT_TO_HOST;
	p->router = *router;
	if (!leg_in(ctx, p))
		return VERDICT_TO_HOST;
	result = parse(ctx, p, NULL);
	if (result < 0)
		return result;
	hash_flow(s, p);
	result = arp_nd(ctx, p);
	if (result)
		return result;
	r = bpf_map_lookup_elem(&routers, router);
	if (r && r->flags & ROUTER_NAT)
		result = nat_in(ctx, p, r);
	return result < 0 ? result : TO_ROUTER;
}

static __always_inline int from_leg_stages(struct __sk_buff *ctx, struct packet *p)
{
	int result;

	p->action = TCX_NEXT;
	result = leg_stages(ctx, p);
	return result == TO_ROUTER ? route(ctx, p) : result;
}

static __always_inline int send_encapsulated(struct packet *p)
{
	struct settings *s = get_settings();

	return s ? send_by_neighbour(s, p) : DROP(NOT_CONFIGURED);
}

SEC("classifier")
int from_port(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	__u32 device = device_of_hook(ctx);
	bool segmented = s && device == s->segmenter_out_ifindex;
	struct packet *p = begin(ctx, segmented ? HOOK_FROM_SEGMENTER : HOOK_FROM_PORT);

	if (!p)
		return TCX_DROP;
	if (segmented) {
		device = mark_of_packet(ctx);
		ctx->mark = 0;
	}
	if (device == MARK_ENCAPSULATED)
		return finish(ctx, p, send_encapsulated(p));
	return finish(ctx, p, from_port_stages(ctx, p, device));
}

SEC("classifier")
int from_underlay(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	bool coalesced = s && device_of_hook(ctx) == s->coalescer_ifindex;
	struct packet *p;
	int action;

	if (s && s->coalescer_ifindex && !coalesced && !test_mode) {
		action = coalesce(ctx);
		if (action >= 0)
			return action;
	}
	p = begin(ctx, coalesced ? HOOK_FROM_COALESCER : HOOK_FROM_UNDERLAY);
	if (!p)
		return TCX_DROP;
	if (!coalesced)
		return finish(ctx, p, from_underlay_stages(ctx, p));
	if (!is_on_detour(ctx))
		return finish(ctx, p, DROP(OUTER_DEVICE));
	ctx->tc_index = 0;
	return finish(ctx, p, from_underlay_stages(ctx, p));
}

SEC("classifier")
int from_leg(struct __sk_buff *ctx)
{
	struct packet *p = begin(ctx, HOOK_FROM_LEG);

	return p ? finish(ctx, p, from_leg_stages(ctx, p)) : TCX_DROP;
}

SEC("classifier")
int from_gro_device(struct __sk_buff *ctx)
{
	struct packet *p = begin(ctx, HOOK_FROM_GRO_DEVICE);

	if (p)
		record_verdict(ctx, p, VERDICT_OUTER_DEVICE);
	return TCX_DROP;
}

static __always_inline int from_unmarker_stages(struct __sk_buff *ctx, struct packet *p)
{
	__u32 how = ctx->tc_index, number = ctx->mark;

	if (!is_on_detour(ctx))
		return DROP(OUTER_DEVICE);
	ctx->tc_index = 0;
	ctx->mark = 0;
	bpf_set_hash_invalid(ctx);
	return how & DETOUR_TO_LEG ? hand_to_leg(ctx, p, how) : hand_to_port(ctx, p, number, how);
}

SEC("classifier")
int from_unmarker(struct __sk_buff *ctx)
{
	struct packet *p = begin(ctx, HOOK_FROM_UNMARKER);

	return p ? finish(ctx, p, from_unmarker_stages(ctx, p)) : TCX_DROP;
}

/* At the far end of the coalescer, behind GRO. */
SEC("classifier")
int back_to_peer(struct __sk_buff *ctx)
{
	return bpf_redirect_peer(ctx->ifindex, 0);
}

/* So that a connection that moved here takes its place of the ring as any other does. */
SEC("classifier")
int take_connection(struct __sk_buff *ctx)
{
	return take_over_connection(ctx);
}

char _license[] SEC("license") = "GPL";
