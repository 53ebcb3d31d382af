// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of the data path, each a tcx ingress hook, and the one place that turns what stages say into a counted
 * verdict. A stage looks at the packet and decides; leave() carries out what was decided. docs/semantics.md says what
 * each stage means.
 */
/* In the order in which packets meet them. */
/* clang-format off */
#include "stage/port.h"
#include "stage/coalesce.h"
#include "stage/vtep_check.h"
#include "stage/path_mtu.h"
#include "stage/tunnel.h"
#include "stage/greeting.h"
#include "stage/vlan_in.h"
#include "stage/leg_in.h"
#include "stage/parse.h"
#include "stage/flow.h"
#include "stage/ecn.h"
#include "stage/origin.h"
#include "stage/port_security.h"
#include "stage/learn.h"
#include "stage/neighbour.h"
#include "stage/arp_nd.h"
#include "stage/conntrack.h"
#include "stage/acl.h"
#include "stage/firewall.h"
#include "stage/ids.h"
#include "stage/l2_lookup.h"
#include "stage/decap.h"
#include "stage/route.h"
#include "stage/nat.h"
#include "stage/to_port.h"
#include "leave/leave.h"
#include "leave/reply.h"
/* clang-format on */

/* As the kernel says; parse counts them for itself. */
INLINE void set_segments(struct __sk_buff *ctx, struct packet *p)
{
	__u32 segments = gso_segs_of(ctx);

	p->segments = segments ? segments : 1;
}

/* What comes from a port without a tag is parsed at once, and its flow may be known. Else from_port_stages() goes on. */
__noinline enum verdict flow_from_port(struct __sk_buff *ctx, struct packet *p, struct destination *d,
				       __u32 device)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct known known;

	if (!s || !w || !p || !d || p->in_tag.proto)
		return GO_ON;
	w->parsed = parse(ctx, p, false);
	p->is_parsed = true;
	if (w->parsed != GO_ON || !may_be_kept(p))
		return GO_ON;
	set_flow_key(&w->flow.key, p, NULL, device);
	known = know(ctx, s, w, p);
	if (!known.kept)
		return GO_ON;
	p->source = (struct port_id){ .ifindex = device };
	enter_known(p, d, known.kept);
	count_from_port(p, true);
	return follow(ctx, p, d, &known);
}

/* From a port, and segments of what came from one. */
__noinline enum verdict from_port_stages(struct __sk_buff *ctx, struct packet *p,
					 struct destination *d, __u32 device)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct lswitch *sw = NULL;
	struct port *at = NULL;
	enum verdict result;

	if (!s || !w || !p || !d)
		return DROP(NOT_CONFIGURED);
	result = port(p, d, device, &at, &sw);
	if (result != GO_ON)
		set_segments(ctx, p); /* nobody asked for its headers */
	if (result != GO_ON || !at || !sw)
		return result;
	d->tells_too_big = !!(sw->flags & SWITCH_TELLS_TOO_BIG);
	d->clamps_mss = !!(sw->flags & SWITCH_MSS_CLAMP);
	result = p->is_parsed ? w->parsed : parse(ctx, p, sw->flags & SWITCH_TRANSPARENT);
	if (p->hook == HOOK_FROM_PORT)
		count_from_port(p, result == GO_ON);
	if (result != GO_ON)
		return result;
	leave_as_it_came(d, p);
	hash_flow(s, p);
	result = port_security(ctx, p, at);
	if (result == GO_ON)
		result = learn_from_port(p, d, at);
	if (result == GO_ON)
		result = neighbour(ctx, p, d, sw);
	if (result != GO_ON || d->kind) /* an answer to a router, for its other hosts */
		return result;
	result = arp_nd(ctx, p, d);
	/* Segments were judged as the super-packet they were. */
	if (result == GO_ON && at->flags & PORT_FIREWALL && p->hook == HOOK_FROM_PORT)
		result = firewall(ctx, p, at, FIREWALL_FROM_PORT);
	if (result == GO_ON)
		result = l2_lookup(p, d, sw);
	return result;
}

