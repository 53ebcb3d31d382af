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

/* What the FDB says of a frame's source. */
enum known_source { SOURCE_UNKNOWN, SOURCE_FLOATS, SOURCE_DECLARED };

/* remote NULL: it came on a VLAN, and nobody knows from where. */
INLINE enum verdict origin(struct packet *p, struct destination *d, const struct addr *remote,
			   enum known_source *known)
{
	struct fdb_entry *source = fdb_entry_or_floating(p->switch_id, p->eth.h_source);

	if (source && source->flags & FDB_FLOATS) {
		*known = SOURCE_FLOATS;
		source = NULL;
	}
	if (source) {
		*known = SOURCE_DECLARED;
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
