use std::net::{Ipv4Addr, Ipv6Addr};

use overlane_wire::Vni;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const WEB: &str = r#"{
  "format": "overlane-connections/2",
  "port": "web1",
  "vni": 5001,
  "uplink_vlan": null,
  "mac": "02:00:00:00:00:01",
  "connections": [
    {
      "protocol": 6,
      "local": { "address": "198.18.100.1", "port": 40000 },
      "peer": { "address": "198.18.100.2", "port": 80 },
      "icmp_type": null,
      "begun_by_peer": false,
      "adopted": false,
      "answered": true,
      "state": "established",
      "age_ms": 61000,
      "idle_ms": 12,
      "tcp": {
        "local": { "max_window": 65535, "scale": 7 },
        "peer": { "max_window": 64240, "scale": null }
      }
    },
    {
      "protocol": 58,
      "local": { "address": "2001:2::1", "port": 77 },
      "peer": { "address": "2001:2::2", "port": null },
      "icmp_type": 128,
      "begun_by_peer": true,
      "adopted": false,
      "answered": false,
      "state": "opening",
      "age_ms": 5,
      "idle_ms": 5,
      "tcp": null
    }
  ]
}"#;

fn parse(text: &str) -> Result<MovedConnections, MovedError> {
    MovedConnections::parse(text.as_bytes())
}

#[test]
fn a_file_is_what_it_says() {
    let moved = parse(WEB).unwrap();
    assert_eq!(moved.port.as_str(), "web1");
    assert_eq!(moved.switch, SwitchId::Vni(Vni::new(5001).unwrap()));
    assert_eq!(moved.mac.to_string(), "02:00:00:00:00:01");
    let [tcp, echo] = &moved.connections[..] else {
        panic!("two connections: {moved:?}");
    };
    assert_eq!(tcp.marks, MovedMarks::Ports(40000, 80));
    assert_eq!((tcp.age_ms, tcp.idle_ms), (61000, 12));
    assert_eq!(tcp.tcp.unwrap().local.scale, Some(7));
    assert_eq!(tcp.tcp.unwrap().peer.max_window, 64_240);
    assert_eq!(echo.marks, MovedMarks::Query(128, 77));
    let written: Value = serde_json::from_slice(&moved.to_json().unwrap()).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(WEB).unwrap());
}

#[test]
fn what_is_no_such_file_is_refused_with_the_reason() {
    for (text, found) in [
        ("", "cannot be understood: EOF"),
        ("[]", "cannot be understood"),
        (
            "{\"host\": \"h1\", \"connections\": []}",
            "no file with connections",
        ),
        (
            "{\"format\": \"overlane-result/1\"}",
            "no file with connections",
        ),
        ("{\"format\": 1}", "cannot be understood"),
        (
            "{\"format\": \"overlane-connections/3\", \"more\": 1}",
            "format `overlane-connections/3`, this version reads `overlane-connections/2`",
        ),
        ("{\"format\": \"overlane-connections/2\"}", "missing field"),
        (&WEB[..WEB.len() - 4], "cannot be understood: EOF"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(found), "{text}: {error}");
    }
}

