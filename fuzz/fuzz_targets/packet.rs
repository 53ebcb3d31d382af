//! A whole frame, outer and inner: the headers that were walked are emitted to the bytes they came
//! from, and what the tunnel end point accepts agrees with the walk.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::outer::{self, Encapsulation};
use overlane_wire::packet::{Header, TunnelPorts, walk};
use overlane_wire::{ReservedBits, geneve, vxlan};

fuzz_target!(|frame: &[u8]| {
    let packet = walk(frame, TunnelPorts::default());
    for encapsulation in [Encapsulation::Vxlan, Encapsulation::Geneve] {
        let port = match encapsulation {
            Encapsulation::Vxlan => vxlan::PORT,
            Encapsulation::Geneve => geneve::PORT,
        };
        let Ok(Some(outer)) = outer::parse(frame, encapsulation, port) else {
            continue;
        };
        let Ok(inner) = outer.decap(ReservedBits::Ignore) else {
            continue;
        };
        // Ethernet, IP, UDP, tunnel, inner Ethernet.
        assert!(packet.headers.len() >= 5);
        let vni = match &packet.headers[3] {
            Header::Vxlan(view) => view.vni(),
            Header::Geneve(view) => view.vni(),
            _ => panic!("a tunnel packet without a tunnel header"),
        };
        assert_eq!(vni, inner.vni.get());
        let Header::Ethernet(view) = &packet.headers[4] else {
            panic!("no inner frame")
        };
        assert_eq!(view.source(), inner.ethernet.source());
        assert_eq!(view.tags(), inner.ethernet.tags());
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
