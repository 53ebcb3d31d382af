/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage origin: who sends a frame over the underlay may speak only for what the fabric lets it: its own ports, the
 * switches that it has ports of, and the routers that lead there from it.
 */
#pragma once

#include "lib/fdb.h"

/* The FDB says nothing of the frame's source, or that it is a router's. */
INLINE bool may_send_into(__u32 switch_id, const struct addr *remote, bool as_router)
{
	struct origin_key key = { .switch_id = switch_id, .remote = *remote };
	__u32 *flags = bpf_map_lookup_elem(&origins, &key);

	return flags && (as_router || *flags & ORIGIN_HAS_PORTS);
}

/* remote NULL: it came on a VLAN, and nobody knows from where. *declared: the FDB has its source. */
INLINE enum verdict origin(struct packet *p, struct destination *d, const struct addr *remote,
			   bool *declared)
{
	struct fdb_entry *source = fdb_entry_of(p->switch_id, p->eth.h_source);

	*declared = source;
	if (source) {
		p->source_key = d->source_key = source->key;
		if (source->port.ifindex)
			return DROP(REMOTE_MAC);
	}
	if (!remote)
		return GO_ON;
	p->claims_key = !source;
	if (source && !source->router)
		return same_addr(&source->remote, remote) || source->flags & FDB_ROAMS ?
			       GO_ON :
			       DROP(REMOTE_MAC);
	return may_send_into(p->switch_id, remote, source) ? GO_ON : DROP(REMOTE_SWITCH);
}
