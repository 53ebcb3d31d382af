/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a device is still the one that `apply` meant. Its index does not say so. A device that goes, or moves into
 * another network namespace, gives its index back, and the next device may get it. And a program goes along with a
 * device that moves: it then runs where all indices are other devices'.
 *
 * Map devices holds the devices themselves. The kernel takes an entry away when its device is unregistered or leaves
 * the namespace (kernel/bpf/devmap.c, dev_map_notification()). It does so before the index is free, and waits for the
 * programs that run before it gives the index away: no packet finds an entry of the wrong device.
 *
 * Map devices_seen remembers what was found, until any device of the namespace comes or goes: the kernel counts that.
 */
#pragma once

#include <linux/errno.h>

#include "kernel.h"
#include "packet.h"

INLINE bool is_gone_in_test(__u32 ifindex)
{
	struct test_io *io = get_test_io();

	return io && (ifindex == io->gone[0] || ifindex == io->gone[1] || ifindex == io->gone[2] ||
		      ifindex == io->gone[3]);
}

/* Whether it was found since the last change. `changes`: of the devices, as hook_is_there() says. */
INLINE bool was_seen(__u32 changes, __u32 ifindex)
{
	__u32 slot = ifindex % SEEN_DEVICES;
	__u64 *seen = bpf_map_lookup_elem(&devices_seen, &slot);

	return changes && seen && *seen == ((__u64)changes << 32 | ifindex);
}

/* Not inline: packets of a device that was seen do not come here. */
static __noinline bool is_held(__u32 changes, __u32 ifindex)
{
	__u32 slot = ifindex % SEEN_DEVICES;
	__u64 *seen;

	if (!bpf_map_lookup_elem(&devices, &ifindex))
		return false;
	seen = bpf_map_lookup_elem(&devices_seen, &slot);
	if (seen)
		*seen = (__u64)changes << 32 | ifindex;
	return true;
}

INLINE bool is_there(__u32 changes, __u32 ifindex)
{
	if (test_mode)
		return !is_gone_in_test(ifindex);
	return was_seen(changes, ifindex) || is_held(changes, ifindex);
}

/*
 * The same where the kernel shows no namespace. A packet in another one than ours finds no segmenter, which is there in
 * ours: the index that `apply` gave it is nobody else's. What bpf_check_mtu() finds by an index, it finds in the
 * namespace of the packet's device. Not inline: it has a stack of its own.
 */
static __noinline bool hook_is_there_by_segmenter(struct __sk_buff *ctx)
{
	struct settings *s = get_settings();
	__u32 mtu = 0;

	if (!s || !is_there(0, device_of_hook(ctx)))
		return false;
	return test_mode || bpf_check_mtu(ctx, s->segmenter_ifindex, &mtu, 0, 0) != -ENODEV ||
	       !is_there(0, s->segmenter_ifindex);
}

/*
 * Whether the device of the hook is. `changes` becomes another number after each change of the devices of the
 * namespace, and another one in each namespace; 0: nobody counts.
 */
INLINE bool hook_is_there(struct __sk_buff *ctx, __u32 *changes)
{
	struct settings *s = get_settings();
	const struct net *here;

	*changes = 0;
	if (!s) /* what follows says so */
		return true;
	if (!shows_namespace() || test_mode)
		return hook_is_there_by_segmenter(ctx);
	here = namespace_of(ctx);
	if (here->net_cookie != s->netns_cookie)
		return false;
	*changes = here->dev_base_seq + (__u32)s->netns_cookie * 0x9e3779b1;
	return is_there(*changes, device_of_hook(ctx));
}
