//! `overlane trace` through routers and firewalls: rules and routers are named with their lines, and what
//! leaves by a gateway says where.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;
#[path = "place/traced.rs"]
mod traced;

use serde_json::json;

use place::{Place, code, err, out};
use traced::hooks;

/// A router between two switches, a gateway, and a firewall; line numbers count from 1.
const ROUTED: &str = r#"version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  a: { vni: 1 }
  b: { vni: 2 }
ports:
  web: { switch: a, host: h1, device: web, mac: "02:00:00:00:00:01", addresses: [198.18.1.1], key: 7 }
  db: { switch: b, host: h2, device: db, mac: "02:00:00:00:00:02", addresses: [198.18.2.1], key: 8 }
rules:
  db-sql: { ports: [db], direction: to_port, action: allow, services: [tcp/5432] }
  db-rest: { ports: [db], direction: to_port, action: drop, priority: 5 }
routers:
  core:
    interfaces: { a: [198.18.1.254/24], b: [198.18.2.254/24] }
    routes: [{ to: 0.0.0.0/0, via: 198.19.0.1 }]
    gateway: { host: h2, device: phys0, addresses: [198.19.0.2/24] }
"#;

#[test]
fn a_rule_is_named_with_its_line() {
    let place = Place::of(ROUTED);
    let dropped = place.json("web", "ip4.dst=db tcp.dport=80");
    let result = &dropped["result"];
    assert_eq!(result["verdict"], "firewall_drop");
    assert_eq!(result["stage"], "acl");
    assert_eq!(
        result["by"],
        json!({ "kind": "rule", "name": "db-rest", "line": 13 })
    );
    let text = place.text("web", "ip4.dst=db tcp.dport=80");
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("dropped: firewall_drop at acl on h2 — "),
        "{last}"
    );
    assert!(last.ends_with("(fabric.yaml:13)"), "{last}");
    let allowed = place.text("web", "ip4.dst=db tcp.dport=5432");
    assert!(allowed.contains("(fabric.yaml:12)"), "{allowed}");
    assert!(allowed.ends_with("delivered: db on h2\n"), "{allowed}");
}

#[test]
fn what_is_elsewhere_goes_to_the_router_of_the_switch() {
    let place = Place::of(ROUTED);
    let traced = place.json("web", "ip4.dst=db tcp.dport=5432");
    assert_eq!(
        hooks(&traced["hop"]),
        ["h1 from_port encap", "h2 from_underlay to_port"]
    );
    let steps = traced["hop"]["steps"].as_array().unwrap();
    let route = steps.iter().find(|step| step["stage"] == "route").unwrap();
    assert_eq!(
        route["by"],
        json!({ "kind": "router", "name": "core", "line": 15 })
    );
    // On the switch itself nobody has it: the router would only send it back.
    let output = place.trace("web", "ip4.dst=198.18.1.9", &[]);
    assert_eq!(code(&output), 0);
    assert!(out(&output).contains("unreachable: no port of switch a has 198.18.1.9"));
}

#[test]
fn what_leaves_by_a_gateway_says_where() {
    let place = Place::of(ROUTED);
    let traced = place.json("web", "ip4.dst=198.19.9.1");
    assert_eq!(
        hooks(&traced["hop"]),
        ["h1 from_port encap", "h2 from_underlay leg_out"]
    );
    let out = &traced["hop"]["outputs"][0]["then"][0]["outputs"][0];
    assert_eq!(
        (&out["to"], &out["leg"], &out["next_hop"]),
        (&json!("leg"), &json!("phys0"), &json!("198.19.0.1"))
    );
    let output = place.trace("web", "ip4.dst=198.19.9.1", &["--expect", "leg_out"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        self::out(&output).ends_with("sent: into the physical network, by the leg of h2\n"),
        "{}",
        self::out(&output)
    );
}

#[test]
fn what_is_for_a_vlan_goes_by_way_of_the_acting_host() {
    let text = ROUTED.replace(
        "  h1: {",
        "  h3: { underlay: 198.18.0.3, uplink: eth1 }\n  h1: {",
    );
    let text = text
        .replace("vni: 1 }", "uplink_vlan: 100 }")
        .replace("vni: 2 }", "uplink_vlan: 101 }");
    let third = "  db: { switch: b, host: h2,";
    let text = text.replace(
        third,
        &format!(
            "  acts: {{ switch: b, host: h3, device: acts, mac: '02:00:00:00:00:03', addresses: [198.18.2.3] }}\n{third}"
        ),
    );
    // Without `gateway` it is the first of the file.
    let (text, _) = text.split_once("    routes:").unwrap();
    let traced = Place::of(text).json("web", "ip4.dst=db tcp.dport=5432");
    assert_eq!(
        hooks(&traced["hop"]),
        [
            "h1 from_port vlan_out",
            "h3 from_underlay vlan_out",
            "h2 from_underlay to_port"
        ]
    );
}

#[test]
fn from_outside_to_the_leg_of_a_router() {
    let place = Place::of(ROUTED);
    let from_leg = |packet: &[&str]| {
        let arguments = [&["trace", "fabric.yaml", "--from-leg"], packet].concat();
        place.run(&arguments)
    };
    let to_db = ["core", "ip4.src=198.19.9.9", "ip4.dst=db", "tcp.dport=5432"];
    let output = from_leg(&to_db);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    assert!(
        text.starts_with("from outside to the leg of router core on host h2 (fabric.yaml:15), "),
        "{text}"
    );
    assert!(text.contains("host h2, from_leg\n"), "{text}");
    assert!(text.contains("db on h2"), "{text}");
    let expects = |packet: &[&str], verdict: &str| {
        let output = from_leg(&[packet, &["--expect", verdict]].concat());
        assert_eq!(code(&output), 0, "{packet:?}: {}", err(&output));
    };
    expects(&to_db, "delivered");
    // Nobody asked for it, and only db-sql lets in.
    expects(
        &["core", "ip4.src=198.19.9.9", "ip4.dst=db", "tcp.dport=80"],
        "firewall_drop",
    );
    // The router's own address there; and what is no business of the router's.
    expects(
        &["core", "ip4.src=198.19.9.9", "ip4.dst=198.19.0.2"],
        "answer",
    );
    expects(
        &["core", "ip4.src=198.19.9.9", "ip4.dst=198.19.200.1"],
        "to_host",
    );
    expects(&["core", "arp.tpa=198.19.0.2"], "answer");
    for (wrong, words) in [
        (&["cor", "ip4.dst=db"][..], "did you mean `core`"),
        (&["core", "ip4.dst=db"], "ip4.src"),
        (&["core", "ip4.src=198.19.9.9"], "nothing says where"),
        (
            &["core", "ip4.dst=db", "--port", "web"],
            "cannot be used with",
        ),
    ] {
        let output = from_leg(wrong);
        assert_eq!(code(&output), 2, "{wrong:?}: {}", out(&output));
        assert!(err(&output).contains(words), "{wrong:?}: {}", err(&output));
    }
}
