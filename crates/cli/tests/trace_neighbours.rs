//! `overlane trace` and `overlane flows` where routers ask for neighbours that no port declares.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;
#[path = "place/traced.rs"]
mod traced;

use std::fs;

use serde_json::{Value, json};

use place::{Place, code, err, out};
use traced::hooks;

/// The gateway is not where `web` is; line numbers count from 1.
const ROUTED: &str = r#"version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
switches:
  a: { vni: 1 }
  b: { vni: 2 }
  c: { vni: 3, neighbours: declared }
  v: { uplink_vlan: 100 }
ports:
  web: { switch: a, host: h1, device: web, mac: "02:00:00:00:00:01", addresses: [198.18.1.1, "2001:2:0:1::1"] }
  vip2: { switch: b, host: h2, device: vip2, mac: "02:00:00:00:00:02", addresses: [198.18.2.1], allowed_addresses: [198.18.2.9, 198.18.2.64/26] }
  vip1: { switch: b, host: h3, device: vip1, mac: "02:00:00:00:00:03", addresses: [198.18.2.2], allowed_addresses: [198.18.2.9, 198.18.2.64/26, 198.18.2.70] }
  only: { switch: c, host: h3, device: only, mac: "02:00:00:00:00:05", addresses: [198.18.3.1] }
  lan: { switch: v, host: h2, device: lan, mac: "02:ff:c6:12:04:09", addresses: [198.18.4.1] }
  far: { switch: v, host: h3, device: far, mac: "02:00:00:00:00:07", addresses: [198.18.4.2], allowed_addresses: [198.18.4.8] }
rules:
  out: { ports: [web], direction: from_port, action: allow }
  in: { ports: [vip1, vip2], direction: to_port, action: allow, services: [tcp/80] }
  rest: { ports: [vip1, vip2], direction: to_port, action: drop, priority: 5 }
routers:
  core:
    interfaces: { a: [198.18.1.254/24, "2001:2:0:1::fe/64"], b: [198.18.2.254/24], c: [198.18.3.254/24], v: [198.18.4.254/24] }
    routes: [{ to: 0.0.0.0/0, via: 198.19.0.1 }, { to: "::/0", via: "2001:2:0:9::1" }, { to: 198.18.128.0/24, via: 198.18.2.100 }]
    gateway: { host: h2, device: phys0, addresses: [198.19.0.2/24, "2001:2:0:9::2/64"] }
"#;

/// All hooks that a packet meets.
fn all(hop: &Value) -> Vec<&Value> {
    let outputs = hop["outputs"].as_array().unwrap().iter();
    let behind = outputs.flat_map(|output| output["then"].as_array().unwrap());
    let behind = behind.flat_map(all);
    std::iter::once(hop).chain(behind).collect()
}

/// The only answer that is taken for granted: host, address, MAC and port.
fn assumed(traced: &Value) -> Value {
    let hops = all(&traced["hop"]);
    let assumed = hops.iter().flat_map(|hop| {
        let of_hop = hop["assumed"].as_array().unwrap().iter();
        of_hop.map(|it| json!([hop["host"], it["address"], it["mac"], it["port"]]))
    });
    let assumed: Vec<Value> = assumed.collect();
    let [only] = &assumed[..] else {
        panic!("{assumed:?}")
    };
    only.clone()
}

/// Where a packet to the address ends, and what is taken for granted on its way.
#[track_caller]
fn reaches(place: &Place, to: &str, way: &[&str], answer: &Value) {
    let field = if to.contains(':') { "ip6" } else { "ip4" };
    let traced = place.json("web", &format!("{field}.dst={to} tcp.dport=80"));
    assert_eq!(hooks(&traced["hop"]), way, "{to}");
    assert_eq!(assumed(&traced), *answer, "{to}");
    assert_eq!(traced["result"]["drop"], false, "{to}");
}

