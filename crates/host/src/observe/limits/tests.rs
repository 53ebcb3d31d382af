use overlane_model::{Fabric, PortLimits};

use super::super::connections::{ConnectionState, Translation};
use super::super::learned::LearningPort;
use super::*;

const FABRIC: &str = r#"
version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1, connections: 4096 } }
switches: { blue: { vni: 5001 } }
ports:
  web: { switch: blue, host: h1, device: web0, mac: "02:00:00:00:00:01", key: 7, limits: { connections: 10, flood: 50 } }
rules: { web-http: { ports: [web], direction: to_port, action: allow } }
routers:
  r1:
    interfaces: { blue: [198.18.1.254/24] }
    gateway:
      host: h1
      device: phys0
      addresses: [198.19.0.2/24]
      connections: 2048
      nat: [{ source: 198.18.1.0/24, outside: 198.19.0.2, ports: 1024-1027 }]
"#;

fn state() -> State {
    let fabric = Fabric::parse("f", FABRIC).unwrap();
    State::of(&fabric.compile("h1").unwrap())
}

fn end(address: [u8; 4], port: u16) -> End {
    End {
        address: IpAddr::from(address),
        port: Some(port),
    }
}

fn connection(whose: Whose, number: u16) -> ConnectionRow {
    ConnectionRow {
        whose,
        protocol: 17,
        local: end([198, 18, 1, 1], number),
        peer: end([198, 18, 2, 2], 53),
        icmp_type: None,
        begun_by_peer: false,
        adopted: false,
        state: ConnectionState::Established,
        age_s: 1,
        idle_s: 1,
        time_out_s: 180,
        expired: false,
        rule: None,
        translation: None,
    }
}

fn of_port(count: u16) -> impl Iterator<Item = ConnectionRow> {
    (1..=count).map(|number| connection(Whose::Port("web".into()), number))
}

/// With outside ports from 1024 on.
fn of_router(count: u16) -> impl Iterator<Item = ConnectionRow> {
    (0..count).map(|number| {
        let row = connection(Whose::Router("r1".into()), number + 1);
        let translation = Translation {
            outside: end([198, 19, 0, 2], 1024 + number),
            peer: row.peer,
            revoked: false,
        };
        ConnectionRow {
            translation: Some(translation),
            ..row
        }
    })
}

fn shown(rows: Vec<ConnectionRow>, most: u32) -> Connections {
    Connections {
        host: "h1".into(),
        most,
        held: rows.iter().filter(|row| !row.expired).count(),
        live: 0,
        expired: 0,
        connections: rows,
    }
}

/// Whose, how many of how many, of what.
fn told(rows: &[LimitRow]) -> Vec<String> {
    let told = |row: &LimitRow| {
        let LimitRow {
            whose,
            used,
            most,
            of,
            ..
        } = row;
        format!("{whose}: {used} of {most} {of}")
    };
    rows.iter().map(told).collect()
}

#[test]
fn a_full_table_says_whose_it_is() {
    let full = |rows: Vec<_>, most| told(&full(&state(), &shown(rows, most)));
    assert_eq!(full(of_port(8).collect(), 4096), [""; 0]);
    assert_eq!(
        full(of_port(10).collect(), 4096),
        ["port web: 10 of 10 connections"]
    );
    // An expired one has made way.
    let mut rows: Vec<_> = of_port(10).collect();
    rows[0].expired = true;
    rows[1].expired = true;
    assert_eq!(full(rows, 4096), [""; 0]);
    // A quarter of the router's is one address's.
    assert_eq!(
        full(of_router(512).collect(), 4096),
        ["router r1: 512 of 512 translations of 198.18.1.1"]
    );
    // A share is no more than all of the places.
    assert_eq!(
        full(of_router(512).collect(), 512),
        [
            "router r1: 512 of 512 translations",
            "host h1: 512 of 512 connections and translations"
        ]
    );
}

#[test]
fn exhausted_ports_say_of_which_router_and_peer() {
    let exhausted = |rows: Vec<_>| told(&exhausted(&state(), &shown(rows, 4096)));
    assert_eq!(exhausted(of_router(1).collect()), [""; 0]);
    for count in [2, 4] {
        assert_eq!(
            exhausted(of_router(count).chain(of_port(9)).collect()),
            [format!(
                "router r1: {count} of 4 outside ports of 198.19.0.2 to 198.18.2.2:53"
            )]
        );
    }
}

