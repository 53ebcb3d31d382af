//! Property: a value that is emitted and parsed again is the same value.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use overlane_wire::geneve_option::{GeneveOption, OVN_CLASS};
use overlane_wire::ipv6_extension::{Extensions, Fragment};
use overlane_wire::nd_option::NdOption;
use overlane_wire::tcp_option::{SackBlock, TcpOption};
use overlane_wire::{
    Ecn, Egress, Emit, EtherType, IpVersion, Mac, OvnOption, PortKey, ReservedBits, VlanTag, Vni,
    arp, checksum, ethernet, geneve, geneve_option, icmp, ipv4, ipv6, nd, nd_option, tcp,
    tcp_option, udp, vxlan,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac::new)
}

fn vni() -> impl Strategy<Value = Vni> {
    (1..=Vni::MAX).prop_map(|vni| Vni::new(vni).unwrap())
}

fn ecn() -> impl Strategy<Value = Ecn> {
    any::<u8>().prop_map(Ecn::from_bits)
}

fn words(most: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..=most).prop_flat_map(|words| vec(any::<u8>(), words * 4))
}

fn tags() -> impl Strategy<Value = ethernet::Tags> {
    let tag = (any::<bool>(), any::<u16>()).prop_map(|(service, tci)| ethernet::Tag {
        service,
        tag: VlanTag::from_tci(tci),
    });
    vec(tag, 0..=2).prop_map(|tags| ethernet::Tags::new(&tags).unwrap())
}

/// Options whose lengths add up to at most 252 bytes.
fn geneve_options() -> impl Strategy<Value = Vec<u8>> {
    vec((any::<u16>(), any::<u8>(), words(6)), 0..=9).prop_map(|options| {
        let mut area = Vec::new();
        for (class, kind, data) in options {
            GeneveOption::new(class, kind, &data)
                .unwrap()
                .emit_to(&mut area);
        }
        area
    })
}

/// Whole options, padded with end-of-list to whole words.
fn tcp_options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        Just(TcpOption::Nop.to_bytes()),
        Just(TcpOption::SackPermitted.to_bytes()),
        any::<u16>().prop_map(|size| TcpOption::MaxSegmentSize(size).to_bytes()),
        any::<u8>().prop_map(|shift| TcpOption::WindowScale(shift).to_bytes()),
        any::<[u32; 2]>()
            .prop_map(|[value, echo]| TcpOption::Timestamps { value, echo }.to_bytes()),
        any::<[u32; 2]>().prop_map(|[left, right]| {
            let blocks = [SackBlock {
                left: left.into(),
                right: right.into(),
            }];
            TcpOption::Sack(&blocks).to_bytes()
        }),
        (9..=255u8, vec(any::<u8>(), 0..8)).prop_map(|(kind, data)| TcpOption::Other {
            kind,
            data: &data
        }
        .to_bytes()),
    ];
    vec(option, 0..4).prop_map(|options| {
        let mut area = options.concat();
        area.resize(area.len().next_multiple_of(4), 0);
        area
    })
}

fn nd_options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        mac().prop_map(|mac| NdOption::SourceLinkLayer(mac).to_bytes()),
        mac().prop_map(|mac| NdOption::TargetLinkLayer(mac).to_bytes()),
        any::<u32>().prop_map(|mtu| NdOption::Mtu(mtu).to_bytes()),
        (any::<[u8; 2]>(), any::<[u32; 2]>(), any::<[u8; 16]>()).prop_map(
            |([prefix_len, flags], [valid_s, preferred_s], prefix)| {
                let prefix = prefix.into();
                NdOption::Prefix {
                    prefix_len,
                    flags,
                    valid_s,
                    preferred_s,
                    prefix,
                }
                .to_bytes()
            }
        ),
        (6..=255u8, any::<[u8; 14]>()).prop_map(|(kind, data)| NdOption::Other {
            kind,
            data: &data
        }
        .to_bytes()),
    ];
    vec(option, 0..4).prop_map(|options| options.concat())
}

