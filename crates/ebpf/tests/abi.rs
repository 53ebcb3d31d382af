//! `abi.rs` against the compiled object: every struct, member, enum and capacity, from its BTF. What is
//! on one side only fails.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(unreachable_pub, missing_docs, reason = "a helper of this test")]
mod btf;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use btf::Btf;
use overlane_ebpf::DataPath;
use overlane_ebpf::abi::{self, firewall, router};
use overlane_model::{Hook, Verdict};

/// Structs that key or value a map, and what they are made of; found from the maps, not listed by hand.
fn abi_structs(btf: &Btf) -> BTreeSet<String> {
    let layouts = DataPath::embedded().unwrap();
    let mut names = BTreeSet::new();
    // These maps never leave the programs.
    let private = [
        "scratch",
        "event_buffer",
        "tracking",
        "flows",
        "kept_rules",
        "coarse_clock",
    ];
    for map in layouts
        .layouts()
        .keys()
        .filter(|name| !private.contains(&name.as_str()))
    {
        for part in ["key", "value"] {
            if let Some(id) = btf.map_part(map, part) {
                btf.collect_structs(id, &mut names);
            }
        }
    }
    names
}

/// What the rings hold.
const RECORDS: [&str; 2] = ["event", "log_record"];

#[test]
fn every_struct_has_the_same_members_at_the_same_places() {
    let btf = Btf::of(DataPath::embedded_bytes());
    let ours: BTreeMap<&str, &abi::StructLayout> =
        abi::structs().map(|layout| (layout.name, layout)).collect();
    let mut theirs = abi_structs(&btf);
    theirs.extend(RECORDS.map(str::to_owned));
    let names: BTreeSet<String> = ours.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, theirs);
    let header = Btf::of(&header_object());
    for (name, layout) in ours {
        let btf = if RECORDS.contains(&name) {
            &header
        } else {
            &btf
        };
        let members: Vec<(String, usize, usize)> = layout
            .members
            .iter()
            .map(|&(name, offset, size)| (name.to_owned(), offset, size))
            .collect();
        assert_eq!((layout.size, members), btf.layout(name), "struct {name}");
    }
}

#[test]
fn no_struct_has_padding_of_the_compiler() {
    for layout in abi::structs() {
        let members: usize = layout.members.iter().map(|(_, _, size)| size).sum();
        assert_eq!(members, layout.size, "struct {}", layout.name);
    }
}

#[test]
fn enums_have_the_same_numbers() {
    let btf = Btf::of(&header_object());
    let mut verdicts: BTreeMap<String, u32> = Verdict::ALL
        .iter()
        .map(|verdict| {
            (
                format!("VERDICT_{}", verdict.name().to_uppercase()),
                verdict.number(),
            )
        })
        .collect();
    // Minus one, which is no verdict.
    verdicts.insert("GO_ON".into(), u32::MAX);
    verdicts.insert("VERDICT_DROP_FIRST".into(), 16);
    verdicts.insert("VERDICT_SLOTS".into(), abi::VERDICT_SLOTS as u32);
    assert_eq!(verdicts, btf.enumeration("verdict"));

    let mut hooks: BTreeMap<String, u32> = Hook::ALL
        .iter()
        .map(|hook| {
            (
                format!("HOOK_{}", hook.name().to_uppercase()),
                hook.number(),
            )
        })
        .collect();
    hooks.insert("HOOK_COUNT".into(), abi::HOOK_COUNT as u32);
    assert_eq!(hooks, btf.enumeration("hook"));

    for (name, constants) in ENUMS {
        let ours = constants
            .iter()
            .map(|&(name, number)| (name.into(), number));
        assert_eq!(
            ours.collect::<BTreeMap<_, _>>(),
            btf.enumeration(name),
            "enum {name}"
        );
    }
}

