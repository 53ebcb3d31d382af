// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of the data path, each a tcx ingress hook: the order of the stages, and the one place
 * that turns a stage's answer into a counted verdict. docs/semantics.md says what each stage means.
 *
 *   from_port        port → parse → port_security → learn → arp_nd → l2_lookup
 *                    → (to_port | encap | vlan_out | flood)
 *   from_segmenter   the same, for the segments of a super-packet that could not travel whole;
 *                    and the way out for what is encapsulated already
 *   from_underlay    vtep_check → tunnel → parse → ecn → learn → ids → decap → (to_port | flood),
 *                    or vlan_in → parse → learn → l2_lookup → (to_port | flood)
 *   from_gro_device  drops: that device exists only to register the tunnel port for GRO
 */
#include "capture.h"
#include "ids.h"
#include "port_security.h"
#include "vlan_in.h"

static __always_inline void begin(struct __sk_buff *ctx, struct packet *p, enum hook hook)
{
	p->hook = hook;
	p->len = ctx->len;
	p->segments = ctx->gso_segs ? ctx->gso_segs : 1;
	p->action = TCX_DROP;
	p->in_tag = read_tag(ctx);
	capture_entered(ctx, p);
}

/* result: a verdict, or a negated drop reason. */
static __always_inline int finish(struct __sk_buff *ctx, struct packet *p, int result)
{
	int verdict = result < 0 ? -result : result;

	count_verdict(p, verdict);
	report_verdict(verdict);
	if (p->captured)
		capture_left(ctx, p, verdict);
	return result < 0 ? TCX_DROP : p->action;
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

static __always_inline int port_stages(struct __sk_buff *ctx, struct packet *p, __u32 ifindex)
{
	struct settings *s = get_settings();
	struct lswitch *sw;
	struct port *port;
	int result;

	if (!s)
		return DROP(NOT_CONFIGURED);
	port = find_source(p, ifindex);
	if (!port)
		return DROP(NO_PORT);
	p->switch_id = port->switch_id;
	p->source_key = port->key;
	sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	if (!sw)
		return DROP(UNKNOWN_SWITCH);

	result = parse(ctx, s, p, sw);
	if (p->hook == HOOK_FROM_PORT)
		count_port(p, p->source_key, PORT_FROM);
	if (result >= 0)
		result = port_security(ctx, p, port);
	if (result >= 0)
		result = learn_from_port(p, port);
	if (result >= 0)
		result = arp_nd(ctx, p);
	if (!result)
		result = l2_from_port(ctx, s, p, sw);
	if (result < 0)
		count_port(p, p->source_key, PORT_DROPPED);
	return result;
}

static __always_inline int inner_stages(struct __sk_buff *ctx, const struct settings *s,
					struct packet *p, const struct outer_view *o,
					__u32 tunnel_len)
{
	struct lswitch *sw = bpf_map_lookup_elem(&switches, &p->switch_id);
	int result;

	if (!sw)
		return DROP(UNKNOWN_VNI);
	p->offset = o->tunnel + tunnel_len;
	result = parse(ctx, s, p, sw);
	if (result >= 0)
		result = ecn(p, o->tos);
	if (result < 0)
		return result;
	learn_from_underlay(p, sw, &o->source);
	return ids(ctx, p, o, sw);
}

static __always_inline int tunnel_stages(struct __sk_buff *ctx, const struct settings *s,
					 struct packet *p)
{
	struct outer_view o = {};
	int result = vtep_check(ctx, s, &o);

	if (result == NOT_OURS)
		return VERDICT_TO_HOST;
	if (result < 0)
		return result;
	result = tunnel(ctx, s, &o);
	if (result >= 0) {
		p->switch_id = o.vni;
		p->source_key = o.source_key;
		result = inner_stages(ctx, s, p, &o, result);
	}
	count_remote(p, &o.source, result < 0 ? REMOTE_DROPPED : REMOTE_FROM);
	return result;
}

static __always_inline int vlan_stages(struct __sk_buff *ctx, const struct settings *s,
				       struct packet *p)
{
	struct lswitch *sw = vlan_in(p);
	const struct addr nobody = {};
	int result;

	if (!sw)
		return VERDICT_TO_HOST;
	result = parse(ctx, s, p, sw);
	if (result < 0)
		return result;
	learn_from_underlay(p, sw, &nobody);
	return l2_from_vlan(ctx, p, sw);
}

static __always_inline int underlay_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();

	p->action = TCX_NEXT;
	if (!s)
		return VERDICT_TO_HOST;
	return p->in_tag.proto ? vlan_stages(ctx, s, p) : tunnel_stages(ctx, s, p);
}

static __always_inline int send_encapsulated(struct packet *p)
{
	struct settings *s = get_settings();

	return s ? send_by_neighbour(s, p) : DROP(NOT_CONFIGURED);
}

SEC("classifier")
int from_port(struct __sk_buff *ctx)
{
	struct packet p = {};

	begin(ctx, &p, HOOK_FROM_PORT);
	return finish(ctx, &p, port_stages(ctx, &p, device_of_hook(ctx)));
}

SEC("classifier")
int from_segmenter(struct __sk_buff *ctx)
{
	struct packet p = {};
	__u32 mark = mark_of_packet(ctx);

	begin(ctx, &p, HOOK_FROM_SEGMENTER);
	ctx->mark = 0;
	if (mark == MARK_ENCAPSULATED)
		return finish(ctx, &p, send_encapsulated(&p));
	return finish(ctx, &p, port_stages(ctx, &p, mark));
}

SEC("classifier")
int from_underlay(struct __sk_buff *ctx)
{
	struct packet p = {};

	begin(ctx, &p, HOOK_FROM_UNDERLAY);
	return finish(ctx, &p, underlay_stages(ctx, &p));
}

SEC("classifier")
int from_gro_device(struct __sk_buff *ctx)
{
	struct packet p = {};

	begin(ctx, &p, HOOK_FROM_GRO_DEVICE);
	return finish(ctx, &p, DROP(OUTER_DEVICE));
}

char _license[] SEC("license") = "GPL";
