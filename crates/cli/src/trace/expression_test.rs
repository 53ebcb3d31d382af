//! Expressions: what is read, what is refused and how that is said, and that nothing panics.

use proptest::prelude::*;

use super::*;
use crate::trace::fields::FIELDS;

fn wish(text: &str) -> Wish {
    Wish::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The message and the help of what is refused.
fn refused(text: &str) -> (String, String) {
    let error = Wish::parse(text).expect_err(text);
    (error.to_string(), error.help().unwrap_or_default())
}

#[test]
fn separators_and_operators() {
    let expected = wish("eth.dst=b1,tcp.dport=80");
    for text in [
        "eth.dst=b1 tcp.dport=80",
        "eth.dst == b1 && tcp.dport == 80",
        " , eth.dst = \"b1\"\ttcp.dport=0x50,",
        "eth.dst==b1&&tcp.dst==80",
    ] {
        assert_eq!(wish(text), expected, "{text}");
    }
    assert_eq!(wish(""), Wish::default());
    assert_eq!(wish(" , && "), Wish::default());
}

#[test]
fn values_of_each_kind() {
    let mac = |text: &str| Of::Given(text.parse::<Mac>().unwrap());
    let port = |text: &str| Name::new(text).unwrap();
    let found = wish(
        "eth.src=02:00:00:00:00:01 eth.dst=broadcast ip4.src=198.18.0.1 ip4.dst=b1 ip4.ecn=CE
         ip4.ttl=0xff tcp.flags=sa",
    );
    assert_eq!(found.station("eth.src"), Some(&mac("02:00:00:00:00:01")));
    assert_eq!(found.station("eth.dst"), Some(&mac("ff:ff:ff:ff:ff:ff")));
    assert_eq!(
        found.ip4("ip4.src"),
        Some(&Of::Given([198, 18, 0, 1].into()))
    );
    assert_eq!(found.ip4("ip4.dst"), Some(&Of::Port(port("b1"))));
    assert_eq!(found.number("ip4.ecn"), Some(3));
    assert_eq!(found.octet("ip4.ttl"), Some(255));
    assert_eq!(found.octet("tcp.flags"), Some(0x12));
    assert_eq!(found.number("vlan.id"), None);
    let found = wish("ip6.dst=2001:2::1 icmp6.type=echo_reply");
    assert_eq!(
        found.ip6("ip6.dst"),
        Some(&Of::Given("2001:2::1".parse().unwrap()))
    );
    assert_eq!(found.number("icmp6.type"), Some(129));
    assert_eq!(wish("nd.kind=na").number("nd.kind"), Some(136));
    assert_eq!(wish("arp.op=0xffff").number("arp.op"), Some(0xffff));
}

#[test]
fn wrong_values_name_the_field_the_value_and_what_is_allowed() {
    for (text, message) in [
        (
            "ip4.ttl=256",
            "ip4.ttl: `256` is not a number from 0 to 255",
        ),
        ("ip4.dscp=64", "ip4.dscp: `64` is not a number from 0 to 63"),
        (
            "vlan.id=4096",
            "vlan.id: `4096` is not a number from 0 to 4095",
        ),
        ("vlan.pcp=-1", "vlan.pcp: `-1` is not a number from 0 to 7"),
        (
            "tcp.dport=+80",
            "tcp.dport: `+80` is not a number from 0 to 65535",
        ),
        (
            "tcp.dport=65536",
            "tcp.dport: `65536` is not a number from 0 to 65535",
        ),
        (
            "gso=0 tcp size=1",
            "gso: `0` is not a number from 1 to 65535",
        ),
        (
            "ip4.ecn=4",
            "ip4.ecn: `4` is not not_ect, ect1, ect0, ce, or a number up to 3",
        ),
        (
            "nd.kind=135",
            "nd.kind: `135` is not rs, ra, ns, na, redirect",
        ),
        (
            "tcp.flags=SX",
            "tcp.flags: `SX` is not letters of F S R P A U E C, like SA",
        ),
        (
            "eth.dst=02:00:00:00:00",
            "eth.dst: `02:00:00:00:00` is not a MAC address, the name of a port, or broadcast",
        ),
        (
            "ip4.dst=198.18.1",
            "ip4.dst: `198.18.1` is not an IPv4 address or the name of a port",
        ),
        (
            "ip4.dst=2001:2::1",
            "ip4.dst: `2001:2::1` is not an IPv4 address or the name of a port",
        ),
        (
            "ip6.dst=198.18.0.1",
            "ip6.dst: `198.18.0.1` is not an IPv6 address or the name of a port",
        ),
        (
            "eth.src=\u{1b}[31m",
            "eth.src: `\\u{1b}[31m` is not a MAC address, the name of a port, or broadcast",
        ),
    ] {
        assert_eq!(refused(text).0, message);
    }
}

#[test]
fn wrong_fields_have_a_suggestion() {
    for (text, help) in [
        ("ip4.dts=b1", "did you mean `ip4.dst`?"),
        ("ip.dst=b1", "did you mean `ip4.dst`?"),
        ("tcp.dpotr=80", "did you mean `tcp.dport`?"),
        ("icmp", "did you mean `icmp4`?"),
        ("tcp.dport", "write tcp.dport=VALUE"),
        ("tcp.dport=", "write tcp.dport=VALUE"),
        ("tcp=80", "its fields are tcp.sport, tcp.dport, tcp.flags"),
    ] {
        assert_eq!(refused(text).1, help, "{text}");
    }
    let (message, help) = refused("inport=\"a1\"");
    assert_eq!(message, "`inport` is no field of a packet");
    assert!(help.starts_with("the fields are eth.src, "), "{help}");
    assert!(refused("=5").0.starts_with("`` is no field"));
    assert_eq!(refused("vni=5001").0, "`vni` is no field of a packet");
}

#[test]
fn fields_of_different_packets() {
    for (text, message) in [
        (
            "ip4.ttl=1 ip6.dst=b1",
            "ip4.ttl and ip6.dst cannot be in one packet",
        ),
        (
            "arp tcp.dport=80",
            "arp and tcp.dport cannot be in one packet",
        ),
        (
            "eth.type=0x800 udp",
            "eth.type and udp cannot be in one packet",
        ),
        (
            "tcp udp.dport=1",
            "tcp and udp.dport cannot be in one packet",
        ),
        (
            "nd.target=b1 size=4",
            "nd.target and size cannot be in one packet",
        ),
        (
            "icmp4 gso=1 size=4",
            "icmp4 and gso cannot be in one packet",
        ),
        ("size=1 size=2", "size is given twice"),
        ("tcp.dst=1 tcp.dport=2", "tcp.dport is given twice"),
    ] {
        assert_eq!(refused(text).0, message);
    }
    assert!(
        refused("gso=100 size=1000")
            .0
            .starts_with("tcp, udp or sctp is missing")
    );
    assert!(refused("tcp gso=100").0.starts_with("size is missing"));
}

/// A value that a field takes.
fn example(field: &Field) -> String {
    match field.takes {
        Takes::Station => "02:00:00:00:00:07".to_owned(),
        Takes::Ip4 => "198.18.7.7".to_owned(),
        Takes::Ip6 => "2001:2::7".to_owned(),
        Takes::Number(low, _) => low.to_string(),
        Takes::Word(words, _) => words[0].0.to_owned(),
        Takes::Flags => "F".to_owned(),
    }
}

#[test]
fn every_field_takes_what_it_says_and_is_in_the_help_and_in_the_manual() {
    let manual = include_str!("../../../../docs/trace.md");
    let help = include_str!("../args.rs");
    for field in FIELDS {
        let text = format!("{}={}", field.name, example(field));
        let found = match field.layer {
            // Alone there is nothing to cut.
            Layer::Gso => wish(&format!("{text} tcp size=1")),
            _ => wish(&text),
        };
        assert!(found.has(field.layer), "{text}");
        assert!(
            manual.contains(&format!("`{}`", field.name)),
            "{}: not in docs/trace.md",
            field.name
        );
        assert!(help.contains(field.name), "{}: not in --help", field.name);
    }
}

proptest! {
    #[test]
    fn noise_never_panics(text in ".{0,200}") {
        let _ = Wish::parse(&text);
    }

    #[test]
    fn nearly_right_never_panics(
        items in prop::collection::vec(
            (prop::sample::select(FIELDS), "[=]{0,3}", "[0-9a-fx:.\"A-Z_,&-]{0,20}"),
            0..6,
        ),
    ) {
        let items: Vec<String> = items
            .iter()
            .map(|(field, operator, value)| format!("{}{operator}{value}", field.name))
            .collect();
        if let Err(error) = Wish::parse(&items.join(" ")) {
            // What is said about it fits into a terminal.
            prop_assert!(!error.to_string().chars().any(char::is_control));
            let _ = error.help();
        }
    }
}