#[test]
fn each_member_is_checked() {
    for (place, value, found) in [
        ("/port", json!("no name"), "`port` makes no sense"),
        ("/mac", json!("02:00"), "`mac` makes no sense"),
        ("/vni", json!(0), "`vni` makes no sense"),
        ("/vni", json!(null), "one of `vni` and `uplink_vlan`"),
        ("/uplink_vlan", json!(7), "one of `vni` and `uplink_vlan`"),
        (
            "/connections/0/peer/address",
            json!("2001:2::2"),
            "connection 1 makes no sense: its ends",
        ),
        (
            "/connections/0/peer/port",
            json!(null),
            "connection 1 makes no sense: one end",
        ),
        ("/connections/0/protocol", json!(47), "no ports"),
        ("/connections/0/protocol", json!(17), "`tcp` is for TCP"),
        (
            "/connections/0/protocol",
            json!(300),
            "cannot be understood",
        ),
        ("/connections/0/tcp", json!(null), "`tcp` is missing"),
        ("/connections/0/state", json!("open"), "unknown variant"),
        (
            "/connections/0/idle_ms",
            json!(61001),
            "older than its first",
        ),
        ("/connections/0/idle_ms", json!(-1), "cannot be understood"),
        (
            "/connections/0/tcp/local/scale",
            json!(15),
            "scale above 14",
        ),
        (
            "/connections/0/tcp/peer/max_window",
            json!(MAX_WINDOW + 1),
            "no packet can offer",
        ),
        (
            "/connections/0/tcp/peer/max_window",
            json!(1u64 << 32),
            "cannot be understood",
        ),
        (
            "/connections/1/icmp_type",
            json!(129),
            "connection 2 makes no sense: its ICMP type",
        ),
        (
            "/connections/1/icmp_type",
            json!(null),
            "one end has a port",
        ),
        (
            "/connections/1/protocol",
            json!(1),
            "an ICMP type and another protocol",
        ),
        ("/connections/1/adopted", json!(true), "only TCP is adopted"),
        ("/connections/1/state", json!("closed"), "only TCP closes"),
    ] {
        let mut document: Value = serde_json::from_str(WEB).unwrap();
        *document.pointer_mut(place).unwrap() = value;
        let error = parse(&document.to_string()).unwrap_err().to_string();
        assert!(error.contains(found), "{place}: {error}");
    }
    let mut twice: Value = serde_json::from_str(WEB).unwrap();
    twice["connections"][1] = twice["connections"][0].clone();
    let error = parse(&twice.to_string()).unwrap_err().to_string();
    assert!(
        error.contains("connection 2 makes no sense: another one"),
        "{error}"
    );
    let mut more: Value = serde_json::from_str(WEB).unwrap();
    more["connections"][0]["rule"] = json!("web");
    assert!(
        parse(&more.to_string())
            .unwrap_err()
            .to_string()
            .contains("unknown field")
    );
}

#[test]
fn ends_that_no_connection_has_are_refused() {
    for (number, end, address, what) in [
        (1, "peer", "0.0.0.0", "no address"),
        (1, "peer", "224.0.0.251", "a multicast address"),
        (1, "peer", "127.0.0.1", "a loopback address"),
        (1, "peer", "255.255.255.255", "the broadcast address"),
        (1, "local", "0.0.0.0", "no address"),
        (1, "local", "239.1.2.3", "a multicast address"),
        (2, "peer", "::", "no address"),
        (2, "peer", "ff02::fb", "a multicast address"),
        (2, "peer", "::1", "a loopback address"),
        (2, "local", "::1", "a loopback address"),
    ] {
        let mut document: Value = serde_json::from_str(WEB).unwrap();
        document["connections"][number - 1][end]["address"] = json!(address);
        let error = parse(&document.to_string()).unwrap_err().to_string();
        let begin = format!("connection {number} makes no sense: its {end}");
        assert!(error.starts_with(&begin), "{address}: {error}");
        assert!(error.contains(address) && error.ends_with(what), "{error}");
    }
    // The addresses of the port are known where the port is.
    let moved = parse(WEB).unwrap();
    for number in [0, 1] {
        let mut same = moved.clone();
        same.connections[number].peer = same.connections[number].local;
        let error = same.check_ends(&[]).unwrap_err().to_string();
        let begin = format!("connection {} makes no sense: its peer is", number + 1);
        assert!(
            error.starts_with(&begin) && error.ends_with("the port's own address"),
            "{error}"
        );
    }
    let other = IpAddr::from([198, 18, 100, 9]);
    moved.check_ends(&[other]).unwrap();
    let error = moved.check_ends(&[other, moved.connections[0].peer]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("its peer is 198.18.100.2, the port's own"),
        "{error}"
    );
    for address in ["fe80::1", "::ffff:198.18.0.1", "240.0.0.1"] {
        assert_eq!(nobodys(address.parse().unwrap()), None);
    }
}