fn nd_message() -> impl Strategy<Value = nd::Message> {
    let target = any::<[u8; 16]>().prop_map(|mut octets| {
        octets[0] &= 0x7f; // not multicast
        octets.into()
    });
    prop_oneof![
        Just(nd::Message::RouterSolicitation),
        (any::<[u8; 2]>(), any::<u16>(), any::<[u32; 2]>()).prop_map(
            |([hop_limit, flags], lifetime_s, [reachable_ms, retransmit_ms])| {
                nd::Message::RouterAdvertisement {
                    hop_limit,
                    flags,
                    lifetime_s,
                    reachable_ms,
                    retransmit_ms,
                }
            }
        ),
        target
            .clone()
            .prop_map(|target| nd::Message::NeighbourSolicitation { target }),
        (any::<[bool; 3]>(), target).prop_map(|([router, solicited, replace], target)| {
            nd::Message::NeighbourAdvertisement {
                router,
                solicited,
                replace,
                target,
            }
        }),
    ]
}

fn icmp_message() -> impl Strategy<Value = (IpVersion, icmp::Message)> {
    use icmp::Message::*;
    (
        select(&[IpVersion::V4, IpVersion::V6][..]),
        any::<[u16; 2]>(),
        any::<[u8; 4]>(),
        0..8u8,
    )
        .prop_map(|(version, [identifier, sequence], rest, which)| {
            let code = rest[0];
            let message = match (which, version) {
                (0, _) => EchoRequest {
                    identifier,
                    sequence,
                },
                (1, _) => EchoReply {
                    identifier,
                    sequence,
                },
                (2, IpVersion::V4) => FragmentationNeeded { mtu: sequence },
                (2, IpVersion::V6) => PacketTooBig {
                    mtu: u32::from_be_bytes(rest),
                },
                (3, IpVersion::V4) if code == 4 => Unreachable { code: 5 },
                (3, _) => Unreachable { code },
                (4, _) => TimeExceeded { code },
                (5, IpVersion::V4) => ParameterProblem {
                    code,
                    pointer: rest[1].into(),
                },
                (5, IpVersion::V6) => ParameterProblem {
                    code,
                    pointer: u32::from_be_bytes(rest),
                },
                _ => Other {
                    kind: 40,
                    code,
                    rest,
                },
            };
            (version, message)
        })
}

