/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firewall of a port, as those ask it that hand frames to ports: stage to_port once, flood for each copy. It stands
 * in stage/firewall.h: the one function that is called from below.
 */
#pragma once

#include "counters.h"

/* How firewall() is asked. */
#define FIREWALL_FROM_PORT 0
#define FIREWALL_TO_PORT 1

/* GO_ON, or a drop reason; the skb is as it was. */
int firewall(struct __sk_buff *ctx, const struct packet *p, const struct port *port, __u32 how);
