/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every map of the data path. Tables are written by `apply` only, counters and what
 * was learned by the programs only.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "abi.h"

#define HASH(name_, kind, key_type, value_type, entries)                                             \
	struct {                                                                                     \
		__uint(type, kind);                                                                  \
		__uint(max_entries, entries);                                                        \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                \
		__type(key, key_type);                                                               \
		__type(value, value_type);                                                           \
	} name_ SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

HASH(ports, BPF_MAP_TYPE_HASH, struct port_id, struct port, MAX_PORTS);
HASH(port_keys, BPF_MAP_TYPE_HASH, struct port_key, struct port_id, MAX_PORTS);
HASH(switches, BPF_MAP_TYPE_HASH, __u32, struct lswitch, MAX_SWITCHES);
HASH(fdb, BPF_MAP_TYPE_HASH, struct fdb_key, struct fdb_entry, MAX_FDB);
HASH(neighbours, BPF_MAP_TYPE_HASH, struct neighbour_key, struct neighbour, MAX_NEIGHBOURS);
HASH(flood, BPF_MAP_TYPE_HASH, struct flood_key, struct flood_member, MAX_FLOOD);
HASH(remotes, BPF_MAP_TYPE_HASH, struct addr, struct remote, MAX_REMOTES);

HASH(learned, BPF_MAP_TYPE_HASH, struct fdb_key, struct learned, MAX_LEARNED);
HASH(learning, BPF_MAP_TYPE_HASH, struct port_key, struct learning, MAX_PORTS + MAX_SWITCHES + 1);

HASH(port_counters, BPF_MAP_TYPE_PERCPU_HASH, struct port_key, struct port_counters, MAX_PORTS);
HASH(remote_counters, BPF_MAP_TYPE_PERCPU_HASH, struct addr, struct remote_counters, MAX_REMOTES);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOOK_COUNT * VERDICT_SLOTS);
	__type(key, __u32);
	__type(value, struct counter);
} verdict_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct capture);
} capture SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");