/* The frame inside may be one of a known flow. */
INLINE struct known know_in_tunnel(struct __sk_buff *ctx, const struct settings *s, struct scratch *w,
				   struct packet *p, const struct outer_view *o)
{
	struct known known = {};

	if (o->end < ctx->len) /* padding goes first */
		return known;
	p->offset = o->frame;
	/* One with a tag inside begins behind that. */
	if (parse(ctx, p, false) == GO_ON && p->offset == o->frame && may_be_kept(p) &&
	    !is_whole_udp(p)) {
		set_flow_key(&w->flow.key, p, o, o->vni);
		known = know(ctx, s, w, p);
	}
	if (known.kept && ecn(p, o->tos) == GO_ON && p->ecn == (p->tos & ECN_MASK))
		return known;
	p->offset = 0;
	p->len = ctx->len;
	set_segments(ctx, p);
	return (struct known){};
}

/* Reads the outer headers, scratch.view; the flow inside may be known. Else from_underlay_stages() goes on. */
__noinline enum verdict flow_from_tunnel(struct __sk_buff *ctx, struct packet *p,
					 struct destination *d)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct outer_view *o;
	struct known known;

	if (!s || !w || !p || !d || has_vlan(&p->in_tag))
		return GO_ON;
	o = &w->view;
	*o = (struct outer_view){};
	o->port = bpf_htons(p->hook == HOOK_FROM_COALESCER ? UNMARK_PORT : s->tunnel_port);
	o->checked = vtep_check(ctx, o);
	if (o->checked == VERDICT_TO_HOST) /* ICMP may be an error about a tunnel packet */
		return o->is_icmp ? GO_ON : VERDICT_TO_HOST;
	p->changes = o->changes;
	p->tunnel_source_port = o->source_port;
	if (o->checked != GO_ON)
		return GO_ON;
	o->read = read_tunnel(ctx, p, o);
	/* What parse takes a tag off is no longer as it came, and may be the host's. */
	if (o->read != GO_ON || (p->in_tag.proto && s->port_shared))
		return GO_ON;
	known = know_in_tunnel(ctx, s, w, p, o);
	if (!known.kept)
		return GO_ON;
	enter_known(p, d, known.kept);
	if (decap(ctx, p) != GO_ON)
		return refuse(d, TELL_NOTHING, DROP(DECAP_FAILED));
	return follow(ctx, p, d, &known);
}

/* Out of a tunnel, of whose outer headers scratch.view tells: the switch, and where the frame begins. */
INLINE enum verdict tunnel_stages(struct __sk_buff *ctx, const struct settings *s, struct packet *p,
				  struct destination *d, struct outer_view *o, struct lswitch **sw)
{
	enum verdict result = o->checked;

	if (result == VERDICT_TO_HOST && o->is_icmp)
		learn_path_mtu(ctx);
	if (result == VERDICT_TO_HOST)
		return result;
	result = from_remote(s, o);
	if (result != GO_ON)
		return result;
	p->sender_counters = o->counters;
	result = tunnel(ctx, s, p, d, o, sw);
	return result == DROP(VNI_ZERO) ? greeting(ctx, p, d, o) : result;
}

