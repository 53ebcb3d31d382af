//! A whole frame, outer and inner: the headers that were walked are emitted to the bytes they came
//! from, and what the tunnel end point accepts agrees with the walk.

#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use overlane_wire::outer::{self, Encapsulation, EndPoint};
use overlane_wire::packet::{Header, TunnelPorts, walk};
use overlane_wire::{ReservedBits, geneve, vxlan};

fuzz_target!(|frame: &[u8]| {
    let packet = walk(frame, TunnelPorts::default());
    let vtep: IpAddr = match packet.headers.get(1) {
        Some(Header::Ipv4(view)) => view.destination().into(),
        Some(Header::Ipv6(view)) => view.destination().into(),
        _ => return,
    };
    for (encapsulation, port) in [
        (Encapsulation::Vxlan, vxlan::PORT),
        (Encapsulation::Geneve, geneve::PORT),
    ] {
        let end_point = EndPoint {
            vtep,
            encapsulation,
            port,
        };
        let Ok(Some(outer)) = outer::parse(frame, &end_point) else {
            continue;
        };
        let Ok(inner) = outer.decap(ReservedBits::Ignore) else {
            continue;
        };
        // Ethernet, IP, UDP, tunnel.
        let vni = match packet.headers.get(3) {
            Some(Header::Vxlan(view)) => view.vni(),
            Some(Header::Geneve(view)) => view.vni(),
            _ => panic!("a tunnel packet without a tunnel header"),
        };
        assert_eq!(vni, inner.vni.get());
        if let Some(Header::Ethernet(view)) = packet.headers.get(4) {
            assert_eq!(inner.frame[..6], view.destination().get());
        }
    }

    // Emitted headers in place of the original ones: the walk finds the same again. What changes
    // is only what a receiver ignores.
    let mut emitted = Vec::new();
    for header in &packet.headers {
        if header.emit_to(&mut emitted).is_err() {
            return; // VNI 0
        }
    }
    emitted.extend(&frame[emitted.len()..]);
    let again = walk(&emitted, TunnelPorts::default());
    assert_eq!(again.headers.len(), packet.headers.len());
    assert_eq!(again.error, packet.error);
    assert_eq!(again.payload, packet.payload);
    for (one, other) in packet.headers.iter().zip(&again.headers) {
        assert_eq!(std::mem::discriminant(one), std::mem::discriminant(other));
    }
});
