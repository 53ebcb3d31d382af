/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a device is still the one that `apply` meant. Its index does not say so. A device that goes, or moves into
 * another network namespace, gives its index back, and the next device may get it. And a program goes along with a
 * device that moves: it then runs where all indices are other devices'.
 *
 * Map devices holds the devices themselves. The kernel takes an entry away when its device is unregistered or leaves
 * the namespace (kernel/bpf/devmap.c, dev_map_notification()). It does so before the index is free, and waits for the
 * programs that run before it gives the index away: no packet finds an entry of the wrong device.
 */
#pragma once

#include <linux/errno.h>

#include "packet.h"

INLINE bool is_gone_in_test(__u32 ifindex)
{
	struct test_io *io = get_test_io();

	return io && (ifindex == io->gone[0] || ifindex == io->gone[1] || ifindex == io->gone[2] ||
		      ifindex == io->gone[3]);
}

INLINE bool is_there(__u32 ifindex)
{
	if (test_mode)
		return !is_gone_in_test(ifindex);
	return bpf_map_lookup_elem(&devices, &ifindex);
}

/*
 * Whether the packet is in a namespace without our segmenter, which is there in ours: the index that `apply` gave it is
 * nobody else's. What bpf_check_mtu() finds by an index, it finds in the namespace of the packet's device.
 */
INLINE bool is_elsewhere(struct __sk_buff *ctx, const struct settings *s)
{
	__u32 mtu = 0;

	return !test_mode && bpf_check_mtu(ctx, s->segmenter_ifindex, &mtu, 0, 0) == -ENODEV &&
	       is_there(s->segmenter_ifindex);
}

/* Whether the device of the hook is. */
INLINE bool hook_is_there(struct __sk_buff *ctx, const struct settings *s)
{
	return is_there(device_of_hook(ctx)) && !is_elsewhere(ctx, s);
}
