//! `overlane trace` through routers and firewalls: rules and routers are named with their lines, and what
//! leaves by a gateway says where.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use place::{Place, code, err, out};

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

fn routed() -> Place {
    let place = Place::new("geneve");
    fs::write(place.folder.path().join("fabric.yaml"), ROUTED).unwrap();
    place
}

impl Place {
    fn trace(&self, port: &str, packet: &str, more: &[&str]) -> Output {
        self.run(&[&["trace", "fabric.yaml", "--port", port, packet], more].concat())
    }

    fn json(&self, port: &str, packet: &str) -> Value {
        let output = self.trace(port, packet, &["--json"]);
        assert_eq!(code(&output), 0, "{packet}: {}", err(&output));
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        all[0].clone()
    }

    fn text(&self, port: &str, packet: &str) -> String {
        let output = self.trace(port, packet, &[]);
        assert_eq!(code(&output), 0, "{packet}: {}", err(&output));
        out(&output).to_owned()
    }
}

/// Verdicts of all hooks, in the order of the text: host, hook, verdict.
fn hooks(hop: &Value) -> Vec<String> {
    let word = |name: &str| hop[name].as_str().unwrap();
    let mut found = vec![format!(
        "{} {} {}",
        word("host"),
        word("hook"),
        word("verdict")
    )];
    for output in hop["outputs"].as_array().unwrap() {
        for next in output["then"].as_array().unwrap() {
            found.extend(hooks(next));
        }
    }
    found
}

#[test]
fn a_rule_is_named_with_its_line() {
    let place = routed();
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
    let place = routed();
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
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("no port of switch a has 198.18.1.9"));
}

#[test]
fn what_leaves_by_a_gateway_says_where() {
    let place = routed();
    let traced = place.json("web", "ip4.dst=192.0.2.1");
    assert_eq!(
        hooks(&traced["hop"]),
        ["h1 from_port encap", "h2 from_underlay leg_out"]
    );
    let out = &traced["hop"]["outputs"][0]["then"][0]["outputs"][0];
    assert_eq!(
        (&out["to"], &out["leg"], &out["next_hop"]),
        (&json!("leg"), &json!("phys0"), &json!("198.19.0.1"))
    );
    let text = place.text("web", "ip4.dst=192.0.2.1");
    assert!(text.contains("leg phys0 to 198.19.0.1"), "{text}");
    assert!(
        text.ends_with("sent: into the physical network, by the leg of h2\n"),
        "{text}"
    );
}