#[test]
fn what_has_no_ports_has_one_way_to_a_peer() {
    let mut gre = of_router(1).next().unwrap();
    gre.protocol = 47;
    gre.peer.port = None;
    if let Some(translation) = &mut gre.translation {
        translation.outside.port = None;
        translation.peer.port = None;
    }
    assert_eq!(
        told(&exhausted(&state(), &shown(vec![gre], 4096))),
        ["router r1: 1 of 1 ways of protocol 47 from 198.19.0.2 to 198.18.2.2"]
    );
}

#[test]
fn learned_and_found_addresses_say_where_they_are_too_many() {
    let port = |macs| LearningPort {
        port: "lab".into(),
        switch: "blue".into(),
        macs,
        limit: 2,
        age_s: 60,
    };
    let learned = |macs| Learned {
        host: "h1".into(),
        ports: vec![port(macs)],
        entries: Vec::new(),
    };
    assert_eq!(told(&macs(&learned(1))), [""; 0]);
    assert_eq!(told(&macs(&learned(2))), ["port lab: 2 of 2 MACs"]);

    let state = state();
    let leg = ZONE_ROUTER | state.tables.routers[0].id.get();
    let count = |switch_id, key, macs| {
        let count = abi::Learning {
            macs,
            ..abi::Learning::default()
        };
        (PortKey { switch_id, key }, count)
    };
    let counts = [
        count(0, 0, 9999),
        count(5001, 7, 1023),
        count(5001, 7 | abi::FOUND_UNASKED, 1024),
        count(5001, 0, 4096),
        count(leg, 0, 4097),
    ];
    assert_eq!(
        told(&neighbours_of(&state, &counts)),
        [
            "port web: 1024 of 1024 neighbours that spoke first",
            "switch blue behind the underlay: 4096 of 4096 found neighbours",
            "leg of router r1: 4097 of 4096 found neighbours",
        ]
    );
    let crowd: Vec<_> = (1..=16).map(|side| count(side, 0, 4096)).collect();
    let all = told(&neighbours_of(&state, &crowd));
    assert!(all.contains(&"host h1: 65536 of 65536 found neighbours".to_owned()));
}

#[test]
fn what_is_counted_in_spans_says_whose_it_is() {
    let state = state();
    assert_eq!(state.tables.ports[0].limits.flood_in_span(), 5);
    assert_ne!(state.tables.ports[0].limits, PortLimits::default());
    let leg = ZONE_ROUTER | state.tables.routers[0].id.get();
    let row = |limit, (switch_id, key), count| {
        let span = LimitState {
            count,
            ..LimitState::default()
        };
        let key = LimitKey {
            switch_id,
            key,
            limit,
        };
        row(&state, &key, &span)
            .map(|row| format!("{}: {}", row.reason, told(std::slice::from_ref(&row))[0]))
    };
    let port = (5001, 7);
    assert_eq!(row(firewall::LIMIT_FLOOD, port, 4), None);
    assert_eq!(row(firewall::LIMIT_LOG, port, 1000), None);
    for (limit, owner, count, expected) in [
        (
            firewall::LIMIT_FLOOD,
            port,
            6,
            "flood_limit: port web: 6 of 5 flooded copies in 0.1 s",
        ),
        (
            firewall::LIMIT_ASKS,
            port,
            10,
            "ask_limit: port web: 10 of 10 questions in 0.1 s",
        ),
        (
            firewall::LIMIT_ASKS,
            (leg, 0),
            10,
            "ask_limit: leg of router r1: 10 of 10 questions in 0.1 s",
        ),
        (
            firewall::LIMIT_ANSWERS,
            (5001, 9),
            100,
            "untold: key 9 of switch blue, on another host: 100 of 100 answers in 0.1 s",
        ),
    ] {
        assert_eq!(row(limit, owner, count).as_deref(), Some(expected));
    }
}

#[test]
fn every_drop_reason_that_is_a_limit_has_a_help() {
    let is_limit = |name: &str| {
        name.ends_with("_limit") || name.ends_with("_full") || name.ends_with("_exhausted")
    };
    for verdict in Verdict::ALL {
        let has_help = limit_help(verdict.name()).is_some();
        assert_eq!(has_help, is_limit(verdict.name()), "{verdict:?}");
    }
    assert!(limit_help(UNTOLD).is_some());
}
