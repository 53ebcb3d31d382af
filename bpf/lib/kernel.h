/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's own structures say of a packet's network namespace. Reading them is free of a helper's call. Where
 * their members are, the kernel's BTF says when the programs are loaded (CO-RE). A kernel without BTF shows nothing.
 */
#pragma once

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

/* 1: the loader has found all that stands here. */
const volatile __u8 sees_kernel = 0;

#define OF_KERNEL __attribute__((preserve_access_index))

/* include/net/net_namespace.h */
struct net {
	__u64 net_cookie;          /* no other namespace has it, nor had it */
	unsigned int dev_base_seq; /* another one after each device that comes or goes */
} OF_KERNEL;

typedef struct {
	struct net *net;
} OF_KERNEL possible_net_t;

/* include/linux/netdevice.h */
struct net_device {
	possible_net_t nd_net;
} OF_KERNEL;

/* include/linux/skbuff.h */
struct sk_buff {
	struct net_device *dev;
} OF_KERNEL;

/* Another kernel may call them otherwise. */
static __always_inline bool shows_namespace(void)
{
	return sees_kernel && bpf_core_field_exists(struct net, net_cookie) &&
	       bpf_core_field_exists(struct net, dev_base_seq) &&
	       bpf_core_field_exists(struct net_device, nd_net) &&
	       bpf_core_field_exists(struct sk_buff, dev);
}

/*
 * bpf_cast_to_kern_ctx() of kernel/bpf/helpers.c, which the verifier makes a move of a register. Our loader knows no
 * kernel functions: the number of this one stands as 0x7ca57c7c until crates/ebpf/src/kernel.rs writes the kernel's.
 */
static __always_inline const struct net *namespace_of(struct __sk_buff *ctx)
{
	struct sk_buff *skb;

	asm volatile("r1 = %[ctx]\n\t"
		     ".quad 0x7ca57c7c00002085\n\t"
		     "%[skb] = r0"
		     : [skb] "=r"(skb)
		     : [ctx] "r"(ctx)
		     : "r0", "r1", "r2", "r3", "r4", "r5");
	return skb->dev->nd_net.net;
}
