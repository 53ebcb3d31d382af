/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every map of the data path. Tables are written by `apply` only, what was learned by the programs only. The programs
 * count; `apply` sets the counters of a new number to zero, and takes counters along to another.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "abi_router.h"

#define HASH(name_, kind, key_type, value_type, entries)                                             \
	struct {                                                                                     \
		__uint(type, kind);                                                                  \
		__uint(max_entries, entries);                                                        \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                \
		__type(key, key_type);                                                               \
		__type(value, value_type);                                                           \
	} name_ SEC(".maps")

#define ARRAY(name_, kind, value_type, entries)                                                      \
	struct {                                                                                     \
		__uint(type, kind);                                                                  \
		__uint(max_entries, entries);                                                        \
		__type(key, __u32);                                                                  \
		__type(value, value_type);                                                           \
	} name_ SEC(".maps")

#define LRU(name_, key_type, value_type, entries)                                                    \
	struct {                                                                                     \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                                 \
		__uint(max_entries, entries);                                                        \
		__type(key, key_type);                                                               \
		__type(value, value_type);                                                           \
	} name_ SEC(".maps")

#define RING(name_, bytes)                                                                           \
	struct {                                                                                     \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                  \
		__uint(max_entries, bytes);                                                          \
	} name_ SEC(".maps")

/* The one entry of an array. */
#define GETTER(function, name_)                                                                      \
	INLINE struct name_ *function(void)                                                          \
	{                                                                                            \
		__u32 zero = 0;                                                                      \
                                                                                                     \
		return bpf_map_lookup_elem(&name_, &zero);                                           \
	}

/* One entry: the program data_path. */
ARRAY(data_paths, BPF_MAP_TYPE_PROG_ARRAY, __u32, 1);

ARRAY(devices, BPF_MAP_TYPE_DEVMAP_HASH, struct device, MAX_DEVICES);
ARRAY(devices_seen, BPF_MAP_TYPE_ARRAY, __u64, SEEN_DEVICES);
ARRAY(settings, BPF_MAP_TYPE_ARRAY, struct settings, 1);
HASH(ports, BPF_MAP_TYPE_HASH, struct port_id, struct port, MAX_PORTS);
ARRAY(port_numbers, BPF_MAP_TYPE_ARRAY, struct port_id, 1 + MAX_PORTS);
HASH(port_keys, BPF_MAP_TYPE_HASH, struct port_key, struct port_place, MAX_PORTS);
HASH(switches, BPF_MAP_TYPE_HASH, __u32, struct lswitch, MAX_SWITCHES);
HASH(fdb, BPF_MAP_TYPE_HASH, struct fdb_key, struct fdb_entry, MAX_FDB);
HASH(neighbours, BPF_MAP_TYPE_HASH, struct neighbour_key, struct neighbour, MAX_NEIGHBOURS);
HASH(allowed_addresses, BPF_MAP_TYPE_LPM_TRIE, struct allowed_address_key, __u32,
     MAX_ALLOWED_ADDRESSES);
HASH(allowed_macs, BPF_MAP_TYPE_HASH, struct allowed_mac_key, __u32, MAX_ALLOWED_MACS);
HASH(flood, BPF_MAP_TYPE_HASH, struct flood_key, struct flood_member, MAX_FLOOD);
HASH(remotes, BPF_MAP_TYPE_HASH, struct addr, struct remote, MAX_REMOTES);
HASH(origins, BPF_MAP_TYPE_HASH, struct origin_key, __u32, MAX_ORIGINS);

HASH(learned, BPF_MAP_TYPE_HASH, struct fdb_key, struct learned, MAX_LEARNED);
HASH(learning, BPF_MAP_TYPE_HASH, struct port_key, struct learning, MAX_PORTS + 2 * MAX_SWITCHES + 1);

HASH(found, BPF_MAP_TYPE_HASH, struct neighbour_key, struct found_neighbour, MAX_FOUND);
HASH(found_counts, BPF_MAP_TYPE_HASH, struct port_key, struct learning,
     2 * (MAX_PORTS + MAX_SWITCHES + MAX_ROUTERS) + 1);
