//! Packets made of wishes: what the fabric fills in, and that every header is right.

use proptest::prelude::*;

use overlane_wire::packet::{Header, TunnelPorts, walk};
use overlane_wire::{nd, tcp};

use super::*;
use crate::trace::fields::{FIELDS, Takes};

const FABRIC: &str = r#"
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
switches:
  blue: { vni: 5001 }
  red: { vni: 5002 }
ports:
  a1: { switch: blue, host: h1, device: a1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1, "2001:2:0:100::1"] }
  b1: { switch: blue, host: h1, device: b1, mac: "02:00:00:00:00:02", addresses: [198.18.100.2, "2001:2:0:100::2"] }
  six: { switch: blue, host: h1, device: six, mac: "02:00:00:00:00:06", addresses: ["2001:2:0:100::6"] }
  bare: { switch: blue, host: h1, device: bare, mac: "02:00:00:00:00:0b" }
  trunk: { switch: blue, host: h1, device: t0, mac: "02:00:00:00:00:0c", addresses: [198.18.100.12], vlan: 10 }
  r1: { switch: red, host: h1, device: r1, mac: "02:00:00:00:00:0d", addresses: [198.18.100.99] }
"#;

fn fabric() -> Fabric {
    Fabric::parse("test.yaml", FABRIC).unwrap_or_else(|error| panic!("{error}"))
}

fn build(port: &str, text: &str) -> Result<Packet, PacketError> {
    let fabric = fabric();
    let wish = Wish::parse(text)?;
    packet(&fabric, Sender::Port(&fabric.ports()[port]), &wish)
}

fn right(port: &str, text: &str) -> Packet {
    build(port, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(port: &str, text: &str) -> String {
    build(port, text).expect_err(text).to_string()
}

/// Source, destination of Ethernet and of IP, protocol, checksum of what is behind.
#[derive(Debug, PartialEq)]
struct Found {
    macs: (String, String),
    addresses: (String, String),
    protocol: u8,
}

/// Walks the packet; checks that it is whole and that its checksums are right.
fn walked(packet: &Packet) -> Found {
    let walked = walk(&packet.bytes, TunnelPorts::default());
    assert_eq!(walked.error, None);
    let [Header::Ethernet(ethernet), ip, rest @ ..] = &walked.headers[..] else {
        panic!("no IP")
    };
    let (source, destination, protocol): (IpAddr, IpAddr, u8) = match ip {
        Header::Ipv4(ip) => {
            assert!(ip.checksum_is_right());
            (ip.source().into(), ip.destination().into(), ip.protocol())
        }
        Header::Ipv6(ip) => (ip.source().into(), ip.destination().into(), ip.protocol()),
        _ => panic!("no IP"),
    };
    match rest.first() {
        Some(Header::Tcp(view)) => assert!(view.checksum_is_right(source, destination)),
        Some(Header::Udp(view)) => assert!(view.checksum_is_right(source, destination)),
        Some(Header::Icmp(view)) => assert!(view.checksum_is_right(source, destination)),
        Some(Header::Nd(view)) => match (source, destination) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                assert!(view.checksum_is_right(source, destination));
            }
            _ => panic!("ND over IPv4"),
        },
        _ => {}
    }
    Found {
        macs: (
            ethernet.source().to_string(),
            ethernet.destination().to_string(),
        ),
        addresses: (source.to_string(), destination.to_string()),
        protocol,
    }
}