/* From the underlay: out of a tunnel, or with the tag of a VLAN. */
__noinline enum verdict from_underlay_stages(struct __sk_buff *ctx, struct packet *p,
					     struct destination *d)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct lswitch *sw = NULL;
	enum known_source known = SOURCE_UNKNOWN;
	struct outer_view *o;
	bool in_tunnel;
	enum verdict result;

	if (!s || !w || !p || !d)
		return VERDICT_TO_HOST;
	o = &w->view;
	in_tunnel = !has_vlan(&p->in_tag);
	if (!in_tunnel) /* nobody knows from where */
		o->source = (struct addr){};
	result = in_tunnel ? tunnel_stages(ctx, s, p, d, o, &sw) : vlan_in(ctx, p, d, &sw);
	if (result != GO_ON || !sw)
		return result;
	d->tells_too_big = !!(sw->flags & SWITCH_TELLS_TOO_BIG);
	d->clamps_mss = !!(sw->flags & SWITCH_MSS_CLAMP);
	result = parse(ctx, p, sw->flags & SWITCH_TRANSPARENT);
	if (result == GO_ON && in_tunnel)
		result = ecn(p, o->tos);
	if (result == GO_ON)
		result = origin(p, d, in_tunnel ? &o->source : NULL, &known);
	if (result != GO_ON)
		return result;
	leave_as_it_came(d, p);
	if (known != SOURCE_DECLARED)
		learn_from_underlay(p, d, sw, &o->source, known == SOURCE_FLOATS);
	result = neighbour(ctx, p, d, sw);
	if (result == GO_ON)
		result = arp_nd(ctx, p, d);
	if (result == GO_ON && in_tunnel)
		result = ids(ctx, p, d, o);
	if (result == GO_ON && !d->kind)
		result = l2_lookup(p, d, sw);
	if (!is_drop(result) && in_tunnel && decap(ctx, p) != GO_ON)
		result = refuse(d, TELL_NOTHING, DROP(DECAP_FAILED));
	if (result == GO_ON && d->kind == TO_ROUTER) /* most packets from there need no hash */
		hash_flow(s, p);
	return result;
}

/* What nat gives a packet from the leg, route and the firewall see already. */
INLINE enum verdict translate_now(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct scratch *w = get_scratch();
	enum verdict result;

	if (!d->translation.end)
		return GO_ON;
	if (!w || keep_original(ctx, w, p) < 0)
		return DROP(INNER_IP_HEADER);
	p->readdressed = !same_addr(&p->flow.dest, &d->translation.addr);
	result = rewrite(ctx, p, d);
	d->translation.end = TRANSLATE_NOTHING;
	return result;
}

/* The same from a gateway's leg: what nat makes of it comes before its destination. Else from_leg_stages() goes on. */
__noinline enum verdict flow_from_leg(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	struct tracking *t = get_tracking();
	struct known known;
	enum verdict result;

	if (!s || !w || !t || !p || !d || p->in_tag.proto)
		return GO_ON;
	w->parsed = parse(ctx, p, false);
	p->is_parsed = true;
	if (w->parsed != GO_ON || !may_be_kept(p))
		return GO_ON;
	p->source.ifindex = device_of_hook(ctx);
	set_flow_key(&w->flow.key, p, NULL, p->source.ifindex);
	known = know(ctx, s, w, p);
	if (!known.kept)
		return GO_ON;
	enter_known(p, d, known.kept);
	leave_as_it_came(d, p);
	result = follow_near(ctx, p, &known);
	if (result == GO_ON && known.near) {
		translate_destination(d, &w->outside, &t->key);
		result = translate_now(ctx, p, d);
	}
	return result == GO_ON ? follow_far(ctx, p, d, &known) : result;
}

/* From a gateway's leg. What is not the router's stays with the host. */
__noinline enum verdict from_leg_stages(struct __sk_buff *ctx, struct packet *p,
					struct destination *d)
{
	struct settings *s = get_settings();
	struct scratch *w = get_scratch();
	enum verdict result;

	if (!s || !w || !p || !d)
		return VERDICT_TO_HOST;
	result = leg_in(ctx, p, d);
	if (result == VERDICT_TO_HOST) {
		set_segments(ctx, p); /* nobody asked for its headers */
		overhear(ctx, p, d);
	}
	if (result == GO_ON)
		result = p->is_parsed ? w->parsed : parse(ctx, p, false);
	if (result != GO_ON)
		return result;
	leave_as_it_came(d, p);
	hash_flow(s, p);
	result = neighbour(ctx, p, d, NULL);
	if (result == GO_ON)
		result = arp_nd(ctx, p, d);
	if (result == GO_ON)
		result = nat_in(ctx, p, d);
	if (result == GO_ON && is_first_seen(p))
		remember_translated(ctx, p, d, true);
	return result == GO_ON ? translate_now(ctx, p, d) : result;
}

