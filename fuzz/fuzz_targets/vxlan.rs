//! VXLAN: a header without reserved bits is emitted byte for byte; with them, only they are
//! cleared; strict and tolerant receivers differ in nothing else.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, ReservedBits, vxlan};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = vxlan::View::new_checked(bytes) else {
        assert!(bytes.len() < vxlan::LEN || bytes[0] & 0x08 == 0);
        return;
    };
    let tolerant = view.receive(ReservedBits::Ignore);
    assert_eq!(tolerant.is_err(), view.vni() == 0);
    if view.has_reserved_bits() {
        assert!(view.receive(ReservedBits::Refuse).is_err());
    } else {
        assert_eq!(view.receive(ReservedBits::Refuse), tolerant);
    }
    let Ok(header) = vxlan::Header::parse(&view) else {
        return;
    };
    let mut expected = bytes[..vxlan::LEN].to_vec();
    expected[..4].copy_from_slice(&[0x08, 0, 0, 0]);
    expected[7] = 0;
    assert_eq!(header.to_bytes(), expected);
    assert_eq!(expected == bytes[..vxlan::LEN], !view.has_reserved_bits());
});