#[test]
fn nothing_of_a_file_moves_a_terminals_cursor() {
    let evil = r"\u001b[2J\rerror:\nnote: \u202e";
    let named = WEB.replacen("\"format\"", &format!("\"{evil}\""), 1);
    let versioned = WEB.replacen("connections/2", &format!("connections/{evil}"), 1);
    let port = WEB.replacen("web1", evil, 1);
    let mac = WEB.replacen("02:00:00:00:00:01", evil, 1);
    let member = WEB.replacen("\"adopted\"", &format!("\"{evil}\""), 1);
    let state = WEB.replacen("\"established\"", &format!("\"{evil}\""), 1);
    let address = WEB.replacen("198.18.100.1", evil, 1);
    for text in [named, versioned, port, mac, member, state, address] {
        assert_ne!(text, WEB);
        let error = parse(&text).unwrap_err();
        let shown = error.to_string();
        assert!(shown.chars().all(crate::render::is_printable), "{error:?}");
        assert!(std::error::Error::source(&error).is_none());
    }
    // However long the name is, the place is there.
    let long = WEB.replacen("\"adopted\"", &format!("\"{}\"", "x".repeat(1000)), 1);
    let error = parse(&long).unwrap_err().to_string();
    assert!(error.contains("… at line 14 column "), "{error}");
}

prop_compose! {
    fn end()(max_window in 0..=MAX_WINDOW, scale in proptest::option::of(0..=MAX_SCALE)) -> MovedEnd {
        MovedEnd { max_window, scale }
    }
}

prop_compose! {
    fn connection()(is_ipv6: bool, kind in 0..4, ends: (u128, u128), ports in (any::<u16>(), 1..=u16::MAX),
                    flags: [bool; 3], state in 0usize..4, times: (u32, u32), tcp in (end(), end())) -> MovedConnection {
        let address = |bits: u128| match is_ipv6 {
            true => IpAddr::from(Ipv6Addr::from_bits(bits)),
            false => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
        };
        let (protocol, marks) = match (kind, is_ipv6) {
            (0, _) => (protocol::TCP, MovedMarks::Ports(ports.0, ports.1)),
            (1, _) => (SCTP, MovedMarks::Ports(ports.0, ports.1)),
            (2, true) => (protocol::ICMPV6, MovedMarks::Query(128, ports.0)),
            (2, false) => (protocol::ICMP, MovedMarks::Query(13, ports.0)),
            _ => (protocol::TCP, MovedMarks::None),
        };
        let is_tcp = kind == 0;
        let states = [MovedState::Opening, MovedState::Established, MovedState::Closing, MovedState::Closed];
        MovedConnection {
            protocol,
            local: address(ends.0),
            peer: address(ends.1),
            marks,
            begun_by_peer: flags[0],
            adopted: flags[1] && is_tcp,
            answered: flags[2],
            state: states[if is_tcp { state } else { state % 2 }],
            age_ms: u64::from(times.0) + u64::from(times.1),
            idle_ms: times.1.into(),
            tcp: is_tcp.then_some(MovedEnds { local: tcp.0, peer: tcp.1 }),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(mut connections in proptest::collection::vec(connection(), 0..8)) {
        let mut seen = BTreeSet::new();
        connections.retain(|it| it.check_ends(&[]).is_ok() && seen.insert(it.key()));
        let moved = MovedConnections { connections, ..parse(WEB).unwrap() };
        prop_assert_eq!(MovedConnections::parse(&moved.to_json().unwrap()).unwrap(), moved);
    }

    #[test]
    fn noise_never_panics(at in 0..WEB.len(), with: u8, cut in 0..WEB.len()) {
        let mut bytes = WEB.as_bytes().to_vec();
        bytes[at] = with;
        let _ = MovedConnections::parse(&bytes);
        let _ = MovedConnections::parse(&bytes[..cut]);
    }
}