proptest! {
    #[test]
    fn ethernet_back(destination in mac(), source in mac(), tags in tags(), number: u16) {
        let ethertype = EtherType(number);
        // A VLAN type after fewer than two tags is one more tag.
        prop_assume!(!ethertype.is_vlan());
        let header = ethernet::Header { destination, source, tags, ethertype };
        let bytes = header.to_bytes();
        let view = ethernet::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(ethernet::Header::parse(&view), header);
        prop_assert_eq!(view.header_len(), bytes.len());
    }

    #[test]
    fn arp_back(operation: u16, macs in (mac(), mac()), addresses: [[u8; 4]; 2]) {
        let packet = arp::Header {
            operation: operation.into(),
            sender_mac: macs.0,
            sender: addresses[0].into(),
            target_mac: macs.1,
            target: addresses[1].into(),
        };
        let bytes = packet.to_bytes();
        prop_assert_eq!(arp::Header::parse(&arp::View::new_checked(&bytes).unwrap()), packet);
    }

    #[test]
    fn ipv4_back(
        dscp in 0..64u8, ecn in ecn(), identification: u16, flags: [bool; 2], offset in 0..0x2000u16,
        rest: [u8; 2], addresses: [[u8; 4]; 2], options in words(10), payload in vec(any::<u8>(), 0..64),
    ) {
        let mut header = ipv4::Header {
            dscp, ecn, total_len: 0, identification, dont_fragment: flags[0],
            more_fragments: flags[1], fragment_offset: offset, ttl: rest[0], protocol: rest[1],
            source: addresses[0].into(), destination: addresses[1].into(),
            options: ipv4::Options::new(&options).unwrap(),
        };
        header.total_len = (header.emit_len() + payload.len()) as u16;
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        bytes.extend([0; 3]); // padding of the frame
        let view = ipv4::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(ipv4::Header::parse(&view), header);
        prop_assert!(view.checksum_is_right());
        prop_assert_eq!(view.payload(), &payload[..]);
    }

    #[test]
    fn ipv6_back(
        dscp in 0..64u8, ecn in ecn(), flow_label in 0..0x10_0000u32, hop_limit: u8,
        addresses: [[u8; 16]; 2], fragment in proptest::option::of((0..0x2000u16, any::<bool>(), any::<u32>())),
        hop_by_hop in proptest::option::of(any::<[u8; 6]>()), payload in vec(any::<u8>(), 0..64),
    ) {
        let mut chain = Vec::new();
        let after_options = if fragment.is_some() { 44 } else { 17 };
        let first = if hop_by_hop.is_some() { 0 } else { after_options };
        if let Some(data) = hop_by_hop {
            chain.extend([after_options, 0]);
            chain.extend(data);
        }
        let fragment = fragment.map(|(offset, more, identification)| {
            Fragment { next_header: 17, offset, more, identification }
        });
        if let Some(fragment) = fragment {
            fragment.emit_to(&mut chain);
        }
        let header = ipv6::Header {
            dscp, ecn, flow_label, hop_limit,
            payload_len: (chain.len() + payload.len()) as u16,
            source: addresses[0].into(), destination: addresses[1].into(),
            extensions: Extensions::new(first, &chain).unwrap(),
        };
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        let view = ipv6::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(ipv6::Header::parse(&view), header);
        prop_assert_eq!((view.fragment(), view.protocol()), (fragment, 17));
        prop_assert_eq!(view.payload(), &payload[..]);
    }

    #[test]
    fn udp_back(ports: [u16; 2], addresses: [[u8; 16]; 2], payload in vec(any::<u8>(), 0..64)) {
        let addresses = addresses.map(|octets| std::net::Ipv6Addr::from(octets).into());
        let length = (udp::LEN + payload.len()) as u16;
        let header = udp::Header { source: ports[0], destination: ports[1], length, checksum: 0 }
            .with_checksum(addresses[0], addresses[1], &payload);
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        let view = udp::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(udp::Header::parse(&view), header);
        prop_assert!(view.checksum().is_some());
        prop_assert!(view.checksum_is_right(addresses[0], addresses[1]));
        prop_assert_eq!(view.payload(), &payload[..]);
    }

    #[test]
    fn tcp_back(
        words: [u16; 4], numbers: [u32; 2], flags: u8, options in tcp_options(),
        addresses: [[u8; 4]; 2], payload in vec(any::<u8>(), 0..64),
    ) {
        prop_assume!(options.len() <= 40);
        let addresses = addresses.map(|octets| std::net::Ipv4Addr::from(octets).into());
        let header = tcp::Header {
            source: words[0], destination: words[1], sequence: numbers[0],
            acknowledgment: numbers[1], flags: tcp::Flags(flags), window: words[2], checksum: 0,
            urgent: words[3], options: tcp_option::Options::new(&options).unwrap(),
        }
        .with_checksum(addresses[0], addresses[1], &payload);
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        let view = tcp::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(tcp::Header::parse(&view), header);
        prop_assert!(view.checksum_is_right(addresses[0], addresses[1]));
        prop_assert_eq!(view.payload(), &payload[..]);
        let emitted: Vec<u8> = view.options().iter().flat_map(|option| option.to_bytes()).collect();
        prop_assert!(options.starts_with(&emitted));
    }

    #[test]
    fn icmp_back((version, message) in icmp_message(), payload in vec(any::<u8>(), 0..64)) {
        let (from, to) = ("2001:2::1".parse().unwrap(), "2001:2::2".parse().unwrap());
        let header = icmp::Header { version, message, checksum: 0 }.with_checksum(from, to, &payload);
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        let view = icmp::View::new_checked(version, &bytes).unwrap();
        prop_assert_eq!(icmp::Header::parse(&view), header);
        prop_assert!(view.checksum_is_right(from, to));
    }

    #[test]
    fn nd_back(message in nd_message(), options in nd_options(), addresses: [[u8; 16]; 2]) {
        let [from, to] = addresses.map(std::net::Ipv6Addr::from);
        let options = nd_option::Options::new(&options).unwrap();
        let header = nd::Header { message, checksum: 0, options }.with_checksum(from, to);
        let bytes = header.to_bytes();
        let view = nd::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(nd::Header::parse(&view), header);
        prop_assert!(view.checksum_is_right(from, to) && !view.has_reserved_bits());
        let emitted: Vec<u8> = view.options().iter().flat_map(|option| option.to_bytes()).collect();
        prop_assert_eq!(&emitted[..], options.bytes());
    }

    #[test]
    fn vxlan_back(vni in vni(), payload in vec(any::<u8>(), 0..64)) {
        let header = vxlan::Header { vni };
        let mut bytes = header.to_bytes();
        bytes.extend(&payload);
        let view = vxlan::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(vxlan::Header::parse(&view), Ok(header));
        prop_assert_eq!(view.receive(ReservedBits::Refuse), Ok(vni));
        prop_assert_eq!(view.payload(), &payload[..]);
    }

    #[test]
    fn geneve_back(control: bool, number: u16, vni in vni(), options in geneve_options()) {
        let protocol = EtherType(number);
        let options = geneve_option::Options::new(&options).unwrap();
        let header = geneve::Header { control, protocol, vni, options };
        let mut bytes = header.to_bytes();
        bytes.extend([1, 2, 3]);
        let view = geneve::View::new_checked(&bytes).unwrap();
        prop_assert_eq!(geneve::Header::parse(&view), Ok(header));
        prop_assert_eq!(view.critical(), view.options().any_critical());
        prop_assert_eq!(view.payload(), &[1, 2, 3]);
        let emitted: Vec<u8> = view.options().iter().flat_map(|option| option.to_bytes()).collect();
        prop_assert_eq!(&emitted[..], options.bytes());
    }

    #[test]
    fn ovn_back(vni in vni(), ingress in 0..=PortKey::MAX, egress: u16, other in words(6)) {
        let ingress = PortKey::new(ingress).ok();
        let ovn = OvnOption { ingress, egress: Egress::from(egress) };
        let mut options = GeneveOption::new(OVN_CLASS, 0x01, &other).unwrap().to_bytes();
        ovn.emit_to(&mut options);
        let options = geneve_option::Options::new(&options).unwrap();
        let bytes = geneve::Header::ethernet(vni, options).to_bytes();
        let received = geneve::View::new_checked(&bytes).unwrap().receive(ReservedBits::Refuse);
        prop_assert_eq!(received, Ok(geneve::Received { vni, ovn: Some(ovn) }));
        prop_assert_eq!(ovn.egress.get(), egress);
    }

    #[test]
    fn an_update_equals_a_new_sum(mut bytes in vec(any::<u16>(), 1..32), at: usize, new: u16) {
        let sum = |words: &[u16]| {
            words.iter().fold(checksum::Sum::new(), |sum, word| sum.word(*word)).finish()
        };
        // RFC 1624 §3: all bytes zero is the one case where the two zeros differ.
        bytes.push(1);
        let at = at % (bytes.len() - 1);
        let updated = checksum::update(sum(&bytes), bytes[at], new);
        bytes[at] = new;
        prop_assert_eq!(updated, sum(&bytes));
    }
}