LRU(asked, struct neighbour_key, struct asked, MAX_ASKED);
ARRAY(probes, BPF_MAP_TYPE_ARRAY, struct probe, MAX_PROBES);

/* Where it says twice, `apply` writes the new beside the old, and then takes the old away. */
HASH(routers, BPF_MAP_TYPE_HASH, __u32, struct router, MAX_ROUTERS);
HASH(legs, BPF_MAP_TYPE_HASH, __u32, __u32, MAX_ROUTERS);
HASH(leg_addresses, BPF_MAP_TYPE_HASH, struct leg_address_key, __u32, MAX_ROUTER_INTERFACES);
HASH(router_interfaces, BPF_MAP_TYPE_HASH, struct router_interface_key, struct router_interface,
     MAX_ROUTER_INTERFACES);
HASH(routes, BPF_MAP_TYPE_LPM_TRIE, struct route_key, struct route, MAX_ROUTES);
HASH(next_hops, BPF_MAP_TYPE_HASH, struct next_hop_key, struct next_hop, 2 * MAX_NEXT_HOPS);
HASH(nat_rules, BPF_MAP_TYPE_HASH, struct nat_rule_key, struct nat_rule, 2 * MAX_NAT_RULES);
HASH(nat_insides, BPF_MAP_TYPE_LPM_TRIE, struct nat_inside_key, __u32, 2 * MAX_NAT_RULES);
HASH(nat_ends, BPF_MAP_TYPE_HASH, struct nat_end_key, __u32, 2 * MAX_NAT_ENDS);

HASH(rule_sets, BPF_MAP_TYPE_HASH, __u32, struct rule_set, 2 * MAX_RULE_SETS);
HASH(rule_peers, BPF_MAP_TYPE_LPM_TRIE, struct rule_peer_key, __u32, 2 * MAX_RULE_PREFIXES);
HASH(rule_services, BPF_MAP_TYPE_LPM_TRIE, struct rule_service_key, __u32, 2 * MAX_RULE_PREFIXES);
ARRAY(rules, BPF_MAP_TYPE_ARRAY, struct rule, RULE_GENERATIONS *MAX_RULES);
ARRAY(rule_counters, BPF_MAP_TYPE_PERCPU_ARRAY, struct counter, RULE_GENERATIONS *MAX_RULES);

HASH(connections, BPF_MAP_TYPE_HASH, struct connection_key, struct connection, MAX_CONNECTIONS);
HASH(translations, BPF_MAP_TYPE_HASH, struct connection_key, struct translation_entry,
     MAX_CONNECTIONS);
ARRAY(connection_places, BPF_MAP_TYPE_ARRAY, struct connection_place, MAX_CONNECTIONS);
HASH(fragments, BPF_MAP_TYPE_HASH, struct fragment_place, struct first_fragment, MAX_FRAGMENTS);
HASH(abilities, BPF_MAP_TYPE_HASH, struct addr, __u32, MAX_REMOTES);
ARRAY(path_mtus, BPF_MAP_TYPE_ARRAY, struct path_mtu, 1 + MAX_REMOTES);
ARRAY(flow_ways, BPF_MAP_TYPE_ARRAY, struct flow_way, MAX_FLOW_WAYS);
LRU(limits, struct limit_key, struct limit_state, MAX_LIMITS);

RING(rule_log, LOG_BYTES);

ARRAY(port_counters, BPF_MAP_TYPE_PERCPU_ARRAY, struct port_counters, 1 + MAX_PORTS);
ARRAY(remote_counters, BPF_MAP_TYPE_PERCPU_ARRAY, struct remote_counters, 1 + MAX_REMOTES);

ARRAY(verdict_counters, BPF_MAP_TYPE_PERCPU_ARRAY, struct counter, HOOK_COUNT *VERDICT_SLOTS);

ARRAY(capture, BPF_MAP_TYPE_ARRAY, struct capture, 1);
RING(events, EVENT_BYTES);
