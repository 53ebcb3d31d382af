//! TCP and UDP: what parses is emitted byte for byte (TCP but for its reserved bits), and a
//! checksum we compute verifies.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, tcp, udp};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fuzz_target!(|bytes: &[u8]| {
    if let Ok(view) = udp::View::new_checked(bytes) {
        let header = udp::Header::parse(&view);
        assert_eq!(header.to_bytes(), bytes[..udp::LEN]);
        assert_eq!(udp::LEN + view.payload().len(), usize::from(view.length()));
        let summed = header.with_checksum(V6, V6, view.payload());
        let datagram = [&summed.to_bytes(), view.payload()].concat();
        let again = udp::View::new_checked(&datagram).expect("our own header");
        assert!(again.checksum().is_some() && again.checksum_is_right(V6, V6));
    }
    if let Ok(view) = tcp::View::new_checked(bytes) {
        let header = tcp::Header::parse(&view);
        let mut expected = bytes[..view.header_len()].to_vec();
        expected[12] &= 0xf0; // reserved bits
        assert_eq!(header.to_bytes(), expected);
        assert_eq!(view.header_len() + view.payload().len(), bytes.len());
        let options: Vec<u8> = view
            .options()
            .iter()
            .flat_map(|option| option.to_bytes())
            .collect();
        assert!(view.options().bytes().starts_with(&options));
        let summed = header.with_checksum(V4, V4, view.payload());
        let segment = [&summed.to_bytes(), view.payload()].concat();
        let again = tcp::View::new_checked(&segment).expect("our own header");
        assert!(again.checksum_is_right(V4, V4));
    }
});