type Enum = (&'static str, &'static [(&'static str, u32)]);

/// Enums of the header whose constants stand in `abi.rs`.
const ENUMS: &[Enum] = &[
    (
        "encapsulation",
        &[
            ("ENCAPSULATION_VXLAN", abi::ENCAPSULATION_VXLAN as u32),
            ("ENCAPSULATION_GENEVE", abi::ENCAPSULATION_GENEVE as u32),
        ],
    ),
    (
        "route_kind",
        &[
            ("ROUTE_OWN", router::ROUTE_OWN),
            ("ROUTE_CONNECTED", router::ROUTE_CONNECTED),
            ("ROUTE_VIA", router::ROUTE_VIA),
        ],
    ),
    (
        "nat_kind",
        &[
            ("NAT_ONE_TO_ONE", router::NAT_ONE_TO_ONE as u32),
            ("NAT_FORWARD", router::NAT_FORWARD as u32),
            ("NAT_SOURCE", router::NAT_SOURCE as u32),
        ],
    ),
    (
        "nat_side",
        &[
            ("NAT_INSIDE", router::NAT_INSIDE),
            ("NAT_OUTSIDE", router::NAT_OUTSIDE),
        ],
    ),
    (
        "rule_action",
        &[
            ("RULE_ALLOW", firewall::RULE_ALLOW),
            ("RULE_ALLOW_STATELESS", firewall::RULE_ALLOW_STATELESS),
            ("RULE_DROP", firewall::RULE_DROP),
            ("RULE_REJECT", firewall::RULE_REJECT),
        ],
    ),
    (
        "connection_state",
        &[
            ("CONNECTION_OPENING", firewall::CONNECTION_OPENING as u32),
            (
                "CONNECTION_ESTABLISHED",
                firewall::CONNECTION_ESTABLISHED as u32,
            ),
            ("CONNECTION_CLOSING", firewall::CONNECTION_CLOSING as u32),
            ("CONNECTION_CLOSED", firewall::CONNECTION_CLOSED as u32),
        ],
    ),
    (
        "limit",
        &[
            ("LIMIT_ANSWERS", firewall::LIMIT_ANSWERS as u32),
            ("LIMIT_LOG", firewall::LIMIT_LOG as u32),
            ("LIMIT_FLOOD", firewall::LIMIT_FLOOD as u32),
            ("LIMIT_ASKS", firewall::LIMIT_ASKS as u32),
            ("LIMIT_SIZES", firewall::LIMIT_SIZES as u32),
            ("LIMIT_ABILITIES", firewall::LIMIT_ABILITIES as u32),
        ],
    ),
];

/// BTF only has types that a map or global function uses; the enums are no more than numbers to those. So
/// a file of variables is compiled from the same headers, with the structs that no map has.
fn header_object() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("header.c");
    let object = folder.path().join("header.o");
    let enums = ENUMS.iter().map(|(name, _)| *name);
    let enums = enums.chain(["verdict", "hook"]).map(|name| ("enum", name));
    let structs = RECORDS.map(|name| ("struct", name));
    let variables = enums
        .chain(structs)
        .map(|(kind, name)| format!("{kind} {name} a_{name};\n"));
    let text = format!(
        "#include \"abi_router.h\"\n{}",
        variables.collect::<String>()
    );
    std::fs::write(&source, text).unwrap();
    let clang = if Command::new("clang-19").arg("--version").output().is_ok() {
        "clang-19"
    } else {
        "clang"
    };
    let status = Command::new(clang)
        .args([
            "-target",
            "bpf",
            "-O2",
            "-g",
            "-c",
            "-I",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/lib"),
        ])
        .args([
            "-I",
            &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH),
        ])
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read(object).unwrap()
}

#[test]
fn maps_hold_as_many_entries_as_we_check_for() {
    let data_path = DataPath::embedded().unwrap();
    let capacities = [
        ("settings", 1),
        ("data_paths", 1),
        ("devices", abi::MAX_DEVICES),
        ("ports", abi::MAX_PORTS),
        ("port_numbers", 1 + abi::MAX_PORTS),
        ("port_keys", abi::MAX_PORTS),
        ("switches", abi::MAX_SWITCHES),
        ("fdb", abi::MAX_FDB),
        ("neighbours", abi::MAX_NEIGHBOURS),
        ("allowed_addresses", abi::MAX_ALLOWED_ADDRESSES),
        ("allowed_macs", abi::MAX_ALLOWED_MACS),
        ("flood", abi::MAX_FLOOD),
        ("origins", abi::MAX_ORIGINS),
        ("remotes", abi::MAX_REMOTES),
        ("port_counters", 1 + abi::MAX_PORTS),
        ("remote_counters", 1 + abi::MAX_REMOTES),
        ("verdict_counters", abi::HOOK_COUNT * abi::VERDICT_SLOTS),
        ("learned", abi::MAX_LEARNED),
        ("found", abi::MAX_FOUND),
        (
            "found_counts",
            2 * (abi::MAX_PORTS + abi::MAX_SWITCHES + router::MAX_ROUTERS) + 1,
        ),
        ("asked", abi::MAX_ASKED),
        ("probes", abi::MAX_PROBES),
        ("devices_seen", abi::SEEN_DEVICES),
        ("learning", abi::MAX_PORTS + 2 * abi::MAX_SWITCHES + 1),
        ("abilities", abi::MAX_REMOTES),
        ("flow_ways", abi::MAX_FLOW_WAYS),
        ("path_mtus", 1 + abi::MAX_REMOTES),
        ("capture", 1),
        ("events", abi::EVENT_BYTES),
        // The programs' own.
        ("scratch", 1),
        ("tracking", 1),
        ("flows", 4096),
        ("kept_rules", 1024),
        ("coarse_clock", 1),
        ("epochs", 1024),
        ("event_buffer", 1),
        ("test_io", 1),
        ("routers", router::MAX_ROUTERS),
        ("legs", router::MAX_ROUTERS),
        ("leg_addresses", router::MAX_ROUTER_INTERFACES),
        ("router_interfaces", router::MAX_ROUTER_INTERFACES),
        ("routes", router::MAX_ROUTES),
        ("next_hops", 2 * router::MAX_NEXT_HOPS),
        ("nat_rules", 2 * router::MAX_NAT_RULES),
        ("nat_insides", 2 * router::MAX_NAT_RULES),
        ("nat_ends", 2 * router::MAX_NAT_ENDS),
        ("rule_sets", 2 * firewall::MAX_RULE_SETS),
        ("rule_peers", 2 * firewall::MAX_RULE_PREFIXES),
        ("rule_services", 2 * firewall::MAX_RULE_PREFIXES),
        ("rules", firewall::RULE_GENERATIONS * firewall::MAX_RULES),
        (
            "rule_counters",
            firewall::RULE_GENERATIONS * firewall::MAX_RULES,
        ),
        ("connections", firewall::MAX_CONNECTIONS),
        ("translations", firewall::MAX_CONNECTIONS),
        ("connection_places", firewall::MAX_CONNECTIONS),
        ("limits", firewall::MAX_LIMITS),
        ("fragments", firewall::MAX_FRAGMENTS),
        ("rule_log", firewall::LOG_BYTES),
    ];
    for (map, capacity) in capacities {
        assert_eq!(
            data_path.layouts()[map].max_entries as usize,
            capacity,
            "{map}"
        );
    }
    let unnamed: Vec<&String> = (data_path.layouts().keys())
        .filter(|map| !capacities.iter().any(|(name, _)| name == map))
        .collect();
    assert_eq!(unnamed, Vec::<&String>::new());
}

/// Constants that BTF does not carry, from the header itself.
#[test]
fn constants_of_the_header() {
    let header: String = ["abi.h", "abi_firewall.h", "abi_router.h"]
        .map(|name| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/lib");
            std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
        })
        .concat();
    let constant = |name: &str| {
        let define = format!("#define {name} ");
        let line = header
            .lines()
            .find_map(|line| line.strip_prefix(&define))
            .unwrap_or_else(|| panic!("{name}"));
        let value = line
            .split("/*")
            .next()
            .unwrap()
            .trim()
            .trim_matches(['(', ')']);
        let number = |text: &str| {
            let text = text.trim_end_matches('u');
            match text.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
                None => text.parse().unwrap(),
            }
        };
        match value.split_once(" << ") {
            Some((one, by)) => number(one) << number(by),
            None => number(value),
        }
    };
    for (name, ours) in [
        ("PORT_PEER", abi::PORT_PEER),
        ("PORT_CHECK_MAC", abi::PORT_CHECK_MAC),
        ("PORT_CHECK_ADDRESSES", abi::PORT_CHECK_ADDRESSES),
        ("PORT_DHCP_SERVER", abi::PORT_DHCP_SERVER),
        ("PORT_ROUTER", abi::PORT_ROUTER),
        ("PORT_LEARNING", abi::PORT_LEARNING),
        ("PORT_FIREWALL", abi::PORT_FIREWALL),
        ("PORT_DROP_FROM", abi::PORT_DROP_FROM),
        ("PORT_DROP_TO", abi::PORT_DROP_TO),
        ("PORT_ALLOW_WHEN_FULL", abi::PORT_ALLOW_WHEN_FULL),
        ("PORT_RULES_ODD", abi::PORT_RULES_ODD),
        ("PORT_TAKES_NO_MARK", abi::PORT_TAKES_NO_MARK),
        ("PORT_DROP_NON_IP", abi::PORT_DROP_NON_IP),
        ("PORT_ASKS_PROTOCOL_FROM", abi::PORT_ASKS_PROTOCOL_FROM),
        ("PORT_ASKS_PROTOCOL_TO", abi::PORT_ASKS_PROTOCOL_TO),
        ("PORT_ASKS_PORTS_FROM", abi::PORT_ASKS_PORTS_FROM),
        ("PORT_ASKS_PORTS_TO", abi::PORT_ASKS_PORTS_TO),
        ("MAX_NON_IP", abi::MAX_NON_IP as u32),
        ("ROUTER_REVERSE_PATH", router::ROUTER_REVERSE_PATH),
        ("ROUTER_NAT_ALL", router::ROUTER_NAT_ALL),
        ("ROUTER_MSS_CLAMP", router::ROUTER_MSS_CLAMP),
        ("ROUTE_SIDES", router::ROUTE_SIDES),
        ("FRAGMENT_PLACES", firewall::FRAGMENT_PLACES as u32),
        (
            "ROUTER_FRAGMENT_PLACES",
            firewall::ROUTER_FRAGMENT_PLACES as u32,
        ),
        ("ABILITY_WHOLE_UDP", abi::ABILITY_WHOLE_UDP),
        ("ABILITY_ROUTES_WHOLE_UDP", abi::ABILITY_ROUTES_WHOLE_UDP),
        ("ABILITY_DOUBTED", abi::ABILITY_DOUBTED),
        ("ROUTER_LEG_TAKES_NO_MARK", router::ROUTER_LEG_TAKES_NO_MARK),
        (
            "MAX_LEARNED_FROM_UNDERLAY",
            abi::MAX_LEARNED_FROM_UNDERLAY as u32,
        ),
        ("NEIGHBOUR_ROUTER", abi::NEIGHBOUR_ROUTER),
        ("NEIGHBOUR_INTERFACE", abi::NEIGHBOUR_INTERFACE),
        ("NEIGHBOUR_GATEWAY", abi::NEIGHBOUR_GATEWAY),
        ("SWITCH_FLOOD_UNKNOWN", abi::SWITCH_FLOOD_UNKNOWN),
        ("SWITCH_TRANSPARENT", abi::SWITCH_TRANSPARENT),
        ("SWITCH_LEARNING", abi::SWITCH_LEARNING),
        ("SWITCH_ASKS", abi::SWITCH_ASKS),
        ("SWITCH_TELLS_TOO_BIG", abi::SWITCH_TELLS_TOO_BIG),
        ("SWITCH_MSS_CLAMP", abi::SWITCH_MSS_CLAMP),
        ("MAX_FOUND_AT_PORT", abi::MAX_FOUND_AT_PORT as u32),
        ("MAX_FOUND_BEHIND", abi::MAX_FOUND_BEHIND as u32),
        ("SWITCH_ID_VLAN", abi::SWITCH_ID_VLAN),
        ("MAX_FLOOD_MEMBERS", abi::MAX_FLOOD_MEMBERS as u32),
        ("MAX_TEMPLATE", abi::MAX_TEMPLATE as u32),
        ("ROUTER_GATEWAY_HERE", router::ROUTER_GATEWAY_HERE),
        ("ROUTER_GATEWAY_ELSEWHERE", router::ROUTER_GATEWAY_ELSEWHERE),
        ("ROUTER_NAT", router::ROUTER_NAT),
        ("ROUTER_NAT_ODD", router::ROUTER_NAT_ODD),
        ("NAT_RULES_ODD", router::NAT_RULES_ODD),
        ("SWITCH_ID_LEG", router::SWITCH_ID_LEG),
        ("ZONE_ROUTER", firewall::ZONE_ROUTER),
        ("ZONE_REMOTE", firewall::ZONE_REMOTE),
        ("MAX_RULES", firewall::MAX_RULES as u32),
        ("RULE_WORDS", firewall::RULE_WORDS as u32),
        ("RULE_SUMMARY_WORDS", firewall::RULE_SUMMARY_WORDS as u32),
        ("RULE_LOG", firewall::RULE_LOG),
        ("RULE_DEFAULT", firewall::RULE_DEFAULT),
        (
            "CONNECTION_FROM_PEER",
            firewall::CONNECTION_FROM_PEER.into(),
        ),
        (
            "CONNECTION_MADE_BY_PEER",
            firewall::CONNECTION_MADE_BY_PEER.into(),
        ),
        ("CONNECTION_ADOPTED", firewall::CONNECTION_ADOPTED.into()),
        ("CONNECTION_ANSWERED", firewall::CONNECTION_ANSWERED.into()),
        ("CONNECTION_ASSURED", firewall::CONNECTION_ASSURED.into()),
        ("TCP_END_SEEN", firewall::TCP_END_SEEN.into()),
        ("TCP_END_SCALE", firewall::TCP_END_SCALE.into()),
        ("TCP_END_FIN", firewall::TCP_END_FIN.into()),
    ] {
        assert_eq!(constant(name), ours, "{name}");
    }
}
