/* SPDX-License-Identifier: Apache-2.0 */
/* What every answer begins with. Part of reply. */
#pragma once

#include "lib/tell.h"

#define REPLY_TTL 64

/* The answer as a packet: from whom to whom. from: an address of the packet's family. */
static __always_inline void begin_reply(struct packet *r, const struct packet *about,
					const struct addr *from)
{
	*r = (struct packet){ .hook = about->hook,
			      .segments = 1,
			      .source = about->source,
			      .in_tag = about->in_tag,
			      .tag = about->tag,
			      .switch_id = about->switch_id,
			      .action = TCX_DROP };
	__builtin_memcpy(r->eth.h_dest, about->eth.h_source, ETH_ALEN);
	__builtin_memcpy(r->eth.h_source, about->eth.h_dest, ETH_ALEN);
	r->eth.h_proto = about->eth.h_proto;
	if (from)
		__builtin_memcpy(&r->flow.words[0], from, sizeof(*from));
	__builtin_memcpy(&r->flow.words[4], &about->flow.words[0], sizeof(*from));
}
