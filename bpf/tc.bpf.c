// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of the data path, each a tcx ingress hook: the order of the stages, and the one place
 * that turns a stage's answer into a counted verdict. docs/semantics.md says what each stage means.
 *
 *   from_port        parse → arp_nd → l2_lookup → (to_port | encap | flood)
 *   from_segmenter   the same, for the segments of a super-packet that could not travel whole;
 *                    and the way out for what is encapsulated already
 *   from_underlay    vtep_check → tunnel → parse → ids → (to_port | flood)
 *   from_gro_device  drops: that device exists only to register the tunnel port for GRO
 */
#include "arp_nd.h"
#include "ids.h"

static __always_inline void begin(struct __sk_buff *ctx, struct packet *p, enum hook hook)
{
	p->hook = hook;
	p->len = ctx->len;
	p->segments = ctx->gso_segs ? ctx->gso_segs : 1;
	p->action = TCX_DROP;
}

/* result: a verdict, or a negated drop reason. */
static __always_inline int finish(struct packet *p, int result)
{
	count_verdict(p, result < 0 ? -result : result);
	return result < 0 ? TCX_DROP : p->action;
}

static __always_inline int port_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct port *port;
	int result;

	if (!s)
		return DROP(NOT_CONFIGURED);
	port = bpf_map_lookup_elem(&ports, &p->source_ifindex);
	if (!port)
		return DROP(NO_PORT);
	p->vni = port->vni;
	p->source_key = port->key;

	result = ctx->vlan_present ? DROP(VLAN_TAG) : parse(ctx, s, p);
	if (p->hook == HOOK_FROM_PORT)
		count_port(p, p->source_key, PORT_FROM);
	if (result >= 0)
		result = arp_nd(ctx, p);
	if (!result)
		result = l2_from_port(ctx, s, p);
	if (result < 0)
		count_port(p, p->source_key, PORT_DROPPED);
	return result;
}

static __always_inline int underlay_stages(struct __sk_buff *ctx, struct packet *p)
{
	struct settings *s = get_settings();
	struct outer_view o = {};
	int result;

	p->action = TCX_NEXT;
	if (!s)
		return VERDICT_TO_HOST;
	result = vtep_check(ctx, s, &o);
	if (result == NOT_OURS)
		return VERDICT_TO_HOST;
	if (result < 0)
		return result;
	result = tunnel(ctx, s, &o);
	if (result >= 0) {
		p->vni = o.vni;
		p->offset = o.tunnel + result;
		result = parse(ctx, s, p);
	}
	if (result >= 0)
		result = ids(ctx, p, &o);
	count_remote(p, &o.source, result < 0 ? REMOTE_DROPPED : REMOTE_FROM);
	return result;
}

static __always_inline int send_encapsulated(struct packet *p)
{
	struct settings *s = get_settings();

	return s ? send_by_neighbour(s, p) : DROP(NOT_CONFIGURED);
}

SEC("classifier")
int from_port(struct __sk_buff *ctx)
{
	struct packet p = { .source_ifindex = ctx->ifindex };

	begin(ctx, &p, HOOK_FROM_PORT);
	return finish(&p, port_stages(ctx, &p));
}

SEC("classifier")
int from_segmenter(struct __sk_buff *ctx)
{
	struct packet p = { .source_ifindex = ctx->mark };

	begin(ctx, &p, HOOK_FROM_SEGMENTER);
	ctx->mark = 0;
	if (p.source_ifindex == MARK_ENCAPSULATED)
		return finish(&p, send_encapsulated(&p));
	return finish(&p, port_stages(ctx, &p));
}

SEC("classifier")
int from_underlay(struct __sk_buff *ctx)
{
	struct packet p = {};

	begin(ctx, &p, HOOK_FROM_UNDERLAY);
	return finish(&p, underlay_stages(ctx, &p));
}

SEC("classifier")
int from_gro_device(struct __sk_buff *ctx)
{
	struct packet p = {};

	begin(ctx, &p, HOOK_FROM_GRO_DEVICE);
	return finish(&p, DROP(OUTER_DEVICE));
}

char _license[] SEC("license") = "GPL";