/* From router to router, and into the switch or the physical network of the last one's next hop. */
__noinline enum verdict router_stages(struct __sk_buff *ctx, struct packet *p, struct destination *d)
{
	enum verdict result = GO_ON;
	struct lswitch *sw;

	if (!p || !d)
		return DROP(NOT_CONFIGURED);
	for (int i = 0; i < MOST_ROUTERS && result == GO_ON && d->kind == TO_ROUTER; i++) {
		result = route(ctx, p, d);
		if (result != GO_ON || d->kind)
			break;
		sw = bpf_map_lookup_elem(&switches, &d->switch_id);
		result = sw ? l2_lookup(p, d, sw) : DROP(UNKNOWN_SWITCH);
		if (sw && sw->flags & SWITCH_MSS_CLAMP)
			d->clamps_mss = true;
	}
	if (result == GO_ON && d->kind == TO_ROUTER)
		return refuse(d, TELL_TTL_EXCEEDED, DROP(TTL_EXCEEDED));
	if (result == GO_ON && d->kind == TO_LEG && d->translates)
		result = nat_out(ctx, p, d);
	if (result == GO_ON && d->kind == TO_LEG && is_first_seen(p))
		remember_translated(ctx, p, d, false);
	return result;
}

/* The packet of the hook, and its destination: not on the stack, which all stages share. NULL never happens. */
INLINE struct scratch *begin(struct __sk_buff *ctx, enum hook hook)
{
	struct scratch *w = get_scratch();

	if (!w)
		return NULL;
	if (test_mode) { /* what is not cleared, nobody must read; clang fills 1024 bytes at once */
		__builtin_memset(w, 0xa5, offsetof(struct scratch, original));
		asm volatile("" ::: "memory");
		__builtin_memset(&w->original, 0xa5,
				 offsetof(struct scratch, reply) -
					 offsetof(struct scratch, original));
		asm volatile("" ::: "memory");
		__builtin_memset(&w->reply, 0xa5,
				 offsetof(struct scratch, bytes) - offsetof(struct scratch, reply));
	}
	__builtin_memset(&w->packet, 0, offsetof(struct packet, eth));
	clear_destination(&w->destination);
	begin_flow(&w->flow);
	w->begun.switch_id = 0;
	w->packet.hook = hook;
	w->packet.len = ctx->len;
	set_segments(ctx, &w->packet);
	w->packet.in_tag = read_tag(ctx);
	w->packet.action = TCX_DROP;
	capture_entered(ctx, &w->packet);
	return w;
}

/* Counts for the port, or the remote, that the packet came from. */
INLINE void count_source(const struct packet *p, bool dropped)
{
	if (p->source_counters && dropped)
		count_port(p, p->source_counters, PORT_DROPPED);
	if (p->sender_counters)
		count_remote(p, p->sender_counters, dropped ? REMOTE_DROPPED : REMOTE_FROM);
}

/* Every packet's end: its verdict is counted here, once. */
INLINE int conclude(struct __sk_buff *ctx, struct scratch *w, enum verdict result, int action)
{
	count_verdict(&w->packet, result);
	report_verdict(result);
	if (w->packet.captured)
		capture_left(ctx, &w->packet, &w->destination, result);
	return action;
}

/*
 * result: what the stages say of where it came from. Routers follow, and the port that gets the frame; what was
 * decided is carried out, and the sender told what it is to be told.
 */
INLINE int finish(struct __sk_buff *ctx, struct scratch *w, enum verdict result)
{
	struct destination *d = &w->destination;
	struct packet *p = &w->packet;
	int action;

	if (result == GO_ON && d->kind == TO_ROUTER)
		result = router_stages(ctx, p, d);
	if (result == GO_ON && d->kind == TO_PORT && !p->is_known)
		result = to_port(ctx, p, d);
	if (result == VERDICT_TO_HOST)
		d->kind = TO_HOST;
	if (result == VERDICT_TO_HOST || result == GO_ON)
		result = leave(ctx, p, d);
	if (result == DROP(FIREWALL_REJECT))
		d->tell = p->flow.protocol == IPPROTO_TCP && !p->fragment ? TELL_RESET :
									    TELL_PROHIBITED;
	if (result == VERDICT_ANSWER)
		d->dest_key = p->source_key;
	if (w->flow.slot != NO_FLOW && !p->is_known && is_kept_verdict(result))
		keep_flow(p, d);
	action = is_drop(result) ? TCX_DROP : p->action;
	if (d->tell && reply(ctx, p, d)) {
		leave(ctx, &w->reply, &w->reply_to);
		action = w->reply.action;
	} else if (d->tell && result != VERDICT_GREETING && !is_drop(result)) {
		/* Not every greeting has an answer; all others were to have one. */
		result = DROP(ENCAP_FAILED);
	}
	if (is_drop(result))
		forget_begun();
	count_source(p, is_drop(result));
	return conclude(ctx, w, result, action);
}