#[test]
fn what_is_left_out_follows_from_the_fabric() {
    let mac = |last: &str| format!("02:00:00:00:00:{last}");
    for (port, text, macs, addresses, protocol) in [
        (
            "a1",
            "ip4.dst=b1",
            (mac("01"), mac("02")),
            ("198.18.100.1", "198.18.100.2"),
            1,
        ),
        (
            "a1",
            "ip4.dst=198.18.100.2 tcp",
            (mac("01"), mac("02")),
            ("198.18.100.1", "198.18.100.2"),
            6,
        ),
        (
            "a1",
            "eth.dst=b1 udp.dport=53",
            (mac("01"), mac("02")),
            ("198.18.100.1", "198.18.100.2"),
            17,
        ),
        // Only one family is common to both.
        (
            "a1",
            "eth.dst=six tcp",
            (mac("01"), mac("06")),
            ("2001:2:0:100::1", "2001:2:0:100::6"),
            6,
        ),
        (
            "a1",
            "ip6.dst=b1 sctp",
            (mac("01"), mac("02")),
            ("2001:2:0:100::1", "2001:2:0:100::2"),
            132,
        ),
        (
            "bare",
            "ip6.dst=b1",
            (mac("0b"), mac("02")),
            ("fe80::ff:fe00:b", "2001:2:0:100::2"),
            58,
        ),
        (
            "a1",
            "ip6.dst=fe80::ff:fe00:2",
            (mac("01"), mac("02")),
            ("fe80::ff:fe00:1", "fe80::ff:fe00:2"),
            58,
        ),
        (
            "a1",
            "ip4.dst=198.18.9.9 eth.dst=b1",
            (mac("01"), mac("02")),
            ("198.18.100.1", "198.18.9.9"),
            1,
        ),
        (
            "bare",
            "ip4.src=0.0.0.0 ip4.dst=255.255.255.255 udp.sport=68 udp.dport=67",
            (mac("0b"), "ff:ff:ff:ff:ff:ff".to_owned()),
            ("0.0.0.0", "255.255.255.255"),
            17,
        ),
        (
            "a1",
            "ip4.dst=224.0.0.251 udp",
            (mac("01"), "01:00:5e:00:00:fb".to_owned()),
            ("198.18.100.1", "224.0.0.251"),
            17,
        ),
        (
            "a1",
            "nd.target=b1",
            (mac("01"), "33:33:ff:00:00:02".to_owned()),
            ("2001:2:0:100::1", "ff02::1:ff00:2"),
            58,
        ),
        (
            "a1",
            "icmp6.type=135 ip6.dst=b1",
            (mac("01"), mac("02")),
            ("2001:2:0:100::1", "2001:2:0:100::2"),
            58,
        ),
        (
            "a1",
            "nd.kind=rs",
            (mac("01"), "33:33:00:00:00:02".to_owned()),
            ("2001:2:0:100::1", "ff02::2"),
            58,
        ),
        (
            "a1",
            "eth.src=02:aa:00:00:00:00 ip4.src=r1 ip4.dst=b1 ip4.proto=89",
            ("02:aa:00:00:00:00".to_owned(), mac("02")),
            ("198.18.100.99", "198.18.100.2"),
            89,
        ),
    ] {
        let found = walked(&right(port, text));
        let addresses = (addresses.0.to_owned(), addresses.1.to_owned());
        let expected = Found {
            macs,
            addresses,
            protocol,
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_cannot_be_filled_in_is_asked_for() {
    for (port, text, message) in [
        (
            "a1",
            "",
            "eth.dst is missing: nothing says where the frame goes",
        ),
        (
            "a1",
            "tcp",
            "ip4.dst is missing: nothing says where the packet goes",
        ),
        (
            "a1",
            "ip4.ttl=1",
            "ip4.dst is missing: nothing says where the packet goes",
        ),
        (
            "a1",
            "ip4.dst=198.18.9.9",
            "no port of switch blue has 198.18.9.9, and no router there leads to it",
        ),
        // A port of another switch is no neighbour.
        (
            "a1",
            "ip4.dst=r1",
            "port r1 of switch red has 198.18.100.99, and no router of switch blue leads there",
        ),
        (
            "bare",
            "ip4.dst=b1",
            "ip4.src is missing: port bare has no IPv4 address in the fabric",
        ),
        (
            "trunk",
            "eth.dst=bare tcp",
            "ip4.dst is missing: ports trunk and bare share no family",
        ),
        (
            "a1",
            "arp",
            "arp.tpa is missing: nothing says which address is asked for",
        ),
        (
            "a1",
            "nd",
            "nd.target is missing: nothing says which address is asked for",
        ),
        (
            "a1",
            "ip4.dst=b9",
            "ip4.dst: `b9` is not an IPv4 address or the name of a port",
        ),
        (
            "a1",
            "ip4.dst=six",
            "ip4.dst: `six` is not an IPv4 address or the name of a port",
        ),
        (
            "a1",
            "nd.kind=ns icmp6.type=136",
            "icmp6.type and nd.kind cannot be in one packet",
        ),
        (
            "a1",
            "nd icmp6.type=128",
            "icmp6.type and nd cannot be in one packet",
        ),
        (
            "a1",
            "ip4.dst=b1 tcp size=65496",
            "size: 65496 bytes of payload do not fit into a packet (at most 65495 here)",
        ),
        (
            "a1",
            "ip6.dst=b1 udp size=65528",
            "size: 65528 bytes of payload do not fit into a packet (at most 65527 here)",
        ),
    ] {
        assert_eq!(refused(port, text), message, "{text}");
    }
    let help = build("a1", "ip4.dst=b9").unwrap_err().help();
    assert_eq!(help.as_deref(), Some("did you mean `b1`?"));
    let help = build("a1", "ip4.dst=six").unwrap_err().help();
    assert_eq!(
        help.as_deref(),
        Some("port six has no such address in the fabric")
    );
    for longest in ["ip4.dst=b1 tcp size=65495", "ip6.dst=b1 udp size=65527"] {
        walked(&right("a1", longest));
    }
}

#[test]
fn fields_stand_where_they_belong() {
    let packet = right(
        "a1",
        "ip4.dst=b1 ip4.ttl=3 ip4.dscp=46 ip4.ecn=ce tcp.flags=RA tcp.sport=1 size=5",
    );
    let packet = walk(&packet.bytes, TunnelPorts::default());
    let [_, Header::Ipv4(ip), Header::Tcp(segment)] = &packet.headers[..] else {
        panic!("no TCP")
    };
    assert_eq!((ip.ttl(), ip.dscp(), ip.ecn()), (3, 46, Ecn::Ce));
    assert_eq!(segment.flags(), tcp::Flags(0x14));
    assert_eq!((segment.source(), segment.destination()), (1, 80));
    assert_eq!(packet.payload, [0, 1, 2, 3, 4]);

    let advertised = right("a1", "nd.kind=na nd.target=b1 nd.tll=six ip6.hop_limit=254");
    let packet = walk(&advertised.bytes, TunnelPorts::default());
    let [_, Header::Ipv6(ip), Header::Nd(message)] = &packet.headers[..] else {
        panic!("no ND")
    };
    assert_eq!(ip.hop_limit(), 254);
    let nd::Message::NeighbourAdvertisement {
        target,
        solicited,
        replace,
        ..
    } = message.message()
    else {
        panic!("another message")
    };
    assert_eq!(target.to_string(), "2001:2:0:100::2");
    assert!(replace && !solicited, "to all nodes");
    assert_eq!(message.options().bytes(), [2, 1, 2, 0, 0, 0, 0, 6]);
    let coded = right("a1", "nd.kind=na icmp6.code=1");
    assert_eq!(coded.bytes[14 + 40..][..2], [136, 1]);
    // Without an address there is no source link-layer option (RFC 4861 section 4.3).
    let probe = right("a1", "nd.target=a1 ip6.src=::");
    assert_eq!(probe.bytes.len(), 14 + 40 + 24);
    for kind in ["rs", "ra", "ns nd.target=b1", "na", "redirect ip6.dst=b1"] {
        walked(&right("a1", &format!("nd.kind={kind}")));
    }
}

#[test]
fn arp() {
    let read = |packet: &Packet| {
        let walked = walk(&packet.bytes, TunnelPorts::default());
        let [Header::Ethernet(ethernet), Header::Arp(arp)] = walked.headers[..] else {
            panic!("no ARP")
        };
        (ethernet.destination(), arp::Header::parse(&arp))
    };
    let (to, request) = read(&right("a1", "arp.tpa=b1"));
    assert!(to.is_broadcast());
    assert_eq!(request.sender.to_string(), "198.18.100.1");
    assert_eq!(request.target.to_string(), "198.18.100.2");
    assert_eq!(
        (request.operation, request.target_mac),
        (arp::Operation::Request, Mac::ZERO)
    );
    let (to, reply) = read(&right("a1", "arp.op=reply arp.tpa=b1 arp.spa=198.18.7.7"));
    assert_eq!(to.to_string(), "02:00:00:00:00:02");
    assert_eq!(
        (reply.sender.to_string(), reply.target_mac),
        ("198.18.7.7".to_owned(), to)
    );
    let (_, probe) = read(&right("bare", "arp.tpa=198.18.100.50"));
    assert!(probe.sender.is_unspecified());
}

#[test]
fn tags_and_super_packets() {
    let tag = |port, text| {
        right(port, text)
            .tag
            .map(|tag| (tag.tag.vid(), tag.tag.pcp()))
    };
    assert_eq!(tag("a1", "eth.dst=b1"), None);
    assert_eq!(tag("a1", "eth.dst=b1 vlan.id=5"), Some((5, 0)));
    assert_eq!(tag("a1", "eth.dst=b1 vlan.pcp=3"), Some((0, 3)));
    assert_eq!(tag("trunk", "eth.dst=b1"), Some((10, 0)));
    assert_eq!(tag("trunk", "eth.dst=b1 vlan.pcp=3"), Some((10, 3)));
    assert_eq!(tag("trunk", "eth.dst=b1 vlan.id=11"), Some((11, 0)));

    let gso = |text: &str| right("a1", text).gso;
    let expected = Gso {
        kind: GsoKind::Udp,
        size: 1000,
        segments: 3,
    };
    assert_eq!(gso("ip4.dst=b1 udp size=2001 gso=1000"), Some(expected));
    assert_eq!(gso("ip4.dst=b1 udp size=1000 gso=1000"), None);
    let expected = Gso {
        kind: GsoKind::Tcp,
        size: 1,
        segments: 2,
    };
    assert_eq!(gso("eth.dst=b1 tcp size=2 gso=1"), Some(expected));
}

#[test]
fn frames_of_other_types() {
    let frame = right("a1", "eth.dst=b1 eth.type=0x88cc size=3");
    assert_eq!(frame.bytes[12..], [0x88, 0xcc, 0, 1, 2]);
    let frame = right("a1", "eth.dst=broadcast");
    assert_eq!(
        (frame.bytes.len(), &frame.bytes[12..14]),
        (60, &[0x88, 0xb5][..])
    );
}

proptest! {
    /// Whatever an expression says: a packet that parses, or a reason.
    #[test]
    fn nothing_panics(
        port in prop::sample::select(&["a1", "bare", "six", "trunk"][..]),
        items in prop::collection::vec((prop::sample::select(FIELDS), 0_u32..70_000), 0..5),
    ) {
        let value = |takes: Takes, number: u32| match takes {
            Takes::Station | Takes::Ip4 | Takes::Ip6 => "b1".to_owned(),
            Takes::Number(low, high) => number.clamp(low, high).to_string(),
            Takes::Word(words, _) => words[number as usize % words.len()].0.to_owned(),
            Takes::Flags => "SA".to_owned(),
        };
        let items: Vec<String> = items
            .iter()
            .map(|(field, number)| format!("{}={}", field.name, value(field.takes, *number)))
            .collect();
        if let Ok(packet) = build(port, &items.join(",")) {
            prop_assert!(packet.bytes.len() >= 14);
            prop_assert!(packet.bytes.len() <= 14 + 40 + 65_535);
        }
    }
}
