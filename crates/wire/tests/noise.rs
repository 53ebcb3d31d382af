//! Property: no bytes make a parser panic, every view stays within its bytes, and a header that is
//! cut anywhere is an error.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use overlane_wire::outer::{self, Encapsulation, EndPoint};
use overlane_wire::packet::{TunnelPorts, walk};
use overlane_wire::{
    IpVersion, ReservedBits, WireError, arp, ethernet, geneve, icmp, ipv4, ipv6, nd, tcp, udp,
    vxlan,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A parser: length of header, and of header with payload.
type Parser = fn(&[u8]) -> Result<(usize, usize), WireError>;

const PARSERS: [(&str, Parser); 11] = [
    ("ethernet", |bytes| {
        let view = ethernet::View::new_checked(bytes)?;
        Ok((view.header_len(), view.header_len() + view.payload().len()))
    }),
    ("arp", |bytes| {
        arp::View::new_checked(bytes).map(|_| (arp::LEN, arp::LEN))
    }),
    ("ipv4", |bytes| {
        let view = ipv4::View::new_checked(bytes)?;
        Ok((view.header_len(), view.header_len() + view.payload().len()))
    }),
    ("ipv6", |bytes| {
        let view = ipv6::View::new_checked(bytes)?;
        Ok((view.header_len(), view.header_len() + view.payload().len()))
    }),
    ("udp", |bytes| {
        let view = udp::View::new_checked(bytes)?;
        Ok((udp::LEN, udp::LEN + view.payload().len()))
    }),
    ("tcp", |bytes| {
        let view = tcp::View::new_checked(bytes)?;
        Ok((view.header_len(), view.header_len() + view.payload().len()))
    }),
    ("icmp", |bytes| {
        let view = icmp::View::new_checked(IpVersion::V4, bytes)?;
        Ok((icmp::LEN, icmp::LEN + view.payload().len()))
    }),
    ("icmpv6", |bytes| {
        let view = icmp::View::new_checked(IpVersion::V6, bytes)?;
        Ok((icmp::LEN, icmp::LEN + view.payload().len()))
    }),
    ("nd", |bytes| {
        let view = nd::View::new_checked(bytes)?;
        let header = bytes.len() - view.options().bytes().len();
        Ok((header, bytes.len()))
    }),
    ("vxlan", |bytes| {
        let view = vxlan::View::new_checked(bytes)?;
        Ok((vxlan::LEN, vxlan::LEN + view.payload().len()))
    }),
    ("geneve", |bytes| {
        let view = geneve::View::new_checked(bytes)?;
        Ok((view.header_len(), view.header_len() + view.payload().len()))
    }),
];

/// Noise in which more than a few bytes are plausible: what starts like a header of some kind.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        Just(vec![]),
        Just(vec![0x45, 0, 0, 24]),
        Just(vec![0x46]),
        Just(vec![0x60, 0, 0, 0, 0, 32]),
        Just(vec![8, 0, 0, 0]),
        Just(vec![0x02, 0x40, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 0x80, 1]),
        Just(vec![0, 1, 8, 0, 6, 4]),
        Just(vec![135, 0]),
        Just(vec![136, 0]),
        Just(vec![0, 1, 0, 2, 0, 40]),
        Just(vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0]),
        Just(vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
    ];
    (start, vec(any::<u8>(), 0..200)).prop_map(|(start, rest)| [start, rest].concat())
}

/// A frame with plausible Ethernet and IP headers, and noise behind.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ip = prop_oneof![
        Just(vec![
            8, 0, 0x45, 0, 0, 120, 0, 0, 0x40, 0, 64, 17, 0x2a, 0x62, 1, 2, 3, 4, 5, 6, 7, 8
        ]),
        Just([&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 100, 17, 64][..], &[1; 32]].concat()),
        Just(vec![8, 6]),
        Just(vec![]),
    ];
    let udp = prop_oneof![
        Just(vec![0xc3, 0x50, 0x12, 0xb5, 0, 100, 0, 0, 8]),
        Just(vec![
            0xc3, 0x50, 0x17, 0xc1, 0, 100, 0, 0, 2, 0x40, 0x65, 0x58
        ]),
        Just(vec![]),
    ];
    (ip, udp, vec(any::<u8>(), 0..160))
        .prop_map(|(ip, udp, rest)| [&[2; 12][..], &ip, &udp, &rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parsers_stay_within_noise(bytes in noise()) {
        for (name, parser) in PARSERS {
            if let Ok((header, total)) = parser(&bytes) {
                prop_assert!(header <= total && total <= bytes.len(), "{}", name);
            }
        }
    }

    #[test]
    fn what_is_cut_does_not_parse(bytes in noise()) {
        for (name, parser) in PARSERS {
            if let Ok((header, _)) = parser(&bytes) {
                for length in 0..header {
                    prop_assert!(parser(&bytes[..length]).is_err(), "{} at {}", name, length);
                }
                for length in header..bytes.len() {
                    if let Ok((again, total)) = parser(&bytes[..length]) {
                        prop_assert!(again <= length && total <= length, "{} at {}", name, length);
                    }
                }
            }
        }
    }

    #[test]
    fn frames_never_panic(bytes in frame()) {
        let packet = walk(&bytes, TunnelPorts::default());
        prop_assert!(packet.payload.len() <= bytes.len());
        let receivers = [
            ([5, 6, 7, 8].into(), Encapsulation::Vxlan, 4789),
            ([5, 6, 7, 8].into(), Encapsulation::Geneve, 6081),
            ([1u8; 16].into(), Encapsulation::Vxlan, 4789),
            ([1u8; 16].into(), Encapsulation::Geneve, 6081),
        ];
        for (vtep, encapsulation, port) in receivers {
            if let Ok(Some(outer)) = outer::parse(&bytes, &EndPoint { vtep, encapsulation, port })
                && let Ok(inner) = outer.decap(ReservedBits::Ignore)
            {
                prop_assert!(inner.frame.len() >= ethernet::LEN);
                prop_assert!(bytes.windows(inner.frame.len()).any(|window| window == inner.frame));
                // What strict mode accepts, tolerant mode accepts the same way.
                if let Ok(strict) = outer.decap(ReservedBits::Refuse) {
                    prop_assert_eq!((strict.vni, strict.ovn), (inner.vni, inner.ovn));
                }
            }
        }
    }
}