/* A copy that is to ask a neighbour, where it comes out of the segmenter. */
INLINE enum verdict from_probe(struct __sk_buff *ctx, struct scratch *w, __u32 number)
{
	w->reply.action = TCX_DROP;
	if (end_probe(ctx, &w->packet, number))
		leave(ctx, &w->reply, &w->reply_to);
	w->packet.action = w->reply.action;
	return VERDICT_PROBE;
}

/* At a port's device, or where the segmenter ends: what it was given says in its mark what it is. */
INLINE enum verdict from_port_device(struct __sk_buff *ctx, struct scratch *w)
{
	__u32 device = device_of_hook(ctx);
	enum verdict result;

	if (w->packet.hook == HOOK_FROM_SEGMENTER) {
		device = mark_of_packet(ctx);
		ctx->mark = 0;
	}
	if (device == MARK_ENCAPSULATED) {
		w->destination.kind = TO_REMOTE;
		w->destination.is_whole = true;
		return GO_ON;
	}
	if ((device & MARK_PROBE) == MARK_PROBE)
		return from_probe(ctx, w, device & ~MARK_PROBE);
	if (w->packet.hook == HOOK_FROM_PORT) {
		result = flow_from_port(ctx, &w->packet, &w->destination, device);
		if (w->packet.is_known)
			return result;
	}
	return from_port_stages(ctx, &w->packet, &w->destination, device);
}

/* From a gateway's leg. */
INLINE enum verdict from_leg_device(struct __sk_buff *ctx, struct scratch *w)
{
	enum verdict result = flow_from_leg(ctx, &w->packet, &w->destination);

	if (w->packet.is_known)
		return result;
	return from_leg_stages(ctx, &w->packet, &w->destination);
}

/* From the uplink, or where the coalescer ends. */
INLINE enum verdict from_underlay_device(struct __sk_buff *ctx, struct scratch *w)
{
	enum verdict result = flow_from_tunnel(ctx, &w->packet, &w->destination);

	if (w->packet.is_known || result == VERDICT_TO_HOST)
		return result;
	return from_underlay_stages(ctx, &w->packet, &w->destination);
}

/* Where the coalescer ends: nothing else may come from there. */
INLINE enum verdict from_coalescer(struct __sk_buff *ctx, struct scratch *w)
{
	if (!is_on_detour(ctx))
		return DROP(OUTER_DEVICE);
	ctx->tc_index = 0;
	return from_underlay_device(ctx, w);
}

INLINE enum verdict stages_of(struct __sk_buff *ctx, struct scratch *w, enum hook hook)
{
	if (hook == HOOK_FROM_UNDERLAY)
		return from_underlay_device(ctx, w);
	if (!hook_is_there(ctx, &w->packet.changes))
		return hook == HOOK_FROM_LEG ? VERDICT_TO_HOST : DROP(DEVICE_GONE);
	if (hook == HOOK_FROM_LEG)
		return from_leg_device(ctx, w);
	if (hook == HOOK_FROM_COALESCER)
		return from_coalescer(ctx, w);
	return from_port_device(ctx, w);
}

/* As the program at the hook says, but the same program is where detours end. */
INLINE enum hook hook_of(struct __sk_buff *ctx, const struct settings *s)
{
	enum hook hook = ctx->cb[0];

	if (s && hook == HOOK_FROM_PORT && device_of_hook(ctx) == s->segmenter_out_ifindex)
		return HOOK_FROM_SEGMENTER;
	if (s && hook == HOOK_FROM_UNDERLAY && device_of_hook(ctx) == s->coalescer_ifindex)
		return HOOK_FROM_COALESCER;
	return hook;
}