#[test]
fn behind_a_leg_somebody_answers() {
    let place = Place::of(ROUTED);
    let way = ["h1 from_port encap", "h2 from_underlay leg_out"];
    for (to, neighbour, mac) in [
        ("198.19.9.1", "198.19.0.1", "02:ff:c6:13:00:01"),
        ("198.19.0.77", "198.19.0.77", "02:ff:c6:13:00:4d"),
        ("2001:2:0:77::1", "2001:2:0:9::1", "02:ff:00:00:00:01"),
    ] {
        reaches(&place, to, &way, &json!(["h2", neighbour, mac, null]));
    }
    let text = place.text("web", "ip4.dst=198.19.9.1");
    let lines = "
host h2, from_underlay
  asks first     router core: would ask for 198.19.0.1 by ARP in the physical network (fabric.yaml:23)
  assumed        198.19.0.1 answers with 02:ff:c6:13:00:01, a made-up MAC
  vtep_check     from host h1 (198.18.0.1) (fabric.yaml:3)
";
    assert!(text.contains(lines), "{text}");
    let end = "\nsent: into the physical network, by the leg of h2\n";
    assert!(text.ends_with(end), "{text}");
    let output = place.trace("web", "ip4.dst=198.19.9.1", &["--expect", "leg_out"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn on_a_switch_the_first_port_that_may_have_the_address_answers() {
    let place = Place::of(ROUTED);
    let to_vip2 = ["h1 from_port encap", "h2 from_underlay to_port"];
    let to_vip1 = [
        "h1 from_port encap",
        "h2 from_underlay encap",
        "h3 from_underlay to_port",
    ];
    let vip2 = |addr: &str| json!(["h2", addr, "02:00:00:00:00:02", "vip2"]);
    let vip1 = json!(["h2", "198.18.2.70", "02:00:00:00:00:03", "vip1"]);
    // Floating, in a network, the next hop of a route, and floating inside a network of another port.
    reaches(&place, "198.18.2.9", &to_vip2, &vip2("198.18.2.9"));
    reaches(&place, "198.18.2.71", &to_vip2, &vip2("198.18.2.71"));
    reaches(&place, "198.18.128.9", &to_vip2, &vip2("198.18.2.100"));
    reaches(&place, "198.18.2.70", &to_vip1, &vip1);
    let text = place.text("web", "ip4.dst=198.18.2.9 tcp.dport=80");
    let line = "  assumed        198.18.2.9 answers with 02:00:00:00:00:02, the MAC of port vip2 (fabric.yaml:13)\n";
    assert!(text.contains(line), "{text}");
    assert!(text.ends_with("\ndelivered: vip2 on h2\n"), "{text}");
    // What the firewall says of the packet counts, not what it says of the question.
    let dropped = place.json("web", "ip4.dst=198.18.2.9 tcp.dport=81");
    assert_eq!(dropped["result"]["verdict"], "firewall_drop");
}

/// The same without gateway and VLAN.
fn without_gateway() -> Place {
    let (text, _) = ROUTED.split_once("    routes:").unwrap();
    Place::of(&text.replace(", v: [198.18.4.254/24]", ""))
}

#[test]
fn without_a_gateway_the_host_of_the_sender_asks() {
    let place = without_gateway();
    let way = ["h1 from_port encap", "h2 from_underlay to_port"];
    let answer = json!(["h1", "198.18.2.9", "02:00:00:00:00:02", "vip2"]);
    reaches(&place, "198.18.2.9", &way, &answer);
    // The question left nothing behind: the packet is the first one of its connection.
    let text = place.text("web", "ip4.dst=198.18.2.9 tcp.dport=80");
    let begins =
        "  conntrack      198.18.1.1 port 40000 ↔ 198.18.2.9 port 80 TCP: a connection begins\n";
    assert!(text.contains(begins), "{text}");
}

#[test]
fn on_a_vlan_somebody_answers_unless_a_port_may_have_the_address() {
    let place = Place::of(ROUTED);
    let out = ["h1 from_port encap", "h2 from_underlay vlan_out"];
    // Port `lan` has the MAC that would be made up first.
    let outside = json!(["h2", "198.18.4.9", "02:ff:c6:12:04:0a", null]);
    reaches(&place, "198.18.4.9", &out, &outside);
    let far = [
        "h1 from_port encap",
        "h2 from_underlay vlan_out",
        "h3 from_underlay to_port",
    ];
    let answer = json!(["h2", "198.18.4.8", "02:00:00:00:00:07", "far"]);
    reaches(&place, "198.18.4.8", &far, &answer);
}

#[test]
fn where_nobody_can_be_named_it_ends_at_the_question() {
    let ends = |place: &Place, sentence: &str| {
        let traced = place.json("web", "ip4.dst=198.18.2.20 tcp.dport=80");
        assert_eq!(traced["result"]["verdict"], "resolving");
        let hops = all(&traced["hop"]);
        let not_known = hops.iter().filter_map(|hop| hop["not_known"].as_str());
        assert_eq!(not_known.collect::<Vec<_>>(), [sentence]);
        let text = place.text("web", "ip4.dst=198.18.2.20 tcp.dport=80");
        let paragraph = format!("\nnot known: {sentence}\n\ndropped: resolving at route on h2 — ");
        assert!(text.contains(&paragraph), "{text}");
        assert!(!text.contains("assumed"), "{text}");
    };
    ends(
        &Place::of(ROUTED),
        "who has 198.18.2.20: no port of switch b may use it. Add it to `addresses` or `allowed_addresses` of its port.",
    );
    // Each of them may have any address.
    let free = [
        r#"security: mac, addresses: [198.18.2.3]"#,
        r#"security: off"#,
        r#"learning: { limit: 8, age: 60 }"#,
        r#"security: off, learning: { limit: 8, age: 60 }"#,
    ];
    let port = |(number, more): (usize, &&str)| {
        format!(
            "  x{number}: {{ switch: b, host: h3, device: x{number}, mac: '02:00:00:00:01:0{number}', {more} }}\n"
        )
    };
    let with = |ports: &[&str]| {
        let ports: String = ports.iter().enumerate().map(port).collect();
        ROUTED.replace("rules:\n", &format!("{ports}rules:\n"))
    };
    let end = "of switch b may use any address. To follow the packet, add the address to `allowed_addresses` of the port \
               that has it, in a copy of the file.";
    for (number, names) in [
        (1, "port x0"),
        (3, "ports x0, x1, x2"),
        (4, "ports x0, x1, x2 and 1 more"),
    ] {
        let sentence = format!("who has 198.18.2.20: {names} {end}");
        ends(&Place::of(&with(&free[..number])), &sentence);
    }
    // The help helps.
    let text = with(&free).replace(
        free[0],
        &format!("allowed_addresses: [198.18.2.20], {}", free[0]),
    );
    let way = [
        "h1 from_port encap",
        "h2 from_underlay encap",
        "h3 from_underlay to_port",
    ];
    let answer = json!(["h2", "198.18.2.20", "02:00:00:00:01:00", "x0"]);
    reaches(&Place::of(&text), "198.18.2.20", &way, &answer);
}

#[test]
fn with_declared_neighbours_nobody_is_asked() {
    let traced = Place::of(ROUTED).json("web", "ip4.dst=198.18.3.9 tcp.dport=80");
    assert_eq!(traced["result"]["verdict"], "no_neighbour");
    assert_eq!(
        (&traced["hop"]["assumed"], &traced["hop"]["not_known"]),
        (&json!([]), &Value::Null)
    );
}

/// What port `web` sends.
fn frame(place: &Place, packet: &str) -> Vec<u8> {
    let traced = place.json("web", packet);
    let hex = traced["packet"]["hex"].as_str().unwrap();
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// Each packet of a capture from port `web`, so many seconds apart: its way, and how many answers were taken for granted.
fn captured(place: &Place, frames: &[Vec<u8>], seconds: u32) -> Vec<(Vec<String>, usize)> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in (0_u32..).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [number * seconds, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(place.folder.path().join("web.pcap"), file).unwrap();
    let arguments = [
        "trace",
        "fabric.yaml",
        "--port",
        "web",
        "--pcap",
        "web.pcap",
        "--json",
    ];
    let output = place.run(&arguments);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let traced: Value = serde_json::from_slice(&output.stdout).unwrap();
    let way = |one: &Value| {
        let hops = all(&one["hop"]);
        let answers = hops
            .iter()
            .map(|hop| hop["assumed"].as_array().unwrap().len());
        (hooks(&one["hop"]), answers.sum())
    };
    traced.as_array().unwrap().iter().map(way).collect()
}

#[test]
fn in_a_capture_a_neighbour_is_asked_once_and_stays_known() {
    let place = Place::of(ROUTED);
    let by_gateway = ["h1 from_port encap", "h2 from_underlay leg_out"];
    let frames = vec![frame(&place, "ip4.dst=198.19.9.1"); 12];
    for (index, (way, answers)) in captured(&place, &frames, 15).iter().enumerate() {
        assert_eq!(way, &by_gateway, "packet {index}");
        assert_eq!(*answers, usize::from(index == 0), "packet {index}");
    }
    // Every host of the switch hears a port's answer.
    let frames = vec![frame(&place, "ip4.dst=198.18.2.70 tcp.dport=80"); 3];
    let all = captured(&place, &frames, 15);
    let ways: Vec<usize> = all.iter().map(|(way, _)| way.len()).collect();
    assert_eq!(ways, [3, 2, 2], "{all:?}");
    let answers: Vec<usize> = all.iter().map(|(_, answers)| *answers).collect();
    assert_eq!(answers, [1, 0, 0]);
}

#[test]
fn in_a_capture_of_many_connections_neighbours_are_asked_too() {
    let place = without_gateway();
    let datagram = frame(&place, "ip4.dst=198.18.3.1 udp.dport=9");
    let of_port = |port: u16| {
        let mut datagram = datagram.clone();
        datagram[34..36].copy_from_slice(&port.to_be_bytes());
        // UDP over IPv4 goes without a checksum.
        datagram[40..42].fill(0);
        datagram
    };
    let mut frames: Vec<_> = (1..1100).map(of_port).collect();
    frames.push(frame(&place, "ip4.dst=198.18.2.9 tcp.dport=80"));
    let all = captured(&place, &frames, 0);
    let (way, answers) = all.last().unwrap();
    assert_eq!(way, &["h1 from_port encap", "h2 from_underlay to_port"]);
    assert_eq!(*answers, 1);
}

#[test]
fn where_there_is_no_room_for_one_more_it_ends_at_the_question() {
    let place = Place::of(&ROUTED.replace("198.19.0.2/24", "198.19.0.2/16"));
    let datagram = frame(&place, "ip4.dst=198.19.16.0 udp.dport=9");
    let sum = u16::from_be_bytes([datagram[24], datagram[25]]);
    let to_station = |number: u16| {
        let mut datagram = datagram.clone();
        let [high, low] = (0x1000 + number).to_be_bytes();
        datagram[32..34].copy_from_slice(&[high, low]);
        // What the address grows, the checksum of the header falls (RFC 1624).
        let (less, borrows) = sum.overflowing_sub(number);
        datagram[24..26].copy_from_slice(&(less - u16::from(borrows)).to_be_bytes());
        datagram[40..42].fill(0);
        datagram
    };
    // A leg has 4096 neighbours.
    let frames: Vec<_> = (0..=4096).map(to_station).collect();
    let all = captured(&place, &frames, 0);
    let last = |way: &[String]| way.last().unwrap().clone();
    let (ends, answers): (Vec<String>, Vec<usize>) = all
        .iter()
        .map(|(way, answers)| (last(way), *answers))
        .unzip();
    assert!(
        ends[..4096]
            .iter()
            .all(|end| end == "h2 from_underlay leg_out")
    );
    assert_eq!(ends[4096], "h2 from_underlay resolving");
    assert_eq!(answers.iter().sum::<usize>(), 4096);
    assert_eq!(answers[4096], 0);
}

#[test]
fn flows_say_what_routers_do_with_addresses_that_nobody_declares() {
    let place = Place::of(ROUTED);
    let output = place.run(&["flows", "fabric.yaml", "c"]);
    let table = "
route: addresses that nobody declares, on each side of the routers

ROUTER  SIDE       IN NETWORKS OF                      WHAT HAPPENS            LINE
─────────────────────────────────────────────────────────────────────────────────────────────
core    switch a   198.18.1.254/24, 2001:2:0:1::fe/64  host h2 asks            fabric.yaml:24
core    switch b   198.18.2.254/24                     host h2 asks            fabric.yaml:24
core    switch c   198.18.3.254/24                     dropped (no_neighbour)  fabric.yaml:24
core    switch v   198.18.4.254/24                     host h2 asks            fabric.yaml:24
core    leg phys0  198.19.0.2/24, 2001:2:0:9::2/64     host h2 asks            fabric.yaml:26
";
    assert!(out(&output).contains(table), "{}", out(&output));
    let line = "neighbours: declared (routers reach only addresses that ports declare)\n";
    assert!(out(&output).contains(line), "{}", out(&output));
    let output = place.run(&["flows", "fabric.yaml", "c", "--json"]);
    let flows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (c, route) = (&flows[0], &flows[0]["route"]);
    assert_eq!(c["neighbours"], "declared");
    assert_eq!(
        route[2],
        json!({
            "router": "core", "switch": "c", "leg": null, "networks": ["198.18.3.254/24"],
            "undeclared": "dropped", "asks": null, "line": 24,
        })
    );
    assert_eq!(
        route[4],
        json!({
            "router": "core", "switch": null, "leg": "phys0", "networks": ["198.19.0.2/24", "2001:2:0:9::2/64"],
            "undeclared": "asked", "asks": "h2", "line": 26,
        })
    );
    // Without an acting host, and on a switch that has no port.
    let (text, _) = ROUTED.split_once("    routes:").unwrap();
    let text = text.replace(
        "v: { uplink_vlan: 100 }",
        "v: { uplink_vlan: 100 }\n  e: { vni: 5 }",
    );
    let place = Place::of(&text.replace("v: [198.18.4.254/24]", "e: [198.18.5.254/24]"));
    let output = place.run(&["flows", "fabric.yaml", "e"]);
    let end = out(&output).split_once("\nno ports\n\nroute: ").unwrap().1;
    let side = "core    switch e  198.18.5.254/24";
    let line = end.lines().find(|line| line.starts_with(side)).unwrap();
    assert!(line.contains("each host asks"), "{line}");
}