/*
 * At no hook: where from_port, from_underlay and from_leg lead. Three programs would be the same stages three times, and
 * the verifier walks all stages of each program.
 */
SEC("classifier")
int data_path(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	enum hook hook = hook_of(ctx, s);
	struct scratch *w;

	if (hook == HOOK_FROM_UNDERLAY && s && s->coalescer_ifindex && !test_mode &&
	    coalesce(ctx) == VERDICT_COALESCE)
		return bpf_redirect(s->coalescer_ifindex, 0);
	w = begin(ctx, hook);
	return w ? finish(ctx, w, stages_of(ctx, w, hook)) : TCX_DROP;
}

/*
 * Leads to data_path, which sees nothing of where it came from but the bytes that tc leaves to programs. Programs of
 * another build may come to this one's data_path for a moment: these numbers stay.
 *
 * `instead`: what becomes of a packet when there is no data_path. A tail call that fails returns here. The kernel
 * empties the map when nothing in user space holds it any more: somebody took its pin away. Until the next `apply` it is
 * then as if the device had no program; but what a port sends is never left to the host.
 */
INLINE int enter(struct __sk_buff *ctx, enum hook hook, enum verdict instead)
{
	struct scratch *w;

	ctx->cb[0] = hook;
	bpf_tail_call(ctx, &data_paths, 0);
	w = get_scratch();
	if (w) {
		w->packet.hook = hook;
		w->packet.len = ctx->len;
		w->packet.segments = 1;
		w->packet.offset = 0;
		count_verdict(&w->packet, instead);
		report_verdict(instead);
	}
	return is_drop(instead) ? TCX_DROP : TCX_NEXT;
}

SEC("classifier")
int from_port(struct __sk_buff *ctx)
{
	return enter(ctx, HOOK_FROM_PORT, DROP(NOT_CONFIGURED));
}

SEC("classifier")
int from_underlay(struct __sk_buff *ctx)
{
	return enter(ctx, HOOK_FROM_UNDERLAY, VERDICT_TO_HOST);
}

SEC("classifier")
int from_leg(struct __sk_buff *ctx)
{
	return enter(ctx, HOOK_FROM_LEG, VERDICT_TO_HOST);
}

/* The device exists only to register the tunnel's port for GRO. */
SEC("classifier")
int from_gro_device(struct __sk_buff *ctx)
{
	struct scratch *w = begin(ctx, HOOK_FROM_GRO_DEVICE);

	return w ? conclude(ctx, w, DROP(OUTER_DEVICE), TCX_DROP) : TCX_DROP;
}

/* Where frames come out of the unmarker: leave() had them on their way already. */
SEC("classifier")
int from_unmarker(struct __sk_buff *ctx)
{
	struct scratch *w = begin(ctx, HOOK_FROM_UNMARKER);
	enum verdict result;

	if (!w)
		return TCX_DROP;
	if (!hook_is_there(ctx, &w->packet.changes))
		return conclude(ctx, w, DROP(DEVICE_GONE), TCX_DROP);
	result = end_detour(ctx, &w->packet, &w->destination);
	if (result == GO_ON && w->destination.kind == TO_LEG)
		result = send_by_leg(ctx, &w->packet, &w->destination);
	else if (result == GO_ON)
		result = hand_over(ctx, &w->packet, &w->destination);
	return conclude(ctx, w, result, w->packet.action);
}

/* At the far end of the coalescer, behind GRO. */
SEC("classifier")
int back_to_peer(struct __sk_buff *ctx)
{
	return bpf_redirect_peer(ctx->ifindex, 0);
}

/*
 * At no hook: `overlane connections import` runs it, once for each connection that moved here, and `apply` for those of
 * maps with another layout.
 */
SEC("classifier")
int take_connection(struct __sk_buff *ctx)
{
	return take_over_connection(ctx);
}

/* At no hook: who forgets a translation from user space runs it, while packets are at work with others. */
SEC("classifier")
int forget_translated(struct __sk_buff *ctx)
{
	return forget_as_asked(ctx);
}

char _license[] SEC("license") = "GPL";
